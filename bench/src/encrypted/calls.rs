//! Calls and transfers over TLS, turn by turn with the same in plain text.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::served::Encrypted;
use crate::median::median;
use crate::process::Probe;
use crate::setup::Bench;
use crate::table::{Reach, Row};

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
    if wanted.is_empty() {
        return Vec::new();
    }
    let pair = Encrypted::start(bench, "encrypted").and_then(|encrypted| {
        let probes = (bench.remote.through_sockets().begin()?, encrypted.side.begin()?);
        Ok((encrypted, probes))
    });
    let (_encrypted, (mut plain, mut over)) = match pair {
        Ok(pair) => pair,
        Err(why) => {
            let failed = |(figure, unit, ..): &&(&str, &'static str, &str, usize)| {
                Row::without_floor(figure, unit, Err(why.clone()), None, Reach::Stated, "")
            };
            return wanted.iter().map(failed).collect();
        }
    };
    let mut rows = Vec::new();
    for (figure, unit, order, rounds) in wanted {
        say(figure);
        let figures = compare(&mut plain, &mut over, order, bench.rounds(*rounds));
        rows.push(match figures {
            Err(why) => Row::without_floor(figure, unit, Err(why), None, Reach::Stated, ""),
            Ok((plain, over, _)) if *unit == "us" => Row::without_floor(
                figure,
                unit,
                Ok(over),
                Some(plain),
                Reach::AtMost(plain + 4.0),
                "plain + 4; \"native\" is plain",
            ),
            Ok((plain, over, cipher)) => {
                let least = 0.85 * cipher.min(plain);
                let rule = "0.85 of plain or of one core's cipher; \"native\" is plain, the floor the cipher";
                Row {
                    floor: Some(cipher),
                    ..Row::without_floor(figure, unit, Ok(over), Some(plain), Reach::AtLeast(least), rule)
                }
            }
        });
    }
    rows
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
