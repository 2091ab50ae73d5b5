//! A session's share of what its client may have in all its sessions together.
//!
//! All sessions of a client have a page of numbers in common: for each session, what it has. Only the session itself
//! changes its numbers, and the daemon once it is over. Who wants more writes down what it will have, and only then
//! adds up: of two sessions that do so at the same moment, at least one sees the other, so that together they never have
//! more than they may.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::handoff::{SHARED_RESOURCES, SHARES};
use crate::native::SharedNumbers;

/// The session's numbers among those of all sessions of its client.
pub struct Share {
    numbers: SharedNumbers,
    /// The session's place.
    place: usize,
}

impl Share {
    /// The share at `place` of those in `file`.
    ///
    /// # Errors
    /// The operating system's error, or it has no such place.
    pub fn new(file: OwnedFd, place: u32) -> io::Result<Self> {
        let place = usize::try_from(place).ok().filter(|place| *place < SHARES).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { numbers: SharedNumbers::map(file, SHARES * SHARED_RESOURCES)?, place })
    }

    fn of(&self, place: usize, resource: usize) -> &AtomicU64 {
        &self.numbers.all()[place * SHARED_RESOURCES + resource]
    }

    /// Sets what the session has.
    pub fn set(&self, resource: usize, amount: u64) {
        self.of(self.place, resource).store(amount, Ordering::SeqCst);
    }

    /// Sets what the session will have, if all sessions together then have no more than `most`. Otherwise nothing
    /// changes, and what all of them have is returned.
    ///
    /// # Errors
    /// That is too much.
    pub fn raise(&self, resource: usize, amount: u64, most: u64) -> Result<(), u64> {
        let before = self.of(self.place, resource).swap(amount, Ordering::SeqCst);
        let each = (0..SHARES).map(|place| self.of(place, resource).load(Ordering::SeqCst));
        let all = each.fold(0, u64::saturating_add);
        if all <= most {
            return Ok(());
        }
        self.set(resource, before);
        Err(all.saturating_sub(amount).saturating_add(before))
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;

    fn file() -> OwnedFd {
        let file = memfd_create("shares", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, (SHARES * SHARED_RESOURCES * 8) as u64).unwrap();
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        file
    }

    #[test]
    fn all_sessions_together_have_no_more_than_they_may() {
        let file = file();
        let [one, other] = [0, SHARES as u32 - 1].map(|place| Share::new(file.try_clone().unwrap(), place).unwrap());
        assert_eq!(one.raise(0, 60, 100), Ok(()));
        assert_eq!(other.raise(0, 41, 100), Err(60));
        assert_eq!(other.raise(0, 40, 100), Ok(()));
        assert_eq!(other.raise(1, 100, 100), Ok(()), "another resource");
        assert_eq!((one.raise(0, 61, 100), one.raise(0, 60, 100)), (Err(100), Ok(())));
        other.set(0, 0);
        assert_eq!(one.raise(0, 100, 100), Ok(()));
        assert_eq!(one.raise(0, u64::MAX, 100), Err(100));
    }

    #[test]
    fn two_that_take_at_the_same_moment_never_have_too_much() {
        let file = file();
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for place in 0..2 {
                let share = Share::new(file.try_clone().unwrap(), place).unwrap();
                let taken = &taken;
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        if share.raise(0, 10, 15).is_ok() {
                            assert_eq!(taken.fetch_add(1, Ordering::SeqCst), 0);
                            taken.fetch_sub(1, Ordering::SeqCst);
                            share.set(0, 0);
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_file_that_is_no_such_page_is_refused() {
        assert!(Share::new(file(), SHARES as u32).is_err());
        let short = memfd_create("short", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&short, 8).unwrap();
        fcntl_add_seals(&short, SealFlags::SHRINK).unwrap();
        assert!(Share::new(short, 0).is_err());
        let shrinking = memfd_create("shrinking", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&shrinking, 1 << 20).unwrap();
        assert!(Share::new(shrinking, 0).is_err());
    }
}
