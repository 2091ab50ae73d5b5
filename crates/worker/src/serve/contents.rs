//! Buffers of which only the first bytes are meaningful.

use std::sync::Arc;

use ropeway_protocol::ids::MemoryId;
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{ExpectContent, PushContent, ReadContent};
use ropeway_protocol::types::Moved;

use crate::base::error::End;
use crate::objects::Direction;
use crate::objects::contents::Contents;
use crate::peers::{self, Arrival};
use crate::session::Session;

impl Session {
    pub(super) fn read_content(&mut self, m: ReadContent) -> Result<(), End> {
        let place = self.buffer_bytes(m.buffer, m.offset, m.size)?;
        let contents = self.contents(m.content)?;
        // For a small transfer, moving all bytes costs no more than reading the content size.
        if m.size <= MAX_EAGER as u64 {
            return self.read(&m.command, m.transfer, place);
        }
        self.rendezvous_within(&m.command, m.transfer, Direction::Out, place, Some(contents))
    }

    pub(super) fn push_content(&mut self, m: PushContent) -> Result<(), End> {
        let (memory, part) = self.moved(m.memory, Moved::Ranges(m.ranges))?;
        let contents = self.contents(m.content)?;
        let peer = self.common.peers.peer(m.peer)?;
        let after = self.queue_states.cells(&m.after)?;
        let ticket = self.common.peers.services.ticket()?;
        let (contents, event) = (Some(contents), None);
        let push = peers::Push { transfer: m.transfer, memory, part, contents, event, peer, ticket };
        push.start(&self.common.peers.services, after);
        Ok(())
    }

    pub(super) fn expect_content(&mut self, m: ExpectContent) -> Result<(), End> {
        let (memory, part) = self.moved(m.memory, Moved::Ranges(m.ranges))?;
        let peer = self.common.peers.peer(m.peer)?;
        let event = self.make_peer_event(m.event, &memory.context)?.ok();
        let arrival = Arrival::new(m.transfer, memory, part, (m.event, event)).may_end();
        peer.expect(&self.common.peers.services, Arc::new(arrival))
    }

    fn contents(&self, id: MemoryId) -> Result<Contents, End> {
        Ok(Contents(self.buffer_range(id, 0, Contents::SIZE)?))
    }
}
