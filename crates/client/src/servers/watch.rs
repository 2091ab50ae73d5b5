//! Watching for servers that are lost, found again or to be given back, for applications that want to be told.
//!
//! Nobody reads an idle link, so a lost server is noticed only when it is used. If the application wants to be told,
//! each connection's background I/O thread watches its link.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex};

use crate::base::sync::lock;
use crate::link::connection::Connection;
use crate::servers::notice::Heeding;
use crate::servers::server::{Change, Server};

/// Told of a change of a server.
pub type Listener = Arc<dyn Fn(&Arc<Server>, Change) + Send + Sync>;

/// The listeners, and what each wants to be told of.
#[derive(Default)]
pub(crate) struct Watch {
    pub(super) wanted: Mutex<Wanted>,
    /// Notified when anything in `wanted` changes.
    pub(super) changed: Condvar,
}

/// Which changes somebody wants to be told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Servers that are lost.
    pub lost: bool,
    /// Servers that are there.
    pub found: bool,
    /// Servers whose devices are going to be taken back.
    pub notice: bool,
}

#[derive(Default)]
pub(super) struct Wanted {
    pub listener: Option<Listener>,
    /// What it is told of.
    pub changes: Changes,
    /// The thread that waits for notices, while they are wanted and there can be any.
    pub heeding: Option<Heeding>,
    /// Connections whose background I/O thread watches their link.
    pub attended: Vec<Arc<Connection>>,
    /// Whether a thread is looking for lost servers.
    pub seeking: bool,
    /// The number of servers lost so far, from which the thread sees that it must try at short intervals again.
    pub losses: u64,
}

impl Wanted {
    /// Whether nobody wants to be told of servers that come back.
    pub fn is_over(&self) -> bool {
        self.listener.is_none() || !self.changes.found
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch {
    /// Whom to tell of `change`.
    pub(crate) fn listener(&self, change: Change) -> Option<Listener> {
        let wanted = lock(&self.wanted);
        let wants = match change {
            Change::Lost => wanted.changes.lost,
            Change::Found => wanted.changes.found,
            Change::Notice => wanted.changes.notice,
        };
        wanted.listener.clone().filter(|_| wants)
    }

    /// Has a connection's background I/O thread notice the connection's end, if anybody wants to know.
    pub(crate) fn attend(&self, connection: &Arc<Connection>) {
        let mut wanted = lock(&self.wanted);
        wanted.attended.retain(|one| !one.is_lost());
        if wanted.listener.is_some() && !wanted.attended.iter().any(|one| Arc::ptr_eq(one, connection)) {
            connection.expect_news();
            wanted.attended.push(Arc::clone(connection));
        }
    }
}
