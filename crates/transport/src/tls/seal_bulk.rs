//! Sealing of bulk data: a [`Crew`] seals what this thread sends after what it has sealed itself.

use std::io;
use std::sync::mpsc;

use super::crew::{Crew, WIDE_ROOM};
use super::sealer::{Sealer, cannot_be_sealed, seal_record};
use super::secret::{Key, Refused};
use super::{APPLICATION_DATA, BULK, MAX_CONTENTS, SEALED};

/// Records that one thread seals at once, and that are sent with one call.
const PIECE: usize = 4;

/// Most pieces that are sealed before all of them are sent.
const PIECES: usize = 8;

/// Bytes that may be sealed ahead of them: a record, and a new key.
const AHEAD: usize = 2 * SEALED;

const _: () = assert!(AHEAD + PIECES * PIECE * SEALED <= WIDE_ROOM);

impl Sealer {
    /// Sends the beginning of `bulk` in whole records, after what is sealed already. It sends nothing if that is more
    /// than [`AHEAD`], or if `bulk` is too short.
    ///
    /// # Errors
    /// Those of `send`, after which all that was sealed is still to be sent.
    pub(super) fn send_bulk(
        &mut self,
        crew: &Crew,
        bulk: &[u8],
        send: &mut impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let records = (bulk.len() / MAX_CONTENTS).min(PIECES * PIECE);
        self.renew(records).map_err(|Refused| cannot_be_sealed())?;
        if bulk.len() < BULK || self.unsent.len() > AHEAD {
            return Ok(());
        }
        let mut wide = crew.buffer();
        wide[..self.unsent.len()].copy_from_slice(&self.out[self.unsent.clone()]);
        self.unsent = 0..self.unsent.len();
        let narrow = std::mem::replace(&mut self.out, wide);
        let sent = self.seal_and_send(crew, &bulk[..records * MAX_CONTENTS], send);
        if self.unsent.is_empty() {
            self.unsent = 0..0;
            crew.give_back(std::mem::replace(&mut self.out, narrow));
        }
        sent
    }

    /// Seals `bulk`, which is whole records, behind what is sealed already, and sends all of it.
    fn seal_and_send(
        &mut self,
        crew: &Crew,
        bulk: &[u8],
        send: &mut impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let (records, first) = (bulk.len() / MAX_CONTENTS, self.key.number());
        // No number may be used for anything else from here on, whatever fails.
        self.key.passed(records as u64);
        self.held += bulk.len();
        let Self { key, out, unsent, .. } = self;
        let (ahead, out) = out[unsent.start..].split_at_mut(unsent.len());
        unsent.end += records * SEALED;
        let key = &*key;
        crew.scope(|scope| {
            let pieces = bulk.chunks(PIECE * MAX_CONTENTS).zip(out[..records * SEALED].chunks_mut(PIECE * SEALED));
            let mut pieces = pieces.zip((first..).step_by(PIECE)).enumerate();
            let own = pieces.next();
            let (done, sealed) = mpsc::channel();
            let mut count = 0;
            for (at, ((contents, out), number)) in pieces {
                let done = done.clone();
                // The other end hangs up when sending has failed.
                scope.spawn(move |_| _ = done.send((at, seal_piece(key, number, contents, out))));
                count = at;
            }
            drop(done);
            // All is sealed when this returns, whatever sending says.
            let own = own.map(|(_, ((contents, out), number))| seal_piece(key, number, contents, out));
            let mut send_all = |bytes: &[u8]| {
                let end = unsent.start + bytes.len();
                while unsent.start < end {
                    unsent.start += send(&bytes[bytes.len() - (end - unsent.start)..])?;
                }
                io::Result::Ok(())
            };
            send_all(ahead)?;
            if let Some(own) = own {
                send_all(own.map_err(|Refused| cannot_be_sealed())?)?;
            }
            let mut ready = [const { None }; PIECES];
            for next in 1..=count {
                while ready[next].is_none() {
                    let (at, piece) = sealed.recv().map_err(|_| cannot_be_sealed())?;
                    ready[at] = Some(piece);
                }
                if let Some(piece) = ready[next].take() {
                    send_all(piece.map_err(|Refused| cannot_be_sealed())?)?;
                }
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
