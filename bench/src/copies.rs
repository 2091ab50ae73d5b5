//! What the machine's memory gives: copies by the processor, without which no bytes come from one process to another.

use std::hint::black_box;
use std::time::Instant;

/// Two places of the same size, all of whose pages are there.
pub struct Copies {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Copies {
    /// Places of `size` bytes each.
    pub fn of(size: usize) -> Self {
        Self { from: vec![1; size], to: vec![2; size] }
    }

    /// Copies from one to the other `count` times by one thread, in MB/s (10^6 bytes).
    pub fn measure(&mut self, count: usize) -> f64 {
        let begun = Instant::now();
        for _ in 0..count {
            black_box(&mut self.to).copy_from_slice(black_box(&self.from));
        }
        (count * self.from.len()) as f64 / begun.elapsed().as_secs_f64() / 1e6
    }
}
