//! A real etcd of several members.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::authority::{Authority, Issued};
use crate::daemon::Daemon;
use crate::net::Host;
use crate::wait_for;

/// How long a cluster takes to answer on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Its members; killed when dropped.
pub struct Etcd {
    members: Vec<Member>,
    security: Option<Security>,
    _folder: TempDir,
}

/// Certificates of members and clients, and users with passwords.
struct Security {
    authority: Authority,
    members: Issued,
    client: Issued,
    /// Whether there are users already.
    has_users: bool,
}

/// The password of etcd's own user.
const ROOTS: &str = "the root's";

/// The password of the user `broker`.
pub const PASSWORD: &str = "s3cret, with: /letters@";

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
        Self::start_with((0..3).map(|_| None).collect(), None)
    }

    /// Starts three members on loopback that only speak with whom an authority knows, and has the user `broker`, who may
    /// use the keys of the pool `rack`.
    pub fn start_secured() -> Self {
        let authority = Authority::new();
        let members = authority.issue("member", "/CN=etcd", "IP:127.0.0.1", 30);
        // Where etcd has users, it takes no JSON from who has a common name in the certificate.
        let client = authority.issue("client", "/O=Lab", "", 30);
        let security = Security { authority, members, client, has_users: false };
        let mut etcd = Self::start_with((0..3).map(|_| None).collect(), Some(security));
        let does = |args: &[&str]| wait_for(&format!("{args:?}"), SOON, || etcd.control(0, args));
        does(&["user", "add", &format!("root:{ROOTS}")]);
        does(&["user", "grant-role", "root", "root"]);
        does(&["user", "add", &format!("broker:{PASSWORD}")]);
        does(&["role", "add", "pool"]);
        does(&["role", "grant-permission", "pool", "--prefix=true", "readwrite", "rack/"]);
        does(&["user", "grant-role", "broker", "pool"]);
        does(&["auth", "enable"]);
        if let Some(security) = &mut etcd.security {
            security.has_users = true;
        }
        etcd
    }

    /// Makes all users prove anew who they are.
    pub fn forget_tokens(&self) {
        for turn in ["disable", "enable"] {
            wait_for(turn, SOON, || self.control(0, &["auth", turn]));
        }
    }

    /// The authority's certificate, and a client's certificate and key.
    ///
    /// # Panics
    /// Where it has none.
    pub fn files(&self) -> [PathBuf; 3] {
        let security = self.security.as_ref().expect("it is secured");
        [security.authority.certificate(), security.client.certificate.clone(), security.client.key.clone()]
    }

    /// Starts one member on each of these machines.
    pub fn start_on(hosts: &[&Host]) -> Self {
        Self::start_with(hosts.iter().map(|host| Some((*host).clone())).collect(), None)
    }

    fn start_with(hosts: Vec<Option<Host>>, security: Option<Security>) -> Self {
        let scheme = if security.is_some() { "https" } else { "http" };
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
            command.args(["--listen-client-urls", &format!("{scheme}://{address}")]);
            command.args(["--advertise-client-urls", &format!("{scheme}://{address}")]);
            command.args(["--listen-peer-urls", &format!("http://{peer}")]);
            command.args(["--initial-advertise-peer-urls", &format!("http://{peer}")]);
            command.args(["--initial-cluster-state", "new", "--logger", "zap", "--log-level", "error"]);
            if let Some(Security { authority, members, .. }) = &security {
                command.arg("--cert-file").arg(&members.certificate).arg("--key-file").arg(&members.key);
                command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(authority.certificate());
            }
            Member { daemon: Daemon::start(command), address, host }
        };
        let members = places.into_iter().enumerate().map(start).collect();
        let etcd = Self { members, security, _folder: folder };
        wait_for("etcd", SOON, || etcd.control(0, &["endpoint", "health", "--cluster"]).map(drop));
        etcd
    }

    /// What etcdctl prints of a member, if it succeeds.
    fn control(&self, member: usize, args: &[&str]) -> Option<String> {
        let Member { address, host, .. } = &self.members[member];
        let mut command = host.as_ref().map_or_else(|| Command::new("etcdctl"), |host| host.command("etcdctl"));
        command.args(["--endpoints", address, "--command-timeout=2s"]).args(args).env("ETCDCTL_API", "3");
        if let Some(Security { authority, client, has_users, .. }) = &self.security {
            command.arg("--cacert").arg(authority.certificate());
            command.arg("--cert").arg(&client.certificate).arg("--key").arg(&client.key);
            if *has_users {
                command.args(["--user", "root", "--password", ROOTS]);
            }
        }
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
