//! Much at once: several lanes take, or bring, their blocks at the same time, each by a thread of the crew, as it is the
//! kernel's copies that keep a core busy.
//!
//! So a lane may be ahead of those before it. At the sender it was given bytes that were not told to be written yet, and are
//! offered again: they are passed over then. At the receiver, where others have not brought theirs in time, it has brought
//! bytes that are kept for its turn.

use std::io;
use std::sync::atomic::Ordering;

use super::{Lane, Lanes, turn};
use crate::crew::Pieces;

/// What became of bytes that were offered.
pub(super) struct Offered {
    /// How many bytes count as written.
    pub(super) taken: usize,
    /// Whether each lane has taken its block.
    pub(super) is_all: bool,
}

/// What is left of one lane's block.
struct Block<T> {
    lane: usize,
    bytes: T,
    /// How many of its bytes went over the lane.
    done: io::Result<usize>,
}

/// The next blocks of a stream: the lane of each, and its length. One for each lane at most, and `len` bytes in all.
fn blocks(mut at: u64, mut len: usize, lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..lanes).map_while(move |_| {
        let (lane, most) = turn(at, lanes);
        let block = most.min(len);
        at += block as u64;
        len -= block;
        (block > 0).then_some((lane, block))
    })
}

impl Lanes {
    /// Does `work` with each block: by the crew, if there are several and it is there.
    fn with_each<T: Send>(&self, blocks: &mut [Block<T>], work: impl Fn(&Lane, &mut T) -> io::Result<usize> + Sync) {
        let work = |block: &mut Block<T>| block.done = work(&self.lanes[block.lane], &mut block.bytes);
        match &self.crew {
            Some(crew) if blocks.len() > 1 => crew.share(&Pieces::new(blocks.iter_mut()), work, || ()),
            _ => blocks.iter_mut().for_each(work),
        }
    }

    /// Gives the next lanes their blocks of `bytes`, as far as they take them at once.
    ///
    /// # Errors
    /// That of a lane.
    pub(super) fn offer(&self, bytes: &[u8]) -> io::Result<Offered> {
        let at = self.written.load(Ordering::Relaxed);
        let mut rest = bytes;
        let mut blocks: Vec<_> = blocks(at, bytes.len(), self.lanes.len())
            .map(|(lane, len)| {
                let (bytes, behind) = rest.split_at(len);
                rest = behind;
                Block { lane, bytes, done: Ok(0) }
            })
            .collect();
        self.with_each(&mut blocks, |lane, block| {
            let given = lane.given.load(Ordering::Relaxed).min(block.len());
            if given == block.len() { Ok(given) } else { Ok(given + lane.link.try_send(&block[given..])?) }
        });
        let (mut taken, mut is_all) = (0, true);
        for Block { lane, bytes, done } in blocks {
            let (done, given) = (done?, &self.lanes[lane].given);
            let ahead = given.load(Ordering::Relaxed).max(done);
            // Where one before it has not taken all of its block, a lane is ahead.
            given.store(if is_all { ahead - done } else { ahead }, Ordering::Relaxed);
            taken += if is_all { done } else { 0 };
            is_all &= done == bytes.len();
        }
        self.written.fetch_add(taken as u64, Ordering::Relaxed);
        Ok(Offered { taken, is_all })
    }

    /// Reads the next blocks of several lanes at the same time, and waits for what is missing, as [`Lane::read`] does.
    /// `None` if one lane alone has its turn, or there is no crew.
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn take_together(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let (_, first) = self.next_to_read();
        if self.crew.is_none() || into.len() <= first || self.has_ended.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (at, len, mut rest) = (self.read.load(Ordering::Relaxed), into.len(), into);
        let mut blocks: Vec<_> = blocks(at, len, self.lanes.len())
            .map(|(lane, len)| {
                let (bytes, behind) = std::mem::take(&mut rest).split_at_mut(len);
                rest = behind;
                Block { lane, bytes, done: Ok(0) }
            })
            .collect();
        self.with_each(&mut blocks, |lane, block| lane.read(block, false));
        let (mut got, mut is_all) = (0, true);
        for Block { lane, bytes, done } in blocks {
            let lane = &self.lanes[lane];
            // An end, or a fault, is found again when it is this lane's turn.
            let mut done = done.unwrap_or(0);
            if is_all {
                while done < bytes.len() {
                    match lane.read(&mut bytes[done..], true) {
                        Ok(more) if more > 0 => done += more,
                        _ => break,
                    }
                }
                got += done;
                is_all = done == bytes.len();
            } else {
                lane.early().splice(..0, bytes[..done].iter().copied());
            }
        }
        self.note_read(got)?;
        Ok(Some(got))
    }
}
