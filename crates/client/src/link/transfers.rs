//! Bulk bytes under way between the application's memory and the server.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_protocol::Tail;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::messages::TransferData;
use rustc_hash::FxBuildHasher;

use super::connection::Connection;
use crate::base::host::{HostSource, HostTarget, gather, scatter};
use crate::base::status::{Result, SERVER_LOST, Status};
use crate::base::sync::lock;
use crate::objects::event::Event;

/// A transfer that is not over.
const UNDER_WAY: i32 = 1;

/// How far a transfer is; shared between whoever waits for it and whoever carries it out.
#[derive(Debug)]
pub(crate) struct Ticket {
    status: AtomicI32,
    /// The event of a read: over when the data is here.
    event: Option<Arc<Event>>,
    /// The count of its queue's transfers that are not over.
    open: Option<Arc<AtomicUsize>>,
}

impl Ticket {
    /// A transfer that begins now; `open` is raised until it is over.
    pub(crate) fn new(event: Option<Arc<Event>>, open: Option<Arc<AtomicUsize>>) -> Arc<Self> {
        if let Some(open) = &open {
            open.fetch_add(1, Ordering::AcqRel);
        }
        Arc::new(Self { status: AtomicI32::new(UNDER_WAY), event, open })
    }

    /// How it ended, once it has.
    pub(crate) fn ended(&self) -> Option<Status> {
        let status = self.status.load(Ordering::Acquire);
        (status != UNDER_WAY).then_some(status)
    }

    fn end(&self, status: Status) {
        if self.status.swap(status, Ordering::AcqRel) != UNDER_WAY {
            return;
        }
        if let Some(open) = &self.open {
            open.fetch_sub(1, Ordering::AcqRel);
        }
        if let Some(event) = &self.event {
            event.data_arrived(status);
        }
    }
}

/// Bytes that come from the server.
pub(crate) struct Incoming {
    target: Box<dyn HostTarget>,
    span: Range<usize>,
    size: usize,
    received: usize,
    ticket: Arc<Ticket>,
}

/// Bytes that go to the server once it asks for them.
pub(crate) struct Outgoing {
    source: Box<dyn HostSource>,
    sent: usize,
    /// Other servers' links over which reads may be filling the same memory.
    behind: Vec<Arc<Connection>>,
    ticket: Arc<Ticket>,
}

impl Incoming {
    pub(crate) fn new(target: Box<dyn HostTarget>, ticket: Arc<Ticket>) -> Self {
        Self { span: target.span(), size: target.size(), target, received: 0, ticket }
    }
}

impl Outgoing {
    pub(crate) fn new(source: Box<dyn HostSource>, ticket: Arc<Ticket>, behind: Vec<Arc<Connection>>) -> Self {
        Self { source, sent: 0, behind, ticket }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incoming({} of {})", self.received, self.size)
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outgoing({} of {})", self.sent, self.source.size())
    }
}

#[derive(Default, Debug)]
pub(super) struct Transfers {
    incoming: Mutex<HashMap<TransferId, Incoming, FxBuildHasher>>,
    /// Not yet asked for.
    outgoing: Mutex<HashMap<TransferId, Outgoing, FxBuildHasher>>,
    /// Asked for; whoever has a moment sends the next chunk of the first.
    ready: Mutex<VecDeque<(TransferId, Outgoing)>>,
    ready_count: AtomicUsize,
    /// Transfers to the server that are not over, whoever has them.
    unsent: AtomicUsize,
}

impl Transfers {
    /// Whether some transfer to the server is not over.
    pub(super) fn any_unsent(&self) -> bool {
        self.unsent.load(Ordering::Acquire) > 0
    }

    /// Whether there is a chunk that could be sent now.
    pub(super) fn any_ready(&self) -> bool {
        self.ready_count.load(Ordering::Acquire) > 0
            && lock(&self.ready).iter().any(|(id, outgoing)| !self.waits_for_incoming(*id, outgoing))
    }

    /// Takes a transfer whose next chunk can be sent now. Nobody else sends of it until it is put back.
    fn take_ready(&self) -> Option<(TransferId, Outgoing)> {
        if self.ready_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut ready = lock(&self.ready);
        let at = ready.iter().position(|(id, outgoing)| !self.waits_for_incoming(*id, outgoing))?;
        self.ready_count.fetch_sub(1, Ordering::AcqRel);
        ready.remove(at)
    }

    fn put_ready(&self, id: TransferId, outgoing: Outgoing) {
        lock(&self.ready).push_front((id, outgoing));
        self.ready_count.fetch_add(1, Ordering::AcqRel);
    }

    /// A read enqueued earlier may still be filling the memory that this write takes its bytes from.
    fn waits_for_incoming(&self, id: TransferId, outgoing: &Outgoing) -> bool {
        let span = outgoing.source.span();
        let fills = |transfers: &Self| {
            lock(&transfers.incoming).iter().any(|(other, i)| *other < id && overlap(&i.span, &span))
        };
        fills(self) || outgoing.behind.iter().any(|other| fills(&other.transfers))
    }

    /// Whether something that was asked for waits for reads over other links, whose ends nobody tells here.
    pub(super) fn looks_elsewhere(&self) -> bool {
        self.ready_count.load(Ordering::Acquire) > 0
            && lock(&self.ready).iter().any(|(_, outgoing)| !outgoing.behind.is_empty())
    }

