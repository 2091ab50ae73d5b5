//! Machines of a network, as network namespaces: each with an address of its own, on a bridge in a namespace of its
//! own. Nothing of them touches the network of this machine.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::ops::Sub;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{notes, process};

/// The beginning of all namespaces' names; the id of the process that made them follows.
const PREFIX: &str = "rwproof";

/// A network; it is gone, with its machines, when dropped.
pub struct Net {
    switch: String,
    hosts: Vec<Host>,
}

/// A machine of a network.
#[derive(Clone, Debug)]
pub struct Host {
    namespace: String,
    switch: String,
    port: String,
    address: Ipv4Addr,
}

/// Traffic of a machine's link since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that came to the machine, with the headers of all layers.
    pub bytes_in: u64,
    /// Bytes that the machine sent.
    pub bytes_out: u64,
    /// Packets that came. A large one may count once for many small ones.
    pub packets_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Segments of TCP that the machine has sent again over any link. Nothing gets lost here, but what comes late may
    /// seem to be.
    pub resent: u64,
}

impl Traffic {
    /// Bytes of both directions.
    pub fn bytes(&self) -> u64 {
        self.bytes_in + self.bytes_out
    }
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            bytes_in: self.bytes_in - before.bytes_in,
            bytes_out: self.bytes_out - before.bytes_out,
            packets_in: self.packets_in - before.packets_in,
            packets_out: self.packets_out - before.packets_out,
            resent: self.resent - before.resent,
        }
    }
}

/// Runs a few lines of shell.
fn shell(script: &str) -> Result<String, String> {
    let run = Command::new("sh").args(["-ec", script]).stdin(Stdio::null()).output();
    let output = run.map_err(|error| format!("sh: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// Removes what processes have left that were killed before they could.
fn sweep() {
    let names = shell("ip netns list").unwrap_or_default();
    for name in names.lines().filter_map(|line| line.split_whitespace().next()) {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let owner = rest.split('-').next().and_then(|pid| pid.parse().ok());
        if owner.is_some_and(|pid| !process::is_alive(pid)) {
            // Another test may be sweeping, too.
            let _ = shell(&format!("ip netns del {name}"));
        }
    }
}

impl Net {
    /// Makes machines 10.0.0.1, 10.0.0.2 and so on.
    ///
    /// # Errors
    /// The thing that is missing: the right to make network namespaces, or the programs `ip` and `tc`.
    pub fn new(hosts: u8) -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        sweep();
        let name = format!("{PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let switch = format!("{name}-switch");
        // From here on, dropping it removes what there is.
        let mut net = Self { switch: switch.clone(), hosts: Vec::new() };
        // Without IPv6 nothing is on the links but what the programs send.
        let quiet = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 || true";
        let mut script = format!(
            "command -v tc >/dev/null || {{ echo 'there is no tc' >&2; exit 1; }}\nip netns add {switch}\n\
             ip netns exec {switch} {quiet}\nip -n {switch} link set lo up\n\
             ip -n {switch} link add bridge type bridge\nip -n {switch} link set bridge up\n"
        );
        for number in 1..=hosts {
            let (namespace, port) = (format!("{name}-{number}"), format!("port{number}"));
            let address = Ipv4Addr::new(10, 0, 0, number);
            let _ = write!(
                script,
                "ip netns add {namespace}\nip netns exec {namespace} {quiet}\nip -n {namespace} link set lo up\n\
                 ip -n {switch} link add {port} type veth peer name net0 netns {namespace}\n\
                 ip -n {switch} link set {port} master bridge up\n\
                 ip -n {namespace} address add {address}/24 dev net0\nip -n {namespace} link set net0 up\n"
            );
            net.hosts.push(Host { namespace, switch: switch.clone(), port, address });
        }
        shell(&script).map(|_| net)
    }

    /// Gives some machines, from the second on, a further network between them, which the first one is not on:
    /// 10.0.1.2, 10.0.1.3 and so on.
    pub fn add_inner(&self) {
        let switch = &self.switch;
        let mut script = format!("ip -n {switch} link add inner type bridge\nip -n {switch} link set inner up\n");
        for (number, host) in self.hosts.iter().enumerate().skip(1) {
            let (namespace, address) = (&host.namespace, host.inner_address());
            let _ = write!(
                script,
                "ip -n {switch} link add inner{number} type veth peer name net1 netns {namespace}\n\
                 ip -n {switch} link set inner{number} master inner up\n\
                 ip -n {namespace} address add {address}/24 dev net1\nip -n {namespace} link set net1 up\n"
            );
        }
        shell(&script).unwrap_or_else(|why| panic!("no inner network: {why}"));
    }

    /// Makes them, or notes that the test is skipped.
    ///
    /// # Panics
    /// Where they cannot be made although the user is root, or under CI: there it must work.
    pub fn or_skip(hosts: u8) -> Option<Self> {
        match Self::new(hosts) {
            Ok(net) => Some(net),
            Err(why) => {
                let may = rustix::process::geteuid().is_root() && !why.contains("not permitted");
                assert!(!may, "no network namespaces: {why}");
                notes::skipped(&format!("no network namespaces can be made here: {why}"));
                None
            }
        }
    }

    /// Machine `number`, the first of which is 0.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number]
    }

    /// All machines.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for namespace in self.hosts.iter().map(|host| &host.namespace).chain([&self.switch]) {
            // One that was not made cannot be removed.
            let _ = shell(&format!("ip netns del {namespace}"));
        }
    }
}

