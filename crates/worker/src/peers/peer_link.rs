//! One connection to a peer. Connection 0 outlasts its socket: its messages arrive once and in order, even if it has to
//! be made again in the meantime.
//!
//! That is sound for the following reasons. Each end counts the bytes of the messages that it has handled, each as a
//! whole or not at all ([`Input::of_whole_frames`]), and keeps what it has sent until the other end says that it has
//! handled it. Nothing is read from a new socket before the thread that reads the old one has ended: so the count is
//! final when the other end is told of it by the first message on the new socket, and that end goes on with just the
//! byte behind it. If it does not have that byte any more, the peer is lost, as it is when the connection cannot be
//! made again.
//!
//! A connection for bulk data is counted in the same way, but its bytes are not kept. When it has ended, connection 0
//! says how many were handled, and the pushes fail that had more.
//!
//! [`Input::of_whole_frames`]: crate::link::input::Input::of_whole_frames

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ropeway_protocol::ids::TransferId;
use ropeway_protocol::messages::{PushData, PushInPlace, PushTaken, Received};
use ropeway_protocol::{Post, encode_post};
use ropeway_transport::{Link, Sender};
use smallvec::SmallVec;

use super::in_place::InPlace;
use super::kept::{Kept, Pushes};
use crate::base::lock::lock;

/// The number of the connection for signals and small pushes; bulk data, which could hold these up, goes by the others.
pub const CONTROL: u8 = 0;

/// The other end is told each time that so many bytes have been handled.
const REPORT_EVERY: u64 = 256 << 10;

/// How long a broken connection is waited for to be made again.
pub const RENEWAL: Duration = Duration::from_secs(10);

/// A connection that breaks so many times in a row, each time soon and without any message in between, is given up.
const MOST_FRUITLESS: u8 = 3;

/// The name of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The name that the session gave which made the connection.
    pub name: u64,
    /// Whether that was this session, which then makes it again when it breaks.
    pub ours: bool,
}

/// One connection.
#[derive(Debug)]
pub struct PeerLink {
    /// Its number.
    pub number: u8,
    /// Its name.
    pub stream: Stream,
    made: Instant,
    /// Held by the thread that sends.
    sending: Mutex<Sending>,
    reading: Mutex<Reading>,
    /// Bytes of whole messages that were handled.
    handled: AtomicU64,
    /// How many of them the other end was told of.
    reported: AtomicU64,
    /// How many bytes the other end has handled, as far as it has said.
    confirmed: AtomicU64,
    /// Whether the peer is lost: the connection is not made again.
    closed: AtomicBool,
    /// Memory that both ends see; of connections for bulk data only.
    in_place: Option<InPlace>,
}

#[derive(Debug)]
struct Sending {
    /// What is still to be sent of a report, and then the head of the next message.
    head: Vec<u8>,
    /// `None` while the connection is broken: what is sent then is kept, and goes out when it has been made again.
    socket: Option<Arc<Link>>,
    /// What may have to be sent again; of connection 0 only.
    kept: Option<Kept>,
    /// Whose bytes may be lost; of the other connections only.
    pushes: Pushes,
}

#[derive(Debug)]
struct Reading {
    /// The socket; the last one, while the connection is broken.
    socket: Arc<Link>,
    /// Whether a thread reads it.
    is_read: bool,
    /// Whether the socket has come to its end, sending by it has failed, or it is to be replaced.
    is_over: bool,
    /// Since when the connection has been broken.
    broken: Option<Instant>,
    /// Whether the first message on the socket is still to come, which says what is to be sent again.
    resumes: bool,
    /// How many sockets were announced to take its place.
    expected: u64,
    /// When it broke last, and how many bytes were known to have gone through by then.
    last: Option<(Instant, u64)>,
    /// How often in a row it has broken soon, and with no more bytes gone through.
    fruitless: u8,
}

impl PeerLink {
    /// A connection over `link`, which a thread is about to read.
    pub fn new(number: u8, stream: Stream, link: Link) -> Self {
        let socket = Arc::new(link);
        let in_place = socket.arena().filter(|_| number != CONTROL);
        let in_place = in_place.and_then(|arena| InPlace::new(arena, stream.ours));
        let kept = (number == CONTROL).then(Kept::default);
        let sending = Sending { head: Vec::new(), socket: Some(socket.clone()), kept, pushes: Pushes::default() };
        let (broken, last) = (None, None);
        let reading =
            Reading { socket, is_read: true, is_over: false, broken, resumes: false, expected: 0, last, fruitless: 0 };
        let (handled, reported, confirmed, closed) = Default::default();
        let (sending, reading) = (Mutex::new(sending), Mutex::new(reading));
        Self { number, stream, made: Instant::now(), sending, reading, handled, reported, confirmed, closed, in_place }
    }

    /// Sends a message with its tail. By connection 0, a message counts as sent when it is kept: if the connection
    /// breaks, it goes out when the connection has been made again.
    ///
    /// # Errors
    /// The socket's error, if the connection is not made again.
    pub fn post<P: Post>(&self, message: &P, tail: &[&[u8]]) -> io::Result<()> {
        self.send(message, tail, None)
    }

