//! The memory of a session that does nothing.

use super::served::Encrypted;
use crate::median::median;
use crate::memory::{Memory, only_worker_of};
use crate::process::Side;
use crate::server::Server;
use crate::setup::Bench;
use crate::table::{Reach, Row};

const FIGURES: [&str; 2] = [
    "over TLS: memory that an idle session adds to its worker",
    "over TLS: memory that an idle session adds to its client",
];

const KB: f64 = 1000.0;
const MOST: f64 = 128.0;

/// Measures the wanted rows; a failure becomes the error of its row.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    let wanted = |figure: &&str| figure.contains(&bench.only);
    let Some(figure) = FIGURES.iter().find(|figure| wanted(figure)) else { return Vec::new() };
    say(figure);
    let added = match measure(bench) {
        Ok(added) => added.map(Ok),
        Err(why) => [Err(why.clone()), Err(why)],
    };
    let rule = "anonymous; medians, less those in plain text";
    let all = FIGURES.iter().zip(added).filter(|(figure, _)| wanted(figure));
    all.map(|(figure, added)| Row::without_floor(figure, "kB", added, None, Reach::AtMost(MOST), rule)).collect()
}

/// What encryption adds to worker and client, in kB.
fn measure(bench: &Bench) -> Result<[f64; 2], String> {
    let open = Server::start(&bench.ropeway, &bench.native)?;
    let mut plain = bench.remote.clone();
    plain.use_server(&open.url());
    let encrypted = Encrypted::start(bench, "idle")?;
    let mut figures = [const { Vec::new() }; 4];
    for _ in 0..bench.rounds(9) {
        for (at, (side, server)) in [(&plain, &open), (&encrypted.side, &encrypted.server)].into_iter().enumerate() {
            let [worker, client] = session(side, server)?;
            figures[2 * at].push(worker);
            figures[2 * at + 1].push(client);
        }
    }
    let [plain_worker, plain_client, worker, client] = figures.map(|mut figures| median(&mut figures));
    Ok([worker - plain_worker, client - plain_client])
}

/// The memory of the worker and the client of one session, in kB.
fn session(side: &Side, server: &Server) -> Result<[f64; 2], String> {
    let mut probe = side.spawn("idle", "", false)?;
    probe.number()?;
    let worker = only_worker_of(server.pid(), server.port)?;
    let anonymous = |pid| Memory::of(pid).map(|memory| memory.anonymous as f64 / KB);
    Ok([anonymous(worker)?, anonymous(probe.pid())?])
}
