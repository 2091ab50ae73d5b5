#!/usr/bin/env python3
"""How long a chunk of 4 KiB takes from its arrival at a stream's server to the end of a kernel on another server: edge_chunk.py [--rounds N]
[--device LIBRARY]

All is on this machine, servers on loopback. What is compared takes turns; medians of the rounds. Needs what `make build` and `make -C examples` have
built.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import threading

from edge_net import BUILT, ROPEWAY
from share import native_vendors

DEVICES = """
[[source]]
name = "Chunks"
fifo = "{fifo}"
format = "bytes"
chunk = 4096
"""


class Server:
    def __init__(self, env, *args):
        command = [ROPEWAY, "serve", "--listen", "tcp://127.0.0.1:0", "--no-sandbox=groups", *args]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.url = line.split()[2]
            if line == "ready\n":
                break
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def end(self):
        self.process.terminate()
        self.process.wait()


def ask(env, servers, *args):
    command = [ROPEWAY, "run", "--only", *[word for server in servers for word in ("--server", server.url)], "--"] if servers else []
    done = subprocess.run([*command, BUILT / "edge_chunk", *args], env=env, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"edge_chunk {' '.join(args)}: {done.stderr}")
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", help="the OpenCL library that runs the kernel, there and natively [those of this machine]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ropeway-") as folder:
        folder = pathlib.Path(folder)
        env = {**os.environ, "OCL_ICD_VENDORS": native_vendors(folder / "vendors"), "POCL_CACHE_DIR": str(folder / "pocl")}
        env.update(HOME=str(folder), XDG_STATE_HOME=str(folder), XDG_CACHE_HOME=str(folder), ROPEWAY_CONNECT_TIMEOUT="20")
        device_env = {**env, "OCL_ICD_VENDORS": native_vendors(folder / "device", options.device)}
        fifo, devices = folder / "chunks", folder / "devices.toml"
        os.mkfifo(fifo)
        devices.write_text(DEVICES.format(fifo=fifo))
        servers = []
        try:
            servers += [Server(env, "--custom", str(devices)), Server(device_env)]
            asked = {"raw": ([], "raw"), "kernel": ([], "kernel"), "here": (servers, "here", str(fifo)), "there": (servers, "there", str(fifo)), "end": (servers, "end", str(fifo))}
            found = {name: [] for name in asked}
            for _ in range(options.rounds):
                for name, (of, *args) in asked.items():
                    found[name].append(ask(device_env, of, *args))
        finally:
            for server in servers:
                server.end()
    raw, kernel, here, there, end = (statistics.median(values) for values in found.values())
    print(f"a chunk of 4 KiB, from its arrival to the end of its command, as the client learns of it: {here:.0f} us;")
    print(f"to its kernel's end on another server: {end:.0f} us by the device's clock, {there:.0f} us as the client learns of it;")
    rows = ", ".join(f"{(time - kernel) / raw:.1f}" for time in (end, there))
    print(f"the kernel natively {kernel:.0f} us, a raw round trip {raw:.0f} us: native and {rows} round trips")


if __name__ == "__main__":
    main()
