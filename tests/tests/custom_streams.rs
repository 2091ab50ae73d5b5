//! Streams as custom devices: files, FIFOs and what comes over the network, as programs see them through a real server.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ropeway_tests::custom::{custom_file, serve, serve_with};
use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::c_program;
use ropeway_tests::program::{Program, Running};
use ropeway_tests::server::Server;
use ropeway_tests::{process, wait_for};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("ropeway-streams-").tempdir().expect("a temporary folder can be made")
}

fn table(name: &str, from: &str, rest: &str) -> String {
    format!("[[source]]\nname = \"{name}\"\n{from}\n{rest}\n")
}

fn file(path: &Path) -> String {
    format!("file = \"{}\"", path.display())
}

fn written(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("a file can be written");
    path
}

fn fifo(folder: &TempDir) -> (PathBuf, String) {
    let path = folder.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO can be made");
    let from = format!("fifo = \"{}\"", path.display());
    (path, from)
}

/// The FIFO's writing end, once the server reads it.
fn writer(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = wait_for("reader of the FIFO", LIMIT, || options.open(path).ok());
    let flags = rustix::fs::fcntl_getfl(&file).expect("it is open");
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK).expect("it can wait");
    file
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).expect("it is short").to_le_bytes()[..], bytes].concat()
}

/// The hash of `custom_streams.c`.
fn hash(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(14_695_981_039_346_656_037_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211));
    format!("{hash:016x}")
}

fn chunk(sequence: u64, dropped: u64, bytes: &[u8]) -> String {
    format!("chunk {sequence}, {dropped} dropped, {} bytes, {}", bytes.len(), hash(bytes))
}

fn start(server: &Server, name: &str) -> Running {
    Program::remote(c_program("custom_streams"), server.url()).args([name]).start()
}

/// What the program answers to a line.
fn ask(program: &mut Running, line: &str) -> String {
    program.say(line);
    program.line()
}

/// Waits until no session is left and the server reads no stream.
fn is_idle(server: &Server) {
    wait_for("idle server", LIMIT, || {
        let log = server.log();
        let over = log.matches("session ends").count() == log.matches("session begins").count();
        (over && receivers(server).is_empty()).then_some(())
    });
}

/// The server's processes that receive streams.
fn receivers(server: &Server) -> Vec<u32> {
    let is_ffmpeg =
        |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"ffmpeg\0"));
    process::children(server.pid()).into_iter().filter(is_ffmpeg).collect()
}

/// Whether the server's process has a file open.
fn has_open(server: &Server, path: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{}/fd", server.pid())).into_iter().flatten().flatten();
    open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|target| target == path)
}

#[test]
fn a_file_comes_as_fast_as_it_is_asked_for_and_ends() {
    let folder = folder();
    let bytes: Vec<u8> = (0..1_000_003_u32).map(|n| (n / 5) as u8).collect();
    let path = written(&folder, "f", &bytes);
    let server = serve(&table("gate", &file(&path), "format = \"bytes\"\nchunk = 65536"));
    let mut program = start(&server, "gate");
    let all = format!("16 chunks, 0 dropped, 1000003 bytes, {}; ", hash(&bytes));
    let end = "ended with -52581: the stream 'gate' has ended";
    assert_eq!(ask(&mut program, "all 65536"), format!("{all}{end}"));
    assert_eq!(ask(&mut program, "next 65536"), end);
    // Another session reads it from its beginning.
    assert_eq!(ask(&mut start(&server, "gate"), "all 70000"), format!("{all}{end}"));
    program.finish().success();
    is_idle(&server);
}

#[test]
fn a_chunk_that_is_larger_than_its_buffer_is_there_for_the_next_try() {
    let folder = folder();
    let bytes = [[1; 5000], [2; 5000]].concat();
    let path = written(&folder, "f", &bytes);
    let server = serve(&table("gate", &file(&path), "format = \"bytes\"\nchunk = 5000"));
    let mut program = start(&server, "gate");
    for room in [1, 4096, 4999] {
        let told =
            format!("ended with -52584: the next chunk of the stream 'gate' has 5000 bytes, and the buffer {room}");
        assert_eq!(ask(&mut program, &format!("next {room}")), told);
    }
    assert_eq!(ask(&mut program, "next 5000"), chunk(0, 0, &bytes[..5000]));
    assert_eq!(ask(&mut program, "next 5001"), chunk(1, 0, &bytes[5000..]));
    program.finish().success();
}

