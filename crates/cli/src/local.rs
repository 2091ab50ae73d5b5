//! `ropeway local`: the server behind `local:`, which a program's client library starts for itself.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::SigSet;
use ropeway_daemon::options::{ServeOptions, WorkerCommand};
use ropeway_transport::Endpoint;

use crate::args::LocalArgs;
use crate::failure::Failure;
use crate::serve;
use crate::vendors::{NATIVE_VENDORS, has_others};

/// The variable by which loaders find drivers.
const VENDORS: &str = "OCL_ICD_VENDORS";

/// Starts a server that ends with its standard input, and leaves it alone; or, with a folder, is that server.
pub fn local(args: LocalArgs) -> Result<(), Failure> {
    match args.serve {
        Some(folder) => serve_in(&folder),
        None => start().map_err(|error| Failure::new(format!("cannot start a server: {error}"))),
    }
}

/// The server must not be a child of the program, which may wait for its children: it is one of this process, which ends.
fn start() -> io::Result<()> {
    let folder = make_folder()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ropeway").arg("local").arg("--serve").arg(&folder);
    // What the program's terminal sends to the program is not meant for it.
    command.process_group(0);
    // The library's threads block all signals, and this may be a child of one: the server is to be asked to end by one.
    let _ = SigSet::empty().thread_set_mask();
    match native_vendors() {
        Some(vendors) => command.env(VENDORS, vendors),
        None => command.env_remove(VENDORS),
    };
    command.spawn().map(|_| ()).inspect_err(|_| {
        let _ = std::fs::remove_dir(&folder);
    })
}

/// Where this machine's own drivers are named: as before `ropeway run`, or as for the program unless that sees only Ropeway.
fn native_vendors() -> Option<OsString> {
    let filled = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    filled(NATIVE_VENDORS).or_else(|| filled(VENDORS).filter(|place| has_others(Path::new(place))))
}

/// A new folder that only this user can enter.
fn make_folder() -> io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    let base = runtime.unwrap_or_else(std::env::temp_dir);
    let mut number = 0;
    loop {
        let folder = base.join(format!("ropeway-local-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            // Left behind by a server that was killed.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 100 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

fn serve_in(folder: &Path) -> Result<(), Failure> {
    serve::start_log()?;
    let worker = WorkerCommand { program: "/proc/self/exe".into(), args: serve::default_worker() };
    let options = ServeOptions {
        listen: vec![Endpoint::Unix(folder.join("ropeway.sock"))],
        // There is one client, and it is there already.
        warm: 0,
        ends_with_input: true,
        // Its client is a program of this user's on this machine, which could take all of its memory without a server as well.
        session_memory: Some(u64::MAX),
        ..ServeOptions::new(worker)
    };
    let served = ropeway_daemon::serve(&options);
    // The socket is gone with its listener.
    let _ = std::fs::remove_dir(folder);
    Ok(served?)
}
