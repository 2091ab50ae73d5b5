//! A driver under a client's control, in a real worker: what it tries, and which wall of the sandbox refuses it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::{attempting_vendors, c_program, ropeway};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::wait_for;

/// Which walls refuse an attempt, each alone.
#[derive(Clone, Copy)]
struct Refused {
    /// Landlock, from this ABI on.
    files: Option<u32>,
    /// Seccomp.
    calls: bool,
    /// No capabilities, limits, no dumps.
    rights: Rights,
}

/// Whether the wall of rights refuses an attempt.
#[derive(Clone, Copy, PartialEq)]
enum Rights {
    No,
    /// If the server is root's: what it would do takes a capability.
    OfRoot,
    Yes,
}

const FILES: Refused = Refused { files: Some(1), calls: false, rights: Rights::No };
const CALLS: Refused = Refused { files: None, calls: true, rights: Rights::No };
const RIGHTS: Refused = Refused { files: None, calls: false, rights: Rights::Yes };

const fn files_from(abi: u32) -> Refused {
    Refused { files: Some(abi), ..CALLS }
}

const CALLS_ALONE: &str = "--no-sandbox=files,rights";

/// To this, the answer is that of a kernel without the call; to all other calls, which are named, that it may not be.
const UNLISTED: &str = "make a call that is on no list";

/// What the driver tries, and the walls that refuse it. Whatever is here is refused by at least one.
const ATTEMPTS: &[(&str, Refused)] = &[
    ("open a file of the user's", FILES),
    ("write a file of the user's", FILES),
    ("list the user's files", FILES),
    ("open /etc/shadow", FILES),
    ("open the kernel's log", Refused { rights: Rights::OfRoot, ..FILES }),
    ("open a setting of the kernel's", FILES),
    ("make a link to a file outside", files_from(1)),
    ("open another client's compiler cache", FILES),
    ("open another session's temporary file", FILES),
    ("make a file in /tmp", FILES),
    ("connect to a TCP port", files_from(4)),
    ("bind a TCP port", files_from(4)),
    ("connect to a Unix socket", CALLS),
    ("connect to an abstract Unix socket", files_from(6)),
    ("connect with a descriptor", CALLS),
    ("bind with a descriptor", CALLS),
    ("listen", CALLS),
    ("accept", CALLS),
    ("fork a shell", FILES),
    ("run a program of its own making", FILES),
    ("trace the daemon", Refused { rights: Rights::OfRoot, ..files_from(1) }),
    ("read the daemon's memory", Refused { rights: Rights::OfRoot, ..files_from(1) }),
    ("open the daemon's memory", Refused { rights: Rights::OfRoot, ..FILES }),
    ("signal the daemon", files_from(6)),
    ("signal a thread of the daemon", files_from(6)),
    ("signal the daemon by a descriptor", files_from(6)),
    ("have the kernel signal the daemon", CALLS),
    ("type into the terminal", CALLS),
    ("load a BPF program", Refused { rights: Rights::OfRoot, ..CALLS }),
    ("mount", Refused { files: Some(1), calls: true, rights: Rights::OfRoot }),
    ("change the root", Refused { rights: Rights::OfRoot, ..CALLS }),
    ("make a user namespace", CALLS),
    ("clone into a user namespace", CALLS),
    ("enter a namespace", CALLS),
    ("become another user", Refused { rights: Rights::OfRoot, ..CALLS }),
    ("open a performance counter", CALLS),
    ("use a key ring", CALLS),
    ("set up io_uring", CALLS),
    ("handle page faults", CALLS),
    ("replace the kernel", Refused { rights: Rights::OfRoot, ..CALLS }),
    ("load a module", Refused { rights: Rights::OfRoot, ..CALLS }),
    ("share memory by a key", CALLS),
    (UNLISTED, CALLS),
    ("hold more than 4096 files", RIGHTS),
    ("have capabilities", RIGHTS),
    ("leave a core file", RIGHTS),
    ("be read by processes of this user", RIGHTS),
];

/// The Landlock ABI from which on a wall refuses an attempt, if it does; 0 where that is not the wall of files.
type Expects<'a> = &'a dyn Fn(&Refused) -> Option<u32>;

/// What came of each attempt: "came through", or an error.
type Outcomes = BTreeMap<String, String>;

/// Things that are there to be reached.
struct Outside {
    folder: tempfile::TempDir,
    port: TcpListener,
    /// Another server's, which is alive as long as it is locked.
    _lock: File,
    _socket: UnixListener,
    _abstract: UnixListener,
}

