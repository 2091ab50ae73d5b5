//! Events that a native callback was asked for.

use std::sync::Mutex;

use super::news::News;
use crate::base::lock::lock;
use crate::native::Event;

/// An event, and what is to be told of its end by whoever is first to know it.
pub struct Watched {
    event: Event,
    news: Mutex<Option<News>>,
}

impl Watched {
    /// `news` are to be told once `event` has ended.
    pub fn new(event: Event, news: News) -> Self {
        Self { event, news: Mutex::new(Some(news)) }
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The news, for the first who asks.
    pub fn take(&self) -> Option<News> {
        lock(&self.news).take()
    }

    /// Whether somebody has passed the news on already.
    pub fn is_over(&self) -> bool {
        lock(&self.news).is_none()
    }

    /// Waits for the event, if nobody has passed the news on; gives what is to be passed on.
    pub fn wait(&self) -> Option<News> {
        if !self.is_over() {
            self.event.end();
        }
        self.take()
    }
}
