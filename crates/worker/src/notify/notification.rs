//! Notifications of native events that ended while no thread of the session waited for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::base::error::End;

/// A notification: the work to be done for it, which must not block for long, except on a client that does not read. An
/// error ends the session.
pub type Notification = Box<dyn FnOnce() -> Result<(), End> + Send>;

/// Most work items that the client may have deferred at a time: events that are waited for, and reports or transfers
/// that follow their ends.
const MAX_BACKLOG: usize = 1 << 20;

/// The sending end to the thread that handles notifications.
#[derive(Clone)]
pub struct Post {
    sender: Sender<Notification>,
    /// The number of deferred work items.
    backlog: Arc<AtomicUsize>,
}

/// The receiving end for notifications.
pub type Letterbox = Receiver<Notification>;

/// Makes a channel for notifications: the sending end and the receiving end.
pub fn post() -> (Post, Letterbox) {
    let (sender, letterbox) = channel();
    (Post { sender, backlog: Arc::default() }, letterbox)
}

impl Post {
    /// Sends a notification.
    pub fn notify(&self, notification: Notification) {
        self.count();
        self.forward(notification);
    }

    /// Sends a notification that is counted already; if there is no receiver any more, the session is over.
    pub(super) fn forward(&self, notification: Notification) {
        let _ = self.sender.send(notification);
    }

    /// Counts one more deferred work item.
    pub fn count(&self) {
        self.backlog.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one deferred work item as done.
    pub fn done(&self) {
        self.backlog.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the client has deferred more work than a session may.
    pub fn is_overrun(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) > MAX_BACKLOG
    }

    /// Ends the session.
    pub fn end(&self, end: End) {
        self.notify(Box::new(move || Err(end)));
    }
}
