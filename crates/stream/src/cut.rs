//! A stream's bytes, cut into chunks: as they come, however few or many at a time, with no more memory than one chunk
//! and what was handed in last.

use bytes::Bytes;

use crate::declaration::{Declaration, Format};

mod annex_b;
mod begins;
mod error;
mod ivf;
mod pieces;

pub use begins::begins;
pub use error::CutError;

/// Cuts one stream.
#[derive(Debug)]
pub struct Cutter {
    kind: Kind,
    /// What was wrong with the stream; nothing more comes from it then.
    failed: Option<CutError>,
}

#[derive(Debug)]
enum Kind {
    Bytes(pieces::Pieces),
    Frames(pieces::Frames),
    AnnexB(annex_b::AnnexB),
    Ivf(ivf::Ivf),
}

impl Cutter {
    /// One for the stream of this declaration.
    pub fn new(declaration: &Declaration) -> Self {
        let most = declaration.most;
        let kind = match declaration.format {
            Format::Bytes => Kind::Bytes(pieces::Pieces::new(declaration.chunk)),
            Format::Frames => Kind::Frames(pieces::Frames::new(most)),
            Format::H264 => Kind::AnnexB(annex_b::AnnexB::new(&annex_b::H264, most)),
            Format::Hevc => Kind::AnnexB(annex_b::AnnexB::new(&annex_b::HEVC, most)),
            Format::Ivf => Kind::Ivf(ivf::Ivf::new(most)),
        };
        Self { kind, failed: None }
    }

    /// Takes the stream's next bytes, and appends the chunks that are whole now to `chunks`.
    ///
    /// # Errors
    /// The stream is not what it says; the same error from then on.
    pub fn push(&mut self, bytes: &[u8], chunks: &mut impl Extend<Bytes>) -> Result<(), CutError> {
        self.unless_failed(|kind| match kind {
            Kind::Bytes(cut) => cut.push(bytes, chunks),
            Kind::Frames(cut) => cut.push(bytes, chunks),
            Kind::AnnexB(cut) => cut.push(bytes, chunks),
            Kind::Ivf(cut) => cut.push(bytes, chunks),
        })
    }

    /// Takes the stream's end, and appends what is the last chunk by that.
    ///
    /// # Errors
    /// The stream ends within a chunk, or was not what it says.
    pub fn finish(&mut self, chunks: &mut impl Extend<Bytes>) -> Result<(), CutError> {
        self.unless_failed(|kind| match kind {
            Kind::Bytes(cut) => {
                cut.finish(chunks);
                Ok(())
            }
            Kind::Frames(cut) => cut.finish(),
            Kind::AnnexB(cut) => cut.finish(chunks),
            Kind::Ivf(cut) => cut.finish(),
        })
    }

    fn unless_failed(&mut self, step: impl FnOnce(&mut Kind) -> Result<(), CutError>) -> Result<(), CutError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        step(&mut self.kind).inspect_err(|error| self.failed = Some(error.clone()))
    }
}

#[cfg(test)]
mod tests;
