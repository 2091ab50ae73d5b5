//! Every rank ends with the right data, in whatever order the steps run that the hazards allow; steps and bytes are
//! those of the textbook.

use std::collections::HashMap;

use proptest::prelude::*;

use super::hazards::{Hazards, Touch};
use super::schedule::{At, Job, Operation, Place, Schedule, Step, Tuning};

/// Memory: a rank's, or the part of another rank's memory that it aliases.
type Space = (usize, Place);

/// Bytes of an element: a function x -> a x + b, with both coefficients of 32 bits. Composition is associative, but not
/// commutative.
const ELEMENT: u64 = 8;

fn combined(left: &[u8], right: &[u8], ordered: bool) -> Vec<u8> {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let pairs = left.chunks_exact(8).zip(right.chunks_exact(8));
    let both = pairs.flat_map(|(left, right)| {
        let ((a, b), (c, d)) = ((number(&left[..4]), number(&left[4..])), (number(&right[..4]), number(&right[4..])));
        let both = match ordered {
            true => (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d)),
            false => (a.wrapping_mul(c), b.wrapping_add(d)),
        };
        [both.0.to_le_bytes(), both.1.to_le_bytes()].concat()
    });
    both.collect()
}

/// Where a place really is: in-place targets are the sources.
fn space(job: &Job, in_place: bool, at: At) -> (Space, u64) {
    let moved = |from: usize| job.in_place(from, at.rank).filter(|_| in_place && at.place == Place::Target);
    let root = match job.operation {
        Operation::Broadcast { root } | Operation::Scatter { root } => root,
        _ => at.rank,
    };
    // A gather's or all-gather's target is larger than the source, which is then a part of it.
    let grows = matches!(job.operation, Operation::Gather { .. } | Operation::AllGather);
    match (at.place, moved(root)) {
        (Place::Source, _) if in_place && grows && job.target_size(at.rank) > 0 => {
            ((at.rank, Place::Target), at.offset + at.rank as u64 * job.size)
        }
        (Place::Target, Some(by)) if !grows && at.rank == root => {
            ((root, Place::Source), at.offset + u64::try_from(by).unwrap())
        }
        _ => ((at.rank, at.place), at.offset),
    }
}

struct Machine<'a> {
    job: &'a Job,
    in_place: bool,
    schedule: Schedule,
    memory: HashMap<Space, Vec<u8>>,
}

fn contents(job: &Job, rank: usize) -> Vec<u8> {
    (0..job.source_size(rank))
        .map(|at| (at as u8).wrapping_mul(37) ^ (rank as u8).wrapping_mul(101).wrapping_add(3))
        .collect()
}

impl<'a> Machine<'a> {
    fn new(job: &'a Job, tuning: &Tuning, in_place: bool) -> Self {
        let schedule = job.schedule(tuning);
        let mut memory = HashMap::new();
        for rank in 0..job.ranks {
            memory.insert((rank, Place::Source), vec![0; job.source_size(rank) as usize]);
            memory.insert((rank, Place::Target), vec![0xee; job.target_size(rank) as usize]);
            for (slot, &size) in schedule.scratch[rank].iter().enumerate() {
                memory.insert((rank, Place::Scratch(slot)), vec![0xdd; size as usize]);
            }
        }
        let mut machine = Self { job, in_place, schedule, memory };
        for rank in 0..job.ranks {
            let bytes = contents(job, rank);
            machine.bytes(At { rank, place: Place::Source, offset: 0 }, bytes.len() as u64).copy_from_slice(&bytes);
        }
        machine
    }

    fn bytes(&mut self, at: At, size: u64) -> &mut [u8] {
        let (space, offset) = space(self.job, self.in_place, at);
        &mut self.memory.get_mut(&space).unwrap()[offset as usize..(offset + size) as usize]
    }

    fn run(&mut self, step: &Step) {
        let slot = |rank, slot| At { rank, place: Place::Scratch(slot), offset: 0 };
        match *step {
            Step::Copy { from, to, size } => {
                let bytes = self.bytes(from, size).to_vec();
                self.bytes(to, size).copy_from_slice(&bytes);
            }
            Step::Combine { rank, left, right, out, size } => {
                let left = self.bytes(slot(rank, left), size).to_vec();
                let right = self.bytes(slot(rank, right), size).to_vec();
                let both = combined(&left, &right, self.job.ordered);
                self.bytes(slot(rank, out), size).copy_from_slice(&both);
            }
            Step::Identity { to, size } => self.bytes(to, size).fill(0x11),
        }
    }

