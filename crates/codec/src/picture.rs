//! Codecs by name, and how pictures lie in memory.

use std::fmt;

use crate::error::{Error, Kind};

/// A video codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// H.264 (AVC), in chunks of one access unit with start codes (Annex B).
    H264,
    /// H.265 (HEVC), in chunks of one access unit with start codes (Annex B).
    Hevc,
    /// AV1, in chunks of one temporal unit: OBUs that say their sizes, as in an IVF file.
    Av1,
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Codec::H264 => "H.264",
            Codec::Hevc => "HEVC",
            Codec::Av1 => "AV1",
        })
    }
}

/// How a picture lies in memory, without gaps between its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PixelFormat {
    /// 8-bit samples: all of luma, then chroma at half of the width and height (rounded up), Cb and Cr by turns.
    Nv12,
    /// 8 bits each of red, green, blue and alpha.
    Rgba,
}

impl PixelFormat {
    /// Bytes from one row to the next; of NV12's luma (its chroma has rows of as many bytes, or one more if that is odd).
    pub fn row_bytes(self, width: u32) -> usize {
        match self {
            PixelFormat::Nv12 => width as usize,
            PixelFormat::Rgba => width as usize * 4,
        }
    }

    /// Bytes of a whole picture.
    pub fn bytes(self, width: u32, height: u32) -> usize {
        let luma = self.row_bytes(width) * height as usize;
        match self {
            PixelFormat::Nv12 => luma + chroma_row(width) * chroma_rows(height),
            PixelFormat::Rgba => luma,
        }
    }
}

/// Bytes of a row of NV12's chroma.
pub(crate) fn chroma_row(width: u32) -> usize {
    width.div_ceil(2) as usize * 2
}

/// Rows of NV12's chroma.
pub(crate) fn chroma_rows(height: u32) -> usize {
    height.div_ceil(2) as usize
}

/// Holds a picture's size against the largest that is allowed.
pub(crate) fn within(codec: Codec, (width, height): (u32, u32), most: (u32, u32)) -> Result<(), Error> {
    if width > most.0 || height > most.1 {
        return Err(Error::new(
            Kind::TooLarge,
            format!(
                "the {codec} stream has frames of {width} x {height}; this decoder takes up to {} x {}",
                most.0, most.1
            ),
        ));
    }
    Ok(())
}
