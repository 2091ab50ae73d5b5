//! Collective operations that only move data.

use std::ops::Range;

use super::plan::{At, Plan, slot, source, target};

/// Copies the data at `from`, held by the first rank of `order`, to the targets of all ranks in that order.
pub(super) fn spread(plan: &mut Plan, from: At, order: &[usize], small: bool) {
    let (ranks, size) = (order.len(), plan.size);
    let holder = |at: usize| if at == 0 { from } else { target(order[at], 0) };
    plan.copy(from, target(order[0], 0), size);
    if small {
        let mut have = 1;
        while have < ranks {
            for (at, &to) in order.iter().enumerate().take(2 * have).skip(have) {
                plan.copy(holder(at - have), target(to, 0), size);
            }
            have *= 2;
        }
        return;
    }
    for chunk in plan.chunks(0..size) {
        for (at, &to) in order.iter().enumerate().skip(1) {
            let bytes = chunk.end - chunk.start;
            plan.copy(holder(at - 1).plus(chunk.start), target(to, chunk.start), bytes);
        }
    }
}

/// Returns all ranks in order, beginning with `root`.
pub(super) fn from(plan: &Plan, root: usize) -> Vec<usize> {
    (0..plan.ranks).map(|by| plan.behind(root, by)).collect()
}

pub(super) fn broadcast(plan: &mut Plan, root: usize, small: bool) {
    let order = from(plan, root);
    spread(plan, source(root, 0), &order, small);
}

/// The blocks of a subtree, counted from the root: those of the node and of what hangs on it by bits below `bit`.
fn subtree(plan: &Plan, node: usize, bit: usize) -> Range<usize> {
    node..plan.ranks.min(node + bit)
}

/// Copies blocks, counted from the root, between memory that holds the blocks of all ranks in order, from block 0 on
/// (`whole`), and memory that holds just these, packed (`part`).
fn copy_blocks(plan: &mut Plan, blocks: Range<usize>, root: usize, whole: At, part: At, into_whole: bool) {
    let (ranks, size) = (plan.ranks, plan.size);
    // After the last rank's block, block 0 is next.
    let turn = (ranks - root).clamp(blocks.start, blocks.end);
    for run in [blocks.start..turn, turn..blocks.end].into_iter().filter(|run| !run.is_empty()) {
        let whole = whole.plus(plan.behind(root, run.start) as u64 * size);
        let part = part.plus((run.start - blocks.start) as u64 * size);
        let (from, to) = if into_whole { (part, whole) } else { (whole, part) };
        plan.copy(from, to, run.len() as u64 * size);
    }
}

/// The children of each node of a binomial tree, as (parent, child, bit), the furthest from the root first.
fn edges(ranks: usize) -> Vec<(usize, usize, usize)> {
    let bits = (0..usize::BITS).map(|bit| 1 << bit).take_while(|&bit| bit < ranks);
    bits.flat_map(|bit| (0..ranks - bit).step_by(2 * bit).map(move |parent| (parent, parent + bit, bit))).collect()
}

/// Allocates memory for the blocks of each node's subtree; `None` for the root and for leaves.
fn nodes(plan: &mut Plan, root: usize) -> Vec<Option<usize>> {
    let mut made = vec![None; plan.ranks];
    for (node, scratch) in made.iter_mut().enumerate().skip(1) {
        let blocks = subtree(plan, node, 1 << node.trailing_zeros()).len();
        *scratch = (blocks > 1).then(|| plan.scratch(plan.behind(root, node), blocks as u64 * plan.size));
    }
    made
}

pub(super) fn scatter(plan: &mut Plan, root: usize, small: bool) {
    scatter_from(plan, source(root, 0), small);
}

