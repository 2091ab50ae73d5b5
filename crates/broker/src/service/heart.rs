//! The loop that decides: it hears all connections, and alone has the broker.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ropeway_daemon::access::Guests;
use ropeway_lease::messages::{Ask, Tell};
use ropeway_transport::Listener;
use ropeway_transport::tls::{Door, PublicKey};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info, warn};

use super::clock::Clock;
use super::connection::{Mouth, Proved, greet};
use super::inbox::Input;
use super::rules::RulesFile;
use super::scribe::{Batch, Said, Scribe};
use super::strangers::Strangers;
use super::waited::wait_for;
use crate::core::{Broker, Effect, Peer, User};
use crate::store::Change;

/// Most connections.
const MAX_CONNECTIONS: usize = 16384;

/// Most messages that are taken in before it is decided what follows from them.
const GULP: usize = 512;

/// How long nothing is accepted after the system failed to accept something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often it is looked whether a ticket's time is over.
const LOOK: Duration = Duration::from_millis(500);

/// A connection that is being served.
struct Served {
    mouth: Mouth,
    key: PublicKey,
}

struct Heart {
    broker: Broker,
    rules: RulesFile,
    clock: Clock,
    guests: Guests,
    scribe: Scribe,
    inbox: mpsc::Sender<Input>,
    served: HashMap<Peer, Served>,
    next: u64,
    since: Instant,
    /// Why nothing can be written down, while that is so.
    cannot_write: Option<String>,
}

/// Decides until a signal ends it.
///
/// # Errors
/// The system's, when a socket cannot be waited for.
pub(super) async fn run(
    (broker, rules, clock): (Broker, RulesFile, Clock),
    guests: Guests,
    listeners: Vec<Listener>,
    (inbox, mut heard): (mpsc::Sender<Input>, mpsc::Receiver<Input>),
    scribe: Scribe,
) -> io::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    for listener in listeners {
        let accepting = accept(listener, guests.door().clone(), inbox.clone())?;
        tokio::spawn(accepting);
    }
    let watch = wait_for(guests.as_fd().try_clone_to_owned()?)?;
    let mut heart = Heart {
        broker,
        rules,
        clock,
        guests,
        scribe,
        inbox,
        served: HashMap::new(),
        next: 0,
        since: Instant::now(),
        cannot_write: None,
    };
    let mut look_at = Instant::now() + LOOK;
    let mut inputs = Vec::new();
    loop {
        let deadline = heart.broker.deadline().map_or(look_at, |at| (heart.since + at).min(look_at));
        tokio::select! {
            _ = heard.recv_many(&mut inputs, GULP) => {}
            () = sleep_until(deadline) => {}
            ready = watch.readable() => {
                ready?.clear_ready();
                if heart.guests.reread() {
                    heart.show_out();
                }
            }
            _ = term.recv() => return Ok(()),
            _ = int.recv() => return Ok(()),
        }
        for input in inputs.drain(..) {
            heart.take(input);
        }
        if Instant::now() >= look_at {
            heart.show_out();
            heart.look_at_rules();
            look_at = Instant::now() + LOOK;
        }
        heart.act();
    }
}

