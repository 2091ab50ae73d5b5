//! A push on its way out: from where the bytes lie, chunk by chunk, into the sockets.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ropeway_abi as cl;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::messages::{PushData, PushEnds, PushFailed, Signal};
use ropeway_protocol::types::Status;
use ropeway_protocol::{Tail, TailError};

use super::arrival::{Part, SMALL};
use super::links::{Links, PeerLink};
use super::peer::{Outlet, Peer};
use super::services::{PEER_LOST, Services};
use crate::base::order::Turn;
use crate::native::{ImageReader, Part as NativePart, Place, Ranges, Scattered, StagedRead, UserEvent, Waits};
use crate::objects::Direction;
use crate::objects::contents::Contents;
use crate::objects::{Cells, Memory};

/// Pushes from this size on go by several connections.
const LARGE: u64 = 8 << 20;

/// A push.
pub struct Push {
    /// Its name.
    pub transfer: TransferId,
    /// From where.
    pub memory: Arc<Memory>,
    /// Which part.
    pub part: Part,
    /// What says how many bytes of the buffer mean something, where not all may: the peer is told where they end.
    pub contents: Option<Contents>,
    /// What ends when all is sent; made by `semaphore::hold`.
    pub event: Option<UserEvent>,
    /// To whom.
    pub peer: Arc<Peer>,
}

/// Why a push ended early.
enum Stop {
    /// The device failed with this.
    Native(Status),
    /// The peer is gone; by what connection, and why.
    Link(Arc<PeerLink>, io::Error),
    /// The session is over.
    Over,
}

impl From<Status> for Stop {
    fn from(status: Status) -> Self {
        Self::Native(status)
    }
}

/// Where chunks go.
trait Way: Sync {
    /// Sends a chunk whole.
    fn send(&self, common: &Arc<Services>, message: &PushData, tail: &[&[u8]]) -> Result<(), Stop>;
}

impl Way for Arc<PeerLink> {
    fn send(&self, _: &Arc<Services>, message: &PushData, tail: &[&[u8]]) -> Result<(), Stop> {
        self.post(message, tail).map_err(|error| Stop::Link(self.clone(), error))
    }
}

/// To this session itself.
impl Way for Peer {
    fn send(&self, common: &Arc<Services>, message: &PushData, tail: &[&[u8]]) -> Result<(), Stop> {
        let outcome = self.take_push(common, message, &mut Chain(tail));
        outcome.map_err(|end| {
            common.end(end);
            Stop::Over
        })
    }
}

/// Bytes that lie in several places.
struct Chain<'a, 'b>(&'a [&'b [u8]]);

impl Tail for Chain<'_, '_> {
    fn remaining(&self) -> usize {
        self.0.iter().map(|piece| piece.len()).sum()
    }

    fn read_exact(&mut self, mut into: &mut [u8]) -> Result<(), TailError> {
        let all = std::mem::take(&mut self.0);
        // Whole pieces at a time is how they are read: as they were cut, or all at once.
        let mut pieces = all.iter();
        while !into.is_empty() {
            let piece = pieces.next().ok_or(TailError)?;
            let (near, far) = into.split_at_mut_checked(piece.len()).ok_or(TailError)?;
            near.copy_from_slice(piece);
            into = far;
        }
        self.0 = pieces.as_slice();
        Ok(())
    }
}

/// What is done once commands have ended, with their status.
pub type Ended = Box<dyn FnOnce(&Arc<Services>, Status) + Send>;

/// Calls `then` once all of these have ended, with 0 or the first error that was found. `at_once` is as for [`crate::notify::notifier::Notifier::when_ended`].
pub fn when_all_have_ended(common: &Arc<Services>, mut cells: Cells, status: Status, at_once: bool, then: Ended) {
    let mut worst = status;
    while let Some(cell) = cells.pop() {
        let mut status = cell.status();
        if let Some(event) = cell.native.clone().filter(|_| status > cl::CL_COMPLETE) {
            let turn = cell.turn;
            let next = move |common: &Arc<Services>, status: Status| {
                // An error that the worker has found outweighs what the native event says.
                let status = if cell.failure() < 0 { cell.failure() } else { status };
                let worst = if worst == cl::CL_COMPLETE { status.min(cl::CL_COMPLETE) } else { worst };
                when_all_have_ended(common, cells, worst, at_once, then);
            };
            return common.when_ended(event, turn, at_once, next);
        }
        status = status.min(cl::CL_COMPLETE);
        worst = if worst == cl::CL_COMPLETE { status } else { worst };
    }
    then(common, worst);
}

