//! A session's view of the other sessions of this process.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use ropeway_protocol::ids::SessionId;

use crate::base::sync::lock;

/// A session's view of the other sessions in its group.
#[derive(Default, Debug)]
pub(super) struct Sessions(pub(super) Mutex<Known>);

#[derive(Default, Debug)]
pub(super) struct Known {
    pub(super) has_secret: bool,
    pub(super) peers: HashMap<SessionId, State>,
    /// The peers for which the detour through the client has been reported to the user.
    pub(super) said: HashSet<SessionId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The session was told to connect.
    Asked,
    Connected,
    /// The session could not connect, for this reason.
    Unreachable(String),
    /// The session was connected, in whichever direction, until this happened.
    Parted(String),
}

impl Sessions {
    /// Why a peer is not reached.
    pub(super) fn why_not(&self, peer: SessionId) -> Option<String> {
        match lock(&self.0).peers.get(&peer)? {
            State::Unreachable(why) | State::Parted(why) => Some(why.clone()),
            State::Asked | State::Connected => None,
        }
    }
}
