//! TLS records after the handshake: whole, damaged, lost, doubled and out of order, opened with a crew and without.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::OnceLock;

use ropeway_generate::{Entropy, damage};
use ropeway_transport::tls::half::{Helpers, OpeningHalf, SealingHalf};
use ropeway_transport::tls::{Cipher, Secret, Secrets};

/// The type of records with contents.
const APPLICATION_DATA: u8 = 23;

/// Most bytes of one piece of contents.
const MOST: usize = 600 << 10;

/// A key is replaced after so many records.
const RECORDS_PER_KEY: u64 = 1 << 24;

fn helpers(wanted: bool) -> Option<&'static Helpers> {
    static HELPERS: OnceLock<Helpers> = OnceLock::new();
    wanted.then(|| HELPERS.get_or_init(|| Helpers::new(3).expect("threads")))
}

/// Bytes to send, never the same for two places of a session.
fn contents() -> &'static [u8] {
    static CONTENTS: OnceLock<Vec<u8>> = OnceLock::new();
    CONTENTS.get_or_init(|| ropeway_generate::seeded("contents", MOST + (1 << 16)))
}

/// What goes over the wire, and what of it is contents.
#[derive(Default)]
struct Sent {
    wire: Vec<u8>,
    contents: Vec<u8>,
    /// Something was sent that ends the connection, or that no Ropeway sends.
    is_odd: bool,
}

/// Records with a secret that nobody has agreed upon.
///
/// # Panics
/// When what comes out is not what went in.
pub fn records(entropy: &mut Entropy<'_>) {
    let pick = entropy.byte();
    let (cipher, len) =
        [(Cipher::Aes128Gcm, 32), (Cipher::Aes256Gcm, 48), (Cipher::ChaCha20Poly1305, 32)][usize::from(pick % 3)];
    let records = if pick >= 200 { RECORDS_PER_KEY - u64::from(pick - 199) } else { 0 };
    let secret = Secret { cipher, secret: vec![pick; len], records };
    one_way(entropy, secret.clone(), secret);
}

/// Records in both directions of a connection whose handshake is over.
///
/// # Panics
/// When what comes out is not what went in.
pub fn both_ways(entropy: &mut Entropy<'_>, client: Secrets, server: Secrets) {
    one_way(entropy, client.sealing, server.opening);
    one_way(entropy, server.sealing, client.opening);
}

fn one_way(entropy: &mut Entropy<'_>, sealing: Secret, opening: Secret) {
    let pick = entropy.byte();
    let mut half = SealingHalf::new(sealing, helpers(pick & 1 != 0)).expect("the secret fits its cipher");
    let mut sent = Sent::default();
    for _ in 0..=(pick >> 4) % 8 {
        send(entropy, &mut half, &mut sent);
    }
    if pick & 2 != 0 {
        let before = sent.wire.clone();
        if pick & 4 != 0 {
            move_records(entropy, &mut sent.wire)
        } else {
            damage(&mut sent.wire, entropy)
        }
        sent.is_odd |= before != sent.wire;
    }
    let half = OpeningHalf::new(opening, helpers(pick & 8 != 0)).expect("the secret fits its cipher");
    let got = receive(entropy, half, &sent);
    assert!(sent.is_odd || got == sent.contents.len(), "{got} bytes of {} arrive", sent.contents.len());
}

