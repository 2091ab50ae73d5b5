//! Runs the fuzz targets on seeded inputs, without cargo-fuzz; the same seed gives the same inputs.
//!
//! ```text
//! fuzz-brief [SECONDS [SEED]]              all targets, one after the other; 20 s if not said otherwise
//! fuzz-brief only TARGET SECONDS [SEED]    one target, on as many threads as there are processors
//! fuzz-brief again TARGET FILE...          inputs that were kept, once more, one after the other
//! ```
//!
//! An input that fails is kept in the folder for temporary files.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ropeway_fuzz_targets::{TARGETS, Target, become_worker_if_asked, rehearse, target};
use ropeway_generate::seeded;

/// The seed where none is given.
const SEED: &str = "ropeway";

fn main() -> ExitCode {
    become_worker_if_asked();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["again", name, ref files @ ..] if !files.is_empty() => again(name, files),
        ["only", name, seconds] => only(name, seconds, SEED),
        ["only", name, seconds, seed] => only(name, seconds, seed),
        [] => all("20", SEED),
        [seconds] => all(seconds, SEED),
        [seconds, seed] => all(seconds, seed),
        _ => {
            eprintln!("fuzz-brief: [SECONDS [SEED]], only TARGET SECONDS [SEED], or again TARGET FILE...");
            ExitCode::FAILURE
        }
    }
}

fn again(name: &str, files: &[&str]) -> ExitCode {
    for file in files {
        let (Some(target), Ok(data)) = (target(name), std::fs::read(file)) else {
            eprintln!("fuzz-brief: there is no target '{name}', or {file} cannot be read");
            return ExitCode::FAILURE;
        };
        (target.run)(&data);
    }
    ExitCode::SUCCESS
}

fn only(name: &str, seconds: &str, seed: &str) -> ExitCode {
    let (Some(target), Some(time)) = (target(name), duration(seconds)) else {
        eprintln!("fuzz-brief: there is no target '{name}', or '{seconds}' is no number of seconds");
        return ExitCode::FAILURE;
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    outcome(run(target, seed, time, threads * target.at_once))
}

fn all(seconds: &str, seed: &str) -> ExitCode {
    let Some(time) = duration(seconds) else {
        eprintln!("fuzz-brief: '{seconds}' is no number of seconds");
        return ExitCode::FAILURE;
    };
    rehearse();
    outcome(TARGETS.into_iter().all(|target| run(target, seed, time.mul_f64(target.share), target.at_once)))
}

fn duration(seconds: &str) -> Option<Duration> {
    seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

fn outcome(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Gives `target` one input after the other, on so many threads, until `time` is over or one fails.
fn run(target: Target, seed: &str, time: Duration, threads: usize) -> bool {
    let (begun, count, is_good) = (Instant::now(), AtomicU64::new(0), AtomicBool::new(true));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while begun.elapsed() < time && is_good.load(Ordering::Relaxed) {
                    if !run_one(target, seed, count.fetch_add(1, Ordering::Relaxed)) {
                        is_good.store(false, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (count, seconds) = (count.into_inner(), begun.elapsed().as_secs_f64());
    let rate = count as f64 / seconds;
    println!("fuzz: {}: {count} inputs in {seconds:.0} s, {rate:.0} a second, seed '{seed}'", target.name);
    is_good.into_inner()
}

/// Gives `target` the input of this number; whether it is content.
fn run_one(target: Target, seed: &str, number: u64) -> bool {
    let name = target.name;
    let bytes = seeded(&format!("{seed} {name} {number}"), 2 + target.longest);
    let (length, data) = bytes.split_at(2);
    // Most are short: what they find is found sooner.
    let part = f64::from(u16::from_le_bytes([length[0], length[1]])) / 65536.0;
    let len = (part.powi(target.shortness) * target.longest as f64) as usize;
    let data = &data[..len];
    if catch_unwind(AssertUnwindSafe(|| (target.run)(data))).is_ok() {
        return true;
    }
    let file = std::env::temp_dir().join(format!("ropeway-fuzz-{name}-{number}"));
    let kept =
        std::fs::write(&file, data).map_or_else(|e| format!("not kept: {e}"), |()| format!("in {}", file.display()));
    eprintln!("fuzz: {name} failed at input {number} of seed '{seed}' ({kept})");
    false
}