/// Signals a peer that one of its events has ended.
pub fn signal(common: &Arc<Services>, peer: &Arc<Peer>, message: Signal) {
    let for_later = peer.clone();
    peer.when_connected(
        common,
        Box::new(move |common, outlet| match outlet {
            Ok(Outlet::Own) => {
                if let Err(end) = for_later.take_signal_of(common, &message) {
                    common.end(end);
                }
            }
            // A connection that is gone is noticed where it is read.
            Ok(Outlet::Links(links)) => drop(links.control().map(|link| link.post(&message, &[]))),
            Err(_) => {}
        }),
    );
}

impl Push {
    /// Sends it once `after` have ended.
    pub fn start(self, common: &Arc<Services>, after: Cells) {
        // Never in the thread that carries out commands.
        let ready = after.iter().all(|cell| cell.status() <= cl::CL_COMPLETE);
        let go = move |common: &Arc<Services>, status: Status| {
            let peer = self.peer.clone();
            peer.when_connected(common, Box::new(move |common, outlet| self.begin(common, outlet, status)));
        };
        if ready {
            common.in_a_mover(move |common| when_all_have_ended(common, after, 0, false, Box::new(go)));
        } else {
            when_all_have_ended(common, after, 0, false, Box::new(go));
        }
    }

    /// Sends it once `read`, which is enqueued already and waits for what it has to, has ended.
    pub fn start_with(self, common: &Arc<Services>, (read, turn): (StagedRead, Option<Turn>)) {
        let event = read.event().clone();
        // To the session itself it takes native calls.
        let at_once = self.memory.context.maps && self.peer.id != common.own;
        let send = move |common: &Arc<Services>, _: Status| {
            let peer = self.peer.clone();
            peer.when_connected(common, Box::new(move |common, outlet| self.send_read(common, outlet, &read)));
        };
        common.when_ended(event, turn, at_once, send);
    }

    fn send_read(self, common: &Arc<Services>, outlet: Result<Outlet, Status>, read: &StagedRead) {
        common.reporter.staged.give_back(read.size());
        let outlet = match outlet {
            Ok(outlet) => outlet,
            Err(status) => return self.end(common, status),
        };
        let message = PushData { transfer: self.transfer, offset: 0 };
        let sent = match (read.bytes(), &outlet) {
            // Implementations differ in what a command ends with that waited for one that failed; and that is all that a read can fail with.
            (Err(_), _) => Err(Stop::Native(cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)),
            (Ok(bytes), Outlet::Own) => self.peer.send(common, &message, &[bytes]),
            (Ok(bytes), Outlet::Links(links)) => match links.control() {
                Some(link) => link.send(common, &message, &[bytes]),
                None => Err(Stop::Native(PEER_LOST)),
            },
        };
        if sent.is_ok() && self.event.is_none() {
            return;
        }
        // This may be one of the native implementation's own threads, and what follows sets events.
        common.in_a_mover(move |common| self.conclude(common, &outlet, sent));
    }

    fn begin(self, common: &Arc<Services>, outlet: Result<Outlet, Status>, status: Status) {
        let outlet = match outlet {
            Ok(outlet) => outlet,
            Err(status) => return self.end(common, status),
        };
        let status = if status < 0 { cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST } else { status };
        if status == cl::CL_COMPLETE && self.part.size() > SMALL {
            // It takes a while, and this thread may have others to wait for.
            return common.in_a_mover(move |common| self.carry_out(common, &outlet, cl::CL_COMPLETE));
        }
        self.carry_out(common, &outlet, status);
    }

