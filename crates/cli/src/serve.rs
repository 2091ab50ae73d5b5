//! `ropeway serve` and the workers that it starts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use ropeway_custom::file::Declarations;
use ropeway_daemon::WorkerUser;
use ropeway_daemon::access::{LocalUsers, Machines};
use ropeway_daemon::options::{ServeOptions, WorkerCommand};
use ropeway_daemon::worker::{Wall, WorkerOptions, host_name};
use ropeway_transport::Endpoint;
use ropeway_transport::tls::{CertificateFiles, PublicKey};

use crate::args::{ServeArgs, WorkerArgs};
use crate::broker::lending;
use crate::failure::Failure;
use crate::places::{filled, of_user};
use crate::ticket::state_folder;
use crate::{log, private_folder};

/// Serves until it is told to stop.
pub fn serve(args: ServeArgs) -> Result<(), Failure> {
    start_log()?;
    let lending = lending(&args)?;
    let mut worker = worker_arguments(&args.worker);
    if lending.is_some() {
        worker.push("--describe".into());
    }
    if args.listen.iter().any(|endpoint| matches!(endpoint, Endpoint::Ucx { .. })) {
        worker.push("--ucx".into());
    }
    let (mut streams, mut needs_proof) = (Vec::new(), false);
    if let Some(file) = &args.custom {
        let declared = Declarations::read(file).map_err(Failure::new)?;
        streams = declared.streams().map_err(Failure::new)?;
        needs_proof = declared.needs_proof();
        worker.extend(["--custom-devices".into(), declared.to_text().into()]);
    }
    // `/proc/self/exe` is the image that runs now, even if a newer one has been installed in its place meanwhile.
    let program = "/proc/self/exe".into();
    // Without clients from other machines there is no need of keys, and several servers share a user's folder.
    let is_reached = |endpoint: &Endpoint| {
        matches!(endpoint, Endpoint::Tls { .. })
            || !endpoint.is_local() && !matches!(endpoint, Endpoint::Vsock(_) | Endpoint::Ucx { .. })
    };
    let certificates = args.certificate.zip(args.key).zip(args.client_ca);
    let certificates = certificates.map(|((certificate, key), authorities)| CertificateFiles {
        certificate,
        key,
        authorities,
        revoked: args.client_crl,
    });
    let needs_key = args.state.is_some()
        || lending.is_some()
        || certificates.is_some()
        || !args.plaintext_network && args.listen.iter().any(is_reached);
    let folder = args.stdio.then(|| private_folder::make("ropeway-stdio")).transpose();
    let folder = folder.map_err(|error| Failure::new(format!("cannot make a folder for the socket: {error}")))?;
    let private = folder.iter().map(|folder| Endpoint::Unix(folder.join("ropeway.sock")));
    let options = ServeOptions {
        state: needs_key.then(|| state_folder(args.state.as_deref())).flatten(),
        local_users: LocalUsers::of(&args.allow_user, &args.allow_group).map_err(Failure::new)?,
        machines: Machines::of(&args.allow_cid),
        guest_memory: args.ivshmem,
        certificates,
        audit: args.audit_log,
        listen: args.listen.into_iter().chain(private).collect(),
        plaintext_network: args.plaintext_network,
        warm: args.warm.into(),
        max_sessions: args.max_sessions as usize,
        announce: args.announce.map(|name| name.unwrap_or_else(host_name)),
        session_memory: args.session_host_memory,
        ends_with_input: args.stdio,
        folders: folders(&args.worker),
        // A private server is for its own user, with what that user may take.
        control_groups: !args.stdio && !args.worker.no_sandbox.contains(&Wall::Groups),
        session_tasks: args.session_tasks,
        worker_user: worker_user(&args.worker)?,
        lending,
        streams,
        needs_proof,
        worker: WorkerCommand { program, args: worker },
    };
    let served = ropeway_daemon::serve(&options);
    if let Some(folder) = folder {
        // The socket file was removed with its listener.
        let _ = std::fs::remove_dir(folder);
    }
    Ok(served?)
}

