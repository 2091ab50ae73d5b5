//! Pictures between libav's memory and a program's.

use crate::error::{Error, Kind};
use crate::libav::{Api, Conversion, Scaler, Surface};
use crate::picture::PixelFormat;

/// How a stream's colours are to be read: libav's numbers of its matrix and its range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colours {
    pub(crate) matrix: i32,
    pub(crate) range: i32,
}

/// Of what says nothing of its colours: AVCOL_SPC_UNSPECIFIED and AVCOL_RANGE_UNSPECIFIED, which libswscale takes for BT.601 and the
/// smaller range.
const UNSAID: Colours = Colours { matrix: 2, range: 0 };

/// Carries pictures over. What needs no arithmetic is copied row by row; the rest is libswscale's.
pub(crate) struct Converter {
    api: &'static Api,
    scaler: Option<(Scaler, Surface)>,
    /// A picture of NV12 in planes.
    parted: Option<Surface>,
}

impl Converter {
    pub(crate) fn new(api: &'static Api) -> Self {
        Self { api, scaler: None, parted: None }
    }

    /// Writes a picture into `to`, without gaps between its rows, and says how many bytes that were. Asks for its colours where it takes
    /// arithmetic.
    pub(crate) fn write(
        &mut self,
        from: &Surface,
        colours: impl FnOnce() -> Colours,
        format: PixelFormat,
        to: &mut [u8],
    ) -> Result<usize, Error> {
        let (width, height) = from.size();
        let bytes = format.bytes(width, height);
        let room = to.len();
        let to = to.get_mut(..bytes).ok_or_else(|| {
            let sentence = format!("a frame of {width} x {height} takes {bytes} bytes, and the buffer has {room}");
            Error::new(Kind::BufferTooSmall, sentence)
        })?;
        let planar = self.api.formats.planar(from.format());
        if format == PixelFormat::Nv12 && planar {
            weave(from, to)?;
        } else if from.format() == self.api.formats.of(format) {
            copy(from, to)?;
        } else if from.format() == self.api.formats.nv12 {
            // Hardware's: libswscale would go another way than with the processor's planes, and end elsewhere.
            let mut planes = match self.parted.take().filter(|kept| kept.size() == from.size()) {
                Some(kept) => kept,
                None => Surface::with_memory(self.api, width, height, self.api.formats.yuv420p)?,
            };
            part(from, &mut planes)?;
            copy(self.scale(&planes, colours(), self.api.formats.of(format))?, to)?;
            self.parted = Some(planes);
        } else {
            copy(self.scale(from, colours(), self.api.formats.of(format))?, to)?;
        }
        Ok(bytes)
    }

    /// Reads a picture that lies in `from` without gaps between its rows into `to`, whose format is one that the encoder takes.
    pub(crate) fn read(&mut self, from: &[u8], format: PixelFormat, to: &mut Surface) -> Result<(), Error> {
        let (width, height) = to.size();
        let bytes = format.bytes(width, height);
        let from = from.get(..bytes).ok_or_else(|| {
            let sentence =
                format!("a frame of {width} x {height} has {bytes} bytes, and only {} are there", from.len());
            Error::new(Kind::BadArgument, sentence)
        })?;
        if to.format() == self.api.formats.of(format) {
            return paste(from, to);
        }
        if format == PixelFormat::Nv12 && self.api.formats.planar(to.format()) {
            return unweave(from, to);
        }
        let mut whole = Surface::with_memory(self.api, width, height, self.api.formats.of(format))?;
        paste(from, &mut whole)?;
        let scaled = self.scale(&whole, UNSAID, to.format())?;
        for plane in 0..3 {
            for row in 0..scaled.rows(plane).map_or(0, |(rows, _)| rows) {
                to.write(plane, row)?.copy_from_slice(scaled.read(plane, row)?);
            }
        }
        Ok(())
    }

    fn scale(&mut self, from: &Surface, colours: Colours, to: i32) -> Result<&Surface, Error> {
        let conversion =
            Conversion { size: from.size(), from: from.format(), to, matrix: colours.matrix, range: colours.range };
        // Taken out, so that one whose conversion is another's goes before the next is made.
        let kept = self.scaler.take().filter(|(scaler, _)| scaler.conversion() == conversion);
        let kept = match kept {
            Some(kept) => kept,
            None => {
                let (width, height) = conversion.size;
                (Scaler::new(self.api, conversion)?, Surface::with_memory(self.api, width, height, to)?)
            }
        };
        let (scaler, surface) = self.scaler.insert(kept);
        scaler.convert(from, surface)?;
        Ok(surface)
    }
}

