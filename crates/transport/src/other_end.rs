//! The other end of a link: who it is, whether its machine is there, and what it has taken.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::machine::is_gone;
use crate::vsock::{self, Kind, VsockAddress};
use crate::{Link, kernel};

/// Who is at the other end of a Unix socket, as the kernel says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerUser {
    /// The user's number.
    pub user: u32,
    /// The numbers of the groups that the process was in.
    pub groups: Vec<u32>,
}

impl Link {
    /// Returns how many bytes the other end has taken: its machine, over TCP; its process, over a Unix socket;
    /// all, over a vsock whose kernel does not say: it then has no more than its buffer of them.
    ///
    /// # Errors
    /// The socket's error.
    pub fn taken(&self) -> io::Result<u64> {
        let sent = self.sent.load(Ordering::Relaxed);
        if let Some(medium) = &self.sharing.medium {
            return Ok(self.sharing.sent_before + medium.taken());
        }
        match kernel::untaken(self.fd.as_fd()) {
            Err(_) if self.kind == Kind::Vsock => Ok(sent),
            untaken => Ok(sent.saturating_sub(untaken?)),
        }
    }

    /// Checks whether the other machine still answers; threads that wait do this at each [`GLANCE`](crate::GLANCE). For a Unix socket,
    /// that machine is this one; over vsock, a virtual machine that ends resets its connections at once.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] when it does not; what the socket said.
    pub fn check_machine(&self) -> io::Result<()> {
        self.sharing.medium.as_ref().map_or(Ok(()), |medium| medium.check_machine())?;
        if self.kind != Kind::Tcp {
            return Ok(());
        }
        let state = kernel::tcp_state(self.fd.as_fd())?;
        let mut suspected = lock(&self.suspected);
        if is_gone(&state, &mut suspected, Instant::now()) {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("its machine has not answered for {} s", state.since_heard.as_secs()),
            ));
        }
        Ok(())
    }

    /// The network address of the peer; none for a process of this machine, and over vsock.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        socket2::SockRef::from(&self.fd).peer_addr().ok()?.as_socket()
    }

    /// The machine and port at the other end of a vsock, as this machine's kernel says; `None` for other links.
    pub fn peer_machine(&self) -> Option<VsockAddress> {
        (self.kind == Kind::Vsock).then(|| vsock::peer(&self.fd)).flatten()
    }

    /// The user and the groups of the process at the other end when it connected; `None` unless it is a Unix socket.
    pub fn peer_user(&self) -> Option<PeerUser> {
        if self.kind != Kind::Unix {
            return None;
        }
        let about = rustix::net::sockopt::socket_peercred(&self.fd).ok()?;
        let mut groups = kernel::peer_groups(self.fd.as_fd()).ok()?;
        groups.push(about.gid.as_raw());
        Some(PeerUser { user: about.uid.as_raw(), groups })
    }

    /// The peer's address as a person would write it.
    pub fn peer(&self) -> String {
        match (self.peer_address(), self.peer_machine()) {
            (Some(address), _) => address.to_string(),
            (_, Some(address)) => address.to_string(),
            _ => "a local process".to_owned(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
