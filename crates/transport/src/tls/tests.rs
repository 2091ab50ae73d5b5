//! Both halves against each other, with a crew and without: bytes in pieces of every size, over a link that takes and
//! gives as little as it likes.

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use super::secret::{Cipher, Secret};
use super::{ALERT, APPLICATION_DATA, Fill, Opener, Sealer};
use crate::crew::Crew;

/// Pseudorandom numbers, the same for the same seed (xorshift64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    /// A length that is now small, now near a whole number of records, now many of them.
    fn len(&mut self) -> usize {
        match self.below(4) {
            0 => self.below(100),
            1 => (self.below(40) * (1 << 14) + self.below(64)).saturating_sub(32),
            2 => self.below(700_000),
            _ => 512 << 10,
        }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let first = self.below(251);
        (0..len).map(|at| (first + at * 7 + at / 253) as u8).collect()
    }
}

fn secret(records: u64) -> Secret {
    Secret { cipher: Cipher::Aes256Gcm, secret: vec![9; 48], records }
}

fn pair(records: u64, crew: Option<&Arc<Crew>>) -> (Sealer, Opener) {
    let mut sealer = Sealer::new(secret(records)).unwrap();
    let mut opener = Opener::new(secret(records)).unwrap();
    sealer.crew = OnceCell::from(crew.cloned());
    opener.crew = OnceCell::from(crew.cloned());
    (sealer, opener)
}

/// Sends `bytes` in parts; the link takes as much as it likes, and is busy at times.
fn send(sealer: &mut Sealer, bytes: &[u8], dice: &RefCell<Dice>, wire: &mut VecDeque<u8>) {
    let (head, rest) = bytes.split_at(dice.borrow_mut().below(bytes.len().min(60) + 1));
    let mut parts = [IoSlice::new(head), IoSlice::new(rest)];
    let mut parts = &mut parts[..];
    loop {
        let sent = sealer.send_all(&mut parts, |bytes, _| {
            let mut dice = dice.borrow_mut();
            if dice.below(20) == 0 {
                return Err(ErrorKind::TimedOut.into());
            }
            let taken = if dice.below(3) == 0 { 1 + dice.below(bytes.len()) } else { bytes.len() };
            wire.extend(&bytes[..taken]);
            Ok(taken)
        });
        match sent {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
        }
    }
}

/// Gives some of what is on the wire; it is slow at times.
fn receive(wire: &mut VecDeque<u8>, room: &mut [u8], fill: Fill, dice: &RefCell<Dice>) -> io::Result<usize> {
    let mut dice = dice.borrow_mut();
    if dice.below(20) == 0 {
        return Err(ErrorKind::WouldBlock.into());
    }
    let there = room.len().min(wire.len());
    assert!(fill == Fill::Some || there == room.len(), "it would wait for what nobody has sent");
    let len = if fill == Fill::All || there == 0 { there } else { 1 + dice.below(there) };
    room.iter_mut().zip(wire.drain(..len)).for_each(|(to, from)| *to = from);
    Ok(len)
}

#[test]
fn all_bytes_arrive_whoever_seals_and_opens_them() {
    let crew = Arc::new(Crew::new(3).unwrap());
    for seed in 1..=60 {
        let dice = RefCell::new(Dice(seed << 32 | 0x9E37_79B9));
        // Some begin shortly before their key is replaced.
        let records = if seed % 3 == 0 { (1 << 24) - 200 } else { 0 };
        let (mut sealer, mut opener) = pair(records, (seed % 4 != 0).then_some(&crew));
        if seed % 5 == 0 {
            opener.crew = OnceCell::from(None);
        }
        let (mut wire, mut sent, mut got) = (VecDeque::new(), Vec::new(), Vec::new());
        for _ in 0..12 {
            let len = dice.borrow_mut().len();
            let bytes = dice.borrow_mut().bytes(len);
            send(&mut sealer, &bytes, &dice, &mut wire);
            sent.extend(bytes);
            while got.len() < sent.len() && dice.borrow_mut().below(10) > 0 {
                let len = dice.borrow_mut().len().clamp(1, sent.len() - got.len());
                let mut into = vec![0; len];
                let whole = dice.borrow_mut().below(3) > 0;
                let read = if whole {
                    opener.read_whole(&mut into, |room, fill| receive(&mut wire, room, fill, &dice))
                } else {
                    opener.read(&mut into, |room| receive(&mut wire, room, Fill::Some, &dice))
                };
                match read {
                    Ok(len) => got.extend(&into[..len]),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "seed {seed}: {error}"),
                }
                assert!(sent.starts_with(&got), "seed {seed}: other bytes");
            }
        }
    }
}

