//! Bulk bytes under way between the application's memory and the server.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ropeway_protocol::ids::TransferId;
use rustc_hash::FxBuildHasher;

use super::completion::Completion;
use super::in_use::{InUse, Using};
use super::slots::Slot;
use crate::base::host::{HostSource, HostTarget};
use crate::base::modelled::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use crate::base::modelled::{Mutex, lock};
use crate::base::status::{SERVER_LOST, Status};

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
    /// Where the server puts them, if they do not come over the link.
    pub(super) slot: Option<Slot>,
    pub(super) ticket: Arc<Ticket>,
}

/// Bytes that go to the server once it asks for them.
pub(crate) struct Outgoing {
    pub(super) source: Box<dyn HostSource>,
    pub(super) sent: usize,
    /// What is being copied to memory that the server sees, if that is how they get there; else they are sent.
    pub(super) piece: Option<Piece>,
    /// The transfers over other servers' links whose reads may be filling the same memory.
    behind: Vec<Arc<Transfers>>,
    pub(super) ticket: Arc<Ticket>,
}

/// Memory that both ends see, for bytes of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Where it begins in the arena.
    pub(super) at: u64,
    /// For which bytes of the write it is: from the first to behind the last.
    pub(super) from: usize,
    pub(super) until: usize,
}

/// Writes whose next bytes are not to be sent yet.
#[derive(Default, Debug)]
struct Offered {
    writes: HashMap<TransferId, Outgoing, FxBuildHasher>,
    /// Of writes that were lent memory, until they are over: what was lent and is not being filled yet.
    lent: HashMap<TransferId, VecDeque<Piece>, FxBuildHasher>,
}

/// A transfer in either direction.
pub(super) trait Transfer: Sized {
    /// Gives the memory back and returns the ticket, which the caller has to end.
    fn give_back(self) -> Arc<Ticket>;
}

impl Transfer for Incoming {
    fn give_back(self) -> Arc<Ticket> {
        self.ticket
    }
}

impl Transfer for Outgoing {
    fn give_back(self) -> Arc<Ticket> {
        self.ticket
    }
}

impl Incoming {
    pub(crate) fn new(target: Box<dyn HostTarget>, ticket: Arc<Ticket>) -> Self {
        Self { span: target.span(), size: target.size(), target, received: 0, slot: None, ticket }
    }

    /// The same, of bytes that come through a slot, if there is one.
    pub(crate) fn through(self, slot: Option<Slot>) -> Self {
        Self { slot, ..self }
    }
}

impl Outgoing {
    pub(crate) fn new(source: Box<dyn HostSource>, ticket: Arc<Ticket>, behind: Vec<Arc<Transfers>>) -> Self {
        Self { source, sent: 0, piece: None, behind, ticket }
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

/// A transfer that one thread has taken out of its table: the application gets the transfer's memory back only when this
/// is dropped.
#[derive(Debug)]
pub(super) struct Taken<T, G> {
    transfer: T,
    // After the memory: who waits for this may tell the application that it has its memory back.
    _guards: G,
}

/// A read whose bytes one thread is receiving. As long as this lives, no write is sent from its memory.
pub(super) type Receiving<'a> = Taken<Incoming, (Mark<'a>, Using<'a>)>;

/// A write that one thread has taken out to send from it.
pub(super) type Sending<'a> = Taken<Outgoing, Using<'a>>;

/// Marks a read as being received, while it lives.
#[derive(Debug)]
pub(super) struct Mark<'a>(&'a AtomicBool);

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T: Transfer, G> Taken<T, G> {
    /// Gives the memory back and returns the ticket, which the caller has to end.
    pub(super) fn give_back(self) -> Arc<Ticket> {
        self.transfer.give_back()
    }
}

impl<T, G> Deref for Taken<T, G> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.transfer
    }
}

impl<T, G> DerefMut for Taken<T, G> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.transfer
    }
}

/// A connection's transfers that are not over.
///
/// A transfer's memory returns to the application, and its ticket ends, exactly once. The thread that ends a transfer
/// has taken it out of its table, so nobody else can use the memory any more; the thread that loses the server waits
/// for any other thread that has taken a transfer out, until it has put the transfer back or given up its memory.
#[derive(Default, Debug)]
pub(crate) struct Transfers {
    incoming: Mutex<Reads>,
    /// Whether the last read that was taken out is still being received.
    is_receiving: AtomicBool,
    /// Writes that the server has not asked for yet, or for which it has lent no more memory.
    outgoing: Mutex<Offered>,
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

/// The reads that are not over.
#[derive(Default, Debug)]
struct Reads {
    expected: HashMap<TransferId, Incoming, FxBuildHasher>,
    /// The last one that was taken out to be received, and the addresses of its memory.
    taken: Option<(TransferId, Range<usize>)>,
}

impl Transfers {
    /// Expects the bytes of a read.
    pub(super) fn expect(&self, id: TransferId, incoming: Incoming) {
        let mut reads = lock(&self.incoming);
        if !self.is_closed() {
            reads.expected.insert(id, incoming);
            return;
        }
        drop(reads);
        incoming.give_back().end(SERVER_LOST);
    }