    fn touches(&self, step: &Step) -> Vec<Touch<Space>> {
        let touch = |at: At, size: u64, writes: bool| {
            let (memory, offset) = space(self.job, self.in_place, at);
            Touch { memory, range: offset..offset + size, writes }
        };
        let slot = |rank, slot| At { rank, place: Place::Scratch(slot), offset: 0 };
        match *step {
            Step::Copy { from, to, size } => vec![touch(from, size, false), touch(to, size, true)],
            Step::Combine { rank, left, right, out, size } => {
                let reads = [left, right].map(|one| touch(slot(rank, one), size, false));
                reads.into_iter().chain([touch(slot(rank, out), size, true)]).collect()
            }
            Step::Identity { to, size } => vec![touch(to, size, true)],
        }
    }

    /// The steps that each step waits for; `in_order` says of each rank whether its queue keeps the order.
    fn waits(&self, in_order: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
        let mut hazards = Hazards::default();
        let queue = |step: &Step| Some(step.rank()).filter(|&rank| in_order(rank));
        self.schedule.steps.iter().map(|step| hazards.next(queue(step), &self.touches(step))).collect()
    }

    /// Runs the steps in some order that hazards and queues allow.
    fn run_all(&mut self, in_order: impl Fn(usize) -> bool + Copy, mut choose: impl FnMut(usize) -> usize) {
        let mut waits = self.waits(in_order);
        let steps = self.schedule.steps.clone();
        let mut last = vec![None; self.job.ranks];
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| in_order(step.rank())) {
            waits[at].extend(last[step.rank()].replace(at));
        }
        let mut behind = vec![Vec::new(); steps.len()];
        for (at, waits) in waits.iter().enumerate() {
            waits.iter().for_each(|&wait| behind[wait].push(at));
        }
        let mut open: Vec<usize> = waits.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..steps.len()).filter(|&at| open[at] == 0).collect();
        let mut done = 0;
        while !ready.is_empty() {
            let at = ready.swap_remove(choose(ready.len()));
            self.run(&steps[at]);
            done += 1;
            for &next in &behind[at] {
                open[next] -= 1;
                if open[next] == 0 {
                    ready.push(next);
                }
            }
        }
        assert_eq!(done, steps.len());
    }

    fn check(&mut self) {
        for rank in 0..self.job.ranks {
            let expected = expected(self.job, rank);
            let size = self.job.target_size(rank);
            let got = self.bytes(At { rank, place: Place::Target, offset: 0 }, size).to_vec();
            assert_eq!(got, expected, "rank {rank} of {:?}", self.job);
        }
    }
}

fn expected(job: &Job, rank: usize) -> Vec<u8> {
    let all: Vec<_> = (0..job.ranks).map(|rank| contents(job, rank)).collect();
    let block = |of: &Vec<u8>, at: usize| of[at * job.size as usize..(at + 1) * job.size as usize].to_vec();
    let sum = |of: &[Vec<u8>]| of[1..].iter().fold(of[0].clone(), |sum, one| combined(&sum, one, job.ordered));
    let gets = job.target_size(rank) > 0;
    match job.operation {
        _ if !gets => Vec::new(),
        Operation::Broadcast { root } => all[root].clone(),
        Operation::Scatter { root } => block(&all[root], rank),
        Operation::Gather { .. } | Operation::AllGather => all.concat(),
        Operation::AllToAll => all.iter().flat_map(|one| block(one, rank)).collect(),
        Operation::Reduce { .. } | Operation::AllReduce => sum(&all),
        Operation::ReduceScatter => block(&sum(&all), rank),
        Operation::Scan { exclusive: false } => sum(&all[..=rank]),
        Operation::Scan { exclusive: true } if rank == 0 => vec![0x11; job.size as usize],
        Operation::Scan { exclusive: true } => sum(&all[..rank]),
    }
}

fn operations(root: usize) -> [Operation; 10] {
    use Operation::*;
    [
        Broadcast { root },
        Scatter { root },
        Gather { root },
        AllGather,
        AllToAll,
        Reduce { root },
        AllReduce,
        ReduceScatter,
        Scan { exclusive: false },
        Scan { exclusive: true },
    ]
}

