//! What happened natively while nobody of the session was waiting for it.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::base::error::End;

/// What is to be done about it: without waiting for long, except for the client to read. An error ends the session.
pub type News = Box<dyn FnOnce() -> Result<(), End> + Send>;

/// To the thread that takes in the news.
#[derive(Clone)]
pub struct Post(Sender<News>);

/// Where news come in.
pub type Letterbox = Receiver<News>;

/// Where news go to, and where they come in.
pub fn post() -> (Post, Letterbox) {
    let (sender, letterbox) = channel();
    (Post(sender), letterbox)
}

impl Post {
    /// Passes news on; when nobody listens any more, the session is over.
    pub fn tell(&self, news: News) {
        let _ = self.0.send(news);
    }

    /// Ends the session.
    pub fn end(&self, end: End) {
        self.tell(Box::new(move || Err(end)));
    }
}
