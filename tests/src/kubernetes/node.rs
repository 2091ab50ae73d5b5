//! A node: kubelet and containerd in namespaces of their own, so that nothing of theirs is left on the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::image::Image;
use super::{LONG, free_port, program};
use crate::daemon::Daemon;
use crate::places::{c_program, library, ropeway};
use crate::{process, wait_for};

/// Settings of the machine that kubelet writes, and what it writes: it gets files of its own instead.
const SETTINGS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// A node, ended with all its containers when dropped.
pub struct Node {
    _daemons: Vec<Daemon>,
    /// The first process of the namespaces: without it, the kernel ends all others in them.
    first: u32,
    _holder: Daemon,
    /// The control groups that containerd has made.
    groups: Vec<PathBuf>,
}

/// Where containerd makes control groups, in each hierarchy, where there are none yet.
fn groups() -> Vec<PathBuf> {
    let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let all = hierarchies.chain(["/sys/fs/cgroup".into()]).map(|folder| folder.join("k8s.io"));
    all.filter(|group| !group.exists()).collect()
}

/// Removes a control group in which no process is.
fn remove_group(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&entry.path());
        }
    }
    // Its processes may be ending still.
    let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    wait_for("an end of the node's processes", LONG, || match fs::remove_dir(group) {
        Err(error) if !gone(&error) && group.exists() => None,
        _ => Some(()),
    });
}

impl Node {
    /// Starts it, with the images `pause`, `opencl` and Ropeway's.
    pub fn start(folder: &Path, kubeconfig: &str) -> Self {
        let at = |name: &str| folder.join(name).to_str().expect("its name is text").to_owned();
        let groups = groups();
        for name in ["cdi", "cni", "settings", "kubelet", "images"] {
            fs::create_dir_all(at(name)).expect("a folder can be made");
        }
        let mut script = "set -e\n".to_owned();
        for (setting, value) in SETTINGS {
            let file = at(&format!("settings/{}", setting.replace('/', "_")));
            fs::write(&file, format!("{value}\n")).expect("a file can be written");
            script += &format!("test ! -e /proc/sys/{setting} || mount --bind {file} /proc/sys/{setting}\n");
        }
        // The folders by which kubelet, the container runtime and manifests find each other are the node's own.
        script += "mount -t tmpfs none /var/lib\nmount -t tmpfs none /run\nmkdir /var/lib/kubelet /run/cdi\n";
        script += &format!("mount --bind {} /var/lib/kubelet\n", at("kubelet"));
        script += &format!("mount --bind {} /run/cdi\n", at("cdi"));
        script += "echo the node is there\nexec sleep infinity\n";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", &script]);
        let mut holder = Daemon::start(command);
        holder.until_it_says(|log| log.contains("the node is there").then_some(()));
        let first = process::children(holder.pid())[0];
        let inside = |name: &str| {
            let mut command = Command::new("nsenter");
            command.args(["--target", &first.to_string(), "--mount", "--pid"]).arg(program(name));
            // containerd finds its shim in PATH.
            let shim = program("containerd-shim-runc-v2");
            let path = std::env::var("PATH").unwrap_or_default();
            command
                .env("PATH", format!("{}:{path}:/usr/sbin:/sbin", shim.parent().unwrap_or(Path::new("/")).display()));
            command
        };
        // A network that no pod uses: without any, a node is not ready.
        let network = r#"{"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "loopback"}]}"#;
        fs::write(at("cni/none.conflist"), network).expect("a file can be written");
        fs::write(at("containerd.toml"), containerd(folder)).expect("a file can be written");
        let mut containerd = inside("containerd");
        containerd.args(["-c", &at("containerd.toml")]);
        let mut daemons = vec![Daemon::start(containerd)];
        let socket = at("containerd.sock");
        let images = folder.join("images");
        let system = |name: &str| {
            let places = ["/bin", "/usr/bin"].map(|folder| PathBuf::from(folder).join(name));
            places.into_iter().find(|file| file.is_file()).expect("the machine has it")
        };
        let [shell, sleep, clinfo] = ["sh", "sleep", "clinfo"].map(system);
        let computes = c_program("two_devices");
        let (library, ropeway) = (library(), ropeway());
        let in_bin = |program: &Path| {
            let name = program.file_name().expect("it has a name").to_string_lossy().into_owned();
            (program.to_owned(), format!("bin/{name}"))
        };
        let programs = [&shell, &sleep, &clinfo, &computes].map(|program| in_bin(program));
        // As packaging/kubernetes/Containerfile has it.
        let driver =
            [(ropeway, "usr/bin/ropeway".to_owned()), (library.clone(), "usr/lib/ropeway/libropeway.so".to_owned())];
        let made = [
            Image { name: "pause", tag: "1", entry: "/bin/sleep", files: &[in_bin(&sleep)], given: None },
            Image { name: "opencl", tag: "1", entry: "/bin/sh", files: &programs, given: Some(&library) },
            Image { name: "ropeway", tag: "0.1.0", entry: "/usr/bin/ropeway", files: &driver, given: None },
        ];
        let made = made.map(|image| image.make(&images));
        for image in made {
            wait_for("containerd", LONG, || {
                let mut command = inside("ctr");
                command.args(["-a", &socket, "-n", "k8s.io", "images", "import", "--local", "--snapshotter", "native"]);
                command.arg(&image).output().expect("ctr starts").status.success().then_some(())
            });
        }
        fs::write(at("kubelet.yaml"), kubelet(folder)).expect("a file can be written");
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("it is this test's");
        let mut kubelet = inside("kubelet");
        kubelet.args(["--config", &at("kubelet.yaml"), "--kubeconfig", kubeconfig, "--hostname-override=node1"]);
        kubelet.args(["--cert-dir", &at("kubelet.certificates")]);
        daemons.insert(0, Daemon::start(kubelet));
        Self { _daemons: daemons, first, _holder: holder, groups }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        process::kill(self.first);
        self.groups.iter().for_each(|group| remove_group(group));
    }
}

fn containerd(folder: &Path) -> String {
    let folder = folder.display();
    let runc = program("runc");
    format!(
        r#"version = 3
root = "{folder}/containerd.root"
state = "{folder}/containerd.state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{folder}/containerd.sock"
[ttrpc]
  address = "{folder}/containerd.sock.ttrpc"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  cdi_spec_dirs = ["/var/run/cdi"]
  disable_apparmor = true
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{folder}/cni"]
  conf_dir = "{folder}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{}"
  SystemdCgroup = false
"#,
        runc.display()
    )
}

fn kubelet(folder: &Path) -> String {
    let folder = folder.display();
    let port = free_port();
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\ncgroupDriver: cgroupfs\n\
         cgroupsPerQOS: false\nenforceNodeAllocatable: []\nmakeIPTablesUtilChains: false\nfailSwapOn: false\n\
         address: 127.0.0.1\nport: {port}\nreadOnlyPort: 0\nhealthzPort: 0\n\
         containerRuntimeEndpoint: unix://{folder}/containerd.sock\n\
         authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}\n\
         authorization: {{mode: AlwaysAllow}}\nfeatureGates: {{KubeletInUserNamespace: true}}\n\
         podLogsDir: {folder}/logs\nresolvConf: \"\"\nlocalStorageCapacityIsolation: false\n\
         evictionHard: {{memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}}\n"
    )
}
