//! The two halves of an encrypted connection by themselves, each with a crew or without: for fuzzing.

use std::cell::OnceCell;
use std::io::{self, IoSlice};
use std::sync::Arc;

use super::sealer::cannot_be_sealed;
use super::{Fill, Opener, Sealer, Secret};
use crate::crew::Crew;

/// Threads that help halves with bulk data.
#[derive(Clone)]
pub struct Helpers(Arc<Crew>);

impl Helpers {
    /// So many threads; `None` when they cannot be started.
    pub fn new(threads: usize) -> Option<Self> {
        Crew::new(threads).map(|crew| Self(Arc::new(crew)))
    }
}

/// The half that sends.
pub struct SealingHalf(Sealer);

impl SealingHalf {
    /// Goes on with the connection of this secret; `None` where that does not fit its cipher.
    pub fn new(secret: Secret, helpers: Option<&Helpers>) -> Option<Self> {
        let mut sealer = Sealer::new(secret).ok()?;
        sealer.crew = OnceCell::from(helpers.map(|helpers| helpers.0.clone()));
        Some(Self(sealer))
    }

    /// Adds records of `contents` to `wire`, as a link sends them.
    ///
    /// # Errors
    /// The cipher's.
    pub fn seal(&mut self, contents: &[u8], wire: &mut Vec<u8>) -> io::Result<()> {
        self.0.send_all(&mut &mut [IoSlice::new(contents)][..], |bytes, _| take(wire, bytes))
    }

    /// Adds one record of this type to `wire`, whatever its length.
    ///
    /// # Errors
    /// The cipher's.
    pub fn seal_record(&mut self, contents: &[u8], contents_type: u8, wire: &mut Vec<u8>) -> io::Result<()> {
        self.0.record(contents, contents_type).map_err(|_| cannot_be_sealed())?;
        self.0.flush(&mut |bytes| take(wire, bytes))
    }
}

fn take(wire: &mut Vec<u8>, bytes: &[u8]) -> io::Result<usize> {
    wire.extend_from_slice(bytes);
    Ok(bytes.len())
}

/// The half that receives.
pub struct OpeningHalf(Opener);

impl OpeningHalf {
    /// Goes on with the connection of this secret; `None` where that does not fit its cipher.
    pub fn new(secret: Secret, helpers: Option<&Helpers>) -> Option<Self> {
        let mut opener = Opener::new(secret).ok()?;
        opener.crew = OnceCell::from(helpers.map(|helpers| helpers.0.clone()));
        Some(Self(opener))
    }

    /// Reads some bytes; `receive` gets what is on the wire. 0: the other end has closed.
    ///
    /// # Errors
    /// Those of `receive`; [`io::ErrorKind::InvalidData`] for what the other end did not seal.
    pub fn read(&mut self, into: &mut [u8], receive: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        self.0.read(into, receive)
    }

    /// As [`OpeningHalf::read`], as a reader does who waits until all of `into` is there. `receive` hears whether it may
    /// wait until all of its room is filled.
    ///
    /// # Errors
    /// As [`OpeningHalf::read`].
    pub fn read_whole(
        &mut self,
        into: &mut [u8],
        mut receive: impl FnMut(&mut [u8], bool) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.0.read_whole(into, |room, fill| receive(room, fill == Fill::All))
    }
}
