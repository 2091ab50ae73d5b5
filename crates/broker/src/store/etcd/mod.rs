//! The store of several brokers for one pool: etcd, of which one broker at a time may write.
//!
//! The pool's keys are `POOL/leader`, which one broker has at a time (see [`campaign`]), `POOL/leases/…`,
//! `POOL/servers/…` and `POOL/usage/…`, `POOL/latest`, the highest number of a lease, and `POOL/written`, the last transaction. Each
//! transaction asks that the leader's key is still this broker's and that `written` is what its last one left: etcd
//! carries out nothing of a broker that does not lead any more, and nothing late or twice of one that does.

mod address;
mod campaign;
mod client;

use std::collections::BTreeMap;
use std::time::Duration;

use ropeway_lease::grant::LeaseId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use address::{EtcdAddress, EtcdFiles};
pub use campaign::{Campaign, Candidate, Standing, Term};

use self::client::{Client, Entry, delete, has, put, range};
use super::tenure::Tenure;
use super::{Change, Store, StoreError, Written};

/// How long a member has for an answer, when something is written or read.
const ANSWER: Duration = Duration::from_secs(1);

/// Most operations of a transaction: etcd takes 128 unless it is told otherwise, and two are the store's own.
const MAX_OPERATIONS: usize = 120;

/// Most bytes of a transaction: etcd takes 1.5 MiB unless it is told otherwise.
const MAX_BYTES: usize = 1 << 20;

/// How many entries are read at a time.
const PAGE: u32 = 256;

/// What a pool's keys are called.
#[derive(Clone, Debug)]
struct Keys {
    leader: String,
    key: String,
    written: String,
    latest: String,
    leases: String,
    servers: String,
    usage: String,
}

impl Keys {
    fn of(pool: &str) -> Self {
        let name = |what: &str| format!("{pool}/{what}");
        Self {
            leader: name("leader"),
            key: name("key"),
            written: name("written"),
            latest: name("latest"),
            leases: name("leases/"),
            servers: name("servers/"),
            usage: name("usage/"),
        }
    }
}

/// What a leading broker reads and writes.
#[derive(Debug)]
pub struct Etcd {
    client: Client,
    keys: Keys,
    /// What the leader's key holds as long as this broker leads.
    leader: Vec<u8>,
    tenure: Tenure,
    /// What `written` holds; `None` before anything was written.
    written: Option<Vec<u8>>,
    /// How many transactions there were.
    count: u64,
    /// The highest number of a lease that is written.
    latest: u64,
}

/// What a transaction does with each key: the value to write; `None`: remove it.
type Operations = BTreeMap<String, Option<Vec<u8>>>;

impl Etcd {
    fn new(client: Client, keys: Keys, leader: Vec<u8>, tenure: Tenure) -> Self {
        Self { client, keys, leader, tenure, written: None, count: 0, latest: 0 }
    }

    /// Tries with each member.
    fn with_each<T>(&mut self, mut attempt: impl FnMut(&mut Client) -> Result<T, String>) -> Result<T, StoreError> {
        let mut last = String::new();
        for _ in 0..self.client.member_count() {
            match attempt(&mut self.client) {
                Ok(found) => return Ok(found),
                Err(why) => last = why,
            }
        }
        Err(StoreError(last))
    }

    /// Everything whose key begins with this, as it is at one time.
    fn all<T: DeserializeOwned>(&mut self, prefix: &str) -> Result<Vec<T>, StoreError> {
        let (mut found, mut after, mut revision) = (Vec::new(), None, None::<String>);
        loop {
            let page = self.with_each(|client| client.page(prefix, after.as_deref(), PAGE, revision.as_deref()))?;
            for Entry { key, value, .. } in page.entries {
                let read = serde_json::from_slice(&value);
                let name = String::from_utf8_lossy(&key);
                found.push(read.map_err(|error| StoreError(format!("cannot read {name} of etcd: {error}")))?);
                after = Some(key);
            }
            if !page.has_more {
                return Ok(found);
            }
            revision = Some(page.revision);
        }
    }

