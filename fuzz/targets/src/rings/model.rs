//! What a link has to do, whatever is in the memory.

use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use ropeway_generate::Entropy;
use ropeway_transport::Link;

use super::MOST;
use super::memory::{Hostile, LEN, RING};

/// A link, and what is known of it.
pub struct Model {
    link: Link,
    hostile: Hostile,
    /// Bytes that it has read from its ring, and written to the other: its own positions.
    head: u64,
    tail: u64,
    /// What it had sent and received before.
    before: (u64, u64),
}

impl Model {
    /// A link that has begun to use the memory.
    pub fn new(link: Link, hostile: Hostile) -> Self {
        let before = link.traffic();
        Self { link, hostile, head: 0, tail: 0, before }
    }

    /// One of the two ends does something.
    ///
    /// # Panics
    /// When the link does not do what it has to.
    pub fn step(&mut self, entropy: &mut Entropy<'_>) {
        match entropy.byte() % 16 {
            0..3 => self.put(entropy),
            3 => self.take(entropy),
            4..6 => self.lie(entropy),
            6 => self.scribble(entropy),
            7 => self.say(entropy),
            8..11 => self.receive(entropy),
            11..13 => self.send(entropy),
            13 => self.look(),
            14 => self.ask(),
            _ if entropy.byte() < 128 => self.wait(),
            _ => self.bulk(entropy),
        }
        let (sent, received) = self.link.traffic();
        assert_eq!((sent - self.before.0, received - self.before.1), (self.tail, self.head), "its count of bytes");
        let taken = self.hostile.number(self.hostile.written.head()).min(self.tail);
        assert_eq!(self.link.taken().expect("it is known"), self.before.0 + taken, "what is taken");
    }

    /// Bytes that there are to read, if it can be.
    fn unread(&self) -> Option<u64> {
        let tail = self.hostile.number(self.hostile.read.tail());
        Some(tail.wrapping_sub(self.head)).filter(|unread| *unread <= RING)
    }

    /// Bytes that there is room for, if it can be.
    fn room(&self) -> Option<u64> {
        let head = self.hostile.number(self.hostile.written.head());
        RING.checked_sub(self.tail.wrapping_sub(head))
    }

    /// The other end writes as it should, if it has not lied before.
    fn put(&mut self, entropy: &mut Entropy<'_>) {
        let Some(unread) = self.unread() else { return };
        let bytes = vec![entropy.byte(); len(entropy).min((RING - unread) as usize)];
        let position = self.head.wrapping_add(unread);
        self.hostile.put(self.hostile.read, position, &bytes);
        let tail = position.wrapping_add(bytes.len() as u64);
        self.hostile.write(&tail.to_le_bytes(), self.hostile.read.tail());
    }

    /// The other end has read some of what was sent.
    fn take(&mut self, entropy: &mut Entropy<'_>) {
        let Some(room) = self.room() else { return };
        let unread = RING - room;
        let head = self.tail.wrapping_sub(unread).wrapping_add(unread.min(len(entropy) as u64));
        self.hostile.write(&head.to_le_bytes(), self.hostile.written.head());
    }

    /// The other end writes a number of its choice over one of the numbers.
    fn lie(&mut self, entropy: &mut Entropy<'_>) {
        let Hostile { read, written, .. } = self.hostile;
        let places = [read, written].map(|ring| [ring.tail(), ring.head(), ring.asleep(), ring.full()]);
        let at = places.as_flattened()[usize::from(entropy.byte() % 8)];
        let near = [0, RING, 2 * RING, self.head, self.tail, self.head + RING, self.tail.wrapping_sub(RING), u64::MAX];
        let pick = entropy.byte();
        let value = match pick {
            0..224 => near[usize::from(pick % 8)].wrapping_add(u64::from(pick / 8 % 4)).wrapping_sub(1),
            _ => entropy.slice(8).iter().fold(0, |value, byte| value << 8 | u64::from(*byte)),
        };
        self.hostile.write(&value.to_le_bytes(), at);
    }

    /// The other end writes anything anywhere.
    fn scribble(&mut self, entropy: &mut Entropy<'_>) {
        let at = entropy.slice(3).iter().fold(0, |at, byte| at << 8 | u64::from(*byte)) % LEN;
        let len = usize::from(entropy.byte());
        let bytes = entropy.slice(len);
        self.hostile.write(bytes, at);
    }

    /// The other end says something over the socket, or closes it.
    fn say(&mut self, entropy: &mut Entropy<'_>) {
        let pick = entropy.byte();
        let Some(socket) = &mut self.hostile.socket else { return };
        if pick >= 240 {
            self.hostile.socket = None;
        } else {
            // It takes no more than there is room for.
            let _ = socket.write(&vec![pick; usize::from(pick)]);
        }
    }

    fn is_open(&self) -> bool {
        self.hostile.socket.is_some()
    }

