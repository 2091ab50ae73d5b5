//! An incoming push: its bytes go from the socket to where they belong.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ropeway_abi as cl;
use ropeway_protocol::ids::{EventId, TransferId};
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::messages::Completed;
use ropeway_protocol::types::{Completions, EventDone, Status};
use ropeway_protocol::{Tail, TailError};

use super::in_place::Incoming;
use super::services::Services;
use crate::base::lock::lock;
use crate::native::{self, AwaitedWrite, Event, ImageWriter, Ranges, Scattered, UserEvent, Waits};
use crate::objects::Direction;
use crate::objects::{Cell, Memory};

/// Pushes up to this size go by the same connection as signals, because they delay signals little.
pub const SMALL: u64 = 64 << 10;

/// The part of a memory object that moves. The session has checked that it lies within the object.
#[derive(Clone, Debug)]
pub enum Part {
    /// Ranges of a buffer.
    Ranges(Arc<Ranges>),
    /// Part of an image, of so many bytes.
    Image(ImagePart, u64),
}

impl Part {
    /// The part as a range of buffer bytes, if it is one contiguous range of at most [`SMALL`] bytes.
    pub fn small(&self) -> Option<native::Part> {
        let Self::Ranges(ranges) = self else { return None };
        match *ranges.list() {
            [(offset, size)] if size <= SMALL => Some(native::Part::Bytes { offset, size }),
            _ => None,
        }
    }

    /// The size of the part in bytes; at least 1.
    pub fn size(&self) -> u64 {
        match self {
            Self::Ranges(ranges) => ranges.size(),
            Self::Image(_, size) => *size,
        }
    }
}

/// A fault in bytes that a peer has sent.
#[derive(Debug)]
pub enum Fault {
    /// They are none that were announced.
    Wrong(String),
    /// The connection broke before all bytes came.
    Broken,
}

impl From<TailError> for Fault {
    fn from(_: TailError) -> Self {
        Self::Broken
    }
}

/// Where the bytes go.
enum Sink {
    /// Into the mapped ranges.
    Mapped(Scattered),
    /// Through a ring of pinned memory.
    Ring,
    /// Into an image, band by band.
    Image(Mutex<ImageWriter>),
    /// Into the memory of a write that is already enqueued, and the cell of the write's event.
    Awaited(Mutex<Option<AwaitedWrite>>, Arc<Cell>),
    /// Nowhere: the object could not be made, or cannot be written to.
    Nowhere,
}

/// A push that is expected.
pub struct Arrival {
    /// Its name.
    pub transfer: TransferId,
    /// The client's name for the event that ends with the push.
    id: EventId,
    memory: Arc<Memory>,
    part: Part,
    /// The user event that the client's commands wait for; `None` where it could not be made.
    event: Option<UserEvent>,
    /// Which chunks have come, of ranges.
    chunks: Vec<AtomicBool>,
    /// Bytes that have come, of an image.
    received: AtomicU64,
    /// Bytes that have not come.
    left: AtomicU64,
    /// Whether the push may be shorter than announced; false once its end has been announced.
    may_end: AtomicBool,
    /// Whether pieces may be shorter because the push may be.
    may_be_short: bool,
    sink: OnceLock<Sink>,
    /// Copies from memory that the peer sees, which run in order.
    copies: Mutex<Vec<Event>>,
    failure: AtomicI32,
    ended: AtomicBool,
}

