//! A virtual machine in which tests run: User-Mode Linux, with this machine's files and a kernel of its own.
//!
//! What connects over vsock connects to a machine, which a test's own must not be: so tests of vsock run in a guest. They
//! are ignored elsewhere, and a test that is not boots the guest, which runs them all.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{places, wait_for};

/// Debian's package `user-mode-linux`: the kernel, as a program, and its modules.
const KERNEL: &str = "/usr/bin/linux.uml";
const MODULES: &str = "/usr/lib/uml/modules";

/// What vsock within one machine needs, in this order.
const VSOCK: [&str; 3] = ["vsock", "vmw_vsock_virtio_transport_common", "vsock_loopback"];

/// How the guest's processes know that they are in one.
const MARK: &str = "ROPEWAY_TESTS_GUEST";

/// What a guest prints before the outcome of its tests.
const OUTCOME: &str = "outcome of the guest's tests: ";

/// How long a guest may run, with an emulated processor on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);

/// Why no guest can be booted here, if none can.
pub fn missing() -> Option<&'static str> {
    if !Path::new(KERNEL).exists() || modules().is_none() {
        return Some("User-Mode Linux is not installed (package user-mode-linux)");
    }
    let has_insmod = ["/usr/sbin/insmod", "/sbin/insmod"].iter().any(|path| Path::new(path).exists());
    (!has_insmod).then_some("insmod is not installed (package kmod)")
}

/// The folder of the kernel's modules.
fn modules() -> Option<std::path::PathBuf> {
    let mut releases = fs::read_dir(MODULES).ok()?.flatten().map(|entry| entry.path().join("kernel/net/vmw_vsock"));
    releases.find(|folder| VSOCK.iter().all(|name| folder.join(format!("{name}.ko")).exists()))
}

/// Whether this process is in a guest.
pub fn is_here() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Boots a guest, runs the ignored tests of this program there whose names hold `tests`, and returns what it printed.
///
/// # Panics
/// With all that it printed, when one of them fails, or there are none, or it does not end in time.
pub fn run(tests: &str) -> String {
    let folder = tempfile::Builder::new().prefix("rw-guest-").tempdir().expect("a temporary folder can be made");
    let init = folder.path().join("init");
    fs::write(&init, script(tests)).expect("a file can be written");
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let console = folder.path().join("console");
    let output = File::create_new(&console).expect("a file can be made");
    let mut command = Command::new(KERNEL);
    command
        .args(["mem=1G", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", "con=null", "con0=null,fd:1"])
        .arg(format!("init={}", init.display()))
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("it is open"))
        .stderr(output)
        .process_group(0);
    let guest = Booted(command.spawn().unwrap_or_else(|error| panic!("{KERNEL}: {error}")));
    guest.until_it_ends(&console)
}

/// A running guest; all of its processes are killed when it is dropped.
struct Booted(Child);

impl Booted {
    fn until_it_ends(mut self, console: &Path) -> String {
        let read = || {
            let mut text = Vec::new();
            let mut file = File::open(console).expect("it was just made");
            file.rewind().and_then(|()| file.read_to_end(&mut text)).expect("a file can be read");
            String::from_utf8_lossy(&text).into_owned()
        };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for("end of the guest", LIMIT, || self.0.try_wait().expect("it is our child"));
        }));
        let text = read();
        let outcome = text.lines().find_map(|line| line.trim().strip_prefix(OUTCOME));
        assert!(ended.is_ok() && outcome == Some("0") && !text.contains("running 0 tests"), "{text}");
        text
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        // The kernel is a process, and each process of the guest is one beside it.
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// What the guest does: all of it, as its first process.
fn script(tests: &str) -> String {
    let quoted = |text: &OsStr| format!("'{}'", text.to_string_lossy().replace('\'', r"'\''"));
    let exe = std::env::current_exe().expect("a test knows its own path");
    let here = std::env::current_dir().expect("there is a folder");
    let kept = quoted(places::kept("").as_os_str());
    let load =
        VSOCK.map(|name| format!("insmod {}/{name}.ko\n", modules().expect("they are there").display())).concat();
    // Only what tests keep can be written to, besides memory.
    format!(
        "#!/bin/sh
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mount -t hostfs kept {kept} -o {kept}
mkdir /run/home /run/tmp
ip link set lo up
{load}cd {here}
HOME=/run/home TMPDIR=/run/tmp {MARK}=1 {exe} --ignored --test-threads=1 {tests}
echo \"{OUTCOME}$?\"
echo o > /proc/sysrq-trigger
sleep 60
",
        here = quoted(here.as_os_str()),
        exe = quoted(exe.as_os_str()),
    )
}