impl Heart {
    fn now(&self) -> Duration {
        self.since.elapsed()
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Proved(proved) => self.welcome(*proved),
            Input::Said(peer, Ask::Lease(_)) if self.cannot_write.is_some() => {
                if let (Some(served), Some(why)) = (self.served.get(&peer), &self.cannot_write) {
                    served.mouth.say(&Tell::Refused { why: format!("the broker lends nothing now: {why}") });
                }
            }
            Input::Said(peer, ask) => self.broker.ask(peer, ask, self.now()),
            Input::Gone(peer) => {
                if self.served.remove(&peer).is_some() {
                    self.broker.disconnected(peer, self.now());
                }
            }
            Input::Undelivered(lease) => self.broker.undelivered(lease, self.now()),
            Input::CannotWrite(why) => self.cannot_write = Some(why),
            Input::CanWrite => self.cannot_write = None,
        }
    }

    /// Lets a connection in, if its key is a client's.
    fn welcome(&mut self, proved: Proved) {
        let key = self.guests.key_of(&proved.client);
        let (mouth, words) = Mouth::new();
        self.next += 1;
        let peer = Peer(self.next);
        match self.guests.admit(&key, proved.client.name.as_deref(), SystemTime::now()) {
            Ok((name, rules)) if self.served.len() < MAX_CONNECTIONS => {
                debug!(user = name, address = %proved.address, "a connection");
                self.broker.connected(peer, User { name, registers: rules.registers });
                self.served.insert(peer, Served { mouth, key });
            }
            outcome => {
                let why =
                    outcome.err().unwrap_or_else(|| format!("the broker has {MAX_CONNECTIONS} connections already"));
                info!(%why, address = %proved.address, "a client is refused");
                mouth.say(&Tell::Refused { why });
                mouth.close();
            }
        }
        tokio::spawn(proved.serve(peer, words, (self.inbox.clone(), self.clock)));
    }

    /// Closes the connections of clients that may not come any more.
    fn show_out(&mut self) {
        let now = SystemTime::now();
        for served in self.served.values() {
            if let Err(why) = self.guests.admit(&served.key, None, now) {
                served.mouth.say(&Tell::Refused { why });
                served.mouth.close();
            }
        }
    }

    /// Says what the time is, and takes in the pool's rules if they have changed.
    fn look_at_rules(&mut self) {
        let now = self.now();
        self.broker.set_clock(now, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        if let Some(rules) = self.rules.changed() {
            self.broker.set_rules(rules, now).into_iter().for_each(|why| warn!("{why}"));
        }
    }

    /// Does what is to be done now.
    fn act(&mut self) {
        let effects = self.broker.decide(self.now());
        if effects.is_empty() {
            return;
        }
        let mut batch = Batch::default();
        for effect in effects {
            let mouth = |peer: &Peer| self.served.get(peer).map(|served| served.mouth.clone());
            match effect {
                Effect::Keep(record) => {
                    batch.has_to_last = true;
                    batch.changes.push(Change::Keep(record));
                }
                Effect::KeepServer(about) => {
                    batch.has_to_last = true;
                    batch.changes.push(Change::KeepServer(about));
                }
                Effect::KeepUsage(used) => batch.changes.push(Change::KeepUsage(used)),
                Effect::Forget(lease) => batch.changes.push(Change::Forget(lease)),
                Effect::Say(peer, tell) => batch.said.extend(mouth(&peer).map(|mouth| Said::Plainly(mouth, tell))),
                Effect::Grant(peer, granted) => {
                    batch.said.extend(mouth(&peer).map(|mouth| Said::Granted(mouth, granted)));
                }
                Effect::Renew(peer, granted) => {
                    batch.said.extend(mouth(&peer).map(|mouth| Said::Renewed(mouth, granted)));
                }
                Effect::Close(peer) => batch.said.extend(mouth(&peer).map(Said::Close)),
            }
        }
        if self.cannot_write.is_some() && batch.changes.is_empty() {
            // Whoever asks hears at least why nothing is lent.
            batch.said.retain(|said| !said.at_once());
        }
        self.scribe.give(batch);
    }
}

/// Accepts connections as they come.
///
/// # Errors
/// The system's, when the socket cannot be waited for.
fn accept(listener: Listener, door: Door, inbox: mpsc::Sender<Input>) -> io::Result<impl Future<Output = ()>> {
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
            let (door, inbox) = (door.clone(), inbox.clone());
            tokio::spawn(async move {
                let from = link.peer_address().map(|address| address.ip()).unwrap_or(IpAddr::from([0; 4]));
                let greeted = match door.open() {
                    Ok(accepting) => greet(link, accepting).await,
                    Err(error) => Err(error),
                };
                drop(place);
                match greeted {
                    Ok(proved) => drop(inbox.send(Input::Proved(Box::new(proved))).await),
                    Err(error) => debug!(%error, %from, "a connection has no place here"),
                }
            });
        }
    })
}