    fn carry_out(mut self, common: &Arc<Services>, outlet: &Outlet, status: Status) {
        let status = if status == cl::CL_COMPLETE { self.limit() } else { Err(status) };
        let status = match status {
            Ok(Some(size)) => {
                self.tell_end(common, outlet, size);
                if size == 0 {
                    return self.end(common, cl::CL_COMPLETE);
                }
                cl::CL_COMPLETE
            }
            Ok(None) => cl::CL_COMPLETE,
            Err(status) => status,
        };
        let sent = match (status, outlet) {
            (cl::CL_COMPLETE, Outlet::Own) => self.send(common, &[&*self.peer]),
            (cl::CL_COMPLETE, Outlet::Links(links)) => self.send_by(common, links),
            (status, _) => Err(Stop::Native(status)),
        };
        self.conclude(common, outlet, sent);
    }

    fn conclude(&self, common: &Arc<Services>, outlet: &Outlet, sent: Result<(), Stop>) {
        let status = match sent {
            Ok(()) => cl::CL_COMPLETE,
            Err(Stop::Native(status)) => {
                self.tell_failure(common, outlet, status);
                status
            }
            Err(Stop::Link(link, error)) => {
                self.peer.lose(common, Some(&link), &format!("the connection to it broke: {error}"));
                PEER_LOST
            }
            Err(Stop::Over) => return,
        };
        self.end(common, status);
    }

    fn end(&self, common: &Services, status: Status) {
        if let Some(event) = &self.event {
            common.settle(event, status);
        }
    }

    /// Leaves what means nothing out. Gives how many bytes are left, where there was something to be left out.
    fn limit(&mut self) -> Result<Option<u64>, Status> {
        let (Some(contents), Part::Ranges(ranges)) = (&self.contents, &self.part) else { return Ok(None) };
        let Some(left) = contents.of(ranges)? else { return Ok(Some(0)) };
        let limited = (left.size() < ranges.size()).then_some(left.size());
        self.part = Part::Ranges(Arc::new(left));
        Ok(limited)
    }

    fn tell_end(&self, common: &Arc<Services>, outlet: &Outlet, size: u64) {
        let message = PushEnds { transfer: self.transfer, size };
        match outlet {
            Outlet::Own => {
                if let Err(end) = self.peer.take_end(common, &message) {
                    common.end(end);
                }
            }
            // A connection that is gone is noticed where it is read.
            Outlet::Links(links) => drop(links.control().map(|link| link.post(&message, &[]))),
        }
    }

    fn tell_failure(&self, common: &Arc<Services>, outlet: &Outlet, status: Status) {
        let message = PushFailed { transfer: self.transfer, status };
        let told = match outlet {
            Outlet::Own => self.peer.take_failure(common, &message).map_err(drop),
            Outlet::Links(links) => links.control().ok_or(()).and_then(|link| link.post(&message, &[]).map_err(drop)),
        };
        // A connection that is gone is noticed where it is read.
        let _ = told;
    }

    fn send_by(&self, common: &Arc<Services>, links: &Links) -> Result<(), Stop> {
        let ways = match (&self.part, self.part.size()) {
            (Part::Ranges(_), 0..=SMALL) => links.control().into_iter().cloned().collect(),
            (Part::Ranges(_), LARGE..) => links.bulk(usize::MAX),
            _ => links.bulk(1),
        };
        let ways: Vec<_> = ways.iter().collect();
        self.send(common, &ways)
    }

