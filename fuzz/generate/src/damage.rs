//! Breaks bytes in the ways that find faults: single bits, lengths at their limits, pieces lost, doubled and moved.

use crate::Entropy;

/// Values that lengths, counts and ids are fond of failing at.
const EDGES: [u32; 8] = [0, 1, 0x7f, 0xff, 0x10_0000, 0x10_0001, 0x7fff_ffff, 0xffff_ffff];

/// Changes `bytes` in one to four places, as `entropy` says.
pub fn damage(bytes: &mut Vec<u8>, entropy: &mut Entropy<'_>) {
    for _ in 0..=entropy.byte() % 4 {
        if bytes.is_empty() {
            bytes.push(entropy.byte());
        }
        let at = place(entropy, bytes.len());
        match entropy.byte() % 8 {
            0 => bytes[at] ^= 1 << (entropy.byte() % 8),
            1 => bytes[at] = entropy.byte(),
            // A varint of ten bytes, the longest there is.
            2 => drop(bytes.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])),
            3 => {
                let edge = EDGES[usize::from(entropy.byte()) % EDGES.len()].to_le_bytes();
                let end = (at + edge.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&edge[..end - at]);
            }
            4 => bytes.truncate(at),
            5 => drop(bytes.drain(at..(at + place(entropy, 64)).min(bytes.len()))),
            6 => {
                let piece = bytes[at..(at + place(entropy, 64)).min(bytes.len())].to_vec();
                let to = place(entropy, bytes.len());
                drop(bytes.splice(to..to, piece));
            }
            _ => {
                let other = place(entropy, bytes.len());
                bytes.swap(at, other);
            }
        }
    }
}

/// An index below `len`, which is not 0.
fn place(entropy: &mut Entropy<'_>, len: usize) -> usize {
    let pick = u32::from_le_bytes([entropy.byte(), entropy.byte(), entropy.byte(), 0]);
    pick as usize % len
}
