//! Files and FIFOs, each read by one process.

mod common;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use common::{ROOM, all, cancel, declare, mkfifo, until, video};
use ropeway_stream::queue::Fault;
use ropeway_stream::{Ended, Source};

/// Runs a test again in a process of its own, without the threads of other tests; false in that process.
fn runs_alone(test: &str) -> bool {
    if std::env::var_os("ROPEWAY_STREAM_TEST").is_some() {
        return false;
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    assert!(again.args(["--exact", test]).env("ROPEWAY_STREAM_TEST", "1").status().unwrap().success());
    true
}

/// Whether this process has the file open.
fn is_open(path: &Path) -> bool {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|target| target == path)
}

/// How many threads of this name there are.
fn threads(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)).count()
}

#[test]
fn a_file_is_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..1_000_003_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    fs::write(folder.path().join("f"), &bytes).unwrap();
    let declaration = declare(folder.path(), "name = 'f'\nfile = 'f'\nformat = 'bytes'\nchunk = 4096\nring = 2");
    let mut source = Source::open(&declaration).unwrap();
    let (chunks, end) = all(&mut source);
    assert_eq!((chunks.len(), end), (1_000_003_usize.div_ceil(4096), Ended::End));
    assert_eq!(chunks.concat(), bytes);
    assert_eq!(source.next(&cancel(), ROOM), Err(Ended::End));
}

#[test]
fn a_chunk_that_is_too_large_waits_for_a_larger_buffer() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), b"0123456789").unwrap();
    let declaration = declare(folder.path(), "name = 'f'\nfile = 'f'\nformat = 'bytes'\nchunk = 8");
    let mut source = Source::open(&declaration).unwrap();
    for _ in 0..3 {
        assert_eq!(source.next(&cancel(), 7), Err(Ended::TooLarge { bytes: 8 }));
    }
    let chunk = source.next(&cancel(), 8).unwrap();
    assert_eq!((&chunk.bytes[..], chunk.sequence), (&b"01234567"[..], 0));
    assert_eq!(&source.next(&cancel(), 2).unwrap().bytes[..], b"89");
}

#[test]
fn a_file_can_begin_again() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), b"abc").unwrap();
    fs::write(folder.path().join("empty"), b"").unwrap();
    let loops = "format = 'bytes'\nchunk = 2\nloop = true";
    let mut source = Source::open(&declare(folder.path(), &format!("name = 'f'\nfile = 'f'\n{loops}"))).unwrap();
    let chunks: Vec<_> = (0..6).map(|_| source.next(&cancel(), ROOM).unwrap()).collect();
    let bytes: Vec<_> = chunks.iter().map(|chunk| &chunk.bytes[..]).collect();
    assert_eq!(bytes, [&b"ab"[..], b"c", b"ab", b"c", b"ab", b"c"]);
    assert_eq!(chunks[5].sequence, 5);
    let mut empty = Source::open(&declare(folder.path(), &format!("name = 'f'\nfile = 'empty'\n{loops}"))).unwrap();
    assert_eq!(empty.next(&cancel(), ROOM), Err(Ended::End));
}

#[test]
fn a_rate_is_the_clocks_and_who_comes_late_finds_some_dropped() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), vec![7; 40]).unwrap();
    let begun = Instant::now();
    let table = "name = 'f'\nfile = 'f'\nformat = 'bytes'\nchunk = 1\nrate = 200\nring = 3";
    let mut source = Source::open(&declare(folder.path(), table)).unwrap();
    assert_eq!(all(&mut source).0.len(), 40);
    drop(source);
    // The last is due after 39 of 200 parts of a second.
    assert!(begun.elapsed() >= Duration::from_millis(195));

    let late = |policy: &str| {
        let mut source = Source::open(&declare(folder.path(), &format!("{table}\nfull = '{policy}'"))).unwrap();
        if policy != "wait" {
            // Nobody asks before all have come.
            until("the end of the file", || !is_open(&folder.path().join("f")));
        }
        let chunks: Vec<_> = std::iter::from_fn(|| source.next(&cancel(), ROOM).ok()).collect();
        assert_eq!(source.next(&cancel(), ROOM), Err(Ended::End));
        let times =
            chunks.iter().all(|chunk| chunk.time >= Duration::from_secs(1).mul_f64(chunk.sequence as f64 / 200.0));
        assert!(times);
        chunks.iter().map(|chunk| (chunk.sequence, chunk.dropped)).collect::<Vec<_>>()
    };
    assert_eq!(late("drop-oldest"), [(37, 37), (38, 37), (39, 37)]);
    assert_eq!(late("drop-newest"), [(0, 37), (1, 37), (2, 37)]);
    assert_eq!(late("wait"), (0..40).map(|n| (n, 0)).collect::<Vec<_>>());
}

