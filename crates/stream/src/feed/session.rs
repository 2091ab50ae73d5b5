//! A session's end of a stream that the server reads.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::message::{ASK, HEAD, Head, Kind};
use crate::cancel::{Cancel, await_any};
use crate::declaration::Declaration;
use crate::queue::{Chunk, Fault, Item};
use crate::ring::Taken;

/// Most bytes of a sentence.
pub(super) const MAX_TEXT: usize = 2000;

/// A stream that the server reads.
pub struct Session {
    socket: OwnedFd,
    name: String,
    most: usize,
    /// Whether the server owes an answer.
    has_asked: bool,
    /// The answer so far.
    head: Option<Head>,
    bytes: Vec<u8>,
    over: Option<Result<(), Fault>>,
}

impl Session {
    /// That of the stream of this declaration at this socket.
    pub fn new(declaration: &Declaration, socket: OwnedFd) -> Self {
        let most = declaration.most.max(MAX_TEXT);
        let name = declaration.name.clone();
        Self { socket, name, most, has_asked: false, head: None, bytes: Vec::new(), over: None }
    }

    /// Asks for the next chunk and waits for it. If the wait is cancelled, the answer is the next time's.
    ///
    /// # Errors
    /// The operating system's error while waiting.
    pub fn next(&mut self, cancel: &Cancel) -> io::Result<Taken> {
        if let Some(over) = &self.over {
            return Ok(Taken::Over(over.clone()));
        }
        match self.ask_and_wait(cancel) {
            Ok(taken) => {
                if let Taken::Over(over) = &taken {
                    self.over = Some(over.clone());
                }
                Ok(taken)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let why = Err(Fault::lost(format!("the server reads the stream '{}' no more: {error}", self.name)));
                self.over = Some(why.clone());
                Ok(Taken::Over(why))
            }
        }
    }

    fn ask_and_wait(&mut self, cancel: &Cancel) -> io::Result<Taken> {
        if !self.has_asked {
            // There is one request at a time, for which a socket has room.
            send(&self.socket, &[ASK], SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
            self.has_asked = true;
        }
        loop {
            let wanted = self.head.map_or(HEAD, |head| head.length as usize);
            if self.bytes.len() < wanted {
                self.bytes.reserve_exact(wanted - self.bytes.len());
                match recv(&self.socket, spare_capacity(&mut self.bytes), RecvFlags::DONTWAIT) {
                    Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => {
                        if let [false, true] = await_any([self.socket.as_fd(), cancel.as_fd()])? {
                            return Ok(Taken::Cancelled);
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
                continue;
            }
            let rest = self.bytes.split_off(wanted);
            let bytes = std::mem::replace(&mut self.bytes, rest);
            let Some(head) = self.head.take() else {
                let head = bytes.first_chunk().copied().and_then(Head::from_bytes);
                let head = head.filter(|head| head.length as usize <= self.most);
                self.head = Some(head.ok_or(io::ErrorKind::InvalidData)?);
                continue;
            };
            self.has_asked = false;
            let fault = |bytes: Vec<u8>| Fault {
                text: String::from_utf8_lossy(&bytes).into_owned(),
                is_invalid: head.is_invalid(),
            };
            return Ok(match head {
                Head { kind: Kind::Chunk, sequence, dropped, time, .. } => {
                    Taken::Item(Item::Chunk(Chunk { bytes: Bytes::from(bytes), sequence, dropped, time }))
                }
                Head { kind: Kind::Failure, .. } => Taken::Item(Item::Failure(fault(bytes))),
                Head { kind: Kind::End, .. } => Taken::Over(Ok(())),
                Head { kind: Kind::Broken, .. } => Taken::Over(Err(fault(bytes))),
            });
        }
    }
}
