//! Hostile bytes never cause a panic, and never take more memory than the bytes themselves justify.

use proptest::prelude::*;
use ropeway_generate::{Echo, EchoError, Entropy, MESSAGES, NOTES, PEER_MESSAGES, REPLIES, damage};
use ropeway_protocol::codec::DecodeError;
use ropeway_protocol::handshake::{
    self, Answer, HandshakeError, Hello, Opening, PREAMBLE_LEN, Preamble, Purpose, Refusal, Waiting, decode_hello,
    decode_reply, decode_welcome,
};
use ropeway_protocol::messages::Completed;
use ropeway_protocol::{FRAME_HEADER_LEN, FrameHeader, Note as _, VERSION, limits};

/// A varint of 2^60.
const HUGE: [u8; 9] = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];

fn frame(opcode: u16, call: u32, body: &[u8]) -> Vec<u8> {
    let mut out = FrameHeader { opcode, call, body: body.len() as u32, tail: 0 }.to_bytes().to_vec();
    out.extend_from_slice(body);
    out
}

/// The most memory this process has ever had, in bytes.
fn high_water() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
fn a_list_that_announces_2_to_the_60_entries_takes_no_memory() {
    let before = high_water();
    // Each message is cut before every byte and continued with the announced length: some of these places begin lists
    // and strings.
    type Decoder = fn(&[u8]) -> Result<(Vec<u8>, usize), EchoError>;
    let tables = [
        (MESSAGES, Echo::at_server as Decoder),
        (NOTES, Echo::at_client as Decoder),
        (PEER_MESSAGES, Echo::at_peer as Decoder),
    ];
    for (generators, echo) in tables {
        for generator in generators {
            let mut whole = Vec::new();
            generator.frame(&mut Entropy::new(&[3; 400]), &mut whole);
            let header = FrameHeader::from_bytes(whole.first_chunk().unwrap(), limits::MAX_BODY_TO_CLIENT).unwrap();
            let body = &whole[FRAME_HEADER_LEN..FRAME_HEADER_LEN + header.body as usize];
            for at in 0..=body.len() {
                let bytes = frame(header.opcode, header.call, &[&body[..at], &HUGE].concat());
                // Some decode: the number may be an id or a size that ends its message.
                let _ = echo(&bytes);
            }
        }
    }
    for reply in REPLIES {
        let (_, body) = reply.body(&mut Entropy::new(&[3; 400]));
        for at in 0..=body.len() {
            let _ = reply.echo(&[&body[..at], &HUGE].concat());
        }
    }
    let list_alone = frame(Completed::OPCODE, 0, &HUGE);
    assert_eq!(Echo::at_client(&list_alone).unwrap_err(), EchoError::Refused(DecodeError::Body));
    let grown = high_water() - before;
    assert!(grown < 16 << 20, "decoding took {grown} bytes");
}

#[test]
fn a_frame_over_the_limits_is_refused_before_its_body_is_read() {
    let announce = |body, tail| FrameHeader { opcode: 1, call: 0, body, tail }.to_bytes();
    let read = |bytes: &[u8; FRAME_HEADER_LEN]| FrameHeader::from_bytes(bytes, limits::MAX_BODY_TO_SERVER);
    let (body, tail) = (limits::MAX_BODY_TO_SERVER as u32, limits::MAX_TAIL as u32);
    assert!(read(&announce(body, tail)).is_ok());
    let too_long = DecodeError::BodyTooLong { len: body + 1, limit: body as usize };
    assert_eq!(read(&announce(body + 1, 0)), Err(too_long));
    assert_eq!(
        read(&announce(u32::MAX, u32::MAX)).unwrap_err().to_string(),
        "frame body of 4294967295 bytes is over the limit of 1048576"
    );
    assert_eq!(read(&announce(0, tail + 1)), Err(DecodeError::TailTooLong { len: tail + 1, limit: tail as usize }));
    let mut flags = announce(0, 0);
    flags[2] = 1;
    assert_eq!(read(&flags), Err(DecodeError::Flags(1)));
}

#[test]
fn a_message_must_be_of_its_kind() {
    use ropeway_protocol::messages::{Finish, Flush};
    use ropeway_protocol::{Call as _, Post as _};
    let refused = |opcode, call, body: &[u8]| Echo::at_server(&frame(opcode, call, body)).unwrap_err();
    assert_eq!(refused(Flush::OPCODE, 7, &[1]), EchoError::Refused(DecodeError::CallNumber(Flush::OPCODE)));
    assert_eq!(refused(Finish::OPCODE, 0, &[1]), EchoError::Refused(DecodeError::CallNumber(Finish::OPCODE)));
    assert_eq!(refused(Flush::OPCODE, 0, &[1, 1]), EchoError::Refused(DecodeError::Body), "a byte too many");
    assert_eq!(refused(Flush::OPCODE, 0, &[]), EchoError::Refused(DecodeError::Body), "a byte too few");
    assert_eq!(refused(9999, 0, &[]), EchoError::Refused(DecodeError::UnknownOpcode(9999)));
    assert_eq!(refused(0, 0, &[]), EchoError::Refused(DecodeError::UnknownOpcode(0)), "clients do not reply");
    let mut tail = FrameHeader { opcode: Flush::OPCODE, call: 0, body: 1, tail: 1 }.to_bytes().to_vec();
    tail.extend_from_slice(&[1, 1]);
    assert_eq!(Echo::at_server(&tail).unwrap_err(), EchoError::Refused(DecodeError::UnexpectedTail(Flush::OPCODE)));
}

