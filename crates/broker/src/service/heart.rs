//! The loop that decides: it hears all connections, and alone has the broker.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ropeway_daemon::access::Guests;
use ropeway_lease::messages::{Ask, Tell};
use ropeway_transport::tls::PublicKey;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::clock::Clock;
use super::connection::{Mouth, Proved};
use super::inbox::Input;
use super::porch::{Ended, MAX_CONNECTIONS, Porch};
use super::rules::RulesFile;
use super::scribe::{Batch, Said, Scribe};
use crate::core::{Broker, Effect, Peer, User};
use crate::store::{Change, Tenure};

/// Most messages that are taken in before it is decided what follows from them.
const GULP: usize = 512;

/// How often it is looked whether a ticket's time is over.
const LOOK: Duration = Duration::from_millis(500);

/// A connection that is being served.
struct Served {
    mouth: Mouth,
    key: PublicKey,
}

/// What a broker decides with, while it leads.
pub(super) struct Seat {
    pub(super) broker: Broker,
    pub(super) rules: RulesFile,
    pub(super) tenure: Tenure,
    pub(super) scribe: Scribe,
    pub(super) inbox: mpsc::Sender<Input>,
    pub(super) heard: mpsc::Receiver<Input>,
}

struct Heart<'a> {
    broker: Broker,
    rules: RulesFile,
    tenure: Tenure,
    scribe: Scribe,
    inbox: mpsc::Sender<Input>,
    guests: &'a mut Guests,
    clock: Clock,
    served: HashMap<Peer, Served>,
    next: u64,
    since: Instant,
    /// Why nothing can be written down, while that is so.
    cannot_write: Option<String>,
}

/// Decides until a signal ends it, or another broker leads. All connections are closed then.
///
/// # Errors
/// The system's, when a socket cannot be waited for.
pub(super) async fn run(seat: Seat, porch: &mut Porch) -> io::Result<Ended> {
    let Seat { broker, rules, tenure, scribe, inbox, mut heard } = seat;
    let Porch { guests, watch, arrivals, parked, signals, clock, .. } = porch;
    let mut heart = Heart {
        broker,
        rules,
        tenure,
        scribe,
        inbox,
        guests,
        clock: *clock,
        served: HashMap::new(),
        next: 0,
        since: Instant::now(),
        cannot_write: None,
    };
    parked.drain(..).for_each(|(_, proved)| heart.welcome(proved));
    let mut look_at = Instant::now() + LOOK;
    let mut inputs = Vec::new();
    loop {
        let deadline = heart.broker.deadline().map_or(look_at, |at| (heart.since + at).min(look_at));
        let mut arrived = None;
        tokio::select! {
            _ = heard.recv_many(&mut inputs, GULP) => {}
            proved = arrivals.recv() => arrived = proved,
            () = sleep_until(deadline) => {}
            ready = watch.readable() => {
                ready?.clear_ready();
                if heart.guests.reread() {
                    heart.show_out();
                }
            }
            () = signals.come() => return Ok(Ended::Stopped),
        }
        // Looked at after all that may have taken long, and before anything is decided.
        if !heart.tenure.holds() {
            return Ok(Ended::Deposed);
        }
        if let Some(proved) = arrived {
            heart.welcome(*proved);
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

impl Heart<'_> {
    fn now(&self) -> Duration {
        self.since.elapsed()
    }

    fn take(&mut self, input: Input) {
        match input {
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
        tokio::spawn(proved.serve(peer, words, self.inbox.clone(), (self.clock, self.tenure.clone())));
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
