//! Streams that one reader reads for several sessions.

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::{Process, ROOM, all, cancel, declare, ffmpeg, mkfifo, until, video};
use ropeway_stream::queue::Fault;
use ropeway_stream::{Cancel, Declaration, Ended, Source, feed::Feeds};

/// One stream, and what its sessions open.
struct One {
    declaration: Declaration,
    feeds: Arc<Feeds>,
}

impl One {
    fn new(folder: &Path, table: &str) -> Self {
        Self::received_by(folder, table, "ffmpeg".as_ref())
    }

    fn received_by(folder: &Path, table: &str, program: &Path) -> Self {
        let declaration = declare(folder, &format!("name = 'a'\n{table}"));
        let feeds = Arc::new(Feeds::new([declaration.clone()], program));
        Self { declaration, feeds }
    }

    fn open(&self) -> Source {
        Source::over(&self.declaration, self.feeds.open("a", Arc::default()).unwrap()).unwrap()
    }

    /// Waits until nobody reads the stream.
    fn is_idle(&self) {
        until("no reader", || self.feeds.under_way() == 0);
    }
}

fn writer(path: &Path) -> File {
    let mut file = None;
    until("a reader", || {
        file = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path).ok();
        file.is_some()
    });
    file.unwrap()
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

fn next(source: &mut Source) -> (u64, u64, Vec<u8>) {
    let chunk = source.next(&cancel(), ROOM).unwrap();
    (chunk.sequence, chunk.dropped, chunk.bytes.to_vec())
}

fn fault(result: Result<ropeway_stream::queue::Chunk, Ended>) -> Fault {
    match result {
        Err(Ended::Failed(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_nobody_offers_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let one = One::new(folder.path(), "file = 'none'\nformat = 'bytes'");
    assert_eq!(one.feeds.open("b", Arc::default()).unwrap_err(), "there is no stream 'b'");
    let error = one.feeds.open("a", Arc::default()).unwrap_err();
    assert!(error.starts_with("cannot open stream 'a', ") && error.contains("No such file"), "{error}");
}

#[test]
fn each_session_reads_a_file_from_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), b"abcdef").unwrap();
    let one = One::new(folder.path(), "file = 'f'\nformat = 'bytes'\nchunk = 2");
    let (mut first, mut second) = (one.open(), one.open());
    for source in [&mut first, &mut second] {
        assert_eq!(all(source), (vec![b"ab".to_vec(), b"cd".to_vec(), b"ef".to_vec()], Ended::End));
    }
}

#[test]
fn a_fifo_is_given_to_all_and_held_up_by_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mkfifo(&path);
    let one = One::new(folder.path(), "fifo = 'fifo'\nformat = 'frames'\nring = 4");
    let (mut quick, mut slow) = (one.open(), one.open());
    let mut fifo = writer(&path);
    fifo.write_all(&frame(b"0")).unwrap();
    assert_eq!(next(&mut quick), (0, 0, b"0".to_vec()));
    // The other is there, too, and asks for nothing.
    for n in 1..100_u64 {
        fifo.write_all(&frame(n.to_string().as_bytes())).unwrap();
        assert_eq!(next(&mut quick), (n, 0, n.to_string().into_bytes()));
    }
    // It has what its ring holds, and knows what it has missed.
    let got: Vec<_> = (0..4).map(|_| next(&mut slow)).collect();
    let expected: Vec<_> = (96..100_u64).map(|n| (n, 96, n.to_string().into_bytes())).collect();
    assert_eq!(got, expected);
    drop(fifo);
    for source in [&mut quick, &mut slow] {
        assert_eq!(source.next(&cancel(), ROOM), Err(Ended::End));
        assert_eq!(source.next(&cancel(), ROOM), Err(Ended::End));
    }
    drop((quick, slow));
    one.is_idle();
}

