//! A real Kubernetes of one node on this machine: etcd, the control plane, kubelet, containerd and runc.

mod image;
mod node;

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::places::root;
use crate::wait_for;

/// How long a part of Kubernetes may take on a busy machine.
const LONG: Duration = Duration::from_secs(180);

/// The programs that are needed, and the variable that names a folder which is looked into before PATH.
const PROGRAMS: [&str; 10] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
];
const FOLDER: &str = "ROPEWAY_KUBERNETES";

/// Those who speak to the API server, and their groups. The driver's are what its manifests call them.
const USERS: [(&str, &str, &str); 3] = [
    ("admin", "admin", "system:masters"),
    ("controller", "system:serviceaccount:ropeway:ropeway-controller", "system:serviceaccounts"),
    ("node", "system:serviceaccount:ropeway:ropeway-node", "system:serviceaccounts"),
];

/// A cluster of one node; everything of it is ended when dropped.
pub struct Kubernetes {
    // In the order in which they end.
    _node: node::Node,
    _plane: Vec<Daemon>,
    port: u16,
    folder: TempDir,
}

/// A program of Kubernetes's.
fn program(name: &str) -> PathBuf {
    find(name).unwrap_or_else(|| PathBuf::from(name))
}

fn find(name: &str) -> Option<PathBuf> {
    let first = std::env::var_os(FOLDER).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = first.into_iter().chain(std::env::split_paths(&path)).chain(["/usr/sbin".into(), "/sbin".into()]);
    all.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// One sentence: which programs are missing.
pub fn missing() -> Option<String> {
    let missing: Vec<_> = PROGRAMS.into_iter().filter(|name| find(name).is_none()).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "The test with a real Kubernetes needs {}: put these programs, of Kubernetes 1.34 or later and containerd 2, into PATH \
             or into a folder that {FOLDER} names.",
            missing.join(", ")
        )
    })
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("loopback has ports").local_addr().expect("it is bound").port()
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

