//! Links whose bytes go through memory that both processes see.
//!
//! The client makes the memory and passes it with its hello over the link's Unix socket: what arrives there is memory of
//! the same machine, whatever stands between the two that looks like a Unix socket. The server says in the memory itself
//! that it uses it, before it answers. From then on the socket carries nothing more, and says only whether the other process
//! is there. With the memory come [bells], which wake a reader that sleeps ([waking]). A reader that is awake costs the writer no
//! system call.

mod arena;
mod bells;
#[allow(unsafe_code)]
mod memory;
mod ring;
#[cfg(test)]
mod tests;
mod waking;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use crate::ivshmem::{IVSHMEM, PartPlace};
use crate::medium::Medium;
pub use arena::Arena;
pub(crate) use memory::Memory;
pub use memory::{NotMapped, map_again};
use ring::{CONTROL, RING, Reader, Writer};
use waking::Waking;

/// What it is called before a person.
pub(crate) const SHARED_MEMORY: &str = "shared memory";

/// Where the rings' bytes begin.
const DATA: usize = 4096;

/// Where the arena begins: behind the control of both rings, bytes to the server, bytes to the client.
pub(crate) const LEN: u64 = (DATA + 2 * RING) as u64;

/// Where the server says that it uses the memory.
const IN_USE: usize = 2 * CONTROL;

/// What both ends of the rings and that lie in, in bytes.
pub(crate) const CONTROLS: usize = DATA;

/// Bytes of each ring whose pages are there before they are used: what a short session sends, or what is on the way at the
/// beginning of a long one. Later ones come as they are touched, so that many idle links take little memory.
const AHEAD: usize = 16 << 10;

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

/// What one process passes to another for a link.
#[derive(Debug)]
pub struct Files {
    /// The memory.
    pub memory: OwnedFd,
    /// What wakes the server's reader, and the client's.
    pub bells: [OwnedFd; 2],
}

impl Files {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// These, with this memory.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn around(memory: OwnedFd) -> io::Result<Self> {
        Ok(Self { memory, bells: [bells::make()?, bells::make()?] })
    }

    /// The files that [`Self::as_fds`] has named; `None` for fewer or more.
    pub fn from_passed(files: impl IntoIterator<Item = OwnedFd>) -> Option<Self> {
        let mut files = files.into_iter();
        let passed = Self { memory: files.next()?, bells: [files.next()?, files.next()?] };
        files.next().is_none().then_some(passed)
    }

    /// In the order in which they are passed.
    pub fn as_fds(&self) -> [BorrowedFd<'_>; Self::COUNT] {
        [self.memory.as_fd(), self.bells[0].as_fd(), self.bells[1].as_fd()]
    }
}

/// One side's ends of both rings.
#[derive(Debug)]
pub(crate) struct Rings {
    waking: Waking,
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
    /// Makes the memory, at the client, for a link with this socket; the files are for the server. Where this process may
    /// not have so much, it has no arena.
    ///
    /// # Errors
    /// The operating system's error.
    pub(crate) fn create(room: Room, socket: BorrowedFd<'_>) -> io::Result<(Self, Files)> {
        match room {
            Room::ForPeers => Self::create_with(Arena::OF_PEERS, socket),
            Room::WithArena => Self::create_with(Arena::size(), socket),
        }
        .or_else(|_| Self::create_with(0, socket))
    }

    fn create_with(arena: u64, socket: BorrowedFd<'_>) -> io::Result<(Self, Files)> {
        let files = Files::around(memory::make_file(LEN + arena)?)?;
        let arena = if arena > 0 { Some(Arena::map(&files.memory, LEN..LEN + arena)?) } else { None };
        Ok((Self::of_machine(&files, arena, [0, 1], socket)?, files))
    }

