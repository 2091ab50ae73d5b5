//! One connection: its handshake, what comes on it, and what is said on it.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use ropeway_lease::messages::{Ask, BEAT_MS, LENGTH, SILENCE_MS, Tell, decode, encode, length};
use ropeway_transport::Link;
use ropeway_transport::tls::{Accepting, Client};
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};
use tracing::debug;

use super::clock::Clock;
use super::inbox::Input;
use super::waited::{Waited, wait_for};
use crate::core::Peer;
use crate::store::Tenure;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Most messages that wait for a connection to take them; one that leaves more is closed.
const OUTBOX: usize = 4096;

/// How long a connection that is to be closed has to take what was said last.
const FAREWELL: Duration = Duration::from_secs(1);

/// What goes to a connection.
#[derive(Debug)]
pub(super) enum Word {
    /// A message, as it is sent.
    Say(Vec<u8>),
    /// The end, after what was said before.
    Close,
}

/// The way to a connection.
#[derive(Clone, Debug)]
pub(super) struct Mouth {
    words: mpsc::Sender<Word>,
    /// Told when the connection is to end at once.
    end: Arc<Notify>,
}

/// The other end of a [`Mouth`].
#[derive(Debug)]
pub(super) struct Words {
    words: mpsc::Receiver<Word>,
    end: Arc<Notify>,
}

impl Mouth {
    /// A way to a connection that is not there yet.
    pub(super) fn new() -> (Self, Words) {
        let (words, heard) = mpsc::channel(OUTBOX);
        let end = Arc::new(Notify::new());
        (Self { words, end: end.clone() }, Words { words: heard, end })
    }

    /// Says something; who does not take it loses the connection. Returns whether there is one.
    pub(super) fn say(&self, tell: &Tell) -> bool {
        let bytes = encode(tell).or_else(|why| {
            debug!(%why, "an answer is too long");
            encode(&Tell::Refused { why })
        });
        bytes.is_ok_and(|bytes| self.word(Word::Say(bytes)))
    }

    /// Ends the connection after what was said before.
    pub(super) fn close(&self) {
        self.word(Word::Close);
    }

    fn word(&self, word: Word) -> bool {
        let sent = self.words.try_send(word).is_ok();
        if !sent {
            self.end.notify_one();
        }
        sent
    }
}

/// A connection whose other end has proved its key.
pub(super) struct Proved {
    link: AsyncFd<Waited<Link>>,
    /// Who it is.
    pub(super) client: Client,
    /// Its address.
    pub(super) address: String,
}

/// Does the handshake of a connection that has just come.
///
/// # Errors
/// It is not over in time, or the other end has no place here.
pub(super) async fn greet(link: Link, accepting: Accepting) -> io::Result<Proved> {
    let address = link.peer();
    let mut link = wait_for(link)?;
    let mut accepting = Some(Box::new(accepting));
    let shaken = async {
        loop {
            if let Some(client) = link.get_mut().get_mut().advance(&mut accepting)? {
                return Ok::<Client, io::Error>(client);
            }
            // The handshake's answers fit the socket's buffer: it waits for the other end's words only.
            link.readable().await?.clear_ready();
        }
    };
    let client = timeout(HANDSHAKE, shaken).await.map_err(|_| io::Error::from(ErrorKind::TimedOut))??;
    Ok(Proved { link, client, address })
}

impl Proved {
    /// Passes on what comes, and says what is to be said, until the connection ends.
    pub(super) async fn serve(
        self,
        peer: Peer,
        mut words: Words,
        heart: mpsc::Sender<Input>,
        (clock, tenure): (Clock, Tenure),
    ) {
        let outcome = tokio::select! {
            read = read_all(&self.link, peer, &heart) => read,
            said = say_all(&self.link, &mut words.words, (clock, &tenure)) => said,
            () = words.end.notified() => Err(io::Error::other("it does not take what it is told")),
        };
        let why = outcome.err().map_or_else(|| "it was closed".to_owned(), |error| error.to_string());
        debug!(address = %self.address, %why, "a connection ends");
        self.link.get_ref().get().shutdown();
        // If the heart has ended, so has everything.
        let _ = heart.send(Input::Gone(peer)).await;
    }
}

/// Reads messages until the end.
async fn read_all(link: &AsyncFd<Waited<Link>>, peer: Peer, heart: &mpsc::Sender<Input>) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let mut len = [0; LENGTH];
        read_exact(link, &mut len).await?;
        bytes.resize(length(len).map_err(io::Error::other)?, 0);
        read_exact(link, &mut bytes).await?;
        let ask: Ask = decode(&bytes).map_err(io::Error::other)?;
        bytes.shrink_to(1 << 16);
        if ask != Ask::Beat && heart.send(Input::Said(peer, ask)).await.is_err() {
            return Ok(());
        }
    }
}

/// Fills `into`; whoever is silent meanwhile is gone.
async fn read_exact(link: &AsyncFd<Waited<Link>>, mut into: &mut [u8]) -> io::Result<()> {
    let mut silent_at = Instant::now() + Duration::from_millis(SILENCE_MS);
    while !into.is_empty() {
        match link.get_ref().get().try_recv(into) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                into = &mut into[n..];
                silent_at = Instant::now() + Duration::from_millis(SILENCE_MS);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let ready = timeout_at(silent_at, link.readable()).await;
                let mut ready = ready.map_err(|_| io::Error::new(ErrorKind::TimedOut, "it is silent"))??;
                if !link.get_ref().get().has_more() {
                    // More may have come since; then the next attempt is one too many, and nothing else.
                    ready.clear_ready();
                    if let Ok(n) = link.get_ref().get().try_recv(into) {
                        if n == 0 {
                            return Err(ErrorKind::UnexpectedEof.into());
                        }
                        into = &mut into[n..];
                    }
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Says what is to be said, and now and then that this end is there, as long as the broker has a right to.
async fn say_all(
    link: &AsyncFd<Waited<Link>>,
    words: &mut mpsc::Receiver<Word>,
    (clock, tenure): (Clock, &Tenure),
) -> io::Result<()> {
    let mut beats = interval(Duration::from_millis(BEAT_MS));
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let word = tokio::select! {
            word = words.recv() => word,
            _ = beats.tick() => Some(Word::Say(encode(&Tell::Beat { at_ms: clock.now_ms() }).map_err(io::Error::other)?)),
        };
        if !tenure.holds() {
            return Err(io::Error::other("the broker does not lead any more"));
        }
        match word {
            Some(Word::Say(bytes)) => send_all(link, &bytes).await?,
            Some(Word::Close) | None => {
                // The other end reads the last words, and closes.
                let read = async {
                    let mut rest = [0; 256];
                    while read_exact(link, &mut rest).await.is_ok() {}
                };
                rustix::net::shutdown(link.get_ref().get().as_fd(), rustix::net::Shutdown::Write)?;
                let _ = timeout(FAREWELL, read).await;
                return Ok(());
            }
        }
    }
}

/// Sends all of `bytes`.
async fn send_all(link: &AsyncFd<Waited<Link>>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut ready = link.writable().await?;
        match link.get_ref().get().try_send(bytes)? {
            0 => ready.clear_ready(),
            sent => bytes = &bytes[sent..],
        }
    }
    Ok(())
}
