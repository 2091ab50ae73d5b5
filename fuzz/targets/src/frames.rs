//! Frames and handshakes of both directions, decoded.

use ropeway_generate::{Echo, EchoError, Entropy, MESSAGES, NOTES, PEER_MESSAGES, REPLIES, damage};
use ropeway_protocol::handshake::{self, PREAMBLE_LEN, Preamble};

type Decoder = fn(&[u8]) -> Result<(Vec<u8>, usize), EchoError>;

/// Decodes `data` in every way there is. Its first byte says whether the rest is taken as it is or made into a valid
/// frame and then damaged.
///
/// # Panics
/// When what decodes does not encode to something that decodes to the same.
pub fn frames(data: &[u8]) {
    let mut entropy = Entropy::new(data);
    if entropy.byte().is_multiple_of(2) {
        let rest = data.get(1..).unwrap_or_default();
        decode_all(Echo::at_server, rest);
        decode_all(Echo::at_client, rest);
        decode_all(Echo::at_peer, rest);
        for reply in REPLIES {
            let _ = reply.echo(rest);
        }
        opening(rest);
    } else {
        let pick = usize::from(entropy.byte());
        let mut bytes = Vec::new();
        if pick < 128 {
            MESSAGES[pick % MESSAGES.len()].frame(&mut entropy, &mut bytes);
            damage(&mut bytes, &mut entropy);
            decode_all(Echo::at_server, &bytes);
        } else if pick < 144 {
            PEER_MESSAGES[pick % PEER_MESSAGES.len()].frame(&mut entropy, &mut bytes);
            damage(&mut bytes, &mut entropy);
            decode_all(Echo::at_peer, &bytes);
        } else if pick < 192 {
            NOTES[pick % NOTES.len()].frame(&mut entropy, &mut bytes);
            damage(&mut bytes, &mut entropy);
            decode_all(Echo::at_client, &bytes);
        } else {
            let reply = &REPLIES[pick % REPLIES.len()];
            (_, bytes) = reply.body(&mut entropy);
            damage(&mut bytes, &mut entropy);
            if let Ok(again) = reply.echo(&bytes) {
                assert_eq!(reply.echo(&again), Ok(again), "{} changes on its way", reply.name);
            }
        }
    }
}

/// Decodes frame after frame until one is refused.
fn decode_all(decode: Decoder, mut bytes: &[u8]) {
    while let Ok((again, used)) = decode(bytes) {
        let whole = again.len();
        assert_eq!(decode(&again), Ok((again, whole)), "a message changes on its way");
        bytes = bytes.get(used..).unwrap_or_default();
    }
}

fn opening(bytes: &[u8]) {
    let Some((preamble, body)) = bytes.split_first_chunk::<PREAMBLE_LEN>() else { return };
    if let Ok(preamble) = Preamble::from_bytes(preamble) {
        let _ = handshake::decode_hello(preamble, body);
        let _ = handshake::decode_reply(preamble, body);
        let _ = handshake::decode_joined(preamble, body);
    }
}
