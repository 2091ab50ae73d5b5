//! The receiving half: records become bytes again.

use std::cell::OnceCell;
use std::io::{self, ErrorKind};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::SystemTime;

use super::secret::{Key, Refused, Secret};
use super::{ALERT, APPLICATION_DATA, HANDSHAKE, HEADER, MAX_CONTENTS, OVERHEAD, TAG, TlsError};
use crate::crew::Crew;

/// Most bytes of a record after its header (RFC 8446, section 5.2).
pub(super) const MAX_SEALED: usize = MAX_CONTENTS + 256;

/// Bytes of the buffer for records: room for one at first, and for more when they come faster than they are read and no
/// crew opens bulk data.
pub(super) const ROOM: usize = HEADER + MAX_SEALED;
const MAX_ROOM: usize = 16 * ROOM;

/// Types of messages that may come after the handshake; the alert at the end of a connection.
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
const CLOSE_NOTIFY: u8 = 0;

/// Opens what comes on a connection.
pub(crate) struct Opener {
    pub(super) key: Key,
    /// Bytes that have come: `plain` is what was opened and nobody has taken, then `sealed` what is sealed still.
    pub(super) buffer: Vec<u8>,
    pub(super) plain: Range<usize>,
    pub(super) sealed: Range<usize>,
    /// The other end has said that it sends no more.
    pub(super) is_over: bool,
    /// What ended the connection while bytes were opened that came before.
    pub(super) error: Option<io::Error>,
    /// When the lease is valid that this end has shown, if it has: a refusal may be about that.
    pub(crate) lease: Option<RangeInclusive<SystemTime>>,
    pub(super) crew: OnceCell<Option<Arc<Crew>>>,
}

/// A record as it comes.
pub(super) enum Next {
    /// It is not whole yet.
    Partial,
    /// A whole one, at this place of the buffer, after its header.
    Whole([u8; HEADER], Range<usize>),
}

impl Opener {
    /// Goes on with the connection of this secret.
    pub(crate) fn new(secret: Secret) -> Result<Self, Refused> {
        Ok(Self {
            key: Key::new(secret)?,
            buffer: Vec::new(),
            plain: 0..0,
            sealed: 0..0,
            is_over: false,
            error: None,
            lease: None,
            crew: OnceCell::new(),
        })
    }

    /// What another process needs to go on, unless bytes have come already that it would not have.
    pub(crate) fn secret(&self) -> Option<Secret> {
        (self.plain.is_empty() && self.sealed.is_empty()).then(|| self.key.secret().clone())
    }

    /// Whether [`Opener::read`] has something to return at once.
    pub(crate) fn is_ready(&self) -> bool {
        !self.plain.is_empty() || self.is_over || self.error.is_some() || !matches!(self.next(), Ok(Next::Partial))
    }

    /// Reads some bytes into `into`, which `receive` gets when there are none. 0: the other end has closed.
    ///
    /// # Errors
    /// Those of `receive`, which may be called again; [`ErrorKind::InvalidData`] for what the other end did not seal.
    pub(crate) fn read(
        &mut self,
        into: &mut [u8],
        mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut got = 0;
        loop {
            got += self.take(&mut into[got..]);
            if got == into.len() || self.is_over {
                return Ok(got);
            }
            match self.next()? {
                Next::Whole(header, sealed) => got += self.open(&header, sealed, &mut into[got..])?,
                Next::Partial if got > 0 => return Ok(got),
                Next::Partial => {
                    let room = self.room();
                    let len = room.len();
                    let came = receive(room)?;
                    if came == 0 {
                        return Ok(0);
                    }
                    self.sealed.end += came;
                    if came == len && self.buffer.len() < MAX_ROOM && self.crew().is_none() {
                        self.buffer.resize(2 * self.buffer.len(), 0);
                    }
                }
            }
        }
    }

    /// Who helps with bulk data, if anybody does.
    pub(super) fn crew(&self) -> Option<Arc<Crew>> {
        self.crew.get_or_init(Crew::of_process).clone()
    }

    /// Hands over what was opened before.
    pub(super) fn take(&mut self, into: &mut [u8]) -> usize {
        let len = into.len().min(self.plain.len());
        into[..len].copy_from_slice(&self.buffer[self.plain.start..][..len]);
        self.plain.start += len;
        len
    }

    /// The place for more bytes: room for the rest of a record at least.
    fn room(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer.resize(ROOM, 0);
        }
        // There is nothing opened when there is no whole record either.
        self.buffer.copy_within(self.sealed.clone(), 0);
        self.sealed = 0..self.sealed.len();
        self.plain = 0..0;
        &mut self.buffer[self.sealed.end..]
    }

    /// The next record.
    pub(super) fn next(&self) -> io::Result<Next> {
        self.record(self.sealed.start)
    }

    /// The record that begins there.
    pub(super) fn record(&self, begin: usize) -> io::Result<Next> {
        let bytes = &self.buffer[begin..self.sealed.end];
        let Some(header) = bytes.first_chunk::<HEADER>() else { return Ok(Next::Partial) };
        let [kind, _, _, high, low] = *header;
        let len = usize::from(u16::from_be_bytes([high, low]));
        if kind != APPLICATION_DATA || !(OVERHEAD..=MAX_SEALED).contains(&len) {
            return Err(not_sealed());
        }
        let begin = begin + HEADER;
        Ok(if bytes.len() < HEADER + len { Next::Partial } else { Next::Whole(*header, begin..begin + len) })
    }

    /// Opens the record at `at`, into `into` where there is room for all of it; the number of bytes that are there.
    pub(super) fn open(&mut self, header: &[u8; HEADER], at: Range<usize>, into: &mut [u8]) -> io::Result<usize> {
        self.sealed.start = at.end;
        let len = at.len() - TAG;
        let refused = |Refused| not_sealed();
        // The type comes after the contents, so that one byte more is written than there are contents. The next record
        // is written over it.
        let is_direct = into.len() >= len;
        let number = self.key.number();
        let contents = if is_direct {
            self.key.open(number, header, &self.buffer[at.clone()], &mut into[..len]).map_err(refused)?;
            &into[..len]
        } else {
            self.key.open_in_place(number, header, &mut self.buffer[at.clone()]).map_err(refused)?;
            &self.buffer[at.start..][..len]
        };
        self.key.passed(1);
        // After the type, there may be zeros.
        let last = contents.iter().rposition(|byte| *byte != 0).ok_or_else(not_sealed)?;
        match (contents[last], &contents[..last]) {
            (APPLICATION_DATA, _) if is_direct => return Ok(last),
            (APPLICATION_DATA, _) => self.plain = at.start..at.start + last,
            (ALERT, [_, CLOSE_NOTIFY]) => self.is_over = true,
            (ALERT, [_, alert]) => {
                return Err(match TlsError::of_alert(*alert, self.lease.as_ref()) {
                    Some(refusal) => refusal.into(),
                    None => {
                        let text = format!("the other end has ended the connection with TLS's alert {alert}");
                        io::Error::new(ErrorKind::ConnectionReset, text)
                    }
                });
            }
            (HANDSHAKE, [KEY_UPDATE, 0, 0, 1, 0]) => self.key.update().map_err(refused)?,
            // It is not asked for, and not used.
            (HANDSHAKE, [NEW_SESSION_TICKET, ..]) => {}
            _ => return Err(not_sealed()),
        }
        Ok(0)
    }
}

/// The error for bytes that the other end did not send.
fn not_sealed() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "what came is not what the other end has encrypted")
}
