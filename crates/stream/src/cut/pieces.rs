//! Streams without structure, and those in which lengths stand before chunks.

use bytes::Bytes;

use super::error::CutError;

/// A length's bytes.
const LENGTH: usize = size_of::<u32>();

/// Cuts into pieces of the same size, the last of which may be shorter.
#[derive(Debug)]
pub(super) struct Pieces {
    size: usize,
    piece: Vec<u8>,
}

impl Pieces {
    pub(super) fn new(size: usize) -> Self {
        // A declaration has at least one; a piece of nothing would be cut without end.
        Self { size: size.max(1), piece: Vec::new() }
    }

    pub(super) fn push(&mut self, mut bytes: &[u8], chunks: &mut impl Extend<Bytes>) -> Result<(), CutError> {
        while !bytes.is_empty() {
            if fill(&mut self.piece, self.size, &mut bytes) {
                give(std::mem::take(&mut self.piece), chunks);
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, chunks: &mut impl Extend<Bytes>) {
        if !self.piece.is_empty() {
            give(std::mem::take(&mut self.piece), chunks);
        }
    }
}

/// Cuts where lengths say so.
#[derive(Debug)]
pub(super) struct Frames {
    most: usize,
    head: Vec<u8>,
    body: Body,
}

impl Frames {
    pub(super) fn new(most: usize) -> Self {
        Self { most, head: Vec::new(), body: Body::default() }
    }

    pub(super) fn push(&mut self, mut bytes: &[u8], chunks: &mut impl Extend<Bytes>) -> Result<(), CutError> {
        while !bytes.is_empty() {
            if self.body.is_open() {
                self.body.push(&mut bytes, chunks);
                continue;
            }
            if fill(&mut self.head, LENGTH, &mut bytes) {
                let length = self.head.first_chunk().copied().map_or(0, u32::from_le_bytes);
                self.head.clear();
                self.body.open(length, ("a frame", self.most), chunks)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), CutError> {
        if self.body.is_open() || !self.head.is_empty() { Err(CutError::Truncated("a frame")) } else { Ok(()) }
    }
}

/// A chunk whose length is known.
#[derive(Debug, Default)]
pub(super) struct Body {
    length: usize,
    bytes: Vec<u8>,
}

impl Body {
    /// Expects a chunk of `length` bytes, of at most as many; one without bytes is whole at once.
    pub(super) fn open(
        &mut self,
        length: u32,
        (unit, most): (&'static str, usize),
        chunks: &mut impl Extend<Bytes>,
    ) -> Result<(), CutError> {
        self.length =
            usize::try_from(length).ok().filter(|length| *length <= most).ok_or(CutError::TooLarge { unit, most })?;
        if self.length == 0 {
            give(Bytes::new(), chunks);
        }
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        self.length > 0
    }

    pub(super) fn push(&mut self, bytes: &mut &[u8], chunks: &mut impl Extend<Bytes>) {
        if fill(&mut self.bytes, self.length, bytes) {
            self.length = 0;
            give(std::mem::take(&mut self.bytes), chunks);
        }
    }
}

/// Moves bytes until `into` has `size` of them; returns whether it has. A length alone reserves no memory: it may lie.
pub(super) fn fill(into: &mut Vec<u8>, size: usize, from: &mut &[u8]) -> bool {
    let (now, later) = from.split_at(from.len().min(size.saturating_sub(into.len())));
    into.extend_from_slice(now);
    *from = later;
    into.len() >= size
}

/// Appends one.
pub(super) fn give(chunk: impl Into<Bytes>, chunks: &mut impl Extend<Bytes>) {
    chunks.extend(std::iter::once(chunk.into()));
}
