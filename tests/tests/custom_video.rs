//! Codecs as custom devices: real streams through a real server, beside what the codecs' own programs make of them.

#[path = "../../crates/codec/tests/common/mod.rs"]
mod streams;

use std::fs;

use ropeway_codec::{Codec, PixelFormat};
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::server::Server;
use streams::claims::header;
use streams::{CODECS, Folder, Stream, assert_same, ffmpeg, path, run};

const DEVICES: &str = "
[[decoder]]
name = 'Decoder'
max_width = 1280
max_height = 720
threads = 2
streams = 4

[[encoder]]
name = 'Encoder'
max_width = 1280
max_height = 720
threads = 2
rate = 25

[[draco]]
name = 'Point clouds'
";

/// A server with these devices.
fn server(folder: &Folder, devices: &str, env: &[(&str, &str)]) -> Server {
    let file = folder.file("devices.toml");
    fs::write(&file, devices).expect("a file");
    Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--custom", path(&file)], env)
}

/// Chunks, each behind its length.
fn pack(folder: &Folder, chunks: &[Vec<u8>]) -> String {
    let file = folder.file("pack");
    let lengths = chunks.iter().map(|chunk| (chunk.len() as u32).to_ne_bytes());
    let bytes: Vec<u8> = lengths.zip(chunks).flat_map(|(length, chunk)| [&length, &chunk[..]].concat()).collect();
    fs::write(&file, bytes).expect("a file");
    path(&file).to_owned()
}

fn name(codec: Codec) -> &'static str {
    match codec {
        Codec::H264 => "h264",
        Codec::Hevc => "hevc",
        Codec::Av1 => "av1",
    }
}

fn custom(server: &Server, args: &[&str]) -> Outcome {
    Program::remote(c_program("custom_video"), server.url()).args(args).run()
}

#[test]
fn decoded_frames_are_those_of_the_ffmpeg_program() {
    let folder = Folder::new();
    let server = server(&folder, DEVICES, &[]);
    for codec in CODECS {
        let stream = Stream::new(codec, (322, 182), 30);
        for (number, format) in [("0", PixelFormat::Nv12), ("1", PixelFormat::Rgba)] {
            let (kernel, out) = (format!("ropeway.decode.{}", name(codec)), folder.file("frames"));
            let outcome = custom(&server, &["decode", &kernel, &pack(&folder, &stream.chunks), number, path(&out)]);
            assert_eq!(outcome.success().stdout, "30 frames\n");
            let frames = fs::read(&out).expect("frames");
            let frames: Vec<_> = frames.chunks(format.bytes(322, 182)).map(<[u8]>::to_vec).collect();
            assert_same(&frames, &stream.frames(format));
        }
    }
}

/// From a file at the server, by the stream's device and the decoder's.
#[test]
fn a_file_at_the_server_is_decoded_there() {
    for codec in CODECS {
        let folder = Folder::new();
        let stream = Stream::new(codec, (322, 182), 30);
        let file = folder.file("stream");
        fs::write(&file, &stream.file).expect("a file");
        let format = if codec == Codec::Av1 { "ivf" } else { name(codec) };
        let source = format!("[[source]]\nname = 'Stream'\nfile = '{}'\nformat = '{format}'\n", path(&file));
        let server = server(&folder, &format!("{DEVICES}{source}"), &[]);
        let (kernel, out) = (format!("ropeway.decode.{}", name(codec)), folder.file("frames"));
        let text = custom(&server, &["stream", &kernel, "0", path(&out)]).success().stdout;
        assert_eq!(text, "30 chunks, 30 frames\n", "{codec}");
        let frames = fs::read(&out).expect("frames");
        let frames: Vec<_> = frames.chunks(PixelFormat::Nv12.bytes(322, 182)).map(<[u8]>::to_vec).collect();
        assert_same(&frames, &stream.frames(PixelFormat::Nv12));
    }
}

