//! Bytes that no real client sends: each such connection ends with a reason in the log, and no other client notices.

mod common;

use std::time::{Duration, Instant};

use common::{Server, answer, hello, random, rest, send, until};
use ropeway_protocol::VERSION;
use ropeway_protocol::handshake::{HandshakeError, MAGIC, Opening, encode_opening};

/// A preamble by hand.
fn preamble(version: u16, opening: u16, len: u32) -> Vec<u8> {
    [&MAGIC[..], &version.to_le_bytes(), &opening.to_le_bytes(), &len.to_le_bytes()].concat()
}

#[test]
fn nonsense_ends_that_connection_only() {
    let server = Server::start(&[]);
    let session = server.client().unwrap();
    let before = server.resident();
    for (bytes, reason) in [
        (random(64 << 10), "it does not speak Ropeway's protocol"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "it does not speak Ropeway's protocol"),
        (vec![0; 1 << 20], "it does not speak Ropeway's protocol"),
        (preamble(VERSION, 0, u32::MAX), "the client announced 4294967295 bytes of handshake"),
        (preamble(VERSION, 1, 1 << 20), "it opened like a server"),
        (preamble(VERSION, 9, 0), "the client's handshake does not decode"),
        ([preamble(VERSION, 0, 100), vec![0xff; 100]].concat(), "the client's handshake does not decode"),
        (preamble(VERSION, 0, 0), "the client's handshake does not decode"),
    ] {
        let link = server.link();
        // The server may have ended the connection before all is sent.
        let _ = ropeway_transport::Sender::send_all(&link, &mut [std::io::IoSlice::new(&bytes)]);
        rest(&link);
        server.await_log(reason);
        session.ping();
    }
    for _ in 0..100 {
        let link = server.link();
        let _ = ropeway_transport::Sender::send_all(&link, &mut [std::io::IoSlice::new(&random(3000))]);
    }
    server.client().unwrap().ping();
    session.ping();
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 4 << 10, "the server's memory grew by {grown} KiB");
}

#[test]
fn a_truncated_handshake_is_named() {
    let server = Server::start(&[]);
    let whole = encode_opening(Opening::Hello, &hello());
    for len in [0, 1, 15, 16, 17, whole.len() - 1] {
        let link = server.link();
        send(&link, &whole[..len]);
        link.shutdown();
    }
    server.await_log("it closed without a word");
    server.await_log("it closed after 15 bytes of its handshake");
    server.await_log(&format!("it closed after {} bytes of its handshake", whole.len() - 1));
    server.client().unwrap().ping();
}

#[test]
fn another_version_is_told_so() {
    let server = Server::start(&[]);
    let link = server.link();
    // Bytes behind the preamble are not looked at: another version's hello may be anything.
    send(&link, &[preamble(VERSION + 1, 0, 500), random(500)].concat());
    let error = answer(&link).unwrap_err();
    let HandshakeError::Refused(text) = &error else { panic!("{error}") };
    assert!(text.contains("install the same release of Ropeway on both"), "{text}");
    server.await_log("connection refused: this server");
}

#[test]
fn silent_peers_are_dropped_in_time_and_keep_nobody_out() {
    let server = Server::start(&[]);
    let start = Instant::now();
    let silent: Vec<_> = (0..600).map(|_| server.link()).collect();
    let trickle = server.link();
    send(&trickle, &preamble(VERSION, 0, 1000));
    server.client().unwrap().ping();
    assert!(start.elapsed() < Duration::from_secs(3), "a client waited {:?} for silent peers", start.elapsed());
    for link in &silent {
        rest(link);
    }
    while ropeway_transport::Sender::send_all(&trickle, &mut [std::io::IoSlice::new(&[0])]).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(9), "a handshake that never ends is still there");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(start.elapsed() > Duration::from_secs(4), "dropped too early");
    server.await_log("its handshake was not done in time");
    server.await_log("too many others begin a handshake and do not finish it");
}

#[test]
fn frames_of_nonsense_end_that_session_only() {
    let server = Server::start(&[]);
    let other = server.client().unwrap();
    let huge = [80u16.to_le_bytes().as_slice(), &[0; 2], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let unknown = [60_000u16.to_le_bytes().as_slice(), &[0; 14]].concat();
    for bytes in [huge, unknown, random(100_000), vec![0xff; 64]] {
        let client = server.client().unwrap();
        let _ = ropeway_transport::Sender::send_all(&client.link, &mut [std::io::IoSlice::new(&bytes)]);
        rest(&client.link);
        other.ping();
    }
}

#[test]
fn more_sessions_than_allowed_are_refused_with_a_reason() {
    let server = Server::start(&["--max-sessions", "2"]);
    let sessions = [server.client().unwrap(), server.client().unwrap()];
    let Err(HandshakeError::Refused(text)) = server.client() else { panic!("a third session") };
    assert!(text.contains("2 sessions already"), "{text}");
    drop(sessions);
    until("room for a session", || server.client().is_ok());
}

#[test]
fn a_hello_may_come_byte_by_byte() {
    let server = Server::start(&[]);
    let link = server.link();
    for byte in encode_opening(Opening::Hello, &hello()) {
        send(&link, &[byte]);
    }
    assert!(!answer(&link).unwrap().platforms.is_empty());
}
