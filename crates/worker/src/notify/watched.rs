//! Events that a native callback was asked for.

use super::notification::Notification;
use crate::base::modelled::{Mutex, lock};
use crate::native::Event;

/// What a thread can wait for: a native event.
pub trait Awaited: Send + Sync + 'static {
    /// Blocks until it has ended.
    fn await_end(&self);
}

impl Awaited for Event {
    fn await_end(&self) {
        // The notification itself looks up how the event ended.
        self.end();
    }
}

/// An event, and the notification of its end, which whoever notices the end first sends.
pub struct Watched<E = Event> {
    event: E,
    notification: Mutex<Option<Notification>>,
}

impl<E: Awaited> Watched<E> {
    /// Makes a watched event: `notification` is to be sent once `event` has ended.
    pub fn new(event: E, notification: Notification) -> Self {
        Self { event, notification: Mutex::new(Some(notification)) }
    }

    /// The event.
    pub fn event(&self) -> &E {
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
            self.event.await_end();
        }
        self.take()
    }
}