    fn send<W: Way>(&self, common: &Arc<Services>, ways: &[&W]) -> Result<(), Stop> {
        let Some(first) = ways.first() else { return Err(PEER_LOST.into()) };
        let context = &self.memory.context;
        let native = self.memory.native.as_ref().map_err(|status| *status)?;
        match &self.part {
            Part::Image(part, _) => self.send_image(common, *first, *part),
            Part::Ranges(ranges) if ranges.size() <= SMALL => {
                let reads = ranges.list().iter().map(|(offset, size)| {
                    let part = NativePart::Bytes { offset: *offset, size: *size };
                    let place = Place::of(&part, context.pool())?;
                    StagedRead::enqueue(context.push_queue()?, (native, &part), &Waits::none(), place)
                });
                let reads = reads.collect::<Result<Vec<_>, _>>()?;
                // They come in order: who waits for the last first is woken once.
                reads.last().map(|last| last.event().end());
                let bytes = reads.iter().map(StagedRead::bytes).collect::<Result<Vec<_>, _>>()?;
                first.send(common, &PushData { transfer: self.transfer, offset: 0 }, &bytes)
            }
            Part::Ranges(ranges) => {
                let mapped = match context.maps {
                    true => Scattered::to_read(context.push_queue()?, native, ranges)?,
                    false => None,
                };
                match mapped {
                    Some(mapped) => self.send_mapped(common, ways, (ranges, mapped)),
                    None => {
                        let next = AtomicU64::new(0);
                        in_parallel(ways, |way| self.send_pinned(common, way, ranges, &next))
                    }
                }
            }
        }
    }

    /// Sends all chunks straight from the mapped memory.
    fn send_mapped<W: Way>(
        &self,
        common: &Arc<Services>,
        ways: &[&W],
        (ranges, mapped): (&Ranges, Scattered),
    ) -> Result<(), Stop> {
        let next = AtomicU64::new(0);
        let outcome = in_parallel(ways, |way| {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let offset = index * CHUNK as u64;
                if offset >= ranges.size() {
                    return Ok(());
                }
                let message = PushData { transfer: self.transfer, offset };
                way.send(common, &message, &mapped.chunk(index as usize))?;
            }
        });
        let finished = mapped.finish();
        outcome.and(finished.map_err(Stop::Native))
    }

    /// Sends those chunks that no other connection takes, by way of a ring of pinned memory: copies run ahead of the network.
    fn send_pinned<W: Way>(
        &self,
        common: &Arc<Services>,
        way: &W,
        ranges: &Ranges,
        next: &AtomicU64,
    ) -> Result<(), Stop> {
        let native = self.memory.native.as_ref().map_err(|status| *status)?;
        let mut stop = None;
        self.memory.context.with_own_ring(Direction::Out, |ring| {
            // All of the ring but the chunk that is being sent.
            let ahead = ring.depth() - 1;
            let mut under_way = VecDeque::new();
            loop {
                while under_way.len() < ahead {
                    let offset = next.fetch_add(1, Ordering::Relaxed) * CHUNK as u64;
                    if offset >= ranges.size() {
                        break;
                    }
                    let len = (ranges.size() - offset).min(CHUNK as u64);
                    under_way.push_back((offset, len, ring.read(native, &ranges.pieces(offset, len))?));
                }
                let Some((offset, len, index)) = under_way.pop_front() else { return Ok(()) };
                let chunk = &ring.copied(index)?[..len as usize];
                if let Err(why) = way.send(common, &PushData { transfer: self.transfer, offset }, &[chunk]) {
                    stop = Some(why);
                    return Ok(());
                }
            }
        })?;
        stop.map_or(Ok(()), Err)
    }

    fn send_image<W: Way>(&self, common: &Arc<Services>, way: &W, part: ImagePart) -> Result<(), Stop> {
        let native = self.memory.native.as_ref().map_err(|status| *status)?;
        let mut reader = ImageReader::new(self.memory.context.push_queue()?, native, part)?;
        let mut offset = 0;
        while let Some(piece) = reader.next()? {
            way.send(common, &PushData { transfer: self.transfer, offset }, &[piece])?;
            offset += piece.len() as u64;
        }
        Ok(())
    }
}

/// Does `work` for each of `ways` at the same time; the first error counts.
fn in_parallel<W: Sync>(ways: &[&W], work: impl Fn(&W) -> Result<(), Stop> + Sync) -> Result<(), Stop> {
    let Some((first, others)) = ways.split_first() else { return Ok(()) };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = others.iter().map(|way| scope.spawn(move || work(way))).collect();
        let outcome = work(first);
        threads.into_iter().fold(outcome, |outcome, thread| outcome.and(thread.join().unwrap_or(Err(Stop::Over))))
    })
}
