#!/usr/bin/env python3
"""What becomes of a program when its machine's link changes while it runs: edge_roam.py

A client watches a point cloud (mode `size`) over a link of 100 Mbit/s that takes 5 ms each way. Then that link goes down, and there is another one:
once with the same address, as when a machine goes from one access point to the next, or has a tunnel whose ends stay; and once with another address.
Prints what the program saw, and after how long. The machines are network namespaces of this one (as root). Needs what `make build`, `make draco` and
`make -C examples` have built.
"""

import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

from edge import DEVICES
from edge_net import BUILT, ROPEWAY, Net, order
from share import native_vendors

MOST, BEFORE = 20_000, 60


class Viewer:
    """The program at the client. Each frame that it shows is noted with its time."""

    def __init__(self, net, urls, env):
        command = net.at_client([ROPEWAY, "run", "--only"])
        for url in urls:
            command += ["--server", url]
        command += ["--", BUILT / "pointcloud", "size", "--most", str(MOST), "--frames", "1000000", "--hashes"]
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.frames = queue.Queue()
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        for _ in self.process.stdout:
            self.frames.put(time.monotonic())
        self.frames.put(None)

    def frame(self, limit=120):
        """When the next frame was shown; None if there is none any more."""
        return self.frames.get(timeout=limit)

    def end(self):
        self.process.terminate()
        self.process.wait()

    def said(self):
        self.errors.seek(0)
        return self.errors.read().strip().splitlines()[-3:]


def first_frame(net, urls, env):
    """How long a program takes from its start to its first frame."""
    begin = time.monotonic()
    viewer = Viewer(net, urls, env)
    shown = viewer.frame()
    viewer.end()
    if shown is None:
        raise SystemExit(f"the program shows nothing: {viewer.said()}")
    return shown - begin


def change(net, keeps):
    """Takes the client's first link down, and lets it go on over the second one."""
    client = net.client
    order(f"ip -n {client} address flush dev net0", f"ip -n {client} link set net0 down")
    # The machines around learn at once where the address is now.
    subprocess.run(["ip", "netns", "exec", client, "sysctl", "-qw", "net.ipv4.conf.net1.arp_notify=1"], check=True)
    order(f"ip -n {client} address add {'10.9.0.1' if keeps else '10.9.0.2'}/24 dev net1", f"ip -n {client} link set net1 down", f"ip -n {client} link set net1 up")


def run(keeps, env, folder, stream):
    net = Net(["gpu", "stream"], "100mbit", 5.0)
    try:
        devices = folder / "devices.toml"
        devices.write_text(DEVICES.format(stream=stream))
        urls = [net.serve("gpu", env), net.serve("stream", env, "--custom", str(devices))]
        first_frame(net, urls, env)
        net.link("net1")
        viewer = Viewer(net, urls, env)
        for _ in range(BEFORE):
            viewer.frame()
        changed = time.monotonic()
        change(net, keeps)
        moved = time.monotonic() - changed
        print(f"{'the same' if keeps else 'another'} address on the other link (changed within {moved * 1e3:.0f} ms):")
        shown, gap, after = changed, 0, 0
        while after < BEFORE:
            last, shown = shown, viewer.frame()
            if shown is None:
                break
            gap = max(gap, shown - last)
            # Frames that were here already may be shown for a while.
            after += shown - changed > 1
        if shown is None:
            viewer.process.wait()
            took = time.monotonic() - changed
            print(f"  the program ended with status {viewer.process.returncode} after {took:.1f} s:", *viewer.said(), sep="\n    ")
        else:
            print(f"  it goes on in the same session; it showed nothing for {gap:.2f} s")
            viewer.end()
        print(f"  a program that is started anew shows its first frame after {first_frame(net, urls, env):.2f} s")
        return shown is not None
    finally:
        net.close()


def main():
    with tempfile.TemporaryDirectory(prefix="ropeway-") as folder:
        folder = pathlib.Path(folder)
        env = {**os.environ, "OCL_ICD_VENDORS": native_vendors(folder / "vendors"), "POCL_CACHE_DIR": str(folder / "pocl")}
        env.update(HOME=str(folder), XDG_STATE_HOME=str(folder), XDG_CACHE_HOME=str(folder), ROPEWAY_CONNECT_TIMEOUT="20")
        stream = folder / "cloud.frames"
        subprocess.run([BUILT / "make_cloud", stream, str(MOST), "64"], check=True, stdout=subprocess.DEVNULL)
        outcomes = [run(keeps, env, folder, stream) for keeps in (True, False)]
    sys.exit(0 if outcomes == [True, False] else 1)


if __name__ == "__main__":
    main()