#[test]
fn what_is_not_there_or_not_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), b"RIFF").unwrap();
    mkfifo(&folder.path().join("fifo"));
    let open = |table: &str| Source::open(&declare(folder.path(), table));
    for (table, expected) in [
        ("name = 'a'\nfile = 'none'\nformat = 'bytes'", "none: No such file"),
        ("name = 'a'\nfile = '.'\nformat = 'bytes'", "it is no regular file"),
        ("name = 'a'\nfile = 'fifo'\nformat = 'bytes'", "it is no regular file"),
        ("name = 'a'\nfile = '/dev/zero'\nformat = 'bytes'", "it is no regular file"),
        ("name = 'a'\nfifo = 'f'\nformat = 'bytes'", "it is no FIFO"),
    ] {
        let error = open(table).err().unwrap();
        assert!(error.starts_with("cannot open stream 'a', /") && error.contains(expected), "{error}");
    }
    let mut source = open("name = 'a'\nfile = 'f'\nformat = 'h264'").unwrap();
    let Err(Ended::Failed(why)) = source.next(&cancel(), ROOM) else { panic!() };
    assert_eq!(
        why.text,
        "stream 'a': the stream is not what its declaration says, h264: it does not begin with a start code"
    );
    assert!(why.is_invalid);
    assert_eq!(source.next(&cancel(), ROOM), Err(Ended::Failed(why)));
}

#[test]
fn a_fifo_waits_for_its_writer_and_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mkfifo(&path);
    let declaration = declare(folder.path(), "name = 'f'\nfifo = 'fifo'\nformat = 'frames'");
    let mut source = Source::open(&declaration).unwrap();
    // There is a reader, so this does not wait.
    let mut writer = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
    writer.write_all(b"\x03\0\0\0abc\x02\0\0\0").unwrap();
    assert_eq!(&source.next(&cancel(), ROOM).unwrap().bytes[..], b"abc");
    // The writer stalls within a frame.
    let stop = cancel();
    let waits = thread::spawn({
        let stop = stop.clone();
        move || (source.next(&stop, ROOM), source)
    });
    stop.cancel();
    let (result, mut source) = waits.join().unwrap();
    assert_eq!(result, Err(Ended::Cancelled));
    writer.write_all(b"de\x07").unwrap();
    assert_eq!(&source.next(&cancel(), ROOM).unwrap().bytes[..], b"de");
    drop(writer);
    assert_eq!(
        source.next(&cancel(), ROOM),
        Err(Ended::Failed(Fault::invalid("stream 'f': the stream ends within a frame")))
    );
}

#[test]
fn what_is_dropped_leaves_no_thread() {
    if runs_alone("what_is_dropped_leaves_no_thread") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    mkfifo(&folder.path().join("fifo"));
    fs::write(folder.path().join("f"), vec![0; 1 << 20]).unwrap();
    // It waits for a writer; for room; for the time of its next chunk.
    let tables = [
        "fifo = 'fifo'\nformat = 'bytes'",
        "file = 'f'\nformat = 'bytes'\nchunk = 1\nring = 1",
        "file = 'f'\nformat = 'bytes'\nchunk = 1\nrate = 0.001",
    ];
    let sources: Vec<_> = tables
        .iter()
        .map(|table| Source::open(&declare(folder.path(), &format!("name = 'f'\n{table}"))).unwrap())
        .collect();
    until("three threads", || threads("stream") == 3);
    drop(sources);
    until("no thread", || threads("stream") == 0);
}

/// Each picture is one chunk, whatever the encoder makes of it.
#[test]
fn real_video_is_cut_into_its_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let x264 = |more: &str| format!("-c:v libx264 -preset veryfast {more} -f h264");
    for (format, encoder) in [
        ("h264", x264("-bf 3 -g 10")),
        ("h264", x264("-x264-params slices=4:aud=1 -g 5")),
        ("h264", x264("-tune zerolatency -x264-params intra-refresh=1")),
        ("hevc", "-c:v libx265 -preset ultrafast -bf 3 -x265-params log-level=error -f hevc".into()),
        (
            "hevc",
            "-c:v libx265 -preset ultrafast -x265-params log-level=error:aud=1:slices=2:repeat-headers=1 -f hevc"
                .into(),
        ),
        ("ivf", "-c:v libaom-av1 -cpu-used 8 -usage realtime -f ivf".into()),
    ] {
        video(&folder.path().join("video"), 30, &encoder.split(' ').collect::<Vec<_>>());
        let table = format!("name = 'v'\nfile = 'video'\nformat = '{format}'");
        let (chunks, end) = all(&mut Source::open(&declare(folder.path(), &table)).unwrap());
        assert_eq!((chunks.len(), end), (30, Ended::End), "{encoder}");
        if format != "ivf" {
            assert_eq!(chunks.concat(), fs::read(folder.path().join("video")).unwrap());
        }
    }
}