/// The command line of a worker of this server.
fn worker_arguments(args: &WorkerArgs) -> Vec<OsString> {
    let mut worker: Vec<OsString> = vec!["worker".into()];
    if let Some(folder) = cache_folder(args) {
        worker.extend(["--program-cache".into(), folder.into()]);
    }
    worker.extend(["--program-cache-size".into(), args.program_cache_size.to_string().into()]);
    if let Some(bytes) = args.session_memory {
        worker.extend(["--session-memory".into(), bytes.to_string().into()]);
    }
    if let Some(address) = &args.peer_address {
        worker.extend(["--peer-address".into(), address.to_string().into()]);
    }
    if let Some(user) = &args.worker_user {
        worker.extend(["--worker-user".into(), user.into()]);
    }
    if !args.no_sandbox.is_empty() {
        let parts: Vec<_> = args.no_sandbox.iter().map(|wall| wall.name()).collect();
        worker.push(format!("--no-sandbox={}", parts.join(",")).into());
    }
    if args.force_pinned {
        worker.push("--force-pinned".into());
    }
    worker
}

/// Serves one session; an exit code comes back when there was none.
pub fn worker(args: WorkerArgs) -> Result<ExitCode, Failure> {
    start_log()?;
    let user = worker_user(&args)?;
    let options = WorkerOptions {
        cache_folder: args.program_cache,
        cache_bytes: args.program_cache_size,
        memory_quota: args.session_memory,
        host: host_name(),
        peer_address: args.peer_address.map(|address| address.to_string()),
        peer_key: args.peer_key.as_deref().and_then(PublicKey::from_text),
        force_pinned: args.force_pinned,
        describe: args.describe,
        custom: args
            .custom_devices
            .as_deref()
            .map(Declarations::from_text)
            .transpose()
            .map_err(Failure::new)?
            .unwrap_or_default(),
        probe: args.probe,
        ucx: args.ucx,
        ..WorkerOptions::default()
    };
    let walls: Vec<_> = Wall::ALL.into_iter().filter(|wall| !args.no_sandbox.contains(wall)).collect();
    Ok(ropeway_daemon::worker::run(options, &walls, args.folder.as_deref(), &args.group, user.as_ref())?.into())
}

/// Returns the command line of a worker without any options.
pub fn default_worker() -> Vec<OsString> {
    vec!["worker".into()]
}

/// Logs from now on.
pub fn start_log() -> Result<(), Failure> {
    log::start().map_err(|error| Failure::new(format!("cannot write a log: {error}")))
}

fn worker_user(args: &WorkerArgs) -> Result<Option<WorkerUser>, Failure> {
    args.worker_user.as_deref().map(WorkerUser::named).transpose().map_err(Failure::new)
}

/// The folder of the workers' and clients' own folders, beside the program cache. Without rules for files they would
/// mean nothing.
fn folders(args: &WorkerArgs) -> Option<PathBuf> {
    // Another user has no other.
    let are_of_use = args.worker_user.is_some() || !args.no_sandbox.contains(&Wall::Files);
    let cache = cache_folder(args).filter(|_| are_of_use)?;
    let mut name = cache.file_name()?.to_owned();
    name.push(".own");
    Some(cache.with_file_name(name))
}

/// The program cache's folder: as told, within what systemd made for the service, or within the user's; none without a
/// home.
fn cache_folder(args: &WorkerArgs) -> Option<PathBuf> {
    let service = || filled("CACHE_DIRECTORY").map(PathBuf::from);
    // Another user cannot go through root's home.
    let system = || args.worker_user.as_ref().map(|_| "/var/cache/ropeway".into());
    let folder = || service().or_else(system).or_else(|| of_user("XDG_CACHE_HOME", ".cache"));
    args.program_cache.clone().or_else(|| Some(folder()?.join("programs")))
}
