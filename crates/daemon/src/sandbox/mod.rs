//! The sandbox of a worker process: it may compute, and do little else.
//!
//! Kernels and drivers run in a worker, so it must be assumed to be under a client's control. Its walls, each explained
//! at its place:
//!
//! | where | what |
//! |---|---|
//! | [`enter`] | no new privileges, no capabilities, limits, no memory for other processes to read |
//! | `files` | Landlock: which files, no network, no signals to processes outside |
//! | `calls` | seccomp: which system calls |
//!
//! Where sessions may go over UCX, a worker [makes connections](Own::connects): UCX's are made in the process that uses
//! them. So a server is asked for that by an address of its own. Where a decoder of hardware makes CUDA's contexts, a worker
//! [listens](Own::listens) on a Unix socket of packets.
//!
//! What a wall here lets through, another may refuse; `tests/tests/inside.rs` tries each alone.

mod calls;
mod files;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use landlock::RulesetStatus;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};
use tracing::{debug, warn};

/// The maximum number of open files in a worker: drivers open hundreds.
const OPEN_FILES: u64 = 4096;

/// A part of the sandbox, which can be left off where a driver needs more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    /// Which files and devices, no network, no signals to other processes: Landlock.
    Files,
    /// Which system calls: seccomp.
    Calls,
    /// No capabilities and new privileges, limits, no memory for other processes to read.
    Rights,
    /// A control group: the memory and the number of all processes together. The server makes it.
    Groups,
}

impl Wall {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Files, Self::Calls, Self::Rights, Self::Groups];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Calls => "calls",
            Self::Rights => "rights",
            Self::Groups => "groups",
        }
    }
}

impl FromStr for Wall {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|wall| wall.name() == name);
        found.ok_or_else(|| format!("the sandbox has the parts {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// The folders that a worker may write to, and what it may read beside the system's files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own<'a> {
    /// Files of the custom devices: libraries and streams.
    pub(crate) readable: &'a [PathBuf],
    /// The program cache.
    pub(crate) program_cache: Option<&'a Path>,
    /// The process's own folder; with one it uses no temporary files elsewhere.
    pub(crate) folder: Option<&'a Path>,
    /// Whether it makes connections by itself, and shares System V memory: UCX does.
    pub(crate) connects: bool,
    /// Whether it makes CUDA's contexts, each of which listens on a Unix socket: decoders of hardware do.
    pub(crate) listens: bool,
}

/// Puts this process, and all it starts, into the sandbox with these walls; with none, nothing changes. Must be called
/// before any other thread exists.
///
/// The log tells of what this kernel does not have if `is_first`: all workers of a server are under the same one.
pub(crate) fn enter(walls: &[Wall], own: Own<'_>, is_first: bool) {
    // The control group is not this process's to make.
    if walls.iter().all(|wall| *wall == Wall::Groups) {
        return;
    }
    let lacks = |what: &str| if is_first { warn!("sandbox: {what}") } else { debug!("sandbox: {what}") };
    // The others need it; and a program that a kernel starts, setuid or not, gets no more rights than this process has.
    if let Err(error) = set_no_new_privs(true) {
        lacks(&format!("cannot give up new privileges: {error}"));
    }
    if walls.contains(&Wall::Files) {
        let env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        match files::restrict(&files::readable(env, own), &files::writable(env, own), own.connects) {
            Ok(RulesetStatus::FullyEnforced) => debug!("sandbox: files and network are restricted"),
            Ok(RulesetStatus::PartiallyEnforced) => lacks(
                "this kernel's Landlock does not know all rules: files are restricted, TCP from Linux 6.7 on, signals \
                 and abstract sockets from 6.12 on; seccomp refuses all of these",
            ),
            Ok(RulesetStatus::NotEnforced) => {
                lacks("this kernel has no Landlock; kernels and drivers can read and write what this user can");
            }
            Err(error) => {
                lacks(&format!("Landlock cannot be used: {error}; kernels and drivers can reach this user's files"));
            }
        }
    }
    if walls.contains(&Wall::Rights) {
        restrict_rights();
    }
    if walls.contains(&Wall::Calls) {
        match calls::restrict(own.connects, own.listens) {
            Ok(()) => debug!("sandbox: system calls are restricted"),
            Err(error) => {
                lacks(&format!("seccomp cannot be used: {error}; kernels and drivers can make all system calls"));
            }
        }
    }
}

fn restrict_rights() {
    // The memory of a crashed worker is its client's data: no core dump may put it on this machine's disk. The size of
    // files is not limited (Mesa's buffers are files), nor the number of processes (it counts all of a user's).
    limit(Resource::Core, 0);
    limit(Resource::Nofile, OPEN_FILES);
    give_up_capabilities();
    // After the capabilities, whose change sets it anew. No process of the same user, such as another session's worker
    // that was taken over, can trace this one or read its memory.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        warn!(%error, "sandbox: other processes of this user can read a worker's memory");
    }
}

