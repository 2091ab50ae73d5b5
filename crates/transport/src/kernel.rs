//! Facts about a socket that the kernel knows, but that neither the standard library nor the socket crates query.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

// Of <linux/vm_sockets.h>.
const SO_VM_SOCKETS_BUFFER_SIZE: libc::c_int = 0;
const SO_VM_SOCKETS_BUFFER_MAX_SIZE: libc::c_int = 2;

/// The state of a TCP connection (`TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpState {
    /// How often in a row the oldest unacknowledged bytes were retransmitted.
    pub retransmits: u8,
    /// Keep-alive and window probes that the other machine has not answered; any packet from it resets this to 0.
    pub probes: u8,
    /// Time since bytes were last sent, retransmissions included.
    pub since_sent: Duration,
    /// Time since anything came from the other machine.
    pub since_heard: Duration,
}

/// The state of a TCP socket.
///
/// # Errors
/// The kernel's error, as for a socket that is not a TCP one.
pub fn tcp_state(socket: BorrowedFd<'_>) -> io::Result<TcpState> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `len` bytes to `info`, which has
    // as many.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            std::ptr::from_mut(&mut len),
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all fields are integers, for which zero is a value, and bytes that the kernel did not write are zero.
    let info = unsafe { info.assume_init() };
    let millis = |value: u32| Duration::from_millis(u64::from(value));
    Ok(TcpState {
        retransmits: info.tcpi_retransmits,
        probes: info.tcpi_probes,
        since_sent: millis(info.tcpi_last_data_sent),
        since_heard: millis(info.tcpi_last_ack_recv),
    })
}

/// The supplementary groups that the process at the other end of a Unix socket had when it connected
/// (`SO_PEERGROUPS`).
///
/// # Errors
/// The kernel's error, as for another kind of socket.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    // As many as the kernel allows (NGROUPS_MAX).
    let mut groups = vec![0_u32; 65_536];
    let mut len = size_of_val(&*groups) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `len` bytes to `groups`, which has
    // as many, and a gid_t is a u32.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            std::ptr::from_mut(&mut len),
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    groups.truncate(len as usize / size_of::<u32>());
    Ok(groups)
}

/// Returns how many sent bytes the other end has not taken (`SIOCOUTQ`): of a TCP socket, those that the other machine
/// has not acknowledged; of a Unix socket, those that are not read.
///
/// # Errors
/// The kernel's error.
pub fn untaken(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed, and for this request the kernel writes one int to `bytes`.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, std::ptr::from_mut(&mut bytes)) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Lets a vsock hold this many bytes that nobody has read yet (`SO_VM_SOCKETS_BUFFER_SIZE`).
///
/// # Errors
/// The kernel's error, as for another kind of socket.
pub fn set_vsock_buffer(socket: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    // The size is held against the bound when it is set.
    for option in [SO_VM_SOCKETS_BUFFER_MAX_SIZE, SO_VM_SOCKETS_BUFFER_SIZE] {
        let len = size_of_val(&bytes) as libc::socklen_t;
        // SAFETY: the descriptor is open while it is borrowed; the kernel reads `len` bytes from `bytes`, which has as
        // many.
        let outcome = unsafe {
            libc::setsockopt(socket.as_raw_fd(), libc::AF_VSOCK, option, std::ptr::from_ref(&bytes).cast(), len)
        };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_taken_is_told_of_both_kinds_of_sockets() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(b"0123").unwrap();
        far.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(untaken(near.as_fd()).unwrap(), 0, "a machine acknowledges at the latest what is read");
        let state = tcp_state(near.as_fd()).unwrap();
        assert_eq!((state.retransmits, state.probes), (0, 0));

        let (mut near, mut far) = UnixStream::pair().unwrap();
        near.write_all(b"0123").unwrap();
        assert!(untaken(near.as_fd()).unwrap() > 0);
        far.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(untaken(near.as_fd()).unwrap(), 0);
        assert!(tcp_state(near.as_fd()).is_err());
    }
}
