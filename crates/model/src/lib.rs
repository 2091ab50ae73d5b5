//! Runs tests of threads in many interleavings, which shuttle draws: `make model`.
//!
//! A crate that is tested so takes its locks, atomics and threads from a module of its own (`base/modelled.rs`), which
//! gives the standard library's or, in tests with the feature `model`, shuttle's. Atomics are sequentially consistent
//! in these models, and time stands still: a thread that waits with a timeout waits for ever, so that a wake-up which
//! is lost leaves threads that cannot go on, and fails the test.
#![forbid(unsafe_code)]

use std::sync::Arc;

pub use shuttle;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// How many interleavings a test sees of each kind, if `ROPEWAY_MODEL_RUNS` does not say otherwise.
const RUNS: usize = 300;

/// The seed of the first one, if `ROPEWAY_MODEL_SEED` does not say otherwise.
const SEED: u64 = 1;

/// The most steps of an interleaving: far more than any takes that comes to its end.
const MOST_STEPS: usize = 20_000;

/// The number of switches that decide what happens, at most, in interleavings where priorities are drawn.
const DEPTH: usize = 4;

/// Bytes of a thread's stack.
const STACK: usize = 256 << 10;

fn setting<T: std::str::FromStr>(name: &str, usual: T) -> T {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}")),
        Err(_) => usual,
    }
}

/// Runs a test in many interleavings: in half of them any thread may go on at any step, in the others the threads have
/// priorities, which change at a few steps. The same seed draws the same interleavings.
///
/// # Panics
/// The test fails in one of them: it panics, no thread can go on, or they go on for ever.
pub fn check(test: impl Fn() + Send + Sync + 'static) {
    let runs = setting("ROPEWAY_MODEL_RUNS", RUNS);
    let seed = setting("ROPEWAY_MODEL_SEED", SEED);
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.failure_persistence = FailurePersistence::None;
    // That orderings weaker than sequential consistency are not modelled.
    config.silence_warnings = true;
    let test = Arc::new(test);
    let again = Arc::clone(&test);
    Runner::new(RandomScheduler::new_from_seed(seed, runs), config.clone()).run(move || test());
    Runner::new(PctScheduler::new_from_seed(seed, DEPTH, runs), config).run(move || again());
}
