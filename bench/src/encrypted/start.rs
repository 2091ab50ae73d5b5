//! From making a process to its first queue.

use std::time::Duration;

use super::served::Encrypted;
use crate::median::median;
use crate::setup::Bench;
use crate::table::{Reach, Row};

const STARTS: [(&str, f64); 2] = [
    ("over TLS: process start to first queue, first client", 5.0),
    ("over TLS: process start to first queue, second client", 3.0),
];

/// Measures the wanted rows; a failure becomes the error of its row.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    let is_wanted = |(figure, _): &(&str, f64)| figure.contains(&bench.only);
    let Some((figure, _)) = STARTS.iter().find(|start| is_wanted(start)) else { return Vec::new() };
    say(figure);
    let times = match start_up(bench) {
        Ok(times) => times.map(Ok),
        Err(why) => [Err(why.clone()), Err(why)],
    };
    let wanted = STARTS.into_iter().zip(times).filter(|(start, _)| is_wanted(start));
    wanted
        .map(|((figure, limit), time)| Row::without_floor(figure, "ms", time, None, Reach::AtMost(limit), ""))
        .collect()
}

/// The times from making a process to its first queue: of the first client of a server after the one that waits for it,
/// and of the second right behind it.
fn start_up(bench: &Bench) -> Result<[f64; 2], String> {
    let [mut first, mut second] = [const { Vec::new() }; 2];
    for round in 0..bench.rounds(5) {
        let encrypted = Encrypted::start(bench, &format!("start-{round}"))?;
        std::thread::sleep(Duration::from_secs(2));
        first.push(encrypted.side.start_up()?);
        second.push(encrypted.side.start_up()?);
    }
    Ok([median(&mut first), median(&mut second)])
}