impl Kubernetes {
    /// Starts it, once its node is ready.
    ///
    /// # Panics
    /// A program is missing.
    pub fn start() -> Self {
        if let Some(missing) = missing() {
            panic!("{missing}");
        }
        let folder = tempfile::Builder::new().prefix("ropeway-kubernetes-").tempdir().expect("a folder can be made");
        let at = |name: &str| folder.path().join(name).to_str().expect("its name is text").to_owned();
        let [etcd, peers, port] = [0; 3].map(|_| free_port());
        let mut plane = Vec::new();
        let mut daemon = |name: &str, args: &[String]| {
            let mut command = Command::new(program(name));
            command.args(args);
            plane.push(Daemon::start(command));
        };
        let (clients, members) = (format!("http://127.0.0.1:{etcd}"), format!("http://127.0.0.1:{peers}"));
        let options = |text: String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        daemon(
            "etcd",
            &options(format!(
                "--name n0 --data-dir {} --listen-client-urls {clients} --advertise-client-urls {clients} \
                 --listen-peer-urls {members} --initial-advertise-peer-urls {members} --initial-cluster n0={members} \
                 --logger zap --log-level error",
                at("etcd")
            )),
        );
        run(Command::new("openssl").args(["genrsa", "-out", &at("accounts.key"), "2048"]));
        run(Command::new("openssl").args(["rsa", "-in", &at("accounts.key"), "-pubout", "-out", &at("accounts.pub")]));
        let tokens: Vec<_> =
            USERS.iter().map(|(name, user, group)| format!("{name}-token,{user},{name},{group}\n")).collect();
        fs::write(at("tokens.csv"), tokens.concat()).expect("a file can be written");
        for (name, ..) in USERS {
            fs::write(at(&format!("{name}.token")), format!("{name}-token\n")).expect("a file can be written");
        }
        daemon(
            "kube-apiserver",
            &options(format!(
                "--etcd-servers={clients} --cert-dir={} --bind-address=127.0.0.1 --secure-port={port} \
                 --service-account-issuer=https://test --service-account-key-file={} \
                 --service-account-signing-key-file={} --token-auth-file={} --authorization-mode=RBAC \
                 --service-cluster-ip-range=10.213.0.0/24",
                at("certificates"),
                at("accounts.pub"),
                at("accounts.key"),
                at("tokens.csv")
            )),
        );
        let authority = at("certificates/apiserver.crt");
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}', \
             certificate-authority: '{authority}'}}}}]\nusers: [{{name: u, user: {{token: admin-token}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        );
        fs::write(at("kubeconfig"), kubeconfig).expect("a file can be written");
        let kubectl = |args: &[&str]| {
            let mut command = Command::new(program("kubectl"));
            command.args(["--kubeconfig", &at("kubeconfig"), "--cache-dir", &at("kubectl")]).args(args);
            command.output().expect("kubectl starts")
        };
        wait_for("the API server", LONG, || kubectl(&["get", "--raw", "/readyz"]).status.success().then_some(()));
        let [scheduler, manager] = [0; 2].map(|_| free_port());
        let shared = format!("--kubeconfig={} --leader-elect=false --bind-address=127.0.0.1", at("kubeconfig"));
        daemon("kube-scheduler", &options(format!("{shared} --secure-port={scheduler}")));
        daemon(
            "kube-controller-manager",
            &options(format!(
                "{shared} --secure-port={manager} --service-account-private-key-file={}",
                at("accounts.key")
            )),
        );
        let node = node::Node::start(folder.path(), &at("kubeconfig"));
        wait_for("a node that is ready", LONG, || {
            let ready = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}";
            (text(&kubectl(&["get", "nodes", "-o", ready]))? == "True").then_some(())
        });
        wait_for("the account of pods", LONG, || {
            kubectl(&["get", "serviceaccount", "default"]).status.success().then_some(())
        });
        Self { _node: node, _plane: plane, port, folder }
    }

    /// The options of `ropeway dra` for the account of one of its parts: `controller` or `node`.
    pub fn as_account(&self, part: &str) -> Vec<String> {
        let at = |name: String| self.folder.path().join(name).to_str().expect("its name is text").to_owned();
        vec![
            "--api-server".to_owned(),
            format!("https://127.0.0.1:{}", self.port),
            "--api-ca".to_owned(),
            at("certificates/apiserver.crt".to_owned()),
            "--api-token".to_owned(),
            at(format!("{part}.token")),
        ]
    }

    /// Kubelet's folder.
    pub fn kubelet(&self) -> PathBuf {
        self.folder.path().join("kubelet")
    }

    /// The folder that containerd reads.
    pub fn cdi(&self) -> PathBuf {
        self.folder.path().join("cdi")
    }

    /// What a command of kubectl's comes to.
    pub fn kubectl(&self, args: &[&str]) -> Output {
        let mut command = Command::new(program("kubectl"));
        command.arg("--kubeconfig").arg(self.folder.path().join("kubeconfig"));
        command.arg("--cache-dir").arg(self.folder.path().join("kubectl")).args(args);
        command.output().expect("kubectl starts")
    }

    /// What it prints.
    ///
    /// # Panics
    /// When it fails.
    pub fn says(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        text(&output).unwrap_or_else(|| panic!("{args:?}: {output:?}"))
    }

    /// Applies a file of the project's manifests.
    pub fn apply_file(&self, name: &str) {
        let path = root().join("packaging/kubernetes").join(name);
        self.says(&["apply", "-f", path.to_str().expect("its name is text")]);
    }

    /// Applies objects.
    pub fn apply(&self, objects: &str) {
        let mut command = Command::new(program("kubectl"));
        command.arg("--kubeconfig").arg(self.folder.path().join("kubeconfig")).args(["apply", "-f", "-"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("kubectl starts");
        child.stdin.take().expect("it was asked for").write_all(objects.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it is our child").success(), "{objects}");
    }

    /// Waits until a field of an object has a value, by its JSON path.
    pub fn expect(&self, object: &str, path: &str, value: &str) {
        let mut last = String::new();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(&format!("{path} of {object} that is {value}"), LONG, || {
                let output = self.kubectl(&["get", object, "-o", &format!("jsonpath={path}")]);
                last = String::from_utf8_lossy(&output.stdout).into_owned();
                (last == value).then_some(())
            });
        }));
        if found.is_err() {
            let events = self.kubectl(&["get", "events", "--sort-by=.lastTimestamp"]);
            panic!("{path} of {object} is '{last}' and not '{value}'\n{}", String::from_utf8_lossy(&events.stdout));
        }
    }

    /// What the only container of a pod has printed.
    pub fn printed(&self, pod: &str) -> String {
        let uid = self.says(&["get", "pod", pod, "-o", "jsonpath={.metadata.uid}"]);
        let folder = self.folder.path().join("logs").join(format!("default_{pod}_{uid}")).join("c");
        let text = fs::read_to_string(folder.join("0.log")).unwrap_or_default();
        // Each line has its time and stream before it (the container runtime interface's format).
        text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned() + "\n").collect()
    }
}

fn text(output: &Output) -> Option<String> {
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