/// From `whole`, which has a block for each rank.
pub(super) fn scatter_from(plan: &mut Plan, whole: At, small: bool) {
    let (root, size) = (whole.rank, plan.size);
    if !small {
        for rank in from(plan, root) {
            plan.copy(whole.plus(rank as u64 * size), target(rank, 0), size);
        }
        return;
    }
    plan.copy(whole.plus(root as u64 * size), target(root, 0), size);
    let nodes = nodes(plan, root);
    for (parent, child, bit) in edges(plan.ranks).into_iter().rev() {
        let blocks = subtree(plan, child, bit);
        let (giver, taker) = (plan.behind(root, parent), plan.behind(root, child));
        let to = nodes[child].map_or(target(taker, 0), |scratch| slot(taker, scratch));
        match nodes[parent] {
            None => copy_blocks(plan, blocks, root, whole, to, false),
            Some(scratch) => {
                plan.copy(slot(giver, scratch).plus(bit as u64 * size), to, blocks.len() as u64 * size);
            }
        }
        plan.copy(to, target(taker, 0), size);
    }
}

pub(super) fn gather(plan: &mut Plan, root: usize, small: bool) {
    let size = plan.size;
    plan.copy(source(root, 0), target(root, root as u64 * size), size);
    if !small {
        for rank in from(plan, root).into_iter().skip(1) {
            plan.copy(source(rank, 0), target(root, rank as u64 * size), size);
        }
        return;
    }
    let nodes = nodes(plan, root);
    for (node, scratch) in nodes.iter().enumerate() {
        let rank = plan.behind(root, node);
        if let Some(scratch) = *scratch {
            plan.copy(source(rank, 0), slot(rank, scratch), size);
        }
    }
    for (parent, child, bit) in edges(plan.ranks) {
        let blocks = subtree(plan, child, bit);
        let (taker, giver) = (plan.behind(root, parent), plan.behind(root, child));
        let from = nodes[child].map_or(source(giver, 0), |scratch| slot(giver, scratch));
        match nodes[parent] {
            None => copy_blocks(plan, blocks, root, target(root, 0), from, true),
            Some(scratch) => {
                plan.copy(from, slot(taker, scratch).plus(bit as u64 * size), blocks.len() as u64 * size);
            }
        }
    }
}

pub(super) fn all_gather(plan: &mut Plan, small: bool) {
    let (ranks, size) = (plan.ranks, plan.size);
    for rank in 0..ranks {
        plan.copy(source(rank, 0), target(rank, rank as u64 * size), size);
    }
    if small {
        return double(plan);
    }
    let blocks: Vec<_> = (0..ranks as u64).map(|rank| rank * size..(rank + 1) * size).collect();
    circulate(plan, &blocks);
}

/// Gathers by doubling. Every rank begins with its own block in its target; in each round it fetches as many blocks as
/// it has from the rank whose blocks come next.
fn double(plan: &mut Plan) {
    let (ranks, size) = (plan.ranks, plan.size);
    let mut have = 1;
    while have < ranks {
        let blocks = have.min(ranks - have);
        for rank in 0..ranks {
            let giver = plan.behind(rank, have);
            let first = blocks.min(ranks - giver);
            for (block, count) in [(giver, first), (0, blocks - first)] {
                let offset = block as u64 * size;
                plan.copy(target(giver, offset), target(rank, offset), count as u64 * size);
            }
        }
        have *= 2;
    }
}

/// Gathers round a ring. Every rank begins with its own block in its target; in each round it fetches the block that
/// the rank before it got in the round before.
pub(super) fn circulate(plan: &mut Plan, blocks: &[Range<u64>]) {
    let ranks = plan.ranks;
    for round in 1..ranks {
        for rank in 0..ranks {
            let before = plan.behind(rank, ranks - 1);
            let block = blocks[plan.behind(rank, ranks - round)].clone();
            for chunk in plan.chunks(block) {
                plan.copy(target(before, chunk.start), target(rank, chunk.start), chunk.end - chunk.start);
            }
        }
    }
}

/// Has each rank fetch its block from every rank; in each round, every rank serves a different one.
pub(super) fn all_to_all(plan: &mut Plan) {
    let (ranks, size) = (plan.ranks, plan.size);
    for round in 0..ranks {
        for rank in 0..ranks {
            let giver = plan.behind(rank, round);
            plan.copy(source(giver, rank as u64 * size), target(rank, giver as u64 * size), size);
        }
    }
}
