//! What goes over a connection to a broker, in both directions: JSON, each message behind its length in bytes (u32,
//! little-endian). Fields that one side does not know it leaves alone, so that brokers, servers and clients of different
//! releases go on together.
//!
//! The connection is encrypted, and both ends have proved their keys in its handshake: no message says who sends it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::grant::{LeaseId, Share};
use crate::property::Properties;
use crate::want::Want;

/// Longest message, in bytes.
pub const MAX_MESSAGE: usize = 4 << 20;

/// Bytes of the length before each message.
pub const LENGTH: usize = 4;

/// The version of these messages. A broker refuses whoever speaks an older one than [`OLDEST`].
pub const VERSION: u32 = 1;

/// The oldest version that is understood.
pub const OLDEST: u32 = 1;

/// How often each end says something, at least, in milliseconds: an end that is silent for [`SILENCE_MS`] is taken to be
/// gone.
pub const BEAT_MS: u64 = 300;

/// How long an end may be silent, in milliseconds.
pub const SILENCE_MS: u64 = 1500;

/// A message to a broker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// The first message of all.
    Hello {
        /// The sender's version of these messages.
        version: u32,
        /// The sender's release of Ropeway, for logs.
        release: String,
        /// Its program, for lists and logs.
        program: String,
    },
    /// Still there.
    Beat,
    /// A client wants devices.
    Lease(LeaseAsk),
    /// The client does not wait any more.
    Cancel,
    /// The holder of an attached lease is back on another connection.
    Attach {
        /// The lease.
        lease: LeaseId,
    },
    /// A lease is to last longer.
    Renew {
        /// The lease.
        lease: LeaseId,
        /// For how long from now, in milliseconds; of an attached lease, as long as its broker likes.
        for_ms: Option<u64>,
    },
    /// A lease is over.
    Release {
        /// The lease.
        lease: LeaseId,
    },
    /// Which leases there are: the asking user's, or everybody's.
    Leases {
        /// Everybody's.
        all: bool,
    },
    /// Which requests wait.
    Queue,
    /// Which devices there are.
    Devices,
    /// Which servers there are, with their devices, some at a time.
    Pool {
        /// How many servers, in the order in which the broker came to know them, to leave out.
        from: u32,
        /// Which properties of devices to tell.
        properties: Vec<String>,
    },
    /// A server lends its devices from now on. Only clients whose ticket says so may.
    Register(Registration),
    /// On a server, a lease has this many sessions, and its commands have kept devices busy for so long since the
    /// server was asked to lend to it.
    Using {
        /// The lease.
        lease: LeaseId,
        /// Sessions.
        sessions: u32,
        /// Seconds, of all devices together.
        device_seconds: f64,
    },
    /// On a server, nothing of a lease is left, and its holder is not let in any more.
    Cleared {
        /// The lease.
        lease: LeaseId,
    },
}

/// A request for devices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LeaseAsk {
    /// Which.
    pub want: Want,
    /// The public key, as text, whose owner may use them: the client has made it for this.
    pub key: String,
    /// How long the lease lasts without being renewed, in milliseconds; `None`: as long as this connection, which may
    /// break for a moment.
    #[serde(default)]
    pub for_ms: Option<u64>,
    /// How long the request may wait, in milliseconds; `None`: for ever; 0: not at all.
    #[serde(default)]
    pub wait_ms: Option<u64>,
    /// More important requests go first; 0 is ordinary.
    #[serde(default)]
    pub priority: i32,
    /// How long the client thinks that it will need them, in milliseconds: short ones can go before others that wait
    /// for more.
    #[serde(default)]
    pub expected_ms: Option<u64>,
}

/// A server and its devices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Registration {
    /// The server's name, for lists.
    pub name: String,
    /// Its public key, as text.
    pub key: String,
    /// Where clients reach it: `tls://host:port`.
    pub address: String,
    /// Its devices, in the order in which it lists them.
    pub devices: Vec<Properties>,
    /// The leases that have sessions there.
    #[serde(default)]
    pub leases: Vec<LeaseId>,
}

