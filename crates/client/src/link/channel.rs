//! Frames out and in: here, and nowhere else, messages become bytes of the link, and bytes of the link become frames.
//!
//! Anything that is to stand between frames and the network (encryption, shared memory in place of a socket, a session
//! that goes on over another socket) belongs here: the layers above see no more of a link than this.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use ropeway_protocol::{Call, Post, encode_call, encode_post};
use ropeway_transport::Arena;

use super::inbox::{Deliver, Inbox, ReadError, Role};
use super::liveness::Traffic;
use super::outbox::{GoesOn, Outbox, Pushed};
use super::stream::Link;

/// One server's link, with what waits to be sent over it and what has arrived of a frame.
#[derive(Debug)]
pub(super) struct Channel {
    link: Link,
    outbox: Outbox,
    inbox: Inbox,
}

impl Channel {
    /// Over a link whose handshake is done.
    pub(super) fn new(link: impl Into<Link>) -> Self {
        Self { link: link.into(), outbox: Outbox::new(), inbox: Inbox::new() }
    }

    /// Appends a message without an answer to the pending batch. If a long tail makes it necessary to send, `waits` says
    /// whether to wait for another thread that is sending.
    ///
    /// # Errors
    /// The socket's or `goes_on`'s, where a long tail made it necessary to send.
    pub(super) fn post<P: Post>(
        &self,
        post: &P,
        tail: &[u8],
        waits: &dyn Fn() -> bool,
        goes_on: GoesOn<'_>,
    ) -> io::Result<Pushed> {
        self.outbox.push(&self.link, tail, |out| encode_post(out, post, tail.len()), waits, goes_on)
    }

    /// As [`Self::post`], for a message whose answer will bear `number`.
    ///
    /// # Errors
    /// As [`Self::post`].
    pub(super) fn call<C: Call>(&self, number: u32, call: &C, tail: &[u8], goes_on: GoesOn<'_>) -> io::Result<Pushed> {
        self.outbox.push(&self.link, tail, |out| encode_call(out, number, call, tail.len()), &|| true, goes_on)
    }

    /// Sends what is pending, or leaves it to the thread that is sending.
    ///
    /// # Errors
    /// The socket's or `goes_on`'s.
    pub(super) fn flush(&self, goes_on: GoesOn<'_>) -> io::Result<()> {
        self.outbox.flush(&self.link, goes_on)
    }

    /// Sends what is pending, once the thread that is sending has done so.
    ///
    /// # Errors
    /// The socket's or `goes_on`'s.
    pub(super) fn flush_behind(&self, goes_on: GoesOn<'_>) -> io::Result<()> {
        self.outbox.flush_behind(&self.link, goes_on)
    }

    /// Sends what is pending, as far as the socket takes it at once. Returns whether it took all.
    ///
    /// # Errors
    /// The socket's.
    pub(super) fn try_flush(&self) -> io::Result<bool> {
        self.outbox.try_flush(&self.link)
    }

    /// Whether anything waits to be sent that this thread has posted or knows of.
    pub(super) fn has_pending(&self) -> bool {
        self.outbox.has_pending()
    }

    /// Whether nothing waits to be sent, whichever thread has posted it.
    pub(super) fn is_flushed(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Notes that the sending thread has been waiting for the socket for a while; this holds until its wait is over.
    pub(super) fn note_held_up(&self) {
        self.outbox.note_held_up();
    }

    /// Whether the sending thread has been waiting for the socket for a while.
    pub(super) fn is_held_up(&self) -> bool {
        self.outbox.is_held_up()
    }

    /// How much has gone to the server and come from it, after a look at whether its machine is there.
    ///
    /// # Errors
    /// The socket's, or that the machine is gone.
    pub(super) fn look(&self) -> io::Result<Traffic> {
        self.link.check_machine()?;
        let (sent, received) = self.link.traffic();
        Ok(Traffic { received, sent, taken: self.link.taken()?, is_idle: self.outbox.is_idle() })
    }

    /// Takes the reader role if nobody has it.
    pub(super) fn try_read(&self) -> Option<Role<'_>> {
        self.inbox.try_read()
    }

    /// Takes the reader role, or sleeps until the thread that has it has made progress or left. `None`: the caller must
    /// check its condition again.
    pub(super) fn read_or_sleep(&self, over: &mut dyn FnMut() -> bool) -> Option<Role<'_>> {
        self.inbox.read_or_sleep(over)
    }

    /// Reads once (waiting for bytes if `wait`) and hands out all frames that are whole. Returns whether there were
    /// any.
    ///
    /// # Errors
    /// Why nothing more can be read.
    pub(super) fn read(&self, role: &mut Role<'_>, wait: bool, to: &dyn Deliver) -> Result<bool, ReadError> {
        role.read(&self.link, wait, to)
    }

    /// Sleeps until `over`, which is looked at again at every [`Self::wake`].
    pub(super) fn sleep_until(&self, over: &mut dyn FnMut() -> bool) {
        self.inbox.sleep_until(over);
    }

    /// Wakes all threads that sleep here, to look again.
    pub(super) fn wake(&self) {
        self.inbox.wake();
    }

    /// To be called before each time that this is polled: from then on it becomes readable when something comes. Returns
    /// whether something has come already.
    pub(super) fn is_readable_or_will_tell(&self) -> bool {
        self.link.is_readable_or_will_tell()
    }

    /// Whether a thread that waits for several of them may ask [`Self::has_come`] again and again instead of sleeping.
    pub(super) fn may_be_watched(&self) -> bool {
        self.link.may_be_watched()
    }

    /// Whether something has come that the system need not be asked for.
    pub(super) fn has_come(&self) -> bool {
        self.link.has_more()
    }

    /// Waits until there may be something to read, at most for `timeout`; for a thread without the reader role. Returns
    /// whether there may be.
    ///
    /// # Errors
    /// The socket's.
    pub(super) fn wait_for_sign(&self, timeout: Option<Duration>) -> io::Result<bool> {
        self.link.wait_for_sign(timeout)
    }

    /// Waits until there is something to read, at most for `timeout`; for the thread that has the reader role. Returns
    /// whether there is.
    ///
    /// # Errors
    /// The socket's.
    pub(super) fn wait_readable(&self, timeout: Option<Duration>) -> io::Result<bool> {
        self.link.wait_readable(timeout)
    }

    /// Ends both directions: whoever reads or sends gets an error.
    pub(super) fn shutdown(&self) {
        self.link.shutdown();
    }

    /// The server's network address; none on this machine.
    pub(super) fn peer_address(&self) -> Option<SocketAddr> {
        self.link.peer_address()
    }

    /// Memory for bulk data that the server sees as well, where there is any.
    pub(super) fn arena(&self) -> Option<&Arc<Arena>> {
        self.link.arena()
    }

    /// Bytes that went to the server, and that came from it.
    pub(super) fn traffic(&self) -> (u64, u64) {
        self.link.traffic()
    }
}

impl AsFd for Channel {
    /// To be polled for something to read, after [`Self::is_readable_or_will_tell`], and for nothing else.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
