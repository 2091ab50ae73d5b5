//! The bytes that the client sends, cut into frames.

use std::io;
use std::sync::Arc;

use ropeway_protocol::limits::MAX_BODY_TO_SERVER;
use ropeway_protocol::{FRAME_HEADER_LEN, FrameHeader, Serve, ServePeer, Tail, TailError, dispatch, dispatch_peer};
use ropeway_transport::Link;

use crate::base::error::End;

/// Bytes to receive with one call when many small frames are expected.
const BUFFER: usize = 256 << 10;

/// Tails from this size on are bulk. The next frame is then likely to be one more of the same transfer, with a body of
/// the same length: only header and body are received into the buffer, and the tail goes straight to its destination,
/// beginning at an aligned address.
const BULK: usize = 64 << 10;

/// Free bytes that the buffer should have at its end before it is received into.
const ROOM: usize = 64;

/// Receives bytes and cuts them into frames; used by one thread at a time.
pub struct Input {
    link: Arc<Link>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// After a bulk frame: the length of its header and body.
    bulk: Option<usize>,
    /// Whether a frame is handed out only once all of it is in the buffer, its tail included.
    whole: bool,
    /// Bytes of the frames that were handed out.
    passed: u64,
}

/// A tail whose first bytes may be in the buffer already; the rest is still on the link.
struct LinkTail<'a> {
    buffered: &'a [u8],
    unread: usize,
    link: &'a Link,
    /// How the link broke, if it did.
    broken: Option<io::Error>,
}

impl Tail for LinkTail<'_> {
    fn remaining(&self) -> usize {
        self.buffered.len() + self.unread
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), TailError> {
        let (near, far) = into.split_at_mut(into.len().min(self.buffered.len()));
        let (head, rest) = self.buffered.split_at(near.len());
        near.copy_from_slice(head);
        self.buffered = rest;
        self.unread = self.unread.checked_sub(far.len()).ok_or(TailError)?;
        if far.is_empty() {
            return Ok(());
        }
        self.link.recv_exact(far).map_err(|error| {
            self.broken = Some(error);
            TailError
        })
    }
}

impl LinkTail<'_> {
    /// Passes over what the handler left.
    fn skip(&mut self) -> Result<(), TailError> {
        let mut void = [0; 4096];
        while self.remaining() > 0 {
            let n = self.remaining().min(void.len());
            self.read_exact(&mut void[..n])?;
        }
        Ok(())
    }
}

impl Input {
    /// The frames of `link`.
    pub fn new(link: Arc<Link>) -> Self {
        Self { link, buffer: vec![0; BUFFER], start: 0, end: 0, bulk: None, whole: false, passed: 0 }
    }

    /// The frames of `link`, none of which is handed out before all of it has come: a link that breaks leaves each
    /// frame handled as a whole or not at all.
    pub fn of_whole_frames(link: Arc<Link>) -> Self {
        Self { whole: true, ..Self::new(link) }
    }

    /// Bytes of the frames that were handed out so far.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Where they come from.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Hands the next frame to its handler, if its header and body are in the buffer; says whether there was one.
    ///
    /// # Errors
    /// The frame is not well formed, the handler refused it, or the link broke within its tail.
    pub fn dispatch<H: Serve<Error = End>>(&mut self, handler: &mut H) -> Result<bool, End> {
        self.next(|header, body, tail| dispatch(handler, header, body, tail))
    }

    /// Hands the next frame, which is a peer's, to its handler, as [`Input::dispatch`] does.
    ///
    /// # Errors
    /// As [`Input::dispatch`].
    pub fn dispatch_peer<H: ServePeer<Error = End>>(&mut self, handler: &mut H) -> Result<bool, End> {
        self.next(|header, body, tail| dispatch_peer(handler, header, body, tail))
    }

    fn next(
        &mut self,
        hand_out: impl FnOnce(FrameHeader, &[u8], &mut dyn Tail) -> Result<(), End>,
    ) -> Result<bool, End> {
        let Some(header) = self.header()? else { return Ok(false) };
        let body_end = self.start + FRAME_HEADER_LEN + header.body as usize;
        let tail = header.tail as usize;
        if body_end > self.end || self.whole && body_end + tail > self.end {
            return Ok(false);
        }
        let tail_end = (body_end + tail).min(self.end);
        let body = &self.buffer[self.start + FRAME_HEADER_LEN..body_end];
        let buffered = &self.buffer[body_end..tail_end];
        let mut tail_reader = LinkTail { buffered, unread: tail - buffered.len(), link: &self.link, broken: None };
        let handed_out = hand_out(header, body, &mut tail_reader);
        let taken = handed_out.and_then(|()| Ok(tail_reader.skip()?));
        if let Some(error) = tail_reader.broken {
            // The broken link outweighs the handler's own outcome.
            return Err(error.into());
        }
        taken?;
        self.passed += (body_end + tail - self.start) as u64;
        self.start = tail_end;
        self.bulk = (tail >= BULK && !self.whole).then_some(FRAME_HEADER_LEN + header.body as usize);
        Ok(true)
    }

    /// Whether bytes are in the buffer that have not been handed out.
    pub fn buffered(&self) -> bool {
        self.start < self.end
    }

    /// Waits for more bytes; calls `rest` each time before this thread sleeps.
    ///
    /// # Errors
    /// The link broke; [`End::Gone`] when the client closed it.
    pub fn fill(&mut self, rest: &dyn Fn()) -> Result<(), End> {
        let room = self.make_room()?;
        match self.link.recv_or_rest(&mut self.buffer[self.end..room], rest)? {
            0 => Err(End::Gone),
            n => {
                self.end += n;
                Ok(())
            }
        }
    }

    /// Takes the bytes that are there; says whether there were any.
    ///
    /// # Errors
    /// As [`Input::fill`].
    pub fn try_fill(&mut self) -> Result<bool, End> {
        let room = self.make_room()?;
        match self.link.try_recv(&mut self.buffer[self.end..room]) {
            Ok(0) => Err(End::Gone),
            Ok(n) => {
                self.end += n;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn header(&self) -> Result<Option<FrameHeader>, End> {
        match self.buffer[self.start..self.end].first_chunk::<FRAME_HEADER_LEN>() {
            Some(bytes) => Ok(Some(FrameHeader::from_bytes(bytes, MAX_BODY_TO_SERVER)?)),
            None => Ok(None),
        }
    }

    /// Makes room for the frame that begins in the buffer, and returns how far the buffer may be filled.
    fn make_room(&mut self) -> Result<usize, End> {
        // At least the rest of the frame that has begun. `header` bounds bodies and tails.
        let wanted = self.header()?.map_or(FRAME_HEADER_LEN, |header| {
            let tail = if self.whole { header.tail as usize } else { 0 };
            FRAME_HEADER_LEN + header.body as usize + tail
        });
        let have = self.end - self.start;
        if have == 0 {
            (self.start, self.end) = (0, 0);
        } else if self.start + wanted.max(ROOM) > self.buffer.len() || self.start > self.buffer.len() / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, have);
        }
        if wanted > self.buffer.len() {
            self.buffer.resize(wanted, 0);
        }
        // If the buffer holds part of a frame, the missing length of its header and body is known.
        let limit =
            self.bulk.map_or(self.buffer.len(), |expected| self.start + if have == 0 { expected } else { wanted });
        Ok(limit.min(self.buffer.len()))
    }
}
