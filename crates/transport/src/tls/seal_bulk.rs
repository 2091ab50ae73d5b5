//! Sealing of bulk data: a [`Crew`] seals what this thread sends after what it has sealed itself.

use std::io;
use std::sync::OnceLock;

use super::sealer::{Sealer, cannot_be_sealed, seal_record};
use super::secret::{Key, Refused};
use super::{APPLICATION_DATA, BULK, MAX_CONTENTS, SEALED, WIDE_ROOM};
use crate::crew::{Crew, Pieces};

/// Records that one thread seals at once, and that are sent with one call.
const PIECE: usize = 4;

/// Most pieces that are sealed before all of them are sent.
const PIECES: usize = 8;

/// Bytes that may be sealed ahead of them: a record, and a new key.
const AHEAD: usize = 2 * SEALED;

const _: () = assert!(AHEAD + PIECES * PIECE * SEALED <= WIDE_ROOM);

impl Sealer {
    /// Sends the beginning of `bulk` in whole records, after what is sealed already; `has_more` says whether anything
    /// follows `bulk`. It sends nothing if more than [`AHEAD`] is sealed, or if `bulk` is too short.
    ///
    /// # Errors
    /// Those of `send`, after which all that was sealed is still to be sent.
    pub(super) fn send_bulk(
        &mut self,
        crew: &Crew,
        bulk: &[u8],
        has_more: bool,
        send: &mut impl FnMut(&[u8], bool) -> io::Result<usize>,
    ) -> io::Result<()> {
        let records = (bulk.len() / MAX_CONTENTS).min(PIECES * PIECE);
        self.renew(records).map_err(|Refused| cannot_be_sealed())?;
        if bulk.len() < BULK || self.unsent.len() > AHEAD {
            return Ok(());
        }
        let mut wide = crew.buffer(WIDE_ROOM);
        wide[..self.unsent.len()].copy_from_slice(&self.out[self.unsent.clone()]);
        self.unsent = 0..self.unsent.len();
        let narrow = std::mem::replace(&mut self.out, wide);
        let (bulk, rest) = bulk.split_at(records * MAX_CONTENTS);
        let sent = self.seal_and_send(crew, bulk, has_more || !rest.is_empty(), send);
        if self.unsent.is_empty() {
            self.unsent = 0..0;
            crew.give_back(std::mem::replace(&mut self.out, narrow));
        }
        sent
    }

    /// Seals `bulk`, which is whole records, behind what is sealed already, and sends all of it; `has_more` says whether
    /// anything follows.
    fn seal_and_send(
        &mut self,
        crew: &Crew,
        bulk: &[u8],
        has_more: bool,
        send: &mut impl FnMut(&[u8], bool) -> io::Result<usize>,
    ) -> io::Result<()> {
        let (records, first) = (bulk.len() / MAX_CONTENTS, self.key.number());
        // No number may be used for anything else from here on, whatever fails.
        self.key.passed(records as u64);
        self.held += bulk.len();
        let Self { key, out, unsent, .. } = self;
        // What is ahead is sent together with the first piece, which this thread seals.
        let ahead = unsent.len();
        let mine = bulk.len().min(PIECE * MAX_CONTENTS);
        let out = &mut out[unsent.start..][..ahead + records * SEALED];
        let (head, out) = out.split_at_mut(ahead + mine / MAX_CONTENTS * SEALED);
        let (mine, bulk) = bulk.split_at(mine);
        unsent.end += records * SEALED;
        let key = &*key;
        let sealed: [OnceLock<Result<&[u8], Refused>>; PIECES] = [const { OnceLock::new() }; PIECES];
        let parts = bulk.chunks(PIECE * MAX_CONTENTS).zip(out.chunks_mut(PIECE * SEALED));
        let pieces = Pieces::new(parts.zip((first + PIECE as u64..).step_by(PIECE)).zip(&sealed));
        let seal = |(((contents, out), number), sealed): (((&[u8], _), u64), &OnceLock<_>)| {
            // Nobody else has this piece.
            let _ = sealed.set(seal_piece(key, number, contents, out));
        };
        let mut send_all = |bytes: &[u8]| {
            let end = unsent.start + bytes.len();
            while unsent.start < end {
                let goes_on = has_more || end < unsent.end;
                unsent.start += send(&bytes[bytes.len() - (end - unsent.start)..], goes_on)?;
            }
            io::Result::Ok(())
        };
        let refused = |Refused| cannot_be_sealed();
        let count = bulk.len().div_ceil(PIECE * MAX_CONTENTS);
        crew.share(&pieces, seal, || {
            seal_piece(key, first, mine, &mut head[ahead..]).map_err(refused)?;
            send_all(head)?;
            for next in &sealed[..count] {
                while next.get().is_none() {
                    match pieces.take() {
                        Some(piece) => seal(piece),
                        // Another thread is at it.
                        None => std::thread::yield_now(),
                    }
                }
                send_all(next.get().copied().unwrap_or(Err(Refused)).map_err(refused)?)?;
            }
            Ok(())
        })
    }
}

/// Seals whole records, the first of which gets this number.
fn seal_piece<'a>(key: &Key, first: u64, contents: &[u8], out: &'a mut [u8]) -> Result<&'a [u8], Refused> {
    for ((contents, out), number) in contents.chunks(MAX_CONTENTS).zip(out.chunks_mut(SEALED)).zip(first..) {
        seal_record(key, number, contents, APPLICATION_DATA, out)?;
    }
    Ok(out)
}
