//! Steps of collective operations, and how a schedule is put together of them.

use std::ops::Range;

/// One of a rank's pieces of memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Place {
    /// Memory that the application gives.
    Source,
    /// Memory that the application gets the result in.
    Target,
    /// One of [`Schedule::scratch`].
    Scratch(usize),
}

/// Where in a rank's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    /// Whose memory.
    pub rank: usize,
    /// Which.
    pub place: Place,
    /// Where there, in bytes.
    pub offset: u64,
}

/// One thing to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// `to`'s rank fetches bytes.
    Copy {
        /// Where from.
        from: At,
        /// Where to.
        to: At,
        /// How many.
        size: u64,
    },
    /// A rank combines what is in two of its pieces of scratch memory, from their beginnings on, into one of them.
    Combine {
        /// The rank.
        rank: usize,
        /// The operand of the lower ranks.
        left: usize,
        /// The operand of the higher ranks.
        right: usize,
        /// Where the result goes.
        out: usize,
        /// Bytes of each.
        size: u64,
    },
    /// A rank fills memory with the operator's identity element.
    Identity {
        /// Where.
        to: At,
        /// Bytes.
        size: u64,
    },
}

impl Step {
    /// Whose queue it is on.
    pub fn rank(&self) -> usize {
        match self {
            Self::Copy { to, .. } | Self::Identity { to, .. } => to.rank,
            Self::Combine { rank, .. } => *rank,
        }
    }
}

/// The steps of an operation.
#[derive(Clone, Default, Debug)]
pub struct Schedule {
    /// The steps.
    pub steps: Vec<Step>,
    /// The sizes of each rank's scratch memory.
    pub scratch: Vec<Vec<u64>>,
}

/// A schedule in the making.
pub(super) struct Plan {
    pub ranks: usize,
    pub size: u64,
    pub element: u64,
    pub ordered: bool,
    chunk: u64,
    made: Schedule,
}

/// Chunks that a chain's rank works on at the same time: one arrives, one is combined, one leaves.
pub(super) const IN_FLIGHT: usize = 3;

/// The most pieces that data is cut into.
const MOST_CHUNKS: u64 = 64;

impl Plan {
    /// One without any steps, for so many ranks with so many bytes each; `chunk` is the least that is worth a step of
    /// its own.
    pub fn new(ranks: usize, size: u64, element: u64, ordered: bool, chunk: u64) -> Self {
        let made = Schedule { steps: Vec::new(), scratch: vec![Vec::new(); ranks] };
        Self { ranks, size, element: element.max(1), ordered, chunk, made }
    }

    /// The whole.
    pub fn finish(self) -> Schedule {
        self.made
    }

    pub fn copy(&mut self, from: At, to: At, size: u64) {
        if size > 0 && from != to {
            self.made.steps.push(Step::Copy { from, to, size });
        }
    }

    pub fn combine(&mut self, rank: usize, (left, right): (usize, usize), out: usize, size: u64) {
        if size > 0 {
            self.made.steps.push(Step::Combine { rank, left, right, out, size });
        }
    }

    pub fn identity(&mut self, to: At, size: u64) {
        self.made.steps.push(Step::Identity { to, size });
    }

    /// Scratch memory for a rank.
    pub fn scratch(&mut self, rank: usize, size: u64) -> usize {
        let slots = &mut self.made.scratch[rank];
        slots.push(size);
        slots.len() - 1
    }

    /// The same for a rank, several times.
    pub fn scratches(&mut self, rank: usize, count: usize, size: u64) -> Vec<usize> {
        (0..count).map(|_| self.scratch(rank, size)).collect()
    }

    /// A range cut into chunks.
    pub fn chunks(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let size = range.end - range.start;
        let chunk = self.chunk.max(size.div_ceil(MOST_CHUNKS)).next_multiple_of(self.element);
        (0..size.div_ceil(chunk))
            .map(|at| range.start + at * chunk..range.end.min(range.start + (at + 1) * chunk))
            .collect()
    }

    /// A rank's part of all the data, where that is dealt evenly.
    pub fn share(&self, rank: usize) -> Range<u64> {
        let elements = u128::from(self.size / self.element);
        let begin = |rank: usize| (elements * rank as u128 / self.ranks as u128) as u64 * self.element;
        begin(rank)..begin(rank + 1)
    }

    /// The rank that comes `by` behind another, all round.
    pub fn behind(&self, rank: usize, by: usize) -> usize {
        (rank + by) % self.ranks
    }
}

/// A place in a rank's memory.
pub(super) fn at(rank: usize, place: Place, offset: u64) -> At {
    At { rank, place, offset }
}

pub(super) fn source(rank: usize, offset: u64) -> At {
    at(rank, Place::Source, offset)
}

pub(super) fn target(rank: usize, offset: u64) -> At {
    at(rank, Place::Target, offset)
}

pub(super) fn slot(rank: usize, slot: usize) -> At {
    at(rank, Place::Scratch(slot), 0)
}

impl At {
    /// So many bytes further on.
    pub(super) fn plus(self, bytes: u64) -> Self {
        Self { offset: self.offset + bytes, ..self }
    }
}
