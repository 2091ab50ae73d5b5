//! What a session knows of the other sessions of this process.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use ropeway_protocol::ids::SessionId;

use crate::base::sync::lock;

/// What a session knows of others.
#[derive(Default, Debug)]
pub(super) struct Sessions(pub(super) Mutex<Known>);

#[derive(Default, Debug)]
pub(super) struct Known {
    pub(super) has_secret: bool,
    pub(super) peers: HashMap<SessionId, State>,
    /// Those of which it has been said that what goes to and from them takes a detour.
    pub(super) said: HashSet<SessionId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It was told to connect.
    Asked,
    Connected,
    /// It could not, and why.
    Unreachable(String),
    /// It was connected, in whichever direction, until this happened.
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
