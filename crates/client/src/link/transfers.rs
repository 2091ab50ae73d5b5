//! Bulk bytes under way between the application's memory and the server.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_protocol::ids::TransferId;
use rustc_hash::FxBuildHasher;

use super::completion::Completion;
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
    /// The count of its queue's transfers that are not over.
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

/// A connection's transfers that are not over.
#[derive(Default, Debug)]
pub(crate) struct Transfers {
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
    /// Expects the bytes of a read, or the rest of them.
    pub(super) fn put_incoming(&self, id: TransferId, incoming: Incoming) {
        lock(&self.incoming).insert(id, incoming);
    }

    /// Takes a read of which something has come: nobody else writes into its memory until it is put back.
    pub(super) fn take_incoming(&self, id: TransferId) -> Option<Incoming> {
        lock(&self.incoming).remove(&id)
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

    /// Takes a transfer whose next chunk can be sent now. Nobody else sends of it until it is put back.
    pub(super) fn take_ready(&self) -> Option<(TransferId, Outgoing)> {
        if self.ready_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut ready = lock(&self.ready);
        let at = ready.iter().position(|(id, outgoing)| !self.waits_for_incoming(*id, outgoing))?;
        self.ready_count.fetch_sub(1, Ordering::AcqRel);
        ready.remove(at)
    }

    /// Puts back what [`Self::take_ready`] gave, for its next chunk.
    pub(super) fn put_ready(&self, id: TransferId, outgoing: Outgoing) {
        lock(&self.ready).push_front((id, outgoing));
        self.ready_count.fetch_add(1, Ordering::AcqRel);
    }

    /// A read enqueued earlier may still be filling the memory that this write takes its bytes from.
    fn waits_for_incoming(&self, id: TransferId, outgoing: &Outgoing) -> bool {
        let span = outgoing.source.span();
        let fills = |transfers: &Self| {
            lock(&transfers.incoming).iter().any(|(other, i)| *other < id && overlap(&i.span, &span))
        };
        fills(self) || outgoing.behind.iter().any(|other| fills(other))
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
