//! Codecs through the interface of their devices (`ropeway_custom::kind`): real streams, damaged, in processes of their own.
//!
//! A process serves many inputs, each in a context of its own, as making streams to damage takes a while. It ends when a library
//! crashes; the input is then tried again in a new one, alone.

use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use ropeway_custom::file::Declarations;
use ropeway_custom::kind::{Argument, Call, Instance, Kind, Range, Signature};
use ropeway_custom::memory::Storage;
use ropeway_generate::{Entropy, damage};

use crate::worker::itself;

/// What the processes are asked to be.
pub const ASKED: &str = "codecs";

/// An input's time. Each has some twenty commands on small frames.
const LIMIT: Duration = Duration::from_secs(60);

/// Inputs of a process: what those before have left behind is then gone.
const MOST: u32 = 500;

/// Frames of the streams that are damaged, on each side. Limits are a little above it.
const SIDE: u32 = 64;

const DEVICES: &str = r#"{
    "decoder": [{"name": "one thread", "max_width": 128, "max_height": 128, "threads": 1, "streams": 3},
                {"name": "three threads", "max_width": 128, "max_height": 128, "threads": 3, "streams": 3}],
    "encoder": [{"name": "encoder", "max_width": 128, "max_height": 128, "threads": 2, "streams": 2}],
    "draco": [{"name": "point clouds"}]
}"#;

struct Process {
    child: Child,
    socket: UnixStream,
    inputs: u32,
}

thread_local! {
    static OWN: RefCell<Option<Process>> = const { RefCell::new(None) };
}

/// The target.
pub fn codecs(data: &[u8]) {
    let before = OWN.take().filter(|process| process.inputs < MOST);
    let was_fresh = before.is_none();
    let mut process = before.unwrap_or_else(Process::start);
    if let Err(first) = process.give(data) {
        drop(process);
        if was_fresh {
            panic!("{first}");
        }
        let mut alone = Process::start();
        match alone.give(data) {
            Ok(()) => panic!("{first}, though not alone: what came before has a part in it"),
            Err(again) => panic!("{again}"),
        }
    }
    OWN.set(Some(process));
}

impl Process {
    fn start() -> Self {
        let (socket, theirs) = UnixStream::pair().expect("a socket pair");
        socket.set_read_timeout(Some(LIMIT)).expect("a limit");
        let mut command: Command = itself(ASKED, OwnedFd::from(theirs));
        let (name, value) = ropeway_custom::QUIET_CODECS;
        let child = command.env(name, value).spawn().expect("a process");
        Self { child, socket, inputs: 0 }
    }

