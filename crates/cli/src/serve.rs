//! `ropeway serve` and the workers that it starts.

use std::ffi::OsString;
use std::path::PathBuf;

use ropeway_daemon::options::{ServeOptions, WorkerCommand};
use ropeway_daemon::worker::WorkerOptions;

use crate::args::{ServeArgs, WorkerArgs};
use crate::{Failure, log};

/// Serves until it is told to stop.
pub fn serve(args: ServeArgs) -> Result<(), Failure> {
    log::start().map_err(|error| Failure::new(format!("cannot write a log: {error}")))?;
    let mut worker: Vec<OsString> = vec!["worker".into()];
    if let Some(folder) = cache_folder(&args.worker) {
        worker.extend(["--program-cache".into(), folder.into()]);
    }
    worker.extend(["--program-cache-size".into(), args.worker.program_cache_size.to_string().into()]);
    if args.worker.no_sandbox {
        worker.push("--no-sandbox".into());
    }
    // The image that runs now, even when a newer one has been installed in its place meanwhile.
    let program = "/proc/self/exe".into();
    let options = ServeOptions {
        listen: args.listen,
        plaintext_network: args.plaintext_network,
        warm: args.warm.into(),
        max_sessions: args.max_sessions as usize,
        worker: WorkerCommand { program, args: worker },
    };
    Ok(ropeway_daemon::serve(&options)?)
}

/// Serves one session.
pub fn worker(args: WorkerArgs) -> Result<(), Failure> {
    log::start().map_err(|error| Failure::new(format!("cannot write a log: {error}")))?;
    let options = WorkerOptions {
        sandbox: !args.no_sandbox,
        program_cache: args.program_cache,
        program_cache_size: args.program_cache_size,
    };
    Ok(ropeway_daemon::worker::run(&options)?)
}

/// The program cache's folder: as told, within what systemd made for the service, or within the user's; none without a home.
fn cache_folder(args: &WorkerArgs) -> Option<PathBuf> {
    let env = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = || Some(env("XDG_CACHE_HOME").or_else(|| Some(env("HOME")?.join(".cache")))?.join("ropeway"));
    let folder = || env("CACHE_DIRECTORY").or_else(user);
    args.program_cache.clone().or_else(|| Some(folder()?.join("programs")))
}
