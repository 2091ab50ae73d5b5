#!/usr/bin/env python3
"""From a chunk's arrival at its source to the end of its kernel on another server: 4 KiB, beside the floor of the machine.

    bench/chunk.py [--rounds 5] [--count 500] [--icd FILE]        after `make build`; a C compiler is needed

Two servers of this machine: a FIFO is the stream of the first, the kernel runs on the second one's device. Both commands are enqueued before the chunk
comes. The time ends when the program knows that the kernel has ended. Beside it, by turns: the kernel alone, natively, and a raw round trip over loopback; all from
rest, as a chunk that comes now and then finds the machine so. The reach is the native kernel and three round trips.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ROPEWAY = OUT / "release/ropeway"


class Server:
    """A server on a free port, in `native`'s environment."""

    def __init__(self, native, *arguments):
        command = [ROPEWAY, "serve", "--listen", "tcp://127.0.0.1:0", *arguments]
        self.process = subprocess.Popen(command, env=native, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().split()[-1]
        self.process.stdout.readline()

    def end(self):
        self.process.terminate()
        self.process.wait()


def figures(command, environment):
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=300).stdout
    return [float(word) for word in said.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--icd", type=Path, help="the native implementation [default: those of this machine]")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ropeway-") as name:
        folder = Path(name)
        program, fifo, table = folder / "custom_latency", folder / "fifo", folder / "custom.toml"
        source = ROOT / "tests/c/custom_latency.c"
        subprocess.run(["cc", "-O2", "-std=gnu11", "-o", program, source, "-I", ROOT / "include", "-lOpenCL"], check=True)
        os.mkfifo(fifo)
        table.write_text(f'[[source]]\nname = "stream"\nfifo = "{fifo}"\nformat = "bytes"\nchunk = 4096\n')
        native = dict(os.environ)
        if asked.icd:
            (folder / "icd").mkdir()
            (folder / "icd/native.icd").write_text(asked.icd.read_text())
            native["OCL_ICD_VENDORS"] = str(folder / "icd")
        servers = []
        try:
            servers += [Server(native, "--custom", table), Server(native)]
            # Their workers warm up.
            time.sleep(3)
            run = [ROPEWAY, "run", "--server", ",".join(server.url for server in servers), "--only", "--"]
            count, rows = str(asked.count), []
            for _ in range(asked.rounds):
                rows.append((
                    figures([*run, program, "chunk", fifo, count], os.environ)[0],
                    figures([program, "kernel", count], native)[0],
                    figures([program, "trip", count], native)[0],
                ))
                time.sleep(1)
        finally:
            for server in servers:
                server.end()
    chunk, kernel, trip = (statistics.median(column) for column in zip(*rows))
    most = kernel + 3 * trip
    print("| chunk to kernel's end | native kernel | raw round trip | native + 3 round trips | of that |")
    print("|---:|---:|---:|---:|---:|")
    print(f"| {chunk:.0f} us | {kernel:.0f} us | {trip:.0f} us | {most:.0f} us | {chunk / most:.2f} |")


if __name__ == "__main__":
    main()