#[test]
fn a_writer_waits_for_the_only_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mkfifo(&path);
    let one = One::new(folder.path(), "fifo = 'fifo'\nformat = 'bytes'\nchunk = 1000\nring = 2");
    let mut source = one.open();
    let mut fifo = OpenOptions::new().write(true).open(&path).unwrap();
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|n| (n / 7) as u8).collect();
    let written = bytes.clone();
    let writes = thread::spawn(move || fifo.write_all(&written).unwrap());
    let (chunks, end) = all(&mut source);
    assert_eq!((chunks.len(), end), (2000, Ended::End));
    assert_eq!(chunks.concat(), bytes);
    writes.join().unwrap();
}

#[test]
fn a_wait_is_cancelled_and_the_reader_ends_with_its_last_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mkfifo(&path);
    let one = One::new(folder.path(), "fifo = 'fifo'\nformat = 'frames'");
    let (mut source, stop) = (one.open(), cancel());
    let held = Arc::new(());
    let other = one.feeds.open("a", held.clone()).unwrap();
    let waits = thread::spawn({
        let stop = stop.clone();
        move || (source.next(&stop, ROOM), source)
    });
    stop.cancel();
    let (result, mut source) = waits.join().unwrap();
    assert_eq!(result, Err(Ended::Cancelled));
    // What it had asked for then is what it gets now.
    writer(&path).write_all(&frame(b"x")).unwrap();
    assert_eq!(next(&mut source), (0, 0, b"x".to_vec()));
    assert_eq!(one.feeds.under_way(), 1);
    drop(source);
    assert_eq!(Arc::strong_count(&held), 2);
    drop(other);
    one.is_idle();
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn a_fifo_that_is_not_what_it_says_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mkfifo(&path);
    let one = One::new(folder.path(), "fifo = 'fifo'\nformat = 'frames'\nmost = 10");
    let (mut first, mut second) = (one.open(), one.open());
    let mut fifo = writer(&path);
    fifo.write_all(&[&frame(b"good")[..], &[0xff; 8]].concat()).unwrap();
    for source in [&mut first, &mut second] {
        assert_eq!(next(source), (0, 0, b"good".to_vec()));
        let why = fault(source.next(&cancel(), ROOM));
        assert!(why.is_invalid && why.text.contains("a frame of more than 10 bytes"), "{why:?}");
        assert_eq!(fault(source.next(&cancel(), ROOM)), why);
    }
    // Who comes now begins anew, while the others have not let go.
    drop(fifo);
    let mut third = one.open();
    let mut fifo = writer(&path);
    fifo.write_all(&frame(b"again")).unwrap();
    assert_eq!(next(&mut third), (0, 0, b"again".to_vec()));
    let missing = One::new(folder.path(), "fifo = 'none'\nformat = 'bytes'");
    let why = fault(missing.open().next(&cancel(), ROOM));
    assert!(!why.is_invalid && why.text.contains("No such file"), "{why:?}");
}

#[test]
fn one_who_comes_late_begins_where_a_decoder_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mkfifo(&path);
    video(&folder.path().join("v"), 25, &["-c:v", "libx264", "-preset", "ultrafast", "-g", "10", "-f", "h264"]);
    let chunks = all(&mut Source::open(&declare(folder.path(), "name = 'v'\nfile = 'v'\nformat = 'h264'")).unwrap()).0;
    let one = One::new(folder.path(), "fifo = 'fifo'\nformat = 'h264'");
    let mut first = one.open();
    let mut fifo = writer(&path);
    let mut give = |n: usize| fifo.write_all(&chunks[n]).unwrap();
    // A picture has ended when the next one has begun.
    (0..5).for_each(&mut give);
    (0..4).for_each(|n| assert_eq!(next(&mut first).2, chunks[n]));
    let mut late = one.open();
    (5..15).for_each(&mut give);
    assert_eq!(next(&mut late), (0, 0, chunks[10].clone()));
    assert_eq!(next(&mut late), (1, 0, chunks[11].clone()));
}

