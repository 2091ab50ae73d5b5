//! Streams that claim frames of 30,000 x 30,000. One test, as it looks at the memory of the whole process.

mod common;

use common::claims::{header, peak};
use common::{CODECS, Output, Stream, limits};
use ropeway_codec::{Engine, Kind, PixelFormat, VideoDecoder};

#[test]
fn frames_of_30000_x_30000_are_refused_before_there_is_memory_for_them() {
    for codec in CODECS {
        let stream = Stream::new(codec, (320, 176), 12);
        let mut decoder = VideoDecoder::new(codec, Engine::Processor, limits(2)).expect("a decoder");
        let mut output = Output::default();
        // What a stream of this codec takes in any case.
        output.feed(&mut decoder, &stream.chunks[0], PixelFormat::Nv12);
        assert_eq!(output.failures, []);
        let before = peak();

        let claims = header(codec, 30_000, 30_000);
        let with_frame = [claims.clone(), stream.chunks[0].clone()].concat();
        for chunk in [&claims, &with_frame] {
            let error = decoder.feed(chunk).expect_err("too large");
            assert_eq!(error.kind(), Kind::TooLarge);
            let sentence =
                format!("the {codec} stream has frames of 30000 x 30000; this decoder takes up to 1920 x 1080");
            assert_eq!(error.to_string(), sentence);
        }
        for chunk in [header(codec, 1920, 30_000), header(codec, 30_000, 1072)] {
            let error = decoder.feed(&chunk).expect_err("too large");
            assert_eq!(error.kind(), Kind::TooLarge);
        }
        // Luma alone would be 858 MiB.
        assert!(peak() - before < 400 << 20, "{codec}: {} MiB more", (peak() - before) >> 20);
        // The decoder goes on.
        let mut output = Output::default();
        for chunk in stream.chunks.iter().map(Vec::as_slice).chain([&[][..]]) {
            output.feed(&mut decoder, chunk, PixelFormat::Nv12);
        }
        common::assert_same(&output.frames[output.frames.len() - 12..], &stream.frames(PixelFormat::Nv12));
    }
}
