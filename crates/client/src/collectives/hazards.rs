//! Which steps have to wait for which: a step waits for earlier ones, in the order of the sequential program, that
//! write what it touches or touch what it writes.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// The memory that a step touches. Memory with different names does not overlap.
#[derive(Clone, Debug)]
pub struct Touch<M> {
    /// Which memory.
    pub memory: M,
    /// Which bytes.
    pub range: Range<u64>,
    /// Whether the step may change the memory.
    pub writes: bool,
}

/// The steps that touched memory last.
#[derive(Debug)]
pub struct Hazards<M> {
    touched: HashMap<M, Vec<(usize, Range<u64>, bool)>>,
    /// For each step: its queue, if that is an in-order queue.
    queues: Vec<Option<usize>>,
}

impl<M> Default for Hazards<M> {
    fn default() -> Self {
        Self { touched: HashMap::new(), queues: Vec::new() }
    }
}

impl<M: Eq + Hash> Hazards<M> {
    /// Adds the initial step, on `queue` if that is an in-order queue. Every later step that touches the same memory
    /// waits for it, directly or through another step.
    pub fn first(&mut self, queue: Option<usize>, touches: impl IntoIterator<Item = Touch<M>>) {
        for Touch { memory, range, .. } in touches {
            self.touched.entry(memory).or_default().push((self.queues.len(), range, true));
        }
        self.queues.push(queue);
    }

    /// Adds the next step. Returns the steps that it has to wait for, without those that the order of the queues
    /// already ensures.
    pub fn next(&mut self, queue: Option<usize>, touches: &[Touch<M>]) -> Vec<usize>
    where
        M: Clone,
    {
        let waits = self.waits(queue, touches);
        for Touch { memory, range, writes } in touches.iter().filter(|touch| !touch.range.is_empty()) {
            let before = self.touched.entry(memory.clone()).or_default();
            if *writes {
                // A later step waits for this one, and so for the earlier ones that it covers.
                before.retain(|(_, other, _)| !(range.start <= other.start && other.end <= range.end));
            }
            before.push((self.queues.len(), range.clone(), *writes));
        }
        self.queues.push(queue);
        waits
    }

    /// The steps so far that one has to wait for.
    pub fn waits(&self, queue: Option<usize>, touches: &[Touch<M>]) -> Vec<usize> {
        let mut waits = Vec::new();
        for Touch { memory, range, writes } in touches {
            let overlaps = |other: &Range<u64>| other.start < range.end && range.start < other.end;
            let before = self.touched.get(memory).into_iter().flatten();
            waits.extend(before.filter(|(_, other, wrote)| (*writes || *wrote) && overlaps(other)).map(|(at, ..)| *at));
        }
        self.needed(queue, waits)
    }

    /// Of each queue that keeps its order, the last one; none of the step's own.
    fn needed(&self, queue: Option<usize>, mut waits: Vec<usize>) -> Vec<usize> {
        waits.sort_unstable_by(|a, b| b.cmp(a));
        waits.dedup();
        let mut known: Vec<usize> = queue.into_iter().collect();
        waits.retain(|&wait| match self.queues[wait] {
            None => true,
            Some(queue) if known.contains(&queue) => false,
            Some(queue) => {
                known.push(queue);
                true
            }
        });
        waits.reverse();
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(range: Range<u64>, writes: bool) -> [Touch<u8>; 1] {
        [Touch { memory: 0, range, writes }]
    }

    #[test]
    fn reads_wait_for_writes_and_writes_for_both() {
        let mut hazards = Hazards::default();
        assert_eq!(hazards.next(None, &touch(0..8, true)), []);
        assert_eq!(hazards.next(None, &touch(0..4, false)), [0]);
        assert_eq!(hazards.next(None, &touch(2..6, false)), [0]);
        assert_eq!(hazards.next(None, &touch(8..9, true)), []);
        assert_eq!(hazards.next(None, &touch(3..5, true)), [0, 1, 2]);
        assert_eq!(hazards.next(None, &touch(3..5, false)), [0, 4], "the first wrote around it, too");
    }

    #[test]
    fn what_a_queue_keeps_in_order_is_not_waited_for() {
        let mut hazards = Hazards::default();
        hazards.next(Some(1), &touch(0..4, true));
        hazards.next(Some(1), &touch(4..8, true));
        hazards.next(Some(2), &touch(8..9, true));
        assert_eq!(hazards.next(Some(1), &touch(0..9, false)), [2]);
        assert_eq!(hazards.next(Some(3), &touch(0..9, false)), [1, 2]);
    }
}
