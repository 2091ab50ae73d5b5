//! Where connections come in, whoever leads; and what becomes of them while another broker leads, or none does.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, SystemTime};

use ropeway_daemon::access::Guests;
use ropeway_lease::messages::{SILENCE_MS, Tell};
use ropeway_transport::Listener;
use ropeway_transport::tls::Door;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::clock::Clock;
use super::connection::{Mouth, Proved, greet};
use super::strangers::Strangers;
use super::waited::{Waited, wait_for};
use crate::core::Peer;
use crate::store::{Standing, Tenure, Term};

/// Most connections.
pub(super) const MAX_CONNECTIONS: usize = 16384;

/// How long nothing is accepted after the system failed to accept something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a connection waits for a word.
const PATIENCE: Duration = Duration::from_millis(SILENCE_MS);

/// Why a broker does not lead any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// A signal has told it to end.
    Stopped,
    /// Another may lead.
    Deposed,
}

/// The signals that end a broker.
pub(super) struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    /// Waits for one.
    pub(super) async fn come(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}

/// What outlasts the times in which a broker leads.
pub(super) struct Porch {
    pub(super) guests: Guests,
    /// Readable when the clients' list has changed.
    pub(super) watch: AsyncFd<Waited<OwnedFd>>,
    /// Connections whose other end has proved its key.
    pub(super) arrivals: mpsc::Receiver<Box<Proved>>,
    /// Those that have come while nobody led, and when.
    pub(super) parked: Vec<(Instant, Proved)>,
    pub(super) signals: Signals,
    pub(super) clock: Clock,
    /// Arrivals never seem to be over, even if no socket can be waited for any more.
    _inbox: mpsc::Sender<Box<Proved>>,
}

impl Porch {
    /// Accepts connections from now on.
    ///
    /// # Errors
    /// The system's, when a socket cannot be waited for.
    pub(super) fn open(guests: Guests, listeners: Vec<Listener>, room: usize) -> io::Result<Self> {
        let (inbox, arrivals) = mpsc::channel(room);
        for listener in listeners {
            let accepting = accept(listener, guests.door().clone(), inbox.clone())?;
            tokio::spawn(accepting);
        }
        let watch = wait_for(guests.as_fd().try_clone_to_owned()?)?;
        let signals = Signals { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? };
        Ok(Self { guests, watch, arrivals, parked: Vec::new(), signals, clock: Clock::start(), _inbox: inbox })
    }

    /// Lets a connection wait for somebody to lead: it may be this broker.
    fn park(&mut self, proved: Proved) {
        // Others have given up by now.
        self.parked.retain(|(since, _)| since.elapsed() < PATIENCE);
        if self.parked.len() < MAX_CONNECTIONS {
            self.parked.push((Instant::now(), proved));
        }
    }

    /// Sends connections to the broker that leads, until this one does; `None`: a signal has ended it.
    ///
    /// # Errors
    /// The system's, when a socket cannot be waited for.
    pub(super) async fn stand_by(
        &mut self,
        standings: &mut mpsc::UnboundedReceiver<Standing>,
    ) -> io::Result<Option<Term>> {
        let mut leader: Option<String> = None;
        // What is said by those who are sent away is not heard.
        let (deaf, mut unheard) = mpsc::channel(1);
        loop {
            tokio::select! {
                standing = standings.recv() => match standing {
                    Some(Standing::Leads(term)) => return Ok(Some(*term)),
                    Some(Standing::StandsBy(found)) => leader = found,
                    None => return Ok(None),
                },
                Some(proved) = self.arrivals.recv() => self.park(*proved),
                _ = unheard.recv() => {}
                ready = self.watch.readable() => {
                    ready?.clear_ready();
                    self.guests.reread();
                }
                () = self.signals.come() => return Ok(None),
            }
            if let Some(leader) = &leader {
                for (_, proved) in std::mem::take(&mut self.parked) {
                    let (mouth, words) = Mouth::new();
                    let key = self.guests.key_of(&proved.client);
                    mouth.say(&match self.guests.admit(&key, proved.client.name.as_deref(), SystemTime::now()) {
                        Ok(_) => Tell::Elsewhere { leader: leader.clone() },
                        Err(why) => {
                            info!(%why, address = %proved.address, "a client is refused");
                            Tell::Refused { why }
                        }
                    });
                    mouth.close();
                    tokio::spawn(proved.serve(Peer(0), words, deaf.clone(), (self.clock, Tenure::endless())));
                }
            }
        }
    }
}

/// Accepts connections as they come.
///
/// # Errors
/// The system's, when the socket cannot be waited for.
fn accept(listener: Listener, door: Door, arrivals: mpsc::Sender<Box<Proved>>) -> io::Result<impl Future<Output = ()>> {
    let waited = wait_for(listener.as_fd().try_clone_to_owned()?)?;
    let strangers = Strangers::default();
    Ok(async move {
        loop {
            let Ok(mut ready) = waited.readable().await else { return };
            let link = match listener.accept() {
                Ok(link) => link,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready.clear_ready();
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    warn!(%error, endpoint = %listener.endpoint(), "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Who has proved nothing costs a socket and a place among few; those who wait in the backlog cost nothing.
            let Some(place) = strangers.admit(&link) else { continue };
            let (door, arrivals) = (door.clone(), arrivals.clone());
            tokio::spawn(async move {
                let from = link.peer_address().map(|address| address.ip()).unwrap_or(IpAddr::from([0; 4]));
                let greeted = match door.open() {
                    Ok(accepting) => greet(link, accepting).await,
                    Err(error) => Err(error),
                };
                drop(place);
                match greeted {
                    Ok(proved) => drop(arrivals.send(Box::new(proved)).await),
                    Err(error) => debug!(%error, %from, "a connection has no place here"),
                }
            });
        }
    })
}
