//! Transfers too large to be kept in memory: their bytes go between the socket and mapped or pinned memory.
//!
//! Where client and worker share memory, no bytes travel: the client is lent memory, and copies them ([`super::lending`]).
//!
//! Such a command is a *rendezvous transfer*. A marker on its queue says when it may begin; a barrier behind the
//! marker, which waits for a user event of the worker's, holds the queue until all bytes have gone through.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_abi as cl;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::messages::{TransferFailed, TransferReady};
use ropeway_protocol::types::Status;
use ropeway_protocol::{Tail, TailError};

use crate::base::error::End;
use crate::base::lock::lock;
use crate::native::{self, Event, ImageWriter, Mapping, Part, Ring, SharedStorage, UserEvent};
use crate::notify::report::Reporter;
use crate::objects::contents::Contents;
use crate::objects::{Cell, Direction, Memory};
use crate::rendezvous::lending::Lending;
use crate::rendezvous::staged::Staged;
use crate::rendezvous::to_client::Handed;

/// Where the bytes are that are received, or that the client copies itself.
pub(super) enum Sink {
    /// The client was not told to send yet.
    Closed,
    /// Into the mapped buffer, whose bytes lie together.
    Mapped(Mapping),
    /// In memory that the client sees as well: it is copying. The device uses the buffer there, so nothing is mapped.
    Lent,
    /// Through a window that the client sees as well: it and the device copy piece by piece.
    Staged(Box<Staged>),
    /// Through the context's ring of pinned memory.
    Ring,
    /// Into an image, band by band.
    Image(Box<ImageWriter>),
    /// Nowhere: the buffer could not be made, or writing to it failed with this.
    Nowhere(Status),
}

/// A rendezvous transfer.
pub struct Rendezvous {
    /// Its name.
    pub transfer: TransferId,
    /// Which way.
    pub direction: Direction,
    /// Which memory object, as long as the transfer may need it.
    memory: Mutex<Option<Arc<Memory>>>,
    /// Which part of it.
    pub part: Part,
    /// How many bytes.
    pub size: u64,
    /// The content size, where the buffer has one.
    pub contents: Option<Contents>,
    /// When it may begin; `None` for at once.
    pub may_begin: Option<Event>,
    /// Keeps the queue until it is set; `None` for the first contents of a buffer, which has no queue.
    pub barrier: Option<UserEvent>,
    /// Memory that the client sees as well.
    pub storage: Option<Arc<SharedStorage>>,
    pub(super) lending: Lending,
    /// The command's event, if the client has one.
    pub cell: Option<Arc<Cell>>,
    begun: AtomicBool,
    pub(super) sink: Mutex<Sink>,
}

impl Rendezvous {
    /// A transfer that has not begun.
    pub fn new(transfer: TransferId, direction: Direction, memory: Arc<Memory>, part: Part) -> Self {
        Self {
            transfer,
            direction,
            memory: Mutex::new(Some(memory)),
            part,
            size: part.size(),
            contents: None,
            may_begin: None,
            barrier: None,
            storage: None,
            lending: Lending::default(),
            cell: None,
            begun: AtomicBool::new(false),
            sink: Mutex::new(Sink::Closed),
        }
    }

    /// Which memory object.
    ///
    /// # Errors
    /// CL_INVALID_MEM_OBJECT once the transfer has come to nothing.
    pub fn memory(&self) -> Result<Arc<Memory>, Status> {
        lock(&self.memory).clone().ok_or(cl::CL_INVALID_MEM_OBJECT)
    }

    /// Whether the transfer has failed or gone: no more bytes come.
    pub fn is_over(&self) -> bool {
        lock(&self.memory).is_none()
    }

