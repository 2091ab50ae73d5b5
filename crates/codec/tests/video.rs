//! Real streams, decoded beside the ffmpeg program.

mod common;

use common::{CODECS, Output, Stream, assert_same, decode, limits};
use ropeway_codec::{Codec, Engine, Kind, Limits, PixelFormat, VideoDecoder};

fn decoder(codec: Codec, threads: u32) -> VideoDecoder {
    VideoDecoder::new(codec, Engine::Processor, limits(threads)).expect("a decoder")
}

#[test]
fn frames_are_those_of_the_ffmpeg_program() {
    for codec in CODECS {
        for size in [(320, 176), (322, 182)] {
            let stream = Stream::new(codec, size, 40);
            for format in [PixelFormat::Nv12, PixelFormat::Rgba] {
                let expected = stream.frames(format);
                assert_eq!(expected.len(), 40);
                for threads in [1, 3] {
                    let output = decode(&mut decoder(codec, threads), &stream.chunks, format);
                    assert_eq!(output.failures, []);
                    eprintln!("{codec} {size:?} {format:?} on {threads} threads");
                    assert_same(&output.frames, &expected);
                }
            }
        }
    }
}

#[test]
fn other_samples_become_those_of_the_ffmpeg_program() {
    let ten_bits = Stream::with(Codec::Hevc, (320, 176), 5, "yuv420p10le", &[]);
    let all_chroma = Stream::with(Codec::H264, (320, 176), 5, "yuv444p", &[]);
    let bt709 = Stream::with(Codec::H264, (320, 176), 5, "yuv420p", &["-colorspace", "bt709"]);
    for stream in [ten_bits, all_chroma, bt709] {
        for format in [PixelFormat::Nv12, PixelFormat::Rgba] {
            let output = decode(&mut decoder(stream.codec, 1), &stream.chunks, format);
            assert_eq!(output.failures, []);
            assert_same(&output.frames, &stream.frames(format));
        }
    }
}

/// Each by its own, where the streams are ended.
#[test]
fn colours_change_with_the_stream() {
    let said = |matrix: &'static str| Stream::with(Codec::H264, (320, 176), 10, "yuv420p", &["-colorspace", matrix]);
    let streams = [said("bt709"), said("bt470bg"), said("bt709")];
    let frames = streams.each_ref().map(|stream| stream.frames(PixelFormat::Rgba));
    assert!(frames[0] != frames[1], "the matrix makes a difference");
    for threads in [1, 3] {
        let mut decoder = decoder(Codec::H264, threads);
        for (stream, expected) in streams.iter().zip(&frames) {
            let output = decode(&mut decoder, &stream.chunks, PixelFormat::Rgba);
            assert_eq!(output.failures, []);
            assert_same(&output.frames, expected);
        }
    }
}

#[test]
fn a_drained_decoder_goes_on_with_another_stream() {
    let small = Stream::new(Codec::H264, (160, 96), 10);
    let large = Stream::new(Codec::H264, (320, 176), 10);
    let mut decoder = decoder(Codec::H264, 2);
    for stream in [&small, &large, &small] {
        let output = decode(&mut decoder, &stream.chunks, PixelFormat::Nv12);
        assert_eq!(output.failures, []);
        assert_same(&output.frames, &stream.frames(PixelFormat::Nv12));
        assert!(decoder.is_drained());
        // Nothing is left to drain.
        decoder.feed(&[]).expect("it has ended already");
        assert!(decoder.frame().expect("no failure").is_none());
    }
    // Not only between drains: another size may follow at any key frame.
    let chunks = [small.chunks.clone(), large.chunks.clone()].concat();
    let output = decode(&mut decoder, &chunks, PixelFormat::Nv12);
    assert_same(&output.frames, &[small.frames(PixelFormat::Nv12), large.frames(PixelFormat::Nv12)].concat());
}