    /// Takes out a read for which bytes have come: nobody else writes into its memory until it is put back.
    ///
    /// Only the thread that reads the link may call this, so that no other is receiving a read.
    pub(super) fn take_incoming(&self, id: TransferId) -> Option<Receiving<'_>> {
        let mut reads = lock(&self.incoming);
        let incoming = reads.expected.remove(&id)?;
        reads.taken = Some((id, incoming.span.clone()));
        self.is_receiving.store(true, Ordering::Relaxed);
        // Under the lock: a thread that finds the read missing here waits for this one.
        Some(Taken { transfer: incoming, _guards: (Mark(&self.is_receiving), self.in_use.begin()) })
    }

    /// Takes back the memory of a read that ends before all bytes have come. Returns the ticket, which the caller has
    /// to end, the number of bytes that have come, and that of those for which there is room.
    pub(super) fn withdraw(&self, id: TransferId) -> Option<(Arc<Ticket>, usize, usize)> {
        // The memory is given back under the lock: a thread that finds the read missing here may tell the application.
        lock(&self.incoming).expected.remove(&id).map(|i| (i.ticket, i.received, i.size))
    }

    /// Puts back a read of which more is to come.
    pub(super) fn put_back(&self, id: TransferId, receiving: Receiving<'_>) {
        let mut reads = lock(&self.incoming);
        if !self.is_closed() {
            let Taken { transfer: incoming, _guards } = receiving;
            reads.expected.insert(id, incoming);
            return;
        }
        drop(reads);
        receiving.give_back().end(SERVER_LOST);
    }

    /// Leaves a read whose link broke in the middle of its bytes to end with the loss of the server, which is about to
    /// be noticed.
    pub(super) fn end_with_loss(&self, receiving: Receiving<'_>) {
        let ticket = receiving.give_back();
        let mut cut_short = lock(&self.cut_short);
        if !self.is_closed() {
            cut_short.push(ticket);
            return;
        }
        drop(cut_short);
        ticket.end(SERVER_LOST);
    }

    /// Takes back the memory of a command's reads: nothing is received into it from here on. The caller has to end the
    /// returned tickets.
    ///
    /// Only the thread that reads the link may call this, so that no other is receiving into the memory.
    pub(super) fn revoke_reads_of(&self, event: &Arc<dyn Completion>) -> Vec<Arc<Ticket>> {
        // Under the lock, as in [`Self::withdraw`].
        lock(&self.incoming).expected.extract_if(|_, i| i.ticket.is_of(event)).map(|(_, i)| i.ticket).collect()
    }

    /// Whether a read that is under way fills part of this memory.
    pub(crate) fn fill(&self, source: &dyn HostSource) -> bool {
        self.fills(&source.span(), |_| true)
    }

    /// Whether one of these reads, which is under way, fills part of this memory.
    fn fills(&self, span: &Range<usize>, which: impl Fn(TransferId) -> bool) -> bool {
        let reads = lock(&self.incoming);
        let taken = reads.taken.as_ref().filter(|_| self.is_receiving.load(Ordering::Acquire));
        let taken = taken.map(|(id, span)| (id, span));
        let mut all = reads.expected.iter().map(|(id, incoming)| (id, &incoming.span)).chain(taken);
        all.any(|(id, filled)| which(*id) && overlap(filled, span))
    }

    /// Keeps the bytes of a write until the server asks for them.
    pub(super) fn offer(&self, id: TransferId, outgoing: Outgoing) {
        self.unsent.fetch_add(1, Ordering::AcqRel);
        let mut offered = lock(&self.outgoing);
        if !self.is_closed() {
            offered.writes.insert(id, outgoing);
            return;
        }
        drop(offered);
        outgoing.give_back().end(SERVER_LOST);
    }

