//! A server: one session.

use std::sync::{Arc, Mutex};

use ropeway_transport::Endpoint;

use super::reach::Held;
use crate::base::sync::lock;
use crate::link::connection::Connection;

/// A server that was connected at some time: one session.
#[derive(Debug)]
pub struct Server {
    connection: Arc<Connection>,
    /// What it lives by, where it was started when it was needed.
    held: Mutex<Option<Held>>,
}

/// The state of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Its devices can be used.
    Connected,
    /// The server or the network has ended the session.
    Lost,
    /// The application has ended the session.
    Disconnected,
}

/// A change of a server's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is lost: its devices are unavailable.
    Lost,
    /// It is there: its devices are among the platform's.
    Found,
    /// Its devices are going to be taken back: [`System::time_left`](super::System::time_left).
    Notice,
}

impl Server {
    pub(super) fn new(connection: Arc<Connection>, held: Option<Held>) -> Self {
        Self { connection, held: Mutex::new(held) }
    }

    /// The link to it.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Whether it can be used.
    pub fn state(&self) -> State {
        if self.connection.is_closed() {
            State::Disconnected
        } else if self.connection.look_whether_lost() {
            State::Lost
        } else {
            State::Connected
        }
    }

    pub(super) fn close(&self) {
        self.connection.close();
        *lock(&self.held) = None;
    }

    pub(super) fn is_at(&self, address: &Endpoint) -> bool {
        self.connection.configured() == address
    }
}
