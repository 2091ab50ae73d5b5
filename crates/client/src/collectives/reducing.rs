//! Collective operations that combine data.

use std::ops::Range;

use super::moving::{circulate, from, scatter_from, spread};
use super::plan::{At, IN_FLIGHT, Plan, slot, source, target};

/// Combines the ranks' sources, `bytes` each, along a binomial tree, operands in the order given. Gives where the first
/// of `order` then has the result.
fn tree(plan: &mut Plan, order: &[usize], bytes: u64) -> At {
    let ranks = order.len();
    // The slots of a rank's combined data so far, and of the data that it gets from others.
    let mut slots = vec![None; ranks];
    let mut bit = 1;
    while bit < ranks {
        for parent in (0..ranks - bit).step_by(2 * bit) {
            let (taker, giver) = (order[parent], order[parent + bit]);
            let from = slots[parent + bit].map_or(source(giver, 0), |(sum, _)| slot(giver, sum));
            let (sum, next) = *slots[parent].get_or_insert_with(|| {
                let sum = plan.scratch(taker, bytes);
                plan.copy(source(taker, 0), slot(taker, sum), bytes);
                (sum, plan.scratch(taker, bytes))
            });
            plan.copy(from, slot(taker, next), bytes);
            plan.combine(taker, (sum, next), sum, bytes);
        }
        bit *= 2;
    }
    slots[0].map_or(source(order[0], 0), |(sum, _)| slot(order[0], sum))
}

/// A rank's scratch memory for data that passes through in chunks: the chunks take turns in the slots.
struct Lane {
    rank: usize,
    /// The data from the rank before, combined with this rank's own.
    sums: Vec<usize>,
    /// This rank's own data.
    own: Vec<usize>,
}

impl Lane {
    fn new(plan: &mut Plan, rank: usize, chunks: &[Range<u64>]) -> Self {
        let most = chunks.iter().map(|chunk| chunk.end - chunk.start).max().unwrap_or(0);
        let count = IN_FLIGHT.min(chunks.len());
        Self { rank, sums: plan.scratches(rank, count, most), own: plan.scratches(rank, count, most) }
    }

    fn sum(&self, index: usize) -> At {
        slot(self.rank, self.sums[index % self.sums.len()])
    }

    /// Fetches a chunk and combines it with this rank's own data as the right operand.
    fn take(&self, plan: &mut Plan, index: usize, chunk: &Range<u64>, from: At) {
        let (at, bytes) = (index % self.sums.len(), chunk.end - chunk.start);
        plan.copy(source(self.rank, chunk.start), slot(self.rank, self.own[at]), bytes);
        plan.copy(from, slot(self.rank, self.sums[at]), bytes);
        plan.combine(self.rank, (self.sums[at], self.own[at]), self.sums[at], bytes);
    }
}

/// Combines the ranks' sources, `bytes` each, along a chain, with the operands in the order given. The last rank's
/// result is put, chunk by chunk, where `put` says.
fn chain(plan: &mut Plan, order: &[usize], bytes: u64, mut put: impl FnMut(&mut Plan, At, &Range<u64>)) {
    let chunks = plan.chunks(0..bytes);
    let lanes: Vec<_> = order.iter().skip(1).map(|&rank| Lane::new(plan, rank, &chunks)).collect();
    for (index, chunk) in chunks.iter().enumerate() {
        let mut has = source(order[0], chunk.start);
        for lane in &lanes {
            lane.take(plan, index, chunk, has);
            has = lane.sum(index);
        }
        put(plan, has, chunk);
    }
}

