//! An event in other homes than its command's, for commands there to wait for.
//!
//! There it is a remote event proxy: a user event of the worker's, under the event's name in that home. The worker of
//! the event's command tells the other worker when it has ended, without the client; where the two do not reach each
//! other, the client passes the status on. A user event of the application's is made in each home that needs it, and
//! set in all of them by the client.

use std::sync::Arc;

use ropeway_abi::CL_COMPLETE;
use ropeway_protocol::ids::EventId;
use ropeway_protocol::messages::{CreateUserEvent, ExpectSignal, ReleaseEvent, SetUserEventStatus, SignalPeer};
use smallvec::SmallVec;

use super::Event;
use crate::base::status::{Result, Status};
use crate::base::sync::lock;
use crate::link::completion::Completion;
use crate::link::peers::{self, Way};
use crate::objects::home::{CreatedIn, Home};

/// The other homes in which an event is known, and those that have to be told of its end.
#[derive(Default)]
pub(super) struct RemoteProxies {
    /// The homes in which it has been made as a user event.
    made: CreatedIn,
    relay: std::sync::Mutex<Relay>,
}

#[derive(Default)]
struct Relay {
    /// The numbers of the homes that are to get its status from the client.
    homes: SmallVec<[usize; 1]>,
    /// The numbers of the homes whose workers get the status from the command's worker, as long as that worker is
    /// there.
    direct: SmallVec<[usize; 1]>,
    /// The event itself, until it has ended: the end of an event that nobody holds is not reported.
    held: Option<Arc<dyn Completion>>,
}

impl Event {
    /// Prepares for a command of `home` to wait for the event: finds out how the event's server can report its end to
    /// that home's server. Waits for the two to connect, if they have not tried yet, and so must be called before any
    /// lock is taken that other threads need.
    pub(crate) fn find_way_to(&self, home: &Home) {
        if !self.is_of(home) && self.ends_at_server() && !(self.context.spans_homes() && self.has_ended()) {
            peers::way(self.connection(), home.connection());
        }
    }

    /// Whether its server knows when it has ended. A read has ended only when its data is here.
    fn ends_at_server(&self) -> bool {
        self.queue.is_some() && !self.awaits_data.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Its name in a home, for a command there to wait for. `None`: it has ended well, and there is nothing to wait
    /// for.
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
        let (connection, own) = (home.connection(), self.connection());
        // If no direct route is known, the client passes the status on.
        let is_direct = self.ends_at_server() && peers::known_way(own, connection) == Some(Way::Direct);
        let mut news_wanted = false;
        self.proxies.made.ensure(home, || {
            // A thread that ends the event from here on finds the home in one of the lists.
            let mut relay = lock(&self.proxies.relay);
            let status = self.known_status();
            if is_direct && status > CL_COMPLETE {
                relay.direct.push(home.number());
                drop(relay);
                connection.post(&ExpectSignal { event, context: home.context(), peer: own.session() })?;
                let peer = connection.session();
                // If the event's own server is lost, the event has ended, and the thread that ended it passes that on.
                let _ = own.post(&SignalPeer { event: self.id(), peer, remote: event });
                return Ok(());
            }
            connection.post(&CreateUserEvent { event, context: home.context() })?;
            if status <= CL_COMPLETE {
                return connection.post(&SetUserEventStatus { event, status });
            }
            relay.homes.push(home.number());
            if self.queue.is_some() && relay.held.is_none() {
                relay.held = own.event(self.id());
                news_wanted = true;
            }
            Ok(())
        })?;
        if news_wanted {
            self.subscribe();
        }
        Ok(event)
    }

    /// Whether it is the event of a command that runs in `home`.
    pub(crate) fn is_of(&self, home: &Home) -> bool {
        self.queue.is_some() && self.home == home.number()
    }

    /// Passes the status with which it ended on to the homes that get it from the client.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`], where every home that is to hear of it is.
    pub(super) fn pass_on(&self, status: Status) -> Result<()> {
        if self.queue.is_some() && !self.context.spans_homes() {
            return Ok(());
        }
        let Relay { mut homes, direct, held } = std::mem::take(&mut *lock(&self.proxies.relay));
        if self.home().is_lost() {
            homes.extend(direct);
        }
        let sent = homes.iter().map(|&number| {
            let home = &self.context.homes()[number];
            let event = EventId(home.name(self.name));
            home.connection().post(&SetUserEventStatus { event, status })?;
            // Somebody may be waiting for commands that this event held up.
            home.connection().flush()
        });
        let sent = sent.reduce(Result::or).unwrap_or(Ok(()));
        drop(held);
        sent
    }

    /// Releases its remote event proxies: nobody names it any more.
    pub(super) fn release_elsewhere(&self) {
        for home in self.proxies.made.among(self.context.homes()) {
            // A lost server has dropped it already.
            let _ = home.connection().post(&ReleaseEvent { event: EventId(home.name(self.name)) });
        }
    }
}
