//! Transfers too large to be kept in memory: their bytes go between the socket and mapped or pinned memory.
//!
//! Such a command is a *rendezvous transfer*. A marker on its queue says when it may begin; a barrier behind the
//! marker, which waits for a user event of the worker's, holds the queue until all bytes have gone through.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_abi as cl;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::messages::{ReadData, ReadEnds, TransferFailed, TransferReady};
use ropeway_protocol::types::Status;
use ropeway_protocol::{Tail, TailError};

use crate::base::error::End;
use crate::base::lock::lock;
use crate::native::{self, Event, ImageReader, ImageWriter, Mapping, Part, Ring, UserEvent};
use crate::notify::report::Reporter;
use crate::objects::contents::Contents;
use crate::objects::{Cell, Direction, Memory};

/// Where received bytes go.
enum Sink {
    /// The client was not told to send yet.
    Closed,
    /// Into the mapped buffer, whose bytes lie together.
    Mapped(Mapping),
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
    /// The command's event, if the client has one.
    pub cell: Option<Arc<Cell>>,
    begun: AtomicBool,
    sink: Mutex<Sink>,
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

    /// Whether the transfer has failed: no more bytes come.
    pub fn has_failed(&self) -> bool {
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
            Direction::In => {
                match outcome.and_then(|()| self.open()) {
                    Ok(()) => {
                        let mut sending = reporter.client.outgoing.lock();
                        sending.note(&TransferReady { transfer: self.transfer });
                        sending.send()?;
                    }
                    Err(status) => self.fail(reporter, status)?,
                }
                Ok(())
            }
            Direction::Out => match outcome.map_or_else(|status| Ok(Err(status)), |()| self.send_all(reporter))? {
                Ok(()) => {
                    self.end(cl::CL_COMPLETE);
                    Ok(())
                }
                Err(status) => self.fail(reporter, status),
            },
        }
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
    fn with_ring(
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

    /// Waits until all bytes, which have come, are in the buffer, and ends the command.
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
            Sink::Ring => self.with_ring(|_, ring| ring.drain()),
            Sink::Nowhere(status) => Err(status),
            Sink::Closed => Ok(()),
        }
    }

    /// Sends all bytes to the client, or only the meaningful ones.
    fn send_all(&self, reporter: &Reporter) -> Result<Result<(), Status>, End> {
        let contents = match (&self.contents, self.part) {
            (Some(contents), Part::Bytes { offset, .. }) => contents.len().map(|len| len.saturating_sub(offset)),
            _ => Ok(self.size),
        };
        let size = match contents {
            Ok(size) => size.min(self.size),
            Err(status) => return Ok(Err(status)),
        };
        let sent = if size == 0 { Ok(()) } else { self.send_first(reporter, size)? };
        if size < self.size && sent.is_ok() {
            let mut sending = reporter.client.outgoing.lock();
            sending.note(&ReadEnds { transfer: self.transfer, size });
            sending.send()?;
        }
        Ok(sent)
    }

    /// Sends the first `size` bytes to the client; of images and regions, all.
    fn send_first(&self, reporter: &Reporter, size: u64) -> Result<Result<(), Status>, End> {
        let memory = match self.memory() {
            Ok(memory) => memory,
            Err(status) => return Ok(Err(status)),
        };
        let context = &memory.context;
        let offset = match self.part {
            Part::Bytes { offset, .. } => offset,
            Part::Image { part, .. } => return self.send_image(reporter, part),
            Part::Rect(_) => return self.send_pinned(reporter, self.size),
        };
        if !context.maps {
            return self.send_pinned(reporter, size);
        }
        let mapping = memory
            .native
            .as_ref()
            .map_err(|status| *status)
            .and_then(|native| Mapping::to_read(context.transfer_queue()?, native, offset, size));
        let mapping = match mapping {
            Ok(Some(mapping)) => mapping,
            Ok(None) => return self.send_pinned(reporter, size),
            Err(status) => return Ok(Err(status)),
        };
        let mut offset = 0;
        for piece in mapping.bytes().chunks(CHUNK) {
            self.send_piece(reporter, offset, piece)?;
            offset += piece.len() as u64;
        }
        Ok(mapping.unmap())
    }

    fn send_pinned(&self, reporter: &Reporter, size: u64) -> Result<Result<(), Status>, End> {
        let mut over = None;
        let outcome = self.with_ring(|native, ring| {
            let len = |offset: u64| (size - offset).min(CHUNK as u64);
            // Copies run ahead of sending by all of the ring but the chunk that is being sent.
            let pre_enqueue = ring.depth() - 1;
            let mut under_way = std::collections::VecDeque::new();
            let (mut copied, mut sent) = (0, 0);
            while sent < size {
                while copied < size && under_way.len() < pre_enqueue {
                    under_way.push_back(ring.read(native, &self.part.pieces(copied, len(copied)))?);
                    copied += len(copied);
                }
                let Some(index) = under_way.pop_front() else { break };
                let piece = &ring.copied(index)?[..len(sent) as usize];
                if let Err(end) = self.send_piece(reporter, sent, piece) {
                    over = Some(end);
                    return Ok(());
                }
                sent += len(sent);
            }
            Ok(())
        });
        over.map_or(Ok(outcome), Err)
    }

    fn send_image(&self, reporter: &Reporter, part: ImagePart) -> Result<Result<(), Status>, End> {
        let open = || {
            let memory = self.memory()?;
            let native = memory.native.as_ref().map_err(|status| *status)?;
            ImageReader::new(memory.context.transfer_queue()?, native, part)
        };
        let mut reader = match open() {
            Ok(reader) => reader,
            Err(status) => return Ok(Err(status)),
        };
        let mut offset = 0;
        loop {
            match reader.next() {
                Ok(Some(piece)) => {
                    self.send_piece(reporter, offset, piece)?;
                    offset += piece.len() as u64;
                }
                Ok(None) => return Ok(Ok(())),
                Err(status) => return Ok(Err(status)),
            }
        }
    }

    fn send_piece(&self, reporter: &Reporter, offset: u64, piece: &[u8]) -> Result<(), End> {
        let mut sending = reporter.client.outgoing.lock();
        sending.note_with_tail(&ReadData { transfer: self.transfer, offset }, piece)?;
        Ok(sending.send()?)
    }

    /// Tells the client that the transfer failed, and ends the command with an error.
    fn fail(&self, reporter: &Reporter, status: Status) -> Result<(), End> {
        // Release the object before the client is told: the client may release it next, and expects its bytes back.
        drop(lock(&self.memory).take());
        let mut sending = reporter.client.outgoing.lock();
        sending.note(&TransferFailed { transfer: self.transfer, status });
        sending.send()?;
        drop(sending);
        self.end(status);
        Ok(())
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