pub(super) fn reduce(plan: &mut Plan, root: usize, small: bool) {
    let bytes = plan.size;
    // Where the order matters it is that of the ranks, and the root is somewhere in it.
    let first = if plan.ordered { 0 } else { root };
    if small {
        let order = from(plan, first);
        let result = tree(plan, &order, bytes);
        return plan.copy(result, target(root, 0), bytes);
    }
    let order = if plan.ordered { from(plan, 0) } else { from(plan, plan.behind(root, 1)) };
    chain(plan, &order, bytes, |plan, from, chunk| {
        plan.copy(from, target(root, chunk.start), chunk.end - chunk.start);
    });
}

pub(super) fn all_reduce(plan: &mut Plan, small: bool) {
    let (ranks, bytes) = (plan.ranks, plan.size);
    if small {
        let order = from(plan, 0);
        let result = tree(plan, &order, bytes);
        return spread(plan, result, &order, true);
    }
    if plan.ordered {
        let last = ranks - 1;
        return chain(plan, &from(plan, 0), bytes, |plan, has, chunk| {
            let bytes = chunk.end - chunk.start;
            plan.copy(has, target(last, chunk.start), bytes);
            for rank in (0..last).rev() {
                plan.copy(target(rank + 1, chunk.start), target(rank, chunk.start), bytes);
            }
        });
    }
    let shares: Vec<_> = (0..ranks).map(|rank| plan.share(rank)).collect();
    ring(plan, &shares, |share| share.start);
    circulate(plan, &shares);
}

pub(super) fn reduce_scatter(plan: &mut Plan, small: bool) {
    let (ranks, size) = (plan.ranks, plan.size);
    if small {
        let order = from(plan, 0);
        let result = tree(plan, &order, size * ranks as u64);
        return scatter_from(plan, result, true);
    }
    if plan.ordered {
        // The last rank passes each block of the result on to the rank that it belongs to.
        return chain(plan, &from(plan, 0), size * ranks as u64, |plan, has, chunk| {
            for rank in 0..ranks {
                let block = rank as u64 * size..(rank as u64 + 1) * size;
                let both = chunk.start.max(block.start)..chunk.end.min(block.end);
                if !both.is_empty() {
                    let to = target(rank, both.start - block.start);
                    plan.copy(has.plus(both.start - chunk.start), to, both.end - both.start);
                }
            }
        });
    }
    let blocks: Vec<_> = (0..ranks as u64).map(|rank| rank * size..(rank + 1) * size).collect();
    ring(plan, &blocks, |_| 0);
}

/// Combines each rank's block from all sources and puts it into that rank's target, where `place` says. In each round a
/// rank fetches the partial block of the rank before it, and adds its own data.
fn ring(plan: &mut Plan, blocks: &[Range<u64>], place: impl Fn(&Range<u64>) -> u64) {
    let ranks = plan.ranks;
    let chunks: Vec<_> = blocks.iter().map(|block| plan.chunks(block.clone())).collect();
    let size = |chunk: &Range<u64>| chunk.end - chunk.start;
    let most = chunks.iter().flatten().map(size).max().unwrap_or(0);
    let count = chunks.iter().map(Vec::len).max().unwrap_or(0);
    // Two of each: what was made in one round is fetched while the next is made.
    let sums: Vec<_> =
        (0..ranks).map(|rank| [plan.scratches(rank, count, most), plan.scratches(rank, count, most)]).collect();
    let own: Vec<_> = (0..ranks).map(|rank| plan.scratches(rank, IN_FLIGHT.min(count), most)).collect();
    for round in 1..ranks {
        for rank in 0..ranks {
            let before = plan.behind(rank, ranks - 1);
            let block = plan.behind(rank, 2 * ranks - round - 1);
            for (index, chunk) in chunks[block].iter().enumerate() {
                let (sum, own) = (sums[rank][round % 2][index], own[rank][index % own[rank].len()]);
                let from = match round {
                    1 => source(before, chunk.start),
                    _ => slot(before, sums[before][(round - 1) % 2][index]),
                };
                plan.copy(source(rank, chunk.start), slot(rank, own), size(chunk));
                plan.copy(from, slot(rank, sum), size(chunk));
                plan.combine(rank, (sum, own), sum, size(chunk));
            }
        }
    }
    for rank in 0..ranks {
        for (index, chunk) in chunks[rank].iter().enumerate() {
            let to = place(&blocks[rank]) + chunk.start - blocks[rank].start;
            plan.copy(slot(rank, sums[rank][(ranks - 1) % 2][index]), target(rank, to), size(chunk));
        }
    }
}

