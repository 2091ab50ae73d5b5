//! A picture in libav's memory.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::slice;

use super::functions::Api;
use super::layout::AVFrame;
use crate::error::{Error, Kind};
use crate::picture::{chroma_row, chroma_rows};

/// A picture in libav's memory: planes whose rows have gaps between them.
pub(crate) struct Surface {
    api: &'static Api,
    frame: NonNull<AVFrame>,
    /// Whether it was made with memory for itself, and not filled by a decoder.
    own: bool,
}

// SAFETY: a frame is memory and counted references to it, counted atomically.
unsafe impl Send for Surface {}

impl Surface {
    /// One without contents.
    pub(crate) fn new(api: &'static Api) -> Result<Self, Error> {
        // SAFETY: the function takes nothing.
        let frame = unsafe { (api.util.av_frame_alloc)() };
        Ok(Self { api, frame: NonNull::new(frame).ok_or_else(Error::no_memory)?, own: false })
    }

    /// One with memory of its own, whose contents are not defined.
    pub(crate) fn with_memory(api: &'static Api, width: u32, height: u32, format: c_int) -> Result<Self, Error> {
        let mut surface = Self::new(api)?;
        // SAFETY: the frame is this object's and empty. av_frame_get_buffer holds the members against each other.
        let status = unsafe {
            let frame = surface.frame.as_mut();
            frame.width = width.try_into().unwrap_or(c_int::MAX);
            frame.height = height.try_into().unwrap_or(c_int::MAX);
            frame.format = format;
            (api.util.av_frame_get_buffer)(surface.frame.as_ptr(), 0)
        };
        match status {
            0.. => {
                surface.own = true;
                Ok(surface)
            }
            -12 => Err(Error::no_memory()),
            _ => Err(Error::new(Kind::BadArgument, format!("no picture has {width} x {height} pixels"))),
        }
    }

    /// For a decoder to fill.
    pub(super) fn as_ptr(&mut self) -> *mut AVFrame {
        self.own = false;
        self.frame.as_ptr()
    }

    pub(super) fn as_const_ptr(&self) -> *const AVFrame {
        self.frame.as_ptr()
    }

    /// Gives its memory back.
    pub(crate) fn clear(&mut self) {
        self.own = false;
        // SAFETY: the frame is this object's.
        unsafe { (self.api.util.av_frame_unref)(self.frame.as_ptr()) };
    }

    fn head(&self) -> &AVFrame {
        // SAFETY: the frame is there as long as this object, and begins as `AVFrame` says.
        unsafe { self.frame.as_ref() }
    }

    /// Width and height, in pixels.
    pub(crate) fn size(&self) -> (u32, u32) {
        (self.head().width.try_into().unwrap_or(0), self.head().height.try_into().unwrap_or(0))
    }

    /// libav's number of the pixel format.
    pub(crate) fn format(&self) -> c_int {
        self.head().format
    }

    /// Sets which picture of its stream it is.
    pub(crate) fn set_number(&mut self, number: i64) {
        // SAFETY: as in `head`, and `&mut self` keeps others away.
        unsafe { self.frame.as_mut() }.pts = number;
    }

    /// Where the planes begin and the bytes between their rows.
    pub(super) fn planes(&self) -> (&[*mut u8; 8], &[c_int; 8]) {
        (&self.head().data, &self.head().linesize)
    }

    /// Rows of a plane, and the bytes of each that mean something; none for formats that only libswscale reads and writes.
    pub(crate) fn rows(&self, plane: usize) -> Option<(usize, usize)> {
        let ((width, height), formats) = (self.size(), &self.api.formats);
        let (chroma_height, format) = (chroma_rows(height), self.format());
        match plane {
            0 if format == formats.rgba => Some((height as usize, width as usize * 4)),
            0 if formats.planar(format) || format == formats.nv12 => Some((height as usize, width as usize)),
            1 if format == formats.nv12 => Some((chroma_height, chroma_row(width))),
            1 | 2 if formats.planar(format) => Some((chroma_height, chroma_row(width) / 2)),
            _ => None,
        }
    }

    /// Where a row begins, and its bytes.
    fn row(&self, plane: usize, row: usize) -> Result<(*mut u8, usize), Error> {
        let missing =
            || Error::new(Kind::BadStream, format!("the codec gave a picture without row {row} of plane {plane}"));
        let (rows, bytes) = self.rows(plane).ok_or_else(missing)?;
        let (data, line) = (self.head().data[plane], self.head().linesize[plane] as isize);
        // A codec may turn pictures upside down, by lines of negative size.
        if data.is_null() || line.unsigned_abs() < bytes || row >= rows {
            return Err(missing());
        }
        Ok((data.wrapping_offset(line * row as isize), bytes))
    }

    /// A row of a plane.
    pub(crate) fn read(&self, plane: usize, row: usize) -> Result<&[u8], Error> {
        let (from, bytes) = self.row(plane, row)?;
        // SAFETY: libav's pictures have all rows of their size and format; `row` holds the number against these.
        Ok(unsafe { slice::from_raw_parts(from, bytes) })
    }

    /// A row of a plane, to be written.
    pub(crate) fn write(&mut self, plane: usize, row: usize) -> Result<&mut [u8], Error> {
        if !self.own {
            return Err(Error::new(Kind::BadArgument, "the picture is the codec's"));
        }
        let (to, bytes) = self.row(plane, row)?;
        // SAFETY: as in `read`; the memory is this object's alone (`with_memory`, `own`), and borrowed from it.
        Ok(unsafe { slice::from_raw_parts_mut(to, bytes) })
    }

    /// Gets memory of its own where a codec still has references to what it had.
    pub(crate) fn own(&mut self) -> Result<(), Error> {
        // SAFETY: the frame is this object's and has contents.
        match unsafe { (self.api.util.av_frame_make_writable)(self.frame.as_ptr()) } {
            0.. => Ok(()),
            _ => Err(Error::no_memory()),
        }
    }
}

impl Drop for Surface {
    fn drop(&mut self) {
        let mut frame = self.frame.as_ptr();
        // SAFETY: the frame is this object's.
        unsafe { (self.api.util.av_frame_free)(&raw mut frame) };
    }
}