#[test]
fn a_stream_with_a_rate_goes_on_without_those_who_come_late() {
    let folder = folder();
    let path = written(&folder, "f", &[&[0; 7][..], &(1..=100).flat_map(|n| [n; 7]).collect::<Vec<_>>()].concat());
    let rest = |full: &str| format!("format = \"bytes\"\nchunk = 7\nrate = 400\nring = 5\nfull = \"{full}\"");
    let policies = ["wait", "drop-oldest", "drop-newest"];
    let tables: String = policies.iter().map(|full| table(full, &file(&path), &rest(full))).collect();
    let server = serve(&tables);
    let mut programs = policies.map(|name| start(&server, name));
    for program in &mut programs {
        assert_eq!(ask(program, "next 7"), chunk(0, 0, &[0; 7]));
        // The file is read at once; its last chunk is due a quarter of a second after the first.
        std::thread::sleep(Duration::from_millis(1));
    }
    // All three have all chunks or count those that are dropped; who is not late drops nothing, so the numbers depend on time,
    // and their sum does not.
    for (program, name) in programs.iter_mut().zip(policies) {
        let line = ask(program, "all 7");
        let numbers: Vec<u64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).take(3).collect();
        let [taken, dropped, bytes] = numbers[..] else { panic!("{line}") };
        assert_eq!(bytes, 7 * taken, "{line}");
        assert!(taken + dropped == 100 && (name != "wait" || dropped == 0), "{name}: {line}");
        assert!(line.ends_with(&format!("ended with -52581: the stream '{name}' has ended")), "{line}");
    }
}

#[test]
fn what_was_dropped_is_counted() {
    let folder = folder();
    let (path, from) = fifo(&folder);
    let rest = "format = \"frames\"\nring = 4\nfull = ";
    let tables = table("gate", &from, &format!("{rest}\"drop-oldest\""));
    let server = serve_with(&tables, &[("ROPEWAY_LOG", "debug")]);
    let (mut quick, mut slow) = (start(&server, "gate"), start(&server, "gate"));
    let mut chunks = None;
    for n in 0..40_u64 {
        let bytes = [n as u8; 1000];
        if n == 0 {
            // Both have the stream open when it begins.
            quick.say("wait 1000");
            slow.say("wait 1000");
            assert_eq!((quick.line().as_str(), slow.line().as_str()), ("enqueued", "enqueued"));
            is_read_by(&server, 2);
        }
        let fifo = chunks.get_or_insert_with(|| writer(&path));
        fifo.write_all(&frame(&bytes)).expect("it is read");
        if n > 0 {
            assert_eq!(ask(&mut quick, "next 1000"), chunk(n, 0, &bytes));
        }
    }
    for n in 36..40_u64 {
        assert_eq!(ask(&mut slow, "next 1000"), chunk(n, 35, &[n as u8; 1000]));
    }
    drop(chunks);
    assert!(ask(&mut slow, "next 1000").starts_with("ended with -52581"));
    drop((quick, slow));
    is_idle(&server);
    wait_for("FIFO without a reader", LIMIT, || (!has_open(&server, &path)).then_some(()));
}

/// Waits until so many sessions have the stream open.
fn is_read_by(server: &Server, sessions: usize) {
    let opened = || server.log().matches("a session opens a stream").count();
    wait_for("sessions that read the stream", LIMIT, || (opened() == sessions).then_some(()));
}

#[test]
fn a_wait_for_a_stalled_stream_ends_with_its_context() {
    let folder = folder();
    let (path, from) = fifo(&folder);
    let server = serve(&table("gate", &from, "format = \"frames\""));
    let mut program = start(&server, "gate");
    assert_eq!(ask(&mut program, "wait 1000"), "enqueued");
    // The writer stalls within a frame.
    let mut fifo = writer(&path);
    fifo.write_all(&frame(b"stalls")[..7]).expect("it is read");
    assert_eq!(ask(&mut program, "release"), "released");
    // The command has ended, while the program and its session go on.
    wait_for("FIFO without a reader", LIMIT, || (!has_open(&server, &path)).then_some(()));
    assert!(!server.log().contains("session ends"), "{}", server.log());
    program.finish().success();
    is_idle(&server);
    // Nor does a program that is killed leave anything.
    let mut program = start(&server, "gate");
    drop(fifo);
    assert_eq!(ask(&mut program, "wait 1000"), "enqueued");
    let fifo = writer(&path);
    program.kill();
    is_idle(&server);
    wait_for("FIFO without a reader", LIMIT, || (!has_open(&server, &path)).then_some(()));
    drop(fifo);
}

