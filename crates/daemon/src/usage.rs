//! How long a session's commands have kept each device busy: the worker writes, the daemon reads, also while the session
//! runs and after its worker was killed.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ropeway_worker::handoff::METERED_DEVICES;

use crate::page;

/// The bytes of a number.
const NUMBER: usize = size_of::<u64>();

/// A session's page.
#[derive(Debug)]
pub(crate) struct Usage(OwnedFd);

impl Usage {
    /// A page of a session that has used nothing.
    ///
    /// # Errors
    /// The operating system's error.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(page::sealed("ropeway-usage", METERED_DEVICES * NUMBER)?))
    }

    /// The page, for the worker.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The seconds that each device was busy, by its number, without those that were not used. A worker that somebody
    /// has taken over may write what it likes: no device can have been busy for longer than the session has `lasted`.
    pub(crate) fn device_seconds(&self, lasted: Duration) -> BTreeMap<u32, f64> {
        let mut bytes = [0; METERED_DEVICES * NUMBER];
        // Reading memory does not fail; if it did, nothing would be known.
        let read = rustix::io::pread(&self.0, &mut bytes, 0).unwrap_or(0);
        let (numbers, _) = bytes[..read].as_chunks();
        let times = numbers.iter().map(|number| Duration::from_nanos(u64::from_ne_bytes(*number)).min(lasted));
        let used = (0..).zip(times).filter(|(_, time)| !time.is_zero());
        used.map(|(device, time)| (device, (time.as_secs_f64() * 1e6).round() / 1e6)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_those_of_the_devices_that_were_used_and_never_more_than_the_session_had() {
        let usage = Usage::new().unwrap();
        let lasted = Duration::from_secs(2);
        assert!(usage.device_seconds(lasted).is_empty());
        for (device, nanoseconds) in [(1, 1_500_000_700_u64), (METERED_DEVICES - 1, u64::MAX)] {
            let at = (device * NUMBER) as u64;
            rustix::io::pwrite(usage.file(), &nanoseconds.to_ne_bytes(), at).unwrap();
        }
        let expected = BTreeMap::from([(1, 1.500_001), (METERED_DEVICES as u32 - 1, 2.0)]);
        assert_eq!(usage.device_seconds(lasted), expected);
    }
}