    /// Maps, at the server, what the client has made, and says there that it is used. Where there is no arena, it does
    /// without, as it does where this process cannot map a client's. A peer's must be mapped: the peer uses it unasked.
    ///
    /// # Errors
    /// The operating system's error; [`io::ErrorKind::InvalidData`] for another file.
    pub(crate) fn open(files: &Files, room: Room, socket: BorrowedFd<'_>) -> io::Result<Self> {
        let rings = Self::map(files, room, [1, 0], socket)?;
        rings.say_used();
        Ok(rings)
    }

    /// As [`Self::open`], in a part of a file that is a virtual machine's device.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_part(file: &OwnedFd, place: PartPlace, socket: BorrowedFd<'_>) -> io::Result<Self> {
        let [rings, arena] = ranges(place)?;
        let arena = if arena.is_empty() { None } else { Some(Arena::map(file, arena)?) };
        let (memory, waking) = (Memory::map(file, rings)?, Waking::by_socket(socket)?);
        let rings = Self::new(memory, arena, [1, 0], (Place::Host, place.mark), waking);
        rings.say_used();
        Ok(rings)
    }

    /// Maps, at a client in a virtual machine, the part of a device that it was given.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn in_device(file: &OwnedFd, place: PartPlace, socket: BorrowedFd<'_>) -> io::Result<Self> {
        let [rings, arena] = ranges(place)?;
        let arena = if arena.is_empty() { None } else { Some(Arena::map_device(file, arena)?) };
        let (memory, waking) = (Memory::map_device(file, rings)?, Waking::by_socket(socket)?);
        Ok(Self::new(memory, arena, [0, 1], (Place::Guest, place.mark), waking))
    }

    /// Maps, in another process of the client's side, what the client has made.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn resume(files: &Files, room: Room, socket: BorrowedFd<'_>) -> io::Result<Self> {
        Self::map(files, room, [0, 1], socket)
    }

    fn map(files: &Files, room: Room, order: [usize; 2], socket: BorrowedFd<'_>) -> io::Result<Self> {
        let Files { memory: file, bells } = files;
        let len = memory::len_of(file)?;
        let is_expected = match room {
            Room::ForPeers => len == LEN || len == LEN + Arena::OF_PEERS,
            Room::WithArena => len >= LEN && (len - LEN).is_multiple_of(arena::STEP),
        };
        if !is_expected || !bells.iter().all(bells::is_one) {
            return Err(memory::unexpected());
        }
        let mapped = (len > LEN).then(|| Arena::map(file, LEN..len)).transpose();
        let arena = if room == Room::WithArena { mapped.unwrap_or(None) } else { mapped? };
        Self::of_machine(files, arena, order, socket)
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

    fn of_machine(files: &Files, arena: Option<Arena>, order: [usize; 2], socket: BorrowedFd<'_>) -> io::Result<Self> {
        let waking = Waking::by_bells(files, order[1], socket)?;
        Ok(Self::new(Memory::map(&files.memory, 0..LEN)?, arena, order, (Place::Machine, USED), waking))
    }

    fn new(
        memory: Memory,
        arena: Option<Arena>,
        [to, from]: [usize; 2],
        (at, mark): (Place, u64),
        waking: Waking,
    ) -> Self {
        let memory = Arc::new(memory);
        let place = |ring: usize| (ring * CONTROL, DATA + ring * RING);
        let ((to_control, to_data), (from_control, from_data)) = (place(to), place(from));
        Self {
            waking,
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

    fn prepare(&self) {
        if self.place == Place::Machine {
            self.memory.bring_in(0..DATA + AHEAD);
            self.memory.bring_in(DATA + RING..DATA + RING + AHEAD);
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let (written, sleeps) = self.to.write(bytes)?;
        if sleeps {
            self.waking.wake();
        }
        Ok(written)
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

    fn ask_to_be_woken(&self) -> bool {
        self.from.ask_to_be_woken()
    }

    fn await_waking(&self, patience: Duration) -> Result<usize, Errno> {
        self.waking.wait(patience)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.waking.as_fd()
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
