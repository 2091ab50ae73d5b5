//! Events that a native callback was asked for.

use std::sync::Mutex;

use super::notification::Notification;
use crate::base::lock::lock;
use crate::native::Event;

/// An event, and the notification of its end, which whoever notices the end first sends.
pub struct Watched {
    event: Event,
    notification: Mutex<Option<Notification>>,
}

impl Watched {
    /// Makes a watched event: `notification` is to be sent once `event` has ended.
    pub fn new(event: Event, notification: Notification) -> Self {
        Self { event, notification: Mutex::new(Some(notification)) }
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Takes the notification; only the first caller gets it.
    pub fn take(&self) -> Option<Notification> {
        lock(&self.notification).take()
    }

    /// Whether somebody has passed the news on already.
    pub fn is_over(&self) -> bool {
        lock(&self.notification).is_none()
    }

    /// Waits for the event, unless the notification has been taken; returns the notification.
    pub fn wait(&self) -> Option<Notification> {
        if !self.is_over() {
            self.event.end();
        }
        self.take()
    }
}
