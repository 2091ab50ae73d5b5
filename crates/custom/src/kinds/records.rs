//! What kernels read and write beside streams' bytes: `cl_chunk_ropeway`, `cl_frame_ropeway` and `cl_points_ropeway` of
//! `include/CL/cl_ropeway_custom_devices.h`, in the machine's byte order; and how codecs' failures end commands.

use ropeway_abi as cl;
use ropeway_abi::ropeway::custom;
use ropeway_codec::{Error, Kind, PixelFormat};

use crate::kind::Failure;

/// `cl_chunk_ropeway`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChunkRecord {
    /// Bytes.
    pub size: u64,
    /// Its number in its stream.
    pub sequence: u64,
    /// Chunks that were dropped so far.
    pub dropped: u64,
    /// Nanoseconds since the stream began.
    pub time: u64,
}

impl ChunkRecord {
    /// Bytes of the record.
    pub const SIZE: usize = 32;

    /// Reads one.
    ///
    /// # Panics
    /// If there are fewer bytes than it has: the signature says how many there must be.
    pub fn read(from: &[u8]) -> Self {
        let word = |at: usize| u64::from_ne_bytes(from[at..at + 8].try_into().expect("eight bytes"));
        Self { size: word(0), sequence: word(8), dropped: word(16), time: word(24) }
    }

    /// Writes it.
    ///
    /// # Panics
    /// As [`ChunkRecord::read`].
    pub fn write(self, to: &mut [u8]) {
        let words = [self.size, self.sequence, self.dropped, self.time];
        for (place, word) in to[..Self::SIZE].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
    }

    /// The chunk within its buffer.
    ///
    /// # Errors
    /// The record says more bytes than the buffer has.
    pub fn of(self, buffer: &[u8]) -> Result<&[u8], Failure> {
        usize::try_from(self.size).ok().and_then(|size| buffer.get(..size)).ok_or_else(|| {
            let text = format!("the chunk is said to have {} bytes, and its buffer has {}", self.size, buffer.len());
            Failure::new(custom::CL_STREAM_INVALID_ROPEWAY, text)
        })
    }
}

/// `cl_frame_ropeway`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameRecord {
    /// Bytes; 0 if there is no frame.
    pub size: u64,
    /// Its number among the frames of its stream.
    pub sequence: u64,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// Bytes.
    pub row_pitch: u32,
    /// The number of the format.
    pub format: u32,
}

impl FrameRecord {
    /// Bytes of the record.
    pub const SIZE: usize = 32;

    /// Writes it.
    ///
    /// # Panics
    /// If there are fewer bytes than it has: the signature says how many there must be.
    pub fn write(self, to: &mut [u8]) {
        to[..8].copy_from_slice(&self.size.to_ne_bytes());
        to[8..16].copy_from_slice(&self.sequence.to_ne_bytes());
        let words = [self.width, self.height, self.row_pitch, self.format];
        for (place, word) in to[16..Self::SIZE].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
    }
}

/// `cl_points_ropeway`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PointsRecord {
    /// Bytes of positions.
    pub size: u64,
    /// Points.
    pub count: u64,
}

impl PointsRecord {
    /// Bytes of the record.
    pub const SIZE: usize = 16;

    /// Writes it.
    ///
    /// # Panics
    /// If there are fewer bytes than it has: the signature says how many there must be.
    pub fn write(self, to: &mut [u8]) {
        to[..8].copy_from_slice(&self.size.to_ne_bytes());
        to[8..Self::SIZE].copy_from_slice(&self.count.to_ne_bytes());
    }
}

/// The pixel format with this number (CL_FRAME_NV12_ROPEWAY, CL_FRAME_RGBA_ROPEWAY).
///
/// # Errors
/// There is none.
pub fn pixel_format(number: u32) -> Result<PixelFormat, Failure> {
    match number {
        0 => Ok(PixelFormat::Nv12),
        1 => Ok(PixelFormat::Rgba),
        _ => Err(Failure::new(
            cl::CL_INVALID_ARG_VALUE,
            format!("no frame has the format {number}; 0 is NV12, 1 is RGBA"),
        )),
    }
}

/// The number of a pixel format.
pub fn format_number(format: PixelFormat) -> u32 {
    match format {
        PixelFormat::Nv12 => 0,
        PixelFormat::Rgba => 1,
    }
}

/// How a codec's failure ends a command.
pub fn failure(error: &Error) -> Failure {
    let status = match error.kind() {
        Kind::BadStream => custom::CL_STREAM_INVALID_ROPEWAY,
        Kind::TooLarge => custom::CL_FRAME_TOO_LARGE_ROPEWAY,
        Kind::BufferTooSmall => custom::CL_BUFFER_TOO_SMALL_ROPEWAY,
        Kind::NoLibrary => custom::CL_LIBRARY_MISSING_ROPEWAY,
        Kind::BadArgument => cl::CL_INVALID_ARG_VALUE,
        Kind::Full => cl::CL_OUT_OF_RESOURCES,
        Kind::OutOfMemory => cl::CL_OUT_OF_HOST_MEMORY,
    };
    Failure::new(status, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_laid_out_as_in_the_header() {
        let chunk = ChunkRecord { size: 1, sequence: 2, dropped: 3, time: 4 };
        let mut bytes = [0; ChunkRecord::SIZE];
        chunk.write(&mut bytes);
        assert_eq!(ChunkRecord::read(&bytes), chunk);
        assert_eq!(bytes[24..], 4_u64.to_ne_bytes());
        let mut bytes = [0; FrameRecord::SIZE];
        FrameRecord { size: 1, sequence: 2, width: 3, height: 4, row_pitch: 5, format: 6 }.write(&mut bytes);
        assert_eq!(bytes[8..16], 2_u64.to_ne_bytes());
        assert_eq!(bytes[16..], [3_u32, 4, 5, 6].map(u32::to_ne_bytes).concat());
    }

    #[test]
    fn a_chunk_is_within_its_buffer() {
        let of = |size| ChunkRecord { size, ..ChunkRecord::default() }.of(b"abc").map(<[u8]>::len);
        assert_eq!((of(0), of(3)), (Ok(0), Ok(3)));
        for size in [4, 1 << 40, u64::MAX] {
            assert_eq!(of(size).unwrap_err().status, custom::CL_STREAM_INVALID_ROPEWAY);
        }
    }
}
