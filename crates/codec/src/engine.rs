//! What decodes: the processor, or a circuit that the machine has for it.

use std::ffi::CStr;
use std::sync::OnceLock;

use crate::error::{Error, Kind};
use crate::library::first;
use crate::picture::Codec;

/// What decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Engine {
    /// The processor.
    #[default]
    Processor,
    /// The decoder of an NVIDIA GPU, through the driver's libnvcuvid: of the first GPU that CUDA shows.
    Nvdec,
}

impl Engine {
    /// libavcodec's name of the decoder. Fails with [`Kind::NoLibrary`] where the engine's own library cannot be loaded.
    pub(crate) fn decoder(self, codec: Codec) -> Result<&'static CStr, Error> {
        Ok(match (self, codec) {
            (Self::Processor, Codec::H264) => c"h264",
            (Self::Processor, Codec::Hevc) => c"hevc",
            (Self::Processor, Codec::Av1) => c"libdav1d",
            (Self::Nvdec, codec) => {
                nvcuvid()?;
                match codec {
                    Codec::H264 => c"h264_cuvid",
                    Codec::Hevc => c"hevc_cuvid",
                    Codec::Av1 => c"av1_cuvid",
                }
            }
        })
    }

    /// Whether a decoder stays with the size of its stream's first frames.
    pub(crate) fn keeps_size(self) -> bool {
        self == Self::Nvdec
    }
}

/// Loads NVIDIA's library before libavcodec does, whose error does not say what is missing.
fn nvcuvid() -> Result<(), Error> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    let load = || {
        let library = first(&["libnvcuvid.so.1"]).map_err(|why| {
            format!("NVIDIA's decoder cannot be used: {why}; libnvcuvid comes with NVIDIA's driver, on some systems in a package of its own")
        })?;
        // The driver keeps threads of its own.
        std::mem::forget(library);
        Ok(())
    };
    LOADED.get_or_init(load).clone().map_err(|why| Error::new(Kind::NoLibrary, why))
}
