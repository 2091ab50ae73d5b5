//! One relay in progress: read piece by piece at one server and written at the other, with a few pieces in between.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ropeway_protocol::ids::{EventId, QueueId, TransferId};
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{Marker, ReleaseEvent, WaitForEvents};
use ropeway_protocol::types::{Command, EventList};

use super::Relay;
use crate::base::host::HostTarget;
use crate::base::ids::new_id;
use crate::base::status::{Result, SERVER_LOST};
use crate::link::connection::Connection;
use crate::link::transfers::{Incoming, Outgoing, Ticket};
use crate::objects::home::Home;
use crate::objects::part::Part;

/// Bytes that are read and written at once.
pub(super) const PIECE: usize = 2 << 20;

/// The number of writes whose events are replaced by one.
const MANY: usize = 256;

/// Where a piece's bytes are put once they are here.
type Place = Arc<OnceLock<Vec<u8>>>;

/// Receives a piece from the first server; the piece is put in its place when this is dropped.
struct Here(Vec<u8>, Place);

impl HostTarget for Here {
    fn size(&self) -> usize {
        self.0.len()
    }

    fn span(&self) -> Range<usize> {
        crate::base::host::addresses(&self.0)
    }

    fn run(&mut self, at: usize) -> &mut [u8] {
        self.0.get_mut(at..).unwrap_or_default()
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        let _ = self.1.set(std::mem::take(&mut self.0));
    }
}

/// A piece that is being read.
struct Reading<'a> {
    part: Part<'a>,
    size: usize,
    place: Place,
    ticket: Arc<Ticket>,
}

/// A piece that is being written: its memory is held until the ticket says that it is sent.
pub(super) struct Writing {
    size: usize,
    ticket: Arc<Ticket>,
}

/// A relay on its way.
pub(super) struct Passing<'a> {
    relay: &'a Relay,
    from: &'a Home,
    to: &'a Home,
    source: QueueId,
    target: QueueId,
    /// Most bytes to be held.
    most: usize,
    reading: VecDeque<Reading<'a>>,
    /// Pieces being written, including those left over from earlier relays.
    writing: &'a mut VecDeque<Writing>,
    /// The events of the writes.
    written: EventList,
}

impl<'a> Passing<'a> {
    /// One of which nothing is on its way.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    pub(super) fn new(relay: &'a Relay, most: usize, writing: &'a mut VecDeque<Writing>) -> Result<Self> {
        let (from, to) = (relay.source(), relay.target());
        let (source, target) = (from.relay_queue()?, to.relay_queue()?);
        let (reading, written) = Default::default();
        Ok(Self { relay, from, to, source, target, most, reading, writing, written })
    }

    /// Brings all bytes to the other server; returns an event there that ends when they are in the memory object.
    ///
    /// # Errors
    /// That of a command, or [`SERVER_LOST`]. Nothing of it is on its way any more.
    pub(super) fn run(mut self) -> Result<EventId> {
        let passed = self.pass_all();
        if passed.is_err() {
            // Bytes that were asked for come nevertheless, and take memory until then.
            while let Some(reading) = self.reading.pop_front() {
                let _ = self.from.connection().wait_aside(|| reading.ticket.ended());
            }
            // Nothing may be written behind the end that others are told of.
            let written = std::mem::take(&mut self.written);
            if !written.0.is_empty() {
                let _ = wait_for(self.to.connection(), written);
            }
        }
        passed
    }

    fn pass_all(&mut self) -> Result<EventId> {
        let relay = self.relay;
        let mut pieces = super::pieces(&relay.what, &relay.memory, PIECE as u64);
        let mut next = pieces.next();
        loop {
            self.writing.retain(|writing| writing.ticket.ended().is_none());
            while let Some((part, size)) = next.filter(|(_, size)| self.has_room_for(*size)) {
                self.read(part, size)?;
                next = pieces.next();
            }
            match (self.reading.pop_front(), self.writing.pop_front()) {
                (Some(reading), writing) => {
                    writing.into_iter().for_each(|writing| self.writing.push_front(writing));
                    self.write(reading)?;
                }
                // The piece that is being written takes all the room.
                (None, Some(writing)) if next.is_some() => {
                    self.to.connection().wait_aside(|| writing.ticket.ended())?;
                }
                (None, writing) => {
                    writing.into_iter().for_each(|writing| self.writing.push_front(writing));
                    return self.one_event();
                }
            }
        }
    }

    fn has_room_for(&self, size: usize) -> bool {
        let read = self.reading.iter().map(|reading| reading.size);
        let held: usize = read.chain(self.writing.iter().map(|writing| writing.size)).sum();
        held == 0 || held + size <= self.most
    }

    /// Asks for a piece.
    fn read(&mut self, part: Part<'a>, size: usize) -> Result<()> {
        let (transfer, ticket, place) = (TransferId(new_id()), Ticket::new(None, None), Place::default());
        let here = Here(vec![0; size], Arc::clone(&place));
        self.from.connection().expect_incoming(transfer, Incoming::new(Box::new(here), Arc::clone(&ticket)));
        self.reading.push_back(Reading { part, size, place, ticket });
        let command = Command { queue: self.source, event: None, waits: EventList::default() };
        part.post_read(self.from, command, (size, None), transfer)
    }

    /// Writes a piece when it is here.
    fn write(&mut self, reading: Reading<'_>) -> Result<()> {
        let Reading { part, size, place, ticket } = reading;
        match self.from.connection().wait_aside(|| ticket.ended())? {
            0 => {}
            status => return Err(status),
        }
        let bytes = Arc::into_inner(place).and_then(OnceLock::into_inner).filter(|bytes| bytes.len() == size);
        let bytes = bytes.ok_or(SERVER_LOST)?;
        let event = EventId(self.to.name(new_id()));
        let command = Command { queue: self.target, event: Some(event), waits: EventList::default() };
        if size <= MAX_EAGER {
            part.post_write(self.to, command, &bytes)?;
            self.written.0.push(event);
        } else {
            let (transfer, ticket) = (TransferId(new_id()), Ticket::new(None, None));
            let outgoing = Outgoing::new(Box::new(bytes), Arc::clone(&ticket), Vec::new());
            self.to.connection().offer_outgoing(transfer, outgoing);
            self.writing.push_back(Writing { size, ticket });
            part.post_write_transfer(self.to, command, size, transfer)?;
            self.written.0.push(event);
            self.to.connection().flush()?;
        }
        if self.written.0.len() >= MANY {
            let one = self.one_event()?;
            self.written.0.push(one);
        }
        Ok(())
    }

    /// Replaces the events of all writes so far by one event.
    fn one_event(&mut self) -> Result<EventId> {
        if let [only] = *self.written.0 {
            self.written.0.clear();
            return Ok(only);
        }
        let event = EventId(self.to.name(new_id()));
        let command = Command { queue: self.target, event: Some(event), waits: self.written.clone() };
        self.to.connection().post(&Marker { command })?;
        for event in self.written.0.drain(..) {
            self.to.connection().post(&ReleaseEvent { event })?;
        }
        Ok(event)
    }
}

/// Waits for events of commands, and forgets them.
///
/// # Errors
/// That one has failed, or [`SERVER_LOST`].
pub(super) fn wait_for(connection: &Connection, events: EventList) -> Result<()> {
    let waited = connection.call(&WaitForEvents { events: events.clone() })?;
    for event in events.0 {
        connection.post(&ReleaseEvent { event })?;
    }
    if waited.status < 0 { Err(waited.status) } else { Ok(()) }
}