    /// Ends everything with [`SERVER_LOST`].
    pub(super) fn lose(&self) {
        let incoming: Vec<_> = lock(&self.incoming).drain().map(|(_, i)| i.ticket).collect();
        let outgoing: Vec<_> = lock(&self.outgoing).drain().map(|(_, o)| o.ticket).collect();
        let ready: Vec<_> = lock(&self.ready).drain(..).map(|(_, o)| o.ticket).collect();
        self.ready_count.store(0, Ordering::Release);
        for ticket in incoming.into_iter().chain(outgoing).chain(ready) {
            ticket.end(SERVER_LOST);
        }
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Connection {
    /// Expects the bytes of a read.
    pub(crate) fn expect_incoming(&self, id: TransferId, incoming: Incoming) {
        self.helper.expect();
        lock(&self.transfers.incoming).insert(id, incoming);
        self.end_if_lost();
    }

    /// Keeps the bytes of a write until the server asks for them.
    pub(crate) fn offer_outgoing(&self, id: TransferId, outgoing: Outgoing) {
        self.helper.expect();
        self.transfers.unsent.fetch_add(1, Ordering::AcqRel);
        lock(&self.transfers.outgoing).insert(id, outgoing);
        self.end_if_lost();
    }

    /// What was added while the server was being lost must not wait for ever.
    fn end_if_lost(&self) {
        if self.is_lost() {
            self.transfers.lose();
        }
    }

    /// Whether a read that is under way fills part of this memory.
    pub(crate) fn incoming_overlaps(&self, source: &dyn HostSource) -> bool {
        let span = source.span();
        lock(&self.transfers.incoming).values().any(|i| overlap(&i.span, &span))
    }

    /// The server asks for a write's bytes.
    pub(super) fn transfer_ready(&self, id: TransferId) {
        if let Some(outgoing) = lock(&self.transfers.outgoing).remove(&id) {
            lock(&self.transfers.ready).push_back((id, outgoing));
            self.transfers.ready_count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Sends one chunk of what the server asked for. False: there was nothing to send.
    pub(crate) fn send_chunk(&self) -> bool {
        let Some((id, mut outgoing)) = self.transfers.take_ready() else { return false };
        let sent = self.send_next_chunk(id, &mut outgoing.sent, &*outgoing.source);
        match sent {
            Err(status) => self.end_outgoing(outgoing, status),
            Ok(()) if outgoing.sent == outgoing.source.size() => self.end_outgoing(outgoing, 0),
            Ok(()) => self.transfers.put_ready(id, outgoing),
        }
        true
    }

    /// Sends `source` whole, as the bytes of transfer `id`, without being asked.
    pub(crate) fn send_transfer(&self, id: TransferId, source: &dyn HostSource) -> Result<()> {
        for offset in (0..source.size()).step_by(CHUNK) {
            let chunk = gather(source, offset, CHUNK);
            self.post_with_tail(&TransferData { transfer: id, offset: offset as u64 }, &chunk)?;
        }
        Ok(())
    }

    fn send_next_chunk(&self, id: TransferId, sent: &mut usize, source: &dyn HostSource) -> Result<()> {
        let chunk = gather(source, *sent, CHUNK);
        self.post_with_tail(&TransferData { transfer: id, offset: *sent as u64 }, &chunk)?;
        *sent += chunk.len();
        if *sent == source.size() { self.flush() } else { Ok(()) }
    }

    /// Takes bytes of a read off the link, straight into the application's memory.
    pub(super) fn receive_data(&self, id: TransferId, offset: u64, tail: &mut dyn Tail) {
        let Some(mut incoming) = lock(&self.transfers.incoming).remove(&id) else { return };
        let len = tail.remaining();
        let is_next = offset == incoming.received as u64;
        if !is_next || !matches!(scatter(&mut *incoming.target, incoming.received, tail), Ok(true)) {
            self.end_transfer(&incoming.ticket, SERVER_LOST);
            return self.lose("it sent other bytes than it was asked for".to_owned());
        }
        incoming.received += len;
        if incoming.received < incoming.size {
            lock(&self.transfers.incoming).insert(id, incoming);
        } else {
            let ticket = Arc::clone(&incoming.ticket);
            drop(incoming);
            self.end_transfer(&ticket, 0);
        }
    }

    /// A read has no more than these bytes.
    pub(super) fn transfer_ends(&self, id: TransferId, size: u64) {
        let Some(mut incoming) = lock(&self.transfers.incoming).remove(&id) else { return };
        if size == incoming.received as u64 && incoming.received < incoming.size {
            incoming.size = incoming.received;
            let ticket = Arc::clone(&incoming.ticket);
            drop(incoming);
            return self.end_transfer(&ticket, 0);
        }
        self.end_transfer(&incoming.ticket, SERVER_LOST);
        self.lose("it ended a read where it does not end".to_owned());
    }

    /// A transfer came to nothing.
    pub(crate) fn transfer_failed(&self, id: TransferId, status: Status) {
        let incoming = lock(&self.transfers.incoming).remove(&id);
        let outgoing = lock(&self.transfers.outgoing).remove(&id);
        if let Some(incoming) = incoming {
            self.end_transfer(&incoming.ticket, status.min(-1));
        }
        if let Some(outgoing) = outgoing {
            self.end_outgoing(outgoing, status.min(-1));
        }
    }

    fn end_outgoing(&self, outgoing: Outgoing, status: Status) {
        let ticket = Arc::clone(&outgoing.ticket);
        // The memory is given back before anybody learns that it is.
        drop(outgoing);
        self.transfers.unsent.fetch_sub(1, Ordering::AcqRel);
        self.end_transfer(&ticket, status);
    }

    fn end_transfer(&self, ticket: &Ticket, status: Status) {
        self.helper.settled();
        ticket.end(status);
        self.inbox.wake();
    }
}
