//! What a chunk's headers claim, read before any codec sees it.
//!
//! H.264: ITU-T H.264, 7.3.2.1 (sequence parameter sets). HEVC: ITU-T H.265, 7.3.2.2 and 7.3.3. AV1: the AV1 bitstream
//! specification, 5.5.

use crate::error::{Error, Kind};
use crate::picture::Codec;

/// Refuses a chunk of another codec that the codec itself would pass over without a word: AV1 says that units of unknown types
/// are ignored, and a start code reads as one of these.
pub(crate) fn check(codec: Codec, chunk: &[u8]) -> Result<(), Error> {
    let known = |header: &u8| header & 0x80 == 0 && matches!(header >> 3 & 15, 1..=8 | 15);
    if codec == Codec::Av1 && !chunk.first().is_some_and(known) {
        return Err(Error::new(Kind::BadStream, "the AV1 stream is broken here, or is of another codec"));
    }
    Ok(())
}

/// The largest width and height that headers at the beginning of the chunk claim, in pixels. None where it has no such header, or one
/// that cannot be read: the codec says what it thinks of that.
pub(crate) fn size(codec: Codec, chunk: &[u8]) -> Option<(u32, u32)> {
    match codec {
        Codec::H264 => parameter_sets(chunk, |unit| match unit.first()? & 0x1F {
            7 => Some(Unit::Size(h264(&unescaped(&unit[1..])))),
            1..=5 => Some(Unit::Picture),
            _ => None,
        }),
        Codec::Hevc => parameter_sets(chunk, |unit| match (unit.first()? >> 1) & 0x3F {
            33 => Some(Unit::Size(hevc(&unescaped(unit.get(2..)?)))),
            0..=31 => Some(Unit::Picture),
            _ => None,
        }),
        Codec::Av1 => av1(chunk),
    }
}

enum Unit {
    Size(Option<(u32, u32)>),
    /// A part of a picture: headers come before that.
    Picture,
}

/// Goes through the units of a stream with start codes.
fn parameter_sets(chunk: &[u8], look: impl Fn(&[u8]) -> Option<Unit>) -> Option<(u32, u32)> {
    let mut largest = None;
    let mut at = 0;
    while let Some(found) = chunk.get(at..)?.windows(3).position(|window| window == [0, 0, 1]) {
        at += found + 3;
        match look(&chunk[at..]) {
            Some(Unit::Size(Some((width, height)))) => {
                let (most_width, most_height) = largest.unwrap_or((0, 0));
                largest = Some((width.max(most_width), height.max(most_height)));
            }
            Some(Unit::Picture) => break,
            _ => {}
        }
    }
    largest
}

/// No parameter set that counts is longer: those of HEVC have lists of a few hundred bytes behind the sizes.
const LONGEST: usize = 1024;

/// A unit's beginning without the bytes that keep start codes out of it, to its end at most.
fn unescaped(unit: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut zeros = 0;
    for &byte in unit.iter().take(LONGEST) {
        if zeros >= 2 && byte <= 3 {
            if byte < 3 {
                break;
            }
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        bytes.push(byte);
    }
    bytes
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn bit(&mut self) -> Option<u32> {
        let byte = *self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(bit.into())
    }

    /// Up to 32 bits, the highest first.
    fn bits(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0_u32, |value, _| Some(value << 1 | self.bit()?))
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.at = self.at.checked_add(count)?;
        Some(())
    }

    /// Exponential Golomb code: ue(v), and AV1's uvlc().
    fn golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        Some((1_u32 << zeros) - 1 + self.bits(zeros)?)
    }

    /// se(v).
    fn signed_golomb(&mut self) -> Option<i32> {
        let code = i64::from(self.golomb()?);
        i32::try_from(if code % 2 == 1 { (code + 1) / 2 } else { -code / 2 }).ok()
    }
}

/// What is shown of so many coded samples, when units at both ends are cut off.
fn cropped(coded: u64, before: u32, after: u32, unit: u64) -> u32 {
    let cut = (u64::from(before) + u64::from(after)).saturating_mul(unit);
    coded.saturating_sub(cut).try_into().unwrap_or(u32::MAX)
}

