//! What the encoders make, decoded by the ffmpeg program and by the decoders.

mod common;

use std::process::Command;

use common::{CODECS, Output, decode, ffmpeg, limits};
use ropeway_codec::{Codec, Engine, Kind, PixelFormat, QUIET, Settings, VideoDecoder, VideoEncoder};

const SIZE: (u32, u32) = (320, 192);
const FRAMES: usize = 50;

fn settings(bits_per_second: u64) -> Settings {
    Settings { width: SIZE.0, height: SIZE.1, bits_per_second, frames_per_second: 25, threads: 2 }
}

/// Frames to be encoded.
fn pictures(format: PixelFormat) -> Vec<Vec<u8>> {
    let source = format!("testsrc2=size={}x{}:rate=25", SIZE.0, SIZE.1);
    let pixels = if format == PixelFormat::Nv12 { "nv12" } else { "rgba" };
    let frames = FRAMES.to_string();
    let all =
        ffmpeg(&["-f", "lavfi", "-i", &source, "-frames:v", &frames, "-pix_fmt", pixels, "-f", "rawvideo", "-"], &[]);
    all.chunks(format.bytes(SIZE.0, SIZE.1)).map(<[u8]>::to_vec).collect()
}

fn take(encoder: &mut VideoEncoder, chunks: &mut Vec<Vec<u8>>) {
    while let Some(chunk) = encoder.chunk().expect("a chunk") {
        let chunk = chunk.to_vec();
        // It stays until it is taken.
        assert_eq!(encoder.chunk(), Ok(Some(&chunk[..])));
        chunks.push(chunk);
        encoder.take();
    }
}

/// All chunks, and how many frames there were before the first.
fn encode(codec: Codec, bits_per_second: u64, format: PixelFormat, pictures: &[Vec<u8>]) -> (Vec<Vec<u8>>, usize) {
    let mut encoder = VideoEncoder::new(codec, settings(bits_per_second)).expect("an encoder");
    let (mut chunks, mut late) = (Vec::new(), 0);
    for picture in pictures {
        encoder.feed(format, picture).expect("a frame");
        take(&mut encoder, &mut chunks);
        late += usize::from(chunks.is_empty());
    }
    encoder.end().expect("an end");
    take(&mut encoder, &mut chunks);
    (chunks, late)
}

/// By how much luma differs on average, in its 256 steps.
fn difference(frame: &[u8], picture: &[u8]) -> f64 {
    let luma = (SIZE.0 * SIZE.1) as usize;
    let sum: u64 = frame[..luma].iter().zip(&picture[..luma]).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    sum as f64 / luma as f64
}

#[test]
fn what_is_encoded_is_decoded_again() {
    let in_nv12 = pictures(PixelFormat::Nv12);
    for codec in CODECS {
        for (format, pictures) in
            [(PixelFormat::Nv12, in_nv12.clone()), (PixelFormat::Rgba, pictures(PixelFormat::Rgba))]
        {
            let (chunks, late) = encode(codec, 2_000_000, format, &pictures);
            eprintln!("{codec} {format:?}: {late} frames before the first chunk, {} bytes", chunks.concat().len());
            assert_eq!(chunks.len(), FRAMES, "a chunk for each frame");
            if codec != Codec::Av1 {
                assert_eq!(late, 0, "{codec} holds no frame back");
                assert!(chunks[0].starts_with(&[0, 0, 0, 1]), "start codes");
            } else {
                assert!(chunks.iter().all(|chunk| chunk[0] == 0x12), "temporal units");
            }
            let mut decoder = VideoDecoder::new(codec, Engine::Processor, limits(1)).expect("a decoder");
            let output = decode(&mut decoder, &chunks, PixelFormat::Nv12);
            assert_eq!((output.failures.len(), output.frames.len()), (0, FRAMES));
            for (number, (frame, picture)) in output.frames.iter().zip(&in_nv12).enumerate() {
                let difference = difference(frame, picture);
                assert!(difference < 6.0, "{codec} frame {number} of {format:?} is {difference} steps off");
            }
            if codec != Codec::Av1 {
                let container = if codec == Codec::H264 { "h264" } else { "hevc" };
                let arguments =
                    ["-f", container, "-i", "-", "-vsync", "passthrough", "-pix_fmt", "nv12", "-f", "rawvideo", "-"];
                assert!(ffmpeg(&arguments, &chunks.concat()) == output.frames.concat(), "ffmpeg's frames are the same");
            }
        }
    }
}

#[test]
fn more_bits_make_a_longer_stream() {
    let pictures = pictures(PixelFormat::Nv12);
    for codec in CODECS {
        let bytes = |rate| encode(codec, rate, PixelFormat::Nv12, &pictures).0.concat().len();
        let (few, many) = (bytes(200_000), bytes(3_000_000));
        // Two seconds.
        assert!(few < 150_000, "{codec}: {few} bytes for 200 kbit/s");
        assert!(few * 2 < many, "{codec}: {few} bytes for 200 kbit/s, {many} for 3 Mbit/s");
    }
}

