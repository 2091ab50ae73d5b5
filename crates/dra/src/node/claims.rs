//! The claims of a node: a lease for each, as long as it is prepared.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ropeway_lease::connection::BrokerError;
use ropeway_lease::host_file;
use ropeway_lease::messages::Lease;
use ropeway_transport::tls::Identity;

use super::container::{Cdi, Installed};
use super::records::{Granted, Record, Records};
use crate::api::Cluster;
use crate::kubelet::messages::Claim;
use crate::rack::{Rack, want};
use crate::{DraError, Driver};

/// The claims of a node.
pub struct Claims {
    /// The devices, and their names.
    pub driver: Driver,
    /// The cluster.
    pub cluster: Cluster,
    /// The node's name.
    pub node: String,
    /// How long a claim waits for devices that are not free.
    pub wait: Duration,
    /// How long a lease lasts without being renewed.
    pub lasts: Duration,
    /// What is on disk.
    pub records: Records,
    /// What container runtimes read.
    pub cdi: Cdi,
    /// The library for containers.
    pub library: Installed,
    /// One lock for each claim with which something is being done.
    pub busy: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

/// What a node's files cannot be used for.
fn disk(what: &str) -> impl Fn(io::Error) -> DraError + '_ {
    move |error| DraError::new(format!("cannot {what}: {error}"))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done in memory: all that counts is on disk.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Claims {
    /// Gets a lease on what the scheduler has given a claim, and says what containers get; or goes on with the lease that
    /// the claim has.
    ///
    /// # Errors
    /// One sentence; kubelet tries again.
    pub fn prepare(&self, claim: &Claim) -> Result<Vec<Granted>, DraError> {
        let lock = self.lock_of(&claim.uid);
        let _busy = locked(&lock);
        let known = self.records.load(&claim.uid).map_err(disk("read what is known of the claim"))?;
        let devices = match known {
            Some(record) if !record.is_left => {
                self.go_on(claim, &record)?;
                record.devices
            }
            left => {
                left.iter().try_for_each(|record| self.give_back(record))?;
                let devices = self.allocated(claim)?;
                self.obtain(claim, &devices, self.wait)?;
                devices
            }
        };
        let tickets = self.records.tickets(&claim.uid).map_err(disk("find the tickets"))?;
        self.cdi.write(&claim.uid, &tickets, &self.library).map_err(disk("tell the container runtime"))?;
        Ok(devices)
    }

    /// Goes on with the lease that a claim has, or gets another where that is over.
    fn go_on(&self, claim: &Claim, record: &Record) -> Result<(), DraError> {
        match self.renew(record) {
            Ok(()) => Ok(()),
            Err(BrokerError::Unreachable(why)) => {
                // The lease lasts without the broker, too.
                tracing::warn!("the claim {} goes on with lease {}: {why}", title(record), record.lease);
                Ok(())
            }
            Err(BrokerError::Refused(why)) => {
                tracing::warn!("lease {} of the claim {} is over: {why}", record.lease, title(record));
                self.obtain(claim, &record.devices, self.wait)
            }
        }
    }

    /// Gives back what a claim has, if it has anything. Where the broker is away, it is told later.
    ///
    /// # Errors
    /// The node's files cannot be written; kubelet tries again.
    pub fn unprepare(&self, claim: &Claim) -> Result<(), DraError> {
        let lock = self.lock_of(&claim.uid);
        let _busy = locked(&lock);
        self.cdi.remove(&claim.uid).map_err(disk("take back what the container runtime was told"))?;
        let known = self.records.load(&claim.uid).map_err(disk("read what is known of the claim"))?;
        let Some(record) = known else {
            return self.records.forget(&claim.uid).map_err(disk("remove the claim's folder"));
        };
        let record = Record { is_left: true, ..record };
        self.records.keep(&record).map_err(disk("write that the claim is over"))?;
        if let Err(error) = self.give_back(&record) {
            tracing::warn!("{error}; it is tried again");
        }
        Ok(())
    }

    /// Renews the lease of a claim that is prepared, gets another where that is over, and gives back that of one which is
    /// not any more. Does nothing while something else is being done with the claim.
    ///
    /// # Errors
    /// One sentence; it is to be tried again.
    pub fn look_after(&self, record: &Record) -> Result<(), DraError> {
        let lock = self.lock_of(&record.uid);
        let Ok(_busy) = lock.try_lock() else { return Ok(()) };
        let Ok(Some(record)) = self.records.load(&record.uid) else { return Ok(()) };
        if record.is_left {
            return self.give_back(&record);
        }
        let why = match self.renew(&record) {
            Ok(()) => return Ok(()),
            Err(BrokerError::Refused(why)) => why,
            Err(error) => {
                let (lease, title) = (record.lease, title(&record));
                return Err(DraError::new(format!("lease {lease} of the claim {title} is not renewed: {error}")));
            }
        };
        tracing::warn!("lease {} of the claim {} is over: {why}; another is asked for", record.lease, title(&record));
        let claim = Claim { namespace: record.namespace.clone(), uid: record.uid.clone(), name: record.name.clone() };
        self.obtain(&claim, &record.devices, Duration::ZERO)
    }

    /// Forgets the locks that nobody holds or waits for.
    pub fn forget_locks(&self) {
        locked(&self.busy).retain(|_, lock| Arc::strong_count(lock) > 1);
    }

    /// What the scheduler has given a claim.
    fn allocated(&self, claim: &Claim) -> Result<Vec<Granted>, DraError> {
        let (namespace, name) = (&claim.namespace, &claim.name);
        let wrong = |why: &str| DraError::new(format!("the claim {namespace}/{name} {why}"));
        let found = self.cluster.claim(namespace, name)?;
        if found.metadata.uid != claim.uid {
            return Err(wrong("is another one than that of the pod; delete the pod and make it again"));
        }
        let allocation = found.status.allocation.ok_or_else(|| wrong("has no devices yet"))?;
        let results = allocation.devices.results.into_iter().filter(|result| result.driver == self.driver.name);
        let mut devices = Vec::new();
        for result in results {
            if result.pool != self.driver.pool {
                let (theirs, ours) = (&result.pool, &self.driver.pool);
                return Err(wrong(&format!(
                    "has a device of the pool '{theirs}', and this node's driver has '{ours}'"
                )));
            }
            if result.admin_access == Some(true) {
                return Err(wrong("wants devices beside who has them (adminAccess), which a broker does not lend"));
            }
            devices.push(Granted { request: result.request, pool: result.pool, device: result.device });
        }
        if devices.is_empty() {
            return Err(wrong(&format!("has no device of {}", self.driver.name)));
        }
        Ok(devices)
    }

    /// Gets a lease on these devices, and writes it down.
    fn obtain(&self, claim: &Claim, devices: &[Granted], wait: Duration) -> Result<(), DraError> {
        let names: Vec<_> = devices.iter().map(|device| device.device.clone()).collect();
        let (listed, title) = (names.join(", "), format!("{}/{}", claim.namespace, claim.name));
        let wrong =
            |why: &dyn std::fmt::Display| DraError::new(format!("the claim {title} gets no lease on {listed}: {why}"));
        let program = holder(&self.node, &title, &claim.uid);
        let mut rack = Rack::open(&self.driver.brokers, &program).map_err(|error| wrong(&error))?;
        for (held_by, lease) in rack.held().map_err(|error| wrong(&error))? {
            if held_by == program {
                // This node got it before it was stopped in the midst of this.
                rack.release(lease).map_err(|error| wrong(&error))?;
            } else if let Some(node) = node_of(&held_by, &claim.uid) {
                return Err(wrong(&format!(
                    "the node {node} has lease {lease} for it; pods that share a claim have to be on one node, and the lease of a \
                     node that is gone ends by itself"
                )));
            }
        }
        let servers = rack.servers(&[]).map_err(|error| wrong(&error))?;
        let want = want(&names, &servers).map_err(|why| wrong(&why))?;
        let identity = Identity::generate().map_err(|error| wrong(&error))?;
        let lease = rack.lease(want, &identity, wait, self.lasts).map_err(|error| wrong(&error))?;
        let kept = self.keep(claim, devices, &lease, &identity);
        if kept.is_err() {
            // Nobody knows of it, so that it would only stand in the way until it ends by itself.
            let _ = rack.release(lease.lease);
        }
        kept?;
        tracing::info!("the claim {title} has lease {} on {}", lease.lease, listed);
        Ok(())
    }

    fn keep(&self, claim: &Claim, devices: &[Granted], lease: &Lease, identity: &Identity) -> Result<(), DraError> {
        let endpoints = host_file::endpoints(&lease.servers, &lease.certificate, identity);
        let text = host_file::text(&endpoints.map_err(DraError::from_error)?);
        self.records.write_tickets(&claim.uid, &text).map_err(disk("write the claim's tickets"))?;
        let record = Record {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
            lease: lease.lease,
            devices: devices.to_vec(),
            is_left: false,
        };
        self.records.keep(&record).map_err(disk("write down the claim's lease"))
    }

    fn renew(&self, record: &Record) -> Result<(), BrokerError> {
        let mut rack = Rack::open(&self.driver.brokers, &format!("kubernetes {}", self.node))?;
        let certificate = rack.renew(record.lease, self.lasts)?;
        let wrong = |why: String| BrokerError::Refused(format!("its tickets cannot be renewed: {why}"));
        let text = self.records.read_tickets(&record.uid).map_err(|error| wrong(error.to_string()))?;
        let endpoints = host_file::renewed(&text, &certificate).map_err(|error| wrong(error.to_string()))?;
        let written = self.records.write_tickets(&record.uid, &host_file::text(&endpoints));
        written.map_err(|error| wrong(error.to_string()))
    }

    /// Gives the lease of a claim back that is over, and forgets it.
    fn give_back(&self, record: &Record) -> Result<(), DraError> {
        let wrong = |error: BrokerError| {
            let (lease, title) = (record.lease, title(record));
            DraError::new(format!("lease {lease} of the claim {title}, which is over, is not given back: {error}"))
        };
        let program = format!("kubernetes {}", self.node);
        match Rack::open(&self.driver.brokers, &program).map_err(wrong)?.release(record.lease) {
            // It is over already.
            Ok(()) | Err(BrokerError::Refused(_)) => {}
            Err(error) => return Err(wrong(error)),
        }
        self.records.forget(&record.uid).map_err(disk("remove the claim's folder"))
    }

    fn lock_of(&self, uid: &str) -> Arc<Mutex<()>> {
        locked(&self.busy).entry(uid.to_owned()).or_default().clone()
    }
}

/// The name by which a node holds the lease of a claim.
fn holder(node: &str, title: &str, uid: &str) -> String {
    format!("kubernetes {node} {title} {uid}")
}

/// The node that holds a lease under this name, if it is for the claim with this UID.
fn node_of<'a>(holder: &'a str, uid: &str) -> Option<&'a str> {
    let mut words = holder.split(' ');
    (words.next() == Some("kubernetes") && holder.ends_with(&format!(" {uid}"))).then(|| words.next())?
}

/// The name of a record's claim.
fn title(record: &Record) -> String {
    format!("{}/{}", record.namespace, record.name)
}
