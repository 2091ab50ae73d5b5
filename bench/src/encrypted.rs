//! What encryption costs: the same orders over TLS and in plain text, turn by turn.

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::median::median;
use crate::plan::begin;
use crate::process::{Probe, Side};
use crate::server::Server;
use crate::setup::Bench;
use crate::table::{Reach, Row};

const FIRST: &str = "over TLS: process start to first queue, first client";
const SECOND: &str = "over TLS: process start to first queue, second client";

/// Contents of one record (RFC 8446, section 5.1).
const RECORD: usize = 1 << 14;

/// For how long the cipher alone is measured.
const CIPHER: Duration = Duration::from_millis(100);

/// The figures that are asked for as in plain text: figure, unit, order, rounds.
const SAME: [(&str, &str, &str, usize); 6] = [
    ("over TLS: empty kernel and clFinish", "us", "finish 400", 11),
    ("over TLS: blocking read of 4 bytes", "us", "read-small 400", 11),
    ("over TLS: write of 16 MB", "MB/s", "write 8 16777216", 9),
    ("over TLS: read of 16 MB", "MB/s", "read 8 16777216", 9),
    ("over TLS: write of 256 MB", "MB/s", "write 1 268435456", 7),
    ("over TLS: read of 256 MB", "MB/s", "read 1 268435456", 7),
];

/// A server that takes encrypted connections only, and the programs that have its ticket.
struct Encrypted {
    // Kept alive for as long as the side is used.
    _server: Server,
    side: Side,
}

impl Encrypted {
    fn start(bench: &Bench, name: &str) -> Result<Self, String> {
        let state = bench.folder.path().join(name);
        let server = Server::start_encrypted(&bench.ropeway, &bench.native, &state)?;
        let mut command = Command::new(&bench.ropeway);
        command.args(["ticket", "--state"]).arg(&state).args(["new", "bench", "--host"]);
        let made = command.arg(format!("127.0.0.1:{}", server.port)).output();
        let made = made.map_err(|error| format!("no ticket: {error}"))?;
        let ticket = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        if !made.status.success() {
            return Err(format!("no ticket: {}", String::from_utf8_lossy(&made.stderr)));
        }
        let mut side = bench.remote.clone();
        side.use_server(&ticket);
        // The server reads its clients again when their file has changed, a moment later.
        let begun = Instant::now();
        while let Err(why) = side.start_up() {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err(why);
            }
        }
        Ok(Self { _server: server, side })
    }
}

/// MB that one core encrypts in a second, in records of their full size, with the cipher that links use.
fn cipher() -> Result<f64, String> {
    let wrong = |_| "the cipher cannot be measured".to_owned();
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).map_err(wrong)?);
    let mut record = vec![3; RECORD];
    let (begun, mut sealed) = (Instant::now(), 0_u64);
    while begun.elapsed() < CIPHER {
        for _ in 0..64 {
            let mut nonce = [0; 12];
            nonce[..8].copy_from_slice(&sealed.to_le_bytes());
            let nonce = Nonce::assume_unique_for_key(nonce);
            let _tag = black_box(key.seal_in_place_separate_tag(nonce, Aad::from([0; 5]), &mut record).map_err(wrong)?);
            sealed += 1;
        }
    }
    Ok(sealed as f64 * RECORD as f64 / 1e6 / begun.elapsed().as_secs_f64())
}

/// Measures the wanted rows; a failure becomes the error of its row.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    let wanted: Vec<_> = SAME.iter().filter(|(figure, ..)| figure.contains(&bench.only)).collect();
    let mut rows = Vec::new();
    let starts = [(FIRST, 5.0), (SECOND, 3.0)].map(|start| start.0.contains(&bench.only).then_some(start));
    if let Some((figure, _)) = starts.iter().flatten().next() {
        say(figure);
        let [first, second] = match start_up(bench) {
            Ok(times) => times.map(Ok),
            Err(why) => [Err(why.clone()), Err(why)],
        };
        for ((figure, limit), time) in
            starts.into_iter().zip([first, second]).filter_map(|(start, time)| Some((start?, time)))
        {
            rows.push(row(figure, "ms", time, None, Reach::AtMost(limit), ""));
        }
    }
    if wanted.is_empty() {
        return rows;
    }
    let pair = Encrypted::start(bench, "encrypted").and_then(|encrypted| {
        let probes = (begin(&bench.remote)?, begin(&encrypted.side)?);
        Ok((encrypted, probes))
    });
    let (_encrypted, (mut plain, mut over)) = match pair {
        Ok(pair) => pair,
        Err(why) => {
            let failed =
                wanted.iter().map(|(figure, unit, ..)| row(figure, unit, Err(why.clone()), None, Reach::Stated, ""));
            rows.extend(failed);
            return rows;
        }
    };
    for (figure, unit, order, rounds) in wanted {
        say(figure);
        let figures = compare(&mut plain, &mut over, order, bench.rounds(*rounds));
        rows.push(match figures {
            Err(why) => row(figure, unit, Err(why), None, Reach::Stated, ""),
            Ok((plain, over, _)) if *unit == "us" => {
                row(figure, unit, Ok(over), Some(plain), Reach::AtMost(plain + 4.0), "plain + 4; \"native\" is plain")
            }
            Ok((plain, over, cipher)) => {
                let least = 0.85 * cipher.min(plain);
                let rule = "0.85 of plain or of one core's cipher; \"native\" is plain, the floor the cipher";
                Row { floor: Some(cipher), ..row(figure, unit, Ok(over), Some(plain), Reach::AtLeast(least), rule) }
            }
        });
    }
    rows
}

fn row(
    figure: &str,
    unit: &'static str,
    ropeway: Result<f64, String>,
    native: Option<f64>,
    reach: Reach,
    rule: &str,
) -> Row {
    Row { figure: figure.into(), unit, native, ropeway, floor: None, reach, rule: rule.into() }
}

/// Medians in plain text, over TLS, and of the cipher alone.
fn compare(plain: &mut Probe, over: &mut Probe, order: &str, rounds: usize) -> Result<(f64, f64, f64), String> {
    let [mut in_plain, mut encrypted, mut ciphers] = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        in_plain.push(plain.ask(order)?);
        encrypted.push(over.ask(order)?);
        ciphers.push(cipher()?);
    }
    Ok((median(&mut in_plain), median(&mut encrypted), median(&mut ciphers)))
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
