//! The planner's properties, held against a model in which every byte at every home has a version.
//!
//! A case is a list of commands and a seed. Commands are planned in their order and run in any order that their events
//! allow, a byte at a time, many at once; the seed decides the order, so that a case can be run again. The
//! application's own events order only those commands of which one really writes what the other uses: what a kernel may
//! touch and what it touches are different things.

#![allow(clippy::single_range_in_vec_init, reason = "one range is what is meant")]

use std::ops::Range;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::{By, Events, Home, Residency, Use, moves_at_once};

const CASES: u32 = 10_000;
const OBJECTS: usize = 2;
const SIZE: usize = 10;
/// The version of first contents.
const FIRST: usize = 1;

/// How a command uses a part of an object.
#[derive(Clone, Debug)]
struct Touch {
    object: usize,
    kind: Kind,
    /// The range that the command declares.
    declared: Range<usize>,
    /// The range that it really uses.
    touched: Range<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Update,
    Overwrite,
    Discard,
}

#[derive(Clone, Debug)]
struct Command {
    home: Home,
    /// The in-order queue of the command, one of two; `None` for the out-of-order queue.
    lane: Option<u64>,
    touches: Vec<Touch>,
}

#[derive(Clone, Debug)]
struct Case {
    first_contents: [bool; OBJECTS],
    commands: Vec<Command>,
    seed: u64,
    most_pieces: usize,
    /// Of images.
    slice: Option<u64>,
}

impl Case {
    fn residency(&self, first_contents: bool) -> Residency<usize> {
        match self.slice {
            Some(slice) => Residency::of_slices(SIZE as u64, slice, first_contents),
            None => Residency::new(SIZE as u64, first_contents),
        }
    }
}

fn ranges() -> impl Strategy<Value = Range<usize>> {
    (0..SIZE, 1..=SIZE).prop_map(|(start, len)| start..(start + len).min(SIZE))
}

/// A kernel's argument: a buffer or sub-buffer of which the kernel uses a part.
fn argument() -> impl Strategy<Value = Touch> {
    let kinds = prop_oneof![Just(Kind::Read), Just(Kind::Update)];
    let declared = prop_oneof![Just(0..SIZE), ranges()];
    (0..OBJECTS, kinds, declared, ranges()).prop_map(|(object, kind, declared, touched)| {
        let touched = touched.start.max(declared.start)..touched.end.min(declared.end);
        let touched = if touched.is_empty() { declared.start..declared.start } else { touched };
        Touch { object, kind, declared, touched }
    })
}

/// A read, a write, a map or an unmap: exactly these bytes.
fn exact(kind: Kind) -> impl Strategy<Value = Touch> {
    (0..OBJECTS, ranges()).prop_map(move |(object, range)| Touch {
        object,
        kind,
        declared: range.clone(),
        touched: range,
    })
}

fn touches() -> impl Strategy<Value = Vec<Touch>> {
    prop_oneof![
        3 => prop::collection::vec(argument(), 1..3),
        2 => exact(Kind::Read).prop_map(|read| vec![read]),
        2 => exact(Kind::Overwrite).prop_map(|write| vec![write]),
        // A copy.
        1 => (exact(Kind::Read), exact(Kind::Overwrite)).prop_map(|(from, to)| vec![from, to]),
        // A migration, which none of the application's events order.
        2 => exact(Kind::Read).prop_map(|touch| vec![Touch { touched: 0..0, ..touch }]),
        1 => exact(Kind::Discard).prop_map(|touch| vec![touch]),
    ]
}

fn cases(most_pieces: Range<usize>) -> impl Strategy<Value = Case> {
    let lane = prop_oneof![Just(None), Just(Some(0)), Just(Some(1))];
    let commands = (2usize..5).prop_flat_map(move |homes| {
        let command = (0..homes, lane.clone(), touches());
        prop::collection::vec(command.prop_map(|(home, lane, touches)| Command { home, lane, touches }), 1..16)
    });
    let slice = prop_oneof![2 => Just(None), 1 => Just(Some(5)), 1 => Just(Some(2))];
    (any::<[bool; OBJECTS]>(), commands, any::<u64>(), most_pieces, slice).prop_map(
        |(first_contents, commands, seed, most_pieces, slice)| Case {
            first_contents,
            commands,
            seed,
            most_pieces,
            slice,
        },
    )
}