fn job(operation: Operation, ranks: usize, count: u64) -> Job {
    Job { operation, ranks, size: count * ELEMENT, element: ELEMENT, ordered: false }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_rank_ends_with_the_right_data(
        ranks in 1_usize..=16,
        root in 0_usize..16,
        which in 0_usize..10,
        count in 1_u64..40,
        ordered: bool,
        in_place: bool,
        tree in prop_oneof![Just(0), Just(u64::MAX)],
        chunk in 1_u64..100,
        in_order in 0_u32..1 << 16,
        seed: u64,
    ) {
        let job = Job { ordered, ..job(operations(root % ranks)[which], ranks, count) };
        let mut machine = Machine::new(&job, &Tuning { tree, chunk }, in_place);
        let mut state = seed;
        machine.run_all(|rank| in_order >> rank & 1 == 1, |among| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % among
        });
        machine.check();
    }
}

/// The test above can fail: without what hazards hold back, some order of the steps ends with wrong data.
#[test]
fn steps_that_do_not_wait_end_with_wrong_data() {
    for operation in operations(1).into_iter().filter(|operation| *operation != Operation::AllToAll) {
        let job = job(operation, 6, 4);
        for tuning in [TREE, Tuning { tree: 0, chunk: ELEMENT }] {
            let mut machine = Machine::new(&job, &tuning, false);
            if machine.waits(|_| false).iter().all(Vec::is_empty) {
                continue;
            }
            let steps = machine.schedule.steps.clone();
            steps.iter().rev().for_each(|step| machine.run(step));
            let wrong = (0..job.ranks).any(|rank| {
                let at = At { rank, place: Place::Target, offset: 0 };
                machine.bytes(at, job.target_size(rank)) != expected(&job, rank)
            });
            assert!(wrong, "{operation:?} {tuning:?}");
        }
    }
}

/// The number of consecutive messages between ranks, the bytes between ranks in all, and the most that one rank gets.
struct Figures {
    depth: usize,
    bytes: u64,
    most: u64,
}

/// A rank sends one message and receives one at a time. Consecutive steps between the same two ranks count as one
/// message.
fn figures(job: &Job, tuning: Tuning) -> Figures {
    let machine = Machine::new(job, &tuning, false);
    let waits = machine.waits(|_| false);
    let (mut depths, mut given, mut taken) = (Vec::new(), vec![0; job.ranks], vec![0; job.ranks]);
    let mut got = vec![0; job.ranks];
    let mut last = None;
    for (step, waits) in machine.schedule.steps.iter().zip(&waits) {
        let before = waits.iter().map(|&wait| depths[wait]).max().unwrap_or(0);
        let depth = match step {
            Step::Copy { from, to, size } if from.rank != to.rank => {
                got[to.rank] += size;
                let same = last.replace((from.rank, to.rank)) == last && job.size < tuning.chunk;
                let free = before.max(given[from.rank]).max(taken[to.rank]);
                let depth = if same && before < free { free } else { free + 1 };
                (given[from.rank], taken[to.rank]) = (depth, depth);
                depth
            }
            _ => {
                last = None;
                before
            }
        };
        depths.push(depth);
    }
    Figures {
        depth: depths.iter().copied().max().unwrap_or(0),
        bytes: got.iter().sum(),
        most: got.into_iter().max().unwrap_or(0),
    }
}

const TREE: Tuning = Tuning { tree: u64::MAX, chunk: u64::MAX / 2 };
const RING: Tuning = Tuning { tree: 0, chunk: u64::MAX / 2 };

