//! H.264 and HEVC in byte stream format (Annex B of both): into access units, which is one picture each with what
//! belongs to it.

use bytes::Bytes;
use memchr::memmem;

use super::error::CutError;
use super::pieces::give;
use crate::declaration::Format;

/// What every NAL unit begins with.
const START: [u8; 3] = [0, 0, 1];

/// What a unit is called in errors.
const UNIT: &str = "an access unit";

/// What a NAL unit means for where access units begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nal {
    /// The first slice of a picture.
    FirstSlice,
    /// Another slice.
    Slice,
    /// Begins an access unit if it comes after a slice.
    Before,
    /// Belongs to the access unit that it stands in.
    Within,
    /// Cannot be in such a stream.
    Wrong(&'static str),
}

/// How a codec's NAL units look.
#[derive(Debug)]
pub(super) struct Codec {
    format: Format,
    /// How many bytes of a NAL unit say what it is.
    needed: usize,
    nal: fn(&[u8]) -> Nal,
}

pub(super) const H264: Codec = Codec { format: Format::H264, needed: 2, nal: h264 };
pub(super) const HEVC: Codec = Codec { format: Format::Hevc, needed: 3, nal: hevc };

/// ITU-T H.264, 7.4.1.2.3. Of the conditions by which slices belong to different pictures (7.4.1.2.4), the one that needs
/// no parameter sets: a picture's first slice has its first macroblock.
fn h264(nal: &[u8]) -> Nal {
    let Some(&header) = nal.first() else { return Nal::Within };
    if header & 0x80 != 0 {
        return Nal::Wrong("a NAL unit has its forbidden bit set");
    }
    match header & 0x1f {
        // first_mb_in_slice is an Exp-Golomb number: 0 is a single set bit.
        1 | 2 | 5 if nal.get(1).is_some_and(|byte| byte & 0x80 != 0) => Nal::FirstSlice,
        1..=5 => Nal::Slice,
        6..=9 | 14..=18 => Nal::Before,
        _ => Nal::Within,
    }
}

/// ITU-T H.265, 7.4.2.4.4.
fn hevc(nal: &[u8]) -> Nal {
    let Some(&[first, second]) = nal.first_chunk() else { return Nal::Within };
    if first & 0x80 != 0 {
        return Nal::Wrong("a NAL unit has its forbidden bit set");
    }
    if second & 7 == 0 {
        return Nal::Wrong("a NAL unit has no temporal layer");
    }
    let is_base = first & 1 == 0 && second >> 3 == 0;
    match first >> 1 {
        0..=31 if is_base && nal.get(2).is_some_and(|byte| byte & 0x80 != 0) => Nal::FirstSlice,
        0..=31 => Nal::Slice,
        32..=35 | 39 | 41..=44 | 48..=55 if is_base => Nal::Before,
        _ => Nal::Within,
    }
}

/// Each NAL unit of a chunk, from its header on, up to the chunk's end.
pub(super) fn nals(chunk: &[u8]) -> impl Iterator<Item = &[u8]> {
    memmem::find_iter(chunk, &START).map(|at| &chunk[at + START.len()..])
}

/// Cuts one.
#[derive(Debug)]
pub(super) struct AnnexB {
    codec: &'static Codec,
    most: usize,
    /// The access unit so far, and perhaps the beginning of the next.
    buffer: Vec<u8>,
    /// Where the next start code is looked for.
    from: usize,
    /// Whether there was a start code.
    begun: bool,
    /// Whether the unit has a slice.
    has_slice: bool,
}

impl AnnexB {
    pub(super) fn new(codec: &'static Codec, most: usize) -> Self {
        Self { codec, most, buffer: Vec::new(), from: 0, begun: false, has_slice: false }
    }

    pub(super) fn push(&mut self, bytes: &[u8], chunks: &mut impl Extend<Bytes>) -> Result<(), CutError> {
        self.buffer.extend_from_slice(bytes);
        let mut unit = 0;
        let result = self.cut(&mut unit, self.codec.needed, chunks);
        self.buffer.drain(..unit);
        self.from -= unit;
        result?;
        // The beginning of the next unit may be in there: its start code, of four bytes, and what says that it is one.
        let next = 1 + START.len() + self.codec.needed;
        if self.buffer.len() > self.most + next { Err(self.too_large()) } else { Ok(()) }
    }

    pub(super) fn finish(&mut self, chunks: &mut impl Extend<Bytes>) -> Result<(), CutError> {
        let mut unit = 0;
        self.cut(&mut unit, 0, chunks)?;
        if self.buffer.len() == unit {
            return Ok(());
        }
        if !self.begun {
            return Err(self.not("it does not begin with a start code"));
        }
        if !self.has_slice {
            return Err(CutError::Truncated(UNIT));
        }
        self.give(unit, self.buffer.len(), chunks)?;
        self.buffer.clear();
        self.from = 0;
        Ok(())
    }

    /// Gives the units that have ended. The current one begins at `unit`; `needed` bytes have to follow a start code.
    fn cut(&mut self, unit: &mut usize, needed: usize, chunks: &mut impl Extend<Bytes>) -> Result<(), CutError> {
        while let Some(at) = memmem::find(&self.buffer[self.from..], &START).map(|at| self.from + at) {
            if !self.begun && self.buffer[..at].iter().any(|&byte| byte != 0) {
                return Err(self.not("it does not begin with a start code"));
            }
            let nal = at + START.len();
            if self.buffer.len() < nal + needed {
                self.from = at;
                return Ok(());
            }
            self.begun = true;
            let meaning = (self.codec.nal)(&self.buffer[nal..]);
            if let Nal::Wrong(why) = meaning {
                return Err(self.not(why));
            }
            if self.has_slice && matches!(meaning, Nal::FirstSlice | Nal::Before) {
                // A fourth byte of the start code is its first.
                let end = if at > *unit && self.buffer[at - 1] == 0 { at - 1 } else { at };
                self.give(*unit, end, chunks)?;
                (*unit, self.has_slice) = (end, false);
            }
            self.has_slice |= matches!(meaning, Nal::FirstSlice | Nal::Slice);
            self.from = nal;
        }
        // The last two bytes may be the beginning of a start code.
        self.from = self.from.max((self.buffer.len() + 1).saturating_sub(START.len()));
        if !self.begun && self.buffer[..self.from].iter().any(|&byte| byte != 0) {
            return Err(self.not("it does not begin with a start code"));
        }
        Ok(())
    }

    fn give(&self, from: usize, to: usize, chunks: &mut impl Extend<Bytes>) -> Result<(), CutError> {
        if to - from > self.most {
            return Err(self.too_large());
        }
        give(Bytes::copy_from_slice(&self.buffer[from..to]), chunks);
        Ok(())
    }

    /// The bytes that it has memory for.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.buffer.len()
    }

    fn too_large(&self) -> CutError {
        CutError::TooLarge { unit: UNIT, most: self.most }
    }

    fn not(&self, why: &'static str) -> CutError {
        CutError::NotThat { format: self.codec.format, why }
    }
}