/// A port on which nobody receives UDP now.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Video without end, as a camera sends it.
const CAMERA: &[&str] = &["-re", "-f", "lavfi", "-i", "testsrc2=size=64x48:rate=25"];
const X264: &[&str] =
    &["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "10", "-pix_fmt", "yuv420p"];

fn send(encoder: &[&str], to: &[&str]) -> Process {
    Process::start(&mut ffmpeg(CAMERA, &[encoder, to].concat()))
}

/// The first of these is where a decoder can begin, and all are pictures.
fn is_h264(chunks: &[Vec<u8>]) {
    let kinds = |chunk: &[u8]| -> Vec<u8> {
        (3..chunk.len()).filter(|&at| chunk[at - 3..at] == [0, 0, 1]).map(|at| chunk[at] & 0x1f).collect()
    };
    assert!(kinds(&chunks[0]).contains(&7) && kinds(&chunks[0]).contains(&5), "{:?}", kinds(&chunks[0]));
    assert!(chunks.iter().all(|chunk| kinds(chunk).iter().filter(|kind| matches!(kind, 1 | 5)).count() >= 1));
}

fn first_pictures(source: &mut Source) -> Vec<Vec<u8>> {
    (0..12).map(|_| next(source).2).collect()
}

#[test]
fn rtp_is_received() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("rtp://127.0.0.1:{}", free_port());
    let one = One::new(folder.path(), &format!("url = '{url}'\nformat = 'h264'\nring = 100"));
    let mut source = one.open();
    let _sender = send(X264, &["-f", "rtp", &url]);
    is_h264(&first_pictures(&mut source));
    let mut late = one.open();
    is_h264(&first_pictures(&mut late));
    drop((source, late));
    one.is_idle();
}

#[test]
fn mpeg_transport_streams_are_received() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("udp://127.0.0.1:{}", free_port());
    let one = One::new(folder.path(), &format!("url = '{url}'\nformat = 'h264'\nring = 100"));
    let mut source = one.open();
    let _sender = send(X264, &["-f", "mpegts", &url]);
    is_h264(&first_pictures(&mut source));
}

/// A server of RTSP for one client, as cameras have it: it passes on the RTP that comes to `packets`, over the client's own
/// connection (RFC 2326, 10.12), and ends with it.
fn serve_rtsp(listener: TcpListener, packets: UdpSocket) -> thread::JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let (connection, _) = listener.accept().unwrap();
        let (mut asked, mut lines) = (Vec::new(), BufReader::new(connection.try_clone().unwrap()).lines());
        loop {
            let request: Vec<_> = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let method = request[0].split(' ').next().unwrap().to_owned();
            let header = |name: &str| request.iter().find(|line| line.starts_with(name)).cloned().unwrap_or_default();
            let (headers, body) = match method.as_str() {
                "DESCRIBE" => {
                    let media = "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:track\r\n";
                    let body = format!("v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n{media}");
                    (format!("Content-Type: application/sdp\r\nContent-Length: {}\r\n", body.len()), body)
                }
                "SETUP" => (format!("{}\r\nSession: 7\r\n", header("Transport:")), String::new()),
                "OPTIONS" => ("Public: OPTIONS, DESCRIBE, SETUP, PLAY\r\n".to_owned(), String::new()),
                _ => ("Session: 7\r\n".to_owned(), String::new()),
            };
            let reply = format!("RTSP/1.0 200 OK\r\n{}\r\n{headers}\r\n{body}", header("CSeq:"));
            (&connection).write_all(reply.as_bytes()).unwrap();
            asked.push(format!("{method} {}", header("Transport:")));
            if method == "PLAY" {
                break;
            }
        }
        let mut packet = [0; 65_536];
        loop {
            let length = packets.recv(&mut packet).unwrap();
            let head = [b'$', 0, (length >> 8) as u8, length as u8];
            if (&connection).write_all(&[&head[..], &packet[..length]].concat()).is_err() {
                return asked;
            }
        }
    })
}

