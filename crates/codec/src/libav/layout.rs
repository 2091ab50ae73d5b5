//! The heads of AVFrame and AVPacket: the only structures of libav whose members are read and written here.
//!
//! Both are part of the public interface, and their first members are the same in libavcodec 59, 60 and 61 (libavutil 57 to
//! 59); `functions.rs` refuses other versions. libav has no functions for them. The rest of each structure is left out: they
//! are always allocated by libav, never here, and only used behind pointers.

use std::ffi::c_int;

/// A picture: `libavutil/frame.h`.
#[repr(C)]
pub(crate) struct AVFrame {
    /// Where each plane begins.
    pub(crate) data: [*mut u8; 8],
    /// Bytes from one row of each plane to the next.
    pub(crate) linesize: [c_int; 8],
    extended_data: *mut *mut u8,
    /// In pixels.
    pub(crate) width: c_int,
    /// In pixels.
    pub(crate) height: c_int,
    nb_samples: c_int,
    /// An AVPixelFormat.
    pub(crate) format: c_int,
    key_frame: c_int,
    pict_type: c_int,
    sample_aspect_ratio: [c_int; 2],
    /// In units of the codec's time base.
    pub(crate) pts: i64,
}

/// A chunk of a stream: `libavcodec/packet.h`.
#[repr(C)]
pub(crate) struct AVPacket {
    buf: *mut u8,
    /// In units of the codec's time base.
    pub(crate) pts: i64,
    dts: i64,
    /// Where its bytes are.
    pub(crate) data: *mut u8,
    /// How many they are.
    pub(crate) size: c_int,
}

// As the headers have them on machines with pointers of 64 bits.
const _: () = {
    use std::mem::offset_of;
    assert!(
        offset_of!(AVFrame, linesize) == 64 && offset_of!(AVFrame, width) == 104 && offset_of!(AVFrame, height) == 108
    );
    assert!(offset_of!(AVFrame, format) == 116 && offset_of!(AVFrame, pts) == 136);
    assert!(offset_of!(AVPacket, pts) == 8 && offset_of!(AVPacket, data) == 24 && offset_of!(AVPacket, size) == 32);
};