/// Gives up all capabilities, for good: root's server has them, and a worker needs none.
fn give_up_capabilities() {
    for capability in CapabilitySet::all() {
        // A kernel does not know newer ones; and who may not do this has none to lose.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    if let Err(error) = clear_ambient_capability_set().and_then(|()| set_capabilities(None, none)) {
        warn!(%error, "sandbox: cannot give up capabilities");
    }
}

fn limit(resource: Resource, most: u64) {
    let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    if let Err(error) = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }) {
        warn!(%error, ?resource, "sandbox: cannot set a limit");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use landlock::RulesetStatus;
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, socket};

    use super::files::{SYSTEM, readable, restrict, writable};
    use super::*;

    #[test]
    fn home_folders_and_secrets_are_not_readable() {
        let paths =
            readable(|name| (name == "LD_LIBRARY_PATH").then(|| "/opt/driver/lib::relative".into()), Own::default());
        assert!(paths.contains(&"/opt/driver/lib".into()) && !paths.contains(&"relative".into()));
        assert!(!paths.iter().any(|p| p.starts_with("/home") || p.starts_with("/root") || p == Path::new("/")));
        assert!(!paths.iter().any(|p| ["/etc", "/run", "/dev"].map(Path::new).contains(&p.as_path())));
        // Only where UCX may drive RDMA adapters is it of any use which there are.
        let drivers = PathBuf::from("/etc/libibverbs.d");
        let of_fabrics = readable(|_| None, Own { connects: true, ..Own::default() });
        assert!(of_fabrics.contains(&drivers) && !paths.contains(&drivers));
    }

    #[test]
    fn caches_are_the_implementations_own() {
        let root = std::env::temp_dir().join(format!("ropeway-sandbox-{}", std::process::id()));
        let env = |name: &str| match name {
            "HOME" => Some(root.clone().into_os_string()),
            "POCL_CACHE_DIR" => Some(root.join("elsewhere").into_os_string()),
            _ => None,
        };
        let paths = writable(env, Own { program_cache: Some(&root.join("programs")), folder: None, ..Own::default() });
        for path in ["elsewhere", "programs"] {
            assert!(paths.contains(&root.join(path)), "{path} in {paths:?}");
            assert!(root.join(path).is_dir());
        }
        assert!(!paths.contains(&root) && !paths.contains(&root.join(".cache")));
        fs::remove_dir_all(&root).unwrap();
    }

    /// A process cannot lift its own restrictions, so this test does its work in a separate process.
    #[test]
    fn behind_the_walls() {
        const MARK: &str = "ROPEWAY_SANDBOX_TEST";
        let Some(root) = std::env::var_os(MARK).map(PathBuf::from) else {
            // The test's folder must lie neither below /tmp nor in any system folder, wherever the test was built.
            let built = std::env::current_exe().unwrap().with_extension("walls");
            let home = Path::new(&std::env::var_os("HOME").unwrap()).join(format!(".walls-{}", std::process::id()));
            let temporary = std::env::temp_dir();
            let open = SYSTEM.iter().map(Path::new).chain([Path::new("/tmp"), Path::new("/var/tmp"), &temporary]);
            let is_open = open.into_iter().any(|open| built.starts_with(open));
            let root = if is_open { home } else { built };
            fs::create_dir_all(root.join("programs")).unwrap();
            fs::write(root.join("secret"), "x").unwrap();
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "sandbox::tests::behind_the_walls", "--nocapture"])
                .env(MARK, &root)
                // Cargo puts the folder that this test works in into `LD_LIBRARY_PATH`.
                .env_remove("LD_LIBRARY_PATH")
                .env("HOME", &root)
                .output()
                .unwrap();
            fs::remove_dir_all(&root).unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            return;
        };
        let programs = root.join("programs");
        enter(&Wall::ALL, Own { program_cache: Some(&programs), folder: None, ..Own::default() }, true);
        assert_eq!(getrlimit(Resource::Core).maximum, Some(0));
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        if restrict(&["/".into()], &["/".into()], false).is_ok_and(|status| status == RulesetStatus::NotEnforced) {
            assert!(std::env::var_os("CI").is_none(), "skipped under CI: this kernel has no Landlock");
            eprintln!("skipped: this kernel has no Landlock");
            return;
        }
        assert!(fs::read(root.join("secret")).is_err(), "a home folder can be read");
        assert!(fs::write(root.join("new"), "x").is_err(), "a home folder can be written to");
        fs::write(root.join("programs/new"), "x").unwrap();
        fs::write(root.join(".cache/pocl/new"), "x").unwrap();
        fs::write("/dev/null", "x").unwrap();
        assert!(fs::read("/etc/ld.so.cache").is_ok());
        assert!(std::process::Command::new("/bin/true").status().is_err(), "it can start programs");
        let linker = std::process::Command::new("ld").arg("--version").output();
        assert!(linker.is_ok_and(|output| output.status.success()), "PoCL's linker cannot be started");
        fs::write("/proc/self/task/self/comm".replace("task/self", &format!("task/{}", std::process::id())), "x")
            .unwrap();
        assert!(fs::write("/proc/self/oom_score_adj", "0").is_err(), "other files of /proc can be written to");
        assert!(std::net::TcpListener::bind("127.0.0.1:0").is_err(), "it can listen");
    }

    /// As above, in a process of its own.
    #[test]
    fn where_cuda_makes_contexts() {
        const MARK: &str = "ROPEWAY_SANDBOX_CUDA";
        if std::env::var_os(MARK).is_none() {
            let mut itself = std::process::Command::new(std::env::current_exe().unwrap());
            itself.args(["--exact", "sandbox::tests::where_cuda_makes_contexts", "--nocapture"]).env(MARK, "1");
            let output = itself.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        // The rules for calls alone: those for files refuse some of it as well.
        enter(&[Wall::Calls], Own { listens: true, ..Own::default() }, true);
        let packets = || socket(AddressFamily::UNIX, SocketType::SEQPACKET, None);
        let (own, other) = (packets().expect("a socket"), packets().expect("another"));
        let name = format!("ropeway-walls-{}", std::process::id());
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
        bind(&own, &name).expect("a name that is no file's");
        listen(&own, 1).expect("a context listens");
        assert_eq!(connect(&other, &name), Err(Errno::PERM));
        for (family, kind) in [
            (AddressFamily::UNIX, SocketType::STREAM),
            (AddressFamily::UNIX, SocketType::DGRAM),
            (AddressFamily::UNIX, SocketType::RAW),
            (AddressFamily::INET, SocketType::STREAM),
            (AddressFamily::INET6, SocketType::DGRAM),
            (AddressFamily::NETLINK, SocketType::RAW),
        ] {
            assert_eq!(socket(family, kind, None).err(), Some(Errno::PERM), "{family:?}, {kind:?}");
        }
    }
}
