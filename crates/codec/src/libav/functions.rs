//! The functions of libavutil, libavcodec and libswscale that are called.

use std::ffi::{c_char, c_double, c_int, c_uint, c_void};
use std::sync::OnceLock;

use super::layout::{AVFrame, AVPacket};
use crate::error::{Error, Kind};
use crate::library::{first, functions};
use crate::picture::PixelFormat;

/// What libav calls an AVCodecContext. It has no members that every version has at the same place: options set and read it.
#[repr(C)]
pub(crate) struct AVCodecContext {
    _opaque: [u8; 0],
}

/// A codec's description.
#[repr(C)]
pub(crate) struct AVCodec {
    _opaque: [u8; 0],
}

/// A conversion of libswscale.
#[repr(C)]
pub(crate) struct SwsContext {
    _opaque: [u8; 0],
}

/// Two integers, which libav passes by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AVRational {
    pub(crate) num: c_int,
    pub(crate) den: c_int,
}

functions! {
    /// Of libavutil.
    struct Util {
        avutil_version: fn() -> c_uint;
        av_log_set_level: fn(c_int);
        av_opt_set: fn(*mut c_void, *const c_char, *const c_char, c_int) -> c_int;
        av_opt_set_int: fn(*mut c_void, *const c_char, i64, c_int) -> c_int;
        av_opt_set_q: fn(*mut c_void, *const c_char, AVRational, c_int) -> c_int;
        av_opt_set_image_size: fn(*mut c_void, *const c_char, c_int, c_int, c_int) -> c_int;
        av_opt_set_pixel_fmt: fn(*mut c_void, *const c_char, c_int, c_int) -> c_int;
        av_opt_get_int: fn(*mut c_void, *const c_char, c_int, *mut i64) -> c_int;
        av_get_pix_fmt: fn(*const c_char) -> c_int;
        av_strerror: fn(c_int, *mut c_char, usize) -> c_int;
        av_frame_alloc: fn() -> *mut AVFrame;
        av_frame_free: fn(*mut *mut AVFrame);
        av_frame_unref: fn(*mut AVFrame);
        av_frame_get_buffer: fn(*mut AVFrame, c_int) -> c_int;
        av_frame_make_writable: fn(*mut AVFrame) -> c_int;
    }
}

functions! {
    /// Of libavcodec.
    struct Coding {
        avcodec_find_decoder_by_name: fn(*const c_char) -> *const AVCodec;
        avcodec_find_encoder_by_name: fn(*const c_char) -> *const AVCodec;
        avcodec_alloc_context3: fn(*const AVCodec) -> *mut AVCodecContext;
        avcodec_free_context: fn(*mut *mut AVCodecContext);
        avcodec_open2: fn(*mut AVCodecContext, *const AVCodec, *mut *mut c_void) -> c_int;
        avcodec_send_packet: fn(*mut AVCodecContext, *const AVPacket) -> c_int;
        avcodec_receive_frame: fn(*mut AVCodecContext, *mut AVFrame) -> c_int;
        avcodec_send_frame: fn(*mut AVCodecContext, *const AVFrame) -> c_int;
        avcodec_receive_packet: fn(*mut AVCodecContext, *mut AVPacket) -> c_int;
        avcodec_flush_buffers: fn(*mut AVCodecContext);
        av_packet_alloc: fn() -> *mut AVPacket;
        av_packet_free: fn(*mut *mut AVPacket);
        av_packet_unref: fn(*mut AVPacket);
        av_new_packet: fn(*mut AVPacket, c_int) -> c_int;
    }
}

functions! {
    /// Of libswscale.
    struct Scaling {
        sws_getContext: fn(c_int, c_int, c_int, c_int, c_int, c_int, c_int, *mut c_void, *mut c_void, *const c_double) -> *mut SwsContext;
        sws_freeContext: fn(*mut SwsContext);
        sws_getCoefficients: fn(c_int) -> *const c_int;
        sws_setColorspaceDetails: fn(*mut SwsContext, *const c_int, c_int, *const c_int, c_int, c_int, c_int, c_int) -> c_int;
        sws_scale: fn(*mut SwsContext, *const *const u8, *const c_int, c_int, c_int, *const *mut u8, *const c_int) -> c_int;
    }
}

/// One of the versions that are known: majors of libavcodec, libavutil and libswscale, and FFmpeg's.
struct Version {
    avcodec: u32,
    avutil: u32,
    swscale: u32,
    ffmpeg: u32,
}

/// The newest first. A later one may have its structures laid out otherwise: `layout.rs` must be held against its headers.
const VERSIONS: [Version; 3] = [
    Version { avcodec: 61, avutil: 59, swscale: 8, ffmpeg: 7 },
    Version { avcodec: 60, avutil: 58, swscale: 7, ffmpeg: 6 },
    Version { avcodec: 59, avutil: 57, swscale: 6, ffmpeg: 5 },
];

