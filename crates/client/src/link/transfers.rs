//! Bulk bytes under way between the application's memory and the server.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_protocol::ids::TransferId;
use rustc_hash::FxBuildHasher;

use super::completion::Completion;
use super::in_use::{InUse, Using};
use crate::base::host::{HostSource, HostTarget};
use crate::base::status::{SERVER_LOST, Status};
use crate::base::sync::lock;

/// A transfer that is not over.
const UNDER_WAY: i32 = 1;

/// How far a transfer is; shared between whoever waits for it and whoever carries it out.
pub(crate) struct Ticket {
    status: AtomicI32,
    /// The event of a read: over when the data is here.
    event: Option<Arc<dyn Completion>>,
    /// The number of its queue's transfers that are not over.
    open: Option<Arc<AtomicUsize>>,
}

impl Ticket {
    /// A transfer that begins now; `open` is raised until it is over.
    pub(crate) fn new(event: Option<Arc<dyn Completion>>, open: Option<Arc<AtomicUsize>>) -> Arc<Self> {
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

    /// Whether it brings the data of this event's command.
    fn is_of(&self, event: &Arc<dyn Completion>) -> bool {
        self.event.as_ref().is_some_and(|own| Arc::ptr_eq(own, event))
    }

    pub(super) fn end(&self, status: Status) {
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
    pub(super) target: Box<dyn HostTarget>,
    span: Range<usize>,
    pub(super) size: usize,
    pub(super) received: usize,
    pub(super) ticket: Arc<Ticket>,
}

/// Bytes that go to the server once it asks for them.
pub(crate) struct Outgoing {
    pub(super) source: Box<dyn HostSource>,
    pub(super) sent: usize,
    /// The transfers over other servers' links whose reads may be filling the same memory.
    behind: Vec<Arc<Transfers>>,
    pub(super) ticket: Arc<Ticket>,
}

impl Incoming {
    pub(crate) fn new(target: Box<dyn HostTarget>, ticket: Arc<Ticket>) -> Self {
        Self { span: target.span(), size: target.size(), target, received: 0, ticket }
    }
}

impl Outgoing {
    pub(crate) fn new(source: Box<dyn HostSource>, ticket: Arc<Ticket>, behind: Vec<Arc<Transfers>>) -> Self {
        Self { source, sent: 0, behind, ticket }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({:?})", self.ended())
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

/// A read whose bytes one thread is receiving: the application gets the read's memory back only when this is dropped.
#[derive(Debug)]
pub(super) struct Receiving<'a> {
    incoming: Incoming,
    _using: Using<'a>,
}

impl Receiving<'_> {
    /// Gives the memory back and returns the ticket, which the caller has to end.
    pub(super) fn give_back(self) -> Arc<Ticket> {
        Arc::clone(&self.incoming.ticket)
    }
}

impl Deref for Receiving<'_> {
    type Target = Incoming;

    fn deref(&self) -> &Incoming {
        &self.incoming
    }
}

impl DerefMut for Receiving<'_> {
    fn deref_mut(&mut self) -> &mut Incoming {
        &mut self.incoming
    }
}

/// A connection's transfers that are not over.
///
/// A transfer's memory returns to the application, and its ticket ends, exactly once. The thread that ends a transfer
/// has taken it out of its table, so nobody else can use the memory any more; the thread that loses the server waits
/// for any other thread that has taken a transfer out to receive or send.
#[derive(Default, Debug)]
pub(crate) struct Transfers {
    incoming: Mutex<HashMap<TransferId, Incoming, FxBuildHasher>>,
    /// Writes that the server has not asked for yet.
    outgoing: Mutex<HashMap<TransferId, Outgoing, FxBuildHasher>>,
    /// Writes that the server has asked for; any thread that is free sends the next chunk of the first.
    ready: Mutex<VecDeque<(TransferId, Outgoing)>>,
    ready_count: AtomicUsize,
    /// Transfers to the server that are not over, whoever has them.
    unsent: AtomicUsize,
    /// Threads that are receiving into the memory of a read, or sending from that of a write.
    in_use: InUse,
    /// Reads that gave their memory back because the link broke in the middle of their bytes. They end with the loss of
    /// the server.
    cut_short: Mutex<Vec<Arc<Ticket>>>,
    /// The server is lost: what is added from here on ends at once.
    is_closed: AtomicBool,
}

impl Transfers {
    /// Expects the bytes of a read.
    pub(super) fn expect(&self, id: TransferId, incoming: Incoming) {
        lock(&self.incoming).insert(id, incoming);
        self.end_if_closed();
    }

