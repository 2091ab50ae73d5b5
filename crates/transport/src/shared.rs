//! What a link does where its bytes do not go through its socket, but through shared memory or another medium.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv,
    recvmsg, send, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::Sender as _;
use crate::ivshmem::{Device, GuestPart, NAME, PartPlace};
use crate::link::{GLANCE, Link};
use crate::medium::Medium;
use crate::shm::{Arena, Rings, Room, SHARED_MEMORY};
use crate::vsock::Kind;

/// How long a writer sleeps before it looks whether the other process is there: a process that ends wakes nobody.
const LOOK: Duration = Duration::from_millis(50);

/// The bytes that wake a reader are taken off the socket by so many at a time.
const WAKING: usize = 64;

/// Has `send` send a message with a file; returns how many bytes it sent.
///
/// # Errors
/// The operating system's error, but for a signal.
pub(crate) fn pass(
    file: &OwnedFd,
    send: impl Fn(&mut SendAncillaryBuffer<'_, '_, '_>) -> Result<usize, Errno>,
) -> io::Result<usize> {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    loop {
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        match send(&mut ancillary) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent?),
        }
    }
}

/// How far the handshake has come, where another process goes on with a link and with the memory beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Side {
    /// This side has offered the memory, and the server has answered.
    Offered,
    /// It came with the hello, which is still to be answered.
    Passed,
    /// The server has given this part of it, as the client sees it, too; the hello is still to be answered.
    Given(PartPlace),
}

/// Why a part that was given is of no use.
fn given(why: &str) -> io::Error {
    let why =
        format!("it gives a part of a shared memory device, which is of no use here ({why}); shm:off goes without");
    io::Error::new(ErrorKind::InvalidData, why)
}

/// How far a link has come with sharing memory.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// What this client has offered, and its file.
    offered: Option<(Box<Rings>, Option<OwnedFd>)>,
    /// What came with a client's hello, or what part of a file it was given.
    passed: Option<(OwnedFd, Option<PartPlace>)>,
    /// What devices this client has told of.
    pub(crate) devices: Vec<Device>,
    /// What its bytes go through.
    pub(crate) medium: Option<Box<dyn Medium>>,
    /// Bytes that were sent through the socket before.
    pub(crate) sent_before: u64,
}

impl Link {
    /// Sends a client's hello, with memory for all that comes after it, where the server may be on this machine. Without
    /// such memory the link works all the same, through the socket.
    ///
    /// # Errors
    /// The socket's error.
    pub fn offer_memory(&mut self, hello: &[u8], room: Room) -> io::Result<()> {
        let made = if self.passes_files() { Rings::create(room).ok() } else { None };
        let Some((rings, file)) = made else { return self.send_all(&mut [IoSlice::new(hello)]) };
        let sent =
            pass(&file, |ancillary| sendmsg(self.as_fd(), &[IoSlice::new(hello)], ancillary, SendFlags::NOSIGNAL))?;
        self.sent.fetch_add(sent as u64, Ordering::Relaxed);
        self.send_all(&mut [IoSlice::new(&hello[sent..])])?;
        self.offered(rings, file);
        Ok(())
    }

    /// The names of the shared memory devices that this machine has, for the hello of a client that may be in a guest of the
    /// server's machine.
    pub fn look_for_devices(&mut self) -> Vec<[u8; NAME]> {
        if self.passes_files() || self.is_encrypted() || self.may_be_nearby() {
            return Vec::new();
        }
        self.sharing.devices = Device::all();
        self.sharing.devices.iter().map(|device| device.name).collect()
    }

    /// Maps what the server has given of the device of this name.
    ///
    /// # Errors
    /// The operating system's error; [`ErrorKind::InvalidData`] for what is no part of a device that was told of.
    pub fn take_part(&mut self, name: &[u8; NAME], place: PartPlace) -> io::Result<()> {
        let devices = std::mem::take(&mut self.sharing.devices);
        let device =
            devices.iter().find(|device| device.name == *name).ok_or_else(|| given("it is of no such device"))?;
        let rings = device.rings(place).map_err(|error| given(&error.to_string()))?;
        self.sharing.offered = Some((Box::new(rings), None));
        Ok(())
    }

