//! What happened natively while nobody of the session was waiting for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::base::error::End;

/// What is to be done about it: without waiting for long, except for the client to read. An error ends the session.
pub type News = Box<dyn FnOnce() -> Result<(), End> + Send>;

/// Most things that the client has had the worker do later and that are not done: events that are waited for, and what is to be told or moved
/// once they have ended.
const MAX_BACKLOG: usize = 1 << 20;

/// To the thread that takes in the news.
#[derive(Clone)]
pub struct Post {
    sender: Sender<News>,
    /// How much is to be done later.
    backlog: Arc<AtomicUsize>,
}

/// Where news come in.
pub type Letterbox = Receiver<News>;

/// Where news go to, and where they come in.
pub fn post() -> (Post, Letterbox) {
    let (sender, letterbox) = channel();
    (Post { sender, backlog: Arc::default() }, letterbox)
}

impl Post {
    /// Passes news on.
    pub fn tell(&self, news: News) {
        self.count();
        self.forward(news);
    }

    /// Passes news on that are counted already; when nobody listens any more, the session is over.
    pub(super) fn forward(&self, news: News) {
        let _ = self.sender.send(news);
    }

    /// One thing more is to be done later.
    pub fn count(&self) {
        self.backlog.fetch_add(1, Ordering::Relaxed);
    }

    /// One of them is done.
    pub fn done(&self) {
        self.backlog.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether more is to be done later than a session may ask for.
    pub fn is_overrun(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) > MAX_BACKLOG
    }

    /// Ends the session.
    pub fn end(&self, end: End) {
        self.tell(Box::new(move || Err(end)));
    }
}
