//! What a link does where its bytes do not go through its socket, but through shared memory or another medium.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::Sender as _;
use crate::ivshmem::{Device, GuestPart, NAME, PartPlace};
use crate::link::{GLANCE, Link};
use crate::medium::Medium;
use crate::shm::{Arena, Files, Rings, Room, SHARED_MEMORY};
use crate::vsock::Kind;

/// How long a writer sleeps before it looks whether the other process is there: a process that ends wakes nobody.
const LOOK: Duration = Duration::from_millis(50);

/// Has `send` send a message with these files; returns how many bytes it sent.
///
/// # Errors
/// The operating system's error, but for a signal.
pub(crate) fn pass(
    files: &Files,
    send: impl Fn(&mut SendAncillaryBuffer<'_, '_, '_>) -> Result<usize, Errno>,
) -> io::Result<usize> {
    let files = files.as_fds();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Files::COUNT))];
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

impl Side {
    /// How many files the other process needs: [`Link::memory`].
    pub fn files(&self) -> usize {
        match self {
            Self::Offered | Self::Passed => Files::COUNT,
            Self::Given(_) => 1,
        }
    }
}

/// Why a part that was given is of no use.
fn given(why: &str) -> io::Error {
    let why =
        format!("it gives a part of a shared memory device, which is of no use here ({why}); shm:off goes without");
    io::Error::new(ErrorKind::InvalidData, why)
}

/// Memory that a server has for a link.
#[derive(Debug)]
enum Passed {
    /// It came with the client's hello.
    Files(Files),
    /// It is a part of this file.
    Part(OwnedFd, PartPlace),
}

/// How far a link has come with sharing memory.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// What this client has offered, and its files.
    offered: Option<(Box<Rings>, Option<Files>)>,
    /// What came with a client's hello, or what part of a file it was given.
    passed: Option<Passed>,
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
        let made = if self.passes_files() { Rings::create(room, self.fd.as_fd()).ok() } else { None };
        let Some((rings, files)) = made else { return self.send_all(&mut [IoSlice::new(hello)]) };
        let sent =
            pass(&files, |ancillary| sendmsg(self.as_fd(), &[IoSlice::new(hello)], ancillary, SendFlags::NOSIGNAL))?;
        self.sent.fetch_add(sent as u64, Ordering::Relaxed);
        self.send_all(&mut [IoSlice::new(&hello[sent..])])?;
        self.offered(rings, files);
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
        let rings = device.rings(place, self.fd.as_fd()).map_err(|error| given(&error.to_string()))?;
        self.sharing.offered = Some((Box::new(rings), None));
        Ok(())
    }

    /// Gives the client a part of a device's memory, at the server.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn give_part(&mut self, part: &GuestPart) -> io::Result<()> {
        self.sharing.passed = Some(Passed::Part(part.as_fd().try_clone_to_owned()?, part.place()));
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
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Files::COUNT))];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        loop {
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let got = match recvmsg(&self.fd, &mut [IoSliceMut::new(into)], &mut ancillary, flags) {
                Err(Errno::INTR) => continue,
                got => got?.bytes,
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(files) = message {
                    // Of several, which no client of ours sends, the last are kept.
                    let last = Files::from_passed(files).map(Passed::Files);
                    self.sharing.passed = last.or(self.sharing.passed.take());
                }
            }
            self.received.fetch_add(got as u64, Ordering::Relaxed);
            return Ok(got);
        }
    }

    /// The memory, and what wakes its users, that another process needs to go on with the handshake: [`Side::files`] of them.
    pub fn memory(&self) -> Option<(Vec<BorrowedFd<'_>>, Side)> {
        let Sharing { offered, passed, .. } = &self.sharing;
        let offered = offered.as_ref().and_then(|(_, files)| Some((files.as_ref()?.as_fds().to_vec(), Side::Offered)));
        offered.or(passed.as_ref().map(|passed| match passed {
            Passed::Files(files) => (files.as_fds().to_vec(), Side::Passed),
            Passed::Part(file, place) => (vec![file.as_fd()], Side::Given(*place)),
        }))
    }

    /// The same link in another process, which goes on with the handshake; memory that was offered is for peers.
    ///
    /// # Errors
    /// The operating system's error; [`ErrorKind::InvalidData`] where it is no such memory, unless it was passed: then
    /// [`Link::answer_hello`] finds that.
    pub fn with_memory(mut self, files: impl IntoIterator<Item = OwnedFd>, side: Side) -> io::Result<Self> {
        match side {
            Side::Offered => {
                let files = Files::from_passed(files).ok_or(ErrorKind::InvalidData)?;
                self.offered(Rings::resume(&files, Room::ForPeers, self.fd.as_fd())?, files);
            }
            Side::Passed => self.passed(Files::from_passed(files).ok_or(ErrorKind::InvalidData)?),
            Side::Given(place) => {
                let file = files.into_iter().next().ok_or(ErrorKind::InvalidData)?;
                self.sharing.passed = Some(Passed::Part(file, place));
            }
        }
        Ok(self)
    }

    pub(crate) fn passed(&mut self, files: Files) {
        self.sharing.passed = Some(Passed::Files(files));
    }

    pub(crate) fn offered(&mut self, rings: Rings, files: Files) {
        self.sharing.offered = Some((Box::new(rings), Some(files)));
    }

    /// Answers the hello, and goes on through the memory that came with it, if any did.
    ///
    /// # Errors
    /// The socket's error; [`ErrorKind::InvalidData`] where a file came that is no such memory.
    pub fn answer_hello(mut self, answer: &[u8], room: Room) -> io::Result<Self> {
        let socket = self.fd.as_fd();
        let rings = match self.sharing.passed.take() {
            Some(Passed::Files(files)) => Some(Rings::open(&files, room, socket)?),
            Some(Passed::Part(file, place)) => Some(Rings::open_part(&file, place, socket)?),
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

    /// Whether its bytes go through its own socket.
    pub fn is_socket_alone(&self) -> bool {
        self.sharing.medium.is_none()
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
        medium.prepare();
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
            let rest = &mut into[got..];
            let n = if flags.contains(RecvFlags::WAITALL) { medium.read_whole(rest)? } else { medium.read(rest)? };
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
            let patience = if waits { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            match medium.await_waking(patience) {
                // What the other side had written before it went is still read.
                Ok(0) if medium.has_more_at_the_end() => {}
                Ok(0) => return Ok(got),
                // It was woken for what has been read already: who only looks has looked, and would pay for another look.
                Ok(_) if !waits && got == 0 && !medium.has_more() => return Err(ErrorKind::WouldBlock.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if got > 0 => return Ok(got),
                Err(Errno::AGAIN) if medium.has_more() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// After a poll that found what is polled readable: whether there is nothing to read all the same.
    pub(crate) fn was_woken_for_nothing(&self) -> io::Result<bool> {
        let Some(medium) = self.sharing.medium.as_deref() else { return Ok(false) };
        match medium.await_waking(Duration::ZERO) {
            Ok(0) => Ok(false),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(!medium.has_more()),
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
            let sent = Self::write_parts(medium, parts)?;
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
    fn write_parts(medium: &dyn Medium, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut sent = 0;
        for part in parts {
            let mut left = &**part;
            while !left.is_empty() {
                let n = medium.write(left)?;
                if n == 0 {
                    return Ok(sent);
                }
                (sent, left) = (sent + n, &left[n..]);
            }
        }
        Ok(sent)
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
