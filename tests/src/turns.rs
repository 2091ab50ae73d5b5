//! Programs that do the same thing so many times, or commands at random by a seed, as their arguments say.

use std::time::Duration;

use crate::program::Program;
use crate::stats::Stats;

/// What a hundred more turns add.
#[derive(Clone, Copy, Debug)]
pub struct Added {
    /// Messages to the server.
    pub sent: i64,
    /// Messages from it.
    pub received: i64,
    /// Bytes to the server.
    pub bytes_sent: i64,
    /// Bytes from it.
    pub bytes_received: i64,
}

/// Runs a program that takes a mode and a number of turns, with 10 and with 110 of them.
pub fn added(program: impl Fn() -> Program, mode: &str) -> Added {
    let of = |turns: &str| {
        let stats = Stats::of(&program().args([mode, turns]).env("ROPEWAY_STATS", "1").run().success().stderr);
        eprintln!("{mode} {turns}: {stats:?}");
        stats
    };
    // The source goes over the first time only.
    of("1");
    let (few, many) = (of("10"), of("110"));
    let more = |count: fn(&Stats) -> u64| count(&many).cast_signed() - count(&few).cast_signed();
    Added {
        sent: more(|stats| stats.messages_sent),
        received: more(|stats| stats.messages_received),
        bytes_sent: more(|stats| stats.bytes_sent),
        bytes_received: more(|stats| stats.bytes_received),
    }
}

/// Runs a program that takes `random`, a seed and a number of steps, for six seeds, or `ROPEWAY_SEEDS`.
pub fn at_random(program: impl Fn() -> Program, steps: u32) {
    let last = std::env::var("ROPEWAY_SEEDS").map_or(6, |seeds| seeds.parse::<u64>().expect("a number of seeds"));
    for seed in 1..=last {
        let program = program().args(["random", &seed.to_string(), &steps.to_string()]);
        let outcome = program.limit(Duration::from_secs(60)).run().success();
        assert_eq!(outcome.stdout, format!("seed {seed}: all right\n"), "{}", outcome.stderr);
    }
}