/// Numbers that look random, from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides.max(1)
    }
}

/// Something that happens to one byte.
#[derive(Clone, Debug)]
enum Step {
    Read { home: Home, object: usize, at: usize, expected: usize },
    Write { home: Home, object: usize, at: usize, version: usize },
    Take { home: Home, object: usize, at: usize },
    Put { home: Home, object: usize, at: usize },
}

/// A command or a transfer. Its number is its event.
#[derive(Default, Debug)]
struct Task {
    after: Vec<usize>,
    steps: Vec<Step>,
    done: usize,
    ended: bool,
    taken: Vec<usize>,
    rank: usize,
}

/// The property under test: what reads see, where copies come from, or which moves were needless.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
enum Watch {
    Reads,
    Sources,
    Moves,
}

struct Model {
    dice: Dice,
    tasks: Vec<Task>,
    /// The bytes that are really there.
    bytes: Vec<[[usize; SIZE]; OBJECTS]>,
    /// The last version that may have been written, and the one that each home was said to have.
    declared: [[usize; SIZE]; OBJECTS],
    said: Vec<[[usize; SIZE]; OBJECTS]>,
    /// The values that a read must see; 0 for any.
    expected: [[usize; SIZE]; OBJECTS],
    /// The last command of each in-order queue.
    last: std::collections::HashMap<(Home, u64), usize>,
    /// Commands and what they really touch.
    past: Vec<(usize, Touch)>,
}

struct Names<'a> {
    tasks: &'a mut Vec<Task>,
    dice: &'a mut Dice,
}

impl Events<usize> for Names<'_> {
    fn arrival(&mut self) -> usize {
        self.tasks.push(Task { rank: self.dice.roll(1000), ..Task::default() });
        self.tasks.len() - 1
    }

    fn outcome(&self, event: &usize) -> Option<bool> {
        // The ends of some events stay unknown.
        (self.tasks[*event].ended && event.is_multiple_of(3)).then_some(true)
    }
}

impl Model {
    fn new(case: &Case) -> Self {
        let first = |object: usize| [if case.first_contents[object] { FIRST } else { 0 }; SIZE];
        Self {
            dice: Dice(case.seed),
            tasks: Vec::new(),
            bytes: vec![[[0; SIZE]; OBJECTS]; 5],
            declared: std::array::from_fn(first),
            said: vec![[[0; SIZE]; OBJECTS]; 5],
            expected: std::array::from_fn(first),
            last: Default::default(),
            past: Vec::new(),
        }
    }

