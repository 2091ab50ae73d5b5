//! What the tests share: streams made by ffmpeg, and how they are cut into chunks.
#![allow(dead_code, reason = "each file of tests uses some of it")]

pub mod claims;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use ropeway_codec::{Codec, Error, Limits, PixelFormat, VideoDecoder};

/// A folder that goes with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ropeway-codec-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a folder of its own");
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Runs a program to its end and returns what it wrote.
pub fn run(program: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} cannot be run ({error}): `make packages` installs it"));
    let mut stdin = child.stdin.take().expect("a pipe");
    let (output, errors) = std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input)));
        let mut stderr = child.stderr.take().expect("a pipe");
        let errors = scope.spawn(move || {
            let mut text = String::new();
            drop(stderr.read_to_string(&mut text));
            text
        });
        let mut output = Vec::new();
        child.stdout.take().expect("a pipe").read_to_end(&mut output).expect("the output");
        (output, errors.join().expect("no panic"))
    });
    let status = child.wait().expect("the program ends");
    assert!(status.success(), "{program} {arguments:?}: {status}: {errors}");
    output
}

pub fn ffmpeg(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    run("ffmpeg", &[&["-hide_banner", "-loglevel", "error", "-nostdin"], arguments].concat(), input)
}

/// A stream of moving pictures.
pub struct Stream {
    pub codec: Codec,
    pub size: (u32, u32),
    /// As ffmpeg wrote it: with start codes, or an IVF file.
    pub file: Vec<u8>,
    /// As the decoder wants it.
    pub chunks: Vec<Vec<u8>>,
}

impl Stream {
    /// With a key frame every twelve frames, and some that refer to later ones.
    pub fn new(codec: Codec, size: (u32, u32), frames: u32) -> Self {
        Self::with(codec, size, frames, "yuv420p", &[])
    }

    pub fn with(codec: Codec, size: (u32, u32), frames: u32, pixels: &str, more: &[&str]) -> Self {
        let source = format!("testsrc2=size={}x{}:rate=25", size.0, size.1);
        let frames = frames.to_string();
        let how: &[&str] = match codec {
            Codec::H264 => &["-c:v", "libx264", "-preset", "veryfast", "-x264-params", "aud=1", "-f", "h264"],
            Codec::Hevc => {
                let parameters =
                    "aud=1:log-level=none:repeat-headers=1:pools=1:frame-threads=1:bframes=2:keyint=12:open-gop=0";
                &["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", parameters, "-f", "hevc"]
            }
            Codec::Av1 => &["-c:v", "libsvtav1", "-preset", "12", "-f", "ivf"],
        };
        let before = ["-f", "lavfi", "-i", &source, "-frames:v", &frames, "-pix_fmt", pixels, "-g", "12"];
        let file = ffmpeg(&[&before, how, more, &["-"]].concat(), &[]);
        let chunks = if codec == Codec::Av1 { ivf(&file) } else { access_units(codec, &file) };
        Self { codec, size, file, chunks }
    }

    /// Its frames, decoded by the ffmpeg program.
    pub fn frames(&self, format: PixelFormat) -> Vec<Vec<u8>> {
        let container = match self.codec {
            Codec::H264 => "h264",
            Codec::Hevc => "hevc",
            Codec::Av1 => "ivf",
        };
        let pixels = match format {
            PixelFormat::Nv12 => "nv12",
            PixelFormat::Rgba => "rgba",
        };
        let mut arguments = vec!["-f", container];
        if self.codec == Codec::Av1 {
            arguments.extend(["-c:v", "libdav1d"]);
        }
        arguments.extend(["-i", "-", "-vsync", "passthrough", "-pix_fmt", pixels, "-f", "rawvideo", "-"]);
        let bytes = format.bytes(self.size.0, self.size.1);
        let all = ffmpeg(&arguments, &self.file);
        assert_eq!(all.len() % bytes, 0, "ffmpeg writes whole frames");
        all.chunks(bytes).map(<[u8]>::to_vec).collect()
    }
}

/// Cuts before each access unit delimiter.
fn access_units(codec: Codec, stream: &[u8]) -> Vec<Vec<u8>> {
    let delimits = |unit: &[u8]| match codec {
        Codec::H264 => unit[0] & 0x1F == 9,
        _ => unit[0] >> 1 & 0x3F == 35,
    };
    let mut cuts: Vec<usize> = (0..stream.len().saturating_sub(3))
        .filter(|&at| stream[at..].starts_with(&[0, 0, 1]) && delimits(&stream[at + 3..]))
        .map(|at| if at > 0 && stream[at - 1] == 0 { at - 1 } else { at })
        .collect();
    assert_eq!(cuts[0], 0, "the stream begins with a delimiter");
    cuts.push(stream.len());
    cuts.windows(2).map(|cut| stream[cut[0]..cut[1]].to_vec()).collect()
}

fn ivf(file: &[u8]) -> Vec<Vec<u8>> {
    assert!(file.starts_with(b"DKIF"), "an IVF file");
    let mut chunks = Vec::new();
    let mut rest = &file[32..];
    while !rest.is_empty() {
        let size = u32::from_le_bytes(rest[..4].try_into().expect("four bytes")) as usize;
        chunks.push(rest[12..12 + size].to_vec());
        rest = &rest[12 + size..];
    }
    chunks
}

pub const CODECS: [Codec; 3] = [Codec::H264, Codec::Hevc, Codec::Av1];

pub fn limits(threads: u32) -> Limits {
    Limits { max_width: 1920, max_height: 1080, threads }
}

/// What came out of a decoder, in order: frames and failures.
#[derive(Default)]
pub struct Output {
    pub frames: Vec<Vec<u8>>,
    pub failures: Vec<Error>,
}

impl Output {
    /// Gives a chunk and takes all frames that there are then.
    pub fn feed(&mut self, decoder: &mut VideoDecoder, chunk: &[u8], format: PixelFormat) {
        self.failures.extend(decoder.feed(chunk).err());
        self.take(decoder, format);
    }

    pub fn take(&mut self, decoder: &mut VideoDecoder, format: PixelFormat) {
        loop {
            match decoder.frame() {
                Ok(Some(mut frame)) => {
                    let (width, height) = frame.size();
                    let mut bytes = vec![0; format.bytes(width, height)];
                    assert_eq!(frame.write(format, &mut bytes), Ok(bytes.len()));
                    self.frames.push(bytes);
                    frame.take();
                }
                Ok(None) => return,
                Err(error) => self.failures.push(error),
            }
        }
    }
}

/// Decodes all chunks and drains.
pub fn decode(decoder: &mut VideoDecoder, chunks: &[Vec<u8>], format: PixelFormat) -> Output {
    let mut output = Output::default();
    for chunk in chunks {
        output.feed(decoder, chunk, format);
    }
    output.feed(decoder, &[], format);
    output
}

/// Says which frame is the first that is not the same, as whole frames are no good to print.
pub fn assert_same(frames: &[Vec<u8>], expected: &[Vec<u8>]) {
    let wrong = frames.iter().zip(expected).position(|(frame, expected)| frame != expected);
    assert_eq!((frames.len(), wrong), (expected.len(), None), "frames, and the first that differs");
}

pub fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}