#[test]
fn what_is_not_what_it_says_is_told_apart_from_what_does_not_come() {
    let folder = folder();
    let text = written(&folder, "text", b"This is no video.");
    let cut = written(&folder, "cut", &frame(b"truncated")[..8]);
    let huge = written(&folder, "huge", &[&frame(b"good")[..], &[0xff; 8]].concat());
    let gone = written(&folder, "gone", b"");
    let tables = [
        table("text", &file(&text), "format = \"hevc\""),
        table("cut", &file(&cut), "format = \"frames\""),
        table("huge", &file(&huge), "format = \"frames\""),
        table("gone", &file(&gone), "format = \"bytes\""),
    ];
    let server = serve(&tables.concat());
    fs::remove_file(&gone).expect("it was there");
    let next = |name: &str| ask(&mut start(&server, name), "next 4096");
    let expected = "ended with -52582: stream 'text': the stream is not what its declaration says, hevc: it does not begin \
                    with a start code";
    assert_eq!(next("text"), expected);
    assert_eq!(next("cut"), "ended with -52582: stream 'cut': the stream ends within a frame");
    let mut program = start(&server, "huge");
    assert_eq!(ask(&mut program, "next 4096"), chunk(0, 0, b"good"));
    assert!(
        ask(&mut program, "next 4096").starts_with("ended with -52582: stream 'huge': the stream has a frame of more")
    );
    let told = next("gone");
    assert!(
        told.starts_with("ended with -52583: cannot open stream 'gone', ") && told.contains("No such file"),
        "{told}"
    );
}

/// A process that ends with its test.
struct Sender(Child);

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A camera: ffmpeg's test picture, 25 times each second and without end, sent there.
fn camera(to: &[&str]) -> Sender {
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-loglevel", "error", "-nostats", "-re", "-f", "lavfi"]);
    command.args([
        "-i",
        "testsrc2=size=64x48:rate=25",
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-tune",
        "zerolatency",
    ]);
    command.args(["-g", "10", "-pix_fmt", "yuv420p"]).args(to);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    Sender(child.expect("ffmpeg is installed"))
}

/// A port on which nobody receives UDP now.
fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    socket.expect("there is a free port").port()
}

/// The number of a chunk and how many were dropped, of what the program prints of one.
fn numbers(line: &str) -> (u64, u64) {
    let numbers: Vec<u64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).take(2).collect();
    assert!(line.starts_with("chunk ") && numbers.len() == 2, "{line}");
    (numbers[0], numbers[1])
}

#[test]
fn streams_come_over_the_network() {
    let (rtp, udp) = (free_port(), free_port());
    let (rtp, udp) = (format!("rtp://127.0.0.1:{rtp}"), format!("udp://127.0.0.1:{udp}"));
    let url = |url: &str| format!("url = \"{url}\"");
    let rest = "format = \"h264\"\nring = 256";
    let server = serve(&[table("rtp", &url(&rtp), rest), table("ts", &url(&udp), rest)].concat());
    let (mut by_rtp, mut by_ts) = (start(&server, "rtp"), start(&server, "ts"));
    assert!(receivers(&server).is_empty());
    // Each command waits until its camera is there.
    by_rtp.say("next 100000");
    by_ts.say("next 100000");
    let _cameras = [camera(&["-f", "rtp", &rtp]), camera(&["-f", "mpegts", &udp])];
    for program in [&mut by_rtp, &mut by_ts] {
        assert_eq!(numbers(&program.line()), (0, 0));
        for n in 1..20 {
            assert_eq!(numbers(&ask(program, "next 100000")), (n, 0));
        }
    }
    assert_eq!(receivers(&server).len(), 2);
    drop((by_rtp, by_ts));
    is_idle(&server);
}

