//! What is remembered of the last bytes that were sent by a connection, for the case that it breaks.

use std::collections::VecDeque;

use ropeway_protocol::ids::TransferId;

/// Most bytes that are kept. If the other end is further behind than that, the connection cannot be made again.
pub const MOST: usize = 4 << 20;

/// Most pushes that are remembered. Each has more bytes than go by connection 0, so that there is no room for half as
/// many in the buffers between two processes.
const MOST_PUSHES: usize = 4096;

/// The last bytes that were sent by connection 0, until the other end confirms that it has handled them: they are sent
/// again when the connection is made again.
#[derive(Debug, Default)]
pub struct Kept {
    bytes: VecDeque<u8>,
    /// How many bytes were sent before those that are kept.
    start: u64,
}

impl Kept {
    /// How many bytes were sent in all.
    pub fn sent(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Adds what is sent next. The oldest bytes go where there are too many.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.drop_first(self.bytes.len().saturating_sub(MOST));
    }

    /// Drops what the other end says to have handled.
    pub fn confirm(&mut self, handled: u64) {
        let first = handled.saturating_sub(self.start).min(self.bytes.len() as u64);
        self.drop_first(first as usize);
    }

    /// The bytes behind the first `handled` ones that were sent; `None` if they are not kept any more, or if so many
    /// were not sent.
    pub fn behind(&mut self, handled: u64) -> Option<[&[u8]; 2]> {
        if !(self.start..=self.sent()).contains(&handled) {
            return None;
        }
        self.confirm(handled);
        let (first, second) = self.bytes.as_slices();
        Some([first, second])
    }

    fn drop_first(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.bytes.drain(..count);
        self.start += count as u64;
    }
}

/// The pushes whose bytes were sent last by a connection for bulk data: those fail whose bytes were lost.
#[derive(Debug, Default)]
pub struct Pushes {
    /// How many bytes had been sent with the last ones of a push.
    list: VecDeque<(u64, TransferId)>,
    /// How many bytes were sent before those of the list.
    start: u64,
    sent: u64,
}

impl Pushes {
    /// Adds a message of `len` bytes without bytes of a push.
    pub fn add_other(&mut self, len: u64) {
        self.sent += len;
    }

    /// Adds a message of `len` bytes with bytes of a push.
    pub fn add(&mut self, len: u64, transfer: TransferId) {
        self.sent += len;
        match self.list.back_mut() {
            Some((end, last)) if *last == transfer => *end = self.sent,
            _ => self.list.push_back((self.sent, transfer)),
        }
        if self.list.len() > MOST_PUSHES {
            self.start = self.list.pop_front().map_or(self.start, |(end, _)| end);
        }
    }

    /// Whether nothing was sent.
    pub fn is_empty(&self) -> bool {
        self.sent == 0
    }

    /// The pushes that had bytes behind the first `handled` ones; `None` if that is not remembered any more, or if so
    /// many were not sent.
    pub fn behind(&self, handled: u64) -> Option<Vec<TransferId>> {
        let lost = self.list.iter().filter(|(end, _)| *end > handled).map(|(_, transfer)| *transfer);
        (self.start..=self.sent).contains(&handled).then(|| lost.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_with_lost_bytes_are_known() {
        let mut pushes = Pushes::default();
        assert_eq!(pushes.behind(0), Some(vec![]));
        for transfer in [1, 1, 2] {
            pushes.add(10, TransferId(transfer));
        }
        assert_eq!(pushes.behind(19), Some(vec![TransferId(1), TransferId(2)]));
        assert_eq!(pushes.behind(20), Some(vec![TransferId(2)]));
        assert_eq!((pushes.behind(30), pushes.behind(31)), (Some(vec![]), None));
        pushes.add_other(5);
        assert_eq!((pushes.behind(30), pushes.behind(35), pushes.behind(36)), (Some(vec![]), Some(vec![]), None));
        for transfer in 0..MOST_PUSHES as u64 {
            pushes.add(1, TransferId(transfer));
        }
        assert_eq!(pushes.behind(29), None, "forgotten");
        assert_eq!(pushes.behind(35).map(|lost| lost.len()), Some(MOST_PUSHES));
    }

    fn behind(kept: &mut Kept, handled: u64) -> Option<Vec<u8>> {
        kept.behind(handled).map(|bytes| bytes.concat())
    }

    #[test]
    fn what_was_not_handled_is_there() {
        let mut kept = Kept::default();
        kept.add(&[1, 2, 3]);
        kept.add(&[4]);
        assert_eq!(behind(&mut kept, 0), Some(vec![1, 2, 3, 4]));
        kept.confirm(1);
        assert_eq!(behind(&mut kept, 0), None, "it was confirmed");
        assert_eq!(behind(&mut kept, 5), None, "it was not sent");
        assert_eq!(behind(&mut kept, 3), Some(vec![4]));
        assert_eq!(behind(&mut kept, 4), Some(vec![]));
        // More than was sent does no harm.
        kept.confirm(u64::MAX);
        kept.add(&[5]);
        assert_eq!((kept.sent(), behind(&mut kept, 4)), (5, Some(vec![5])));
    }

    #[test]
    fn it_has_a_bound() {
        let mut kept = Kept::default();
        for _ in 0..MOST {
            kept.add(&[1, 2]);
        }
        assert_eq!((kept.bytes.len(), kept.sent()), (MOST, 2 * MOST as u64));
        assert_eq!(behind(&mut kept, MOST as u64 - 1), None);
        assert_eq!(behind(&mut kept, MOST as u64).map(|bytes| bytes.len()), Some(MOST));
    }
}
