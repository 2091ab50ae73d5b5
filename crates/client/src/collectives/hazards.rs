//! Which steps have to wait for which: what one writes and another reads or writes, in the order of the sequential program.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// What of memory a step touches. Memory with different names does not overlap.
#[derive(Clone, Debug)]
pub struct Touch<M> {
    /// Which memory.
    pub memory: M,
    /// Which bytes.
    pub range: Range<u64>,
    /// Whether they may change.
    pub writes: bool,
}

/// What touched memory last.
#[derive(Debug)]
pub struct Hazards<M> {
    touched: HashMap<M, Vec<(usize, Range<u64>, bool)>>,
    /// For each step: its queue, where that keeps its order.
    queues: Vec<Option<usize>>,
}

impl<M> Default for Hazards<M> {
    fn default() -> Self {
        Self { touched: HashMap::new(), queues: Vec::new() }
    }
}

impl<M: Eq + Hash> Hazards<M> {
    /// Takes in a step, which is on `queue`, where that is one that keeps the order of its commands. Everything that touches the same from now on
    /// waits for it, or for what waited for it.
    pub fn first(&mut self, queue: Option<usize>, touches: impl IntoIterator<Item = Touch<M>>) {
        for Touch { memory, range, .. } in touches {
            self.touched.entry(memory).or_default().push((self.queues.len(), range, true));
        }
        self.queues.push(queue);
    }

    /// Takes in the next step. Gives the steps that it has to wait for, without those that the queues' order sees to.
    pub fn next(&mut self, queue: Option<usize>, touches: &[Touch<M>]) -> Vec<usize>
    where
        M: Clone,
    {
        let waits = self.waits(queue, touches);
        for Touch { memory, range, writes } in touches.iter().filter(|touch| !touch.range.is_empty()) {
            let before = self.touched.entry(memory.clone()).or_default();
            if *writes {
                // Who comes later waits for this step, and so for those.
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
