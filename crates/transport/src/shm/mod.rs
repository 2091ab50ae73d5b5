//! Links whose bytes go through memory that both processes see.
//!
//! The client makes the memory and passes it with its hello over the link's Unix socket: what arrives there is memory of
//! the same machine, whatever stands between the two that looks like a Unix socket. The server says in the memory itself
//! that it uses it, before it answers. From then on the socket carries no more data. It says whether the other process
//! is there, and wakes a reader that sleeps: by a byte, which means nothing else. A reader that is awake costs the
//! writer no system call.

mod arena;
#[allow(unsafe_code)]
mod memory;
mod ring;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::medium::Medium;
pub use arena::Arena;
pub(crate) use memory::Memory;
pub use memory::{NotMapped, map_again};
use ring::{CONTROL, RING, Reader, Writer};

/// What it is called before a person.
pub(crate) const SHARED_MEMORY: &str = "shared memory";

/// About the time that it takes to fall asleep and be woken.
const SOON: Duration = Duration::from_micros(10);

/// Where the rings' bytes begin.
const DATA: usize = 4096;

/// Where the arena begins: behind the control of both rings, bytes to the server, bytes to the client.
const LEN: u64 = (DATA + 2 * RING) as u64;

/// Where the server says that it uses the memory.
const IN_USE: usize = 2 * CONTROL;

const _: () = assert!(IN_USE < DATA);

/// What memory for a link has room for, at the most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// What is sent, and [`Arena::OF_PEERS`] bytes through which bulk data goes.
    ForPeers,
    /// What is sent, and bulk data that lies there.
    WithArena,
}

/// One side's ends of both rings.
#[derive(Debug)]
pub(crate) struct Rings {
    memory: Arc<Memory>,
    to: Writer,
    from: Reader,
    arena: Option<Arc<Arena>>,
    /// This side has ended the link.
    over: AtomicBool,
}

impl Rings {
    /// Makes the memory, at the client; the file is for the server. Where this process may not have so much, it has no
    /// arena.
    ///
    /// # Errors
    /// The operating system's error.
    pub(crate) fn create(room: Room) -> io::Result<(Self, OwnedFd)> {
        match room {
            Room::ForPeers => Self::create_with(Arena::OF_PEERS),
            Room::WithArena => Self::create_with(Arena::size()),
        }
        .or_else(|_| Self::create_with(0))
    }

    fn create_with(arena: u64) -> io::Result<(Self, OwnedFd)> {
        let file = memory::make_file(LEN + arena)?;
        let arena = if arena > 0 { Some(Arena::map(&file, LEN..LEN + arena)?) } else { None };
        Ok((Self::new(Memory::map(&file, 0..LEN)?, arena, [0, 1]), file))
    }

    /// Maps, at the server, what the client has made, and says there that it is used. Where there is no arena, it does
    /// without, as it does where this process cannot map a client's. A peer's must be mapped: the peer uses it unasked.
    ///
    /// # Errors
    /// The operating system's error; [`io::ErrorKind::InvalidData`] for another file.
    pub(crate) fn open(file: &OwnedFd, room: Room) -> io::Result<Self> {
        let rings = Self::map(file, room, [1, 0])?;
        rings.memory.flag(IN_USE).store(1, Ordering::Release);
        Ok(rings)
    }

    /// Maps, in another process of the client's side, what the client has made.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn resume(file: &OwnedFd, room: Room) -> io::Result<Self> {
        Self::map(file, room, [0, 1])
    }

    fn map(file: &OwnedFd, room: Room, order: [usize; 2]) -> io::Result<Self> {
        let len = memory::len_of(file)?;
        let is_expected = match room {
            Room::ForPeers => len == LEN || len == LEN + Arena::OF_PEERS,
            Room::WithArena => len >= LEN && (len - LEN).is_multiple_of(arena::STEP),
        };
        if !is_expected {
            return Err(memory::unexpected());
        }
        let mapped = (len > LEN).then(|| Arena::map(file, LEN..len)).transpose();
        let arena = if room == Room::WithArena { mapped.unwrap_or(None) } else { mapped? };
        Ok(Self::new(Memory::map(file, 0..LEN)?, arena, order))
    }

    /// Whether the server uses it: known once it has answered.
    pub(crate) fn is_used(&self) -> bool {
        self.memory.flag(IN_USE).load(Ordering::Acquire) == 1
    }

    fn new(memory: Memory, arena: Option<Arena>, [to, from]: [usize; 2]) -> Self {
        let memory = Arc::new(memory);
        let place = |ring: usize| (ring * CONTROL, DATA + ring * RING);
        let ((to_control, to_data), (from_control, from_data)) = (place(to), place(from));
        Self {
            to: Writer::new(Arc::clone(&memory), to_control, to_data),
            from: Reader::new(Arc::clone(&memory), from_control, from_data),
            memory,
            arena: arena.map(Arc::new),
            over: AtomicBool::new(false),
        }
    }

    #[cfg(test)]
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    #[cfg(test)]
    pub(crate) fn unread(&self) -> usize {
        self.from.unread().expect("both sides are honest")
    }
}

impl Medium for Rings {
    fn name(&self) -> &'static str {
        SHARED_MEMORY
    }

    fn arena(&self) -> Option<&Arc<Arena>> {
        self.arena.as_ref()
    }

    fn write(&self, bytes: &[u8]) -> io::Result<(usize, bool)> {
        self.to.write(bytes)
    }

    fn wait_for_room(&self, patience: Duration) -> io::Result<bool> {
        self.to.wait_for_room(patience)
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.from.read(into)
    }

    fn has_more(&self) -> bool {
        self.from.has_more()
    }

    fn has_more_in_a_moment(&self) -> bool {
        (0..32).any(|_| {
            std::hint::spin_loop();
            self.has_more()
        })
    }

    fn comes_soon(&self) -> bool {
        let begun = Instant::now();
        loop {
            if self.has_more_in_a_moment() {
                return true;
            }
            if begun.elapsed() > SOON {
                return false;
            }
        }
    }

    fn ask_to_be_woken(&self) -> bool {
        self.from.ask_to_be_woken()
    }

    fn taken(&self) -> u64 {
        self.to.taken()
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.to.wake();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    #[cfg(test)]
    fn rings(&self) -> Option<&Self> {
        Some(self)
    }
}
