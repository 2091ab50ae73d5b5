//! The sending half: bytes become records.

use std::cell::OnceCell;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use super::secret::{Key, Refused, Secret};
use super::{APPLICATION_DATA, BULK, HANDSHAKE, HEADER, MAX_CONTENTS, OVERHEAD, header};
use crate::crew::Crew;

/// Most records that are sealed before they are sent. While the kernel takes one batch, the other end opens the last.
const BATCH: usize = 8;

/// A KeyUpdate that asks for none in return (RFC 8446, section 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// Seals what is sent on a connection.
pub(crate) struct Sealer {
    pub(super) key: Key,
    /// Sealed records are in `out`, at `unsent` those that the kernel has not taken.
    pub(super) out: Vec<u8>,
    pub(super) unsent: Range<usize>,
    /// Bytes of contents in `out`. Their sender was not told yet that they are sent, and gives them again.
    pub(super) held: usize,
    /// Contents that do not fill a record by themselves.
    small: Vec<u8>,
    pub(super) crew: OnceCell<Option<Arc<Crew>>>,
}

impl Sealer {
    /// Goes on with the connection of this secret.
    pub(crate) fn new(secret: Secret) -> Result<Self, Refused> {
        let key = Key::new(secret)?;
        Ok(Self { key, out: Vec::new(), unsent: 0..0, held: 0, small: Vec::new(), crew: OnceCell::new() })
    }

    /// What another process needs to go on; nothing may be unsent.
    pub(crate) fn secret(&self) -> Secret {
        self.key.secret().clone()
    }

    /// Sends all of `parts` through `send`, which takes some bytes and returns how many; it is told whether more follow at
    /// once. `parts` is then what was not sent.
    ///
    /// # Errors
    /// Those of `send`, after which what is left of `parts` has to be given again, first of all.
    pub(crate) fn send_all(
        &mut self,
        parts: &mut &mut [IoSlice<'_>],
        mut send: impl FnMut(&[u8], bool) -> io::Result<usize>,
    ) -> io::Result<()> {
        loop {
            let goes_on = behind(parts, self.held).is_some();
            self.flush(&mut |bytes| send(bytes, goes_on))?;
            IoSlice::advance_slices(parts, std::mem::take(&mut self.held));
            if parts.iter().all(|part| part.is_empty()) {
                return Ok(());
            }
            let crew = if parts.iter().any(|part| part.len() >= BULK) { self.crew() } else { None };
            self.seal(parts, crew.is_some())?;
            if let (Some(crew), Some(bulk)) = (crew, behind(parts, self.held)) {
                let has_more = behind(parts, self.held + bulk.len()).is_some();
                self.send_bulk(&crew, bulk, has_more, &mut send)?;
            }
        }
    }

    /// Who helps with bulk data, if anybody does.
    fn crew(&self) -> Option<Arc<Crew>> {
        self.crew.get_or_init(Crew::of_process).clone()
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
            self.seal(&[IoSlice::new(bytes)], false)?;
        }
    }

    /// Sends what is sealed.
    pub(super) fn flush(&mut self, send: &mut impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while !self.unsent.is_empty() {
            self.unsent.start += send(&self.out[self.unsent.clone()])?;
        }
        self.unsent = 0..0;
        Ok(())
    }

    /// Seals the beginning of `parts`, a batch at most, and only what is ahead of bulk data if a crew seals those.
    fn seal(&mut self, parts: &[IoSlice<'_>], has_crew: bool) -> io::Result<()> {
        let sealed = self.seal_batch(parts, has_crew);
        sealed.map_err(|Refused| cannot_be_sealed())
    }

    /// Replaces the key if it is too old for so many more records.
    pub(super) fn renew(&mut self, records: usize) -> Result<(), Refused> {
        if self.key.is_worn(records as u64 + 1) {
            self.record(&KEY_UPDATE, HANDSHAKE)?;
            self.key.update()?;
        }
        Ok(())
    }

    fn seal_batch(&mut self, parts: &[IoSlice<'_>], has_crew: bool) -> Result<(), Refused> {
        self.renew(BATCH)?;
        let mut records = 0;
        for part in parts {
            let mut rest: &[u8] = part;
            if has_crew && rest.len() >= BULK {
                break;
            }
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

    pub(super) fn record(&mut self, contents: &[u8], contents_type: u8) -> Result<(), Refused> {
        let (begin, len) = (self.unsent.end, HEADER + contents.len() + OVERHEAD);
        if self.out.len() < begin + len {
            self.out.resize(begin + len, 0);
        }
        seal_record(&self.key, self.key.number(), contents, contents_type, &mut self.out[begin..begin + len])?;
        self.key.passed(1);
        self.unsent.end += len;
        Ok(())
    }
}

/// Seals a whole record with its header, for which `out` has just room.
pub(super) fn seal_record(
    key: &Key,
    number: u64,
    contents: &[u8],
    contents_type: u8,
    out: &mut [u8],
) -> Result<(), Refused> {
    let (begin, sealed) = out.split_first_chunk_mut::<HEADER>().ok_or(Refused)?;
    *begin = header(sealed.len());
    key.seal(number, begin, contents, contents_type, sealed)
}

/// The first bytes behind the first `len` ones, up to the end of their part.
fn behind<'a>(parts: &'a [IoSlice<'_>], mut len: usize) -> Option<&'a [u8]> {
    for part in parts {
        if len < part.len() {
            return Some(&part[len..]);
        }
        len -= part.len();
    }
    None
}

/// The error for bytes that cannot be sent encrypted.
pub(super) fn cannot_be_sealed() -> io::Error {
    io::Error::other("a record cannot be encrypted")
}
