//! Options of a worker.

use std::path::PathBuf;

use ropeway_custom::file::Declarations;
use ropeway_protocol::limits;
use ropeway_transport::tls::PublicKey;

/// Options of a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerOptions {
    /// The folder of the program cache, shared by all workers; without one, programs last as long as their session.
    pub cache_folder: Option<PathBuf>,
    /// The most bytes that the program cache may take.
    pub cache_bytes: u64,
    /// The most bytes of buffers that the session may have; `None` for as many as the devices give.
    pub memory_quota: Option<u64>,
    /// The most bytes of host memory that may be held for the session's unfinished transfers and program contents.
    pub staged_bytes: usize,
    /// The host name that the client is told.
    pub host: String,
    /// Where other servers reach this one, as a URL; `None`: where the client does.
    pub peer_address: Option<String>,
    /// The server's key, which its clients tell other servers.
    pub peer_key: Option<PublicKey>,
    /// Moves large transfers through pinned memory also where buffers could be mapped: for tests on machines without a
    /// GPU.
    pub force_pinned: bool,
    /// Tells the daemon what the devices say of themselves.
    pub describe: bool,
    /// The custom devices that it offers beside the machine's own.
    pub custom: Declarations,
    /// Serves no client, but tries the machine's drivers for the daemon.
    pub probe: bool,
    /// Whether sessions may go over UCX.
    pub ucx: bool,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            cache_folder: None,
            cache_bytes: 1 << 30,
            memory_quota: None,
            staged_bytes: limits::MAX_STAGED,
            host: "localhost".to_owned(),
            peer_address: None,
            peer_key: None,
            force_pinned: false,
            describe: false,
            custom: Declarations::default(),
            probe: false,
            ucx: false,
        }
    }
}
