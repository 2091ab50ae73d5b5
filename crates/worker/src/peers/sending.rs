//! The bytes of a push, chunk by chunk, from where they lie into the sockets.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ropeway_protocol::image::ImagePart;
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::messages::{PushData, PushInPlace};
use ropeway_protocol::types::Status;
use ropeway_protocol::{Tail, TailError};

use super::arrival::{Part, SMALL};
use super::in_place::{InPlace, Incoming};
use super::links::Links;
use super::peer::Peer;
use super::peer_link::PeerLink;
use super::push::Push;
use super::services::{PEER_LOST, Services};
use super::slots::Slot;
use crate::native::{
    ImageReader, Part as NativePart, PinnedCopy, PinnedRange, Place, Ranges, Scattered, StagedRead, Waits,
};
use crate::objects::Direction;

/// Pushes from this size on go by several connections.
const LARGE: u64 = 8 << 20;

/// Chunks that the device copies at once to slots that lie side by side: each copy costs some of the driver's time.
const AT_ONCE: u64 = 4;

/// Why a push ended early.
pub(super) enum Stop {
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
pub(super) trait Way: Sync {
    /// Sends a chunk whole.
    fn send(&self, services: &Arc<Services>, message: &PushData, tail: &[&[u8]]) -> Result<(), Stop>;

    /// The connection, if chunks need not be sent by it: it shares memory.
    fn sharing(&self) -> Option<(&Arc<PeerLink>, &InPlace)> {
        None
    }
}

impl Way for Arc<PeerLink> {
    fn send(&self, _: &Arc<Services>, message: &PushData, tail: &[&[u8]]) -> Result<(), Stop> {
        self.push(message, tail).map_err(|error| Stop::Link(self.clone(), error))
    }

    fn sharing(&self) -> Option<(&Arc<PeerLink>, &InPlace)> {
        self.in_place().map(|in_place| (self, in_place))
    }
}

/// To this session itself.
impl Way for Peer {
    fn send(&self, services: &Arc<Services>, message: &PushData, tail: &[&[u8]]) -> Result<(), Stop> {
        let outcome = self.take_push(services, None, message, &mut Incoming::Sent(&mut Chain(tail, 0)));
        outcome.map_err(|end| {
            services.end(end);
            Stop::Over
        })
    }
}

/// Bytes that lie in several places, and how many of the first place have been read.
struct Chain<'a, 'b>(&'a [&'b [u8]], usize);

impl Tail for Chain<'_, '_> {
    fn remaining(&self) -> usize {
        self.0.iter().map(|piece| piece.len()).sum::<usize>() - self.1
    }

    fn read_exact(&mut self, mut into: &mut [u8]) -> Result<(), TailError> {
        // The places that are read into need not be those that the bytes lie in: a device with memory of its own gives them all in one.
        while !into.is_empty() {
            let (first, others) = self.0.split_first().ok_or(TailError)?;
            let piece = &first[self.1..];
            let len = piece.len().min(into.len());
            let (near, far) = into.split_at_mut(len);
            near.copy_from_slice(&piece[..len]);
            into = far;
            (self.0, self.1) = if len == piece.len() { (others, 0) } else { (self.0, self.1 + len) };
        }
        Ok(())
    }
}

impl Push {
    /// Sends it over connections that suit its size.
    pub(super) fn send_by(&self, services: &Arc<Services>, links: &Links) -> Result<(), Stop> {
        let ways = match (&self.part, self.part.size()) {
            (Part::Ranges(_), 0..=SMALL) => links.control().into_iter().cloned().collect(),
            (Part::Ranges(_), LARGE..) => links.bulk(usize::MAX),
            _ => links.bulk(1),
        };
        let ways: Vec<_> = ways.iter().collect();
        self.send(services, &ways)
    }

    /// Sends it by all of these ways at once.
    pub(super) fn send<W: Way>(&self, services: &Arc<Services>, ways: &[&W]) -> Result<(), Stop> {
        let Some(first) = ways.first() else { return Err(PEER_LOST.into()) };
        let context = &self.memory.context;
        let native = self.memory.native.as_ref().map_err(|status| *status)?;
        match &self.part {
            Part::Image(part, _) => self.send_image(services, *first, *part),
            Part::Ranges(ranges) if ranges.size() <= SMALL => {
                let reads = ranges.list().iter().map(|(offset, size)| {
                    let part = NativePart::Bytes { offset: *offset, size: *size };
                    let place = Place::of(&part, context.pool())?;
                    StagedRead::enqueue(context.push_queue()?, (native, &part), &Waits::none(), place)
                });
                let reads = reads.collect::<Result<Vec<_>, _>>()?;
                // The reads end in order: waiting for the last one first wakes this thread only once.
                reads.last().map(|last| last.event().end());
                let bytes = reads.iter().map(StagedRead::bytes).collect::<Result<Vec<_>, _>>()?;
                first.send(services, &PushData { transfer: self.transfer, offset: 0 }, &bytes)
            }
            Part::Ranges(ranges) => {
                let mapped = match context.maps {
                    true => Scattered::to_read(context.push_queue()?, native, ranges)?,
                    false => None,
                };
                match mapped {
                    Some(mapped) => self.send_mapped(services, ways, (ranges, mapped)),
                    None => {
                        let next = AtomicU64::new(0);
                        in_parallel(ways, |way| self.send_pinned(services, way, ranges, &next))
                    }
                }
            }
        }
    }