    /// Takes out a read for which bytes have come: nobody else writes into its memory until it is put back.
    pub(super) fn take_incoming(&self, id: TransferId) -> Option<Receiving<'_>> {
        let mut expected = lock(&self.incoming);
        let incoming = expected.remove(&id)?;
        // Under the lock: a thread that finds the read missing here waits for this one.
        Some(Receiving { incoming, _using: self.in_use.begin() })
    }

    /// Puts back a read of which more is to come.
    pub(super) fn put_back(&self, id: TransferId, receiving: Receiving<'_>) {
        let Receiving { incoming, _using } = receiving;
        lock(&self.incoming).insert(id, incoming);
        drop(_using);
        self.end_if_closed();
    }

    /// Leaves a read whose link broke in the middle of its bytes to end with the loss of the server, which is about to
    /// be noticed.
    pub(super) fn end_with_loss(&self, receiving: Receiving<'_>) {
        lock(&self.cut_short).push(receiving.give_back());
        self.end_if_closed();
    }

    /// Takes back the memory of a command's reads: nothing is received into it from here on. The caller has to end the
    /// returned tickets.
    ///
    /// Only the thread that reads the link may call this, so that no other is receiving into the memory.
    pub(super) fn revoke_reads_of(&self, event: &Arc<dyn Completion>) -> Vec<Arc<Ticket>> {
        let mut expected = lock(&self.incoming);
        let revoked: Vec<_> = expected.extract_if(|_, incoming| incoming.ticket.is_of(event)).collect();
        drop(expected);
        revoked.into_iter().map(|(_, incoming)| Arc::clone(&incoming.ticket)).collect()
    }

    /// Whether a read that is under way fills part of this memory.
    pub(crate) fn fill(&self, source: &dyn HostSource) -> bool {
        let span = source.span();
        lock(&self.incoming).values().any(|i| overlap(&i.span, &span))
    }

    /// Keeps the bytes of a write until the server asks for them.
    pub(super) fn offer(&self, id: TransferId, outgoing: Outgoing) {
        self.unsent.fetch_add(1, Ordering::AcqRel);
        lock(&self.outgoing).insert(id, outgoing);
        self.end_if_closed();
    }

    /// Takes back a write that the server has not asked for.
    pub(super) fn take_offered(&self, id: TransferId) -> Option<Outgoing> {
        lock(&self.outgoing).remove(&id)
    }

    /// The server asks for a write's bytes.
    pub(super) fn asked_for(&self, id: TransferId) {
        if let Some(outgoing) = self.take_offered(id) {
            lock(&self.ready).push_back((id, outgoing));
            self.ready_count.fetch_add(1, Ordering::AcqRel);
            self.end_if_closed();
        }
    }

    /// A write is over, whatever came of it.
    pub(super) fn note_sent(&self) {
        self.unsent.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether some transfer to the server is not over.
    pub(super) fn any_unsent(&self) -> bool {
        self.unsent.load(Ordering::Acquire) > 0
    }

    /// Whether there is a chunk that could be sent now.
    pub(super) fn any_ready(&self) -> bool {
        self.ready_count.load(Ordering::Acquire) > 0
            && lock(&self.ready).iter().any(|(id, outgoing)| !self.waits_for_incoming(*id, outgoing))
    }

    /// Takes out a transfer whose next chunk can be sent now. No other thread sends from it until it is put back; its
    /// memory may be used while the third value lives.
    pub(super) fn take_ready(&self) -> Option<(TransferId, Outgoing, Using<'_>)> {
        if self.ready_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut ready = lock(&self.ready);
        let at = ready.iter().position(|(id, outgoing)| !self.waits_for_incoming(*id, outgoing))?;
        self.ready_count.fetch_sub(1, Ordering::AcqRel);
        let (id, outgoing) = ready.remove(at)?;
        Some((id, outgoing, self.in_use.begin()))
    }

    /// Puts back what [`Self::take_ready`] gave, for its next chunk.
    pub(super) fn put_ready(&self, id: TransferId, outgoing: Outgoing) {
        lock(&self.ready).push_front((id, outgoing));
        self.ready_count.fetch_add(1, Ordering::AcqRel);
        self.end_if_closed();
    }

    /// Whether a read enqueued earlier may still be filling the memory from which this write takes its bytes.
    fn waits_for_incoming(&self, id: TransferId, outgoing: &Outgoing) -> bool {
        let span = outgoing.source.span();
        let fills = |transfers: &Self| {
            lock(&transfers.incoming).iter().any(|(other, i)| *other < id && overlap(&i.span, &span))
        };
        fills(self) || outgoing.behind.iter().any(|other| fills(other))
    }

    /// Whether a write that the server has asked for waits for reads over other links, whose ends are not reported
    /// here.
    pub(super) fn looks_elsewhere(&self) -> bool {
        self.ready_count.load(Ordering::Acquire) > 0
            && lock(&self.ready).iter().any(|(_, outgoing)| !outgoing.behind.is_empty())
    }

    /// Takes back all transfers, also those added from here on; the caller has to end the tickets with [`SERVER_LOST`].
    /// Waits for threads that are receiving or sending; the link does not block them, as the caller has shut it down.
    #[must_use]
    pub(super) fn close(&self) -> Vec<Arc<Ticket>> {
        // A thread that adds a transfer checks this afterwards, so that either that thread or this one takes it back.
        self.is_closed.store(true, Ordering::SeqCst);
        let mut tickets: Vec<_> = lock(&self.incoming).drain().map(|(_, i)| i.ticket).collect();
        tickets.extend(lock(&self.outgoing).drain().map(|(_, o)| o.ticket));
        let mut ready = lock(&self.ready);
        self.ready_count.store(0, Ordering::Release);
        tickets.extend(ready.drain(..).map(|(_, o)| o.ticket));
        drop(ready);
        self.in_use.wait();
        tickets.append(&mut lock(&self.cut_short));
        tickets
    }

    /// A transfer that was added while the server was being lost must not wait for ever.
    fn end_if_closed(&self) {
        if self.is_closed.load(Ordering::SeqCst) {
            self.close().iter().for_each(|ticket| ticket.end(SERVER_LOST));
        }
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}
