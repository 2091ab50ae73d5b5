//! A conversion between pixel formats by libswscale.

use std::ffi::c_int;
use std::ptr::{NonNull, null, null_mut};

use super::functions::{Api, SwsContext};
use super::surface::Surface;
use crate::error::{Error, Kind};

const BICUBIC: c_int = 4; // SWS_BICUBIC, which the ffmpeg program takes unless told otherwise
const FULL_RANGE: c_int = 2; // AVCOL_RANGE_JPEG
const ONE: c_int = 1 << 16;

/// What one conversion is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conversion {
    /// Width and height, in pixels.
    pub(crate) size: (u32, u32),
    /// libav's numbers of the pixel formats.
    pub(crate) from: c_int,
    pub(crate) to: c_int,
    /// An AVColorSpace: by which matrix colours become luma and chroma.
    pub(crate) matrix: c_int,
    /// An AVColorRange: whether black is 0 or 16.
    pub(crate) range: c_int,
}

/// A conversion by libswscale.
pub(crate) struct Scaler {
    api: &'static Api,
    context: NonNull<SwsContext>,
    conversion: Conversion,
}

// SAFETY: a context may be used by any thread, one at a time; `&mut self` sees to that.
unsafe impl Send for Scaler {}

impl Scaler {
    /// Prepares a conversion.
    pub(crate) fn new(api: &'static Api, conversion: Conversion) -> Result<Self, Error> {
        let (width, height) = (conversion.size.0 as c_int, conversion.size.1 as c_int);
        let Conversion { from, to, matrix, range, .. } = conversion;
        // SAFETY: filters and parameters may be null; sizes and formats are checked by the function.
        let context = unsafe {
            (api.scaling.sws_getContext)(
                width,
                height,
                from,
                width,
                height,
                to,
                BICUBIC,
                null_mut(),
                null_mut(),
                null(),
            )
        };
        let context = NonNull::new(context).ok_or_else(Error::no_memory)?;
        // SAFETY: the context is new; the tables are libswscale's own, and static. Where a conversion has no use for them, the status says
        // so, and nothing is changed.
        unsafe {
            let table = (api.scaling.sws_getCoefficients)(matrix);
            let full = c_int::from(range == FULL_RANGE);
            (api.scaling.sws_setColorspaceDetails)(context.as_ptr(), table, full, table, full, 0, ONE, ONE);
        }
        Ok(Self { api, context, conversion })
    }

    /// What it converts.
    pub(crate) fn conversion(&self) -> Conversion {
        self.conversion
    }

    /// Converts a picture. Both have memory of libav's, with the bytes beyond their rows that it may touch.
    pub(crate) fn convert(&mut self, from: &Surface, to: &mut Surface) -> Result<(), Error> {
        let wanted = self.conversion;
        if (from.size(), from.format(), to.size(), to.format()) != (wanted.size, wanted.from, wanted.size, wanted.to) {
            return Err(Error::new(Kind::BadArgument, "the picture is not what its conversion was made for"));
        }
        let height = self.conversion.size.1 as c_int;
        let ((source, source_lines), (target, target_lines)) = (from.planes(), to.planes());
        // SAFETY: both pictures have the size and format of the context, and memory for them, which libav has allocated with the padding
        // that libswscale wants.
        let rows = unsafe {
            (self.api.scaling.sws_scale)(
                self.context.as_ptr(),
                source.as_ptr().cast(),
                source_lines.as_ptr(),
                0,
                height,
                target.as_ptr(),
                target_lines.as_ptr(),
            )
        };
        if rows != height {
            return Err(Error::new(Kind::BadStream, "the picture cannot be converted"));
        }
        Ok(())
    }
}

impl Drop for Scaler {
    fn drop(&mut self) {
        // SAFETY: the context is this object's.
        unsafe { (self.api.scaling.sws_freeContext)(self.context.as_ptr()) };
    }
}