    /// Adds a change to a transaction.
    fn add(&self, change: &Change, operations: &mut Operations) -> Result<(), StoreError> {
        let lease_key = |lease: LeaseId| format!("{}{:020}", self.keys.leases, lease.0);
        match change {
            Change::Keep(record) => {
                let added = operations.get(&self.keys.latest).and_then(|value| number(value.as_deref()?));
                // Numbers are never given again, also when nothing is written of them any more.
                if record.lease.0 > added.unwrap_or(self.latest) {
                    operations.insert(self.keys.latest.clone(), Some(record.lease.0.to_string().into_bytes()));
                }
                operations.insert(lease_key(record.lease), Some(json_of(record)?));
            }
            Change::Forget(lease) => drop(operations.insert(lease_key(*lease), None)),
            Change::KeepUsage(used) => {
                operations.insert(format!("{}{}", self.keys.usage, used.user), Some(json_of(used)?));
            }
            Change::KeepServer(about) => {
                operations.insert(format!("{}{}", self.keys.servers, about.key), Some(json_of(about)?));
            }
        }
        Ok(())
    }

    /// Carries out one transaction.
    fn commit(&mut self, operations: Operations) -> Result<(), StoreError> {
        let next = format!("{} {}", String::from_utf8_lossy(&self.leader), self.count + 1).into_bytes();
        let mut then = vec![put(&self.keys.written, &next)];
        then.extend(operations.iter().map(|(key, value)| match value {
            Some(value) => put(key, value),
            None => delete(key),
        }));
        let (leader, written) = (&self.keys.leader, &self.keys.written);
        let conditions = json!([has(leader, Some(&self.leader)), has(written, self.written.as_deref())]);
        let otherwise = json!([range(leader), range(written)]);
        let then = Value::Array(then);
        let outcome = self.with_each(|client| client.transact(conditions.clone(), then.clone(), otherwise.clone()))?;
        let value = |at: usize| outcome.ranges.get(at)?.first().map(|entry| &entry.value);
        // One that was asked before and not answered is done as well as one that is asked now.
        let is_done = outcome.has_succeeded || (value(0) == Some(&self.leader) && value(1) == Some(&next));
        if !is_done {
            self.tenure.end();
            return Err(StoreError("another broker of this pool leads".to_owned()));
        }
        (self.written, self.count) = (Some(next), self.count + 1);
        let latest = operations.get(&self.keys.latest).and_then(|value| number(value.as_deref()?));
        self.latest = latest.unwrap_or(self.latest);
        Ok(())
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

fn json_of<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| StoreError(format!("this cannot be written: {error}")))
}

fn size(operations: &Operations) -> usize {
    operations.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum()
}

impl Store for Etcd {
    fn read(&mut self) -> Result<Written, StoreError> {
        let keys = self.keys.clone();
        // Nobody writes any more but this broker, so that reading one after the other shows one state.
        let written = self.with_each(|client| client.get(&keys.written))?;
        self.written = written.map(|entry| entry.value);
        let latest = self.with_each(|client| client.get(&keys.latest))?;
        let latest = latest.map(|entry| {
            number(&entry.value).ok_or_else(|| StoreError(format!("what etcd has as {} is no number", keys.latest)))
        });
        self.latest = latest.transpose()?.unwrap_or(0);
        Ok(Written {
            latest: LeaseId(self.latest),
            leases: self.all(&keys.leases)?,
            servers: self.all(&keys.servers)?,
            usage: self.all(&keys.usage)?,
        })
    }

    /// A long list takes several transactions, one after the other. If the last of them are not carried out, the pool is
    /// in a state in which it has been.
    fn write(&mut self, changes: &[Change], _now: bool) -> Result<(), StoreError> {
        let mut operations = Operations::new();
        for change in changes {
            let mut more = Operations::new();
            self.add(change, &mut more)?;
            let is_too_long = operations.len() + more.len() > MAX_OPERATIONS;
            if is_too_long || size(&operations) + size(&more) > MAX_BYTES {
                self.commit(std::mem::take(&mut operations))?;
            }
            self.add(change, &mut operations)?;
        }
        if operations.is_empty() { Ok(()) } else { self.commit(operations) }
    }
}