    fn enqueue(&mut self, command: &Command, plans: &mut [Residency<usize>], watch: Watch) -> Result<(), String> {
        let home = command.home;
        let me = Names { tasks: &mut self.tasks, dice: &mut self.dice }.arrival();
        let version = me + FIRST + 1;
        let mut after: Vec<usize> = Vec::new();
        if let Some(lane) = command.lane {
            after.extend(self.last.insert((home, lane), me));
        }
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for touch in &command.touches {
            let Touch { object, kind, declared, touched } = touch.clone();
            let writes_it = |kind| kind != Kind::Read;
            let conflicts = |other: &Touch| {
                let overlap = other.touched.start < touched.end && touched.start < other.touched.end;
                overlap && other.object == object && (writes_it(other.kind) || writes_it(kind))
            };
            after.extend(
                self.past.iter().filter(|(task, other)| *task != me && conflicts(other)).map(|(task, _)| *task),
            );
            self.past.push((me, touch.clone()));
            let by = || By { event: me, lane: command.lane };
            let usage = match kind {
                Kind::Read => Use::Read,
                Kind::Update => Use::Update(by()),
                Kind::Overwrite => Use::Overwrite(by()),
                Kind::Discard => Use::Discard(by()),
            };
            let mut names = Names { tasks: &mut self.tasks, dice: &mut self.dice };
            let bytes = [declared.start as u64..declared.end as u64];
            let plan = plans[object].plan(home, &usage, &bytes, &mut names).map_err(|_| "lost")?;
            // Of images, what is missing may be cut further.
            let more = if plans[object].slice.is_some() { SIZE } else { 2 };
            if plans[object].pieces.len() > plans[object].most_pieces + more {
                return Err(format!("{} pieces", plans[object].pieces.len()));
            }
            if plan.first_contents {
                self.bytes[home][object] = [FIRST; SIZE];
                self.said[home][object] = [FIRST; SIZE];
            }
            after.extend(&plan.waits);
            for transfer in plan.transfers {
                if let Some(slice) = plans[object].slice
                    && !matches!(&*transfer.ranges, [one] if moves_at_once(one, slice))
                {
                    return Err(format!("{:?} move at once, with slices of {slice}", transfer.ranges));
                }
                let moved: Vec<_> = transfer.ranges.iter().flat_map(|r| r.start as usize..r.end as usize).collect();
                for &at in &moved {
                    let latest = self.declared[object][at];
                    if watch >= Watch::Moves && latest == 0 {
                        return Err(format!("byte {at} moves, which nobody wrote"));
                    }
                    if watch >= Watch::Moves && self.said[home][object][at] == latest {
                        return Err(format!("byte {at} moves to {home}, which has it"));
                    }
                    if watch >= Watch::Sources && latest != 0 && self.said[transfer.from][object][at] != latest {
                        return Err(format!("byte {at} comes from {}, which does not have it", transfer.from));
                    }
                    self.said[home][object][at] = latest;
                }
                let take = |&at: &usize| Step::Take { home: transfer.from, object, at };
                let put = |&at: &usize| Step::Put { home, object, at };
                let one_by_one = moved.iter().flat_map(|at| [take(at), put(at)]).collect();
                let all_at_once = moved.iter().map(take).chain(moved.iter().map(put)).collect();
                let task = &mut self.tasks[transfer.arrival];
                task.after = transfer.after;
                task.steps = if self.dice.roll(2) == 0 { one_by_one } else { all_at_once };
            }
            for at in touched.clone() {
                let expected = self.expected[object][at];
                if matches!(kind, Kind::Read | Kind::Update) && expected != 0 && expected != version {
                    reads.push(Step::Read { home, object, at, expected });
                }
                if matches!(kind, Kind::Update | Kind::Overwrite) {
                    writes.push(Step::Write { home, object, at, version });
                }
            }
            for at in declared.clone() {
                if matches!(kind, Kind::Update | Kind::Overwrite) {
                    self.declared[object][at] = version;
                    self.said[home][object][at] = version;
                }
                if kind == Kind::Discard {
                    self.declared[object][at] = 0;
                }
            }
            for at in touched {
                match kind {
                    Kind::Read => {}
                    Kind::Discard => self.expected[object][at] = 0,
                    Kind::Update | Kind::Overwrite => self.expected[object][at] = version,
                }
            }
        }
        // A command reads everything that it reads before it writes; so does a copy within one object.
        reads.extend(writes);
        let task = &mut self.tasks[me];
        (task.after, task.steps) = (after, reads);
        Ok(())
    }

    /// Lets one of the tasks that can run take a step; `false`: none can.
    fn step(&mut self) -> Result<bool, String> {
        let can_run = |task: &Task| !task.ended && task.after.iter().all(|event| self.tasks[*event].ended);
        let ready: Vec<_> = (0..self.tasks.len()).filter(|at| can_run(&self.tasks[*at])).collect();
        // Mostly chosen by rank, so that some tasks lag far behind others.
        let any = self.dice.roll(ready.len());
        let chosen = if self.dice.roll(4) == 0 {
            ready.get(any).copied()
        } else {
            ready.iter().copied().max_by_key(|at| self.tasks[*at].rank)
        };
        let Some(chosen) = chosen else { return Ok(false) };
        let task = &mut self.tasks[chosen];
        let step = task.steps.get(task.done).cloned();
        task.done += 1;
        match step {
            None => task.ended = true,
            Some(Step::Take { home, object, at }) => task.taken.push(self.bytes[home][object][at]),
            Some(Step::Put { home, object, at }) => self.bytes[home][object][at] = task.taken.remove(0),
            Some(Step::Write { home, object, at, version }) => self.bytes[home][object][at] = version,
            Some(Step::Read { home, object, at, expected }) => {
                let seen = self.bytes[home][object][at];
                if seen != expected {
                    return Err(format!(
                        "task {chosen} sees {seen}, not {expected}, in byte {at} of {object} at {home}"
                    ));
                }
            }
        }
        Ok(true)
    }
}

