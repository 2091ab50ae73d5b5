//! Notes that tests leave for the summary of `make test`: which of them were skipped, and which native programs
//! crashed.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use crate::places;

/// The file with a note on each line: its kind, the test, and what happened, with tabs between them. `scripts/test.sh`
/// removes it before the tests and reads it after them.
fn file() -> PathBuf {
    places::kept("notes").join("notes")
}

/// The name of the test that runs on this thread, with its file's.
fn test() -> String {
    let exe = std::env::current_exe().unwrap_or_default();
    let name = exe.file_name().unwrap_or_default().to_string_lossy();
    let file = name.rsplit_once('-').map_or(&*name, |(file, _)| file);
    format!("{file}::{}", std::thread::current().name().unwrap_or("a thread of a test"))
}

fn note(kind: &str, what: &str) {
    let line = format!("{kind}\t{}\t{}\n", test(), what.replace(['\n', '\t'], " "));
    eprint!("{line}");
    let opened = OpenOptions::new().create(true).append(true).open(file());
    // One write, so that lines of several processes do not mix.
    opened.and_then(|mut file| file.write_all(line.as_bytes())).expect("a note can be left");
}

/// The test cannot run here, and says why. It must return after this.
///
/// # Panics
/// Under CI (`CI` is set), where every test must be able to run.
pub fn skipped(why: &str) {
    assert!(std::env::var_os("CI").is_none_or(|value| value.is_empty() || value == "false"), "skipped under CI: {why}");
    note("skipped", why);
}

/// A native program crashed, without Ropeway, and is run again.
pub fn native_crash(what: &str) {
    note("native crash", what);
}
