//! How two processes find each other's UCX workers: over the socket of a link that is open already, each says where its
//! worker is reached, or why it has none.
//!
//! ```text
//!   magic     8 bytes
//!   bytes     u64     the number of messages that carry bytes to the sender of this
//!   read      u64     the number of messages that tell it how much was read
//!   len       u32     little-endian, as all numbers; LIMIT at most
//!   address   len     UCX's, or where the highest bit of len is set, a sentence
//! ```

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::time::Instant;

use crate::ucx::Stream;
use crate::ucx::choice::Choice;
use crate::ucx::port::{Port, Tags};
use crate::{Link, Sender as _};

const MAGIC: [u8; 8] = *b"ROPE-UCX";

/// The most bytes of an address; a machine with many adapters has one of a few thousand.
const LIMIT: u32 = 64 << 10;

/// It is not an address that follows, but a sentence.
const SENTENCE: u32 = 1 << 31;

const HEAD: usize = 28;

impl Link {
    /// Goes on over UCX with the process at the other end, which does the same, before `deadline`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where UCX is not on this machine, or the other end says so; a sentence of what it
    /// said; the socket's error.
    pub fn go_over_to_ucx(self, deadline: Instant) -> io::Result<Self> {
        let is_loopback = self.peer_address().is_some_and(|address| address.ip().to_canonical().is_loopback());
        let choice = Choice::new(is_loopback);
        self.go_over_by(&choice, deadline)
    }

    pub(super) fn go_over_by(mut self, choice: &Choice, deadline: Instant) -> io::Result<Self> {
        let own = tags()?;
        let opened = Port::open(choice, own);
        let opened = opened.and_then(|port| Ok((port.address()?, port)));
        match &opened {
            Ok((address, _)) => self.say(own, 0, address)?,
            Err(error) => self.say(own, SENTENCE, error.to_string().as_bytes())?,
        }
        let (_, mut port) = opened?;
        let (other, address) = self.hear(deadline)?;
        port.connect(&address, other)?;
        let stream = Stream::new(port, self.fd.as_fd())?;
        self.use_medium(Box::new(stream));
        Ok(self)
    }

    fn say(&self, tags: Tags, kind: u32, body: &[u8]) -> io::Result<()> {
        let body = &body[..body.len().min(LIMIT as usize)];
        let mut head = MAGIC.to_vec();
        head.extend(tags.bytes.to_le_bytes());
        head.extend(tags.read.to_le_bytes());
        head.extend((body.len() as u32 | kind).to_le_bytes());
        self.send_all(&mut [IoSlice::new(&head), IoSlice::new(body)])
    }

    fn hear(&self, deadline: Instant) -> io::Result<(Tags, Vec<u8>)> {
        let mut head = [0; HEAD];
        self.recv_exact_by(&mut head, deadline)?;
        let number = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let tags = Tags { bytes: number(8), read: number(16) };
        let len = head.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if head[..8] != MAGIC || len & !SENTENCE > LIMIT || tags.bytes == tags.read {
            return Err(io::Error::new(ErrorKind::InvalidData, "the other end does not speak of UCX"));
        }
        let mut body = vec![0; (len & !SENTENCE) as usize];
        self.recv_exact_by(&mut body, deadline)?;
        if len & SENTENCE != 0 {
            let text: String = String::from_utf8_lossy(&body).chars().filter(|c| !c.is_control()).collect();
            return Err(io::Error::new(ErrorKind::Unsupported, format!("at the other end, {text}")));
        }
        Ok((tags, body))
    }
}

/// Two numbers that nobody else knows.
fn tags() -> io::Result<Tags> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    let number = u128::from_le_bytes(bytes);
    Ok(Tags { bytes: number as u64, read: (number >> 64) as u64 })
}
