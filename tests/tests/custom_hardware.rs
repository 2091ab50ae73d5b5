//! Decoders of hardware as custom devices: what they decode where there are some, and what the server says where there are none.

#[path = "../../crates/codec/tests/common/mod.rs"]
mod streams;

use std::fs;

use ropeway_codec::{Codec, Engine, PixelFormat, VideoDecoder};
use ropeway_tests::custom::{custom_file, serve};
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::Program;
use streams::{CODECS, Folder, Stream, assert_same, limits, path};

fn table(hardware: &str, codecs: &str) -> String {
    format!("[[decoder]]\nname = 'Decoder'\nhardware = '{hardware}'\ncodecs = [{codecs}]\nthreads = 1\n")
}

/// What a server says that does not start with these devices; `None` if it ends well.
fn refused(tables: &str) -> Option<String> {
    let file = custom_file(tables);
    let args = ["serve", "--listen", "tcp://127.0.0.1:0", "--custom", file.to_str().expect("UTF-8")];
    let outcome = Program::native(ropeway()).args(args).run();
    (!outcome.status.success()).then_some(outcome.stderr)
}

#[test]
fn hardware_that_is_not_known_is_refused_with_the_file() {
    let told = refused(&table("toaster", "'h264'")).expect("there is no such hardware");
    assert!(told.contains("unknown variant `toaster`, expected `nvdec`") && told.contains(".toml"), "{told}");
}

/// Where this process cannot have the decoder, the server cannot.
#[test]
fn frames_are_those_of_software_or_the_server_does_not_start() {
    for codec in CODECS {
        let name = match codec {
            Codec::H264 => "h264",
            Codec::Hevc => "hevc",
            Codec::Av1 => "av1",
        };
        let tables = table("nvdec", &format!("'{name}'"));
        if let Err(error) = VideoDecoder::new(codec, Engine::Nvdec, limits(1)) {
            let told = refused(&tables).expect("there is no such hardware");
            let sentence = format!("ropeway: the custom device 'Decoder' cannot be had: {error}\n");
            assert!(told.ends_with(&sentence), "{told}");
            continue;
        }
        let (folder, server) = (Folder::new(), serve(&tables));
        // The second stream has frames of another size, for which the decoder is made anew.
        let made = [Stream::new(codec, (322, 182), 30), Stream::new(codec, (640, 352), 12)];
        let chunks: Vec<_> = made.iter().flat_map(|stream| &stream.chunks).collect();
        let lengths = chunks.iter().map(|chunk| (chunk.len() as u32).to_ne_bytes());
        let pack: Vec<u8> = lengths.zip(&chunks).flat_map(|(length, chunk)| [&length, &chunk[..]].concat()).collect();
        fs::write(folder.file("pack"), pack).expect("a file");
        for (number, format) in [("0", PixelFormat::Nv12), ("1", PixelFormat::Rgba)] {
            let (kernel, out) = (format!("ropeway.decode.{name}"), folder.file("frames"));
            let args = ["decode", &kernel, path(&folder.file("pack")), number, path(&out)].map(str::to_owned);
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            let outcome = Program::remote(c_program("custom_video"), server.url()).args(&args).run();
            assert_eq!(outcome.success().stdout, "42 frames\n");
            let (frames, mut at) = (fs::read(&out).expect("frames"), 0);
            for stream in &made {
                let expected = stream.frames(format);
                let all = expected.len() * expected[0].len();
                let got: Vec<_> = frames[at..at + all].chunks(expected[0].len()).map(<[u8]>::to_vec).collect();
                assert_same(&got, &expected);
                at += all;
            }
            assert_eq!(at, frames.len());
        }
    }
}
