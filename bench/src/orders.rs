//! The protocol between a child and its parent: one line for each order, and one for each answer.

use std::io::{BufRead, Write};

use crate::opencl::Error;

/// The prefix of an answer to the parent, needed because an OpenCL implementation may print lines of its own.
pub const ANSWER: &str = "= ";
/// The prefix of a failure.
pub const FAILED: &str = "! ";

/// Nanoseconds of the monotonic clock, which all processes share.
pub fn monotonic() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// Carries out orders, one per line: a name and two numbers.
pub fn follow(mut measure: impl FnMut(&str, usize, usize) -> Result<f64, Error>) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let (name, count, size) = parse(&line);
        match measure(name, count, size) {
            Ok(figure) => answer(&format!("{figure}")),
            Err(error) => println!("{FAILED}{error}"),
        }
    }
}

/// Splits an order into its name and its two numbers.
pub fn parse(order: &str) -> (&str, usize, usize) {
    let mut words = order.split(' ');
    let name = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    (name, number(), number())
}

/// Sends an answer to the parent.
pub fn answer(text: &str) {
    let mut out = std::io::stdout().lock();
    // An error means that the parent has gone, so there is nobody to tell.
    let _ = writeln!(out, "{ANSWER}{text}").and_then(|()| out.flush());
}