    /// Takes out a write that the server has not asked for.
    pub(super) fn take_offered(&self, id: TransferId) -> Option<Sending<'_>> {
        let mut offered = lock(&self.outgoing);
        let outgoing = offered.writes.remove(&id)?;
        offered.lent.remove(&id);
        Some(self.taken(outgoing))
    }

    /// The server asks for a write's bytes.
    pub(super) fn asked_for(&self, id: TransferId) {
        if let Some(offered) = self.take_offered(id) {
            self.put(offered, |ready, outgoing| ready.push_back((id, outgoing)));
        }
    }

    /// The server lends memory for a write's next bytes. Returns whether there is such a write.
    pub(super) fn lent(&self, id: TransferId, piece: Piece) -> bool {
        let mut offered = lock(&self.outgoing);
        let Offered { writes, lent } = &mut *offered;
        let Some(mut outgoing) = writes.remove(&id) else {
            // A thread may be copying the piece before it.
            return lent.get_mut(&id).map(|pieces| pieces.push_back(piece)).is_some();
        };
        lent.entry(id).or_default();
        outgoing.piece = Some(piece);
        let outgoing = self.taken(outgoing);
        drop(offered);
        self.put(outgoing, |ready, outgoing| ready.push_back((id, outgoing)));
        true
    }

    /// Puts back a write that has filled its piece: it goes on with the next as soon as it has been lent one.
    pub(super) fn await_piece(&self, id: TransferId, mut sending: Sending<'_>) {
        let mut offered = lock(&self.outgoing);
        let Offered { writes, lent } = &mut *offered;
        sending.piece = lent.entry(id).or_default().pop_front();
        if sending.piece.is_some() || self.is_closed() {
            drop(offered);
            return self.put_ready(id, sending);
        }
        let Taken { transfer: outgoing, _guards } = sending;
        writes.insert(id, outgoing);
    }

    /// A write that was lent memory is over.
    pub(super) fn forget_lent(&self, id: TransferId) {
        lock(&self.outgoing).lent.remove(&id);
    }

    /// A write as one that this thread has taken out. To be called under the lock of the table that it comes from: a thread
    /// that finds it missing there waits for this one.
    fn taken(&self, outgoing: Outgoing) -> Sending<'_> {
        Taken { transfer: outgoing, _guards: self.in_use.begin() }
    }

    /// Puts what was taken out where it is sent from.
    fn put(&self, sending: Sending<'_>, put: impl FnOnce(&mut VecDeque<(TransferId, Outgoing)>, Outgoing)) {
        let mut ready = lock(&self.ready);
        if !self.is_closed() {
            let Taken { transfer: outgoing, _guards } = sending;
            put(&mut ready, outgoing);
            self.ready_count.store(ready.len(), Ordering::Release);
            return;
        }
        drop(ready);
        sending.give_back().end(SERVER_LOST);
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

    /// Takes out a transfer whose next chunk can be sent now. No other thread sends from it until it is put back.
    pub(super) fn take_ready(&self) -> Option<(TransferId, Sending<'_>)> {
        if self.ready_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut ready = lock(&self.ready);
        let at = ready.iter().position(|(id, outgoing)| !self.waits_for_incoming(*id, outgoing))?;
        let (id, outgoing) = ready.remove(at)?;
        self.ready_count.store(ready.len(), Ordering::Release);
        Some((id, Taken { transfer: outgoing, _guards: self.in_use.begin() }))
    }

    /// Puts back what [`Self::take_ready`] gave, for its next chunk.
    pub(super) fn put_ready(&self, id: TransferId, sending: Sending<'_>) {
        self.put(sending, |ready, outgoing| ready.push_front((id, outgoing)));
    }

    /// Whether a read enqueued earlier may still be filling the memory from which this write takes its bytes.
    fn waits_for_incoming(&self, id: TransferId, outgoing: &Outgoing) -> bool {
        let span = outgoing.source.span();
        let fills = |transfers: &Self| transfers.fills(&span, |other| other < id);
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
        // A thread that adds a transfer checks this under its table's lock: either it finds it set, or this one finds
        // the transfer in the table.
        self.is_closed.store(true, Ordering::SeqCst);
        let mut tickets: Vec<_> = lock(&self.incoming).expected.drain().map(|(_, i)| i.ticket).collect();
        tickets.extend(lock(&self.outgoing).writes.drain().map(|(_, o)| o.ticket));
        let mut ready = lock(&self.ready);
        self.ready_count.store(0, Ordering::Release);
        tickets.extend(ready.drain(..).map(|(_, o)| o.ticket));
        drop(ready);
        self.in_use.wait();
        tickets.append(&mut lock(&self.cut_short));
        tickets
    }

    /// Whether the server is lost: nothing is added to a table any more.
    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}