/// Records that a Ropeway does not send, but another TLS may: padding, and an end in the middle of bulk data.
#[test]
fn a_crew_stops_at_what_is_no_whole_record_of_contents() {
    let crew = Arc::new(Crew::new(2).unwrap());
    let all = Dice(5).bytes(40 << 14);
    for odd in [0, 1, 7, 20, 39] {
        let (mut sealer, mut opener) = pair(0, None);
        let mut wire = Vec::new();
        for (at, contents) in all.chunks(1 << 14).enumerate() {
            let (near, far) = contents.split_at(contents.len() - 100);
            if at == odd {
                // The type, and then zeros.
                let padded = [near, &[APPLICATION_DATA, 0, 0, 0]].concat();
                sealer.record(&padded, 0).unwrap();
                sealer.record(far, APPLICATION_DATA).unwrap();
            } else {
                sealer.record(contents, APPLICATION_DATA).unwrap();
            }
        }
        sealer.record(&[1, 0], ALERT).unwrap();
        sealer.record(&all[..1000], APPLICATION_DATA).unwrap();
        sealer
            .flush(&mut |bytes| {
                wire.extend(bytes);
                Ok(bytes.len())
            })
            .unwrap();
        opener.crew = OnceCell::from(Some(crew.clone()));
        let mut wire: &[u8] = &wire;
        let mut into = vec![0; all.len() + 500_000];
        let mut got = 0;
        loop {
            let read = opener.read_whole(&mut into[got..], |room, _| io::Read::read(&mut wire, room)).unwrap();
            got += read;
            if read == 0 {
                break;
            }
        }
        assert!(into[..got] == all, "{odd}: {got} bytes");
    }
}

#[test]
fn a_changed_byte_is_found_by_a_crew_and_nothing_behind_it_is_given_out() {
    let crew = Arc::new(Crew::new(3).unwrap());
    let (mut sealer, mut opener) = pair(0, Some(&crew));
    let all = Dice(3).bytes(1 << 20);
    let mut wire = Vec::new();
    let mut send = |bytes: &[u8], _| {
        wire.extend(bytes);
        Ok(bytes.len())
    };
    sealer.send_all(&mut &mut [IoSlice::new(&all)][..], &mut send).unwrap();
    wire[300_000] ^= 1;
    let mut wire: &[u8] = &wire;
    let (mut into, mut got) = (vec![0; all.len()], 0);
    let error = loop {
        match opener.read_whole(&mut into[got..], |room, _| io::Read::read(&mut wire, room)) {
            Ok(read) => got += read,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(got <= 300_000 && into[..got] == all[..got]);
}

/// Padding alone is a record, too, and the other end may have closed before any of this is opened.
#[test]
fn what_came_before_the_end_is_read_also_behind_records_without_contents() {
    let crew = Arc::new(Crew::new(2).unwrap());
    let all = Dice(7).bytes(5 << 14);
    let (mut sealer, mut opener) = pair(0, None);
    opener.crew = OnceCell::from(Some(crew));
    let mut wire = Vec::new();
    sealer.record(&[APPLICATION_DATA, 0, 0], 0).unwrap();
    all.chunks(1 << 14).for_each(|contents| sealer.record(contents, APPLICATION_DATA).unwrap());
    sealer
        .flush(&mut |bytes| {
            wire.extend(bytes);
            Ok(bytes.len())
        })
        .unwrap();
    let mut wire: &[u8] = &wire;
    let mut into = vec![0; all.len() + 500_000];
    let read = opener.read_whole(&mut into, |room, _| io::Read::read(&mut wire, room)).unwrap();
    assert!(read == all.len() && into[..read] == all, "{read} bytes");
}