/// As a program does that enqueues one command for each chunk.
#[test]
fn one_frame_for_each_chunk_and_then_the_others_are_all() {
    for codec in CODECS {
        let stream = Stream::new(codec, (320, 176), 30);
        let expected = stream.frames(PixelFormat::Nv12);
        for threads in [1, 2, 3, 8] {
            let mut decoder = decoder(codec, threads);
            let mut frames = Vec::new();
            let mut chunks = stream.chunks.iter().map(Vec::as_slice);
            loop {
                let chunk = chunks.next().unwrap_or(&[]);
                decoder.feed(chunk).expect("a good chunk");
                match decoder.frame().expect("a good frame") {
                    Some(mut frame) => {
                        let mut bytes = vec![0; expected[0].len()];
                        frame.write(PixelFormat::Nv12, &mut bytes).expect("room");
                        frame.take();
                        frames.push(bytes);
                    }
                    None if chunk.is_empty() => break,
                    None => {}
                }
            }
            eprintln!("{codec} on {threads} threads");
            assert_same(&frames, &expected);
            assert!(decoder.is_drained());
        }
    }
}

#[test]
fn an_end_of_nothing_is_one() {
    for codec in CODECS {
        let mut decoder = decoder(codec, 2);
        decoder.feed(&[]).expect("an end");
        assert!(decoder.frame().expect("no failure").is_none());
        assert!(decoder.is_drained());
    }
}

#[test]
fn a_buffer_that_is_too_small_keeps_the_frame() {
    let stream = Stream::new(Codec::H264, (322, 182), 3);
    for format in [PixelFormat::Nv12, PixelFormat::Rgba] {
        let expected = stream.frames(format);
        let bytes = expected[0].len();
        let mut decoder = decoder(Codec::H264, 1);
        let mut frames = Vec::new();
        for chunk in stream.chunks.iter().map(Vec::as_slice).chain([&[][..]]) {
            decoder.feed(chunk).expect("a good chunk");
            while let Some(mut frame) = decoder.frame().expect("a good frame") {
                assert_eq!(frame.size(), stream.size);
                let mut memory = vec![0xA5; bytes + 64];
                for room in [0, 1, bytes / 2, bytes - 1] {
                    let error = frame.write(format, &mut memory[..room]).expect_err("too small");
                    assert_eq!(error.kind(), Kind::BufferTooSmall);
                    let sentence = format!("a frame of 322 x 182 takes {bytes} bytes, and the buffer has {room}");
                    assert_eq!(error.to_string(), sentence);
                    assert!(memory.iter().all(|byte| *byte == 0xA5), "nothing is written");
                }
                assert_eq!(frame.write(format, &mut memory), Ok(bytes));
                assert!(memory[bytes..].iter().all(|byte| *byte == 0xA5), "nothing is written behind it");
                memory.truncate(bytes);
                frames.push(memory);
                frame.take();
            }
        }
        assert_same(&frames, &expected);
    }
}

#[test]
fn a_caller_who_takes_no_frames_is_told_so() {
    let stream = Stream::new(Codec::H264, (160, 96), 40);
    let mut decoder = decoder(Codec::H264, 1);
    let mut output = Output::default();
    let mut chunks = stream.chunks.iter();
    let refused = loop {
        let chunk = chunks.next().expect("it is told before the stream ends");
        match decoder.feed(chunk) {
            Ok(()) => {}
            Err(error) if error.kind() == Kind::Full => break chunk,
            Err(error) => panic!("{error}"),
        }
    };
    output.take(&mut decoder, PixelFormat::Nv12);
    output.feed(&mut decoder, refused, PixelFormat::Nv12);
    for chunk in chunks {
        output.feed(&mut decoder, chunk, PixelFormat::Nv12);
    }
    output.feed(&mut decoder, &[], PixelFormat::Nv12);
    assert_eq!(output.failures, []);
    assert_same(&output.frames, &stream.frames(PixelFormat::Nv12));
}

