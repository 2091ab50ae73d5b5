#!/usr/bin/env python3
"""Runs the point cloud in all its modes, at a client that has one weak core and a link that is slow and long, and prints and draws what each
frame costs there: edge.py FIGURE.svg [--sizes MOST...] [--share PERCENT] [--rate RATE] [--away MILLISECONDS] [--frames N] [--rounds N]

The client, the stream's server and the server that sorts and paints are network namespaces of this machine (as root). Needs what `make build`,
`make draco` and `make -C examples` have built.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from edge_figure import drawing
from edge_net import BUILT, ROPEWAY, Loopback, Net
from share import Share, native_vendors

MODES = ["local", "sort", "paint", "peer", "size"]
# The same with frames that the client has decoded already, as by a decoder of its hardware.
DECODED = ["local, decoded", "sort, decoded"]
DEVICES = """
[[source]]
name = "Point cloud"
file = "{stream}"
format = "frames"
loop = true

[[draco]]
name = "Draco"
"""


class Figures:
    """The setting in which the modes run."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.env = {**os.environ, "OCL_ICD_VENDORS": native_vendors(folder / "vendors"), "POCL_CACHE_DIR": str(folder / "pocl")}
        self.env.update(HOME=str(folder), XDG_STATE_HOME=str(folder), XDG_CACHE_HOME=str(folder))
        # The client has one core, and so PoCL one thread there; quotas in short periods, as long ones make it stand still.
        self.client_env = {**self.env, "POCL_MAX_PTHREAD_COUNT": "1", "ROPEWAY_CONNECT_TIMEOUT": "20"}
        self.painter_env = {**self.env, "OCL_ICD_VENDORS": native_vendors(folder / "painter", options.painter)}
        self.share = Share(options.share, 100_000 // max(options.share, 1))
        self.core = max(os.sched_getaffinity(0))

    def stream(self, most, bits):
        path = self.folder / f"{most}-{bits}.frames"
        if not path.exists():
            subprocess.run([BUILT / "make_cloud", path, str(most), "64", str(bits)], check=True, stdout=subprocess.DEVNULL)
        return path

    def run(self, net, mode, urls, most, stream, frames, is_weak=True):
        """What one run has cost; the hashes of its pictures, if the client is not weak."""
        figures = self.folder / "figures.json"
        weak = [*self.share.group(0), "taskset", "-c", str(self.core)] if is_weak else []
        command = [*weak, *net.at_client([ROPEWAY, "run"])]
        for url in urls:
            command += ["--server", url]
        command += ["--", BUILT / "pointcloud", mode, "--own", self.options.own, "--offload", "Ropeway", "--most", str(most), "--ahead", str(self.options.ahead)]
        command += ["--frames", str(frames), "--warm", "8", "--figures", figures] + ["--hashes"] * (not is_weak)
        command += ["--stream", stream] if mode in ("local", "sort", "paint") else []
        done = subprocess.run(command, env=self.client_env, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            logs = "\n".join(f"{name}: {log.read_text()[-2000:]}" for name, log in net.logs.items())
            raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr}\n{logs}")
        return json.loads(figures.read_text()), done.stdout

    def size(self, most):
        """The medians of all modes for clouds of this size."""
        path, decoded = self.stream(most, 12), self.stream(most, 0)
        net = Loopback() if self.options.loopback else Net(["gpu", "stream"], self.options.rate, self.options.away)
        try:
            devices = self.folder / "devices.toml"
            devices.write_text(self.options.custom.read_text() if self.options.custom else DEVICES.format(stream=path))
            urls = [net.serve("gpu", self.painter_env), net.serve("stream", self.env, "--custom", str(devices))]
            sent, sender = net.send("stream", path)
            # The first turn only compiles kernels, at full speed, and compares the pictures.
            pictures = {mode: self.run(net, mode, urls, most, sent, 24, is_weak=False)[1] for mode in MODES}
            if len(set(pictures.values())) != 1:
                raise SystemExit(f"the pictures differ: {pictures}")
            found = {mode: [] for mode in MODES + DECODED}
            for _ in range(self.options.rounds):
                for mode, costs in found.items():
                    stream = decoded if mode in DECODED else sent
                    frames = self.options.frames * (2 if mode in ("peer", "size") else 1)
                    costs.append(self.run(net, mode.split(",")[0], urls, most, stream, frames)[0])
            net.end(sender)
            return {mode: {key: statistics.median(cost[key] for cost in costs) for key in costs[0] if key != "what"} for mode, costs in found.items()}
        finally:
            net.close()


def table(sizes):
    lines = ["| points | mode | frames/s | times local | client's processor, ms a frame | of local | bytes in, out a frame | shown after, ms |"]
    lines.append("|---:|---|---:|---:|---:|---:|---:|---:|")
    for most, modes in sizes.items():
        for mode, cost in modes.items():
            local = modes["local, decoded" if mode in DECODED else "local"]
            rate, base = cost["frames"] / cost["seconds"], local["frames"] / local["seconds"]
            lines.append(
                f"| {most:,} | `{mode}` | {rate:.1f} | {rate / base:.1f} | {cost['processor_ms']:.2f} | 1/{local['processor_ms'] / cost['processor_ms']:.1f} "
                f"| {cost['bytes_in']:,.0f}, {cost['bytes_out']:,.0f} | {cost['latency_ms']:.0f} |"
            )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", type=pathlib.Path)
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 50_000, 200_000], metavar="MOST")
    parser.add_argument("--share", type=int, default=10, help="of a processor for the client, in percent")
    parser.add_argument("--rate", default="100mbit", help="of the client's link, each way, in words of tc")
    parser.add_argument("--away", type=float, default=5.0, help="milliseconds that its link takes, each way")
    parser.add_argument("--ahead", type=int, default=6, help="frames that are under way at a time")
    parser.add_argument("--frames", type=int, default=64, help="of each run; twice as many where another server decodes them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--painter", help="the OpenCL library of the server that sorts and paints [those of this machine]")
    parser.add_argument("--own", default="Portable", help="the client's own platform, by a part of its name")
    parser.add_argument("--loopback", action="store_true", help="no namespaces: links are neither slow nor long, and bytes are not counted")
    parser.add_argument("--custom", type=pathlib.Path, help="the stream server's custom devices, if not those of the example")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ropeway-") as folder:
        figures = Figures(options, pathlib.Path(folder))
        try:
            sizes = {}
            for most in options.sizes:
                sizes[most] = figures.size(most)
                print(table({most: sizes[most]}), flush=True)
        finally:
            figures.share.close()
    link = "loopback" if options.loopback else f"{options.rate} and {options.away:g} ms each way"
    about = f"A client with {options.share} % of a core, {link}; {options.ahead} frames under way"
    options.figure.write_text(drawing(sizes, about))


if __name__ == "__main__":
    main()
