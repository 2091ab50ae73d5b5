//! Messages between a session and the thread of the daemon that decides whose turn it is on a device.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

/// The bytes of a message: its kind, the device's number, microseconds.
const MESSAGE: usize = 6;

/// What a session says of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FromWorker {
    /// It wants the device.
    Wants,
    /// It has given back the device, and wants it no more.
    Yields,
    /// It has given back the device, and wants it again.
    YieldsForNow,
}

/// What a session is told of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToTurns {
    /// The device is its alone, until further notice.
    Open,
    /// It may launch kernels for so long, and then gives back the device.
    Turn(Duration),
    /// It is to give back the device.
    Hold,
}

/// A message.
pub trait Message: Sized {
    /// Its kind and its time.
    fn parts(self) -> (u8, Duration);

    /// The message of this kind, with this time.
    fn of(kind: u8, time: Duration) -> Option<Self>;
}

impl Message for FromWorker {
    fn parts(self) -> (u8, Duration) {
        (self as u8, Duration::ZERO)
    }

    fn of(kind: u8, _: Duration) -> Option<Self> {
        [Self::Wants, Self::Yields, Self::YieldsForNow].into_iter().find(|said| *said as u8 == kind)
    }
}

impl Message for ToTurns {
    fn parts(self) -> (u8, Duration) {
        match self {
            Self::Open => (0, Duration::ZERO),
            Self::Turn(time) => (1, time),
            Self::Hold => (2, Duration::ZERO),
        }
    }

    fn of(kind: u8, time: Duration) -> Option<Self> {
        [Self::Open, Self::Turn(time), Self::Hold].into_iter().nth(kind.into())
    }
}

/// The two ends of a socket for these messages, neither of which blocks.
///
/// # Errors
/// The operating system's error.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Says something about a device, without waiting.
///
/// # Errors
/// The socket's error: the other side is gone, or does not listen.
pub fn say(socket: impl AsFd, message: impl Message, device: u8) -> io::Result<()> {
    let (kind, time) = message.parts();
    let mut bytes = [kind, device, 0, 0, 0, 0];
    bytes[2..].copy_from_slice(&u32::try_from(time.as_micros()).unwrap_or(u32::MAX).to_le_bytes());
    Ok(send(socket, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map(drop)?)
}

/// Hears one message, and which device it is about. `None` once the other side has closed its end.
///
/// # Errors
/// The socket's error, such as [`ErrorKind::WouldBlock`]; [`ErrorKind::InvalidData`] for what is no message.
pub fn hear<M: Message>(socket: impl AsFd) -> io::Result<Option<(M, u8)>> {
    let mut bytes = [0; MESSAGE + 1];
    let (len, _) = recv(socket, &mut bytes[..], RecvFlags::DONTWAIT)?;
    match bytes {
        _ if len == 0 => Ok(None),
        [kind, device, a, b, c, d, _] if len == MESSAGE => {
            let time = Duration::from_micros(u32::from_le_bytes([a, b, c, d]).into());
            Ok(Some((M::of(kind, time).ok_or(ErrorKind::InvalidData)?, device)))
        }
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let (daemon, worker) = pair().unwrap();
        for said in [FromWorker::Wants, FromWorker::Yields, FromWorker::YieldsForNow] {
            say(&worker, said, 7).unwrap();
            assert_eq!(hear(&daemon).unwrap(), Some((said, 7)));
        }
        for told in [ToTurns::Open, ToTurns::Turn(Duration::from_millis(4)), ToTurns::Hold] {
            say(&daemon, told, 63).unwrap();
            assert_eq!(hear(&worker).unwrap(), Some((told, 63)));
        }
        assert_eq!(hear::<FromWorker>(&daemon).unwrap_err().kind(), ErrorKind::WouldBlock);
        for wrong in [&[3, 0, 0, 0, 0, 0][..], &[0; 5], &[0; 7]] {
            send(&worker, wrong, SendFlags::NOSIGNAL).unwrap();
            assert_eq!(hear::<FromWorker>(&daemon).unwrap_err().kind(), ErrorKind::InvalidData);
        }
        drop(worker);
        assert_eq!(hear::<FromWorker>(&daemon).unwrap(), None);
    }
}