/// Runs a case; with `forget_every`, on a planner that forgets that many-th invalidation.
fn run(case: &Case, watch: Watch, forget_every: Option<u32>) -> Result<(), String> {
    let mut model = Model::new(case);
    let mut plans = case.first_contents.map(|first| Residency {
        most_pieces: case.most_pieces,
        forget_every,
        ..case.residency(first)
    });
    let haste = 1 + model.dice.roll(40);
    for command in &case.commands {
        model.enqueue(command, &mut plans, watch)?;
        for _ in 0..model.dice.roll(haste) {
            model.step()?;
        }
    }
    while model.step()? {}
    match model.tasks.iter().position(|task| !task.ended) {
        Some(stuck) => Err(format!("task {stuck} waits for ever: {:?}", model.tasks[stuck])),
        None => Ok(()),
    }
}

fn config() -> Config {
    Config { cases: CASES, failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_read_sees_a_stale_byte_and_nothing_moves_needlessly(case in cases(200..201)) {
        run(&case, Watch::Moves, None).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn few_pieces_are_as_good(case in cases(1..6)) {
        run(&case, Watch::Sources, None).map_err(TestCaseError::fail)?;
    }
}

/// The properties must find a planner that forgets to take away one copy in so many.
#[test]
fn a_forgotten_invalidation_is_caught() {
    for every in [1, 3, 7] {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[every as u8; 32]);
        let config = Config { max_shrink_iters: 0, ..config() };
        let outcome = TestRunner::new_with_rng(config, rng)
            .run(&cases(200..201), |case| run(&case, Watch::Reads, Some(every)).map_err(TestCaseError::fail));
        let error = outcome.expect_err("the properties hold of a planner that forgets invalidations").to_string();
        assert!(error.contains("sees"), "{error}");
    }
}

proptest! {
    #![proptest_config(Config { cases: CASES / 10, ..config() })]

    #[test]
    fn with_a_home_only_that_is_lost_which_no_other_has(case in cases(200..201), gone in 0..2usize, known: bool) {
        let mut model = Model::new(&case);
        let mut plans = case.first_contents.map(|first| case.residency(first));
        for command in &case.commands {
            model.enqueue(command, &mut plans, Watch::Moves).map_err(TestCaseError::fail)?;
        }
        for (object, plan) in plans.iter_mut().enumerate().filter(|(_, plan)| !plan.is_at_client()) {
            let latest = model.declared[object];
            let has = |home: Home, at: usize| model.said[home][object][at] == latest[at];
            let survives = |at: usize| latest[at] == 0 || (0..5).any(|home| home != gone && has(home, at));
            let lost: Vec<_> = plan.lose(gone, |_| known).into_iter().flat_map(|r| r.start as usize..r.end as usize).collect();
            prop_assert_eq!(&lost, &(0..SIZE).filter(|at| !survives(*at)).collect::<Vec<_>>());
            for at in 0..SIZE {
                let mut names = Names { tasks: &mut model.tasks, dice: &mut model.dice };
                let byte = [at as u64..at as u64 + 1];
                let read = plan.plan(4, &Use::Read, &byte, &mut names);
                prop_assert_eq!(read.is_err(), lost.contains(&at));
                prop_assert!(read.iter().flat_map(|plan| &plan.transfers).all(|transfer| transfer.from != gone));
                let by = By { event: names.arrival(), lane: None };
                prop_assert!(plan.plan(3, &Use::Overwrite(by), &byte, &mut names).is_ok());
                prop_assert!(plan.plan(4, &Use::Read, &byte, &mut names).is_ok());
            }
        }
    }
}
