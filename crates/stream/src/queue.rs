//! The chunks that wait to be taken, and what becomes of those for which there is no room. No threads, no clock.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::declaration::{Declaration, Full};

/// Most bytes that a queue holds. A single chunk may have more.
const MAX_HELD: usize = 256 << 20;

/// A part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its bytes.
    pub bytes: Bytes,
    /// Its number in the stream, from 0; those that were dropped are counted.
    pub sequence: u64,
    /// How many chunks of the stream had been dropped when this one was taken.
    pub dropped: u64,
    /// When it came, since the stream began.
    pub time: Duration,
}

/// Why a stream has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// One sentence.
    pub text: String,
    /// Whether it has come, and is not what it says; otherwise it has not come.
    pub is_invalid: bool,
}

impl Fault {
    /// Of a stream that does not come.
    pub fn lost(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_invalid: false }
    }

    /// Of a stream that is not what it says.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_invalid: true }
    }
}

/// What a queue holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A part of the stream.
    Chunk(Chunk),
    /// Why the stream failed here; it may go on after that.
    Failure(Fault),
}

/// What has become of a chunk that was offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is in the queue.
    Taken,
    /// It was dropped, and counted.
    Dropped,
    /// It has to wait, and is given back.
    NoRoom(Bytes),
}

/// The chunks of one stream that wait to be taken.
#[derive(Debug)]
pub struct Queue {
    items: VecDeque<Item>,
    chunks: usize,
    held: usize,
    most_chunks: usize,
    full: Full,
    next: u64,
    dropped: u64,
}

impl Queue {
    /// One for the stream of this declaration.
    pub fn new(declaration: &Declaration) -> Self {
        let Declaration { ring, full, .. } = *declaration;
        Self { items: VecDeque::new(), chunks: 0, held: 0, most_chunks: ring, full, next: 0, dropped: 0 }
    }