    /// Waits until it may begin, and begins: asks the client for the bytes, or sends them all.
    ///
    /// # Errors
    /// The session is over.
    pub fn begin(&self, reporter: &Reporter) -> Result<(), End> {
        let outcome = match &self.may_begin {
            // The wait also fails when an event that the command waits for has.
            Some(event) => event.wait().map_err(|_| cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
            None => Ok(()),
        };
        if self.begun.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Reports all commands before this one in its queue, which have ended: the client has to know of them by the
        // time it has received, or sent, the bytes.
        reporter.tell_of(&[])?;
        match self.direction {
            Direction::In => match outcome.map_or_else(|status| Ok(Err(status)), |()| self.ask(reporter))? {
                Ok(()) => Ok(()),
                Err(status) => self.fail(reporter, status),
            },
            Direction::Out => match outcome.map_or_else(|status| Ok(Err(status)), |()| self.send_all(reporter))? {
                Ok(Handed::Sent) => {
                    self.end(cl::CL_COMPLETE);
                    self.forget_memory();
                    Ok(())
                }
                Ok(Handed::Lent | Handed::Staged) => Ok(()),
                Err(status) => self.fail(reporter, status),
            },
        }
    }

    /// Asks the client for the bytes, or lends it memory to copy them to.
    ///
    /// # Errors
    /// The session is over; the inner one is the status of the native call that failed.
    fn ask(&self, reporter: &Reporter) -> Result<Result<(), Status>, End> {
        let lent = self.lend(&reporter.client, self.size);
        if lent.is_none() && self.stage(reporter, self.size)? {
            return Ok(Ok(()));
        }
        if lent.is_none()
            && let Err(status) = self.open()
        {
            return Ok(Err(status));
        }
        let mut sending = reporter.client.outgoing.lock();
        match lent {
            Some(lent) => sending.note(&lent),
            None => sending.note(&TransferReady { transfer: self.transfer }),
        }
        sending.send()?;
        Ok(Ok(()))
    }

    /// Makes the place where bytes are received.
    ///
    /// # Errors
    /// The status of the native call that failed.
    pub fn open(&self) -> Result<(), Status> {
        let memory = self.memory()?;
        let native = memory.native.as_ref().map_err(|status| *status)?;
        let context = &memory.context;
        let sink = match self.part {
            Part::Bytes { offset, size } if context.maps => {
                let mapped = Mapping::to_write(context.transfer_queue()?, native, offset, size)?;
                mapped.map_or(Sink::Ring, Sink::Mapped)
            }
            Part::Image { part, .. } => {
                Sink::Image(Box::new(ImageWriter::new(context.transfer_queue()?, native, part)?))
            }
            _ => Sink::Ring,
        };
        *lock(&self.sink) = sink;
        Ok(())
    }

    /// Discards the bytes that are still to come.
    pub fn discard(&self, status: Status) {
        *lock(&self.sink) = Sink::Nowhere(status);
    }

    /// Receives the next bytes, which belong at `at` in the transfer. The caller has checked that they are within it.
    ///
    /// # Errors
    /// The link broke, or the client sends without having been asked to.
    pub fn receive(&self, at: u64, tail: &mut dyn Tail) -> Result<(), End> {
        let mut sink = lock(&self.sink);
        match &mut *sink {
            Sink::Closed => Err(End::refused(format_args!("bytes of {} before it was asked for them", self.transfer))),
            Sink::Lent | Sink::Staged(_) => {
                Err(End::refused(format_args!("bytes of {} that it was to copy", self.transfer)))
            }
            Sink::Mapped(mapping) => {
                let at = at as usize;
                let end = at + tail.remaining();
                Ok(tail.read_exact(&mut mapping.bytes_mut()[at..end])?)
            }
            Sink::Nowhere(_) => Ok(()),
            Sink::Image(writer) => {
                if let Err(status) = writer.receive(tail)? {
                    *sink = Sink::Nowhere(status);
                }
                Ok(())
            }
            Sink::Ring => {
                if let Err(status) = self.receive_pinned(at, tail)? {
                    *sink = Sink::Nowhere(status);
                }
                Ok(())
            }
        }
    }

    /// Does `work` with the memory object and the context's ring of pinned memory for this direction.
    pub(super) fn with_ring(
        &self,
        work: impl FnOnce(&Arc<native::Memory>, &mut Ring) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let memory = self.memory()?;
        let native = memory.native.as_ref().map_err(|status| *status)?;
        let ring = match self.direction {
            Direction::In => &memory.context.ring_in,
            Direction::Out => &memory.context.ring_out,
        };
        memory.context.with_ring(ring, |ring| work(native, ring))
    }

    fn receive_pinned(&self, mut at: u64, tail: &mut dyn Tail) -> Result<Result<(), Status>, TailError> {
        let mut broken = None;
        let outcome = self.with_ring(|native, ring| {
            while tail.remaining() > 0 {
                let len = tail.remaining().min(CHUNK);
                if let Err(error) = tail.read_exact(&mut ring.chunk()?[..len]) {
                    broken = Some(error);
                    return Ok(());
                }
                ring.write(native, &self.part.pieces(at, len as u64))?;
                at += len as u64;
            }
            Ok(())
        });
        broken.map_or(Ok(outcome), Err)
    }

    /// Waits until all bytes, which have come, are in the buffer, or have gone, and ends the command.
    ///
    /// # Errors
    /// The session is over.
    pub fn land(&self, reporter: &Reporter) -> Result<(), End> {
        match self.settle() {
            Ok(()) => {
                self.end(cl::CL_COMPLETE);
                Ok(())
            }
            Err(status) => self.fail(reporter, status),
        }
    }

    /// Waits until all received bytes are in the buffer.
    ///
    /// # Errors
    /// The status of the native call that failed.
    pub fn settle(&self) -> Result<(), Status> {
        let sink = std::mem::replace(&mut *lock(&self.sink), Sink::Closed);
        match sink {
            Sink::Mapped(mapping) => mapping.unmap(),
            Sink::Image(mut writer) => writer.settle(),
            Sink::Staged(staged) => staged.settle(),
            Sink::Ring => self.with_ring(|_, ring| ring.drain()),
            Sink::Nowhere(status) => Err(status),
            Sink::Closed | Sink::Lent => Ok(()),
        }
    }

    /// Tells the client that the transfer failed, and ends the command with an error.
    fn fail(&self, reporter: &Reporter, status: Status) -> Result<(), End> {
        // Release the object before the client is told: the client may release it next, and expects its bytes back.
        self.forget_memory();
        let mut sending = reporter.client.outgoing.lock();
        sending.note(&TransferFailed { transfer: self.transfer, status });
        sending.send()?;
        drop(sending);
        self.end(status);
        Ok(())
    }

    fn forget_memory(&self) {
        drop(lock(&self.memory).take());
    }

    /// Lets the queue go on.
    fn end(&self, status: Status) {
        let mut native = cl::CL_COMPLETE;
        if status != cl::CL_COMPLETE
            && let Some(cell) = &self.cell
        {
            cell.fail(status);
            // Those who wait for this command's event must not run. Without an event, only the queue's order counts.
            native = status;
        }
        if let Some(barrier) = &self.barrier {
            // It is set only here, and `begun` lets only one thread come here.
            let _ = barrier.set(native);
        }
    }
}