/// A message of a broker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub enum Tell {
    /// The answer to [`Ask::Hello`].
    Welcome {
        /// The broker's version of these messages.
        version: u32,
        /// Its release of Ropeway.
        release: String,
        /// The user's name there.
        user: String,
    },
    /// Still there.
    Beat {
        /// The broker's time, in milliseconds since 1970: it goes on evenly, whatever is done to its machine's clock.
        #[serde(default)]
        at_ms: u64,
    },
    /// What was asked cannot be done: one sentence.
    Refused {
        /// Why.
        why: String,
    },
    /// Instead of [`Tell::Welcome`]: this broker stands by, and another one of its pool leads.
    Elsewhere {
        /// Where that one is reached: `host:port`.
        leader: String,
    },
    /// What was asked is done.
    Done,
    /// The request waits.
    Waiting {
        /// How many are before it.
        before: u32,
        /// What it waits for: part of a sentence.
        why: String,
    },
    /// The devices are lent.
    Granted(Box<Lease>),
    /// A lease lasts longer: its new proof.
    Renewed {
        /// The lease.
        lease: LeaseId,
        /// As in [`Lease::certificate`].
        certificate: String,
        /// As in [`Lease::lasts_ms`].
        lasts_ms: u64,
    },
    /// A lease will be ended for others.
    Notice {
        /// The lease.
        lease: LeaseId,
        /// When, in milliseconds from now.
        in_ms: u64,
        /// Why: one sentence.
        why: String,
    },
    /// To its holder: a lease is over.
    Ended {
        /// The lease.
        lease: LeaseId,
        /// Why: one sentence.
        why: String,
    },
    /// The leases.
    Leases {
        /// One line each, of the first ones.
        leases: Vec<LeaseLine>,
        /// How many there are in all.
        #[serde(default)]
        total: u64,
    },
    /// The queue, first ones first.
    Queue {
        /// One line each, of the first ones.
        waiting: Vec<QueueLine>,
        /// How many there are in all.
        #[serde(default)]
        total: u64,
    },
    /// The devices.
    Devices {
        /// One line each, of the first ones.
        devices: Vec<DeviceLine>,
        /// How many there are in all.
        #[serde(default)]
        total: u64,
    },
    /// The answer to [`Ask::Pool`].
    Pool {
        /// Servers.
        servers: Vec<PoolServer>,
        /// What to go on from, if these are not all.
        #[serde(default)]
        next: Option<u32>,
    },
    /// To a server that has registered: these leases are all that there are on it, and those with a higher number than
    /// `latest` that it will be shown.
    Registered {
        /// The highest number of a lease so far.
        latest: LeaseId,
        /// The leases with devices of this server, and how long each lasts, in milliseconds from now.
        leases: Vec<(LeaseId, u64)>,
    },
    /// To a server: a lease lasts for so long from now, in milliseconds.
    Lasts {
        /// The lease.
        lease: LeaseId,
        /// How long.
        for_ms: u64,
    },
    /// To a server: a lease is over; its sessions are to end, and [`Ask::Cleared`] is to be said.
    End {
        /// The lease.
        lease: LeaseId,
        /// Why: one sentence for the client.
        why: String,
    },
}

/// A lease, as its holder gets it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Lease {
    /// Its name.
    pub lease: LeaseId,
    /// The proof that servers are shown, as base64: a certificate for the holder's key.
    pub certificate: String,
    /// How long it lasts without being renewed, in milliseconds from now.
    pub lasts_ms: u64,
    /// The servers.
    pub servers: Vec<LeasedServer>,
}

/// A server of a lease.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LeasedServer {
    /// Its name.
    pub name: String,
    /// Where it is reached: `tls://host:port`.
    pub address: String,
    /// Its public key, as text.
    pub key: String,
    /// The names of the devices.
    pub devices: Vec<String>,
}