#[test]
fn rtsp_is_received_over_one_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (listener, packets) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    packets.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let url = format!("rtsp://user:secret@{}/gate", listener.local_addr().unwrap());
    let _sender = send(X264, &["-f", "rtp", &format!("rtp://{}", packets.local_addr().unwrap())]);
    let server = serve_rtsp(listener, packets);
    let one = One::new(folder.path(), &format!("url = '{url}'\nformat = 'h264'\nring = 256"));
    let mut source = one.open();
    is_h264(&first_pictures(&mut source));
    drop(source);
    one.is_idle();
    let asked = server.join().unwrap();
    assert!(asked.iter().any(|request| request.starts_with("SETUP Transport: RTP/AVP/TCP;")), "{asked:?}");
}

/// Accepts one connection, and sends it these bytes.
fn serve_once(listener: TcpListener, bytes: Vec<u8>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        // It may be cut off.
        let _ = connection.write_all(&bytes);
    })
}

#[test]
fn what_a_server_sends_by_tcp_comes_whole_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n / 3) as u8).collect();
    let server = serve_once(listener, bytes.clone());
    let one = One::new(folder.path(), &format!("url = '{url}'\nformat = 'bytes'\nchunk = 10000\nfull = 'wait'"));
    let (chunks, end) = all(&mut one.open());
    assert_eq!((chunks.len(), end), (30, Ended::End));
    assert_eq!(chunks.concat(), bytes);
    server.join().unwrap();
}

#[test]
fn av1_comes_by_tcp() {
    let folder = tempfile::tempdir().unwrap();
    video(&folder.path().join("v"), 10, &["-c:v", "libaom-av1", "-cpu-used", "8", "-usage", "realtime", "-f", "ivf"]);
    let expected = all(&mut Source::open(&declare(folder.path(), "name = 'v'\nfile = 'v'\nformat = 'ivf'")).unwrap()).0;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let table = format!("url = 'tcp://{}'\nformat = 'ivf'\nfull = 'wait'", listener.local_addr().unwrap());
    let server = serve_once(listener, fs::read(folder.path().join("v")).unwrap());
    let (chunks, end) = all(&mut One::new(folder.path(), &table).open());
    assert_eq!((chunks.len(), end), (10, Ended::End));
    assert_eq!(chunks, expected);
    server.join().unwrap();
}

#[test]
fn a_receiver_that_fails_is_told_of_and_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://user:secret@{}", listener.local_addr().unwrap());
    let address = listener.local_addr().unwrap();
    drop(listener);
    // Nobody listens there.
    let one = One::new(folder.path(), &format!("url = '{url}'\nformat = 'bytes'\nchunk = 4\nfull = 'wait'"));
    let mut source = one.open();
    for _ in 0..2 {
        let why = fault(source.next(&cancel(), ROOM));
        let is_told = why.text.contains("Connection refused") && why.text.contains("; it is tried again in ");
        assert!(!why.is_invalid && is_told && !why.text.contains("secret"), "{why:?}");
    }
    let server = serve_once(TcpListener::bind(address).unwrap(), b"abcd".to_vec());
    let mut result = source.next(&cancel(), ROOM);
    while let Err(Ended::Failed(_)) = result {
        result = source.next(&cancel(), ROOM);
    }
    assert_eq!(&result.unwrap().bytes[..], b"abcd");
    assert_eq!(source.next(&cancel(), ROOM), Err(Ended::End));
    server.join().unwrap();
}