impl Arrival {
    /// Makes an arrival of which nothing has come yet. `event`, by the name `id`, was made by
    /// [`crate::objects::semaphore::hold`].
    pub fn new(
        transfer: TransferId,
        memory: Arc<Memory>,
        part: Part,
        (id, event): (EventId, Option<UserEvent>),
    ) -> Self {
        let chunks = match &part {
            Part::Ranges(ranges) => ranges.size().div_ceil(CHUNK as u64),
            Part::Image(..) => 0,
        };
        Self {
            transfer,
            id,
            memory,
            event,
            chunks: (0..chunks).map(|_| AtomicBool::new(false)).collect(),
            received: AtomicU64::new(0),
            left: AtomicU64::new(part.size()),
            may_end: AtomicBool::new(false),
            may_be_short: false,
            part,
            sink: OnceLock::new(),
            copies: Mutex::default(),
            failure: AtomicI32::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// Makes an arrival of few bytes, received into the memory of a write that is already enqueued and waits for them;
    /// `cell` has the end of the write, by the name `id`.
    pub fn awaited(
        transfer: TransferId,
        memory: Arc<Memory>,
        part: Part,
        write: AwaitedWrite,
        (id, cell): (EventId, Arc<Cell>),
    ) -> Self {
        let arrival = Self::new(transfer, memory, part, (id, None));
        // The sink is new, so this cannot fail.
        let _ = arrival.sink.set(Sink::Awaited(Mutex::new(Some(write)), cell));
        arrival
    }

    /// The same arrival, of which perhaps only the first bytes will come.
    pub fn may_end(self) -> Self {
        Self { may_end: AtomicBool::new(true), may_be_short: true, ..self }
    }

    /// No more than `size` bytes will come; says whether all have.
    ///
    /// # Errors
    /// That was said before, or cannot be.
    pub fn ends(&self, size: u64) -> Result<bool, Fault> {
        let less = self.part.size().checked_sub(size).filter(|_| self.may_end.swap(false, Ordering::AcqRel));
        let less = less.ok_or_else(|| Fault::Wrong(format!("an end of {} after {size} bytes", self.transfer)))?;
        let left = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(less));
        let left = left.map_err(|_| Fault::Wrong(format!("more of {} than its end", self.transfer)))?;
        Ok(left == less)
    }

    /// Receives the bytes at `offset`; says whether all have come with them.
    ///
    /// # Errors
    /// They are not what was announced, or have come before, or the connection broke.
    pub fn receive(&self, offset: u64, tail: &mut Incoming<'_>) -> Result<bool, Fault> {
        let len = tail.remaining() as u64;
        let chunk = self.check(offset, len)?;
        match self.sink.get_or_init(|| self.open()) {
            Sink::Mapped(scattered) => {
                let mut given = scattered.chunk_mut(chunk).ok_or_else(|| self.twice(offset))?;
                for slice in &mut given.slices {
                    let len = slice.len().min(tail.remaining());
                    tail.read_exact(&mut slice[..len])?;
                }
            }
            Sink::Ring => {
                if let Err(status) = self.receive_pinned(offset, tail)? {
                    self.fail(status);
                }
            }
            Sink::Image(writer) => {
                if let Err(status) = lock(writer).receive(tail)? {
                    self.fail(status);
                }
            }
            Sink::Awaited(write, _) => {
                if let Some(bytes) = lock(write).as_mut().and_then(AwaitedWrite::bytes_mut) {
                    tail.read_exact(bytes)?;
                }
            }
            // The frame reader skips bytes that are not read here.
            Sink::Nowhere => {}
        }
        let left = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(len));
        let left = left.map_err(|_| Fault::Wrong(format!("more of {} than its end", self.transfer)))?;
        Ok(left == len)
    }

    /// Finds which chunk these bytes are, and that they have not come before.
    fn check(&self, offset: u64, len: u64) -> Result<usize, Fault> {
        let size = self.part.size();
        let chunk = CHUNK as u64;
        let wrong = || {
            Fault::Wrong(format!("{len} bytes at {offset} of {}, for which {size} bytes were announced", self.transfer))
        };
        if offset >= size || len == 0 {
            return Err(wrong());
        }
        match self.part {
            Part::Ranges(_) if !offset.is_multiple_of(chunk) || len > chunk.min(size - offset) => Err(wrong()),
            Part::Ranges(_) if len != chunk.min(size - offset) && !self.may_be_short => Err(wrong()),
            Part::Ranges(_) => {
                let index = (offset / chunk) as usize;
                let taken = self.chunks.get(index).ok_or_else(wrong)?;
                if taken.swap(true, Ordering::AcqRel) { Err(self.twice(offset)) } else { Ok(index) }
            }
            Part::Image(..) => {
                let next = self.received.load(Ordering::Acquire);
                if offset < next {
                    return Err(self.twice(offset));
                }
                if offset > next || len > size - next {
                    return Err(wrong());
                }
                self.received.store(next + len, Ordering::Release);
                Ok(0)
            }
        }
    }

    fn twice(&self, offset: u64) -> Fault {
        Fault::Wrong(format!("the bytes at {offset} of {} twice", self.transfer))
    }

