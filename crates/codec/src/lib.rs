//! Video and point-cloud codecs of this machine: safe wrappers of libavcodec (H.264, HEVC, AV1) and of Draco.
//!
//! The libraries are loaded when they are first wanted, so that a machine without them runs everything else; no build needs
//! them. Streams are hostile: sizes that they claim are held against limits before memory is taken for them, and nothing is
//! written past the end of a destination. A library that crashes takes its process with it: run it where that is one
//! session's.

mod convert;
mod decoder;
mod draco;
mod encoder;
mod engine;
mod error;
mod headers;
mod libav;
mod library;
mod picture;

// The tests that are within the crate share their streams with those that are not.
#[cfg(test)]
extern crate self as ropeway_codec;

pub use decoder::{Decoded, Limits, VideoDecoder};
pub use draco::{Draco, Points};
pub use encoder::{Settings, VideoEncoder};
pub use engine::Engine;
pub use error::{Error, Kind};
pub use libav::video_library;
pub use picture::{Codec, PixelFormat};

/// What the environment of a process should have before it starts, if it is to encode AV1: SVT-AV1 writes to standard error
/// what it is about, and nothing but this variable keeps it from that.
pub const QUIET: (&str, &str) = ("SVT_LOG", "-1");
