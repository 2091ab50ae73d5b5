//! What the tests of streams have in common.
#![allow(dead_code)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ropeway_stream::{Cancel, Declaration, Ended, Source, Table};

/// Room for any chunk.
pub const ROOM: usize = usize::MAX;

/// The stream that this table declares, with paths relative to `folder`.
pub fn declare(folder: &Path, table: &str) -> Declaration {
    let mut table = toml::from_str::<Table>(table).unwrap();
    table.resolve(folder);
    table.check(1).unwrap()
}

pub fn cancel() -> Cancel {
    Cancel::new().unwrap()
}

/// All chunks up to the end: their bytes.
pub fn all(source: &mut Source) -> (Vec<Vec<u8>>, Ended) {
    let mut chunks = Vec::new();
    loop {
        match source.next(&cancel(), ROOM) {
            Ok(chunk) => {
                assert_eq!((chunk.sequence, chunk.dropped), (chunks.len() as u64, 0));
                chunks.push(chunk.bytes.to_vec());
            }
            Err(end) => return (chunks, end),
        }
    }
}

pub fn mkfifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Waits until something holds, for a minute at most.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} does not come to be");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that ends with its test.
pub struct Process(pub Child);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Video of ffmpeg's test picture: 64 by 48, with 5 pictures each second that stand alone, written to `output`.
pub fn ffmpeg(input: &[&str], output: &[&str]) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-loglevel", "error", "-nostats", "-y"]).args(input).args(output);
    command.stdin(Stdio::null());
    command
}

/// So many pictures.
pub fn video(path: &Path, pictures: u32, encoder: &[&str]) {
    let source = format!("testsrc2=size=64x48:rate=25,trim=end_frame={pictures}");
    let output = [encoder, &["-pix_fmt", "yuv420p", path.to_str().unwrap()]].concat();
    assert!(ffmpeg(&["-f", "lavfi", "-i", &source], &output).status().unwrap().success());
}