    /// Has an input tried, or says how the process ended instead.
    fn give(&mut self, data: &[u8]) -> Result<(), String> {
        self.inputs += 1;
        let length = (data.len() as u32).to_ne_bytes();
        let mut answer = [0];
        let tried = self.socket.write_all(&[&length, data].concat()).and_then(|()| self.socket.read_exact(&mut answer));
        match tried {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(format!("no end after {LIMIT:?}")),
            Err(_) => Err(format!("the codecs' process ended: {:?}", self.child.wait())),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is such a process.
pub fn be_codecs(socket: OwnedFd) -> u8 {
    let mut socket = UnixStream::from(socket);
    let bench = Bench::new();
    let mut length = [0; 4];
    while socket.read_exact(&mut length).is_ok() {
        let mut data = vec![0; u32::from_ne_bytes(length) as usize];
        if socket.read_exact(&mut data).is_err() {
            break;
        }
        bench.run(&mut Entropy::new(&data));
        if socket.write_all(&[0]).is_err() {
            break;
        }
    }
    0
}

/// The devices, and streams for them.
struct Bench {
    kinds: Vec<Box<dyn Kind>>,
    /// By codec: H.264, HEVC, AV1.
    videos: Vec<Vec<Vec<u8>>>,
    clouds: Vec<Vec<u8>>,
}

/// A device with a context.
struct Device {
    kernels: Vec<Signature>,
    instance: Box<dyn Instance>,
}

impl Device {
    fn open(kind: &dyn Kind) -> Self {
        Self { kernels: kind.kernels(), instance: kind.open() }
    }

    /// Carries out a command; its status.
    fn run(&self, kernel: usize, arguments: Vec<Argument>) -> i32 {
        let ended = Call::new((kernel, &self.kernels[kernel]), [1; 3], arguments)
            .and_then(|mut call| self.instance.run(&mut call));
        let Err(failure) = ended else { return 0 };
        assert!(failure.status < 0 && !failure.text.is_empty(), "{failure:?}");
        failure.status
    }
}

/// A buffer, with bytes before and behind it that nobody may write.
struct Buffer {
    storage: Arc<Storage>,
    len: usize,
}

const GUARD: usize = 4096;
const UNTOUCHED: u8 = 0xA5;

impl Buffer {
    fn new(len: usize) -> Self {
        let storage = Storage::new(len + 2 * GUARD).expect("memory");
        let mut whole = Range::new(&storage, 0, len + 2 * GUARD).expect("all of it");
        whole.bytes_mut().fill(UNTOUCHED);
        Self { storage, len }
    }

    fn of(bytes: &[u8]) -> Self {
        let this = Self::new(bytes.len());
        this.range().bytes_mut().copy_from_slice(bytes);
        this
    }

    fn range(&self) -> Range {
        Range::new(&self.storage, GUARD, self.len).expect("within")
    }

    fn argument(&self) -> Argument {
        Argument::Buffer(Some(self.range()))
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.range().bytes()[at..at + 8].try_into().expect("eight bytes"))
    }

    fn bytes(&self) -> Vec<u8> {
        self.range().bytes().to_vec()
    }

    fn check(&self) {
        let whole = Range::new(&self.storage, 0, self.len + 2 * GUARD).expect("all of it");
        let (before, behind) = (&whole.bytes()[..GUARD], &whole.bytes()[GUARD + self.len..]);
        assert!(before.iter().chain(behind).all(|byte| *byte == UNTOUCHED), "bytes outside of a buffer were written");
    }
}

fn uint(value: u32) -> Argument {
    Argument::Value(value.to_ne_bytes().to_vec())
}

fn record(size: u64, sequence: u64) -> Buffer {
    Buffer::of(&[size, sequence, 0, 0].map(u64::to_ne_bytes).concat())
}

const NV12: usize = (SIDE * SIDE * 3 / 2) as usize;

impl Bench {
    fn new() -> Self {
        let kinds = Declarations::from_text(DEVICES).and_then(Declarations::kinds).expect("devices");
        let encoder = Device::open(&*kinds[2]);
        let videos = (0..3).map(|codec| video(&encoder, codec)).collect();
        Self { kinds, videos, clouds: clouds() }
    }

    fn run(&self, entropy: &mut Entropy<'_>) {
        match entropy.byte() {
            0..=3 => self.encode(entropy),
            4..=79 => self.points(entropy),
            _ => self.decode(entropy),
        }
    }

    fn decode(&self, entropy: &mut Entropy<'_>) {
        let decoder = Device::open(&*self.kinds[usize::from(entropy.byte() % 2)]);
        let kernel = usize::from(entropy.byte() % 3);
        let mut next = [0; 3];
        for number in 0..u64::from(entropy.byte() % 24) {
            let stream = usize::from(entropy.byte() % 8).saturating_sub(5);
            let mut source = kernel;
            let mut chunk = Vec::new();
            let kind = entropy.byte() % 32;
            if kind == 1 {
                source = usize::from(entropy.byte() % 3);
            }
            if kind != 0 {
                chunk.clone_from(&self.videos[source][next[stream] % self.videos[source].len()]);
                next[stream] += 1;
            }
            match kind {
                2..=15 => damage(&mut chunk, entropy),
                16 => chunk = (0..entropy.byte()).map(|_| entropy.byte()).collect(),
                17 => {
                    chunk.extend(self.videos[kernel][usize::from(entropy.byte()) % self.videos[kernel].len()].clone())
                }
                18 => next[stream] += usize::from(entropy.byte()),
                _ => {}
            }
            let claim =
                if kind == 19 { u64::from(entropy.byte()) << (entropy.byte() % 64) } else { chunk.len() as u64 };
            let format = u32::from(entropy.byte()) % 66 / 32;
            let room = if kind == 20 { usize::from(entropy.byte()) * 100 } else { 128 * 128 * 4 };
            let (chunk, frame, about) = (Buffer::of(&chunk), Buffer::new(room), Buffer::new(32));
            let about_chunk = record(claim, number);
            let arguments = [&chunk, &about_chunk, &frame, &about].map(Buffer::argument);
            let all = [vec![uint(stream as u32)], arguments.to_vec(), vec![uint(format)]].concat();
            let end = decoder.run(kernel, all);
            for buffer in [&chunk, &about_chunk, &frame, &about] {
                buffer.check();
            }
            let size = about.word(0);
            let (width, height) = (about.word(16) as u32, (about.word(16) >> 32) as u32);
            assert!(size == 0 || end == 0, "a frame from a command that failed");
            assert!(width <= 128 && height <= 128, "{width} x {height}");
            let chroma = width.div_ceil(2) * 2 * height.div_ceil(2);
            let bytes = if format == 0 { width * height + chroma } else { width * height * 4 };
            assert!(
                size == 0 || (size == u64::from(bytes) && size <= room as u64),
                "{size} bytes of {width} x {height}"
            );
        }
    }

    fn points(&self, entropy: &mut Entropy<'_>) {
        let draco = Device::open(&*self.kinds[3]);
        for _ in 0..u64::from(entropy.byte() % 16) {
            let mut chunk = self.clouds[usize::from(entropy.byte()) % self.clouds.len()].clone();
            match entropy.byte() % 8 {
                0 => {}
                1 => chunk = (0..entropy.byte()).map(|_| entropy.byte()).collect(),
                _ => damage(&mut chunk, entropy),
            }
            let room = 100 + usize::from(entropy.byte());
            let with_colours = !entropy.byte().is_multiple_of(4);
            let (points, colours) = (Buffer::new(room * 12), Buffer::new(room * 4));
            let (about, about_colours) = (Buffer::new(16), Buffer::new(16));
            let (about_chunk, chunk) = (record(chunk.len() as u64, 0), Buffer::of(&chunk));
            let of_colours = |buffer: &Buffer| if with_colours { buffer.argument() } else { Argument::Buffer(None) };
            let arguments = [
                chunk.argument(),
                about_chunk.argument(),
                points.argument(),
                of_colours(&colours),
                about.argument(),
                of_colours(&about_colours),
            ];
            let end = draco.run(0, arguments.to_vec());
            for buffer in [&chunk, &about_chunk, &points, &colours, &about, &about_colours] {
                buffer.check();
            }
            let (size, count) = (about.word(0), about.word(8));
            assert!(size == count * 12 && size <= room as u64 * 12, "{count} points where {room} have room");
            assert!(count == 0 || end == 0, "points from a command that failed");
        }
    }

    fn encode(&self, entropy: &mut Entropy<'_>) {
        let encoder = Device::open(&*self.kinds[2]);
        // SVT-AV1 takes long to begin with.
        let kernel = if entropy.byte() == 0 { 2 } else { usize::from(entropy.byte() % 2) };
        for _ in 0..u64::from(entropy.byte() % 8) {
            let side = |entropy: &mut Entropy<'_>| match entropy.byte() % 8 {
                0 => 0,
                1 => u32::from(entropy.byte()),
                _ => 64,
            };
            let (width, height) = (side(entropy), side(entropy));
            let (format, kbit) = (u32::from(entropy.byte()) % 66 / 32, u32::from(entropy.byte()) * 40);
            let frame =
                if entropy.byte().is_multiple_of(8) { usize::from(entropy.byte()) * 100 } else { 256 * 256 * 4 };
            let room = if entropy.byte().is_multiple_of(8) { usize::from(entropy.byte()) } else { 1 << 20 };
            let (frame, chunk, about) = (Buffer::new(frame), Buffer::new(room), Buffer::new(32));
            let values = [width, height, format, kbit].map(uint);
            let buffers = [chunk.argument(), about.argument()];
            let all = [vec![uint(0), frame.argument()], values.to_vec(), buffers.to_vec()].concat();
            let end = encoder.run(kernel, all);
            for buffer in [&frame, &chunk, &about] {
                buffer.check();
            }
            assert!(about.word(0) <= room as u64 && (about.word(0) == 0 || end == 0));
        }
    }
}

/// Some frames of a pattern that moves, encoded.
fn video(encoder: &Device, codec: usize) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    for number in 0..40_usize {
        let size = if number < 10 { SIDE } else { 0 };
        let frame: Vec<u8> = (0..NV12).map(|at| ((at % 64 + number) * (at / 64 + 3 * number)) as u8).collect();
        let (frame, chunk, about) = (Buffer::of(&frame), Buffer::new(1 << 16), Buffer::new(32));
        let values = [size, size, 0, 300].map(uint).to_vec();
        let buffers = [chunk.argument(), about.argument()].to_vec();
        let end = encoder.run(codec, [vec![uint(codec as u32), frame.argument()], values, buffers].concat());
        if number >= 10 && end != 0 {
            break;
        }
        assert_eq!(end, 0, "codec {codec} encodes; `make packages` installs what it takes");
        let len = about.word(0) as usize;
        chunks.extend((len > 0).then(|| chunk.bytes()[..len].to_vec()));
    }
    assert_eq!(chunks.len(), 10, "a chunk for each frame");
    chunks
}

