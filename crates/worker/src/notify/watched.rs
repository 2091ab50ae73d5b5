//! Events that a native callback was asked for.

use std::sync::Mutex;

use super::news::News;
use crate::base::lock::lock;
use crate::native::Event;

/// An event, and the notification of its end, which whoever notices the end first sends.
pub struct Watched {
    event: Event,
    news: Mutex<Option<News>>,
}

impl Watched {
    /// Makes a watched event: `news` is to be sent once `event` has ended.
    pub fn new(event: Event, news: News) -> Self {
        Self { event, news: Mutex::new(Some(news)) }
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Takes the notification; only the first caller gets it.
    pub fn take(&self) -> Option<News> {
        lock(&self.news).take()
    }

    /// Whether somebody has passed the news on already.
    pub fn is_over(&self) -> bool {
        lock(&self.news).is_none()
    }

    /// Waits for the event, unless the notification has been taken; returns the notification.
    pub fn wait(&self) -> Option<News> {
        if !self.is_over() {
            self.event.end();
        }
        self.take()
    }
}