/// Of a sequence parameter set behind its first byte.
fn h264(set: &[u8]) -> Option<(u32, u32)> {
    let bits = &mut Bits { bytes: set, at: 0 };
    let profile = bits.bits(8)?;
    bits.skip(16)?;
    bits.golomb()?;
    let mut chroma = 1;
    if [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135].contains(&profile) {
        chroma = bits.golomb()?;
        if chroma == 3 {
            bits.skip(1)?;
        }
        bits.golomb()?;
        bits.golomb()?;
        bits.skip(1)?;
        if bits.bit()? == 1 {
            let lists = if chroma == 3 { 12 } else { 8 };
            for list in 0..lists {
                if bits.bit()? == 1 {
                    skip_scaling_list(bits, if list < 6 { 16 } else { 64 })?;
                }
            }
        }
    }
    bits.golomb()?;
    match bits.golomb()? {
        0 => drop(bits.golomb()?),
        1 => {
            bits.skip(1)?;
            bits.signed_golomb()?;
            bits.signed_golomb()?;
            for _ in 0..bits.golomb()?.min(255) {
                bits.signed_golomb()?;
            }
        }
        _ => {}
    }
    bits.golomb()?;
    bits.skip(1)?;
    let width = (u64::from(bits.golomb()?) + 1) * 16;
    let units = u64::from(bits.golomb()?) + 1;
    let whole_frames = bits.bit()?;
    let height = units * 16 * u64::from(2 - whole_frames);
    if whole_frames == 0 {
        bits.skip(1)?;
    }
    bits.skip(1)?;
    if bits.bit()? == 0 {
        return Some((cropped(width, 0, 0, 1), cropped(height, 0, 0, 1)));
    }
    let (left, right, top, bottom) = (bits.golomb()?, bits.golomb()?, bits.golomb()?, bits.golomb()?);
    let unit_width = if matches!(chroma, 1 | 2) { 2 } else { 1 };
    let unit_height = if chroma == 1 { 2 } else { 1 } * u64::from(2 - whole_frames);
    Some((cropped(width, left, right, unit_width), cropped(height, top, bottom, unit_height)))
}

fn skip_scaling_list(bits: &mut Bits<'_>, size: usize) -> Option<()> {
    let (mut last, mut next) = (8_i64, 8_i64);
    for _ in 0..size {
        if next != 0 {
            next = (last + i64::from(bits.signed_golomb()?)).rem_euclid(256);
        }
        if next != 0 {
            last = next;
        }
    }
    Some(())
}

/// Of a sequence parameter set behind its first two bytes.
fn hevc(set: &[u8]) -> Option<(u32, u32)> {
    let bits = &mut Bits { bytes: set, at: 0 };
    bits.skip(4)?;
    let layers = bits.bits(3)?;
    bits.skip(1 + 96)?;
    let mut present = Vec::new();
    for _ in 0..layers {
        present.push((bits.bit()?, bits.bit()?));
    }
    if layers > 0 {
        bits.skip(2 * (8 - layers as usize))?;
    }
    for (profile, level) in present {
        bits.skip(88 * profile as usize + 8 * level as usize)?;
    }
    bits.golomb()?;
    let chroma = bits.golomb()?;
    if chroma == 3 {
        bits.skip(1)?;
    }
    let (width, height) = (u64::from(bits.golomb()?), u64::from(bits.golomb()?));
    if bits.bit()? == 0 {
        return Some((cropped(width, 0, 0, 1), cropped(height, 0, 0, 1)));
    }
    let (left, right, top, bottom) = (bits.golomb()?, bits.golomb()?, bits.golomb()?, bits.golomb()?);
    let unit_width = if matches!(chroma, 1 | 2) { 2 } else { 1 };
    let unit_height = if chroma == 1 { 2 } else { 1 };
    Some((cropped(width, left, right, unit_width), cropped(height, top, bottom, unit_height)))
}

/// Goes through the open bitstream units of a temporal unit to its sequence header.
fn av1(mut chunk: &[u8]) -> Option<(u32, u32)> {
    loop {
        let header = *chunk.first()?;
        chunk = chunk.get(1 + usize::from(header >> 2 & 1)..)?;
        let mut length = chunk.len();
        if header & 2 != 0 {
            let (mut value, mut bytes) = (0_u64, 0);
            loop {
                let byte = *chunk.get(bytes)?;
                value |= u64::from(byte & 0x7F) << (7 * bytes);
                bytes += 1;
                if byte & 0x80 == 0 {
                    break;
                }
                if bytes == 8 {
                    return None;
                }
            }
            chunk = &chunk[bytes..];
            length = usize::try_from(value).ok()?;
        }
        match header >> 3 & 15 {
            1 => return av1_sequence(chunk.get(..length)?),
            // Frames: headers come before them.
            3 | 6 => return None,
            _ => chunk = chunk.get(length..)?,
        }
    }
}

fn av1_sequence(header: &[u8]) -> Option<(u32, u32)> {
    let bits = &mut Bits { bytes: header, at: 0 };
    bits.skip(4)?;
    if bits.bit()? == 1 {
        bits.skip(5)?;
    } else {
        let mut delay_bits = None;
        if bits.bit()? == 1 {
            bits.skip(64)?;
            if bits.bit()? == 1 {
                bits.golomb()?;
            }
            if bits.bit()? == 1 {
                delay_bits = Some(bits.bits(5)? as usize + 1);
                bits.skip(32 + 10)?;
            }
        }
        let display_delay = bits.bit()?;
        for _ in 0..=bits.bits(5)? {
            bits.skip(12)?;
            if bits.bits(5)? > 7 {
                bits.skip(1)?;
            }
            if let Some(delay_bits) = delay_bits
                && bits.bit()? == 1
            {
                bits.skip(2 * delay_bits + 1)?;
            }
            if display_delay == 1 && bits.bit()? == 1 {
                bits.skip(4)?;
            }
        }
    }
    let (width, height) = (bits.bits(4)? + 1, bits.bits(4)? + 1);
    Some((bits.bits(width)? + 1, bits.bits(height)? + 1))
}
