//! Runs the fuzz targets for a few seconds on inputs of a seeded generator: what `make test` does, without cargo-fuzz.
//!
//! `fuzz-brief [SECONDS [SEED]]`. The same seed gives the same inputs in the same order. An input that fails is kept,
//! and `fuzz-brief again frames|session FILE` runs it once more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ropeway_fuzz_targets::{become_worker_if_asked, frames, rehearse, session};
use ropeway_generate::seeded;

fn main() -> ExitCode {
    become_worker_if_asked();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [again, target, file] = &arguments[..]
        && again == "again"
    {
        let data = std::fs::read(file).expect("the input can be read");
        if target == "frames" {
            frames(&data)
        } else {
            session(&data)
        }
        return ExitCode::SUCCESS;
    }
    let mut arguments = arguments.into_iter();
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(20.0);
    let seed = arguments.next().unwrap_or_else(|| "ropeway".to_owned());
    rehearse();
    let share = Duration::from_secs_f64(seconds / 4.0);
    let good = run("frames", &seed, share, 600, frames) && run("session", &seed, share * 3, 3000, session);
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Gives `target` one input after the other until `time` is over or one fails.
fn run(name: &str, seed: &str, time: Duration, longest: usize, target: fn(&[u8])) -> bool {
    let begun = Instant::now();
    let mut count = 0_u32;
    while begun.elapsed() < time {
        let input = format!("{seed} {name} {count}");
        let choice = seeded(&format!("{input} length"), 2);
        let len = usize::from(u16::from_le_bytes([choice[0], choice[1]])) % longest;
        let data = seeded(&input, len);
        if catch_unwind(AssertUnwindSafe(|| target(&data))).is_err() {
            let file = std::env::temp_dir().join(format!("ropeway-fuzz-{name}-{count}"));
            let kept = std::fs::write(&file, &data)
                .map_or_else(|e| format!("not kept: {e}"), |()| format!("in {}", file.display()));
            eprintln!("fuzz: {name} failed at input {count} of seed '{seed}' ({kept})");
            return false;
        }
        count += 1;
    }
    println!("fuzz: {name}: {count} inputs in {:.0} s, seed '{seed}'", begun.elapsed().as_secs_f64());
    true
}
