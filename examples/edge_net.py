"""Machines as network namespaces: servers on a bridge, and a client behind a link that is slow and long."""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ROPEWAY = TARGET / "release/ropeway"
BUILT = TARGET / "examples"


def order(*commands):
    for command in commands:
        done = subprocess.run(command.split(), capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(f"{command}: {done.stderr.strip()}")


class Machines:
    """Servers and senders, which end when this is closed."""

    def __init__(self):
        self.running, self.logs = [], {}
        self.folder = tempfile.TemporaryDirectory(prefix="ropeway-")

    def start_server(self, name, prefix, url, env, args):
        """Starts a server behind `prefix`; gives its URL once it is warm."""
        self.logs[name] = log = pathlib.Path(self.folder.name) / f"{name}.log"
        command = [*prefix, ROPEWAY, "serve", "--listen", url, "--no-sandbox=groups", "--warm", "1", *args]
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log.open("w"), text=True)
        self.running.append(process)
        for line in process.stdout:
            if line.startswith("listening on "):
                url = line.split()[2]
            if line == "ready\n":
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return url
        raise OSError(f"the server '{name}' does not start: {log.read_text()}")

    def start_sender(self, prefix, path, address, port):
        """Sends a stream's file to whoever connects, over and over; gives where, and the process."""
        code = "import sys; sys.path.insert(0, sys.argv[1]); import edge_net; edge_net.sender(sys.argv[2], sys.argv[3], int(sys.argv[4]))"
        command = [*prefix, sys.executable, "-c", code, str(ROOT / "examples"), str(path), address, str(port)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.running.append(process)
        said = process.stdout.readline().split()
        if len(said) != 2 or said[0] != "ready":
            raise OSError("the stream is not sent")
        return f"{address}:{said[1]}", process

    def end(self, process):
        process.terminate()
        process.wait()
        self.running.remove(process)

    def close(self):
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.wait()
        self.folder.cleanup()


class Loopback(Machines):
    """All on this machine, where no namespaces can be made: links are neither slow nor long, and nobody counts their bytes."""

    def at_client(self, command):
        return command

    def serve(self, name, env, *args):
        return self.start_server(name, [], "tcp://127.0.0.1:0", env, args)

    def send(self, name, path):
        return self.start_sender([], path, "127.0.0.1", 0)


class Net(Machines):
    """The client is 10.9.0.1 on its first link; each link of its is held to `rate` and takes `away` milliseconds in each direction. Servers
    are 10.9.0.11 and so on, by their names. Everything is gone when it is closed."""

    def __init__(self, servers, rate="100mbit", away=5.0):
        super().__init__()
        self.prefix = f"rwedge{os.getpid()}"
        self.rate, self.away = rate, away
        self.spaces = []
        try:
            self.switch, self.client = self.space("switch"), self.space("client")
            order(f"ip -n {self.switch} link add bridge type bridge", f"ip -n {self.switch} link set bridge up")
            self.addresses = {}
            for number, name in enumerate(servers):
                space, address = self.space(name), f"10.9.0.{11 + number}"
                order(
                    f"ip -n {self.switch} link add port{number} type veth peer name net0 netns {space}",
                    f"ip -n {self.switch} link set port{number} master bridge up",
                    f"ip -n {space} address add {address}/24 dev net0",
                    f"ip -n {space} link set net0 up",
                )
                self.addresses[name] = address
            self.link("net0", "10.9.0.1/24")
        except BaseException:
            self.close()
            raise

    def space(self, name):
        name = f"{self.prefix}-{name}"
        order(f"ip netns add {name}")
        self.spaces.append(name)
        quiet = ["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]
        subprocess.run(["ip", "netns", "exec", name, *quiet], capture_output=True)
        order(f"ip -n {name} link set lo up")
        return name

    def link(self, device, address=None):
        """Gives the client a link of this name to the servers' bridge, with this address, if one is given."""
        far = f"far-{device}"
        command = [BUILT / "edge_link", self.client, device, self.switch, far, str(int(self.away * 1000))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.running.append(process)
        if process.stdout.readline() != "ready\n":
            raise OSError("the link does not start")
        order(
            f"ip -n {self.switch} link set {far} master bridge up",
            *([f"ip -n {self.client} address add {address} dev {device}"] if address else []),
            f"ip -n {self.client} link set {device} up",
        )
        for space, name in [(self.client, device), (self.switch, far)]:
            order(f"tc -n {space} qdisc add dev {name} root tbf rate {self.rate} burst 64kb latency 100ms")
        return process

    def at_client(self, command):
        """This command, to be run at the client."""
        return ["ip", "netns", "exec", self.client, *command]

    def serve(self, name, env, *args):
        url = f"tcp://{self.addresses[name]}:7590"
        return self.start_server(name, ["ip", "netns", "exec", f"{self.prefix}-{name}"], url, env, ["--plaintext-network", *args])

    def send(self, name, path):
        return self.start_sender(["ip", "netns", "exec", f"{self.prefix}-{name}"], path, self.addresses[name], 7591)

    def close(self):
        super().close()
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)


def sender(path, address, port):
    data = pathlib.Path(path).read_bytes()
    listener = socket.create_server((address, port))
    print("ready", listener.getsockname()[1], flush=True)

    def serve(connection):
        try:
            while True:
                connection.sendall(data)
        except OSError:
            connection.close()

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
