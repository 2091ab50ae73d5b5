//! A real Slurm of two nodes, whose jobs get leases: `make integration`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use ropeway_tests::broker::Broker;
use ropeway_tests::daemon::Daemon;
use ropeway_tests::places::{c_program, library, root, ropeway};
use ropeway_tests::wait_for;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

/// A controller and two nodes on this machine; ended when dropped.
struct Slurm {
    folder: TempDir,
    _munged: Option<Daemon>,
    _daemons: Vec<Daemon>,
}

impl Slurm {
    /// Starts it, with Ropeway's scripts and what they are configured with.
    fn start(configuration: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("ropeway-slurm-").tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        // The nodes' programs run as other users, too.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["state", "spool.n1", "spool.n2", "scripts"] {
            fs::create_dir(at(name)).unwrap();
        }
        for entry in fs::read_dir(root().join("packaging/slurm")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, Path::new(&at("scripts")).join(path.file_name().unwrap())).unwrap();
        }
        fs::write(at("scripts/ropeway.conf"), configuration).unwrap();
        fs::set_permissions(at("scripts/ropeway.conf"), fs::Permissions::from_mode(0o600)).unwrap();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = host.split('.').next().unwrap();
        let [controller, first, second] = free_ports();
        let text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
             CommunicationParameters=NoAddrCache\nSlurmctldPort={controller}\nSlurmctldPidFile={}\nSlurmdPidFile={}\n\
             StateSaveLocation={}\nSlurmdSpoolDir={}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nMpiDefault=none\nReturnToService=2\n\
             GresTypes=ropeway\nProlog={}\nEpilog={}\nTaskProlog={}\nPrologFlags=Alloc\nSlurmdParameters=config_overrides\n\
             NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=4 RealMemory=1000 Gres=ropeway:fast:4\n\
             NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=4 RealMemory=1000 Gres=ropeway:fast:4\n\
             PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            at("slurmctld.pid"),
            at("slurmd.%n.pid"),
            at("state"),
            at("spool.%n"),
            at("scripts/prolog"),
            at("scripts/epilog"),
            at("scripts/task-prolog"),
        );
        fs::write(at("slurm.conf"), text).unwrap();
        fs::write(at("gres.conf"), "NodeName=n[1-2] Name=ropeway Type=fast Count=4 Flags=CountOnly\n").unwrap();
        fs::write(at("cgroup.conf"), "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n").unwrap();
        let munged = (!has_munged()).then(munged);
        let daemon = |program: &str, args: &[&str]| {
            let mut command = Command::new(program);
            command.args(args).env("SLURM_CONF", at("slurm.conf"));
            Daemon::start(command)
        };
        let daemons = vec![
            daemon("slurmctld", &["-D", "-i"]),
            daemon("slurmd", &["-D", "-N", "n1"]),
            daemon("slurmd", &["-D", "-N", "n2"]),
        ];
        let slurm = Self { folder, _munged: munged, _daemons: daemons };
        wait_for("both nodes", LONG, || {
            let output = slurm.command("sinfo", &["-h", "-N", "-o", "%N %t"]).output().unwrap();
            (String::from_utf8_lossy(&output.stdout).matches("idle").count() == 2).then_some(())
        });
        slurm
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("SLURM_CONF", self.folder.path().join("slurm.conf"));
        command
    }

    /// Runs a job to its end, whose programs find Ropeway's library.
    fn run(&self, args: &[&str]) -> Output {
        self.job(args).output().unwrap()
    }

    fn job(&self, args: &[&str]) -> Command {
        let vendors = self.folder.path().join("vendors");
        fs::create_dir_all(&vendors).unwrap();
        fs::write(vendors.join("ropeway.icd"), format!("{}\n", library().display())).unwrap();
        let mut command = self.command("srun", args);
        command.env("OCL_ICD_VENDORS", vendors).env("ROPEWAY_CONNECT_TIMEOUT", "20");
        command
    }
}

fn munged() -> Daemon {
    fs::create_dir_all("/run/munge").unwrap();
    let owned = Command::new("chown").args(["munge:", "/run/munge"]).status().unwrap();
    assert!(owned.success());
    let mut command = Command::new("setpriv");
    // Unlike su, this becomes the daemon, which then ends with its process.
    command.args(["--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground", "--force"]);
    let daemon = Daemon::start(command);
    wait_for("munge's socket", LONG, || has_munged().then_some(()));
    daemon
}

/// Whether munge runs here. One that was killed leaves its socket.
fn has_munged() -> bool {
    UnixStream::connect("/run/munge/munge.socket.2").is_ok()
}

fn free_ports() -> [u16; 3] {
    let listeners = [0; 3].map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "it takes Slurm: make integration"]
fn jobs_get_the_devices_that_they_ask_for_and_give_them_back() {
    let broker = Broker::start();
    let _servers = [broker.server(2), broker.server(2)];
    let ticket = broker.ticket("slurm", &[]);
    let configuration = format!(
        "ROPEWAY_BROKER='{ticket}'\nROPEWAY='{}'\nROPEWAY_WAIT=20s\nWANT_fast='cpu'\nleases='{}'\n",
        ropeway().display(),
        leases().display()
    );
    let slurm = Slurm::start(&configuration);
    let devices = |output: &Output| text(output).matches("Device #").count();
    // Each node's tasks have the node's devices; a job without the gres has none.
    let one = slurm.run(&["-N1", "--gres=ropeway:fast:3", "clinfo", "-l"]);
    assert_eq!(devices(&one), 3, "{one:?}");
    let two = slurm.run(&["-N2", "--gres=ropeway:fast:2", "-l", "clinfo", "-l"]);
    let lines =
        |node: &str| text(&two).lines().filter(|line| line.starts_with(node) && line.contains("Device #")).count();
    assert_eq!((lines("0:"), lines("1:")), (2, 2), "{two:?}");
    let none = slurm.run(&["-N1", "sh", "-c", "echo ${ROPEWAY_HOSTFILE:-nothing}"]);
    assert_eq!(text(&none).trim(), "nothing");
    let computed = slurm.run(&["-N1", "--gres=ropeway:2", c_program("two_devices").to_str().unwrap()]);
    assert!(text(&computed).contains("both are right"), "{computed:?}");
    broker.expect_leases(0);

    // More than a node has is refused by Slurm; a second job waits until the first is over.
    let refused = slurm.run(&["-N1", "--gres=ropeway:fast:5", "true"]);
    assert!(!refused.status.success(), "{refused:?}");
    let mut first = slurm.job(&["-N2", "--gres=ropeway:fast:2", "sleep", "3"]).spawn().unwrap();
    broker.expect_leases(2);
    let second = slurm.run(&["-N1", "--gres=ropeway:fast:2", "clinfo", "-l"]);
    assert_eq!(devices(&second), 2, "{second:?}");
    assert!(first.wait().unwrap().success());
    broker.expect_leases(0);

    // A job that is cancelled gives its devices back, too.
    let mut long = slurm.job(&["-N1", "--gres=ropeway:fast:1", "-J", "long", "sleep", "1000"]).spawn().unwrap();
    broker.expect_leases(1);
    assert!(slurm.command("scancel", &["-n", "long"]).status().unwrap().success());
    long.wait().unwrap();
    broker.expect_leases(0);
    assert_eq!(fs::read_dir(leases()).unwrap().count(), 0, "no ticket is left");
    fs::remove_dir(leases()).unwrap();
}

/// Where the test's jobs have their tickets.
fn leases() -> PathBuf {
    std::env::temp_dir().join(format!("ropeway-slurm-leases-{}", std::process::id()))
}
