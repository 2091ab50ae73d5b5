//! What makes a link an encrypted one.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::tls::{Opener, Sealer, Secrets};
use crate::{Link, Sender as _};

/// The encryption of a link: TLS 1.3's records.
pub(crate) struct Records {
    sealer: Mutex<Sealer>,
    opener: Mutex<Opener>,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Records")
    }
}

impl Records {
    /// Goes on with what a handshake has given.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] for secrets that do not fit their cipher.
    pub(crate) fn new(secrets: Secrets) -> io::Result<Box<Self>> {
        let refused = |_| io::Error::new(ErrorKind::InvalidData, "the secrets of the connection are of no use");
        let sealer = Mutex::new(Sealer::new(secrets.sealing).map_err(refused)?);
        let opener = Mutex::new(Opener::new(secrets.opening).map_err(refused)?);
        Ok(Box::new(Self { sealer, opener }))
    }

    /// The sending half. One thread sends at a time, so that nobody waits for it.
    pub(crate) fn sealer(&self) -> MutexGuard<'_, Sealer> {
        self.sealer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The receiving half. One thread reads at a time.
    pub(crate) fn opener(&self) -> MutexGuard<'_, Opener> {
        self.opener.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether bytes can be read although the socket has none. Not while a thread reads: it will find them.
    pub(crate) fn has_more(&self) -> bool {
        self.opener.try_lock().is_ok_and(|opener| opener.is_ready())
    }

    /// What another process needs to go on.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] when the other end has sent what nobody has asked for yet.
    pub(crate) fn secrets(&self) -> io::Result<Secrets> {
        let more = || io::Error::new(ErrorKind::InvalidData, "it has sent more than it was asked for");
        Ok(Secrets { sealing: self.sealer().secret(), opening: self.opener().secret().ok_or_else(more)? })
    }
}

/// The bytes of a link that are there now, for a handshake.
pub(crate) struct Now<'a>(pub(crate) &'a Link);

impl Read for Now<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_recv(into)
    }
}

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.try_send(bytes)? {
            0 => Err(ErrorKind::WouldBlock.into()),
            sent => Ok(sent),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes of a link that come before a time, for a handshake.
pub(crate) struct Before<'a>(pub(crate) &'a Link, pub(crate) Instant);

impl Read for Before<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.0.wait_readable(Some(self.1.saturating_duration_since(Instant::now())))? {
            return Err(ErrorKind::TimedOut.into());
        }
        self.0.try_recv(into)
    }
}

impl Write for Before<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_all(&mut [IoSlice::new(bytes)]).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
