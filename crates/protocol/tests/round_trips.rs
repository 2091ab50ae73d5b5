//! Every message, reply and frame header decodes to what was encoded.

use proptest::prelude::*;
use ropeway_generate::{Echo, Entropy, MESSAGES, NOTES, PEER_MESSAGES, REPLIES};
use ropeway_protocol::handshake::{Opening, PREAMBLE_LEN, Preamble};
use ropeway_protocol::{FrameHeader, limits};

proptest! {
    #[test]
    fn messages(which in 0..MESSAGES.len(), entropy in prop::collection::vec(any::<u8>(), 0..6000)) {
        let mut frame = Vec::new();
        MESSAGES[which].frame(&mut Entropy::new(&entropy), &mut frame);
        let len = frame.len();
        prop_assert_eq!(Echo::at_server(&frame), Ok((frame, len)));
    }

    #[test]
    fn notes(which in 0..NOTES.len(), entropy in prop::collection::vec(any::<u8>(), 0..6000)) {
        let mut frame = Vec::new();
        NOTES[which].frame(&mut Entropy::new(&entropy), &mut frame);
        let len = frame.len();
        prop_assert_eq!(Echo::at_client(&frame), Ok((frame, len)));
    }

    #[test]
    fn peers(which in 0..PEER_MESSAGES.len(), entropy in prop::collection::vec(any::<u8>(), 0..6000)) {
        let mut frame = Vec::new();
        PEER_MESSAGES[which].frame(&mut Entropy::new(&entropy), &mut frame);
        let len = frame.len();
        prop_assert_eq!(Echo::at_peer(&frame), Ok((frame, len)));
    }

    #[test]
    fn replies(which in 0..REPLIES.len(), entropy in prop::collection::vec(any::<u8>(), 0..2000)) {
        let (_, body) = REPLIES[which].body(&mut Entropy::new(&entropy));
        prop_assert_eq!(REPLIES[which].echo(&body), Ok(body));
    }

    #[test]
    fn headers(opcode: u16, call: u32, body in 0..=limits::MAX_BODY_TO_SERVER, tail in 0..=limits::MAX_TAIL) {
        let header = FrameHeader { opcode, call, body: body as u32, tail: tail as u32 };
        prop_assert_eq!(FrameHeader::from_bytes(&header.to_bytes(), limits::MAX_BODY_TO_SERVER), Ok(header));
        prop_assert_eq!(header.payload(), body + tail);
    }

    #[test]
    fn preambles(version: u16, which in 0..5u8, len in 0..=limits::MAX_HELLO as u32) {
        let all = [
            Opening::Hello,
            Opening::Welcome,
            Opening::Refusal,
            Opening::Joined,
            Opening::Waiting,
            Opening::Nearby,
            Opening::Part,
        ];
        let opening = all[usize::from(which)];
        let preamble = Preamble { version, opening, len };
        let bytes: [u8; PREAMBLE_LEN] = preamble.to_bytes();
        prop_assert_eq!(Preamble::from_bytes(&bytes), Ok(preamble));
    }
}