#[test]
fn a_live_stream_is_received_once_and_a_stalled_session_costs_nobody_anything() {
    let url = format!("udp://127.0.0.1:{}", free_port());
    let server = serve(&table("gate", &format!("url = \"{url}\""), "format = \"h264\"\nring = 3"));
    let _camera = camera(&["-f", "mpegts", &url]);
    let (mut quick, mut stalled) = (start(&server, "gate"), start(&server, "gate"));
    for program in [&mut quick, &mut stalled] {
        numbers(&ask(program, "next 100000"));
    }
    let [receiver] = receivers(&server)[..] else { panic!("one process receives the stream") };
    // The quick session never waits for the other.
    let (first, _) = numbers(&ask(&mut quick, "next 100000"));
    let mut last = first;
    while last < first + 40 {
        let (sequence, _) = numbers(&ask(&mut quick, "next 100000"));
        assert!(sequence > last);
        last = sequence;
    }
    let (sequence, dropped) = numbers(&ask(&mut stalled, "next 100000"));
    assert!(dropped >= 30 && sequence == dropped + 1, "chunk {sequence} after {dropped} that were dropped");
    // The receiver is killed, and started again.
    process::kill(receiver);
    let told = wait_for("failure", LIMIT, || {
        let line = ask(&mut quick, "next 100000");
        line.starts_with("ended").then_some(line)
    });
    // It may have complained of the stream's beginning before.
    assert!(told.starts_with("ended with -52583: stream 'gate': ffmpeg has ended "), "{told}");
    assert!(told.contains("(signal: 9 (SIGKILL))") && told.contains("; it is tried again"), "{told}");
    let (sequence, _) = numbers(&ask(&mut quick, "next 100000"));
    assert!(sequence > last);
    let [again] = receivers(&server)[..] else { panic!("one process receives the stream") };
    assert_ne!(again, receiver);
    // One session goes, and the stream stays; with the other it goes, too.
    quick.kill();
    numbers(&wait_for("chunk", LIMIT, || {
        let line = ask(&mut stalled, "next 100000");
        line.starts_with("chunk").then_some(line)
    }));
    assert_eq!(receivers(&server), [again]);
    stalled.kill();
    is_idle(&server);
}

#[test]
fn a_client_reads_the_streams_that_its_rules_name() {
    let folder = folder();
    let tables: String = ["gate", "yard"]
        .iter()
        .map(|name| table(name, &file(&written(&folder, name, name.as_bytes())), "format = \"bytes\""))
        .collect();
    let declared = custom_file(&tables);
    let encrypted = Encrypted::start_with(&["--custom", declared.to_str().expect("UTF-8")]);
    // The processor has number 0.
    for (devices, seen) in [("yard", "yard\n"), ("0,2", "yard\n"), ("custom", "gate\nyard\n"), ("1", "gate\n")] {
        let ticket = encrypted.new_ticket(&devices.replace(',', "-"), &["--devices", devices]);
        let program = || Program::remote(c_program("custom_streams"), &ticket);
        assert_eq!(program().run().success().stdout, seen, "{devices}");
        for name in seen.lines() {
            assert_eq!(ask(&mut program().args([name]).start(), "next 100"), chunk(0, 0, name.as_bytes()));
        }
    }
}

#[test]
fn a_server_that_stops_leaves_no_receiver() {
    let url = format!("udp://127.0.0.1:{}", free_port());
    for kill in [false, true] {
        let mut server = serve(&table("gate", &format!("url = \"{url}\""), "format = \"h264\""));
        let mut program = start(&server, "gate");
        assert_eq!(ask(&mut program, "wait 1000"), "enqueued");
        let receiver = wait_for("receiver", LIMIT, || receivers(&server).first().copied());
        if kill {
            server.kill();
        } else {
            assert!(server.stop().success());
        }
        wait_for("receiver's end", LIMIT, || (!process::is_alive(receiver)).then_some(()));
        program.kill();
    }
}

#[test]
fn a_table_with_an_error_is_refused_in_one_sentence() {
    let cases = [
        (table("a", "file = \"f\"", ""), "the [[source]] table 'a' has no format"),
        (table("a", "file = \"f\"", "format = \"bytes\"\nring = 0"), "has ring = 0; it must be between 1 and 65536"),
        (table("a", "", "format = \"bytes\""), "must have exactly one of file, fifo, v4l2 and url"),
        (table("a", "file = \"f\"", "format = \"bytes\"").repeat(2), "two of its devices have the name 'a'"),
    ];
    for (text, expected) in cases {
        let file = custom_file(&text);
        let file = file.to_str().expect("UTF-8");
        let outcome = Program::native(ropeway_tests::places::ropeway());
        let told = outcome.args(["serve", "--listen", "tcp://127.0.0.1:0", "--custom", file]).run();
        assert!(!told.status.success() && told.stderr.contains(&format!("{file}: ")), "{}", told.stderr);
        assert!(told.stderr.contains(expected), "{}", told.stderr);
    }
}