pub(super) fn scan(plan: &mut Plan, exclusive: bool, small: bool) {
    let size = plan.size;
    if small {
        scan_tree(plan, exclusive)
    } else {
        scan_chain(plan, exclusive)
    }
    if exclusive {
        plan.identity(target(0, 0), size);
    }
}

/// Scans in rounds: in each, a rank fetches what the rank some distance before it has combined so far, and combines it
/// with its own; the distance doubles each round.
fn scan_tree(plan: &mut Plan, exclusive: bool) {
    let (ranks, size) = (plan.ranks, plan.size);
    // In an exclusive scan, a rank begins with the source of the rank before it; the first rank has nothing to do.
    let first = usize::from(exclusive);
    let mut slots = Vec::new();
    for rank in first..ranks {
        let mine = plan.scratches(rank, 3, size);
        plan.copy(source(rank - first, 0), slot(rank, mine[0]), size);
        slots.push(mine);
    }
    // The index of the slot that holds each rank's sum. Each rank has two: the sum made in one round is fetched while
    // the next is made.
    let mut sums = vec![0; slots.len()];
    let mut by = 1;
    while by < slots.len() {
        let before = sums.clone();
        for at in by..slots.len() {
            let (rank, giver, mine) = (at + first, at - by, &slots[at]);
            sums[at] = 1 - before[at];
            plan.copy(slot(giver + first, slots[giver][before[giver]]), slot(rank, mine[2]), size);
            plan.combine(rank, (mine[2], mine[before[at]]), mine[sums[at]], size);
        }
        by *= 2;
    }
    for (at, mine) in slots.iter().enumerate() {
        plan.copy(slot(at + first, mine[sums[at]]), target(at + first, 0), size);
    }
}

/// Each rank fetches what the one before it has combined, chunk after chunk.
fn scan_chain(plan: &mut Plan, exclusive: bool) {
    let (ranks, size) = (plan.ranks, plan.size);
    let chunks = plan.chunks(0..size);
    // The last one's sum is asked for only with itself.
    let lanes: Vec<_> = (1..ranks).map(|rank| Lane::new(plan, rank, &chunks)).collect();
    for (index, chunk) in chunks.iter().enumerate() {
        let bytes = chunk.end - chunk.start;
        let mut has = source(0, chunk.start);
        if !exclusive {
            plan.copy(has, target(0, chunk.start), bytes);
        }
        for lane in &lanes {
            lane.take_for_scan(plan, index, chunk, has, exclusive, lane.rank + 1 == ranks);
            has = lane.sum(index);
        }
    }
}

impl Lane {
    /// As [`Lane::take`], but also puts the scan's result into the target.
    fn take_for_scan(&self, plan: &mut Plan, index: usize, chunk: &Range<u64>, from: At, exclusive: bool, last: bool) {
        let (to, bytes) = (target(self.rank, chunk.start), chunk.end - chunk.start);
        if !exclusive {
            self.take(plan, index, chunk, from);
            return plan.copy(self.sum(index), to, bytes);
        }
        // The source is read before the target, which may be the same, is written.
        let at = index % self.sums.len();
        if !last {
            plan.copy(source(self.rank, chunk.start), slot(self.rank, self.own[at]), bytes);
        }
        plan.copy(from, self.sum(index), bytes);
        plan.copy(self.sum(index), to, bytes);
        if !last {
            plan.combine(self.rank, (self.sums[at], self.own[at]), self.sums[at], bytes);
        }
    }
}
