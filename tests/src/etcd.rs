//! A real etcd of several members.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::net::Host;
use crate::wait_for;

/// How long a cluster takes to answer on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Its members; killed when dropped.
pub struct Etcd {
    members: Vec<Member>,
    _folder: TempDir,
}

struct Member {
    daemon: Daemon,
    /// `host:port`.
    address: String,
    host: Option<Host>,
}

/// A port that nobody has at this time.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("it is bound").port()
}

impl Etcd {
    /// Starts three members on loopback.
    pub fn start() -> Self {
        Self::start_with((0..3).map(|_| None).collect())
    }

    /// Starts one member on each of these machines.
    pub fn start_on(hosts: &[&Host]) -> Self {
        Self::start_with(hosts.iter().map(|host| Some((*host).clone())).collect())
    }

    fn start_with(hosts: Vec<Option<Host>>) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let place = |host: Option<Host>| match host {
            Some(host) => (format!("{}:2379", host.address()), format!("{}:2380", host.address()), Some(host)),
            None => (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()), None),
        };
        let places: Vec<_> = hosts.into_iter().map(place).collect();
        let cluster: Vec<_> =
            places.iter().enumerate().map(|(number, (_, peer, _))| format!("n{number}=http://{peer}")).collect();
        let cluster = cluster.join(",");
        let start = |(number, (address, peer, host)): (usize, (String, String, Option<Host>))| {
            let mut command = host.as_ref().map_or_else(|| Command::new("etcd"), |host| host.command("etcd"));
            command.args(["--name", &format!("n{number}"), "--initial-cluster", &cluster, "--data-dir"]);
            command.arg(folder.path().join(format!("n{number}")));
            command.args(["--listen-client-urls", &format!("http://{address}")]);
            command.args(["--advertise-client-urls", &format!("http://{address}")]);
            command.args(["--listen-peer-urls", &format!("http://{peer}")]);
            command.args(["--initial-advertise-peer-urls", &format!("http://{peer}")]);
            command.args(["--initial-cluster-state", "new", "--logger", "zap", "--log-level", "error"]);
            Member { daemon: Daemon::start(command), address, host }
        };
        let members = places.into_iter().enumerate().map(start).collect();
        let etcd = Self { members, _folder: folder };
        wait_for("etcd", SOON, || etcd.control(0, &["endpoint", "health", "--cluster"]).map(drop));
        etcd
    }

    /// What etcdctl prints of a member, if it succeeds.
    fn control(&self, member: usize, args: &[&str]) -> Option<String> {
        let Member { address, host, .. } = &self.members[member];
        let mut command = host.as_ref().map_or_else(|| Command::new("etcdctl"), |host| host.command("etcdctl"));
        command.args(["--endpoints", address, "--command-timeout=2s"]).args(args).env("ETCDCTL_API", "3");
        let output = command.output().expect("etcdctl is installed by `make packages`");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The member that leads etcd.
    pub fn leader(&self) -> usize {
        let leads = |member: usize| {
            let status = self.control(member, &["endpoint", "status", "--write-out", "fields"])?;
            let field = |name: &str| {
                let line = status.lines().find(|line| line.starts_with(&format!("\"{name}\"")))?;
                Some(line.rsplit(' ').next()?.to_owned())
            };
            (field("MemberID")? == field("Leader")?).then_some(member)
        };
        wait_for("leader of etcd", SOON, || (0..self.members.len()).find_map(leads))
    }

    /// Kills a member, as a crash would.
    pub fn kill(&mut self, member: usize) {
        self.members[member].daemon.kill();
    }

    /// Its members' addresses: `host:port`.
    pub fn addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| member.address.clone()).collect()
    }

    /// Its address, as brokers are given it.
    pub fn url(&self) -> String {
        format!("etcd://{}", self.addresses().join(","))
    }
}
