#!/usr/bin/env python3
"""Draws the Mandelbrot set with 1 to 4 servers on this machine, and beside that with as many MPI processes, and draws how much faster it gets:
speedup.py FIGURE.svg [--size WIDTH HEIGHT ITERATIONS] [--share PERCENT] [--most N]

So that the machine's few processors do not decide, each server and each MPI process is held to the same share of one processor with
a control group (as root). Needs what `make build` and `make -C examples` have built.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from share import Share, native_vendors

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ROPEWAY = TARGET / "release/ropeway"
BUILT = TARGET / "examples"


def seconds(text):
    """The time that a program has printed, which is never nothing."""
    return max(float([line for line in text.splitlines() if line.endswith(" s")][-1].split()[0]), 0.001)


def run(command, env):
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return seconds(done.stderr)


def with_servers(count, share, size, folder, env):
    """The time on so many servers, and the picture."""
    servers = []
    try:
        for number in range(count):
            command = [*share.group(number), ROPEWAY, "serve", "--listen", "tcp://127.0.0.1:0", "--warm", "1"]
            servers.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        urls = []
        for server in servers:
            for line in server.stdout:
                if line.startswith("listening on "):
                    urls.append(line.split()[-1])
                if line == "ready\n":
                    break
        picture = folder / f"servers{count}.png"
        chosen = [part for url in urls for part in ["--server", url]]
        command = [ROPEWAY, "run", "--only", *chosen, "--", BUILT / "mandelbrot_devices", picture, *size]
        # Kernels are compiled, and in the servers' caches, before anything counts.
        run([*command[:-1], "1"], env)
        return run(command, env), picture.read_bytes()
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait()


def with_mpi(count, share, size, folder, env):
    """The time of so many MPI processes, and the picture."""
    picture = folder / f"mpi{count}.png"
    command = ["mpirun", "--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    for number in range(count):
        part = [*share.group(number), BUILT / "mandelbrot_mpi", picture, *size]
        command += [":"] * (number > 0) + ["-n", "1", *part]
    return run(command, env), picture.read_bytes()


def figure(rows, about):
    """The times as a drawing."""
    most = max(count for count, *_ in rows)
    ratios = [rows[0][column] / row[column] for row in rows for column in (1, 2) if row[column] is not None]
    highest = max(most, *ratios)
    left, top, wide, high = 60, 40, 480, 320

    def at(count, faster):
        return f"{left + wide * (count - 1) / max(most - 1, 1):.1f},{top + high * (1 - (faster - 1) / max(highest - 1, 1)):.1f}"

    def line(colour, dash, points):
        return f'<polyline fill="none" stroke="{colour}" stroke-width="2" {dash} points="{" ".join(points)}"/>'

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 40}" height="{top + high + 70}" font-family="sans-serif" font-size="14">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="24">Mandelbrot, {about}: how many times as fast as alone</text>',
        f'<rect x="{left}" y="{top}" width="{wide}" height="{high}" fill="none" stroke="#999"/>',
        line("#999", 'stroke-dasharray="4 4"', [at(1, 1), at(most, most)]),
    ]
    for count in range(1, most + 1):
        x, y = at(count, count).split(",")
        out.append(f'<text x="{x}" y="{top + high + 20}" text-anchor="middle">{count}</text>')
        out.append(f'<text x="{left - 10}" y="{y}" text-anchor="end">{count}</text>')
    for name, column, colour, legend in [("servers, one context", 1, "#1a66cc", 0), ("MPI + OpenCL", 2, "#cc4411", 1)]:
        points = [(row[0], row[column]) for row in rows if row[column] is not None]
        if points:
            out.append(line(colour, "", [at(count, points[0][1] / time) for count, time in points]))
            x = left + 10 + 200 * legend
            out.append(f'<text x="{x}" y="{top + high + 50}" fill="{colour}">{name}: {points[0][1]:.1f} s alone</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", type=pathlib.Path)
    parser.add_argument("--size", nargs=3, default=["2400", "1600", "2000"], metavar=("WIDTH", "HEIGHT", "ITERATIONS"))
    parser.add_argument("--share", type=int, default=25, help="of a processor for each, in percent; 100: no limit")
    parser.add_argument("--most", type=int, default=4, help="servers and processes at the most")
    options = parser.parse_args()
    mpi = shutil.which("mpirun") is not None and (BUILT / "mandelbrot_mpi").exists()
    share, rows = Share(options.share), []
    with tempfile.TemporaryDirectory(prefix="ropeway-") as folder:
        folder = pathlib.Path(folder)
        env = {**os.environ, "OCL_ICD_VENDORS": native_vendors(folder / "vendors"), "POCL_CACHE_DIR": str(folder / "pocl")}
        # One thread for each device, as each has the share of one processor.
        env["POCL_MAX_PTHREAD_COUNT"] = "1"
        try:
            print("devices  servers   faster  MPI + OpenCL   faster")
            pictures = set()
            for count in range(1, options.most + 1):
                time, picture = with_servers(count, share, options.size, folder, env)
                pictures.add(picture)
                other = None
                if mpi:
                    other, picture = with_mpi(count, share, options.size, folder, env)
                    pictures.add(picture)
                rows.append((count, time, other))
                line = f"{count:7}  {time:5.2f} s  {rows[0][1] / time:7.2f}"
                print(line + (f"  {other:10.2f} s  {rows[0][2] / other:7.2f}" if mpi else ""), flush=True)
        finally:
            share.close()
    if len(pictures) != 1:
        sys.exit("the pictures differ")
    held = f", each held to {options.share} % of a processor" if share.base else ""
    options.figure.write_text(figure(rows, f"{options.size[0]} x {options.size[1]}{held}"))


main()
