//! The application's memory, as the client sees it.
//!
//! OpenCL lets the application hand over bare pointers, to be read or written after the call has returned. The C
//! boundary wraps them in these traits; everything here stays safe Rust.
//!
//! Such memory need not be in one piece (see [`Region`]). Only the bytes that belong to it are ever touched: those
//! between its rows may be another transfer's.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use ropeway_protocol::{Tail, TailError};
pub use ropeway_transport::{Arena, NotMapped, map_again};

use crate::base::region::Region;

/// Memory to read from, until the object is dropped.
pub trait HostSource: Send {
    /// How many bytes it holds.
    fn size(&self) -> usize;
    /// The addresses from its first to behind its last byte.
    fn span(&self) -> Range<usize>;
    /// Returns the bytes from index `at` on, as far as they are contiguous; empty past the last byte.
    fn run(&self, at: usize) -> &[u8];
}

/// Memory to write into, until the object is dropped.
pub trait HostTarget: Send {
    /// How many bytes it takes.
    fn size(&self) -> usize;
    /// The addresses from its first to behind its last byte.
    fn span(&self) -> Range<usize>;
    /// Returns the bytes from index `at` on, as far as they are contiguous; empty past the last byte.
    fn run(&mut self, at: usize) -> &mut [u8];
}

/// A stretch of memory that lives as long as a memory object: the application's own (CL_MEM_USE_HOST_PTR), or one
/// allocated for mapping.
pub trait HostRange: Send + Sync {
    /// Its first byte's address.
    fn address(&self) -> usize;
    /// Whether it is the device's own memory: nothing is to be read into it or written from it.
    fn is_the_devices(&self) -> bool {
        false
    }
    /// The region that begins at `offset`, to send.
    fn source(self: Arc<Self>, offset: usize, region: Region) -> Box<dyn HostSource>;
    /// The region that begins at `offset`, to receive into.
    fn target(self: Arc<Self>, offset: usize, region: Region) -> Box<dyn HostTarget>;
}

/// Memory that a memory object is to be mapped to.
#[derive(Debug)]
pub enum Wanted {
    /// Some of the library's own, of so many bytes.
    Own(usize),
    /// So many bytes at this place of memory that the server sees, where the device has the object.
    Shared(Arc<Arena>, u64, usize),
}

/// Memory from an offset on.
pub(crate) struct Within {
    pub(crate) whole: Arc<dyn HostRange>,
    pub(crate) offset: usize,
}

impl HostRange for Within {
    fn address(&self) -> usize {
        self.whole.address() + self.offset
    }

    fn is_the_devices(&self) -> bool {
        self.whole.is_the_devices()
    }

    fn source(self: Arc<Self>, offset: usize, region: Region) -> Box<dyn HostSource> {
        Arc::clone(&self.whole).source(self.offset + offset, region)
    }

    fn target(self: Arc<Self>, offset: usize, region: Region) -> Box<dyn HostTarget> {
        Arc::clone(&self.whole).target(self.offset + offset, region)
    }
}

/// The addresses from the first to behind the last byte.
pub fn addresses(bytes: &[u8]) -> Range<usize> {
    let start = bytes.as_ptr().addr();
    start..start.saturating_add(bytes.len())
}

/// Bytes that are already there.
impl HostSource for &[u8] {
    fn size(&self) -> usize {
        self.len()
    }

    fn span(&self) -> Range<usize> {
        addresses(self)
    }

    fn run(&self, at: usize) -> &[u8] {
        self.get(at..).unwrap_or_default()
    }
}

/// Bytes that the client itself holds.
impl HostSource for Vec<u8> {
    fn size(&self) -> usize {
        self.len()
    }

    fn span(&self) -> Range<usize> {
        addresses(self)
    }

    fn run(&self, at: usize) -> &[u8] {
        self.get(at..).unwrap_or_default()
    }
}

/// Returns up to `len` bytes from index `at` on: borrowed if they are contiguous, else copied together.
pub fn gather(source: &dyn HostSource, at: usize, len: usize) -> Cow<'_, [u8]> {
    let len = len.min(source.size().saturating_sub(at));
    let first = source.run(at);
    if let Some(all) = first.get(..len) {
        return Cow::Borrowed(all);
    }
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let run = source.run(at + bytes.len());
        if run.is_empty() {
            break;
        }
        bytes.extend_from_slice(&run[..run.len().min(len - bytes.len())]);
    }
    Cow::Owned(bytes)
}