    /// Makes the place where the bytes are received.
    fn open(&self) -> Sink {
        let open = || {
            let native = self.memory.native.as_ref().map_err(|status| *status)?;
            let context = &self.memory.context;
            Ok(match &self.part {
                Part::Ranges(ranges) if context.maps => {
                    let mapped = Scattered::to_write(context.arrival_queue()?, native, ranges)?;
                    mapped.map_or(Sink::Ring, Sink::Mapped)
                }
                Part::Ranges(_) => Sink::Ring,
                Part::Image(part, _) => {
                    Sink::Image(Mutex::new(ImageWriter::new(context.arrival_queue()?, native, *part)?))
                }
            })
        };
        open().unwrap_or_else(|status| {
            self.fail(status);
            Sink::Nowhere
        })
    }

    fn receive_pinned(&self, offset: u64, tail: &mut Incoming<'_>) -> Result<Result<(), Status>, Fault> {
        let (Part::Ranges(ranges), Ok(native)) = (&self.part, &self.memory.native) else { return Ok(Ok(())) };
        if let Incoming::Lent(lent) = tail {
            let parts = ranges.pieces(offset, lent.remaining() as u64);
            if let Some(outcome) = lent.write(&self.memory.context, native, &parts) {
                return Ok(outcome.map(|copy| lock(&self.copies).extend(copy)));
            }
        }
        let mut broken = false;
        let outcome = self.memory.context.with_own_ring(Direction::In, |ring| {
            let len = tail.remaining().min(CHUNK);
            broken = tail.read_exact(&mut ring.chunk()?[..len]).is_err();
            if broken { Ok(()) } else { ring.write(native, &ranges.pieces(offset, len as u64)) }
        });
        if broken { Err(Fault::Broken) } else { Ok(outcome) }
    }

    /// Keeps the first error.
    fn fail(&self, status: Status) {
        let _ = self.failure.compare_exchange(0, status, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Called when all bytes have come: ensures that they are in the object, then lets the commands that wait for them
    /// go on.
    pub fn land(self: &Arc<Self>, services: &Arc<Services>) {
        match self.sink.get() {
            Some(Sink::Mapped(scattered)) => {
                let status = scattered.land(!self.may_be_short).err().unwrap_or(cl::CL_COMPLETE);
                self.end(services, status);
            }
            Some(Sink::Ring) => {
                // The copies run in order, so a marker behind them ends when they have ended.
                let queue = self.memory.context.arrival_queue();
                let marker = queue.and_then(|queue| {
                    let marker = queue.marker(&Waits::none(), true)?;
                    queue.flush().map(|()| marker)
                });
                let arrival = self.clone();
                match marker {
                    Ok(Some(marker)) => services.when_ended(marker, None, false, move |services, _| {
                        let copies = std::mem::take(&mut *lock(&arrival.copies));
                        let worst = copies.iter().map(Event::end).min().unwrap_or(cl::CL_COMPLETE);
                        arrival.end(services, worst);
                    }),
                    Ok(None) => self.end(services, cl::CL_OUT_OF_RESOURCES),
                    Err(status) => self.end(services, status),
                }
            }
            Some(Sink::Image(_)) => {
                let arrival = self.clone();
                services.in_the_pool(move |services| {
                    let status = match arrival.sink.get() {
                        Some(Sink::Image(writer)) => lock(writer).settle().err().unwrap_or(cl::CL_COMPLETE),
                        _ => cl::CL_COMPLETE,
                    };
                    arrival.end(services, status);
                });
            }
            Some(Sink::Awaited(..) | Sink::Nowhere) | None => self.end(services, cl::CL_COMPLETE),
        }
    }

    /// Lets the commands that wait for the push go on, or fail: with the first error, if there was one before.
    pub fn end(&self, services: &Services, status: Status) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let status = match self.failure.load(Ordering::Acquire) {
            0 => status,
            failure => failure,
        };
        if status < 0 {
            // The failure is reported before the ends of the commands that fail with it: later commands must not wait
            // for this push, nor take its bytes from here.
            let done = vec![EventDone { event: self.id, status, times: None }];
            services.reporter.client.outgoing.leave(&Completed { completions: Completions { done } });
        }
        if let Some(event) = &self.event {
            services.settle(event, status);
        }
        if let Some(Sink::Awaited(write, cell)) = self.sink.get()
            && let Some(mut write) = lock(write).take()
        {
            services.reporter.staged.give_back(write.size());
            let trigger = write.open();
            let mut landing = lock(&self.memory.context.landing);
            landing.retain(|write| !write.end().ended());
            landing.push(write);
            drop(landing);
            if status != cl::CL_COMPLETE {
                cell.fail(status);
            }
            if let Some(trigger) = trigger {
                services.settle(&trigger, status);
            }
        }
    }
}