/// Frames from the next key frame on are whole again, whatever came before.
#[test]
fn broken_chunks_do_not_end_the_decoder() {
    for codec in CODECS {
        let stream = Stream::new(codec, (320, 176), 36);
        let expected = stream.frames(PixelFormat::Nv12);
        let garbage: Vec<u8> = (0..5000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let whole = &stream.chunks[3];
        let broken: Vec<Vec<u8>> = vec![
            garbage.clone(),
            vec![0],
            vec![0; 4096],
            vec![0xFF; 4096],
            whole[..whole.len() / 2].to_vec(),
            whole[..1].to_vec(),
            [&whole[..whole.len() / 3], &garbage[..200]].concat(),
        ];
        for threads in [1, 3] {
            let mut decoder = decoder(codec, threads);
            let mut output = Output::default();
            for (number, chunk) in stream.chunks.iter().enumerate() {
                if number == 3 {
                    for chunk in &broken {
                        output.feed(&mut decoder, chunk, PixelFormat::Nv12);
                    }
                } else {
                    output.feed(&mut decoder, chunk, PixelFormat::Nv12);
                }
            }
            output.feed(&mut decoder, &[], PixelFormat::Nv12);
            assert!(output.failures.iter().all(|error| error.kind() == Kind::BadStream), "{:?}", output.failures);
            assert!(!output.failures.is_empty(), "{codec} on {threads} threads: garbage is no stream");
            let last = output.frames.len() - 12;
            assert_same(&output.frames[last..], &expected[expected.len() - 12..]);
        }
    }
}

#[test]
fn streams_of_other_codecs_are_refused_and_their_own_follow() {
    for of in CODECS {
        let stream = Stream::new(of, (160, 96), 24);
        for codec in CODECS.into_iter().filter(|codec| *codec != of) {
            let own = Stream::new(codec, (160, 96), 12);
            let mut decoder = decoder(codec, 1);
            let mut output = Output::default();
            for chunk in &stream.chunks {
                output.feed(&mut decoder, chunk, PixelFormat::Nv12);
            }
            assert!(output.frames.is_empty(), "{of} is not {codec}");
            assert!(!output.failures.is_empty(), "{of} is not {codec}");
            assert!(output.failures.iter().all(|error| error.kind() == Kind::BadStream), "{:?}", output.failures);
            let output = decode(&mut decoder, &own.chunks, PixelFormat::Nv12);
            assert_same(&output.frames, &own.frames(PixelFormat::Nv12));
        }
    }
}

#[test]
fn the_largest_frames_that_are_allowed_are_taken_and_no_larger_ones() {
    for codec in CODECS {
        let stream = Stream::new(codec, (322, 182), 12);
        for (max_width, max_height, taken) in [(322, 182, true), (321, 182, false), (322, 181, false)] {
            let limits = Limits { max_width, max_height, threads: 1 };
            let mut decoder = VideoDecoder::new(codec, Engine::Processor, limits).expect("a decoder");
            let output = decode(&mut decoder, &stream.chunks, PixelFormat::Nv12);
            if taken {
                assert_eq!(output.failures, []);
                assert_same(&output.frames, &stream.frames(PixelFormat::Nv12));
            } else {
                assert!(output.frames.is_empty());
                assert_eq!(output.failures[0].kind(), Kind::TooLarge);
                let sentence = format!(
                    "the {codec} stream has frames of 322 x 182; this decoder takes up to {max_width} x {max_height}"
                );
                assert_eq!(output.failures[0].to_string(), sentence);
            }
        }
    }
}

#[test]
fn arguments_that_no_decoder_has_are_refused() {
    for limits in [
        Limits { max_width: 0, max_height: 16, threads: 1 },
        Limits { max_width: 16, max_height: 0, threads: 1 },
        Limits { max_width: 16, max_height: 16, threads: 0 },
    ] {
        assert_eq!(
            VideoDecoder::new(Codec::H264, Engine::Processor, limits).err().map(|error| error.kind()),
            Some(Kind::BadArgument)
        );
    }
}
