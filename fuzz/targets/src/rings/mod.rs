//! Links through shared memory, whose other end writes what it likes: into the memory, and over the socket beside it.
//!
//! Nothing runs at the same time, and so each outcome is known: it follows from the positions in the memory and from
//! those that this end keeps to itself. Only the last part, in which the other end is a thread of its own, looks for no
//! more than that all comes to an end.

mod begin;
mod memory;
mod model;

use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use ropeway_generate::Entropy;
use ropeway_transport::Link;

use memory::{DATA, Hostile, LEN};
use model::Model;

/// The most that is sent or received at once: a little more than a ring.
const MOST: usize = (1 << 20) + 70_000;

/// A link to a hostile client or server, from its first byte to its last.
///
/// # Panics
/// When it does something else than follows from what it is given.
pub fn rings(data: &[u8]) {
    let mut entropy = Entropy::new(data);
    let entropy = &mut entropy;
    let begun = match entropy.byte() {
        0..96 => begin::at_server(entropy),
        96..192 => begin::at_client(entropy),
        192..240 => return begin::handed_in(entropy),
        _ => return at_once(entropy),
    };
    let Some((link, hostile)) = begun else { return };
    let mut model = Model::new(link, hostile);
    while !entropy.is_empty() {
        model.step(entropy);
    }
}

/// The other end writes into the memory while this one sends and receives.
fn at_once(entropy: &mut Entropy<'_>) {
    let Some((link, hostile)) = begin::honestly(entropy.byte() < 128) else { return };
    let (pace, orders) = (entropy.byte(), entropy.slice(64));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = u64::from(pace);
            while !over.load(Ordering::Relaxed) {
                scribble(&hostile, &mut round);
            }
        });
        for order in orders {
            use_blindly(&link, *order);
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// One write, most often to the positions.
fn scribble(hostile: &Hostile, state: &mut u64) {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let random = *state >> 16;
    let at = if random.is_multiple_of(8) { random % (LEN - 8) } else { random % DATA / 8 * 8 };
    let value = random % (3 << 20);
    // The memory has that many bytes, and the kernel lets nobody change that.
    hostile.memory.write_all_at(&value.to_le_bytes(), at.min(LEN - 8)).expect("the memory is there");
}

fn use_blindly(link: &Link, order: u8) {
    let mut bytes = vec![0; usize::from(order) << 11];
    let len = bytes.len();
    let done = match order % 4 {
        0 => link.try_recv(&mut bytes).unwrap_or(0),
        1 => link.try_send(&bytes).unwrap_or(0),
        2 => link.try_recv_cheaply(&mut bytes).unwrap_or(0),
        _ => usize::from(link.has_more() | link.is_readable_or_will_tell()).min(len),
    };
    assert!(done <= len, "more than there is room for");
}
