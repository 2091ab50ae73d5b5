//! Where someone who comes late can begin.

use super::annex_b::nals;
use crate::declaration::Format;

/// Whether a decoder can begin with this chunk of a stream that has begun before.
pub fn begins(format: Format, chunk: &[u8]) -> bool {
    match format {
        Format::Bytes | Format::Frames => true,
        // With the parameter sets, or a picture that needs no other (IDR).
        Format::H264 => nals(chunk).any(|nal| nal.first().is_some_and(|header| matches!(header & 0x1f, 5 | 7))),
        // The same: intra random access points, and the video and sequence parameter sets.
        Format::Hevc => {
            nals(chunk).any(|nal| nal.first().is_some_and(|header| matches!(header >> 1 & 0x3f, 16..=23 | 32 | 33)))
        }
        Format::Ivf => has_sequence_header(chunk),
    }
}

/// Whether a temporal unit of AV1 has a sequence header among its OBUs (AV1 bitstream specification, 5.3).
fn has_sequence_header(mut unit: &[u8]) -> bool {
    const SEQUENCE_HEADER: u8 = 1;
    while let Some((&header, rest)) = unit.split_first() {
        if header >> 3 & 15 == SEQUENCE_HEADER {
            return true;
        }
        let (has_extension, has_size) = (header & 4 != 0, header & 2 != 0);
        let rest = if has_extension { rest.get(1..).unwrap_or_default() } else { rest };
        if !has_size {
            return false;
        }
        let Some((size, length)) = leb128(rest) else { return false };
        let Some(next) = length.checked_add(size).and_then(|end| rest.get(end..)) else { return false };
        unit = next;
    }
    false
}

/// A number of at most 8 bytes, each with 7 bits of it, and how many bytes it has.
fn leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, at + 1));
        }
    }
    None
}
