//! An event in other homes than its command's, for commands there to wait for.
//!
//! There it is a user event of the worker's, under its name in that home. When the event ends, its status is passed on to all of them. A user event of
//! the application's is made in each home that needs it in the same way.

use std::sync::Arc;

use ropeway_abi::CL_COMPLETE;
use ropeway_protocol::ids::EventId;
use ropeway_protocol::messages::{CreateUserEvent, ReleaseEvent, SetUserEventStatus};
use smallvec::SmallVec;

use super::Event;
use crate::connection::lock;
use crate::home::{Home, Made};
use crate::{Result, Status};

/// Where else an event is, and who is to hear of its end.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// The homes in which it has been made as a user event.
    made: Made,
    relay: std::sync::Mutex<Relay>,
}

#[derive(Default)]
struct Relay {
    /// The numbers of the homes that are to get its status.
    homes: SmallVec<[usize; 1]>,
    /// An event that nobody holds is not heard of: it holds itself until it has ended.
    held: Option<Arc<Event>>,
}

impl Event {
    /// Its name in a home, for a command there to wait for. `None`: it has ended well, and there is nothing to wait for.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`], if that home is.
    pub(crate) fn waited_for_in(&self, home: &Home) -> Result<Option<EventId>> {
        let is_over = || self.context.spans_homes() && self.known_status() == CL_COMPLETE;
        if !self.is_of(home) && is_over() { Ok(None) } else { self.named_in(home).map(Some) }
    }

    /// As [`Self::waited_for_in`], also where there is nothing to wait for.
    ///
    /// # Errors
    /// As [`Self::waited_for_in`].
    pub(crate) fn named_in(&self, home: &Home) -> Result<EventId> {
        let event = EventId(home.name(self.name));
        if self.is_of(home) {
            return Ok(event);
        }
        let connection = home.connection();
        let mut relay = lock(&self.elsewhere.relay);
        let status = self.known_status();
        self.elsewhere.made.ensure(home, || {
            connection.post(&CreateUserEvent { event, context: home.context() })?;
            if status <= CL_COMPLETE { connection.post(&SetUserEventStatus { event, status }) } else { Ok(()) }
        })?;
        // Whoever ends the event from here on finds the home in the list.
        if status > CL_COMPLETE && !relay.homes.contains(&home.number()) {
            relay.homes.push(home.number());
            if relay.held.is_none() && self.queue.is_some() {
                relay.held = self.connection().event(self.id());
                drop(relay);
                self.subscribe();
            }
        }
        Ok(event)
    }

    /// Whether its command, if it is one's, runs there.
    fn is_of(&self, home: &Home) -> bool {
        self.queue.is_some() && self.home == home.number()
    }

    /// It has ended: so has what stands for it elsewhere.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`], where every home that is to hear of it is.
    pub(super) fn pass_on(&self, status: Status) -> Result<()> {
        if self.queue.is_some() && !self.context.spans_homes() {
            return Ok(());
        }
        let Relay { homes, held } = std::mem::take(&mut *lock(&self.elsewhere.relay));
        let sent = homes.iter().map(|&number| {
            let home = &self.context.homes()[number];
            let event = EventId(home.name(self.name));
            home.connection().post(&SetUserEventStatus { event, status })?;
            // Somebody may be waiting for what this sets free.
            home.connection().flush()
        });
        let sent = sent.reduce(Result::or).unwrap_or(Ok(()));
        drop(held);
        sent
    }

    /// Nobody names it any more.
    pub(super) fn release_elsewhere(&self) {
        for home in self.elsewhere.made.among(self.context.homes()) {
            // A lost server has dropped it already.
            let _ = home.connection().post(&ReleaseEvent { event: EventId(home.name(self.name)) });
        }
    }
}