const QUIET: c_int = -8; // AV_LOG_QUIET

/// The libraries of one version of FFmpeg.
pub(crate) struct Api {
    pub(crate) util: Util,
    pub(crate) coding: Coding,
    pub(crate) scaling: Scaling,
    pub(crate) formats: Formats,
    /// FFmpeg's version and libavcodec's, for people.
    pub(super) name: String,
}

/// libav's numbers of the pixel formats that are read and written without libswscale.
pub(crate) struct Formats {
    pub(crate) nv12: c_int,
    pub(crate) rgba: c_int,
    /// 8 bits, chroma at half of the width and height, in planes.
    pub(crate) yuv420p: c_int,
    /// The same, of full range.
    pub(crate) yuvj420p: c_int,
}

impl Formats {
    /// Whether luma, Cb and Cr have a plane each, of 8 bits, those of chroma at half of the width and height.
    pub(crate) fn planar(&self, format: c_int) -> bool {
        format == self.yuv420p || format == self.yuvj420p
    }

    /// The number of a format of the interface.
    pub(crate) fn of(&self, format: PixelFormat) -> c_int {
        match format {
            PixelFormat::Nv12 => self.nv12,
            PixelFormat::Rgba => self.rgba,
        }
    }
}

impl Api {
    /// The libraries, loaded by whoever asks first.
    pub(crate) fn get() -> Result<&'static Self, Error> {
        static API: OnceLock<Result<Api, Error>> = OnceLock::new();
        API.get_or_init(|| Self::load().map_err(|why| Error::new(Kind::NoLibrary, why))).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, String> {
        let mut names: Vec<String> =
            VERSIONS.iter().map(|version| format!("libavcodec.so.{}", version.avcodec)).collect();
        names.push("libavcodec.so".into());
        let wanted =
            "install FFmpeg 5, 6 or 7 with its libavcodec and libswscale (on Debian and Ubuntu: apt install ffmpeg)";
        let library = first(&names).map_err(|why| format!("no video codecs on this machine ({why}); {wanted}"))?;
        let unusable = |why: &dyn std::fmt::Display| format!("libavcodec cannot be used: {why}; {wanted}");
        // SAFETY: every version has this function, of this type, which takes nothing.
        let number = unsafe {
            let version =
                library.get::<unsafe extern "C" fn() -> c_uint>(b"avcodec_version\0").map_err(|why| unusable(&why))?;
            version()
        };
        let major = number >> 16;
        let version = VERSIONS.iter().find(|version| version.avcodec == major).ok_or_else(|| {
            format!("libavcodec {major} is none that Ropeway knows (59 to 61, of FFmpeg 5 to 7); {wanted}")
        })?;
        // SAFETY: the types are those that the headers of libavcodec 59, 60 and 61 declare.
        let coding = unsafe { Coding::of(library) }.map_err(|why| unusable(&why))?;
        // Those that libavcodec itself has loaded have these names.
        let other = |name: &str, major: u32| {
            let missing = |why| {
                format!(
                    "libavcodec {} is there, but no lib{name} of FFmpeg {}: {why}; {wanted}",
                    version.avcodec, version.ffmpeg
                )
            };
            first(&[format!("lib{name}.so.{major}")]).map_err(missing)
        };
        // SAFETY: as above.
        let util = unsafe { Util::of(other("avutil", version.avutil)?) }?;
        // SAFETY: as above.
        let scaling = unsafe { Scaling::of(other("swscale", version.swscale)?) }?;
        // SAFETY: the function takes nothing.
        let found = unsafe { (util.avutil_version)() } >> 16;
        if found != version.avutil {
            return Err(format!(
                "libavcodec {major} comes with a libavutil {found} instead of {}; {wanted}",
                version.avutil
            ));
        }
        // Standard error is the program's. SAFETY: the function sets a number.
        unsafe { (util.av_log_set_level)(QUIET) };
        // SAFETY: the names end with a zero.
        let format = |name: &std::ffi::CStr| unsafe { (util.av_get_pix_fmt)(name.as_ptr()) };
        let formats = Formats {
            nv12: format(c"nv12"),
            rgba: format(c"rgba"),
            yuv420p: format(c"yuv420p"),
            yuvj420p: format(c"yuvj420p"),
        };
        let name = format!("FFmpeg {} (libavcodec {major}.{}.{})", version.ffmpeg, number >> 8 & 0xFF, number & 0xFF);
        Ok(Self { util, coding, scaling, formats, name })
    }
}
