//! A server that speaks the protocol.

use std::io::IoSlice;

use ropeway_protocol::frame::{FRAME_HEADER_LEN, FrameHeader, REPLY};
use ropeway_protocol::ids::EventId;
use ropeway_protocol::limits::MAX_BODY_TO_SERVER;
use ropeway_protocol::messages::Completed;
use ropeway_protocol::types::{Completions, EventDone, Status, Waited};
use ropeway_protocol::{Note, decode, encode_body, encode_note};
use serde::Deserialize;

use super::link::Link;
use crate::base::status::Result;

/// One message from the client.
pub(super) struct Frame {
    pub(super) header: FrameHeader,
    body: Vec<u8>,
    pub(super) tail: Vec<u8>,
}

impl Frame {
    pub(super) fn body<'a, M: Deserialize<'a>>(&'a self) -> M {
        decode(&self.body).expect("the client speaks the protocol")
    }
}

/// The server's end of a link; the link breaks when it is dropped.
pub(super) struct Server(Link);

impl Server {
    pub(super) fn new(link: Link) -> Self {
        Self(link)
    }

    /// The next message; `None` when the client is gone.
    pub(super) fn next(&self) -> Option<Frame> {
        let mut header = [0; FRAME_HEADER_LEN];
        self.fill(&mut header)?;
        let header = FrameHeader::from_bytes(&header, MAX_BODY_TO_SERVER).expect("a frame");
        let (mut body, mut tail) = (vec![0; header.body as usize], vec![0; header.tail as usize]);
        self.fill(&mut body)?;
        self.fill(&mut tail)?;
        Some(Frame { header, body, tail })
    }

    /// Whether a message has come, or the client has gone.
    pub(super) fn has_next(&self) -> bool {
        self.0.wait_readable(Some(std::time::Duration::ZERO)).expect("a model's link has no errors")
    }

    fn fill(&self, into: &mut [u8]) -> Option<()> {
        self.0.recv_exact_while::<std::io::Error>(into, || Ok(())).ok()
    }

    /// Answers a wait.
    pub(super) fn waited(&self, call: u32, status: Status, ended: &[EventId]) {
        let body = encode_body::<Result<Waited>>(&Ok(Waited { status, completions: ends(ended, 0) }));
        let header = FrameHeader { opcode: REPLY, call, body: body.len() as u32, tail: 0 };
        self.send(&header.to_bytes(), &body);
    }

    /// Tells of the ends of commands.
    pub(super) fn completed(&self, ended: &[EventId], status: Status) {
        self.note(&Completed { completions: ends(ended, status) }, &[]);
    }

    pub(super) fn note<N: Note>(&self, note: &N, tail: &[u8]) {
        let mut out = Vec::new();
        encode_note(&mut out, note, tail.len());
        self.send(&out, tail);
    }

    fn send(&self, first: &[u8], then: &[u8]) {
        // The client may have gone.
        let _ = self.0.send_all_while(&mut &mut [IoSlice::new(first), IoSlice::new(then)][..], || Ok(()));
    }
}

fn ends(events: &[EventId], status: Status) -> Completions {
    Completions { done: events.iter().map(|event| EventDone { event: *event, status, times: None }).collect() }
}
