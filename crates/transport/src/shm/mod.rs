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
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::ivshmem::{IVSHMEM, PartPlace};
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
pub(crate) const LEN: u64 = (DATA + 2 * RING) as u64;

/// Where the server says that it uses the memory.
const IN_USE: usize = 2 * CONTROL;

/// What both ends of the rings and that lie in, in bytes.
pub(crate) const CONTROLS: usize = DATA;

/// What it says, where nobody could take other memory for this.
const USED: u64 = 1;

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
    /// What the server writes when it uses the memory.
    mark: u64,
    place: Place,
    /// This side has ended the link.
    over: AtomicBool,
}

/// What the memory is, and where this process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Of two processes of one machine.
    Machine,
    /// Of a machine and a guest of its; this is the machine.
    Host,
    /// As above; this is the guest.
    Guest,
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
        Ok((Self::new(Memory::map(&file, 0..LEN)?, arena, [0, 1], (Place::Machine, USED)), file))
    }

    /// Maps, at the server, what the client has made, and says there that it is used. Where there is no arena, it does
    /// without, as it does where this process cannot map a client's. A peer's must be mapped: the peer uses it unasked.
    ///
    /// # Errors
    /// The operating system's error; [`io::ErrorKind::InvalidData`] for another file.
    pub(crate) fn open(file: &OwnedFd, room: Room) -> io::Result<Self> {
        let rings = Self::map(file, room, [1, 0])?;
        rings.say_used();
        Ok(rings)
    }

    /// As [`Self::open`], in a part of a file that is a virtual machine's device.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_part(file: &OwnedFd, place: PartPlace) -> io::Result<Self> {
        let [rings, arena] = ranges(place)?;
        let arena = if arena.is_empty() { None } else { Some(Arena::map(file, arena)?) };
        let rings = Self::new(Memory::map(file, rings)?, arena, [1, 0], (Place::Host, place.mark));
        rings.say_used();
        Ok(rings)
    }

    /// Maps, at a client in a virtual machine, the part of a device that it was given.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn in_device(file: &OwnedFd, place: PartPlace) -> io::Result<Self> {
        let [rings, arena] = ranges(place)?;
        let arena = if arena.is_empty() { None } else { Some(Arena::map_device(file, arena)?) };
        Ok(Self::new(Memory::map_device(file, rings)?, arena, [0, 1], (Place::Guest, place.mark)))
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
        Ok(Self::new(Memory::map(file, 0..LEN)?, arena, order, (Place::Machine, USED)))
    }

    fn say_used(&self) {
        self.memory.position(IN_USE).store(self.mark, Ordering::Release);
    }

    /// Whether the server uses it: known once it has answered.
    pub(crate) fn is_used(&self) -> bool {
        self.memory.position(IN_USE).load(Ordering::Acquire) == self.mark
    }

    /// Whether the server uses it without being asked: it has given it.
    pub(crate) fn is_given(&self) -> bool {
        self.place == Place::Guest
    }

    fn new(memory: Memory, arena: Option<Arena>, [to, from]: [usize; 2], (at, mark): (Place, u64)) -> Self {
        let memory = Arc::new(memory);
        let place = |ring: usize| (ring * CONTROL, DATA + ring * RING);
        let ((to_control, to_data), (from_control, from_data)) = (place(to), place(from));
        Self {
            to: Writer::new(Arc::clone(&memory), to_control, to_data, at != Place::Machine),
            from: Reader::new(Arc::clone(&memory), from_control, from_data),
            memory,
            arena: arena.map(Arc::new),
            mark,
            place: at,
            over: AtomicBool::new(false),
        }
    }

    /// Lets go of memory that another session may be given, once the server hears that this one is over. What the
    /// program still has mapped of it is its own from now on.
    fn let_go(&self) {
        if self.is_given() {
            self.memory.detach();
            if let Some(arena) = &self.arena {
                arena.detach();
            }
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

/// Where a part has rings and arena, both in whole pages.
fn ranges(PartPlace { at, len, .. }: PartPlace) -> io::Result<[Range<u64>; 2]> {
    let end = at.checked_add(len).filter(|end| *end <= i64::MAX as u64);
    let is_whole = at.is_multiple_of(DATA as u64) && len.is_multiple_of(DATA as u64) && len >= LEN;
    let end = end.filter(|_| is_whole).ok_or_else(memory::unexpected)?;
    Ok([at..at + LEN, at + LEN..end])
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Medium for Rings {
    fn name(&self) -> &'static str {
        match self.place {
            Place::Machine => SHARED_MEMORY,
            Place::Host | Place::Guest => IVSHMEM,
        }
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
        self.let_go();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    #[cfg(test)]
    fn rings(&self) -> Option<&Self> {
        Some(self)
    }
}
