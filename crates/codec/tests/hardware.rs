//! Decoders of hardware, on a machine that has none: what they say. What they decode is compared where there is some
//! (`tests/tests/custom_hardware.rs`).

mod common;

use common::limits;
use ropeway_codec::{Codec, Engine, Kind, VideoDecoder};

#[test]
fn a_driver_that_is_not_there_is_named() {
    // SAFETY: the name is a literal, and nothing of the library is called.
    if unsafe { libloading::os::unix::Library::new("libnvcuvid.so.1") }.is_ok() {
        eprintln!("skipped: this machine has NVIDIA's driver");
        return;
    }
    let error = VideoDecoder::new(Codec::H264, Engine::Nvdec, limits(1)).err().expect("there is no such decoder");
    assert_eq!(error.kind(), Kind::NoLibrary);
    let text = error.to_string();
    assert!(text.contains("libnvcuvid.so.1") && text.contains("comes with NVIDIA's driver"), "{text}");
}
