//! A broker's decisions, with 1,000 servers of 8 devices that are simulated by their messages: in one process, on one
//! core, without connections.

mod leases;
mod pass;
mod rack;

use std::path::Path;
use std::process::Command;

use crate::opencl::Error;
use crate::orders::{ANSWER, answer};
use crate::setup::Bench;
use crate::table::{Reach, Row};

/// A figure, and the bound that it has to keep.
struct Figure {
    name: &'static str,
    unit: &'static str,
    reach: Reach,
}

const PASS: &str = "a broker's look through 100,000 waiting requests: ";

/// The figures in the order in which the child tells them.
const FIGURES: [(&str, Figure); 7] = [
    (PASS, Figure { name: "50 kinds, all devices lent", unit: "ms", reach: Reach::AtMost(50.0) }),
    (PASS, Figure { name: "50 kinds, half of the devices lent", unit: "ms", reach: Reach::AtMost(50.0) }),
    (PASS, Figure { name: "5,000 kinds, all devices lent", unit: "ms", reach: Reach::AtMost(50.0) }),
    (PASS, Figure { name: "5,000 kinds, half of the devices lent", unit: "ms", reach: Reach::AtMost(50.0) }),
    (LEASES, Figure { name: "not synced to disk", unit: "1/s", reach: Reach::AtLeast(5000.0) }),
    (LEASES, Figure { name: "64 clients at a time, synced together", unit: "1/s", reach: Reach::AtLeast(1000.0) }),
    (LEASES, Figure { name: "one client, each synced by itself", unit: "1/s", reach: Reach::Stated }),
];

const LEASES: &str = "leases granted and released: ";

/// Measures the rows that are wanted; a failure becomes their error.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    let all = FIGURES.iter().map(|(what, figure)| (format!("{what}{}", figure.name), figure));
    let all: Vec<_> = all.collect();
    if !all.iter().any(|(name, _)| name.contains(&bench.only)) {
        return Vec::new();
    }
    say("a broker's queue and leases");
    let measured = measure(bench);
    let row = |(at, (name, figure)): (usize, (String, &Figure))| {
        let value = match &measured {
            Ok(values) => values.get(at).copied().ok_or_else(|| "it was not measured".to_owned()),
            Err(why) => Err(why.clone()),
        };
        Row::without_floor(&name, figure.unit, value, None, figure.reach, "")
    };
    all.into_iter().enumerate().map(row).filter(|row| row.figure.contains(&bench.only)).collect()
}

/// Has a child measure, whose memory is its own.
fn measure(bench: &Bench) -> Result<Vec<f64>, String> {
    let me = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
    let mut command = Command::new(me);
    command.args(["child", "pool", &bench.rounds(5).to_string()]).arg(bench.folder.path());
    let output = command.output().map_err(|e| format!("a child cannot be started: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("a child failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let values = text.lines().filter_map(|line| line.strip_prefix(ANSWER)?.parse().ok());
    Ok(values.collect())
}

/// Measures everything, and tells one figure after the other.
pub fn run(rounds: &str, folder: &str) -> Result<(), Error> {
    let rounds = rounds.parse().unwrap_or(1);
    for (kinds, is_half_free) in [(50, false), (50, true), (5000, false), (5000, true)] {
        answer(&format!("{}", pass::measure(kinds, is_half_free, rounds).map_err(Error::wrong)?));
    }
    for (clients, synced, leases) in [(64, false, 20_000), (64, true, 5000), (1, true, 500)] {
        answer(&format!("{}", leases::measure(Path::new(folder), clients, synced, leases).map_err(Error::wrong)?));
    }
    Ok(())
}