/// The planes of one format, row by row.
fn copy(from: &Surface, mut to: &mut [u8]) -> Result<(), Error> {
    for plane in 0..2 {
        for row in 0..from.rows(plane).map_or(0, |(rows, _)| rows) {
            let bytes = from.read(plane, row)?;
            let (head, tail) = to.split_at_mut(bytes.len());
            head.copy_from_slice(bytes);
            to = tail;
        }
    }
    Ok(())
}

fn paste(mut from: &[u8], to: &mut Surface) -> Result<(), Error> {
    for plane in 0..2 {
        for row in 0..to.rows(plane).map_or(0, |(rows, _)| rows) {
            let bytes = to.write(plane, row)?;
            let (head, tail) = from.split_at(bytes.len());
            bytes.copy_from_slice(head);
            from = tail;
        }
    }
    Ok(())
}

/// From a plane each for luma, Cb and Cr to NV12.
fn weave(from: &Surface, mut to: &mut [u8]) -> Result<(), Error> {
    for row in 0..from.rows(0).map_or(0, |(rows, _)| rows) {
        let bytes = from.read(0, row)?;
        let (head, tail) = to.split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        to = tail;
    }
    for row in 0..from.rows(1).map_or(0, |(rows, _)| rows) {
        let (blue, red) = (from.read(1, row)?, from.read(2, row)?);
        let (head, tail) = to.split_at_mut(blue.len() * 2);
        for (pair, (blue, red)) in head.as_chunks_mut::<2>().0.iter_mut().zip(blue.iter().zip(red)) {
            *pair = [*blue, *red];
        }
        to = tail;
    }
    Ok(())
}

/// From NV12 to a plane each for luma, Cb and Cr.
fn unweave(mut from: &[u8], to: &mut Surface) -> Result<(), Error> {
    for row in 0..to.rows(0).map_or(0, |(rows, _)| rows) {
        let bytes = to.write(0, row)?;
        let (head, tail) = from.split_at(bytes.len());
        bytes.copy_from_slice(head);
        from = tail;
    }
    for row in 0..to.rows(1).map_or(0, |(rows, _)| rows) {
        let (head, tail) = from.split_at(to.rows(1).map_or(0, |(_, bytes)| bytes * 2));
        let pairs = head.as_chunks::<2>().0;
        for (plane, sample) in [(1, 0), (2, 1)] {
            for (byte, pair) in to.write(plane, row)?.iter_mut().zip(pairs) {
                *byte = pair[sample];
            }
        }
        from = tail;
    }
    Ok(())
}

/// From a picture of NV12 to one with a plane each for luma, Cb and Cr.
fn part(from: &Surface, to: &mut Surface) -> Result<(), Error> {
    for row in 0..to.rows(0).map_or(0, |(rows, _)| rows) {
        to.write(0, row)?.copy_from_slice(from.read(0, row)?);
    }
    for row in 0..to.rows(1).map_or(0, |(rows, _)| rows) {
        for (plane, sample) in [(1, 0), (2, 1)] {
            let pairs = from.read(1, row)?.as_chunks::<2>().0;
            for (byte, pair) in to.write(plane, row)?.iter_mut().zip(pairs) {
                *byte = pair[sample];
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever way a codec has its planes in.
    #[test]
    fn colours_do_not_depend_on_how_the_codec_lays_out_its_planes() {
        let api = Api::get().expect("libav");
        let (width, height) = (322, 182);
        let samples: Vec<u8> =
            (0..PixelFormat::Nv12.bytes(width, height)).map(|at| (at * at / 7 % 251) as u8).collect();
        let written = |format| {
            let mut picture = Surface::with_memory(api, width, height, format).expect("memory");
            let mut converter = Converter::new(api);
            converter.read(&samples, PixelFormat::Nv12, &mut picture).expect("samples");
            let mut rgba = vec![0; PixelFormat::Rgba.bytes(width, height)];
            for _ in 0..2 {
                converter.write(&picture, || UNSAID, PixelFormat::Rgba, &mut rgba).expect("a frame");
            }
            let mut nv12 = vec![0; samples.len()];
            converter.write(&picture, || UNSAID, PixelFormat::Nv12, &mut nv12).expect("a frame");
            assert!(nv12 == samples);
            rgba
        };
        assert!(written(api.formats.nv12) == written(api.formats.yuv420p));
    }
}