/// Writes the next bytes of a transfer where they belong, from index `at` on. Returns false if there is no room for so
/// many bytes.
///
/// # Errors
/// The link broke.
pub fn scatter(target: &mut dyn HostTarget, mut at: usize, tail: &mut dyn Tail) -> Result<bool, TailError> {
    let len = tail.remaining();
    if len > target.size().saturating_sub(at) {
        return Ok(false);
    }
    if let Some(place) = target.run(at).get_mut(..len) {
        return tail.read_exact(place).map(|()| true);
    }
    // One read of the link for all rows.
    let bytes = tail.read_to_vec()?;
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let run = target.run(at);
        let (now, later) = rest.split_at(rest.len().min(run.len()));
        if now.is_empty() {
            return Ok(false);
        }
        run[..now.len()].copy_from_slice(now);
        at += now.len();
        rest = later;
    }
    Ok(true)
}

/// Copies all of `source` to `at` in an arena. Returns whether it belongs there.
#[must_use]
pub(crate) fn copy_in(arena: &Arena, at: u64, source: &dyn HostSource) -> bool {
    let mut done = 0;
    while done < source.size() {
        let run = source.run(done);
        if run.is_empty() || !arena.copy_in(at + done as u64, run) {
            return false;
        }
        done += run.len();
    }
    true
}

/// Fills all of `target` with what is at `at` in an arena. Returns whether it is there.
#[must_use]
pub(crate) fn copy_out(arena: &Arena, at: u64, target: &mut dyn HostTarget) -> bool {
    let mut done = 0;
    while done < target.size() {
        let run = target.run(done);
        if run.is_empty() || !arena.copy_out(at + done as u64, run) {
            return false;
        }
        done += run.len();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A region of memory of the test's own.
    struct Rows {
        memory: Vec<u8>,
        region: Region,
    }

    impl HostSource for Rows {
        fn size(&self) -> usize {
            self.region.len()
        }

        fn span(&self) -> Range<usize> {
            addresses(&self.memory)
        }

        fn run(&self, at: usize) -> &[u8] {
            &self.memory[self.region.run(at)]
        }
    }

    impl HostTarget for Rows {
        fn size(&self) -> usize {
            self.region.len()
        }

        fn span(&self) -> Range<usize> {
            addresses(&self.memory)
        }

        fn run(&mut self, at: usize) -> &mut [u8] {
            &mut self.memory[self.region.run(at)]
        }
    }

    fn rows(memory: Vec<u8>) -> Rows {
        Rows { memory, region: Region::new([3, 2, 2], 4, 9).unwrap() }
    }

    const PLACES: [usize; 12] = [0, 1, 2, 4, 5, 6, 9, 10, 11, 13, 14, 15];

    #[test]
    fn gathers_any_part() {
        let source = rows((0..16).collect());
        let packed: Vec<u8> = PLACES.iter().map(|&p| p as u8).collect();
        for at in 0..12 {
            for len in 0..=12 - at {
                assert_eq!(*gather(&source, at, len), packed[at..at + len]);
            }
        }
        assert_eq!(*gather(&source, 8, 100), packed[8..]);
        assert!(matches!(gather(&source, 3, 2), Cow::Borrowed(_)));
    }

    #[test]
    fn scatters_any_part_and_touches_nothing_else() {
        for at in 0..12 {
            for len in 0..=12 - at {
                let mut target = rows(vec![0xff; 16]);
                let bytes: Vec<u8> = (0..len as u8).collect();
                assert!(scatter(&mut target, at, &mut bytes.as_slice()).unwrap());
                let mut expected = vec![0xff; 16];
                for (byte, place) in bytes.iter().zip(&PLACES[at..]) {
                    expected[*place] = *byte;
                }
                assert_eq!(target.memory, expected);
            }
        }
        assert!(!scatter(&mut rows(vec![0; 16]), 4, &mut [0; 9].as_slice()).unwrap());
    }
}