#[test]
fn trees_take_the_logarithm_of_the_ranks() {
    for ranks in 1_usize..=16 {
        let rounds = ranks.next_power_of_two().trailing_zeros() as usize;
        let (p, n) = (ranks as u64, 5 * ELEMENT);
        let tree = |operation| figures(&job(operation, ranks, 5), TREE);
        for root in [0, ranks / 2, ranks - 1] {
            for operation in [Operation::Broadcast { root }, Operation::Reduce { root }] {
                let Figures { depth, bytes, .. } = tree(operation);
                assert_eq!((depth, bytes), (rounds, n * (p - 1)), "{operation:?} {ranks}");
            }
            // Each block travels once for each bit set in its distance.
            let ways = (0..p).map(|distance| u64::from(distance.count_ones())).sum::<u64>();
            for operation in [Operation::Scatter { root }, Operation::Gather { root }] {
                let Figures { depth, bytes, .. } = tree(operation);
                assert_eq!((depth, bytes), (rounds, n * ways), "{operation:?} {ranks}");
            }
        }
        let Figures { depth, bytes, most } = tree(Operation::AllGather);
        assert_eq!((depth, bytes, most), (rounds, n * p * (p - 1), n * (p - 1)));
        let Figures { depth, bytes, .. } = tree(Operation::AllReduce);
        assert_eq!((depth, bytes), (2 * rounds, 2 * n * (p - 1)));
        let given = |ranks: u64| (0..rounds).map(|round| ranks.saturating_sub(1 << round)).sum::<u64>();
        let Figures { depth, bytes, .. } = tree(Operation::Scan { exclusive: false });
        assert_eq!((depth, bytes), (rounds, n * given(p)));
        if ranks > 1 {
            let Figures { depth, .. } = tree(Operation::Scan { exclusive: true });
            assert_eq!(depth, 1 + (ranks - 1).next_power_of_two().trailing_zeros() as usize);
        }
    }
}

#[test]
fn rings_carry_every_byte_no_more_often_than_they_must() {
    for ranks in 3..=16 {
        let p = ranks as u64;
        // Evenly dealt.
        let (count, n) = (3 * p, 3 * p * ELEMENT);
        let ring = |operation| figures(&job(operation, ranks, count), RING);
        let Figures { depth, bytes, most } = ring(Operation::AllReduce);
        assert_eq!((depth, bytes, most), (2 * (ranks - 1), 2 * n * (p - 1), 2 * n / p * (p - 1)));
        for operation in [Operation::AllGather, Operation::ReduceScatter] {
            let Figures { depth, bytes, most } = ring(operation);
            assert_eq!((depth, bytes, most), (ranks - 1, n * p * (p - 1), n * (p - 1)), "{operation:?} {ranks}");
        }
        let Figures { depth, bytes, most } = ring(Operation::AllToAll);
        assert_eq!((depth, bytes, most), (ranks - 1, n * p * (p - 1), n * (p - 1)));
        for operation in [Operation::Scatter { root: 1 }, Operation::Gather { root: 1 }] {
            let Figures { depth, bytes, .. } = ring(operation);
            assert_eq!((depth, bytes), (ranks - 1, n * (p - 1)));
        }
    }
}

#[test]
fn chains_are_full_of_chunks() {
    for ranks in 3..=16 {
        for chunks in 1..=9 {
            let tuning = Tuning { tree: 0, chunk: 2 * ELEMENT };
            let n = 2 * ELEMENT * chunks as u64;
            for root in [0, ranks - 1] {
                let one_way = [Operation::Broadcast { root }, Operation::Reduce { root }];
                for operation in one_way.into_iter().chain([false, true].map(|exclusive| Operation::Scan { exclusive }))
                {
                    let Figures { depth, bytes, most } = figures(&job(operation, ranks, 2 * chunks as u64), tuning);
                    let all = (depth, bytes, most);
                    assert_eq!(
                        all,
                        (ranks - 1 + chunks - 1, n * (ranks as u64 - 1), n),
                        "{operation:?} {ranks} {chunks}"
                    );
                }
            }
        }
    }
}

#[test]
fn scratch_memory_is_of_the_size_of_the_data_or_less() {
    for operation in operations(2) {
        // Large data takes some chunks, or for a ring what two of its blocks take.
        let size = 1 << 30;
        let job = Job { operation, ranks: 8, size, element: 4, ordered: false };
        let schedule = job.schedule(&Tuning::default());
        let most = schedule.scratch.iter().map(|slots| slots.iter().sum::<u64>()).max().unwrap();
        let limit = match operation {
            Operation::ReduceScatter => 2 * size + size / 8,
            _ => size / 4 + size / 16,
        };
        assert!(most <= limit, "{operation:?}: {most} for {size}");
        assert!(schedule.steps.len() < 64 * 8 * 8 * 6, "{operation:?}: {}", schedule.steps.len());
    }
}
