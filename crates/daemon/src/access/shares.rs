//! What all sessions of a client have together: a page of numbers that their workers share.
//!
//! Each worker writes down what its own session has, and adds up what all have before it gives its client more. A worker
//! that somebody has taken over can write what it likes, which concerns the same client's sessions only.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ropeway_transport::tls::PublicKey;
use ropeway_worker::handoff::{SHARED_RESOURCES, SHARES};

use crate::page;

/// The bytes of one share.
const SHARE: usize = SHARED_RESOURCES * size_of::<u64>();

/// The pages of all clients that have sessions.
#[derive(Debug, Default)]
pub(crate) struct Shares(BTreeMap<PublicKey, Weak<Page>>);

/// The page of a client.
#[derive(Debug)]
struct Page {
    file: OwnedFd,
    /// The places that are not taken, of those before the first that never was.
    free: Mutex<(Vec<u32>, u32)>,
}

/// A session's share; free for another session once it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    page: Arc<Page>,
    place: u32,
}

impl Shares {
    /// A share for a new session of the client with this key.
    ///
    /// # Errors
    /// The operating system's error; [`io::ErrorKind::QuotaExceeded`] for too many sessions.
    pub(crate) fn share_for(&mut self, client: &PublicKey) -> io::Result<Share> {
        self.0.retain(|_, page| page.strong_count() > 0);
        let page = match self.0.get(client).and_then(Weak::upgrade) {
            Some(page) => page,
            None => {
                let page = Arc::new(Page::new()?);
                self.0.insert(*client, Arc::downgrade(&page));
                page
            }
        };
        let place = page.take().ok_or(io::ErrorKind::QuotaExceeded)?;
        Ok(Share { page, place })
    }
}

impl Page {
    fn new() -> io::Result<Self> {
        Ok(Self { file: page::sealed("ropeway-shares", SHARES * SHARE)?, free: Mutex::default() })
    }

    fn take(&self) -> Option<u32> {
        let (free, next) = &mut *self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = free.pop() {
            return Some(place);
        }
        let place = *next;
        (place < SHARES as u32).then(|| *next += 1)?;
        Some(place)
    }
}

impl Share {
    /// The page and the place there.
    pub(crate) fn parts(&self) -> (BorrowedFd<'_>, u32) {
        (self.page.file.as_fd(), self.place)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Its session has nothing any more. A place that cannot be cleared is not used again.
        let zeros = [0; SHARE];
        if rustix::io::pwrite(&self.page.file, &zeros, u64::from(self.place) * SHARE as u64) == Ok(SHARE) {
            self.page.free.lock().unwrap_or_else(PoisonError::into_inner).0.push(self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_a_client_share_a_page_and_leave_nothing_there() {
        let mut shares = Shares::default();
        let [alice, bob] = [1, 2].map(|byte| PublicKey::new([byte; 32]));
        let first = shares.share_for(&alice).unwrap();
        let second = shares.share_for(&alice).unwrap();
        let other = shares.share_for(&bob).unwrap();
        assert!(Arc::ptr_eq(&first.page, &second.page) && !Arc::ptr_eq(&first.page, &other.page));
        assert_eq!((first.parts().1, second.parts().1), (0, 1));
        rustix::io::pwrite(&second.page.file, &[7; SHARE], SHARE as u64).unwrap();
        drop(second);
        let third = shares.share_for(&alice).unwrap();
        let mut bytes = [1; SHARE];
        rustix::io::pread(&third.page.file, &mut bytes, SHARE as u64).unwrap();
        assert_eq!((third.parts().1, bytes), (1, [0; SHARE]));
        let more: Vec<_> = (2..SHARES).map(|_| shares.share_for(&alice).unwrap()).collect();
        assert_eq!(shares.share_for(&alice).unwrap_err().kind(), io::ErrorKind::QuotaExceeded);
        drop(more);
        drop((first, third));
        assert_eq!(shares.share_for(&alice).unwrap().parts().1, 0, "a new page");
        assert_eq!(shares.0.len(), 2);
    }
}
