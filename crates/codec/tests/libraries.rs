//! What a machine says whose libraries are missing, or of a version that is not known. Each case is a process of its own, which finds
//! others in place of the machine's.

mod common;

use std::process::Command;

use common::{Folder, path, run};
use ropeway_codec::{Kind, video_library};

/// What `the_library_of_this_process` prints where these are the machine's libraries.
fn sentence(folder: &Folder) -> String {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "the_library_of_this_process", "--ignored", "--nocapture", "--test-threads=1"])
        .env("LD_LIBRARY_PATH", folder.file(""))
        .output()
        .expect("this program runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().find_map(|line| line.strip_prefix("library: ")).expect("a sentence").to_owned()
}

#[test]
#[ignore = "what the other tests run"]
fn the_library_of_this_process() {
    // A line of its own: the name of the test stands before it.
    match video_library() {
        Ok(library) => println!("\nlibrary: {library}"),
        Err(error) => println!("\nlibrary: {:?}: {error}", error.kind()),
    }
    if let Err(error) = video_library() {
        assert_eq!(error.kind(), Kind::NoLibrary);
    }
}

/// Builds a library of this name.
fn library(folder: &Folder, name: &str, source: &str) {
    let file = folder.file(name);
    run("cc", &["-shared", "-fPIC", "-x", "c", "-o", path(&file), "-"], source.as_bytes());
}

const ADVICE: &str =
    "install FFmpeg 5, 6 or 7 with its libavcodec and libswscale (on Debian and Ubuntu: apt install ffmpeg)";

#[test]
fn the_machines_own_is_named() {
    let sentence = sentence(&Folder::new());
    assert!(sentence.starts_with("FFmpeg ") && sentence.contains("libavcodec "), "{sentence}");
}

#[test]
fn a_missing_library_is_told_with_what_to_install() {
    let folder = Folder::new();
    for name in ["libavcodec.so.61", "libavcodec.so.60", "libavcodec.so.59", "libavcodec.so"] {
        std::fs::write(folder.file(name), "no library").expect("a file");
    }
    let sentence = sentence(&folder);
    assert!(sentence.starts_with("NoLibrary: no video codecs on this machine ("), "{sentence}");
    assert!(sentence.ends_with(ADVICE), "{sentence}");
}

#[test]
fn an_unknown_version_is_refused() {
    let folder = Folder::new();
    library(&folder, "libavcodec.so.61", "unsigned avcodec_version(void) { return 62u << 16; }");
    let refused = "NoLibrary: libavcodec 62 is none that Ropeway knows (59 to 61, of FFmpeg 5 to 7); ";
    assert_eq!(sentence(&folder), format!("{refused}{ADVICE}"));
}

#[test]
fn a_library_without_the_functions_is_refused() {
    let folder = Folder::new();
    library(&folder, "libavcodec.so.61", "unsigned avcodec_version(void) { return 61u << 16; }");
    let sentence = sentence(&folder);
    assert!(
        sentence.starts_with("NoLibrary: libavcodec cannot be used: avcodec_find_decoder_by_name is missing: "),
        "{sentence}"
    );
    assert!(sentence.ends_with(ADVICE), "{sentence}");
}