/// What a list says of a lease.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LeaseLine {
    /// Its name.
    pub lease: LeaseId,
    /// Whose.
    pub user: String,
    /// The program that holds it.
    pub program: String,
    /// For how long it has been held, in milliseconds.
    pub age_ms: u64,
    /// How long it lasts without being renewed, in milliseconds; `None`: it is being ended.
    pub lasts_ms: Option<u64>,
    /// Whether it ends with its holder's connection.
    pub attached: bool,
    /// Its devices: server, number, name and share.
    pub devices: Vec<(String, u32, String, Share)>,
    /// Sessions on all its servers.
    pub sessions: u32,
    /// For how long its commands have kept devices busy, in seconds, as its servers have said last.
    #[serde(default)]
    pub device_seconds: f64,
}

/// What a list says of a request that waits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct QueueLine {
    /// Its number.
    pub request: u64,
    /// Whose.
    pub user: String,
    /// The program that waits.
    pub program: String,
    /// What for.
    pub want: Want,
    /// How important it is.
    pub priority: i32,
    /// For how long, in milliseconds.
    pub age_ms: u64,
    /// What it waits for: part of a sentence.
    pub why: String,
    /// In how many milliseconds, about, it will be its turn, where that is known.
    #[serde(default)]
    pub in_ms: Option<u64>,
}

/// What a list says of a device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeviceLine {
    /// The server's name.
    pub server: String,
    /// Its number there.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Whether its server is connected.
    pub online: bool,
    /// What of it is free, in thousandths.
    pub free: Share,
    /// The leases on it.
    pub leases: Vec<LeaseId>,
}

/// A server of a pool.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PoolServer {
    /// Its name.
    pub name: String,
    /// Its public key, as text.
    pub key: String,
    /// Whether it is connected.
    pub online: bool,
    /// Its devices, in the order in which it lists them.
    pub devices: Vec<PoolDevice>,
}

/// A device of a pool.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PoolDevice {
    /// What it says of itself, as far as it was asked for.
    pub properties: Properties,
    /// What of it other users than the asking one have, in thousandths.
    pub others: Share,
}

/// A message as it is sent.
///
/// # Errors
/// It is longer than [`MAX_MESSAGE`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; LENGTH];
    serde_json::to_writer(&mut bytes, message).map_err(|error| error.to_string())?;
    let len = bytes.len() - LENGTH;
    if len > MAX_MESSAGE {
        return Err(format!("a message of {len} bytes is longer than {MAX_MESSAGE}"));
    }
    bytes[..LENGTH].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(bytes)
}

/// The length of the message behind these bytes.
///
/// # Errors
/// It is longer than [`MAX_MESSAGE`].
pub fn length(bytes: [u8; LENGTH]) -> Result<usize, String> {
    let len = u32::from_le_bytes(bytes) as usize;
    if len > MAX_MESSAGE { Err(format!("a message of {len} bytes is longer than {MAX_MESSAGE}")) } else { Ok(len) }
}

/// Reads a message, without its length.
///
/// # Errors
/// It is none, or one that this release does not know.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("a message cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_they_were() {
        let ask = Ask::Lease(LeaseAsk {
            want: "2 gpu, memory>=40G".parse().unwrap(),
            key: "k".into(),
            for_ms: None,
            wait_ms: Some(0),
            priority: 0,
            expected_ms: None,
        });
        let bytes = encode(&ask).unwrap();
        let (len, body) = bytes.split_first_chunk::<LENGTH>().unwrap();
        assert_eq!(length(*len), Ok(body.len()));
        let text = r#"{"ask":"lease","want":"2 devices, type=gpu, global_mem_size>=40G","key":"k","for_ms":null,"wait_ms":0,"priority":0,"expected_ms":null}"#;
        assert_eq!(std::str::from_utf8(body).unwrap(), text);
        assert_eq!(decode::<Ask>(body), Ok(ask));
        // Of a later release, and of an earlier one.
        assert!(decode::<Ask>(br#"{"ask":"lease","want":"gpu","key":"k","colour":"red"}"#).is_ok());
        assert!(decode::<Ask>(br#"{"ask":"dance"}"#).is_err());
        assert!(length([255; LENGTH]).is_err());
    }
}
