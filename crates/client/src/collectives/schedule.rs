//! The steps of a collective operation. Nothing here knows of OpenCL: numbers in, steps out.
//!
//! The steps are a sequential program: carried out one after the other they do what the operation says. What may run at
//! the same time follows from what they read and write ([`super::hazards`]).
//!
//! Small data travels along binomial trees, so that the number of consecutive messages is the logarithm of the number
//! of ranks. Large data travels round a ring or along a chain, in chunks, so that every link carries each byte no more
//! often than it must, and all links are busy at once.

use super::plan::Plan;
pub use super::plan::{At, Place, Schedule, Step};
use super::{moving, reducing};

/// The operation on the ranks' data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// From one to all.
    Broadcast {
        /// The rank that has the data.
        root: usize,
    },
    /// A block each, from one to all.
    Scatter {
        /// The rank that has the data.
        root: usize,
    },
    /// A block each, from all to one.
    Gather {
        /// The rank that gets the data.
        root: usize,
    },
    /// A block each, from all to all.
    AllGather,
    /// A block from each to each.
    AllToAll,
    /// All combined, at one.
    Reduce {
        /// The rank that gets the result.
        root: usize,
    },
    /// All combined, at all.
    AllReduce,
    /// All combined, a block of it at each.
    ReduceScatter,
    /// Each rank's data combined with that of the ranks before it.
    Scan {
        /// Whether a rank's own data is left out.
        exclusive: bool,
    },
}

/// A collective operation, without the memory that it works on.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The operation.
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

/// The measures by which a schedule is chosen among those that do the same.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Up to so many bytes go along trees.
    pub tree: u64,
    /// The smallest chunk that is worth a step of its own.
    pub chunk: u64,
}

impl Default for Tuning {
    /// On a link that carries some gigabytes a second and takes some hundred microseconds for a message, a message
    /// costs as much as these bytes.
    fn default() -> Self {
        Self { tree: 256 << 10, chunk: 1 << 20 }
    }
}

impl Job {
    /// How it is done.
    pub fn schedule(&self, tuning: &Tuning) -> Schedule {
        let mut plan = Plan::new(self.ranks, self.size, self.element, self.ordered, tuning.chunk);
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
        plan.finish()
    }

    /// Whether what one rank gives or gets consists of one block for each rank.
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

    /// Returns where the target of `to` may lie in the same memory as the source of `from`: the offset of the target's
    /// beginning minus that of the source's, in bytes, at which both hold the same data. `None`: nowhere.
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
