//! Reading and writing memory objects.

use std::sync::Arc;

use ropeway_abi::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{
    Marker, ReadBuffer, ReadBufferRect, ReadContent, ReadImage, WriteBuffer, WriteBufferRect, WriteBufferRectTransfer,
    WriteBufferTransfer, WriteImage, WriteImageTransfer,
};
use ropeway_protocol::types::{BufferRect, Command};

use smallvec::SmallVec;

use crate::base::host::{HostSource, HostTarget, gather};
use crate::base::ids::new_id;
use crate::base::status::Result;
use crate::commands::command::{Enqueued, Order, Ordered};
use crate::link::connection::Connection;
use crate::link::transfers::{Incoming, Outgoing, Ticket};
use crate::objects::home::Home;
use crate::objects::memory::Memory;
use crate::objects::queue::Queue;
use crate::planning::prepare::{Access, Arriving, CONTENT_SIZE, Prepared, Use};

/// The part of a memory object that is read or written.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// What begins at this offset of a buffer; the host's memory says how many bytes.
    Bytes(&'a Memory, usize),
    /// This region of a buffer, which has as many bytes as the host's memory.
    Rect(&'a Memory, BufferRect),
    /// These elements of an image, which have as many bytes as the host's memory.
    Image(&'a Memory, ImagePart),
}

impl<'a> Part<'a> {
    /// What a command that moves these `size` bytes does with the memory object.
    fn touched(&self, access: Access, size: usize) -> Use<'a> {
        match *self {
            Self::Bytes(memory, offset) => Use::bytes(memory, access, offset, size),
            Self::Rect(memory, rect) => Use::rect(memory, access, rect),
            Self::Image(memory, part) => Use::image(memory, access, part),
        }
    }

    /// Writes bytes that travel with the command.
    pub(crate) fn post_write(&self, home: &Home, command: Command, bytes: &[u8]) -> Result<()> {
        let connection = home.connection();
        match *self {
            Self::Bytes(memory, offset) => {
                let (buffer, offset) = (memory.id(home), offset as u64);
                connection.post_with_tail(&WriteBuffer { command, buffer, offset }, bytes)
            }
            Self::Rect(memory, rect) => {
                connection.post_with_tail(&WriteBufferRect { command, buffer: memory.id(home), rect }, bytes)
            }
            Self::Image(memory, part) => {
                connection.post_with_tail(&WriteImage { command, image: memory.id(home), part }, bytes)
            }
        }
    }

    /// Writes `size` bytes that follow when they are asked for.
    pub(crate) fn post_write_transfer(
        &self,
        home: &Home,
        command: Command,
        size: usize,
        transfer: TransferId,
    ) -> Result<()> {
        let connection = home.connection();
        match *self {
            Self::Bytes(memory, offset) => {
                let (buffer, offset, size) = (memory.id(home), offset as u64, size as u64);
                connection.post(&WriteBufferTransfer { command, buffer, offset, size, transfer })
            }
            Self::Rect(memory, rect) => {
                connection.post(&WriteBufferRectTransfer { command, buffer: memory.id(home), rect, transfer })
            }
            Self::Image(memory, part) => {
                connection.post(&WriteImageTransfer { command, image: memory.id(home), part, transfer })
            }
        }
    }

    /// Reads `size` bytes.
    pub(crate) fn post_read(&self, home: &Home, command: Command, size: usize, transfer: TransferId) -> Result<()> {
        let connection = home.connection();
        match *self {
            Self::Bytes(memory, offset) => {
                let (buffer, offset, size) = (memory.id(home), offset as u64, size as u64);
                connection.post(&ReadBuffer { command, buffer, offset, size, transfer })
            }
            Self::Rect(memory, rect) => {
                connection.post(&ReadBufferRect { command, buffer: memory.id(home), rect, transfer })
            }
            Self::Image(memory, part) => {
                connection.post(&ReadImage { command, image: memory.id(home), part, transfer })
            }
        }
    }
}

impl Queue {
    /// Writes the whole of `source` into part of a memory object; `command` is the event's CL_COMMAND_*.
    ///
    /// The bytes are taken as they are when the command's turn comes: at once, where nothing can change them before that, else when the
    /// server asks for them. If `blocking`, they have been taken when this returns.
    ///
    /// # Errors
    /// The command's error if blocking, [`crate::SERVER_LOST`].
    pub fn enqueue_write(
        self: &Arc<Self>,
        part: Part<'_>,
        source: Box<dyn HostSource>,
        blocking: bool,
        order: Order<'_>,
        command: u32,
    ) -> Result<Enqueued> {
        // A blocking write says so where what it waits for has failed; mostly it is known here, as user events are.
        if blocking && order.waits.iter().any(|event| event.has_failed()) {
            return Err(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        }
        let connection = self.connection();
        let size = source.size();
        let uses = [part.touched(Access::Write, size)];
        let Ordered { mut wire, event, guard: _guard, prepared } = self.order(order, command, false, &uses)?;
        let early = if blocking { connection.early_event(self.live()) } else { None };
        let own = wire.event;
        wire.event = own.or(early);
        let sent = |prepared, own: Option<_>, early: Option<_>| -> Result<()> {
            if let (Some(own), Some(early)) = (own, early) {
                // Its event may be released at any time; this one stands for it.
                let waits = std::iter::once(own).collect();
                connection.post(&Marker { command: Command { queue: self.id(), event: Some(early), waits } })?;
            }
            drop(prepared);
            Ok(())
        };
        let filling = |connection: &&Arc<Connection>| connection.incoming_overlaps(&*source);
        let elsewhere: Vec<_> = match self.context().spans_homes() {
            true => self.context().connections().filter(filling).cloned().collect(),
            false => Vec::new(),
        };
        let may_change =
            connection.has_unset_user_events() || !elsewhere.is_empty() || connection.incoming_overlaps(&*source);
        if size <= MAX_EAGER && !may_change {
            part.post_write(self.home(), wire, &gather(&*source, 0, size))?;
            sent(prepared, own, early)?;
        } else {
            let transfer = TransferId(new_id());
            let ticket = Ticket::new(None, Some(Arc::clone(self.open_transfers())));
            connection.offer_outgoing(transfer, Outgoing::new(source, Arc::clone(&ticket), elsewhere));
            part.post_write_transfer(self.home(), wire, size, transfer)?;
            sent(prepared, own, early)?;
            if blocking {
                self.await_end(&ticket)?;
            }
        }
        if let Some(early) = early {
            connection.note_early(self.live(), early)?;
        }
        Ok(event)
    }

    /// Fills the whole of `target` from part of a memory object; `command` is the event's CL_COMMAND_*. If `blocking`, it is filled
    /// when this returns.
    ///
    /// # Errors
    /// The command's error if blocking, [`crate::SERVER_LOST`].
    pub fn enqueue_read(
        self: &Arc<Self>,
        part: Part<'_>,
        target: Box<dyn HostTarget>,
        blocking: bool,
        order: Order<'_>,
        command: u32,
    ) -> Result<Enqueued> {
        let connection = self.connection();
        let size = target.size();
        let limit = match part {
            Part::Bytes(memory, offset) => memory.content_limit(self.home(), size).map(|limit| (memory, offset, limit)),
            _ => None,
        };
        let mut uses: SmallVec<[_; 2]> = std::iter::once(part.touched(Access::Read, size)).collect();
        // What says how much there is must be there before.
        uses.extend(limit.as_ref().map(|(_, _, limit)| Use::bytes(limit, Access::Read, 0, CONTENT_SIZE as usize)));
        let Ordered { wire, event, guard: _guard, prepared } = self.order(order, command, true, &uses)?;
        let transfer = TransferId(new_id());
        let ticket = Ticket::new(event.clone(), Some(Arc::clone(self.open_transfers())));
        connection.expect_incoming(transfer, Incoming::new(target, Arc::clone(&ticket)));
        match &limit {
            Some((memory, offset, limit)) => {
                let (buffer, content) = (memory.id(self.home()), limit.id(self.home()));
                let (offset, size) = (*offset as u64, size as u64);
                connection.post(&ReadContent { command: wire, buffer, offset, size, content, transfer })?;
            }
            None => part.post_read(self.home(), wire, size, transfer)?,
        }
        let arriving = prepared.map(Prepared::sent);
        if blocking {
            let ended = self.await_end(&ticket);
            ended.inspect_err(|_| arriving.iter().for_each(Arriving::find_out))?;
        }
        Ok(event)
    }

    /// Waits for the end of a transfer; its command's error is the error.
    fn await_end(&self, ticket: &Ticket) -> Result<()> {
        match self.wait(|| ticket.ended())? {
            0 => Ok(()),
            status => Err(status),
        }
    }
}