#[test]
fn a_wait_list_has_a_limit() {
    use ropeway_protocol::Call as _;
    use ropeway_protocol::ids::EventId;
    use ropeway_protocol::messages::WaitForEvents;
    for (len, fits) in [(limits::MAX_WAITS, true), (limits::MAX_WAITS + 1, false)] {
        let message = WaitForEvents { events: (0..len as u64).map(|_| EventId(1)).collect() };
        let mut bytes = Vec::new();
        ropeway_protocol::encode_call(&mut bytes, 1, &message, 0);
        assert_eq!(Echo::at_server(&bytes).is_ok(), fits, "{len} events in {}", WaitForEvents::NAME);
    }
}

#[test]
fn handshakes_that_do_not_fit_say_so() {
    let hello = Hello {
        features: 0,
        purpose: Purpose::Commands,
        release: "1".into(),
        program: "p".into(),
        pid: 1,
        credential: vec![],
        devices: Vec::new(),
    };
    let bytes = handshake::encode_opening(Opening::Hello, &hello);
    let read = |bytes: &[u8]| Preamble::from_bytes(bytes.first_chunk::<PREAMBLE_LEN>().unwrap());
    let preamble = read(&bytes).unwrap();
    assert_eq!(decode_hello(preamble, &bytes[PREAMBLE_LEN..]), Ok(hello));
    assert_eq!(decode_hello(preamble, &bytes[PREAMBLE_LEN + 1..]), Err(HandshakeError::Malformed));
    assert_eq!(decode_welcome(preamble, &bytes[PREAMBLE_LEN..]), Err(HandshakeError::Malformed));

    let other = Preamble { version: VERSION + 1, ..preamble };
    assert_eq!(decode_hello(other, &bytes[PREAMBLE_LEN..]), Err(HandshakeError::Version { theirs: VERSION + 1 }));
    assert_eq!(read(b"SSH-2.0-OpenSSH_9.2p1"), Err(HandshakeError::NotRopeway));
    let long = Preamble { len: u32::MAX, ..preamble }.to_bytes();
    let limit = limits::MAX_HELLO;
    assert_eq!(read(&long), Err(HandshakeError::TooLong { len: u32::MAX, limit }));

    // A refusal is understood whatever the version is.
    let refusal = handshake::encode_opening(Opening::Refusal, &Refusal { text: "full".into() });
    let preamble = Preamble { version: VERSION + 1, ..read(&refusal).unwrap() };
    let refused = decode_welcome(preamble, &refusal[PREAMBLE_LEN..]);
    assert_eq!(refused, Err(HandshakeError::Refused("full".into())));

    // Only a client is told to wait.
    let waiting = Waiting { before: 3, reason: "2 workers are being started".into() };
    let bytes = handshake::encode_opening(Opening::Waiting, &waiting);
    let preamble = read(&bytes).unwrap();
    assert_eq!(decode_reply(preamble, &bytes[PREAMBLE_LEN..]), Ok(Answer::Waiting(waiting)));
    assert_eq!(decode_welcome(preamble, &bytes[PREAMBLE_LEN..]), Err(HandshakeError::Malformed));
    assert_eq!(decode_reply(preamble, &bytes[PREAMBLE_LEN + 1..]), Err(HandshakeError::Malformed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Echo::at_server(&bytes);
        let _ = Echo::at_client(&bytes);
        let _ = Echo::at_peer(&bytes);
        for reply in REPLIES {
            let _ = reply.echo(&bytes);
        }
        if let Some(preamble) = bytes.first_chunk::<PREAMBLE_LEN>() {
            let _ = Preamble::from_bytes(preamble);
        }
    }

    #[test]
    fn damaged_frames_are_decoded_or_refused(
        which in 0..MESSAGES.len() + NOTES.len() + PEER_MESSAGES.len(),
        entropy in prop::collection::vec(any::<u8>(), 0..1000),
        harm in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let (generator, echo): (_, fn(&[u8]) -> _) = match which.checked_sub(MESSAGES.len()) {
            None => (&MESSAGES[which], Echo::at_server),
            Some(note) if note < NOTES.len() => (&NOTES[note], Echo::at_client),
            Some(other) => (&PEER_MESSAGES[other - NOTES.len()], Echo::at_peer),
        };
        let mut bytes = Vec::new();
        generator.frame(&mut Entropy::new(&entropy), &mut bytes);
        damage(&mut bytes, &mut Entropy::new(&harm));
        // Bytes that still decode are a message, which a second round trip does not change.
        if let Ok((again, _)) = echo(&bytes) {
            let len = again.len();
            prop_assert_eq!(echo(&again), Ok((again, len)));
        }
    }
}
