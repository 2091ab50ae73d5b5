//! The sending half: bytes become records.

use std::io::{self, IoSlice};

use super::secret::{Key, Refused, Secret};
use super::{APPLICATION_DATA, HANDSHAKE, HEADER, MAX_CONTENTS, OVERHEAD, header};

/// Most records that are sealed before they are sent. While the kernel takes one batch, the other end opens the last.
const BATCH: usize = 8;

/// A KeyUpdate that asks for none in return (RFC 8446, section 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// Seals what is sent on a connection.
pub(crate) struct Sealer {
    key: Key,
    /// Sealed records, of which the first `sent` bytes are with the kernel.
    out: Vec<u8>,
    sent: usize,
    /// Bytes of contents in `out`. Their sender was not told yet that they are sent, and gives them again.
    held: usize,
    /// Contents that do not fill a record by themselves.
    small: Vec<u8>,
}

impl Sealer {
    /// Goes on with the connection of this secret.
    pub(crate) fn new(secret: Secret) -> Result<Self, Refused> {
        Ok(Self { key: Key::new(secret)?, out: Vec::new(), sent: 0, held: 0, small: Vec::new() })
    }

    /// What another process needs to go on; nothing may be unsent.
    pub(crate) fn secret(&self) -> Secret {
        self.key.secret().clone()
    }

    /// Sends all of `parts` through `send`, which takes some bytes and returns how many. `parts` is then what was not
    /// sent.
    ///
    /// # Errors
    /// Those of `send`, after which what is left of `parts` has to be given again, first of all.
    pub(crate) fn send_all(
        &mut self,
        parts: &mut &mut [IoSlice<'_>],
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        loop {
            self.flush(&mut send)?;
            IoSlice::advance_slices(parts, std::mem::take(&mut self.held));
            if parts.iter().all(|part| part.is_empty()) {
                return Ok(());
            }
            self.seal(parts)?;
        }
    }

    /// Sends some of `bytes` through `send`, which does not wait, and returns how many were sent. The others have to be
    /// given again, first of all.
    ///
    /// # Errors
    /// Those of `send`, after which the connection cannot be used any more.
    pub(crate) fn try_send(
        &mut self,
        mut bytes: &[u8],
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut total = 0;
        loop {
            match self.flush(&mut send) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(total),
                Err(error) => return Err(error),
            }
            let done = std::mem::take(&mut self.held).min(bytes.len());
            total += done;
            bytes = &bytes[done..];
            if bytes.is_empty() {
                return Ok(total);
            }
            self.seal(&[IoSlice::new(bytes)])?;
        }
    }

    /// Sends what is sealed.
    fn flush(&mut self, send: &mut impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while self.sent < self.out.len() {
            self.sent += send(&self.out[self.sent..])?;
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Seals the beginning of `parts`, a batch at most.
    fn seal(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let sealed = self.seal_batch(parts);
        sealed.map_err(|Refused| io::Error::other("a record cannot be encrypted"))
    }

    fn seal_batch(&mut self, parts: &[IoSlice<'_>]) -> Result<(), Refused> {
        if self.key.is_worn(BATCH as u64 + 1) {
            self.record(&KEY_UPDATE, HANDSHAKE)?;
            self.key.update()?;
        }
        let mut records = 0;
        for part in parts {
            let mut rest: &[u8] = part;
            while !rest.is_empty() && records < BATCH {
                let room = MAX_CONTENTS - self.small.len();
                let (now, later) = rest.split_at(rest.len().min(room));
                if now.len() == MAX_CONTENTS {
                    self.record(now, APPLICATION_DATA)?;
                    records += 1;
                } else {
                    self.small.extend_from_slice(now);
                    records += usize::from(self.small.len() == MAX_CONTENTS);
                    self.seal_small(MAX_CONTENTS)?;
                }
                self.held += now.len();
                rest = later;
            }
        }
        self.seal_small(1)
    }

    /// Seals the contents that were gathered if there are at least `least` bytes of them.
    fn seal_small(&mut self, least: usize) -> Result<(), Refused> {
        if self.small.len() < least {
            return Ok(());
        }
        let mut small = std::mem::take(&mut self.small);
        let sealed = self.record(&small, APPLICATION_DATA);
        small.clear();
        self.small = small;
        sealed
    }

    fn record(&mut self, contents: &[u8], contents_type: u8) -> Result<(), Refused> {
        let header = header(contents.len() + OVERHEAD);
        self.out.extend_from_slice(&header);
        let begin = self.out.len();
        self.out.resize(begin + contents.len() + OVERHEAD, 0);
        self.key.seal(&header, contents, contents_type, &mut self.out[begin..])
    }
}

const _: () = assert!(HEADER == 5);
