//! What a broker writes down, so that it lends nothing twice after it was killed.

mod embedded;
mod etcd;
mod tenure;

use std::fmt;

use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::Registration;

use crate::core::{LeaseRecord, UsageRecord};

pub use embedded::Embedded;
pub use etcd::{Campaign, Candidate, EtcdAddress, EtcdFiles, Standing, Term};
pub use tenure::Tenure;

/// Everything that was written down.
#[derive(Debug, Default)]
pub struct Written {
    /// The servers.
    pub servers: Vec<Registration>,
    /// The leases.
    pub leases: Vec<LeaseRecord>,
    /// The highest number of a lease that was ever given.
    pub latest: LeaseId,
    /// What users have used.
    pub usage: Vec<UsageRecord>,
}

/// One thing to write down.
#[derive(Debug)]
pub enum Change {
    /// A lease, instead of what was written of it before.
    Keep(Box<LeaseRecord>),
    /// Nothing of this lease any more.
    Forget(LeaseId),
    /// A server, instead of what was written of it before.
    KeepServer(Box<Registration>),
    /// What a user has used, instead of what was written of it before.
    KeepUsage(Box<UsageRecord>),
}

/// Why nothing can be written down or read: one sentence for a person.
#[derive(Debug)]
pub struct StoreError(pub String);

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}

/// A place where a broker writes.
pub trait Store: Send {
    /// Reads everything.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&mut self) -> Result<Written, StoreError>;

    /// Writes down all of these at once, or none; when it returns, they are there also after the power is cut. If `now`
    /// is false, a later call that says so may do for these as well.
    ///
    /// # Errors
    /// They cannot be written. The same changes may be given again.
    fn write(&mut self, changes: &[Change], now: bool) -> Result<(), StoreError>;
}
