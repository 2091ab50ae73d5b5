//! What a collective operation does, step by step. Nothing here knows of OpenCL: numbers in, steps out.
//!
//! The steps are a sequential program: carried out one after the other they do what the operation says. What may run at the same
//! time follows from what they read and write ([`super::hazards`]).
//!
//! Few bytes travel along binomial trees, so that the number of messages one behind the other is the logarithm of the number of ranks. Many
//! travel round a ring or along a chain, in chunks, so that every link carries each byte no more often than it must, and all links are
//! busy at once.

use std::ops::Range;

use super::{moving, reducing};

/// What is done with the ranks' data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// From one to all.
    Broadcast {
        /// Who has it.
        root: usize,
    },
    /// A block each, from one to all.
    Scatter {
        /// Who has them.
        root: usize,
    },
    /// A block each, from all to one.
    Gather {
        /// Who gets them.
        root: usize,
    },
    /// A block each, from all to all.
    AllGather,
    /// A block from each to each.
    AllToAll,
    /// All combined, at one.
    Reduce {
        /// Who gets it.
        root: usize,
    },
    /// All combined, at all.
    AllReduce,
    /// All combined, a block of it at each.
    ReduceScatter,
    /// Each with those before it combined.
    Scan {
        /// Whether without itself.
        exclusive: bool,
    },
}

/// A collective operation, without the memory that it is about.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// What is done.
    pub operation: Operation,
    /// How many take part; at least one.
    pub ranks: usize,
    /// Bytes of a rank's data, or of each block where that consists of blocks.
    pub size: u64,
    /// Bytes of an element; data is never cut within one. 1 where nothing is combined.
    pub element: u64,
    /// Whether the operator needs its operands in the order of the ranks.
    pub ordered: bool,
}

/// What decides between ways of doing the same.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Up to so many bytes go along trees.
    pub tree: u64,
    /// The least that is worth a step of its own where data travels in chunks.
    pub chunk: u64,
}

impl Default for Tuning {
    /// Where a link carries some gigabytes a second and a message takes some hundred microseconds, a message costs as much as these bytes.
    fn default() -> Self {
        Self { tree: 256 << 10, chunk: 1 << 20 }
    }
}

/// One of a rank's pieces of memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Place {
    /// What the application gives.
    Source,
    /// What it gets.
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
        /// Who.
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
    /// A rank sets memory to what changes nothing when it is combined with something.
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

/// What is to be done.
#[derive(Clone, Default, Debug)]
pub struct Schedule {
    /// The steps.
    pub steps: Vec<Step>,
    /// The sizes of each rank's scratch memory.
    pub scratch: Vec<Vec<u64>>,
}

impl Job {
    /// How it is done.
    pub fn schedule(&self, tuning: &Tuning) -> Schedule {
        let mut plan = Plan {
            ranks: self.ranks,
            size: self.size,
            element: self.element.max(1),
            ordered: self.ordered,
            chunk: tuning.chunk,
            made: Schedule { steps: Vec::new(), scratch: vec![Vec::new(); self.ranks] },
        };
        // Two have but one link between them, whatever the shape.
        let all = if self.has_blocks() { self.size.saturating_mul(self.ranks as u64) } else { self.size };
        let small = self.ranks <= 2 || all <= tuning.tree;
        match self.operation {
            Operation::Broadcast { root } => moving::broadcast(&mut plan, root, small),
            Operation::Scatter { root } => moving::scatter(&mut plan, root, small),
            Operation::Gather { root } => moving::gather(&mut plan, root, small),
            Operation::AllGather => moving::all_gather(&mut plan, small),
            Operation::AllToAll => moving::all_to_all(&mut plan),
            Operation::Reduce { root } => reducing::reduce(&mut plan, root, small),
            Operation::AllReduce => reducing::all_reduce(&mut plan, small),
            Operation::ReduceScatter => reducing::reduce_scatter(&mut plan, small),
            Operation::Scan { exclusive } => reducing::scan(&mut plan, exclusive, small),
        }
        plan.made
    }

    /// Whether what one rank has or gets is a block for each rank.
    fn has_blocks(&self) -> bool {
        use Operation::*;
        matches!(self.operation, Scatter { .. } | Gather { .. } | AllGather | AllToAll | ReduceScatter)
    }

    /// Bytes that a rank gives; 0 if it gives nothing.
    pub fn source_size(&self, rank: usize) -> u64 {
        let all = self.size.saturating_mul(self.ranks as u64);
        match self.operation {
            Operation::Broadcast { root } => {
                if rank == root {
                    self.size
                } else {
                    0
                }
            }
            Operation::Scatter { root } => {
                if rank == root {
                    all
                } else {
                    0
                }
            }
            Operation::AllToAll | Operation::ReduceScatter => all,
            _ => self.size,
        }
    }

    /// Bytes that a rank gets; 0 if it gets nothing.
    pub fn target_size(&self, rank: usize) -> u64 {
        let all = self.size.saturating_mul(self.ranks as u64);
        match self.operation {
            Operation::Gather { root } => {
                if rank == root {
                    all
                } else {
                    0
                }
            }
            Operation::Reduce { root } => {
                if rank == root {
                    self.size
                } else {
                    0
                }
            }
            Operation::AllGather | Operation::AllToAll => all,
            _ => self.size,
        }
    }

    /// Where the target of `to` and the source of `from` may lie in the same memory: the bytes from the target's beginning, less those from
    /// the source's, at which both have the same data. `None`: nowhere.
    pub fn in_place(&self, from: usize, to: usize) -> Option<i128> {
        let block = |rank: usize| i128::from(self.size) * rank as i128;
        match self.operation {
            Operation::Broadcast { .. } => Some(0),
            Operation::Scatter { .. } => Some(block(to)),
            Operation::Gather { .. } => Some(-block(from)),
            Operation::AllToAll => None,
            _ if from != to => None,
            Operation::AllGather => Some(-block(from)),
            Operation::ReduceScatter => Some(block(to)),
            Operation::Reduce { .. } | Operation::AllReduce | Operation::Scan { .. } => Some(0),
        }
    }
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
