//! Notifications of native events that no thread of the session waits for.
//!
//! What the worker itself tells of ([`Event::ending`]) needs no thread until then. For other events a thread waits
//! ([`super::waiters`]), or a native callback reports the end. Some implementations
//! (PoCL 3.1 for one) call back for commands that complete but not for those that end with an error, so events with
//! callbacks are also polled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::types::Status;

use super::notification::{Letterbox, Notification, Post};
use super::waiters::Waiters;
use super::watched::Watched;
use crate::base::error::End;
use crate::base::lock::lock;
use crate::base::order::Turn;
use crate::native::Event;

/// How often watched events are polled.
const LOOK: Duration = Duration::from_millis(20);

/// Notifies of events that have ended.
pub struct Notifier {
    /// The sending end to the thread that handles notifications.
    pub post: Post,
    /// Threads that wait for events.
    waiters: Arc<Waiters>,
    /// Events that callbacks were asked for.
    watched: Mutex<Vec<Arc<Watched>>>,
}

/// Called once an event has ended, with its status.
pub type Ended = Box<dyn FnOnce(Status) + Send>;

impl Notifier {
    /// Makes a notifier that sends its notifications to `post`.
    pub fn new(post: Post) -> Arc<Self> {
        Arc::new(Self { waiters: Waiters::new(post.clone()), post, watched: Mutex::default() })
    }

    /// Sends `notification` once `event` has ended, or at once if there is no event. `turn` is the place of its
    /// command, if it has one.
    pub fn watch(&self, event: Option<Event>, turn: Option<Turn>, notification: Notification) {
        self.post.count();
        let Some(event) = event else { return self.post.forward(notification) };
        if let Some(ending) = event.ending().cloned() {
            let (waiters, post) = (self.waiters.clone(), self.post.clone());
            // Who tells has other things to do: another thread sends the notification, which finds that it need not wait.
            return ending.then(move |_| {
                if let Err((_, notification)) = waiters.wait_in_a_thread(event, None, notification) {
                    post.forward(notification);
                }
            });
        }
        let Err((event, notification)) = self.waiters.wait_in_a_thread(event, turn, notification) else { return };
        let watched = Arc::new(Watched::new(event, notification));
        let (called, post) = (watched.clone(), self.post.clone());
        let asked = watched.event().on_end(move || {
            if let Some(notification) = called.take() {
                post.forward(notification);
            }
        });
        // If no callback can be registered, polling is enough.
        let _ = asked;
        self.waiters.leave(watched.clone());
        self.look_at(watched);
    }

    /// Runs `then`, which must be quick, once `event` has ended; with `at_once`, directly on the native thread that
    /// ends it, so that no thread has to be woken. This suits CPU implementations, whose threads know of an end at
    /// once; the callbacks of others come late.
    pub fn when_ended(&self, event: Event, turn: Option<Turn>, at_once: bool, then: Ended) {
        let known = event.clone();
        if !at_once {
            let notification = move || {
                then(known.end());
                Ok(())
            };
            return self.watch(Some(event), turn, Box::new(notification));
        }
        let once = Arc::new(Mutex::new(Some(then)));
        let (called, asker, has_ended) = (once.clone(), thread::current().id(), Arc::new(AtomicBool::new(false)));
        let seen = has_ended.clone();
        let asked = event.on_end_with(move |status| {
            if thread::current().id() == asker {
                return seen.store(true, Ordering::Relaxed);
            }
            let then = lock(&called).take();
            if let Some(then) = then {
                then(status);
            }
        });
        let late = move || {
            let then = lock(&once).take();
            if let Some(then) = then {
                then(known.end());
            }
        };
        if has_ended.load(Ordering::Relaxed) {
            return late();
        }
        let late: Notification = Box::new(move || {
            late();
            Ok(())
        });
        if asked.is_err() {
            return self.watch(Some(event), turn, late);
        }
        // An event that ends with an error may get no callback, so it is polled, too.
        self.post.count();
        self.look_at(Arc::new(Watched::new(event, late)));
    }

    /// Adds an event to those that are polled.
    fn look_at(&self, watched: Arc<Watched>) {
        let first = {
            let mut list = lock(&self.watched);
            list.push(watched);
            list.len() == 1
        };
        if first {
            // The thread that handles notifications has been blocking without a timeout: this wakes it up to poll.
            self.post.notify(Box::new(|| Ok(())));
        }
    }

    /// Handles notifications as long as the session lasts.
    ///
    /// # Errors
    /// The session is over.
    pub fn pass_on_forever(&self, letterbox: &Letterbox) -> Result<(), End> {
        let mut looked = Instant::now();
        loop {
            let one = if lock(&self.watched).is_empty() {
                letterbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                letterbox.recv_timeout(LOOK)
            };
            match one {
                Ok(notification) => self.deliver(notification)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                for notification in self.look() {
                    self.deliver(notification)?;
                }
            }
        }
    }

    fn deliver(&self, notification: Notification) -> Result<(), End> {
        let outcome = notification();
        self.post.done();
        outcome
    }

    /// Returns the notifications of events that ended without a callback, and drops the events that had one.
    fn look(&self) -> Vec<Notification> {
        let mut found = Vec::new();
        lock(&self.watched).retain(|watched| {
            if watched.is_over() {
                return false;
            }
            let ended = watched.event().ended();
            if ended {
                found.extend(watched.take());
            }
            !ended
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::notification::post;
    use super::*;

    #[test]
    fn what_is_to_be_done_later_is_counted_until_it_is_done() {
        const MOST: usize = 1 << 20;
        let (post, letterbox) = post();
        let notifier = Notifier::new(post.clone());
        let done = Arc::new(AtomicUsize::new(0));
        let later = |notifier: &Notifier| {
            let done = done.clone();
            notifier.watch(
                None,
                None,
                Box::new(move || {
                    done.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                }),
            );
        };
        (0..MOST).for_each(|_| later(&notifier));
        assert!(!post.is_overrun());
        later(&notifier);
        assert!(post.is_overrun());
        post.end(End::Gone);
        assert!(matches!(notifier.pass_on_forever(&letterbox), Err(End::Gone)));
        assert_eq!(done.load(Ordering::Relaxed), MOST + 1);
        (0..MOST).for_each(|_| later(&notifier));
        assert!(!post.is_overrun(), "what is done counts no more");
    }
}