/// A program in ffmpeg's place: it writes down its process, and does what `body` says.
fn stand_in(folder: &Path, body: &str) -> std::path::PathBuf {
    let path = folder.join("stand-in");
    fs::write(&path, format!("#!/bin/sh\necho $$ >>{}\n{body}\n", folder.join("started").display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn started(folder: &Path) -> Vec<String> {
    fs::read_to_string(folder.join("started")).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("stand-in"))
}

const LIVE: &str = "url = 'udp://127.0.0.1:9'\nformat = 'frames'\nring = 3";

#[test]
fn one_process_serves_all_and_ends_with_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let program = stand_in(folder.path(), "printf '\\001\\000\\000\\000x'; exec sleep 1000");
    let one = One::received_by(folder.path(), LIVE, &program);
    assert_eq!(started(folder.path()), Vec::<String>::new());
    let (mut first, second) = (one.open(), one.open());
    assert_eq!(next(&mut first).2, b"x");
    let pids = started(folder.path());
    assert_eq!(pids.len(), 1);
    drop(first);
    assert_eq!(one.feeds.under_way(), 1);
    drop(second);
    one.is_idle();
    until("its end", || fs::metadata(format!("/proc/{}", pids[0])).is_err());
}

#[test]
fn a_process_that_is_killed_or_does_not_obey_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let stubborn = stand_in(folder.path(), "trap '' TERM; printf '\\001\\000\\000\\000x'; while :; do sleep 1; done");
    let one = One::received_by(folder.path(), LIVE, &stubborn);
    let mut source = one.open();
    assert_eq!(next(&mut source), (0, 0, b"x".to_vec()));
    let first = started(folder.path()).remove(0);
    // Somebody kills it; the stream goes on after that.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(first.parse().unwrap()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let why = fault(source.next(&cancel(), ROOM));
    assert!(
        why.text.starts_with("stream 'a': ffmpeg has ended without a word (signal: 9 (SIGKILL)); it is"),
        "{why:?}"
    );
    assert_eq!(next(&mut source), (1, 0, b"x".to_vec()));
    let second = started(folder.path()).remove(1);
    assert!(runs(&second));
    drop(source);
    one.is_idle();
    assert!(!runs(&second));
}

#[test]
fn its_last_word_is_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let program = stand_in(folder.path(), "echo first >&2; printf 'no route to udp://127.0.0.1:9\\n\\n' >&2; exit 3");
    let one = One::received_by(folder.path(), LIVE, &program);
    let mut source = one.open();
    let why = fault(source.next(&cancel(), ROOM)).text;
    assert_eq!(why, "stream 'a': ffmpeg has ended: no route to its address; it is tried again in 0.25 s");
    assert!(fault(source.next(&cancel(), ROOM)).text.ends_with("tried again in 0.50 s"));
    let missing = One::received_by(folder.path(), LIVE, Path::new("/nowhere/ffmpeg"));
    let why = fault(missing.open().next(&cancel(), ROOM)).text;
    assert!(why.starts_with("there is no program /nowhere/ffmpeg on the server"), "{why}");
}

#[test]
fn a_camera_is_asked_for_its_formats_and_read() {
    let folder = tempfile::tempdir().unwrap();
    video(&folder.path().join("v"), 5, &["-c:v", "libx264", "-preset", "ultrafast", "-f", "h264"]);
    let expected =
        all(&mut Source::open(&declare(folder.path(), "name = 'v'\nfile = 'v'\nformat = 'h264'")).unwrap()).0;
    // It lists what it has and fails by that, as ffmpeg does; or is told to give what it has.
    let listed = "[v4l2 @ 0x1] Compressed:        h264 :                H.264 : 1920x1080";
    let body = format!(
        "cd {}; case \"$*\" in\n*'-list_formats all -i /dev/video7') echo '{listed}' >&2; exit 1;;\n\
         *' -input_format h264 -i /dev/video7 -an -c:v copy '*) exec cat v;;\nesac\nexit 9",
        folder.path().display()
    );
    let program = stand_in(folder.path(), &body);
    let one = One::received_by(folder.path(), "v4l2 = '/dev/video7'\nformat = 'h264'", &program);
    assert_eq!(all(&mut one.open()), (expected, Ended::End));
    assert_eq!(started(folder.path()).len(), 2);
}

