//! `ropeway local`: the server behind `local:`, which a program's client library starts for itself.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::SigSet;
use ropeway_daemon::options::{ServeOptions, WorkerCommand};
use ropeway_transport::Endpoint;

use crate::args::LocalArgs;
use crate::failure::Failure;
use crate::vendors::{NATIVE_VENDORS, has_others};
use crate::{private_folder, serve};

/// The variable by which loaders find drivers.
const VENDORS: &str = "OCL_ICD_VENDORS";

/// Starts a server that ends with its standard input, and does not wait for it; or, with a folder, runs that server
/// itself.
pub fn local(args: LocalArgs) -> Result<(), Failure> {
    match args.serve {
        Some(folder) => serve_in(&folder),
        None => start().map_err(|error| Failure::new(format!("cannot start a server: {error}"))),
    }
}

/// Starts the server as a child of this process, which then ends: the server must not be a child of the program, which
/// may wait for its children.
fn start() -> io::Result<()> {
    let folder = private_folder::make("ropeway-local")?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ropeway").arg("local").arg("--serve").arg(&folder);
    // Signals that the terminal sends to the program are not meant for the server.
    command.process_group(0);
    // The client library's threads block all signals, and this process may have been started by one of them: the server
    // must accept the signals that ask it to stop.
    let _ = SigSet::empty().thread_set_mask();
    match native_vendors() {
        Some(vendors) => command.env(VENDORS, vendors),
        None => command.env_remove(VENDORS),
    };
    command.spawn().map(|_| ()).inspect_err(|_| {
        let _ = std::fs::remove_dir(&folder);
    })
}

/// Returns the place that names this machine's own drivers: the value before `ropeway run`, or the program's own value
/// unless that names only Ropeway.
fn native_vendors() -> Option<OsString> {
    let filled = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    filled(NATIVE_VENDORS).or_else(|| filled(VENDORS).filter(|place| has_others(Path::new(place))))
}

fn serve_in(folder: &Path) -> Result<(), Failure> {
    serve::start_log()?;
    let worker = WorkerCommand { program: "/proc/self/exe".into(), args: serve::default_worker() };
    let options = ServeOptions {
        state: None,
        listen: vec![Endpoint::Unix(folder.join("ropeway.sock"))],
        // The only client is already there.
        warm: 0,
        ends_with_input: true,
        // The client is a program of the same user on the same machine, which could take all memory without a server as
        // well.
        session_memory: Some(u64::MAX),
        ..ServeOptions::new(worker)
    };
    let served = ropeway_daemon::serve(&options);
    // The socket file was removed with its listener.
    let _ = std::fs::remove_dir(folder);
    Ok(served?)
}
