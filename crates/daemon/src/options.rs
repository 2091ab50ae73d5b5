//! The options of a server, and the reasons why it cannot start.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

use ropeway_stream::Declaration;
use ropeway_transport::Endpoint;
use ropeway_transport::tls::CertificateFiles;

use crate::access::{LocalUsers, Machines, StateError};
use crate::{LendingOptions, WorkerUser};

/// The options of a server.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where to listen. Empty: on the sockets that systemd passed, else on the default endpoint.
    pub listen: Vec<Endpoint>,
    /// Listen on addresses that other machines can reach, without encryption and without asking who connects.
    pub plaintext_network: bool,
    /// The folder with the server's key and its clients; without one there is no encryption.
    pub state: Option<PathBuf>,
    /// The server's certificate, and the authorities of clients that come with one; takes a state folder.
    pub certificates: Option<CertificateFiles>,
    /// The file to which a line of JSON is added for each session's beginning and end, and for each refusal.
    pub audit: Option<PathBuf>,
    /// The users of this machine that Unix sockets are for; `None`: whoever can open them.
    pub local_users: Option<LocalUsers>,
    /// The virtual machines that may come in over vsock.
    pub machines: Machines,
    /// The files behind the shared memory devices of virtual machines, each with how many sessions share it.
    pub guest_memory: Vec<(PathBuf, u64)>,
    /// Worker processes to keep ready for the next clients; with none, one is started for each client that comes.
    pub warm: usize,
    /// Most sessions at one time.
    pub max_sessions: usize,
    /// Most bytes of main memory that one session may take; `None`: three quarters of what this server may.
    pub session_memory: Option<u64>,
    /// Announce this server on the local network, under this name.
    pub announce: Option<String>,
    /// End at the end of standard input, too: together with the program that holds its other end. If that has sent
    /// anything, it has to go on: after 20 s without a byte, its machine is taken to be gone.
    pub ends_with_input: bool,
    /// Where workers get folders of their own for temporary files, and clients for their compilers' caches; `None`:
    /// workers use those of this server's user.
    pub folders: Option<PathBuf>,
    /// Give each worker a control group of its own, where this server can make one.
    pub control_groups: bool,
    /// Most processes and threads of one session, where it has a control group.
    pub session_tasks: u64,
    /// The user that workers run as; `None`: the server's. The worker's own arguments say so, too.
    pub worker_user: Option<WorkerUser>,
    /// The broker that lends this server's devices: nobody else sees them then; takes a state folder.
    pub lending: Option<LendingOptions>,
    /// The streams that it opens for workers.
    pub streams: Vec<Declaration>,
    /// Whether only a trial tells if the machine can do what custom devices were declared to do.
    pub needs_proof: bool,
    /// The program and first arguments that start a worker.
    pub worker: WorkerCommand,
}

/// How a worker process is started; its control socket is its standard input.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

impl ServeOptions {
    /// The defaults, with workers started by `worker`.
    pub fn new(worker: WorkerCommand) -> Self {
        Self {
            listen: Vec::new(),
            plaintext_network: false,
            state: None,
            certificates: None,
            audit: None,
            local_users: None,
            machines: Machines::default(),
            guest_memory: Vec::new(),
            warm: 4,
            max_sessions: 256,
            session_memory: None,
            announce: None,
            ends_with_input: false,
            folders: None,
            control_groups: false,
            session_tasks: 4096,
            worker_user: None,
            lending: None,
            streams: Vec::new(),
            needs_proof: false,
            worker,
        }
    }
}

/// Why a server did not start, or had to end.
#[derive(Debug)]
pub enum ServeError {
    /// An address that other machines can reach, without `--plaintext-network`.
    NotLocal(Endpoint),
    /// An address that other machines can reach and at which nothing is encrypted, without `--plaintext-network`.
    NotEncrypted(Endpoint),
    /// A socket could not be made.
    Listen(Endpoint, io::Error),
    /// The state folder is of no use.
    State(StateError),
    /// A socket from systemd is of no use.
    Activation(io::Error),
    /// The file behind a virtual machine's device is of no use.
    GuestMemory(PathBuf, io::Error),
    /// The machine cannot do what custom devices were declared to do.
    Custom(String),
    /// Something that the server itself needs.
    System(&'static str, io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLocal(endpoint) => write!(
                f,
                "will not listen on {endpoint} without encryption: other machines can reach it, and there is no state folder for \
                 this server's key; name one with --state, or give --plaintext-network if everybody on that network may use \
                 this machine's devices"
            ),
            Self::NotEncrypted(endpoint) => write!(
                f,
                "will not listen on {endpoint}: other machines can reach it, and nothing over UCX is encrypted; give \
                 --plaintext-network if everybody on that network may use this machine's devices, and read what goes over it"
            ),
            Self::Listen(endpoint, error) => match error.kind() {
                io::ErrorKind::AddrInUse => write!(
                    f,
                    "cannot listen on {endpoint}: another program does already; stop it or choose another with --listen"
                ),
                _ => write!(f, "cannot listen on {endpoint}: {error}"),
            },
            Self::State(error) => write!(f, "{error}"),
            Self::Activation(error) => write!(f, "cannot use a socket that systemd passed: {error}"),
            Self::GuestMemory(path, error) => {
                write!(f, "cannot share {} with a virtual machine: {error}", path.display())
            }
            Self::Custom(error) => write!(f, "{error}"),
            Self::System(what, error) => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}
