//! Servers that cannot be reached or are not what they should be: one clear line, and all the others still work.

use std::time::Duration;

use ropeway_protocol::VERSION;
use ropeway_protocol::handshake::{DeviceInfo, Opening, PlatformInfo, Preamble, Welcome, encode_opening};
use ropeway_protocol::ids::SessionId;
use ropeway_tests::fake;
use ropeway_tests::places::c_program;
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::server::Server;

const TIME_OUT: Duration = Duration::from_secs(2);

/// Lists the devices of `servers` beside the local ones; PoCL has to be there whatever the servers do.
fn list(servers: &str) -> Outcome {
    let outcome = Program::beside_local(c_program("listing"), servers).run().success();
    assert!(outcome.stdout.contains("Portable Computing Language: 1 devices (0)\n"), "{}", outcome.stdout);
    outcome
}

/// `servers` give no device, which one line says with these words.
fn gives_nothing(server: &str, words: &str) -> Outcome {
    let outcome = list(server);
    assert!(!outcome.stdout.contains("Ropeway: 1"), "{}", outcome.stdout);
    let lines: Vec<_> = outcome.stderr.lines().filter(|line| line.starts_with("ropeway: ")).collect();
    assert_eq!(lines.len(), 1, "{}", outcome.stderr);
    for part in [server, words] {
        assert!(lines[0].contains(part), "'{part}' in '{}'", lines[0]);
    }
    // A server beside it is not disturbed.
    let good = Server::start();
    let outcome = list(&format!("{server},{}", good.url()));
    assert!(outcome.stdout.contains("Ropeway: 1 devices (0)\n"), "{}\n{}", outcome.stdout, outcome.stderr);
    outcome
}

#[test]
fn nobody_listens() {
    let server = fake::nobody();
    let outcome = gives_nothing(&server, "refused");
    assert!(outcome.elapsed < Duration::from_secs(1), "{:?}", outcome.elapsed);
    let silenced = Program::remote(c_program("listing"), &server).env("ROPEWAY_LOG", "off").run().success();
    assert_eq!(silenced.stderr.lines().filter(|line| line.contains("ropeway")).count(), 0, "{}", silenced.stderr);
}

#[test]
fn a_name_that_is_none() {
    gives_nothing("tcp://no-such-host.invalid:7590", "no-such-host.invalid");
}

#[test]
fn another_kind_of_server() {
    let reply = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n";
    gives_nothing(&fake::answering(reply.to_vec()), "is not a Ropeway server");
}

#[test]
fn another_version_of_the_protocol() {
    let preamble = Preamble { version: VERSION + 1, opening: Opening::Welcome, len: 8 };
    let answer = [&preamble.to_bytes()[..], &[0; 8]].concat();
    gives_nothing(&fake::answering(answer), &format!("version {} of the protocol", VERSION + 1));
}

#[test]
fn a_server_without_devices() {
    let empty = tempfile::tempdir().unwrap();
    let vendors = [("OCL_ICD_VENDORS", empty.path().to_str().unwrap())];
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0"], &vendors);
    gives_nothing(server.url(), "shows no OpenCL devices");
}

#[test]
fn a_server_of_the_other_byte_order() {
    let welcome = |little_endian, properties| Welcome {
        features: 0,
        session: SessionId(1),
        release: "0".into(),
        host: "there".into(),
        little_endian,
        peer_address: None,
        peer_key: None,
        lanes_secret: [0; 32],
        platforms: vec![PlatformInfo { properties: vec![], devices: vec![DeviceInfo { properties }] }],
    };
    // The machine is; one of its devices is (CL_DEVICE_ENDIAN_LITTLE is CL_FALSE).
    for welcome in [welcome(false, vec![]), welcome(true, vec![(0x1026, Ok(vec![0; 4]))])] {
        gives_nothing(&fake::answering(encode_opening(Opening::Welcome, &welcome)), "big-endian");
    }
}

#[test]
fn a_welcome_that_is_garbage() {
    let preamble = Preamble { version: VERSION, opening: Opening::Welcome, len: 4096 };
    let answer = [&preamble.to_bytes()[..], &fake::noise(4096, 1)].concat();
    gives_nothing(&fake::answering(answer), "does not decode");
}

#[test]
fn a_welcome_that_is_too_long() {
    let mut answer = Preamble { version: VERSION, opening: Opening::Welcome, len: 0 }.to_bytes();
    answer[12..].fill(0xff);
    gives_nothing(&fake::answering(answer.to_vec()), "over the limit");
}

#[test]
fn noise() {
    gives_nothing(&fake::answering(fake::noise(100_000, 7)), "is not a Ropeway server");
}

#[test]
fn a_server_that_hangs_up() {
    gives_nothing(&fake::server(drop), "");
}

#[test]
fn a_silent_server_costs_no_more_than_the_time_out() {
    let server = fake::silent();
    let outcome = gives_nothing(&server, "");
    assert!(outcome.elapsed < TIME_OUT + Duration::from_secs(1), "{:?}", outcome.elapsed);
    // Several at once cost no more than one, and the time-out can be set.
    let many: Vec<_> = (0..8).map(|_| fake::silent()).collect();
    let program = Program::beside_local(c_program("listing"), &many.join(",")).env("ROPEWAY_CONNECT_TIMEOUT", "0.5");
    let outcome = program.run().success();
    let (least, most) = (Duration::from_millis(500), Duration::from_millis(1300));
    assert!((least..most).contains(&outcome.elapsed), "{:?}", outcome.elapsed);
}