    fn receive(&mut self, entropy: &mut Entropy<'_>) {
        let cheaply = entropy.byte() < 64;
        let mut into = vec![0; len(entropy)];
        let (unread, full) = (self.unread(), self.hostile.flag(self.hostile.read.full()));
        let expected = unread.map(|unread| {
            let len = (unread as usize).min(into.len());
            self.hostile.bytes(self.hostile.read, self.head, len)
        });
        let got = if cheaply { self.link.try_recv_cheaply(&mut into) } else { self.link.try_recv(&mut into) };
        match (expected, got) {
            // A read of nothing looks at nothing.
            (_, Ok(0)) if into.is_empty() => {}
            (Some(expected), Ok(got)) if !expected.is_empty() => {
                assert!(expected == into[..got], "other bytes than are in the memory, or fewer");
                self.head = self.head.wrapping_add(got as u64);
                let full = if unread.is_some_and(|unread| unread - got as u64 <= RING / 2) { 0 } else { full };
                assert_eq!(self.hostile.flag(self.hostile.read.full()), full, "a writer that waits is woken in time");
                assert_eq!(self.hostile.number(self.hostile.read.head()), self.head);
            }
            (Some(_), Ok(0)) => assert!(!self.is_open(), "the end of a link that has none"),
            (Some(expected), Err(error)) => assert!(expected.is_empty() && self.may_fail(&error), "{error}"),
            (None, Err(error)) => {
                let may_fail =
                    error.kind() == ErrorKind::InvalidData || cheaply && error.kind() == ErrorKind::WouldBlock;
                assert!(may_fail, "{error}");
            }
            (expected, got) => panic!("{got:?} where there are {:?}", expected.map(|bytes| bytes.len())),
        }
    }

    /// Whether this is what a link without anything to read, or with a reader to wake, may say.
    fn may_fail(&self, error: &io::Error) -> bool {
        let ended = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&error.kind());
        error.kind() == ErrorKind::WouldBlock || ended && !self.is_open()
    }

    fn send(&mut self, entropy: &mut Entropy<'_>) {
        let bytes = vec![entropy.byte(); len(entropy)];
        let (room, asleep) = (self.room(), self.hostile.flag(self.hostile.written.asleep()));
        match (room, self.link.try_send(&bytes)) {
            (_, Ok(0)) if bytes.is_empty() => {}
            (Some(room), Ok(sent)) => {
                assert_eq!(sent as u64, room.min(bytes.len() as u64), "what there is room for");
                assert!(self.hostile.bytes(self.hostile.written, self.tail, sent) == bytes[..sent]);
                self.tail = self.tail.wrapping_add(sent as u64);
                assert_eq!(self.hostile.number(self.hostile.written.tail()), self.tail);
                let wakes = asleep != 0 && sent > 0;
                assert_eq!(self.hostile.bell.has_rung(), wakes, "a reader that sleeps is woken, and no other");
                let asleep = if wakes { 0 } else { asleep };
                assert_eq!(self.hostile.flag(self.hostile.written.asleep()), asleep);
            }
            (Some(_), Err(error)) => panic!("{error}"),
            (None, sent) => assert_eq!(sent.map_err(|error| error.kind()), Err(ErrorKind::InvalidData)),
        }
    }

    /// Copies to and from where the other end says that bulk data is.
    fn bulk(&self, entropy: &mut Entropy<'_>) {
        let size = self.hostile.memory.metadata().expect("the memory is there").len() - LEN;
        let Some(arena) = self.link.arena() else { return assert_eq!(size, 0, "it maps what there is") };
        assert_eq!(arena.size_in_bytes() as u64, size);
        let pick = entropy.byte();
        let at = match pick % 8 {
            0 => u64::MAX - u64::from(pick),
            1 => size - u64::from(pick),
            2 => size + u64::from(pick) - 2,
            _ => entropy.slice(5).iter().fold(0, |at, byte| at << 8 | u64::from(*byte)) % size,
        };
        let bytes = vec![pick; len(entropy).min(1 << 16)];
        let fits = at.checked_add(bytes.len() as u64).is_some_and(|end| end <= size);
        assert_eq!(arena.has(at, bytes.len()), fits, "{} bytes at {at} of {size}", bytes.len());
        let mut there = vec![0; bytes.len()];
        if fits {
            self.hostile.memory.read_exact_at(&mut there, LEN + at).expect("the memory is there");
        }
        let mut copied = vec![0; bytes.len()];
        assert_eq!(arena.copy_out(at, &mut copied), fits);
        assert!(copied == there, "other bytes than are in the memory");
        assert_eq!(arena.copy_in(at, &bytes), fits);
        if fits {
            self.hostile.memory.read_exact_at(&mut there, LEN + at).expect("the memory is there");
            assert!(there == bytes);
        }
    }

    fn look(&self) {
        assert_eq!(self.link.has_more(), self.unread() != Some(0), "whether there is more");
    }

    fn ask(&mut self) {
        assert_eq!(self.link.is_readable_or_will_tell(), self.unread() != Some(0));
        assert_eq!(self.hostile.flag(self.hostile.read.asleep()), 1, "it has said that it wants to be woken");
    }

    fn wait(&mut self) {
        match self.link.wait_readable(Some(Duration::ZERO)) {
            Ok(is_readable) => {
                assert_eq!(is_readable, self.unread() != Some(0) || !self.is_open(), "what it waits for");
            }
            Err(error) => assert!(self.may_fail(&error), "{error}"),
        }
    }
}

/// A length: most often a short one, at times all that there can be.
fn len(entropy: &mut Entropy<'_>) -> usize {
    let (size, exactly) = (entropy.byte(), usize::from(entropy.byte()));
    ((exactly << (size % 13)) + usize::from(size / 13)).min(MOST)
}
