//! Who a worker is for.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use ropeway_lease::grant::LeaseId;
use ropeway_protocol::handshake::Hello;
use ropeway_transport::tls::{Certified, PublicKey};
use ropeway_transport::{GuestPart, Link};

use crate::access::{Rules, Share};
use crate::audit::Who;
use crate::folders::{CACHES, folder_of};

/// A client with its hello.
pub(crate) struct Client {
    /// The connection.
    pub(crate) link: Link,
    /// Who it is, as far as is known.
    pub(crate) who: Who,
    /// The key that it has proved to have, over an encrypted connection.
    pub(crate) key: Option<PublicKey>,
    /// Who it is, if its key is a client's.
    pub(crate) guest: Option<Guest>,
    /// The server's announcement.
    pub(crate) hello: Box<Hello>,
    /// The part of a virtual machine's shared memory that its session goes through.
    pub(crate) part: Option<Arc<GuestPart>>,
    /// The client's number, counted from 1 since the server's start in the order in which hellos arrived.
    pub(crate) number: u64,
}

/// A client that is known.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    /// Its key, or what stands for that.
    pub(crate) key: PublicKey,
    /// The certificate with which it has come.
    pub(crate) certified: Option<Certified>,
    /// The lease that it has shown.
    pub(crate) lease: Option<LeaseId>,
    /// Its name.
    pub(crate) name: String,
    /// What it may do.
    pub(crate) rules: Rules,
    /// The share of a new session in what all its sessions may have together, if that has limits.
    pub(crate) share: Option<Arc<Share>>,
    /// Where a new session hears whose turn it is, if the client has a weight.
    pub(crate) turns: Option<Arc<OwnedFd>>,
}

impl Client {
    /// The name of the folder with its compilers' caches: those who cannot be told apart share one.
    pub(crate) fn folder_name(&self) -> String {
        match (&self.guest, self.who.user) {
            (Some(guest), _) => folder_of(&guest.key),
            (None, Some(user)) => format!("user-{user}"),
            (None, None) => "anybody".to_owned(),
        }
    }

    /// The most bytes of these caches that are kept.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.guest.as_ref().and_then(|guest| guest.rules.compiler_cache).unwrap_or(CACHES)
    }
}
