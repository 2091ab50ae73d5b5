#!/usr/bin/env python3
"""Runs the cameras with a client whose link is slow and long, and prints what each frame costs there: edge_camera.py [--rate RATE]
[--away MILLISECONDS] [--frames N] [--merger LIBRARY] [--scenes FOLDER] [--loopback]

The cameras' servers, the one that merges, and the client are network namespaces of this machine (as root). Needs what `make build` and
`make -C examples` have built, and ffmpeg with libx264 for scenes that are not there yet.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

from edge_net import BUILT, ROOT, ROPEWAY, Loopback, Net
from share import native_vendors

DEVICES = """
[[source]]
name = "{name}"
file = "{scene}"
format = "h264"
loop = true

[[decoder]]
name = "Decoder"
codecs = ["h264"]
threads = 1
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="10mbit", help="of the client's link, each way, in words of tc")
    parser.add_argument("--away", type=float, default=20.0, help="milliseconds that its link takes, each way")
    parser.add_argument("--frames", type=int, default=960)
    parser.add_argument("--merger", help="the OpenCL library of the server that merges [those of this machine]")
    parser.add_argument("--scenes", type=pathlib.Path, help="a folder that has gate.h264 and yard.h264, or gets them")
    parser.add_argument("--loopback", action="store_true", help="no namespaces: links are neither slow nor long, and bytes are not counted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ropeway-") as folder:
        folder = pathlib.Path(folder)
        env = {**os.environ, "OCL_ICD_VENDORS": native_vendors(folder / "vendors"), "POCL_CACHE_DIR": str(folder / "pocl")}
        env.update(HOME=str(folder), XDG_STATE_HOME=str(folder), XDG_CACHE_HOME=str(folder), ROPEWAY_CONNECT_TIMEOUT="20")
        merger_env = {**env, "OCL_ICD_VENDORS": native_vendors(folder / "merger", options.merger)}
        scenes = {name: (options.scenes or folder).resolve() / f"{name}.h264" for name in ("gate", "yard")}
        if not all(scene.exists() for scene in scenes.values()):
            subprocess.run([ROOT / "examples/camera/scenes.sh", *scenes.values()], check=True)
        net = Loopback() if options.loopback else Net([*scenes, "third"], options.rate, options.away)
        try:
            urls = []
            for name, scene in scenes.items():
                devices = folder / f"{name}.toml"
                devices.write_text(DEVICES.format(name=name, scene=scene))
                urls.append(net.serve(name, env, "--custom", str(devices)))
            urls.append(net.serve("third", merger_env))
            servers = [word for url in urls for word in ("--server", url)]
            print("| steps in a batch | steps/s | bytes for each frame, in and out | known after, ms |\n|---:|---:|---:|---:|")
            for batch in (1, 8, 32):
                figures = folder / "figures.json"
                command = net.at_client([ROPEWAY, "run", "--only", *servers, "--", BUILT / "camera", "--quiet", "--warm", "64"])
                command += ["--frames", str(options.frames), "--batch", str(batch), "--figures", figures]
                subprocess.run(command, env=env, check=True, stderr=subprocess.DEVNULL, timeout=300)
                cost = json.loads(figures.read_text())
                # A step has a frame of each camera.
                went = [round(cost[way] / len(scenes)) for way in ("bytes_in", "bytes_out")]
                print(f"| {batch} | {cost['frames'] / cost['seconds']:.0f} | {went[0]}, {went[1]} | {cost['latency_ms']:.0f} |", flush=True)
        finally:
            net.close()


if __name__ == "__main__":
    main()
