//! Who wants to know when servers are lost and found, and what is done so that they learn of it.
//!
//! Nobody reads an idle link, so a lost server is noticed only when it is used. Where the application wants to be told, each
//! connection's helper watches its link.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex};

use crate::base::sync::lock;
use crate::link::connection::Connection;
use crate::servers::server::{Change, Server};

/// Told of a server that was lost or found.
pub type Listener = Arc<dyn Fn(&Arc<Server>, Change) + Send + Sync>;

/// Who wants to be told of what.
#[derive(Default)]
pub(crate) struct Watch {
    pub(super) wanted: Mutex<Wanted>,
    /// Something above has changed.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct Wanted {
    pub listener: Option<Listener>,
    pub lost: bool,
    pub found: bool,
    /// Connections whose helper watches their links.
    pub attended: Vec<Arc<Connection>>,
    /// A thread looks for lost servers.
    pub seeking: bool,
    /// Counts servers lost, so that the thread sees that it has to hurry again.
    pub losses: u64,
}

impl Wanted {
    /// Nobody wants to know of servers that come back.
    pub fn is_over(&self) -> bool {
        self.listener.is_none() || !self.found
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
            Change::Lost => wanted.lost,
            Change::Found => wanted.found,
        };
        wanted.listener.clone().filter(|_| wants)
    }

    /// Has a connection's helper notice its end, if anybody wants to know.
    pub(crate) fn attend(&self, connection: &Arc<Connection>) {
        let mut wanted = lock(&self.wanted);
        wanted.attended.retain(|one| !one.is_lost());
        if wanted.listener.is_some() && !wanted.attended.iter().any(|one| Arc::ptr_eq(one, connection)) {
            connection.expect_news();
            wanted.attended.push(Arc::clone(connection));
        }
    }
}