    /// Sends bytes of a push.
    ///
    /// # Errors
    /// As [`PeerLink::post`].
    pub fn push(&self, message: &PushData, bytes: &[&[u8]]) -> io::Result<()> {
        self.send(message, bytes, Some(message.transfer))
    }

    /// Says where bytes of a push are.
    ///
    /// # Errors
    /// As [`PeerLink::post`].
    pub fn push_in_place(&self, message: &PushInPlace) -> io::Result<()> {
        self.send(message, &[], Some(message.transfer))
    }

    /// Memory that both ends see, if bulk data goes through any.
    pub fn in_place(&self) -> Option<&InPlace> {
        self.in_place.as_ref()
    }

    /// Gives the peer its slots back as soon as nothing copies from them, until the connection is over. Not the work of the
    /// thread that reads, which must never wait for the peer to read.
    pub fn give_back_slots(&self) {
        let Some(in_place) = &self.in_place else { return };
        while let Some(at) = in_place.next_taken() {
            // A connection that is gone is noticed where it is read.
            let _ = self.post(&PushTaken { at }, &[]);
        }
        in_place.unpin();
    }

    fn send<P: Post>(&self, message: &P, tail: &[&[u8]], push: Option<TransferId>) -> io::Result<()> {
        let mut sending = lock(&self.sending);
        let Sending { head, socket, kept, pushes } = &mut *sending;
        if kept.is_some() && socket.is_some() {
            self.report(head);
        }
        let begin = head.len();
        let len = tail.iter().map(|piece| piece.len()).sum();
        encode_post(head, message, len);
        if let Some(kept) = kept {
            kept.confirm(self.confirmed.load(Ordering::Acquire));
            kept.add(&head[begin..]);
            tail.iter().for_each(|piece| kept.add(piece));
        } else {
            let len = (head.len() + len) as u64;
            match push {
                Some(transfer) => pushes.add(len, transfer),
                None => pushes.add_other(len),
            }
        }
        let mut parts: SmallVec<[IoSlice<'_>; 4]> = SmallVec::new();
        parts.push(IoSlice::new(head));
        parts.extend(tail.iter().map(|piece| IoSlice::new(piece)));
        let sent = match socket {
            Some(socket) => socket.send_all(&mut parts),
            None if self.closed.load(Ordering::Acquire) => Err(io::ErrorKind::BrokenPipe.into()),
            None => Ok(()),
        };
        drop(parts);
        head.clear();
        match sent {
            Err(error) if kept.is_some() && !is_unreachable(&error) && !self.closed.load(Ordering::Acquire) => {
                self.fail(socket);
                Ok(())
            }
            sent => sent,
        }
    }

    /// Gives up a socket by which sending has failed: the thread that reads it notices, and has the connection made
    /// again.
    fn fail(&self, socket: &mut Option<Arc<Link>>) {
        let Some(socket) = socket.take() else { return };
        socket.shutdown();
        let mut reading = lock(&self.reading);
        if Arc::ptr_eq(&reading.socket, &socket) {
            reading.is_over = true;
        }
    }

    /// Adds a report of what was handled, if one is due.
    fn report(&self, head: &mut Vec<u8>) {
        let bytes = self.handled();
        if bytes - self.reported.load(Ordering::Relaxed) >= REPORT_EVERY {
            self.reported.store(bytes, Ordering::Relaxed);
            encode_post(head, &Received { bytes }, 0);
        }
    }

    /// The pushes of whose bytes the other end has not handled all, having read the connection to its end and handled
    /// `bytes`; `None` if that is not known.
    pub fn lost(&self, bytes: u64) -> Option<Vec<TransferId>> {
        lock(&self.sending).pushes.behind(bytes)
    }

    /// Whether a connection for bulk data is known to have carried anything, or has lasted for a while. Does not wait.
    pub fn was_of_use(&self) -> bool {
        // A thread that holds the lock is sending.
        let is_unused = self.sending.try_lock().is_ok_and(|sending| sending.pushes.is_empty());
        !is_unused || self.handled() > 0 || self.made.elapsed() >= RENEWAL
    }

    /// How many bytes of whole messages were handled.
    pub fn handled(&self) -> u64 {
        self.handled.load(Ordering::Acquire)
    }

    /// Counts a message of `len` bytes that has been handled. Never waits: where a report is due and another thread is
    /// sending, the next message reports instead.
    pub fn count_handled(&self, len: u64) {
        let handled = self.handled.fetch_add(len, Ordering::AcqRel) + len;
        if self.number != CONTROL || handled - self.reported.load(Ordering::Relaxed) < REPORT_EVERY {
            return;
        }
        let Ok(mut sending) = self.sending.try_lock() else { return };
        let Sending { head, socket, .. } = &mut *sending;
        let Some(link) = socket else { return };
        self.report(head);
        match link.try_send(head) {
            // The next message begins with the rest.
            Ok(sent) => drop(head.drain(..sent)),
            Err(_) => self.fail(socket),
        }
    }

    /// Takes the other end's word that it has handled so many bytes. Returns true if it is the first word on a socket:
    /// then what was not handled is to be sent by [`PeerLink::send_again`].
    pub fn confirm(&self, bytes: u64) -> bool {
        let resumes = std::mem::replace(&mut lock(&self.reading).resumes, false);
        if !resumes {
            self.confirmed.fetch_max(bytes, Ordering::AcqRel);
        }
        resumes
    }

    /// Sends all but the first `handled` bytes again by `socket`, and uses it from then on.
    ///
    /// # Errors
    /// They are not kept, in words for a person.
    pub fn send_again(&self, socket: &Arc<Link>, handled: u64) -> Result<(), String> {
        let mut sending = lock(&self.sending);
        let Sending { head, socket: place, kept, .. } = &mut *sending;
        let mut reading = lock(&self.reading);
        if !Arc::ptr_eq(&reading.socket, socket) || reading.is_over {
            // It has broken again, and another thread may have come first with what was said on the next socket.
            return Ok(());
        }
        let bytes = kept.as_mut().and_then(|kept| kept.behind(handled));
        let bytes = bytes.ok_or_else(|| "a connection to it broke, and messages on it are lost".to_owned())?;
        self.confirmed.fetch_max(handled, Ordering::AcqRel);
        reading.broken = None;
        drop(reading);
        head.clear();
        *place = Some(socket.clone());
        if socket.send_all(&mut bytes.map(IoSlice::new)).is_err() {
            self.fail(place);
        }
        Ok(())
    }

    /// Ends the socket, as the other end is about to make the connection again; the thread that reads it then ends.
    /// Returns the number of the new socket, for [`PeerLink::is_latest`].
    pub fn expect_socket(&self) -> u64 {
        let mut reading = lock(&self.reading);
        reading.broken.get_or_insert_with(Instant::now);
        reading.is_over = true;
        reading.socket.shutdown();
        reading.expected += 1;
        reading.expected
    }

    /// Whether no later socket is expected than the one of this number.
    pub fn is_latest(&self, number: u64) -> bool {
        lock(&self.reading).expected == number
    }

    /// Puts a new socket in the place of one that nobody reads any more, which it returns.
    pub fn replace(&self, socket: &Arc<Link>) -> Arc<Link> {
        let mut reading = lock(&self.reading);
        (reading.is_read, reading.is_over, reading.resumes) = (true, false, true);
        std::mem::replace(&mut reading.socket, socket.clone())
    }

    /// Sends the first message on a new socket, by the thread that is going to read it: so the number in it is final.
    pub fn begin_again(&self, socket: &Link) {
        let bytes = self.handled();
        self.reported.store(bytes, Ordering::Relaxed);
        let mut first = Vec::new();
        encode_post(&mut first, &Received { bytes }, 0);
        // If this fails, reading will.
        let _ = socket.send_all(&mut [IoSlice::new(&first)]);
    }

    /// Notes that reading has come to the socket's end: the connection is broken. Returns false if it has broken too
    /// often without any use in between.
    pub fn breaks(&self) -> bool {
        let mut reading = lock(&self.reading);
        reading.is_over = true;
        reading.socket.shutdown();
        let now = Instant::now();
        reading.broken.get_or_insert(now);
        let passed = self.handled() + self.confirmed.load(Ordering::Acquire);
        let is_fruitless = reading
            .last
            .replace((now, passed))
            .is_some_and(|(last, before)| before == passed && now.saturating_duration_since(last) < RENEWAL);
        reading.fruitless = if is_fruitless { reading.fruitless + 1 } else { 0 };
        reading.fruitless < MOST_FRUITLESS
    }

    /// Notes that the thread that has read the socket has ended.
    pub fn is_left(&self) {
        lock(&self.reading).is_read = false;
    }

    /// Whether a thread reads the socket.
    pub fn is_read(&self) -> bool {
        lock(&self.reading).is_read
    }

    /// Since when the connection has been broken, if it is.
    pub fn broken(&self) -> Option<Instant> {
        lock(&self.reading).broken
    }

    /// Whether the connection is there, as far as its socket tells.
    pub fn works(&self) -> bool {
        let reading = lock(&self.reading);
        reading.broken.is_none() && !reading.socket.has_ended()
    }

    /// Whether the thread that reads the socket should end: it may be waiting for something else.
    pub fn is_over(&self) -> bool {
        lock(&self.reading).is_over
    }

    /// The socket; the last one, while the connection is broken.
    pub fn socket(&self) -> Arc<Link> {
        lock(&self.reading).socket.clone()
    }

    /// Ends the connection for good.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.socket().shutdown();
        if let Some(in_place) = &self.in_place {
            in_place.end();
        }
    }
}

/// Whether sending or receiving failed because nothing comes through to the peer's machine any more.
pub fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::TimedOut | Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown)
}

/// Whether sending failed for a reason of this machine's own, and not because the other end or the network between is
/// gone.
pub fn is_local(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let is_ended =
        matches!(error.kind(), Kind::BrokenPipe | Kind::ConnectionReset | Kind::ConnectionAborted | Kind::NotConnected);
    !is_ended && !is_unreachable(error)
}
