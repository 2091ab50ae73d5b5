//! Bytes that go from one server to another by way of the client, where the two do not reach each other.
//!
//! They are read at one home and written at the other, each by a queue of its own, so that they wait for nothing else. The write is enqueued at once,
//! for later commands to wait for, and held up by a user event until the bytes are here.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ropeway_abi::{CL_COMMAND_MIGRATE_MEM_OBJECTS, CL_COMPLETE};
use ropeway_protocol::ids::{EventId, TransferId};
use ropeway_protocol::messages::{CreateUserEvent, Marker, ReleaseEvent, SetUserEventStatus};
use ropeway_protocol::types::{Command, EventList};

use crate::connection::{Incoming, Outgoing, Ticket};
use crate::event::Event;
use crate::home::{Home, new_id};
use crate::host::{HostSource, HostTarget};
use crate::memory::Memory;
use crate::prepare::Mark;
use crate::queue::Queue;
use crate::residency::Transfer;
use crate::transfer::Part;
use crate::{Result, SERVER_LOST};

/// What is sent of bytes that are not there: only to a server that asks too early.
static NOTHING: [u8; 4096] = [0; 4096];

/// The place of bytes on their way.
type Between = Arc<OnceLock<Vec<u8>>>;

/// Takes them from the first server; they are in their place when this is dropped.
struct Here(Vec<u8>, Between);

impl HostTarget for Here {
    fn size(&self) -> usize {
        self.0.len()
    }

    fn span(&self) -> Range<usize> {
        crate::host::addresses(&self.0)
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

/// Gives so many of them to the other.
struct There(usize, Between);

impl HostSource for There {
    fn size(&self) -> usize {
        self.0
    }

    fn span(&self) -> Range<usize> {
        0..0
    }

    fn run(&self, at: usize) -> &[u8] {
        let left = self.0.saturating_sub(at);
        match self.1.get() {
            Some(bytes) if bytes.len() == self.0 => &bytes[at.min(bytes.len())..],
            _ => &NOTHING[..left.min(NOTHING.len())],
        }
    }
}

impl Queue {
    /// Takes bytes from one home to this queue's, after events of the former.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    pub(crate) fn relay(
        self: &Arc<Self>,
        memory: &Memory,
        plan: &Transfer<Mark>,
        from: &Home,
        after: EventList,
    ) -> Result<()> {
        let context = self.context();
        let source = Self::new(context, from.devices().first().ok_or(SERVER_LOST)?, 0)?;
        let target = Self::new(context, self.device(), 0)?;
        let arrival = plan.arrival.event_id();
        let image = memory.as_image().map(|image| Part::Image(memory, image.like.whole()));
        let parts: Vec<_> = match image {
            Some(part) => vec![(part, image_bytes(memory).ok_or(SERVER_LOST)?)],
            None => {
                let part = |range: &Range<u64>| {
                    (Part::Bytes(memory, range.start as usize), (range.end - range.start) as usize)
                };
                plan.ranges.iter().map(part).collect()
            }
        };
        let mut written = EventList::default();
        for (part, size) in &parts {
            let event = if parts.len() == 1 { arrival } else { EventId(self.home().name(new_id())) };
            written.0.push(event);
            relay_part(*part, *size, (&source, &target), (after.clone(), event))?;
        }
        if parts.len() != 1 {
            let connection = self.connection();
            let command = Command { queue: target.id(), event: Some(arrival), waits: written.clone() };
            connection.post(&Marker { command })?;
            for event in written.0 {
                connection.post(&ReleaseEvent { event })?;
            }
        }
        Ok(())
    }
}

fn image_bytes(memory: &Memory) -> Option<usize> {
    usize::try_from(memory.as_image()?.like.bytes()?).ok()
}

fn relay_part(
    part: Part<'_>,
    size: usize,
    (source, target): (&Arc<Queue>, &Arc<Queue>),
    (after, arrival): (EventList, EventId),
) -> Result<()> {
    let between = Between::default();
    let (from, to) = (source.connection(), Arc::clone(target.connection()));
    let here = EventId(target.home().name(new_id()));
    to.post(&CreateUserEvent { event: here, context: target.home().context() })?;
    let transfer = TransferId(new_id());
    let ticket = Ticket::new(None, None);
    to.offer_outgoing(transfer, Outgoing::new(Box::new(There(size, Arc::clone(&between))), ticket, Vec::new()));
    let waits = std::iter::once(here).collect();
    let command = Command { queue: target.id(), event: Some(arrival), waits };
    part.post_write_transfer(target.home(), command, size, transfer)?;

    let read = Event::of_command(source, CL_COMMAND_MIGRATE_MEM_OBJECTS, true);
    let ticket = Ticket::new(Some(Arc::clone(&read)), None);
    let transfer = TransferId(new_id());
    from.expect_incoming(transfer, Incoming::new(Box::new(Here(vec![0; size], between)), ticket));
    let command = Command { queue: source.id(), event: Some(read.id()), waits: after };
    let posted = part.post_read(source.home(), command, size, transfer);
    // An event that nobody holds is not heard of.
    let held = Arc::clone(&read);
    let pass_on = move |status: i32| {
        // A lost server has ended what waits for this.
        let _ = to.post(&SetUserEventStatus { event: here, status: status.min(CL_COMPLETE) });
        let _ = to.post(&ReleaseEvent { event: here });
        let _ = to.flush();
        drop(held);
    };
    match posted {
        Ok(()) => read.on_status(CL_COMPLETE, Box::new(pass_on)),
        Err(status) => pass_on(status),
    }
    posted
}
