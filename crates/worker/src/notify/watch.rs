//! News of native events that nobody of the session waits for.
//!
//! A thread waits for them ([`crate::notify::waiters`]), or a native callback passes them on. Some implementations (PoCL 3.1 for one) call back for commands that complete but not
//! for those that end with an error; so what is waited for is also looked at now and then.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ropeway_protocol::types::Status;

use crate::base::error::End;
use crate::base::lock::lock;
use crate::base::order::Turn;
use crate::common::{Common, News};
use crate::native::Event;

/// How often watched events are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// An event that a callback was asked for.
pub struct Watched {
    event: Event,
    news: Mutex<Option<News>>,
}

impl Watched {
    fn take(&self) -> Option<News> {
        lock(&self.news).take()
    }

    /// Whether somebody has passed the news on already.
    pub fn is_over(&self) -> bool {
        lock(&self.news).is_none()
    }

    /// Waits for the event, if nobody has passed the news on; gives what is to be passed on.
    pub fn wait(&self) -> Option<News> {
        if !self.is_over() {
            let _ = self.event.wait();
        }
        self.take()
    }
}

impl Common {
    /// Passes `news` on once `event` has ended; at once without an event. `turn` is the place of its command, where it has one.
    pub fn watch(self: &Arc<Self>, event: Option<Event>, turn: Option<Turn>, news: News) {
        let Some(event) = event else { return self.tell(news) };
        let Err((event, news)) = self.wait_in_a_thread(event, turn, news) else { return };
        let watched = Arc::new(Watched { event, news: Mutex::new(Some(news)) });
        let (called, sender) = (watched.clone(), self.news.clone());
        let asked = watched.event.on_end(move || {
            if let Some(news) = called.take() {
                // With nobody to listen, the session is over.
                let _ = sender.send(news);
            }
        });
        // Where no callback can be had, looking does as well.
        let _ = asked;
        self.leave_to_waiters(watched.clone());
        self.look_at(watched);
    }
}

/// Something to be done with the status of an event, by whoever is first to know it.
type Once = Arc<Mutex<Option<Ended>>>;

/// What is done once an event has ended, with its status.
pub type Ended = Box<dyn FnOnce(&Arc<Common>, Status) + Send>;

impl Common {
    /// Does something that takes no time once `event` has ended; where `at_once` is set, right in the native thread that ends it, so that nobody has to
    /// be woken. That suits implementations for the CPU, whose threads know of an end at once, as others' callbacks do not.
    pub fn when_ended(self: &Arc<Self>, event: Event, turn: Option<Turn>, at_once: bool, then: Ended) {
        if !at_once {
            let known = event.clone();
            return self.watch(Some(event), turn, News::Then(Box::new(move |common| then(common, known.status()))));
        }
        let once: Once = Arc::new(Mutex::new(Some(then)));
        let (called, common) = (once.clone(), self.clone());
        let asked = event.on_end_with(move |status| {
            let then = lock(&called).take();
            if let Some(then) = then {
                then(&common, status);
            }
        });
        let known = event.clone();
        let late = News::Then(Box::new(move |common| {
            let then = lock(&once).take();
            if let Some(then) = then {
                then(common, known.status());
            }
        }));
        if asked.is_err() {
            return self.watch(Some(event), turn, late);
        }
        // What ends with an error may not be called back for.
        self.look_at(Arc::new(Watched { event, news: Mutex::new(Some(late)) }));
    }

    /// Looks at an event now and then.
    fn look_at(&self, watched: Arc<Watched>) {
        let first = {
            let mut list = lock(&self.watched);
            list.push(watched);
            list.len() == 1
        };
        if first {
            self.tell(News::Look);
        }
    }
}

/// Passes news on to the client as long as the session lasts.
///
/// # Errors
/// The session is over.
pub fn pass_on_forever(
    common: &Common,
    news: &Receiver<News>,
    pass_on: impl Fn(News) -> Result<(), End>,
) -> Result<(), End> {
    let mut looked = Instant::now();
    loop {
        let one = if lock(&common.watched).is_empty() {
            news.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            news.recv_timeout(LOOK)
        };
        match one {
            Ok(one) => pass_on(one)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            for one in look(common) {
                pass_on(one)?;
            }
        }
    }
}

/// The news of events that ended without a callback; forgets those that had one.
fn look(common: &Common) -> Vec<News> {
    let mut found = Vec::new();
    lock(&common.watched).retain(|watched| {
        if lock(&watched.news).is_none() {
            return false;
        }
        let ended = watched.event.ended();
        if ended {
            found.extend(watched.take());
        }
        !ended
    });
    found
}
