//! Memory that two servers send each other.

use super::served::Encrypted;
use crate::median::median;
use crate::server::Server;
use crate::servers::client;
use crate::setup::Bench;
use crate::table::{Reach, Row};

const FIGURE: &str = "over TLS: 64 MB to and fro between two servers";
const ORDER: &str = "bounce 12 67108864";

/// Measures the row, if it is wanted; a failure becomes its error.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    if !FIGURE.contains(&bench.only) {
        return Vec::new();
    }
    say(FIGURE);
    vec![match measure(bench) {
        Ok((plain, over)) => {
            let rule = "0.85 of plain; \"native\" is plain";
            Row::without_floor(FIGURE, "MB/s", Ok(over), Some(plain), Reach::AtLeast(0.85 * plain), rule)
        }
        Err(why) => Row::without_floor(FIGURE, "MB/s", Err(why), None, Reach::Stated, ""),
    }]
}

/// Medians in plain text and over TLS, turn by turn.
fn measure(bench: &Bench) -> Result<(f64, f64), String> {
    let open = [Server::start(&bench.ropeway, &bench.native)?, Server::start(&bench.ropeway, &bench.native)?];
    let encrypted = [Encrypted::start(bench, "between-0")?, Encrypted::start(bench, "between-1")?];
    let addresses = [open.each_ref().map(Server::url), encrypted.each_ref().map(|server| server.ticket.clone())];
    let mut probes = Vec::new();
    for addresses in &addresses {
        let mut probe = client(bench, addresses).through_sockets().spawn("spread", "", false)?;
        probe.answer()?;
        probes.push(probe);
    }
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..bench.rounds(7) {
        for (probe, figures) in probes.iter_mut().zip(&mut figures) {
            figures.push(probe.ask(ORDER)?);
        }
    }
    let [plain, over] = figures.map(|mut figures| median(&mut figures));
    Ok((plain, over))
}
