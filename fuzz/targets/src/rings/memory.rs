//! The memory as the other end sees it: a file, laid out as `docs/protocol.md` says.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;

use rustix::event::{Timespec, epoll};

/// Bytes of one ring.
pub const RING: u64 = 1 << 20;

/// Where the bytes of the ring to the server begin.
pub const DATA: u64 = 4096;

/// Bytes for bulk data come behind the rest, in multiples of this.
pub const ARENA: u64 = 64 << 20;

/// The size of all of it but for those.
pub const LEN: u64 = DATA + 2 * RING;

/// Where the server says that it uses the memory.
pub const IN_USE: u64 = 1024;

/// Where one ring's numbers and bytes are.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    control: u64,
    data: u64,
}

/// The ring to the server, and the one to the client.
pub const RINGS: [Ring; 2] = [Ring { control: 0, data: DATA }, Ring { control: 512, data: DATA + RING }];

impl Ring {
    /// Bytes written so far.
    pub fn tail(self) -> u64 {
        self.control
    }

    /// Bytes read so far.
    pub fn head(self) -> u64 {
        self.control + 128
    }

    /// Whether the reader wants to be woken.
    pub fn asleep(self) -> u64 {
        self.control + 256
    }

    /// Whether the writer wants to be woken.
    pub fn full(self) -> u64 {
        self.control + 384
    }
}

/// What wakes the other end.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// Watches it; it has not been rung yet.
    pub fn new(bell: impl AsFd) -> Self {
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
        let data = epoll::EventData::new_u64(0);
        epoll::add(&watch, bell, data, epoll::EventFlags::IN | epoll::EventFlags::ET).expect("an eventfd");
        let watched = Self(watch);
        // One that is new counts as rung.
        assert!(watched.has_rung());
        watched
    }

    /// Whether it has been rung since the last time.
    pub fn has_rung(&self) -> bool {
        let mut event = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.0, &mut event[..], Some(&at_once)).is_ok_and(|found| found > 0)
    }
}

/// The other end: its memory, its end of the socket, and by which rings this end reads and writes.
#[derive(Debug)]
pub struct Hostile {
    /// The memory.
    pub memory: File,
    /// What the link wakes it by.
    pub bell: Bell,
    /// The socket, until it has closed it.
    pub socket: Option<UnixStream>,
    /// The ring that the link reads.
    pub read: Ring,
    /// The ring that the link writes.
    pub written: Ring,
}

impl Hostile {
    /// The number of 64 bits at `at`.
    pub fn number(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, at).expect("the memory is there");
        u64::from_le_bytes(bytes)
    }

    /// The number of 32 bits at `at`.
    pub fn flag(&self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        self.memory.read_exact_at(&mut bytes, at).expect("the memory is there");
        u32::from_le_bytes(bytes)
    }

    /// Writes `bytes` at `at`, as far as the memory reaches.
    pub fn write(&self, bytes: &[u8], at: u64) {
        let len = (LEN - at.min(LEN)).min(bytes.len() as u64) as usize;
        self.memory.write_all_at(&bytes[..len], at).expect("the memory is there");
    }

    /// Writes byte `position` of a ring's stream, and those behind it.
    pub fn put(&self, ring: Ring, position: u64, bytes: &[u8]) {
        let at = position % RING;
        let (first, second) = bytes.split_at(bytes.len().min((RING - at) as usize));
        self.write(first, ring.data + at);
        self.write(second, ring.data);
    }

    /// The `len` bytes of a ring's stream from `position` on; no more than a ring.
    pub fn bytes(&self, ring: Ring, position: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let at = position % RING;
        let (first, second) = bytes.split_at_mut(len.min((RING - at) as usize));
        for (piece, at) in [(first, at), (second, 0)] {
            self.memory.read_exact_at(piece, ring.data + at).expect("the memory is there");
        }
        bytes
    }
}