#[test]
fn who_joins_at_a_key_frame_sees_all_from_there() {
    let pictures = [pictures(PixelFormat::Nv12), pictures(PixelFormat::Nv12)].concat();
    for codec in CODECS {
        let (chunks, _) = encode(codec, 1_000_000, PixelFormat::Nv12, &pictures);
        // Every two seconds, that is, every 50 frames.
        let mut decoder = VideoDecoder::new(codec, Engine::Processor, limits(1)).expect("a decoder");
        let output = decode(&mut decoder, &chunks[FRAMES..], PixelFormat::Nv12);
        assert_eq!((output.failures.len(), output.frames.len()), (0, FRAMES), "{codec}");
        assert!(difference(&output.frames[0], &pictures[FRAMES]) < 8.0, "{codec}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    for (width, height) in [(0, 192), (320, 0), (321, 192), (320, 191), (20_000, 192), (30_000, 30_000)] {
        let settings = Settings { width, height, ..settings(1_000_000) };
        let error = VideoEncoder::new(Codec::H264, settings).err().expect("no such encoder");
        assert_eq!(error.kind(), Kind::BadArgument, "{error}");
    }
    for (bits_per_second, frames_per_second, threads) in [(0, 25, 1), (1 << 40, 25, 1), (1000, 0, 1), (1000, 25, 0)] {
        let settings = Settings { bits_per_second, frames_per_second, threads, ..settings(1_000_000) };
        assert_eq!(VideoEncoder::new(Codec::H264, settings).err().map(|error| error.kind()), Some(Kind::BadArgument));
    }
    let mut encoder = VideoEncoder::new(Codec::H264, settings(1_000_000)).expect("an encoder");
    let bytes = PixelFormat::Nv12.bytes(SIZE.0, SIZE.1);
    let error = encoder.feed(PixelFormat::Nv12, &vec![0; bytes - 1]).expect_err("too few bytes");
    assert_eq!(error.kind(), Kind::BadArgument);
    encoder.feed(PixelFormat::Nv12, &vec![0; bytes]).expect("a frame");
    encoder.end().expect("an end");
    encoder.end().expect("has been already");
    assert_eq!(encoder.feed(PixelFormat::Nv12, &vec![0; bytes]).expect_err("ended").kind(), Kind::BadArgument);
}

/// SVT-AV1 waits for ever if it is closed with frames that it holds back.
#[test]
fn encoders_may_be_closed_at_any_time() {
    let pictures = pictures(PixelFormat::Nv12);
    for codec in CODECS {
        for frames in [0, 1, 2, 5, 20] {
            for (is_taken, is_ended) in [(false, false), (true, false), (false, true), (true, true)] {
                let (done, is_done) = std::sync::mpsc::channel();
                let pictures = pictures[..frames].to_vec();
                std::thread::spawn(move || {
                    let mut encoder = VideoEncoder::new(codec, settings(1_000_000)).expect("an encoder");
                    for picture in &pictures {
                        let fed = encoder.feed(PixelFormat::Nv12, picture);
                        assert!(!is_taken || fed.is_ok(), "{fed:?}");
                        if is_taken {
                            take(&mut encoder, &mut Vec::new());
                        }
                    }
                    if is_ended {
                        drop(encoder.end());
                    }
                    drop(encoder);
                    let _ = done.send(());
                });
                let closed = is_done.recv_timeout(std::time::Duration::from_secs(60));
                assert!(closed.is_ok(), "{codec} after {frames} frames, taken: {is_taken}, ended: {is_ended}");
            }
        }
    }
}

/// In a process of its own, whose standard error is looked at.
#[test]
fn libraries_write_nothing_to_standard_error() {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", "all_codecs_once", "--ignored", "--nocapture", "--test-threads=1"])
        .env(QUIET.0, QUIET.1)
        .output()
        .expect("this program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("Svt"));
}

#[test]
#[ignore = "what `libraries_write_nothing_to_standard_error` runs"]
fn all_codecs_once() {
    let pictures = pictures(PixelFormat::Nv12);
    for codec in CODECS {
        let (chunks, _) = encode(codec, 1_000_000, PixelFormat::Nv12, &pictures[..10]);
        let mut decoder = VideoDecoder::new(codec, Engine::Processor, limits(2)).expect("a decoder");
        let mut output = Output::default();
        output.feed(&mut decoder, &[0x12, 0, 0, 1, 0x67, 0xFF, 0xFF], PixelFormat::Nv12);
        output.feed(&mut decoder, &chunks[1], PixelFormat::Nv12);
        let output = decode(&mut decoder, &chunks, PixelFormat::Nv12);
        assert!(!output.frames.is_empty());
    }
}
