//! A link without a socket: bytes in memory, with what waits for them known to the model.
//!
//! Time stands still in a model. A thread that waits for bytes waits until they come; where a thread would sleep on
//! nevertheless until a timeout helps it out, the model finds it dead.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::base::modelled::{Condvar, Mutex, lock, thread};

/// The bytes of one direction that have been sent and not been received.
#[derive(Default, Debug)]
struct Pipe {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct State {
    bytes: VecDeque<u8>,
    is_closed: bool,
    /// How many have been sent.
    sent: u64,
}

impl Pipe {
    fn send(&self, parts: &[&[u8]]) -> io::Result<()> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        for part in parts {
            state.bytes.extend(*part);
            state.sent += part.len() as u64;
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Takes some bytes; 0 at the end of the stream.
    fn receive(&self, into: &mut [u8], waits: bool) -> io::Result<usize> {
        let mut state = lock(&self.state);
        while state.bytes.is_empty() && !state.is_closed {
            if !waits {
                return Err(ErrorKind::WouldBlock.into());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let count = into.len().min(state.bytes.len());
        into.iter_mut().zip(state.bytes.drain(..count)).for_each(|(place, byte)| *place = byte);
        Ok(count)
    }

    fn is_readable(&self) -> bool {
        let state = lock(&self.state);
        !state.bytes.is_empty() || state.is_closed
    }

    fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }
}

/// One end of a connected stream; takes the place of [`ropeway_transport::Link`], and does what that does.
#[derive(Debug)]
pub(in crate::link) struct Link {
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
}

impl From<ropeway_transport::Link> for Link {
    fn from(_: ropeway_transport::Link) -> Self {
        unreachable!("no model connects to a server")
    }
}

impl Link {
    /// Both ends.
    pub(super) fn pair() -> (Self, Self) {
        let (one, other) = (Arc::<Pipe>::default(), Arc::<Pipe>::default());
        let near = Self { incoming: Arc::clone(&one), outgoing: Arc::clone(&other) };
        (near, Self { incoming: other, outgoing: one })
    }

    pub(in crate::link) fn recv_for_a_glance(&self, into: &mut [u8]) -> io::Result<usize> {
        self.incoming.receive(into, true)
    }

    pub(in crate::link) fn try_recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.incoming.receive(into, false)
    }

    pub(in crate::link) fn recv_exact_while<E: From<io::Error>>(
        &self,
        mut into: &mut [u8],
        _goes_on: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        while !into.is_empty() {
            match self.incoming.receive(into, true)? {
                0 => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                count => into = &mut into[count..],
            }
        }
        Ok(())
    }

    pub(in crate::link) fn send_all_while(
        &self,
        parts: &mut &mut [IoSlice<'_>],
        _goes_on: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        self.outgoing.send(&parts.iter().map(|part| &**part).collect::<Vec<_>>())
    }

    pub(in crate::link) fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.send(&[bytes]).map(|()| bytes.len())
    }

    /// Whether bytes were decrypted that nobody has read: they are not encrypted here.
    pub(in crate::link) fn has_more(&self) -> bool {
        false
    }

    /// No model looks at several links.
    pub(in crate::link) fn may_be_watched(&self) -> bool {
        false
    }

    pub(in crate::link) fn is_readable_or_will_tell(&self) -> bool {
        self.incoming.is_readable()
    }

    pub(in crate::link) fn wait_for_sign(&self, timeout: Option<Duration>) -> io::Result<bool> {
        self.wait_readable(timeout)
    }

    /// Waits for ever, or no longer than the other threads take for some steps.
    pub(in crate::link) fn wait_readable(&self, timeout: Option<Duration>) -> io::Result<bool> {
        if timeout.is_some() {
            thread::yield_now();
            return Ok(self.incoming.is_readable());
        }
        let mut state = lock(&self.incoming.state);
        while state.bytes.is_empty() && !state.is_closed {
            state = self.incoming.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(true)
    }

    pub(in crate::link) fn shutdown(&self) {
        self.incoming.close();
        self.outgoing.close();
    }

    /// Bytes in memory that both sides see would hide from the model who waits for them.
    pub(in crate::link) fn arena(&self) -> Option<&Arc<ropeway_transport::Arena>> {
        None
    }

    pub(in crate::link) fn traffic(&self) -> (u64, u64) {
        let received = {
            let state = lock(&self.incoming.state);
            state.sent - state.bytes.len() as u64
        };
        (lock(&self.outgoing.state).sent, received)
    }

    pub(in crate::link) fn taken(&self) -> io::Result<u64> {
        Ok(self.traffic().0)
    }

    pub(in crate::link) fn check_machine(&self) -> io::Result<()> {
        Ok(())
    }

    pub(in crate::link) fn peer_address(&self) -> Option<SocketAddr> {
        None
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        unreachable!("no model polls several links")
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shutdown();
    }
}