impl Outside {
    fn new() -> Self {
        // Not below /tmp, where a worker may use files.
        let folder = tempfile::Builder::new().prefix("inside-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(folder.path().join("secret"), "x").unwrap();
        fs::create_dir(folder.path().join("empty")).unwrap();
        // Folders that a server of the same user has made for its sessions and clients.
        let own = folder.path().join("programs.own");
        for folder in ["clients/other/0", "servers/other/0/tmp"] {
            fs::create_dir_all(own.join(folder)).unwrap();
            fs::write(own.join(folder).join("file"), "x").unwrap();
        }
        let lock = File::create(own.join("servers/other/lock")).unwrap();
        lock.lock().unwrap();
        let name = folder.path().file_name().unwrap().as_encoded_bytes();
        Self {
            port: TcpListener::bind("127.0.0.1:0").unwrap(),
            _socket: UnixListener::bind(folder.path().join("socket")).unwrap(),
            _abstract: UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap(),
            _lock: lock,
            folder,
        }
    }

    /// What a worker with this sandbox can do; and the kernel's Landlock ABI, if the worker can ask for it.
    fn attempts(&self, arguments: &[&str]) -> (Outcomes, i64) {
        let path = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let variables = [
            ("OCL_ICD_VENDORS", text(&attempting_vendors())),
            ("INSIDE_SECRET", path("secret")),
            ("INSIDE_FOLDER", path("empty")),
            ("INSIDE_CACHE", path("programs.own/clients/other/0/file")),
            ("INSIDE_TEMPORARY", path("programs.own/servers/other/0/tmp/file")),
            ("INSIDE_SOCKET", path("socket")),
            ("INSIDE_ABSTRACT", self.folder.path().file_name().unwrap().to_str().unwrap().to_owned()),
            ("INSIDE_PORT", self.port.local_addr().unwrap().port().to_string()),
        ];
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let programs = path("programs");
        let common = ["--listen", "tcp://127.0.0.1:0", "--warm", "1", "--program-cache", &programs];
        let server = Server::start_with(&[&common[..], arguments].concat(), &variables);
        // Several workers say the same.
        let log = wait_for("end of the attempts", Duration::from_secs(20), || {
            let log = server.log();
            log.contains("inside: done").then_some(log)
        });
        let lines = || log.lines().filter_map(|line| line.strip_prefix("inside: "));
        let landlock = lines().find_map(|line| line.strip_prefix("landlock ")?.parse().ok());
        let outcomes = lines().filter_map(|line| line.split_once(": "));
        (outcomes.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).collect(), landlock.unwrap())
    }
}