impl Host {
    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Its address in the inner network, where there is one.
    pub fn inner_address(&self) -> Ipv4Addr {
        let [a, b, _, d] = self.address.octets();
        Ipv4Addr::new(a, b, 1, d)
    }

    /// A command that runs `program` on it. Its process id is the program's own.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }

    /// Does something as a process of that machine: sockets that it makes are there, and stay there. Threads that it
    /// starts are, too.
    ///
    /// # Panics
    /// When `what` does.
    pub fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.namespace);
        let namespace = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        // A thread of its own, as it does not find back.
        let inside = || {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), network).unwrap_or_else(|error| panic!("{path}: {error}"));
            what()
        };
        std::thread::scope(|scope| scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// Does something with its network.
    fn order(&self, script: &str) -> String {
        shell(script).unwrap_or_else(|why| panic!("{}: {script}: {why}", self.namespace))
    }

    /// Holds its link to a rate, each direction for itself, in words of `tc` such as `100mbit`.
    pub fn limit(&self, rate: &str) {
        let Self { namespace, switch, port, .. } = self;
        let shape = format!("root tbf rate {rate} burst 64kb latency 100ms");
        self.order(&format!(
            "tc -n {namespace} qdisc add dev net0 {shape}; tc -n {switch} qdisc add dev {port} {shape}"
        ));
    }

    /// Pulls its cable.
    pub fn cut(&self) {
        self.order(&format!("ip -n {} link set {} down", self.switch, self.port));
    }

    /// Puts it in again.
    pub fn mend(&self) {
        self.order(&format!("ip -n {} link set {} up", self.switch, self.port));
    }

    /// Lets nothing pass between it and `other`, while both reach everybody else.
    pub fn part_from(&self, other: &Self) {
        for (from, to) in [(self, other), (other, self)] {
            // An address that nobody has: packets just vanish, as behind a firewall.
            let (namespace, address) = (&from.namespace, to.address);
            self.order(&format!(
                "ip -n {namespace} neigh replace {address} lladdr 02:00:00:00:00:01 nud permanent dev net0"
            ));
        }
    }

    /// Ends that.
    pub fn join_with(&self, other: &Self) {
        for (from, to) in [(self, other), (other, self)] {
            let (namespace, address) = (&from.namespace, to.address);
            self.order(&format!("ip -n {namespace} neigh del {address} dev net0"));
        }
    }

    /// Lets it and `other` find no way to each other, which who tries is told at once.
    pub fn has_no_way_to(&self, other: &Self) {
        for (from, to) in [(self, other), (other, self)] {
            let (namespace, address) = (&from.namespace, to.address);
            self.order(&format!("ip -n {namespace} route add unreachable {address}/32"));
        }
    }

    /// Traffic of its link.
    pub fn traffic(&self) -> Traffic {
        self.traffic_of("net0")
    }

    /// Traffic of its link to the inner network.
    pub fn inner_traffic(&self) -> Traffic {
        self.traffic_of("net1")
    }

    /// Traffic between its own processes.
    pub fn own_traffic(&self) -> Traffic {
        self.traffic_of("lo")
    }

    fn traffic_of(&self, link: &str) -> Traffic {
        let read = ["rx_bytes", "tx_bytes", "rx_packets", "tx_packets"]
            .map(|what| format!("/sys/class/net/{link}/statistics/{what}"))
            .join(" ");
        let text = self.order(&format!("ip netns exec {} cat {read} /proc/net/snmp", self.namespace));
        let mut numbers = text.lines().map(|line| line.parse().expect("the kernel prints numbers"));
        let mut next = || numbers.next().expect("there are four of them");
        let (bytes_in, bytes_out, packets_in, packets_out) = (next(), next(), next(), next());
        // One line of names, one of numbers.
        let mut tcp = text.lines().filter(|line| line.starts_with("Tcp:")).map(str::split_whitespace);
        let (names, values) = (tcp.next().expect("there is TCP"), tcp.next().expect("there is TCP"));
        let found = names.zip(values).find(|(name, _)| *name == "RetransSegs");
        let resent = found.and_then(|(_, value)| value.parse().ok()).expect("the kernel counts them");
        Traffic { bytes_in, bytes_out, packets_in, packets_out, resent }
    }
}