#[test]
fn a_fifo_has_a_rate_if_it_is_given_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mkfifo(&path);
    let one = One::new(folder.path(), "fifo = 'fifo'\nformat = 'bytes'\nchunk = 1\nrate = 100\nring = 30");
    let mut source = one.open();
    writer(&path).write_all(&[7; 20]).unwrap();
    for n in 0..20 {
        let chunk = source.next(&cancel(), ROOM).unwrap();
        // Counted from when the FIFO was opened, a little after the session had come.
        assert!(chunk.sequence == n && chunk.time >= Duration::from_millis(10 * n), "{chunk:?}");
    }
    assert_eq!(source.next(&cancel(), ROOM), Err(Ended::End));
}

#[test]
fn a_stalled_session_costs_nobody_anything_and_has_its_counts() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("chunks"),
        (0..2000_u32).flat_map(|n| frame(&[n.to_le_bytes(); 1000].concat())).collect::<Vec<_>>(),
    )
    .unwrap();
    // It begins when both sessions are there.
    mkfifo(&folder.path().join("go"));
    let program = stand_in(folder.path(), &format!("cd {} && exec cat go chunks", folder.path().display()));
    for (policy, expected) in [("drop-oldest", [1997, 1998, 1999]), ("drop-newest", [0, 1, 2])] {
        let table = format!("url = 'tcp://x:1'\nformat = 'frames'\nfull = '{policy}'\nring = 3");
        let one = One::received_by(folder.path(), &table, &program);
        let (quick, mut stalled) = (one.open(), one.open());
        let reads = thread::spawn(move || {
            let (mut quick, mut taken, mut dropped) = (quick, 0, 0);
            loop {
                match quick.next(&Cancel::new().unwrap(), ROOM) {
                    Ok(chunk) => (taken, dropped) = (taken + 1, chunk.dropped),
                    Err(end) => return (taken + dropped, end),
                }
            }
        });
        drop(writer(&folder.path().join("go")));
        let (counted, end) = reads.join().unwrap();
        assert_eq!(end, Ended::End);
        // Of the newest, those that were dropped after the last that it took are not told of.
        assert!(counted == 2000 || counted < 2000 && policy == "drop-newest", "{counted}");
        let got: Vec<_> = (0..3).map(|_| stalled.next(&cancel(), ROOM).unwrap()).collect();
        for (chunk, n) in got.iter().zip(expected) {
            assert_eq!((chunk.sequence, chunk.dropped), (u64::from(n as u32), 1997));
            assert_eq!(chunk.bytes[..4], (n as u32).to_le_bytes());
        }
        assert_eq!(stalled.next(&cancel(), ROOM), Err(Ended::End));
    }
}

/// What a session may send besides asking.
#[test]
fn a_session_that_misbehaves_is_let_go_of() {
    let folder = tempfile::tempdir().unwrap();
    mkfifo(&folder.path().join("fifo"));
    let one = One::new(folder.path(), "fifo = 'fifo'\nformat = 'bytes'\nchunk = 4096");
    let mut good = one.open();
    let socket = one.feeds.open("a", Arc::default()).unwrap();
    let mut bad = std::os::unix::net::UnixStream::from(socket);
    bad.set_nonblocking(true).unwrap();
    // As many requests as the socket takes, and no answer read.
    while bad.write(&[b'?'; 4096]).is_ok() {}
    let mut fifo = OpenOptions::new().write(true).open(folder.path().join("fifo")).unwrap();
    let writes = thread::spawn(move || fifo.write_all(&vec![1; 4096 * 500]).unwrap());
    // What the other has taken, this one may have missed; it is counted.
    let chunks: Vec<_> = std::iter::from_fn(|| good.next(&cancel(), ROOM).ok()).collect();
    let last = chunks.last().unwrap();
    assert_eq!((last.sequence, chunks.len() as u64 + last.dropped), (499, 500));
    assert_eq!(good.next(&cancel(), ROOM), Err(Ended::End));
    writes.join().unwrap();
    let mut head = [0; 32];
    bad.set_nonblocking(false).unwrap();
    bad.read_exact(&mut head).unwrap();
    assert_eq!(head[..8], [0, 0, 0, 0, 0, 16, 0, 0]);
    drop((bad, good));
    one.is_idle();
}
