//! Memory for bulk data, behind the rings: the server has buffers in it, and the client copies their contents in and out.
//!
//! It is as large as the machine's memory, and so never what limits a session; only what is used of it takes memory.
//! Which part is whose, the server decides. That of two peers is smaller: bytes only go through it, each side's through a
//! half of its own. Both ends check where the other one says that something is.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::memory::Memory;
use crate::crew::{Crew, Pieces};

/// Its size, and how much of it is usable, are multiples of this.
pub(super) const STEP: u64 = 64 << 20;

/// No machine has more memory.
const MOST: u64 = 1 << 42;

/// From this length on, in bytes, several threads copy: waking one costs some 10 us, as long as copying 128 KiB takes.
const SHARED: usize = 1 << 20;

/// Bytes that one thread copies at once.
const PIECE: usize = 256 << 10;

/// Memory for bulk data that both ends of a link see.
#[derive(Debug)]
pub struct Arena {
    memory: Memory,
    /// How much of it is usable here, from the beginning on.
    usable: AtomicUsize,
    /// Who helps to copy, where there are enough cores.
    crew: OnceLock<Option<Arc<Crew>>>,
}

impl Arena {
    /// How large that of two peers is, in bytes.
    pub const OF_PEERS: u64 = STEP;

    /// How large it should be on this machine, in bytes.
    pub(super) fn size() -> u64 {
        let about = rustix::system::sysinfo();
        let memory = (about.totalram as u64).saturating_mul(u64::from(about.mem_unit));
        memory.min(MOST).next_multiple_of(STEP)
    }

    pub(super) fn map(file: &OwnedFd, bytes: Range<u64>) -> io::Result<Self> {
        Ok(Self { memory: Memory::reserve(file, bytes)?, usable: AtomicUsize::new(0), crew: OnceLock::new() })
    }

    /// As [`Self::map`], in the memory of a device, whose pages are mapped all at once.
    pub(super) fn map_device(file: &OwnedFd, bytes: Range<u64>) -> io::Result<Self> {
        let memory = Memory::map_device(file, bytes)?;
        let usable = AtomicUsize::new(memory.len());
        Ok(Self { memory, usable, crew: OnceLock::new() })
    }

    /// As [`Memory::detach`].
    pub(super) fn detach(&self) {
        self.memory.detach();
    }

    /// Whether pages of it can be mapped a second time, with [`map_again`](crate::map_again): those of a device cannot, and
    /// would not be [let go](Self::detach) with it.
    pub fn can_be_mapped_again(&self) -> bool {
        !self.memory.is_device()
    }

    /// Makes the beginning of it usable now, for a process that will want some of it before long.
    pub fn prepare(&self) {
        // Where the system refuses, whoever wants some is told so then.
        let _ = self.has(0, 1);
    }

    /// How many bytes it has.
    pub fn size_in_bytes(&self) -> usize {
        self.memory.len()
    }

    /// Whether `len` bytes at `at` are all in it, and can be used.
    pub fn has(&self, at: u64, len: usize) -> bool {
        self.place(at, len).is_some()
    }

    /// Copies `bytes` to `at`. Returns whether they belong there: nothing is copied where they are not all in the arena.
    #[must_use]
    pub fn copy_in(&self, at: u64, bytes: &[u8]) -> bool {
        let Some(at) = self.place(at, bytes.len()) else { return false };
        let copy = |(place, piece): (usize, &[u8])| self.memory.copy_in(place, piece);
        match self.crew(bytes.len()) {
            Some(crew) => crew.share(&Pieces::new((at..).step_by(PIECE).zip(bytes.chunks(PIECE))), copy, || ()),
            None => copy((at, bytes)),
        }
        true
    }

    /// Copies what is at `at` to `into`; as [`Self::copy_in`].
    #[must_use]
    pub fn copy_out(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(at) = self.place(at, into.len()) else { return false };
        let copy = |(place, piece): (usize, &mut [u8])| self.memory.copy_out(place, piece);
        match self.crew(into.len()) {
            Some(crew) => crew.share(&Pieces::new((at..).step_by(PIECE).zip(into.chunks_mut(PIECE))), copy, || ()),
            None => copy((at, into)),
        }
        true
    }

    /// Who helps to copy so many bytes.
    fn crew(&self, len: usize) -> Option<&Arc<Crew>> {
        if len < SHARED { None } else { self.crew.get_or_init(Crew::of_process).as_ref() }
    }

    /// The address in this process of `len` bytes at `at`, which can be used as long as the arena lives. `None` where
    /// they are not all in the arena, or the system does not let them be used.
    ///
    /// The other process may write there at any time.
    pub fn address(&self, at: u64, len: usize) -> Option<NonNull<u8>> {
        // In the arena, so the address does not wrap around.
        self.place(at, len).and_then(|at| NonNull::new(self.memory.base().as_ptr().wrapping_add(at)))
    }

    /// Where `len` bytes at this address are in the arena. `None` where they are not all in it.
    pub fn place_of(&self, address: usize, len: usize) -> Option<u64> {
        let at = address.checked_sub(self.memory.base().addr().get())?;
        let is_within = at.checked_add(len).is_some_and(|end| end <= self.memory.len());
        is_within.then_some(at as u64)
    }

    /// The number of 4 bytes at `at`, which both processes may change at any time. `None` where it is not in the arena, or `at` is no
    /// multiple of 4.
    pub fn number(&self, at: u64) -> Option<&AtomicU32> {
        let at = self.place(at, size_of::<AtomicU32>()).filter(|at| at.is_multiple_of(align_of::<AtomicU32>()))?;
        Some(self.memory.flag(at))
    }

    /// Gives pages of it back to the system. Their contents are lost.
    ///
    /// # Errors
    /// The operating system's error; [`io::ErrorKind::InvalidInput`] where they are not all in the arena.
    pub fn give_back(&self, pages: Range<usize>) -> io::Result<()> {
        let len = pages.end.saturating_sub(pages.start);
        let at = self.place(pages.start as u64, len).ok_or(io::ErrorKind::InvalidInput)?;
        self.memory.give_back(at, len)
    }

    /// Where bytes begin that are all in the arena, and usable from now on.
    fn place(&self, at: u64, len: usize) -> Option<usize> {
        let at = usize::try_from(at).ok()?;
        let end = at.checked_add(len).filter(|end| *end <= self.memory.len())?;
        if end > self.usable.load(Ordering::Acquire) {
            let usable = end.next_multiple_of(STEP as usize).min(self.memory.len());
            self.memory.open_up(usable).ok()?;
            self.usable.fetch_max(usable, Ordering::AcqRel);
        }
        Some(at)
    }
}
