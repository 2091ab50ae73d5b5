//! Bytes that go from one server to another by way of the client, where the two do not reach each other.
//!
//! The *arrival*, the event that commands of the target wait for, exists at once, and the target's server is told to
//! expect it. The bytes are asked for only when everything that they wait for is known to have ended: from then on only
//! the servers and the network can hold a relay up, so relays can take turns with few queues and little memory. Each
//! server that receives bytes has a thread ([`carrier`]) that carries out its relays one after the other, piece by
//! piece ([`passing`]): while one piece is written, the next ones are read.

mod carrier;
mod passing;

use std::sync::Arc;

use ropeway_abi::{CL_COMPLETE, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST};
use ropeway_protocol::ids::EventId;
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::messages::{CreateUserEvent, ExpectSignal, ReleaseEvent, SetUserEventStatus, SignalPeer};
use ropeway_protocol::types::Moved;

use crate::base::status::{Result, SERVER_LOST, Status};
use crate::objects::context::Context;
use crate::objects::event::Event;
use crate::objects::event_ref::EventRef;
use crate::objects::home::Home;
use crate::objects::memory::Memory;
use crate::objects::part::Part;
use crate::objects::queue::Queue;
use crate::planning::prepare::moved;
use crate::residency::Transfer;

/// Bytes of a memory object that are to be brought from one home to another.
struct Relay {
    context: Arc<Context>,
    memory: Arc<Memory>,
    what: Moved,
    /// The numbers of the homes.
    from: usize,
    to: usize,
    arrival: Arc<Event>,
    /// Whether the server, and not this process, passes the end of the last write on to the arrival.
    signalled: bool,
    /// Whether something that it had to wait for has failed.
    failed: bool,
}

/// Splits a transfer into pieces of at most `most` bytes (of images: at least one element), each with its size in
/// bytes.
fn pieces<'a>(what: &'a Moved, memory: &'a Memory, most: u64) -> Box<dyn Iterator<Item = (Part<'a>, usize)> + 'a> {
    match what {
        Moved::Ranges(ranges) => {
            let cut = move |&(start, size): &(u64, u64)| {
                let starts = (0..size).step_by(most as usize);
                starts.map(move |at| (start + at, most.min(size - at)))
            };
            let pieces = ranges.iter().flat_map(cut);
            Box::new(pieces.map(|(start, size)| (Part::Bytes(memory, start as usize), size as usize)))
        }
        Moved::Image(part) => {
            let element = memory.as_image().map_or(1, |image| image.element() as u64);
            let size = move |piece: &ImagePart| piece.region.iter().product::<u64>() * element;
            let pieces = part.pieces(element, most);
            Box::new(pieces.map(move |piece| (Part::Image(memory, piece), size(&piece) as usize)))
        }
    }
}

impl Queue {
    /// Relays bytes from one home to this queue's, after the given events of the source home.
    ///
    /// # Errors
    /// [`SERVER_LOST`]; nothing is sent then.
    pub(crate) fn relay(self: &Arc<Self>, memory: &Memory, plan: &Transfer<EventRef>, from: &Home) -> Result<()> {
        let (home, arrival) = (self.home(), plan.arrival.event());
        let what = moved(memory, plan)?;
        carrier::start(home.connection())?;
        let mut relay = Relay {
            context: Arc::clone(self.context()),
            memory: memory.hold().ok_or(SERVER_LOST)?,
            what,
            from: from.number(),
            to: home.number(),
            arrival: Arc::clone(arrival),
            signalled: home.connection().give_secret()?,
            failed: false,
        };
        let (event, context, peer) = (arrival.id(), home.context(), home.connection().session());
        if relay.signalled {
            home.connection().post(&ExpectSignal { event, context, peer })?;
        } else {
            home.connection().post(&CreateUserEvent { event, context })?;
        }
        relay.failed = from.is_lost();
        relay.after(plan.after.iter().map(|mark| Arc::clone(mark.event())).collect());
        Ok(())
    }
}

impl Relay {
    /// Hands the relay to its thread when all of these events have ended.
    fn after(mut self, mut events: Vec<Arc<Event>>) {
        // All are asked about at once, though they are looked at in turn.
        events.retain(|event| !event.is_over());
        events.iter().for_each(|event| event.subscribe());
        while let Some(event) = events.pop() {
            if event.has_ended() {
                self.failed |= event.has_failed();
                continue;
            }
            // The callback keeps the event alive until it has ended: the end of an event that nobody holds is not
            // reported.
            let held = Arc::clone(&event);
            return event.then(Box::new(move |status| {
                self.failed |= status < 0;
                self.after(events);
                drop(held);
            }));
        }
        let connection = Arc::clone(self.target().connection());
        carrier::carry(&connection, self);
    }

    fn source(&self) -> &Home {
        &self.context.homes()[self.from]
    }

    fn target(&self) -> &Home {
        &self.context.homes()[self.to]
    }

    /// Ends the arrival with the outcome of the relay: the outcome of `written`, an event of the target, or an error.
    fn conclude(self, written: Result<EventId>) {
        let (connection, event) = (Arc::clone(self.target().connection()), self.arrival.id());
        // The server does not report the end of an event that it was told the end of by this client.
        let arrival = (!self.signalled || written.is_err()).then(|| Arc::clone(&self.arrival));
        // Before the end can become known, every object of the program held here is released.
        drop(self);
        let told = match (written, &arrival) {
            (Ok(written), None) => {
                let signal = SignalPeer { event: written, peer: connection.session(), remote: event };
                connection.post(&signal).and_then(|()| connection.post(&ReleaseEvent { event: written }))
            }
            (written, _) => {
                let outcome =
                    written.and_then(|written| passing::wait_for(&connection, [written].into_iter().collect()));
                let status = outcome.err().unwrap_or(CL_COMPLETE);
                // The local event ends first, so that later commands are planned with this outcome known.
                arrival.iter().for_each(|arrival| arrival.end(status));
                connection.post(&SetUserEventStatus { event, status })
            }
        };
        // A lost server has ended what waits for it.
        let _ = told.and_then(|()| connection.flush());
    }

    /// The status that keeps the relay from beginning; CL_COMPLETE where nothing does.
    fn fails_with(&self) -> Status {
        match (self.failed, self.source().is_lost()) {
            (_, true) => SERVER_LOST,
            (true, false) => CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
            (false, false) => CL_COMPLETE,
        }
    }
}