fn send(entropy: &mut Entropy<'_>, half: &mut SealingHalf, sent: &mut Sent) {
    let all = contents();
    let begin = usize::from(entropy.byte()) << 8;
    let sealed = match entropy.byte() {
        pick @ 0..208 => {
            let len = match pick {
                0..120 => usize::from(entropy.byte()),
                120..160 => (usize::from(pick % 4) << 14) + usize::from(entropy.byte()) - usize::from(pick % 4),
                160..200 => usize::from(entropy.byte()) << 8,
                _ => usize::from(entropy.byte()) * MOST / 255,
            };
            sent.contents.extend_from_slice(&all[begin..begin + len]);
            half.seal(&all[begin..begin + len], &mut sent.wire)
        }
        // One record, with padding behind its contents.
        pick @ 208..224 => {
            let len = usize::from(entropy.byte()) << 6;
            let padding = usize::from(pick - 208) * 8;
            sent.contents.extend_from_slice(&all[begin..begin + len]);
            let padded = [&all[begin..begin + len], &[APPLICATION_DATA], &vec![0; padding]].concat();
            half.seal_record(&padded, 0, &mut sent.wire)
        }
        // A record of any type, or one that is too long.
        pick => {
            sent.is_odd = true;
            let kind = [20, 21, 22, APPLICATION_DATA, 24, 0, 255, pick][usize::from(pick % 8)];
            let mut inside = entropy.slice(usize::from(pick % 7)).to_vec();
            if pick >= 248 {
                inside.resize((1 << 14) + usize::from(entropy.byte()) * 2, 5);
            }
            // What counts as its type is the last byte that is not 0.
            let plain = [&inside[..], &[kind]].concat();
            if let Some(last) = plain.iter().rposition(|byte| *byte != 0)
                && plain[last] == APPLICATION_DATA
            {
                sent.contents.extend_from_slice(&plain[..last]);
            }
            half.seal_record(&inside, kind, &mut sent.wire)
        }
    };
    sealed.expect("what is sent is sealed");
}

/// Swaps, doubles or drops whole records: what is still there, each key opens by itself, but not in that place.
fn move_records(entropy: &mut Entropy<'_>, wire: &mut Vec<u8>) {
    let (mut all, mut at): (Vec<Range<usize>>, usize) = (Vec::new(), 0);
    while let Some([_, _, _, high, low]) = wire.get(at..at + 5) {
        let end = at + 5 + usize::from(u16::from_be_bytes([*high, *low]));
        all.push(at..end);
        at = end;
    }
    if all.is_empty() {
        return;
    }
    let mut place = || usize::from(entropy.byte()) * all.len() / 256;
    let (one, other, how) = (place(), place(), place());
    match how % 3 {
        0 => all.swap(one, other),
        1 => all.insert(other, all[one].clone()),
        _ => drop(all.remove(one)),
    }
    *wire = all.into_iter().flat_map(|record| wire[record].to_vec()).collect();
}

/// Reads what has come until the end or an error; how many bytes.
fn receive(entropy: &mut Entropy<'_>, mut half: OpeningHalf, sent: &Sent) -> usize {
    let (mut wire, mut got) = (&sent.wire[..], 0);
    let mut into = vec![0; MOST];
    loop {
        let pick = entropy.byte();
        let len = match pick {
            0..100 => MOST,
            100..150 => 1 + usize::from(pick) * 997,
            _ => 1 + usize::from(entropy.byte()),
        };
        let slow = usize::from(entropy.byte());
        let mut receive = |room: &mut [u8], all: bool| -> io::Result<usize> {
            if slow >= 250 && !wire.is_empty() && room.len() > slow {
                let (now, later) = wire.split_at(slow.min(wire.len()));
                room[..now.len()].copy_from_slice(now);
                wire = later;
                return if now.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(now.len()) };
            }
            assert!(!room.is_empty(), "nothing can come where there is no room");
            let some = if all || slow % 2 == 0 { room.len() } else { 1 + slow * room.len() / 256 };
            let (now, later) = wire.split_at(some.min(room.len()).min(wire.len()));
            room[..now.len()].copy_from_slice(now);
            wire = later;
            Ok(now.len())
        };
        let read = if pick.is_multiple_of(2) {
            half.read_whole(&mut into[..len], &mut receive)
        } else {
            half.read(&mut into[..len], |room| receive(room, false))
        };
        match read {
            Ok(0) => return got,
            Ok(len) => {
                let same = sent.contents.get(got..got + len).is_some_and(|same| *same == into[..len]);
                assert!(same, "bytes come out that did not go in");
                got += len;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return got,
        }
    }
}