    /// Whether a chunk of so many bytes has a place without another having to go.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.chunks == 0 || self.chunks < self.most_chunks && self.held.saturating_add(bytes) <= MAX_HELD
    }

    /// Whether a chunk for which there is no room waits.
    pub fn waits(&self) -> bool {
        self.full == Full::Wait
    }

    /// Offers it the stream's next chunk, which came `time` after the stream began.
    pub fn offer(&mut self, bytes: Bytes, time: Duration) -> Offer {
        if !self.has_room(bytes.len()) {
            match self.full {
                Full::Wait => return Offer::NoRoom(bytes),
                Full::DropOldest => self.drop_oldest(bytes.len()),
                Full::DropNewest => {
                    self.next += 1;
                    self.dropped += 1;
                    return Offer::Dropped;
                }
            }
        }
        self.push(bytes, time);
        Offer::Taken
    }

    /// As [`Queue::offer`], for a stream that goes on for others: where the chunk would have to wait, the oldest is
    /// dropped.
    pub fn offer_without_wait(&mut self, bytes: Bytes, time: Duration) {
        if self.waits() && !self.has_room(bytes.len()) {
            self.drop_oldest(bytes.len());
        }
        self.offer(bytes, time);
    }

    fn push(&mut self, bytes: Bytes, time: Duration) {
        self.chunks += 1;
        self.held += bytes.len();
        // The number of those dropped is filled in when it is taken.
        self.items.push_back(Item::Chunk(Chunk { bytes, sequence: self.next, dropped: 0, time }));
        self.next += 1;
    }

    fn drop_oldest(&mut self, bytes: usize) {
        while !self.has_room(bytes) {
            match self.items.pop_front() {
                Some(Item::Chunk(chunk)) => {
                    self.chunks -= 1;
                    self.held -= chunk.bytes.len();
                    self.dropped += 1;
                }
                Some(Item::Failure(_)) => {}
                None => return,
            }
        }
    }

    /// Says why the stream failed, after the chunks that have come.
    pub fn fail(&mut self, why: Fault) {
        match self.items.back_mut() {
            // Nothing came in between.
            Some(Item::Failure(last)) => *last = why,
            _ => self.items.push_back(Item::Failure(why)),
        }
    }

    /// Takes the oldest.
    pub fn take(&mut self) -> Option<Item> {
        let mut item = self.items.pop_front()?;
        if let Item::Chunk(chunk) = &mut item {
            self.chunks -= 1;
            self.held -= chunk.bytes.len();
            chunk.dropped = self.dropped;
        }
        Some(item)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::declaration::{Format, Origin};

    pub(crate) fn declaration(ring: usize, full: Full) -> Declaration {
        Declaration {
            name: "a".into(),
            origin: Origin::File("a".into()),
            format: Format::Bytes,
            chunk: 1,
            rate: None,
            ring,
            full,
            repeats: false,
            most: 16,
        }
    }

    fn sequence(queue: &mut Queue) -> Option<(u64, u64)> {
        queue.take().map(|item| match item {
            Item::Chunk(chunk) => (chunk.sequence, chunk.dropped),
            Item::Failure(why) => panic!("{why:?}"),
        })
    }

    fn offer(queue: &mut Queue, count: u64) -> Vec<bool> {
        (0..count).map(|n| queue.offer(vec![n as u8].into(), Duration::from_secs(n)) == Offer::Taken).collect()
    }

    #[test]
    fn the_oldest_goes_the_newest_goes_or_they_wait() {
        let mut oldest = Queue::new(&declaration(2, Full::DropOldest));
        assert_eq!(offer(&mut oldest, 5), [true; 5]);
        assert_eq!(
            [sequence(&mut oldest), sequence(&mut oldest), sequence(&mut oldest)],
            [Some((3, 3)), Some((4, 3)), None]
        );
        let mut newest = Queue::new(&declaration(2, Full::DropNewest));
        assert_eq!(offer(&mut newest, 5), [true, true, false, false, false]);
        assert_eq!(sequence(&mut newest), Some((0, 3)));
        assert_eq!(newest.offer(Bytes::new(), Duration::ZERO), Offer::Taken);
        assert_eq!([sequence(&mut newest), sequence(&mut newest)], [Some((1, 3)), Some((5, 3))]);
        let mut wait = Queue::new(&declaration(2, Full::Wait));
        assert_eq!(offer(&mut wait, 3), [true, true, false]);
        assert_eq!(sequence(&mut wait), Some((0, 0)));
        assert_eq!(offer(&mut wait, 2), [true, false]);
        wait.offer_without_wait(Bytes::new(), Duration::ZERO);
        assert_eq!([sequence(&mut wait), sequence(&mut wait), sequence(&mut wait)], [Some((2, 1)), Some((3, 1)), None]);
    }

    #[test]
    fn failures_stand_where_they_came() {
        let mut queue = Queue::new(&declaration(2, Full::DropOldest));
        queue.fail(Fault::lost("0"));
        queue.fail(Fault::lost("1"));
        offer(&mut queue, 1);
        queue.fail(Fault::lost("2"));
        assert_eq!(queue.take(), Some(Item::Failure(Fault::lost("1"))));
        assert_eq!(sequence(&mut queue), Some((0, 0)));
        assert_eq!(queue.take(), Some(Item::Failure(Fault::lost("2"))));
        assert!(queue.is_empty());
    }

    #[test]
    fn what_it_holds_is_bounded_in_bytes() {
        let mut queue = Queue::new(&declaration(64, Full::DropOldest));
        let large = Bytes::from(vec![0; MAX_HELD / 4]);
        for _ in 0..6 {
            queue.offer(large.clone(), Duration::ZERO);
        }
        assert_eq!((queue.chunks, queue.held), (4, MAX_HELD));
        assert_eq!(sequence(&mut queue), Some((2, 2)));
        // One that is larger than all together is there alone.
        queue.offer(Bytes::from(vec![0; MAX_HELD + 1]), Duration::ZERO);
        assert_eq!(sequence(&mut queue), Some((6, 5)));
        assert!(queue.is_empty() && queue.held == 0);
    }

    proptest! {
        #[test]
        fn every_chunk_is_taken_or_counted(ring in 1_usize..5, full in 0..3, steps in proptest::collection::vec(0..4, 0..200)) {
            let full = [Full::Wait, Full::DropOldest, Full::DropNewest][full as usize];
            let mut queue = Queue::new(&declaration(ring, full));
            let (mut offered, mut taken, mut last, mut dropped) = (0_u64, 0_u64, None, 0);
            for step in steps.into_iter().map(Some).chain(std::iter::repeat_n(None, ring + 1)) {
                match step {
                    Some(0 | 1) => offered += u64::from(!matches!(queue.offer(Bytes::new(), Duration::ZERO), Offer::NoRoom(_))),
                    Some(2) => queue.fail(Fault::lost("x")),
                    _ => while let Some(item) = queue.take() {
                        let Item::Chunk(chunk) = item else { continue };
                        prop_assert!(last < Some(chunk.sequence) && chunk.dropped >= dropped);
                        (last, dropped, taken) = (Some(chunk.sequence), chunk.dropped, taken + 1);
                        break;
                    },
                }
                prop_assert!(queue.chunks <= ring && queue.items.len() <= 2 * ring + 1);
            }
            while queue.take().is_some() { }
            prop_assert_eq!(taken + queue.dropped, offered);
        }
    }
}
