//! What a lease gives its holder: the broker signs it, and servers read it without asking anybody.

use serde::{Deserialize, Serialize};

/// The name of a lease. A broker counts them up and never uses one again, so that of two leases on a device the one with
/// the higher number is the later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(pub u64);

impl std::fmt::Display for LeaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::str::FromStr for LeaseId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| format!("'{text}' is not the number of a lease"))
    }
}

/// A share of one device, in thousandths: 1,000 is all of it.
pub type Share = u16;

/// All of a device.
pub const WHOLE: Share = 1000;

/// What a lease gives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// The lease.
    pub lease: LeaseId,
    /// The name of the user whose lease it is, as the broker knows it.
    pub user: String,
    /// On each server, what of it.
    pub servers: Vec<GrantedServer>,
}

/// What a lease gives of one server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrantedServer {
    /// The server's public key, as text.
    pub key: String,
    /// The devices.
    pub devices: Vec<GrantedDevice>,
}

/// What a lease gives of one device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrantedDevice {
    /// Its number, in the order in which the server lists all its devices, from 0.
    pub number: u32,
    /// Its name: a server whose devices have changed since does not take one for another.
    pub name: String,
    /// How much of its time, where others want it as well.
    pub share: Share,
    /// The most bytes of buffers on it. `None`: all that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

impl Grant {
    /// As it is signed.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a grant is made of texts and numbers")
    }

    /// Reads one.
    ///
    /// # Errors
    /// One sentence: it is none.
    pub fn from_text(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("the lease does not say what it grants: {error}"))
    }

    /// What it gives of the server with this key.
    pub fn on(&self, key: &str) -> Option<&GrantedServer> {
        self.servers.iter().find(|server| server.key == key)
    }
}