    /// Sends all chunks straight from the mapped memory.
    fn send_mapped<W: Way>(
        &self,
        services: &Arc<Services>,
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
                way.send(services, &message, &mapped.chunk(index as usize))?;
            }
        });
        let finished = mapped.finish();
        outcome.and(finished.map_err(Stop::Native))
    }

    /// Sends the chunks that no other connection has taken, through a ring of pinned memory: copies run ahead of the
    /// network.
    fn send_pinned<W: Way>(
        &self,
        services: &Arc<Services>,
        way: &W,
        ranges: &Ranges,
        next: &AtomicU64,
    ) -> Result<(), Stop> {
        let native = self.memory.native.as_ref().map_err(|status| *status)?;
        if let Some((link, in_place)) = way.sharing()
            && let Some(range) = in_place.pinned(&self.memory.context)
        {
            return self.send_in_place(link, (in_place, &range), ranges, next);
        }
        let mut stop = None;
        self.memory.context.with_own_ring(Direction::Out, |ring| {
            // All of the ring but the chunk that is being sent.
            let pre_enqueue = ring.depth() - 1;
            let mut under_way = VecDeque::new();
            loop {
                while under_way.len() < pre_enqueue {
                    let offset = next.fetch_add(1, Ordering::Relaxed) * CHUNK as u64;
                    if offset >= ranges.size() {
                        break;
                    }
                    let len = (ranges.size() - offset).min(CHUNK as u64);
                    under_way.push_back((offset, len, ring.read(native, &ranges.pieces(offset, len))?));
                }
                let Some((offset, len, index)) = under_way.pop_front() else { return Ok(()) };
                let chunk = &ring.copied(index)?[..len as usize];
                if let Err(why) = way.send(services, &PushData { transfer: self.transfer, offset }, &[chunk]) {
                    stop = Some(why);
                    return Ok(());
                }
            }
        })?;
        stop.map_or(Ok(()), Err)
    }

    /// Has the device copy the chunks that no other connection has taken to where the peer takes them from.
    fn send_in_place(
        &self,
        link: &Arc<PeerLink>,
        (in_place, range): (&InPlace, &Arc<PinnedRange>),
        ranges: &Ranges,
        next: &AtomicU64,
    ) -> Result<(), Stop> {
        let native = self.memory.native.as_ref().map_err(|status| *status)?;
        let broken = |error: io::Error| Stop::Link(link.clone(), error);
        // The copies come before the slots: these are free once nothing copies to them.
        let mut under_way: VecDeque<(PinnedCopy, Vec<(Slot<'_>, PushInPlace)>)> = VecDeque::new();
        let left = || ranges.size().saturating_sub(next.load(Ordering::Relaxed) * CHUNK as u64).div_ceil(CHUNK as u64);
        loop {
            while left() > 0 {
                let most = left().min(AT_ONCE);
                // Waits for a slot only while it has none: several pushes may be waiting for the same ones.
                let slots = match under_way.is_empty() {
                    true => in_place.slots.wait(most as usize, || link.works()),
                    false => in_place.slots.take(most as usize),
                };
                let Some(first) = slots.first() else {
                    if under_way.is_empty() {
                        return Err(broken(ErrorKind::BrokenPipe.into()));
                    }
                    break;
                };
                let begin = next.fetch_add(slots.len() as u64, Ordering::Relaxed) * CHUNK as u64;
                if begin >= ranges.size() {
                    break;
                }
                // The slots lie side by side, and so do the bytes that go there.
                let size = (ranges.size() - begin).min((slots.len() * CHUNK) as u64);
                let copy = range.read(in_place.place(first.number), native, &ranges.pieces(begin, size))?;
                let offsets = (begin..begin + size).step_by(CHUNK);
                let messages = offsets.zip(slots).map(|(offset, slot)| {
                    let (at, size) = (in_place.place(slot.number), (ranges.size() - offset).min(CHUNK as u64));
                    (slot, PushInPlace { transfer: self.transfer, offset, at, size })
                });
                under_way.push_back((copy, messages.collect()));
            }
            let Some((copy, messages)) = under_way.pop_front() else { return Ok(()) };
            copy.wait()?;
            for (slot, message) in messages {
                slot.lend();
                link.push_in_place(&message).map_err(broken)?;
            }
        }
    }

    fn send_image<W: Way>(&self, services: &Arc<Services>, way: &W, part: ImagePart) -> Result<(), Stop> {
        let native = self.memory.native.as_ref().map_err(|status| *status)?;
        let mut reader = ImageReader::new(self.memory.context.push_queue()?, native, part)?;
        let mut offset = 0;
        while let Some(piece) = reader.next()? {
            way.send(services, &PushData { transfer: self.transfer, offset }, &[piece])?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_read_in_whatever_pieces() {
        let all = b"in several places, and one of them empty";
        for from in 1..all.len() {
            for into in 1..all.len() {
                let mut pieces: Vec<_> = all.chunks(from).collect();
                pieces.insert(1, &[]);
                let (mut chain, mut read) = (Chain(&pieces, 0), Vec::new());
                while chain.remaining() > 0 {
                    let mut part = vec![0; into.min(chain.remaining())];
                    assert!(chain.read_exact(&mut part).is_ok());
                    read.extend(part);
                }
                assert_eq!(read, all);
                assert!(chain.read_exact(&mut [0]).is_err());
            }
        }
    }
}