    /// Gives the client a part of a device's memory, at the server.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn give_part(&mut self, part: &GuestPart) -> io::Result<()> {
        self.sharing.passed = Some((part.as_fd().try_clone_to_owned()?, Some(part.place())));
        Ok(())
    }

    /// Goes on through the memory that was offered, if the server uses it: for a client that has read the answer to its
    /// hello.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] where the server has given memory that this side does not see.
    pub fn take_up_memory(mut self) -> io::Result<Self> {
        match self.sharing.offered.take() {
            Some((rings, _)) if rings.is_used() => self.use_medium(rings),
            Some((rings, _)) if rings.is_given() => return Err(given("the server writes to other memory")),
            _ => {}
        }
        Ok(self)
    }

    /// As [`Link::try_recv`], for a server that reads a hello: keeps the memory that comes with it.
    ///
    /// # Errors
    /// As [`Link::try_recv`].
    pub fn try_recv_hello(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.passes_files() {
            return self.try_recv(into);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        loop {
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let got = match recvmsg(&self.fd, &mut [IoSliceMut::new(into)], &mut ancillary, flags) {
                Err(Errno::INTR) => continue,
                got => got?.bytes,
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(files) = message {
                    // Of several, which no client of ours sends, one is kept.
                    let last = files.last().map(|file| (file, None));
                    self.sharing.passed = last.or(self.sharing.passed.take());
                }
            }
            self.received.fetch_add(got as u64, Ordering::Relaxed);
            return Ok(got);
        }
    }

    /// The memory that another process needs to go on with the handshake.
    pub fn memory(&self) -> Option<(BorrowedFd<'_>, Side)> {
        let Sharing { offered, passed, .. } = &self.sharing;
        let offered = offered.as_ref().and_then(|(_, file)| Some((file.as_ref()?.as_fd(), Side::Offered)));
        offered.or(passed.as_ref().map(|(file, part)| (file.as_fd(), part.map_or(Side::Passed, Side::Given))))
    }

    /// The same link in another process, which goes on with the handshake; memory that was offered is for peers.
    ///
    /// # Errors
    /// The operating system's error; [`ErrorKind::InvalidData`] where it is no such memory, unless it was passed: then
    /// [`Link::answer_hello`] finds that.
    pub fn with_memory(mut self, file: OwnedFd, side: Side) -> io::Result<Self> {
        match side {
            Side::Offered => self.offered(Rings::resume(&file, Room::ForPeers)?, file),
            Side::Passed => self.passed(file),
            Side::Given(place) => self.sharing.passed = Some((file, Some(place))),
        }
        Ok(self)
    }

    pub(crate) fn passed(&mut self, file: OwnedFd) {
        self.sharing.passed = Some((file, None));
    }

    pub(crate) fn offered(&mut self, rings: Rings, file: OwnedFd) {
        self.sharing.offered = Some((Box::new(rings), Some(file)));
    }

    /// Answers the hello, and goes on through the memory that came with it, if any did.
    ///
    /// # Errors
    /// The socket's error; [`ErrorKind::InvalidData`] where a file came that is no such memory.
    pub fn answer_hello(mut self, answer: &[u8], room: Room) -> io::Result<Self> {
        let rings = match self.sharing.passed.take() {
            Some((file, None)) => Some(Rings::open(&file, room)?),
            Some((file, Some(place))) => Some(Rings::open_part(&file, place)?),
            None => None,
        };
        self.send_all(&mut [IoSlice::new(answer)])?;
        if let Some(rings) = rings {
            self.use_medium(Box::new(rings));
        }
        Ok(self)
    }

    /// Whether its bytes go through memory that both processes see.
    pub fn shares_memory(&self) -> bool {
        self.sharing.medium.as_ref().is_some_and(|medium| medium.name() == SHARED_MEMORY)
    }

    /// Memory for bulk data that both processes see, where there is any.
    pub fn arena(&self) -> Option<&Arc<Arena>> {
        self.sharing.medium.as_ref()?.arena()
    }

    /// What its bytes go through, for a person.
    pub fn medium(&self) -> &'static str {
        match (&self.sharing.medium, self.is_encrypted(), self.kind) {
            (Some(medium), ..) => medium.name(),
            (None, true, _) => "TLS",
            (None, false, Kind::Tcp) => "TCP",
            (None, false, Kind::Unix) => "Unix socket",
            (None, false, Kind::Vsock) => "vsock",
        }
    }

    /// Whether files can be passed over its socket: it is a Unix socket in plain text.
    fn passes_files(&self) -> bool {
        self.kind == Kind::Unix && !self.is_encrypted()
    }

    pub(crate) fn use_medium(&mut self, medium: Box<dyn Medium>) {
        self.sharing.sent_before = self.sent.load(Ordering::Relaxed);
        self.sharing.medium = Some(medium);
    }

    /// As [`Link::recv_with`].
    pub(crate) fn recv_shared(&self, medium: &dyn Medium, into: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        let deadline = Instant::now() + GLANCE;
        let mut got = 0;
        loop {
            if medium.is_over() {
                return Ok(got);
            }
            let n = medium.read(&mut into[got..])?;
            self.received.fetch_add(n as u64, Ordering::Relaxed);
            got += n;
            if got == into.len() || got > 0 && !flags.contains(RecvFlags::WAITALL) {
                return Ok(got);
            }
            let waits = !flags.contains(RecvFlags::DONTWAIT);
            if got > 0 && self.spins && medium.comes_soon() {
                continue;
            }
            if waits && (medium.ask_to_be_woken() || Instant::now() >= deadline) {
                if medium.has_more() {
                    continue;
                }
                return if got > 0 { Ok(got) } else { Err(ErrorKind::WouldBlock.into()) };
            }
            match self.await_waking(medium, waits.then_some(deadline)) {
                // What the other side had written before it went is still read.
                Ok(0) if medium.has_more_at_the_end() => {}
                Ok(0) => return Ok(got),
                Ok(_) => {}
                Err(Errno::AGAIN) if got > 0 => return Ok(got),
                Err(Errno::AGAIN) if medium.has_more() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until this side is woken, or `until`; returns how often it was, or 0: the other side has closed.
    fn await_waking(&self, medium: &dyn Medium, until: Option<Instant>) -> Result<usize, Errno> {
        let (Some(descriptor), Some(until)) = (medium.descriptor(), until) else {
            return self.take_waking(until.is_some());
        };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left_for_poll = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&left_for_poll)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            match self.take_waking(false) {
                // It was woken by what is no byte, or for nothing.
                Err(Errno::AGAIN) if !left.is_zero() && !medium.ask_to_be_woken() => {}
                taken => return taken,
            }
        }
    }

    /// Takes what has woken this side off the socket; 0 means that the other side has closed.
    fn take_waking(&self, waits: bool) -> Result<usize, Errno> {
        let mut bytes = [0; WAKING];
        let flags = if waits { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        loop {
            match recv(&self.fd, &mut bytes, flags) {
                Err(Errno::INTR) => {}
                got => return got.map(|(n, _)| n),
            }
        }
    }

    /// After a poll that found the socket readable: whether there is nothing to read all the same.
    pub(crate) fn was_woken_for_nothing(&self) -> io::Result<bool> {
        match self.take_waking(false) {
            Ok(0) => Ok(false),
            Ok(_) | Err(Errno::AGAIN) => Ok(!self.has_more()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the memory some bytes; [`ErrorKind::WouldBlock`] if it takes none, for a [`GLANCE`] if this side `waits`.
    pub(crate) fn send_shared(&self, medium: &dyn Medium, parts: &[IoSlice<'_>], waits: bool) -> io::Result<usize> {
        let deadline = Instant::now() + GLANCE;
        loop {
            if medium.is_over() {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let sent = self.write_parts(medium, parts)?;
            if sent > 0 {
                medium.push()?;
            }
            if sent > 0 || parts.iter().all(|part| part.is_empty()) {
                self.sent.fetch_add(sent as u64, Ordering::Relaxed);
                return Ok(sent);
            }
            if !waits || Instant::now() >= deadline {
                return Err(ErrorKind::WouldBlock.into());
            }
            if !medium.wait_for_room(LOOK)? && self.has_ended() {
                return Err(ErrorKind::BrokenPipe.into());
            }
        }
    }

    /// Writes what there is room for.
    fn write_parts(&self, medium: &dyn Medium, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut sent = 0;
        for part in parts {
            let mut left = &**part;
            while !left.is_empty() {
                let (n, sleeps) = medium.write(left)?;
                if sleeps {
                    self.wake_reader()?;
                }
                if n == 0 {
                    return Ok(sent);
                }
                (sent, left) = (sent + n, &left[n..]);
            }
        }
        Ok(sent)
    }

    fn wake_reader(&self) -> io::Result<()> {
        loop {
            match send(&self.fd, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                // A full socket wakes it as well.
                Ok(_) | Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The memory, for tests that write into it as they like.
    #[cfg(test)]
    pub(crate) fn shared_rings(&self) -> &crate::shm::Memory {
        self.sharing.medium.as_ref().and_then(|medium| medium.rings()).expect("it shares memory").memory()
    }

    /// Bytes that wait to be read.
    #[cfg(test)]
    pub(crate) fn sharing_unread(&self) -> usize {
        self.sharing.medium.as_ref().and_then(|medium| medium.rings()).expect("it shares memory").unread()
    }
}
