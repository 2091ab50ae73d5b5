"""Shares of a processor for programs that are compared, and a machine's own OpenCL platforms without Ropeway's."""

import os
import pathlib
import shutil
import sys

PERIOD = 100_000  # microseconds


class Share:
    """A control group for each process; what is put into it gets so much of a processor, in every period of so many microseconds."""

    def __init__(self, percent, period=PERIOD):
        self.groups = []
        self.period = period
        self.percent = percent
        self.base = None
        if percent >= 100:
            return
        for base in [pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup")]:
            group = base / f"ropeway-share-{os.getpid()}"
            try:
                group.mkdir()
                known = [name for name in ["cpu.max", "cpu.cfs_quota_us"] if (group / name).exists()]
                group.rmdir()
            except OSError:
                continue
            if known:
                self.base = base
                return
        print("control groups cannot be made here: all share the machine's processors", file=sys.stderr)

    def group(self, number):
        """The group of this number, as a command that enters it and goes on with its arguments."""
        if self.base is None:
            return []
        group = self.base / f"ropeway-share-{os.getpid()}-{number}"
        if not group.exists():
            group.mkdir()
            quota = self.period * self.percent // 100
            if (group / "cpu.max").exists():
                (group / "cpu.max").write_text(f"{quota} {self.period}")
            else:
                (group / "cpu.cfs_period_us").write_text(str(self.period))
                (group / "cpu.cfs_quota_us").write_text(str(quota))
            self.groups.append(group)
        return ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]

    def close(self):
        for group in self.groups:
            try:
                group.rmdir()
            except OSError as error:
                print(f"{group} stays: {error}", file=sys.stderr)


def native_vendors(folder, library=None):
    """A folder of .icd files: of this OpenCL library alone, if one is named, or of the machine's without Ropeway's own."""
    folder.mkdir()
    if library is not None:
        (folder / "one.icd").write_text(f"{library}\n")
        return str(folder)
    for icd in pathlib.Path("/etc/OpenCL/vendors").glob("*.icd"):
        if "ropeway" not in icd.read_text():
            shutil.copy(icd, folder)
    return str(folder)