/// What `errors` of the program prints of a stream of 322 x 182.
const ERRORS: &str = "\
garbage: -52582, 0 bytes, 0 x 0: the H.264 stream is broken here, or is of another codec
more bytes than there are: -52582, 0 bytes, 0 x 0: the chunk is said to have 4194305 bytes, and its buffer has 4194304
more bytes than there are: -52582, 0 bytes, 0 x 0: the chunk is said to have 1099511627776 bytes, and its buffer has 4194304
another format: -50, 0 bytes, 0 x 0: no frame has the format 2; 0 is NV12, 1 is RGBA
a byte too small: -52584, 0 bytes, 322 x 182: a frame of 322 x 182 takes 87906 bytes, and the buffer has 87905
still too small: -52584, 0 bytes, 322 x 182: a frame of 322 x 182 takes 87906 bytes, and the buffer has 87905
again with room: 0, 87906 bytes, 322 x 182: 
a record too small: -52584, 87906 bytes, 322 x 182: ropeway.decode.h264: the buffer 'about_frame' has 31 bytes and needs 32
no buffer: -52, 87906 bytes, 322 x 182: ropeway.decode.h264: the buffer 'frame' is null
and on it goes: 0, 87906 bytes, 322 x 182: 
";

#[test]
fn what_is_wrong_ends_its_command_and_no_other() {
    let folder = Folder::new();
    let server = server(&folder, &DEVICES.replace("threads = 2", "threads = 1"), &[]);
    let stream = Stream::with(Codec::H264, (322, 182), 10, "yuv420p", &["-tune", "zerolatency"]);
    let bytes = PixelFormat::Nv12.bytes(322, 182).to_string();
    let outcome = custom(&server, &["errors", "ropeway.decode.h264", &pack(&folder, &stream.chunks), &bytes]);
    assert_eq!(outcome.success().stdout, ERRORS);
}

#[test]
fn frames_that_are_too_large_are_refused() {
    let folder = Folder::new();
    let server = server(&folder, DEVICES, &[]);
    for codec in CODECS {
        let stream = Stream::new(codec, (1282, 182), 3);
        let chunks = [vec![header(codec, 30_000, 30_000), header(codec, 64, 30_000)], stream.chunks].concat();
        let kernel = format!("ropeway.decode.{}", name(codec));
        let text = custom(&server, &["large", &kernel, &pack(&folder, &chunks)]).success().stdout;
        let lines: Vec<_> = text.lines().collect();
        for (line, size) in lines.iter().zip(["30000 x 30000", "64 x 30000", "1282 x 182"]) {
            assert!(line.contains(": -52585, 0 bytes, 0 x 0: "), "{line}");
            assert!(line.contains(&format!("frames of {size}; this decoder takes up to 1280 x 720")), "{line}");
        }
        assert_eq!(lines.len(), 5);
    }
}

#[test]
fn streams_of_a_context_are_limited() {
    let folder = Folder::new();
    let server = server(&folder, DEVICES, &[]);
    let stream = Stream::new(Codec::H264, (160, 96), 1);
    let text = custom(&server, &["crowd", "ropeway.decode.h264", &pack(&folder, &stream.chunks), "4"]).success().stdout;
    assert_eq!(text, "stream 4: -5\nafter an end: 0\n");
}

#[test]
fn encoded_frames_are_seen_by_the_ffmpeg_program() {
    let folder = Folder::new();
    let server = server(&folder, DEVICES, &[]);
    let (width, height) = (320, 192);
    for (number, format, pixels) in [("0", PixelFormat::Nv12, "nv12"), ("1", PixelFormat::Rgba, "rgba")] {
        let source = format!("testsrc2=size={width}x{height}:rate=25");
        let frames =
            ffmpeg(&["-f", "lavfi", "-i", &source, "-frames:v", "20", "-pix_fmt", pixels, "-f", "rawvideo", "-"], &[]);
        assert_eq!(frames.len(), 20 * format.bytes(width, height));
        let nv12 =
            ffmpeg(&["-f", "lavfi", "-i", &source, "-frames:v", "20", "-pix_fmt", "nv12", "-f", "rawvideo", "-"], &[]);
        let input = folder.file("frames");
        fs::write(&input, &frames).expect("a file");
        for codec in CODECS {
            let (kernel, out) = (format!("ropeway.encode.{}", name(codec)), folder.file("chunks"));
            let sizes = [width.to_string(), height.to_string()];
            let args = ["encode", &kernel, &sizes[0], &sizes[1], number, "2000", path(&input), path(&out)];
            let text = custom(&server, &args).success().stdout;
            // SVT-AV1 may have no chunk yet when the buffer is too small.
            assert_eq!(
                text.replace("too small: 0\n", "too small: -52584\n"),
                "too small: -52584\n20 chunks\n",
                "{codec}"
            );
            assert!(codec == Codec::Av1 || text.contains("-52584"), "{text}");
            let decoded = folder.file("decoded");
            let kernel = format!("ropeway.decode.{}", name(codec));
            let text = custom(&server, &["decode", &kernel, path(&out), "0", path(&decoded)]).success().stdout;
            assert_eq!(text, "20 frames\n");
            let decoded = fs::read(&decoded).expect("frames");
            let luma = |frames: &[u8], at: usize| frames[at * 320 * 288..][..320 * 192].to_vec();
            for at in 0..20 {
                let differ: u64 =
                    luma(&decoded, at).iter().zip(&luma(&nv12, at)).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
                assert!(
                    differ < 6 * 320 * 192,
                    "{codec}: frame {at} of {pixels} differs by {} steps",
                    differ / (320 * 192)
                );
            }
            if codec != Codec::Av1 {
                let chunks = unpack(&fs::read(&out).expect("chunks"));
                let args =
                    ["-f", name(codec), "-i", "-", "-vsync", "passthrough", "-pix_fmt", "nv12", "-f", "rawvideo", "-"];
                assert!(ffmpeg(&args, &chunks.concat()) == decoded, "{codec}: ffmpeg's frames are the same");
            }
        }
    }
    let sizes = ["1282", "192", "0", "2000"];
    fs::write(folder.file("frames"), vec![0; PixelFormat::Nv12.bytes(1282, 192)]).expect("a file");
    let (frames, out) = (folder.file("frames"), folder.file("chunks"));
    let args = [&["encode", "ropeway.encode.h264"], &sizes[..], &[path(&frames), path(&out)]].concat();
    assert_eq!(custom(&server, &args).success().stdout, "frame 0: -52585\n0 chunks\n");
}

