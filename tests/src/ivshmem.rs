//! A shared memory device of a virtual machine, without the machine: a client on a machine of its own network finds, where
//! the system lists PCI devices, a file of this machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};

use crate::net::{Host, Net};
use crate::program::Program;
use crate::server::Server;

/// The files of such a device.
const FILES: [(&str, &str); 2] = [("vendor", "0x1af4\n"), ("device", "0x1110\n")];

/// A memory of so many bytes.
///
/// # Panics
/// When there is no room for it.
pub fn memory(bytes: u64) -> NamedTempFile {
    let file = tempfile::Builder::new().prefix("ropeway-ivshmem-").tempfile_in("/dev/shm").expect("a file can be made");
    file.as_file().set_len(bytes).expect("it is ours");
    file
}

/// In how many pieces a process has a file mapped, each with where it begins.
pub fn mapped(pid: u32, file: &Path) -> Vec<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let of = maps.lines().filter(|line| line.ends_with(&*file.to_string_lossy()));
    of.map(|line| u64::from_str_radix(line.split(' ').nth(2).expect("an offset"), 16).expect("a number")).collect()
}

/// A server, and a machine with such a device.
pub struct Guests {
    /// The server.
    pub server: Server,
    /// What backs the device.
    pub memory: NamedTempFile,
    devices: TempDir,
    // Dropped last.
    net: Net,
}

impl Guests {
    /// A guest whose device has `bytes`, shared by so many `sessions`; `None` where there can be no network namespaces.
    ///
    /// # Panics
    /// When nothing can be written.
    pub fn start(bytes: u64, sessions: u32) -> Option<Self> {
        Self::with(bytes, sessions, &[])
    }

    /// The same, of a server with these variables.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn with(bytes: u64, sessions: u32, env: &[(&str, &str)]) -> Option<Self> {
        let (memory, net) = (memory(bytes), Net::or_skip(2)?);
        let option = format!("{},sessions={sessions}", memory.path().display());
        let server = Server::start_on(net.host(1), &["--ivshmem", &option], env);
        let devices = tempfile::tempdir().expect("a temporary folder can be made");
        list(devices.path(), memory.path());
        Some(Self { server, memory, devices, net })
    }

    /// The guest.
    pub fn guest(&self) -> &Host {
        self.net.host(0)
    }

    /// A program in the guest.
    pub fn remote(&self, program: PathBuf) -> Program {
        self.with_servers(program, self.server.url())
    }

    /// A program in the guest, with this list of servers.
    pub fn with_servers(&self, program: PathBuf, servers: &str) -> Program {
        // Who is on a machine of the network sees mounts of its own.
        let begin = "mount --bind \"$0\" /sys/bus/pci/devices && exec \"$@\"";
        let args = ["-ec".as_ref(), begin.as_ref(), self.devices.path().as_os_str(), program.as_os_str()];
        Program::remote("sh", servers).args(args).on(self.guest())
    }
}

/// Lists a device with this memory, and two that are none.
fn list(devices: &Path, memory: &Path) {
    for (name, files, is_whole) in [
        ("0000:00:01.0", [FILES[0], ("device", "0x1000\n")], true),
        ("0000:00:02.0", FILES, false),
        ("0000:00:03.0", FILES, true),
    ] {
        let folder = devices.join(name);
        fs::create_dir(&folder).expect("a folder can be made");
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("a file can be written");
        }
        if is_whole {
            symlink(memory, folder.join("resource2_wc")).expect("a link can be made");
        }
    }
}
