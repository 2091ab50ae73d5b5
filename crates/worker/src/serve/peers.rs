//! Other sessions of the same client, with which this one shares memory and events.

use std::sync::Arc;

use ropeway_protocol::CallId;
use ropeway_protocol::ids::{ContextId, EventId, MemoryId, QueueId};
use ropeway_protocol::messages::{
    ConnectPeer, Expect, ExpectSignal, LosePeer, OpenPeers, Push, Signal, SignalPeer, Traffic,
};
use ropeway_protocol::types::{EventList, Moved, Status};

use crate::base::error::End;
use crate::base::error::unknown;
use crate::base::order::Turn;
use crate::native::{self, AwaitedWrite, Ranges, StagedRead, UserEvent};
use crate::objects::semaphore;
use crate::objects::{Cell, Cells, Context, Memory};
use crate::peers::{self, Arrival, Part, Services, pre_enqueue};
use crate::queue_states::{claim, gather};
use crate::session::Session;
use crate::session::common::Common;
use crate::session::job::Job;

impl Session {
    pub(super) fn open_peers(&mut self, m: OpenPeers) -> Result<(), End> {
        peers::open(&self.common.peers, m.secret)
    }

    pub(super) fn connect_peer(&mut self, m: ConnectPeer) -> Result<(), End> {
        peers::connect(&self.common.peers, m.peer, m.addresses)
    }

    pub(super) fn lose_peer(&mut self, m: LosePeer) -> Result<(), End> {
        let peer = self.common.peers.peer(m.peer)?;
        // Losing the peer reports failures to the client, which may not be reading, so another thread does it.
        self.common.peers.services.in_the_pool(move |services| peer.lose(services, None, "the client has lost it"));
        Ok(())
    }

    pub(super) fn push(&mut self, m: Push) -> Result<(), End> {
        let (memory, part) = self.moved(m.memory, m.what)?;
        let peer = self.common.peers.peer(m.peer)?;
        let after = self.queue_states.cells(&m.after)?;
        let read = self.read_small(&memory, &part, &m.after, &after)?;
        let event = match m.event {
            Some(id) => self.make_peer_event(id, &memory.context)?.ok(),
            None => None,
        };
        let ticket = self.common.peers.services.ticket()?;
        let push = peers::Push { transfer: m.transfer, memory, part, contents: None, event, peer, ticket };
        match read {
            Some(read) => push.start_with(&self.common.peers.services, read),
            None => push.start(&self.common.peers.services, after),
        }
        Ok(())
    }

    /// Enqueues the read of a few bytes behind what it waits for, where that can be.
    fn read_small(
        &self,
        memory: &Memory,
        part: &Part,
        after: &EventList,
        cells: &Cells,
    ) -> Result<Option<(StagedRead, Option<Turn>)>, End> {
        let Some(part) = part.small() else { return Ok(None) };
        let Ok(waits) = gather(&self.queue_states.events, after, &self.queue_states.failures)? else {
            return Ok(None);
        };
        Ok(self.staged(part.size(), || pre_enqueue::read((memory, &part), cells, &waits)))
    }

    /// Runs `enqueue`, whose command holds `size` bytes of staging memory until it has ended; does nothing if that
    /// would exceed the limit.
    fn staged<T>(&self, size: u64, enqueue: impl FnOnce() -> Option<T>) -> Option<T> {
        let size = size as usize;
        let staged = &self.common.reporter.staged;
        if !staged.take(size) {
            return None;
        }
        let enqueued = enqueue();
        if enqueued.is_none() {
            staged.give_back(size);
        }
        enqueued
    }

    pub(super) fn expect(&mut self, m: Expect) -> Result<(), End> {
        let (memory, part) = self.moved(m.memory, m.what)?;
        let peer = self.common.peers.peer(m.peer)?;
        if let Some((write, turn)) = self.write_small(&memory, &part, m.queue)? {
            // The write is enqueued already, so other commands wait for its end.
            let mut cell = Cell::new(Some(m.event), Some(write.end().clone()), None, None);
            cell.turn = turn;
            let cell = Arc::new(cell);
            claim(self.objects(), &mut self.queue_states.events, m.event, cell.clone())?;
            let arrival = Arrival::awaited(m.transfer, memory, part, write, (m.event, cell));
            return peer.expect(&self.common.peers.services, Arc::new(arrival));
        }
        let event = self.make_peer_event(m.event, &memory.context)?.ok();
        peer.expect(&self.common.peers.services, Arc::new(Arrival::new(m.transfer, memory, part, (m.event, event))))
    }