/// A small cloud, encoded in each way that Draco has.
fn clouds() -> Vec<Vec<u8>> {
    let folder = std::env::temp_dir().join(format!("ropeway-fuzz-clouds-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (ply, drc) = (folder.join("cloud.ply"), folder.join("cloud.drc"));
    let mut text = "ply\nformat ascii 1.0\nelement vertex 100\n".to_owned();
    text += "property float x\nproperty float y\nproperty float z\n";
    text += "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n";
    for number in 0..100_u32 {
        let (x, y) = ((number % 10) as f32, (number / 10) as f32);
        text += &format!("{x} {y} {} {number} {} 9\n", (x * y).sin(), number * 2);
    }
    fs::write(&ply, text).expect("a file");
    let encode = |how: &[&str; 4]| {
        let encoder = Command::new("draco_encoder")
            .arg("-point_cloud")
            .arg("-i")
            .arg(&ply)
            .arg("-o")
            .arg(&drc)
            .args(how)
            .output();
        let encoder = encoder.expect("`make packages` installs draco_encoder");
        assert!(encoder.status.success(), "{encoder:?}");
        fs::read(&drc).expect("a file")
    };
    let ways =
        [["-cl", "0", "-qp", "0"], ["-cl", "0", "-qp", "11"], ["-cl", "7", "-qp", "11"], ["-cl", "10", "-qp", "14"]];
    let clouds = ways.iter().map(encode).collect();
    let _ = fs::remove_dir_all(&folder);
    clouds
}