fn unpack(mut pack: &[u8]) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    while let Some((length, rest)) = pack.split_first_chunk() {
        let (chunk, rest) = rest.split_at(u32::from_ne_bytes(*length) as usize);
        chunks.push(chunk.to_vec());
        pack = rest;
    }
    chunks
}

#[test]
fn point_clouds_come_out_as_from_dracos_own_decoder() {
    let folder = Folder::new();
    let beside = ropeway().with_file_name("libropeway-draco.so");
    assert!(beside.is_file(), "{} is not there: `make draco` builds it", beside.display());
    let server = server(&folder, DEVICES, &[]);
    let mut text =
        "ply\nformat ascii 1.0\nelement vertex 5000\nproperty float x\nproperty float y\nproperty float z\n".to_owned();
    text += "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n";
    for number in 0..5000 {
        let (x, y) = ((number % 100) as f32, (number / 100) as f32);
        text += &format!("{x} {y} {} {} {} 7\n", (x * y).sin(), number % 256, number % 199);
    }
    let (cloud, drc, ply) = (folder.file("cloud.ply"), folder.file("cloud.drc"), folder.file("again.ply"));
    fs::write(&cloud, text).expect("a file");
    run("draco_encoder", &["-point_cloud", "-i", path(&cloud), "-o", path(&drc), "-cl", "10"], &[]);
    run("draco_decoder", &["-i", path(&drc), "-o", path(&ply)], &[]);
    let ply = fs::read(&ply).expect("a file");
    let end = ply.windows(11).position(|window| window == b"end_header\n").expect("a head") + 11;
    let (mut positions, mut colours) = (Vec::new(), Vec::new());
    for point in ply[end..].chunks_exact(15) {
        positions.extend(&point[..12]);
        colours.extend([point[12], point[13], point[14], 255]);
    }
    let chunk = fs::read(&drc).expect("a file");
    let mut claim = chunk.clone();
    claim[11..15].copy_from_slice(&i32::MAX.to_le_bytes());
    let chunks = [chunk.clone(), chunk[..chunk.len() / 2].to_vec(), b"no point cloud".to_vec(), vec![], claim, chunk];
    let (pack, out) = (pack(&folder, &chunks), folder.file("points"));
    for coloured in ["1", "0"] {
        let text = custom(&server, &["points", &pack, coloured, "5000", path(&out)]).success().stdout;
        let expected = [
            "5000 points: 0: ",
            "0 points: -52582: the point cloud cannot be decoded: it is broken, or cut short",
            "0 points: -52582: the point cloud cannot be decoded: it does not begin as Draco's streams do",
            "0 points: -52582: the point cloud cannot be decoded: it does not begin as Draco's streams do",
            "0 points: -52584: the point cloud has 2147483647 points, and the buffers have room for 5000",
            "5000 points: 0: ",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        let once = if coloured == "1" { [positions.clone(), colours.clone()].concat() } else { positions.clone() };
        assert!(fs::read(&out).expect("points") == [once.clone(), once].concat(), "{coloured}");
    }
    let text = custom(&server, &["points", &pack, "1", "4999", path(&out)]).success().stdout;
    let first = "0 points: -52584: the point cloud has 5000 points, and the buffers have room for 4999";
    assert_eq!(text.lines().next(), Some(first));
}

/// Libraries in place of the machine's, which crash when a decoder is wanted.
#[test]
fn a_library_that_crashes_ends_its_session_and_no_other() {
    let folder = Folder::new();
    let libraries = [
        ("libavcodec.so.61", "avcodec_version", "61", include_str!("../../crates/codec/src/libav/functions.rs")),
        ("libavutil.so.59", "avutil_version", "59", ""),
        ("libswscale.so.8", "swscale_version", "8", ""),
    ];
    // Every function's name in every library: which of them has it does not matter.
    let names: Vec<_> =
        libraries[0].3.lines().filter_map(|line| line.trim().split_once(": fn(")).map(|(name, _)| name).collect();
    for (file, version, major, _) in libraries {
        let mut source = format!("unsigned {version}(void) {{ return {major}u << 16; }}\n");
        for name in names.iter().filter(|name| **name != version) {
            let body = if *name == "avcodec_find_decoder_by_name" { "*(volatile int *)0 = 1;" } else { "" };
            source += &format!("long {name}(void) {{ {body} return 0; }}\n");
        }
        run(
            "cc",
            &["-shared", "-fPIC", "-w", "-fno-builtin", "-x", "c", "-o", path(&folder.file(file)), "-"],
            source.as_bytes(),
        );
    }
    let server = server(&folder, DEVICES, &[("LD_LIBRARY_PATH", path(&folder.file("")))]);
    let stream = Stream::new(Codec::H264, (160, 96), 1);
    let outcome = custom(&server, &["large", "ropeway.decode.h264", &pack(&folder, &stream.chunks)]);
    assert!(!outcome.status.success() || outcome.stdout.contains(": -"), "{outcome:?}");
    server.expect_log("SIGSEGV");
    let clinfo = Program::remote("clinfo", server.url()).args(["-l"]).run().success();
    assert_eq!(clinfo.listed(), 1, "{}", clinfo.stdout);
}

#[test]
fn a_machine_without_the_libraries_says_what_to_install() {
    let folder = Folder::new();
    for name in ["libavcodec.so.61", "libavcodec.so.60", "libavcodec.so.59", "libavcodec.so"] {
        fs::write(folder.file(name), "no library").expect("a file");
    }
    let server = server(&folder, DEVICES, &[("LD_LIBRARY_PATH", path(&folder.file("")))]);
    let stream = Stream::new(Codec::H264, (160, 96), 1);
    let text = custom(&server, &["large", "ropeway.decode.h264", &pack(&folder, &stream.chunks)]).success().stdout;
    assert!(text.starts_with("chunk: -52586, 0 bytes, 0 x 0: no video codecs on this machine ("), "{text}");
    assert!(text.contains("install FFmpeg 5, 6 or 7"), "{text}");
}

#[test]
fn tables_that_cannot_be_are_refused_with_a_sentence() {
    let folder = Folder::new();
    for (table, sentence) in [
        ("[[decoder]]\nname = 'D'\ncodecs = []", "[[decoder]] 'D': it has no codecs: name some of h264, hevc, av1"),
        (
            "[[decoder]]\nname = 'D'\nmax_width = 20000",
            "[[decoder]] 'D': max_width = 20000 cannot be: it is 1 to 16384",
        ),
        ("[[encoder]]\nname = 'E'\nrate = 0", "[[encoder]] 'E': rate = 0 cannot be: it is 1 to 1000"),
        ("[[decoder]]\nname = 'D'\ncodecs = ['vp9']", "unknown variant `vp9`"),
        ("[[draco]]\nname = 'D'\nthreads = 3", "unknown field `threads`"),
    ] {
        let file = folder.file("wrong.toml");
        fs::write(&file, table).expect("a file");
        let outcome =
            Program::here(ropeway()).args(["serve", "--listen", "tcp://127.0.0.1:0", "--custom", path(&file)]).run();
        assert!(!outcome.status.success() && outcome.stderr.contains(sentence), "{}", outcome.stderr);
    }
}