    /// Enqueues the write of a few bytes that are still to come, where that can be.
    fn write_small(
        &mut self,
        memory: &Memory,
        part: &Part,
        queue: Option<QueueId>,
    ) -> Result<Option<(AwaitedWrite, Option<Turn>)>, End> {
        let queue = queue
            .map(|id| self.queue_states.queue_state(id).map(|queue_state| queue_state.queue.clone()))
            .transpose()?;
        // Without room for its event, the write fails like any other.
        let Some(part) = part.small().filter(|_| self.allow_object().is_ok()) else { return Ok(None) };
        Ok(self.staged(part.size(), || pre_enqueue::write((memory, &part), queue.as_ref())))
    }

    pub(super) fn expect_signal(&mut self, m: ExpectSignal) -> Result<(), End> {
        let peer = self.common.peers.peer(m.peer)?;
        let context = self.context_of(m.context)?;
        if let Ok(user) = self.make_peer_event(m.event, &context)? {
            peer.expect_signal(&self.common.peers.services, m.event, user);
        }
        Ok(())
    }

    pub(super) fn signal_peer(&mut self, m: SignalPeer) -> Result<(), End> {
        let peer = self.common.peers.peer(m.peer)?;
        let cell = self.queue_states.events.get(&m.event).cloned().ok_or_else(|| unknown(m.event))?;
        let (remote, ticket) = (m.remote, self.common.peers.services.ticket()?);
        let send = move |services: &Arc<Services>, status: Status| {
            peers::signal(services, &peer, Signal { event: remote, status }, ticket);
        };
        let ready = cell.status() <= 0;
        // Sending to this session itself makes native calls.
        let maps = cell.queue.as_ref().is_some_and(|queue| queue.context.maps);
        let at_once = maps && m.peer != self.common.peers.services.own;
        let cells = std::iter::once(cell).collect();
        if ready {
            // Never send on the thread that carries out commands.
            let later = move |services: &Arc<Services>| {
                peers::when_all_have_ended(services, cells, 0, false, Box::new(send));
            };
            self.common.peers.services.in_the_pool(later);
        } else {
            peers::when_all_have_ended(&self.common.peers.services, cells, 0, at_once, Box::new(send));
        }
        Ok(())
    }

    pub(super) fn traffic(&mut self, _: Traffic, call: CallId<[u64; 4]>) -> Result<(), End> {
        let answer = move |common: &Common| {
            let ((to_client, from_client), (to_peers, from_peers)) =
                (common.client.outgoing.traffic(), common.peers.traffic());
            common.client.answer(&call, &Ok([from_client, to_client, from_peers, to_peers]))
        };
        self.start(Job::Run(Box::new(answer)));
        Ok(())
    }

    /// A memory object and the part of it that moves.
    ///
    /// # Errors
    /// There is no such object, it is of another kind, or the part leaves it, is empty, or is not in order.
    pub(super) fn moved(&self, id: MemoryId, what: Moved) -> Result<(Arc<Memory>, Part), End> {
        match what {
            Moved::Image(part) => match self.image_part(id, part)? {
                (memory, native::Part::Image { part, size }) if size > 0 => Ok((memory, Part::Image(part, size))),
                _ => Err(End::refused(format_args!("nothing of {id} to be moved"))),
            },
            Moved::Ranges(list) => {
                let ranges = Ranges::new(list);
                let ranges =
                    ranges.ok_or_else(|| End::refused(format_args!("ranges of {id} that are not in order")))?;
                let memory = self.buffer_range(id, 0, ranges.end())?;
                Ok((memory, Part::Ranges(Arc::new(ranges))))
            }
        }
    }

    fn context_of(&self, id: ContextId) -> Result<Arc<Context>, End> {
        self.context(id).cloned()
    }

    /// Makes an event that ends when the worker says so. If it cannot be made, it counts as failed; the inner error is
    /// the status.
    ///
    /// # Errors
    /// The name is taken.
    pub(super) fn make_peer_event(
        &mut self,
        id: EventId,
        context: &Arc<Context>,
    ) -> Result<Result<UserEvent, Status>, End> {
        let native = context.native.as_ref().map_err(|status| *status);
        let made = self.allow_object().and(native).and_then(semaphore::hold);
        let cell = match &made {
            Ok(user) => Cell::new(Some(id), Some(user.event().clone()), None, None),
            Err(status) => Cell::failed(id, *status, None),
        };
        claim(self.objects(), &mut self.queue_states.events, id, Arc::new(cell))?;
        Ok(made)
    }
}
