//! Leases: who has what, and until when.

use std::collections::BTreeMap;
use std::time::Duration;

use ropeway_lease::grant::{LeaseId, Share};
use serde::{Deserialize, Serialize};

use super::peer::Peer;
use super::pool::DeviceIndex;

/// What is lent of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The device.
    pub device: DeviceIndex,
    /// How much of its time.
    pub share: Share,
    /// How many bytes of its memory.
    pub memory: u64,
}

/// What is written down of a lease.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// Its name.
    pub lease: LeaseId,
    /// Whose it is.
    pub user: String,
    /// The program that holds it.
    pub program: String,
    /// The holder's public key, as text.
    pub key: String,
    /// How long it lasts after each renewal, in milliseconds.
    pub for_ms: u64,
    /// Whether it ends with its holder's connection.
    pub attached: bool,
    /// Whether it is over, and only servers do not know it yet.
    pub over: Option<String>,
    /// The devices: their servers' keys, numbers, names, shares and bytes of memory.
    pub devices: Vec<(String, u32, String, Share, u64)>,
}

/// A lease.
#[derive(Clone, Debug)]
pub struct Held {
    /// What is written down.
    pub record: LeaseRecord,
    /// What it has; parts on servers that have cleared it are taken out.
    pub parts: Vec<Part>,
    /// When it began, or the broker did.
    pub since: Duration,
    /// When it is over without being renewed.
    pub until: Duration,
    /// When its holder is told that it lasts longer.
    pub renew_at: Duration,
    /// The holder's connection.
    pub holder: Option<Peer>,
    /// When it ends because its holder has not come back.
    pub gone_at: Option<Duration>,
    /// On each server, by key: its sessions, and how long it has kept devices busy, in seconds.
    pub using: BTreeMap<String, (u32, f64)>,
}

impl Held {
    /// Whether it is being ended.
    pub fn is_over(&self) -> bool {
        self.record.over.is_some()
    }

    /// Its sessions on all servers.
    pub fn sessions(&self) -> u32 {
        self.using.values().map(|(sessions, _)| sessions).sum()
    }
}
