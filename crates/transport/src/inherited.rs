//! Descriptors that a forked child must not keep open.
//!
//! A child has copies of its parent's sockets. As long as it has them, the other end does not learn that the parent is
//! gone. Code that opens a socket therefore lists it here with [`Kept`], and the C boundary replaces each listed one in
//! a new child.
//!
//! The list is read in a child of a process that may have had any number of threads in any state: reading takes no lock
//! and allocates nothing.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// Places in one piece of the list.
const PLACES: usize = 64;

/// No descriptor.
const FREE: RawFd = -1;

/// Pieces are never freed, so that readers need no precautions.
struct Piece {
    places: [AtomicI32; PLACES],
    next: OnceLock<Box<Self>>,
}

impl Piece {
    const fn new() -> Self {
        Self { places: [const { AtomicI32::new(FREE) }; PLACES], next: OnceLock::new() }
    }
}

static FIRST: Piece = Piece::new();

/// A descriptor that children must not keep, listed as long as this value lives; drop this before the descriptor is
/// closed.
#[derive(Debug)]
pub struct Kept {
    place: &'static AtomicI32,
}

impl Kept {
    /// Lists `fd`, which from now on is replaced in every child.
    pub fn from_children(fd: &impl AsFd) -> Self {
        let fd = fd.as_fd().as_raw_fd();
        let mut piece = &FIRST;
        loop {
            for place in &piece.places {
                if place.compare_exchange(FREE, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    return Self { place };
                }
            }
            piece = piece.next.get_or_init(|| Box::new(Piece::new()));
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.place.store(FREE, Ordering::Release);
    }
}

/// Returns all listed descriptors. May be called where only async-signal-safe functions may.
pub fn all() -> impl Iterator<Item = RawFd> {
    std::iter::successors(Some(&FIRST), |piece| piece.next.get().map(|next| &**next))
        .flat_map(|piece| &piece.places)
        .map(|place| place.load(Ordering::Acquire))
        .filter(|fd| *fd != FREE)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn each_is_listed_until_it_goes() {
        let files: Vec<_> = (0..3 * PLACES).map(|_| File::open("/dev/null").unwrap()).collect();
        let mut kept: Vec<_> = files.iter().map(Kept::from_children).collect();
        let listed = |file: &File| all().any(|fd| fd == file.as_raw_fd());
        assert!(files.iter().all(listed));
        drop(kept.split_off(100));
        assert!(files[..100].iter().all(listed) && !files[100..].iter().any(listed));
    }
}
