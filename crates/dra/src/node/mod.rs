//! The driver on a node: a plug-in of kubelet's, which gets a lease when a claim is prepared and keeps it until it is
//! not needed any more.

mod claims;
mod container;
mod records;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use self::claims::Claims;
use self::container::{Cdi, Installed};
use self::records::Records;
use crate::api::{ApiOptions, Cluster};
use crate::kubelet::messages::{
    Claim, Device, PluginInfo, PrepareRequest, PrepareResponse, Prepared, RegistrationStatus, UnprepareRequest,
    UnprepareResponse, Unprepared,
};
use crate::kubelet::server::{Plugin, listen, serve};
use crate::{DraError, Driver};

/// The longest time between two looks at all leases.
const LOOK: Duration = Duration::from_secs(60);

/// The shortest, and how long to wait after something has gone wrong.
const SOON: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// What the driver of a node is told.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The devices, and their names.
    pub driver: Driver,
    /// The cluster.
    pub api: ApiOptions,
    /// The node's name.
    pub node: String,
    /// Kubelet's folder, by the same name on the node.
    pub kubelet: PathBuf,
    /// The folder in which the container runtime looks for devices (CDI).
    pub cdi: PathBuf,
    /// The library that containers get.
    pub library: PathBuf,
    /// How long a claim waits for devices that are not free, before kubelet tries again.
    pub wait: Duration,
    /// How long a lease lasts without being renewed.
    pub lasts: Duration,
}

/// The plug-in, as kubelet sees it.
struct Node {
    claims: Claims,
    endpoint: PathBuf,
}

/// Serves kubelet until the process is told to end. Leases last beyond that: whoever is started next goes on with them.
///
/// # Errors
/// One sentence: the node's files or sockets cannot be used.
pub fn run(options: NodeOptions) -> Result<(), DraError> {
    let NodeOptions { driver, api, node, kubelet, cdi, library, wait, lasts } = options;
    let name = driver.name.clone();
    let folder = kubelet.join("plugins").join(&name);
    let registry = kubelet.join("plugins_registry");
    let wrong = |what: String| move |error: std::io::Error| DraError::new(format!("cannot use {what}: {error}"));
    for folder in [&folder, &registry] {
        std::fs::create_dir_all(folder).map_err(wrong(folder.display().to_string()))?;
    }
    let endpoint = folder.join("dra.sock");
    let claims = Claims {
        cluster: Cluster::new(&api)?,
        node,
        wait,
        lasts,
        records: Records::open(&folder.join("claims")).map_err(wrong(format!("{}/claims", folder.display())))?,
        cdi: Cdi::open(&cdi, &name).map_err(wrong(cdi.display().to_string()))?,
        library: Installed::new(&folder.join("library"), &library).map_err(wrong(library.display().to_string()))?,
        busy: std::sync::Mutex::default(),
        driver,
    };
    let node = Arc::new(Node { claims, endpoint: endpoint.clone() });
    let keeper = node.clone();
    let spawned = thread::Builder::new().name("leases".to_owned()).spawn(move || keep(&keeper.claims));
    spawned.map_err(DraError::from_error)?;
    // Kubelet (1.35) puts the path of this socket, with its slashes written %2F, into the authority of its requests. There,
    // HTTP allows a percent sign only before an at sign (RFC 3986, 3.2), and the library refuses requests otherwise.
    let registration = registry.join(format!("{name}@reg.sock"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DraError::from_error)?;
    let outcome = runtime.block_on(async {
        let signal = |kind| signal(kind).map_err(DraError::from_error);
        let (mut terminated, mut interrupted) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let service = listen(&endpoint).map_err(wrong(endpoint.display().to_string()))?;
        let about = listen(&registration).map_err(wrong(registration.display().to_string()))?;
        tracing::info!("serving kubelet as {name}");
        let ended = tokio::select! {
            ended = serve(service, node.clone()) => ended,
            ended = serve(about, node.clone()) => ended,
            _ = terminated.recv() => Ok(()),
            _ = interrupted.recv() => Ok(()),
        };
        ended.map_err(DraError::from_error)
    });
    // Kubelet sees that nobody is there. Whoever removes them meanwhile is welcome.
    for socket in [&registration, &endpoint] {
        let _ = std::fs::remove_file(socket);
    }
    // Calls that still wait for a broker do not hold this up: what they have done is on disk.
    runtime.shutdown_background();
    outcome
}

/// Looks after all leases, for ever.
fn keep(claims: &Claims) {
    let usual = (claims.lasts / 4).clamp(SOON.0, LOOK);
    let mut wrong: HashMap<String, DraError> = HashMap::new();
    loop {
        let mut pause = usual;
        let records = claims.records.all().unwrap_or_else(|error| {
            tracing::warn!("cannot read what is known of claims: {error}");
            Vec::new()
        });
        wrong.retain(|uid, _| records.iter().any(|record| record.uid == *uid));
        for record in records {
            match claims.look_after(&record) {
                Ok(()) => drop(wrong.remove(&record.uid)),
                Err(error) => {
                    pause = usual.min(SOON.1);
                    // What goes on being wrong is said once.
                    if wrong.get(&record.uid) != Some(&error) {
                        tracing::warn!("{error}; it is tried again");
                    }
                    wrong.insert(record.uid, error);
                }
            }
        }
        claims.forget_locks();
        thread::sleep(pause);
    }
}

impl Node {
    /// Does something with each claim, with all at a time: one may wait for devices.
    fn each<T: Send>(claims: Vec<Claim>, act: impl Fn(&Claim) -> T + Sync) -> HashMap<String, T> {
        thread::scope(|scope| {
            let act = &act;
            let threads = claims.into_iter().map(|claim| {
                scope.spawn(move || {
                    let done = act(&claim);
                    (claim.uid, done)
                })
            });
            let threads: Vec<_> = threads.collect();
            // Of one that has panicked, kubelet gets no answer, and asks again.
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        })
    }
}

impl Plugin for Node {
    fn info(&self) -> PluginInfo {
        PluginInfo {
            r#type: "DRAPlugin".to_owned(),
            name: self.claims.driver.name.clone(),
            endpoint: self.endpoint.display().to_string(),
            supported_versions: vec!["v1.DRAPlugin".to_owned()],
        }
    }

    fn registered(&self, status: &RegistrationStatus) {
        if status.plugin_registered {
            tracing::info!("kubelet has registered {}", self.claims.driver.name);
        } else {
            tracing::error!("kubelet does not register {}: {}", self.claims.driver.name, status.error);
        }
    }

    fn prepare(&self, request: PrepareRequest) -> PrepareResponse {
        let prepare = |claim: &Claim| match self.claims.prepare(claim) {
            Ok(devices) => {
                let id = self.claims.cdi.id(&claim.uid);
                let device = |granted: records::Granted| Device {
                    request_names: vec![granted.request],
                    pool_name: granted.pool,
                    device_name: granted.device,
                    cdi_device_ids: vec![id.clone()],
                    share_id: None,
                };
                Prepared { devices: devices.into_iter().map(device).collect(), error: String::new() }
            }
            Err(error) => {
                tracing::warn!("{error}");
                Prepared { devices: Vec::new(), error: error.to_string() }
            }
        };
        PrepareResponse { claims: Self::each(request.claims, prepare) }
    }

    fn unprepare(&self, request: UnprepareRequest) -> UnprepareResponse {
        let unprepare = |claim: &Claim| {
            let error = self.claims.unprepare(claim).err().map(|error| error.to_string()).unwrap_or_default();
            Unprepared { error }
        };
        UnprepareResponse { claims: Self::each(request.claims, unprepare) }
    }
}