#[test]
fn each_wall_refuses_what_it_is_there_for() {
    let is_root = rustix::process::geteuid().is_root();
    let by_rights = |refused: &Refused| match refused.rights {
        Rights::No => false,
        Rights::OfRoot => is_root,
        Rights::Yes => true,
    };
    let outside = Outside::new();
    let (open, landlock) = outside.attempts(&["--no-sandbox"]);
    let names: Vec<_> = open.keys().map(String::as_str).collect();
    let mut listed: Vec<_> = ATTEMPTS.iter().map(|(name, _)| *name).collect();
    listed.sort_unstable();
    assert_eq!(names, listed);
    // What the kernel refuses anyway, to this user or as it was built without it, shows nothing about the sandbox.
    let possible: Vec<_> = ATTEMPTS.iter().filter(|(name, _)| open[*name] == "came through").collect();
    if is_root {
        let others = open.values().filter(|outcome| !["came through", "ENOSYS"].contains(&outcome.as_str()));
        assert_eq!(others.count(), 0, "root cannot do all this without a sandbox: {open:?}");
    }
    if landlock < 1 {
        assert!(std::env::var_os("CI").is_none(), "under CI: this kernel has no Landlock");
        eprintln!("this kernel has no Landlock: what it refuses is not tried");
    }
    let alone: [(&str, Expects<'_>); 3] = [
        ("--no-sandbox=calls,rights", &|refused| refused.files),
        (CALLS_ALONE, &|refused| refused.calls.then_some(0)),
        ("--no-sandbox=files,calls", &|refused| by_rights(refused).then_some(0)),
    ];
    let mut wrong = Vec::new();
    for (argument, abi) in alone {
        let (outcomes, _) = outside.attempts(&[argument]);
        for (name, refused) in &possible {
            let expected = abi(refused).is_some_and(|abi| landlock >= i64::from(abi));
            let outcome = &outcomes[*name];
            let by_calls = (argument == CALLS_ALONE && expected)
                .then_some(if *name == UNLISTED { "ENOSYS" } else { "EPERM" })
                .is_some_and(|error| outcome != error);
            if expected == (outcome == "came through") || by_calls {
                wrong.push(format!("{argument}: {name}: {outcome}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    let (outcomes, _) = outside.attempts(&[]);
    for (name, refused) in ATTEMPTS {
        let outcome = &outcomes[*name];
        let is_refused = ["EPERM", "EACCES", "ENOSYS"].contains(&outcome.as_str());
        let is_expected =
            refused.calls || by_rights(refused) || refused.files.is_some_and(|abi| landlock >= i64::from(abi));
        assert!(is_refused || !is_expected, "{name}: {outcome}");
        println!("{name}: {outcome}");
    }
}

/// The folders of the kernels that PoCL has compiled, below `folder`.
fn compiled_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.file_name().is_some_and(|name| name == "program.bc") {
                found.push(folder.clone());
            }
        }
    }
    found
}

#[test]
fn each_client_has_compiler_caches_of_its_own_and_finds_them_again() {
    let encrypted = Encrypted::start_with(&["--warm", "1"]);
    let own = encrypted.server.home().join("cache/ropeway/programs.own");
    let run = |ticket: &str| {
        let outcome = Program::remote(c_program("vector_add"), ticket).run().success();
        assert!(outcome.stdout.contains("1024 sums are right"), "{}", outcome.stdout);
    };
    // Caches are back in their place once the session's worker has ended.
    let caches_of = |clients: usize| {
        wait_for("caches of ended sessions", Duration::from_secs(10), || {
            let clients_kept = fs::read_dir(own.join("clients")).unwrap().flatten().map(|entry| entry.path());
            let caches: Vec<_> = clients_kept.filter(|client| client.join("0").is_dir()).collect();
            (caches.len() == clients).then_some(caches)
        })
    };
    let (alice, bob) = (encrypted.new_ticket("alice", &[]), encrypted.new_ticket("bob", &[]));
    run(&alice);
    let of_alice = caches_of(1).remove(0);
    let compiled = compiled_in(&of_alice);
    assert_eq!(compiled.len(), 1, "{compiled:?}");
    let programs = fs::read_dir(of_alice.join("0/programs")).unwrap().count();
    assert_eq!(programs, 1);
    let made = fs::metadata(compiled[0].join("program.bc")).unwrap().modified().unwrap();

    run(&bob);
    let both = caches_of(2);
    assert!(both.iter().all(|client| compiled_in(client).len() == 1), "{both:?}");

    run(&alice);
    caches_of(2);
    assert_eq!(compiled_in(&of_alice), compiled);
    assert_eq!(fs::metadata(compiled[0].join("program.bc")).unwrap().modified().unwrap(), made);
    // With the server, what its workers had is gone.
    let mut server = encrypted.server;
    server.stop();
    assert_eq!(fs::read_dir(own.join("servers")).unwrap().count(), 0);
}

#[test]
fn what_a_session_has_started_ends_with_it() {
    let vendors = attempting_vendors();
    let variables = [("OCL_ICD_VENDORS", vendors.to_str().unwrap()), ("INSIDE_STAYS", "1")];
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--warm", "1"], &variables);
    let left = || -> Vec<(u32, u32)> {
        let log = server.log();
        let pids = log.lines().filter_map(|line| line.strip_prefix("inside: stays ")?.parse().ok());
        let group = |pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()
        };
        pids.filter_map(|pid| Some((pid, group(pid)?))).collect()
    };
    let session = Program::remote(c_program("held"), server.url()).start();
    let worker = server.worker_of(session.pid());
    let (stays, _) = wait_for("process left behind", Duration::from_secs(10), || {
        left().into_iter().find(|(_, group)| *group == worker)
    });
    session.kill();
    wait_for("end of the process left behind", Duration::from_secs(10), || {
        (!left().iter().any(|(pid, _)| *pid == stays)).then_some(())
    });
    assert!(!server.workers().contains(&worker));
}

#[test]
fn roots_workers_can_be_another_users() {
    const USER: &str = "nobody";
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can");
        return;
    }
    let folder = tempfile::Builder::new().prefix("inside-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let programs = folder.path().join("programs");
    let arguments = ["--warm", "1", "--worker-user", USER, "--program-cache", programs.to_str().unwrap()];
    let server = Server::start_with(&[&["--listen", "tcp://127.0.0.1:0"], &arguments[..]].concat(), &[]);
    let user: u32 = {
        let passwd = fs::read_to_string("/etc/passwd").unwrap();
        let line = passwd.lines().find(|line| line.split(':').next() == Some(USER)).unwrap();
        line.split(':').nth(2).unwrap().parse().unwrap()
    };
    // Twice: the second session has the first one's caches.
    for _ in 0..2 {
        let outcome = Program::remote(c_program("vector_add"), server.url()).run().success();
        assert!(outcome.stdout.contains("1024 sums are right"), "{}", outcome.stdout);
        wait_for("caches of ended sessions", Duration::from_secs(10), || {
            folder.path().join("programs.own/clients/anybody/0").is_dir().then_some(())
        });
    }
    let caches = folder.path().join("programs.own/clients/anybody/0");
    assert_eq!(fs::metadata(&caches).unwrap().uid(), user);
    assert_eq!(compiled_in(&caches).len(), 1);
    // A new worker is root's for a moment, before it loads anything.
    wait_for("workers of another user", Duration::from_secs(10), || {
        let is_theirs = |worker: &u32| {
            let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap_or_default();
            let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
            ids.split_whitespace().filter(|id| *id == user.to_string()).count() == 4
        };
        let workers = server.workers();
        (!workers.is_empty() && workers.iter().all(is_theirs)).then_some(())
    });
    let refused = Command::new(ropeway()).args(["serve", "--worker-user", "root"]).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("'root' is root"), "{told}");
}
