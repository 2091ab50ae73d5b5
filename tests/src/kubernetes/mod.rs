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
        fs::write(at("tokens.csv"), "admin-token,admin,admin,system:masters\n").expect("a file can be written");
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
                "{shared} --secure-port={manager} --service-account-private-key-file={} --root-ca-file={authority}",
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

    /// Applies the project's manifests. Its pods have the node's network, as there is no other, and are told where the API
    /// server is, as services have no addresses here.
    pub fn install(&self) {
        let folder = self.folder.path().join("install");
        let base = folder.join("base");
        fs::create_dir_all(&base).expect("a folder can be made");
        let ours = root().join("packaging/kubernetes");
        for entry in fs::read_dir(&ours).expect("it is there").flatten() {
            fs::copy(entry.path(), base.join(entry.file_name())).expect("a file can be copied");
        }
        let patch = |kind: &str, part: &str| {
            format!(
                "- patch: '{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: ropeway-{part}, namespace: ropeway}}, spec: {{template: {{spec: {{hostNetwork: true, \
                 containers: [{{name: {part}, env: [{{name: KUBERNETES_SERVICE_HOST, value: 127.0.0.1}}, \
                 {{name: KUBERNETES_SERVICE_PORT, value: \"{}\"}}]}}]}}}}}}}}'\n",
                self.port
            )
        };
        let text = format!(
            "resources: [base]\nnamespace: ropeway\npatches:\n{}{}",
            patch("Deployment", "controller"),
            patch("DaemonSet", "node")
        );
        fs::write(folder.join("kustomization.yaml"), text).expect("a file can be written");
        self.says(&["apply", "-k", folder.to_str().expect("its name is text")]);
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

    /// What the containers of all pods have printed whose names, behind that of their namespace and `_`, begin so.
    pub fn printed(&self, pods: &str) -> String {
        let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let folders = entries(self.folder.path().join("logs"));
        let is_it = |folder: &PathBuf| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(pods));
        let files = folders.filter(is_it).flat_map(entries).flat_map(entries);
        let text: String = files.map(|file| fs::read_to_string(file).unwrap_or_default()).collect();
        // Each line has its time and stream before it (the container runtime interface's format).
        text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned() + "\n").collect()
    }
}

fn text(output: &Output) -> Option<String> {
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
