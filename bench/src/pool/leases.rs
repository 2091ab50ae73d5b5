//! How many leases a broker grants and takes back in a second: what comes is read, decided, written down, signed, and
//! said as it goes over a connection.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use ropeway_broker::core::{Broker, Effect, Granted, Peer};
use ropeway_broker::store::{Change, Embedded, Store as _};
use ropeway_lease::messages::{Ask, LENGTH, Lease, Tell, decode, encode};
use ropeway_lease::want::Want;
use ropeway_transport::tls::{Identity, issue_lease};

use super::rack::{self, DEVICES, SERVERS};

struct Desk {
    broker: Broker,
    store: Embedded,
    identity: Identity,
    holder: Identity,
    synced: bool,
    since: Instant,
    granted: usize,
    forgotten: usize,
}

/// Leases granted and released in a second, of `leases`, by so many clients at a time.
///
/// # Errors
/// The store cannot be written to, or not all of them were granted and forgotten.
pub fn measure(folder: &Path, clients: u64, synced: bool, leases: usize) -> Result<f64, String> {
    let folder = folder.join(format!("pool-{clients}-{synced}"));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let key = || Identity::generate().map_err(|e| e.to_string());
    let mut desk = Desk {
        broker: rack::broker(Duration::ZERO)?,
        store: Embedded::open(&folder).map_err(|e| e.to_string())?,
        identity: key()?,
        holder: key()?,
        synced,
        since: Instant::now(),
        granted: 0,
        forgotten: 0,
    };
    // Half of the pool is lent all the time.
    let want: Want = "gpu".parse()?;
    let now = desk.since.elapsed();
    for number in 0..SERVERS * DEVICES / 2 {
        let peer = rack::client(&mut desk.broker, number, number % 100, now);
        desk.broker.ask(peer, Ask::Lease(rack::ask(want.clone(), &desk.holder.public().text())), now);
    }
    desk.broker.decide(now);
    let peers: Vec<Peer> = (0..clients)
        .map(|number| rack::client(&mut desk.broker, SERVERS * DEVICES + number, number % 20, now))
        .collect();
    let words = encode(&Ask::Lease(rack::ask("gpu, memory>=16G".parse()?, &desk.holder.public().text())))?;
    let before = Instant::now();
    while desk.forgotten < leases {
        for peer in &peers {
            desk.hear(*peer, &words)?;
        }
        // What is said is answered until nothing is said any more: leases are released, and servers are clear of them.
        let mut heard = desk.act()?;
        while !heard.is_empty() {
            for (peer, words) in std::mem::take(&mut heard) {
                desk.hear(peer, &words)?;
            }
            heard = desk.act()?;
        }
    }
    let time = before.elapsed();
    let rounds = leases.div_ceil(peers.len());
    if desk.granted != rounds * peers.len() || desk.forgotten != desk.granted {
        return Err(format!("{} leases were granted and {} forgotten", desk.granted, desk.forgotten));
    }
    Ok(desk.granted as f64 / time.as_secs_f64())
}

impl Desk {
    fn hear(&mut self, peer: Peer, words: &[u8]) -> Result<(), String> {
        self.broker.ask(peer, decode(&words[LENGTH..])?, self.since.elapsed());
        Ok(())
    }

    /// Carries out what the broker decides. Returns the answers: programs release what they get at once, and servers
    /// are clear at once.
    fn act(&mut self) -> Result<Vec<(Peer, Vec<u8>)>, String> {
        let (mut changes, mut said, mut has_to_last) = (Vec::new(), Vec::new(), false);
        for effect in self.broker.decide(self.since.elapsed()) {
            match effect {
                Effect::Keep(record) => {
                    has_to_last = true;
                    changes.push(Change::Keep(record));
                }
                Effect::KeepServer(about) => {
                    has_to_last = true;
                    changes.push(Change::KeepServer(about));
                }
                Effect::Forget(lease) => {
                    self.forgotten += 1;
                    changes.push(Change::Forget(lease));
                }
                Effect::KeepUsage(used) => changes.push(Change::KeepUsage(used)),
                other => said.push(other),
            }
        }
        if !changes.is_empty() {
            self.store.write(&changes, has_to_last && self.synced).map_err(|e| e.to_string())?;
        }
        let mut answers = Vec::new();
        for effect in said {
            match effect {
                Effect::Say(peer, tell) => {
                    encode(&tell)?;
                    if let Tell::End { lease, .. } = tell {
                        answers.push((peer, encode(&Ask::Cleared { lease })?));
                    }
                }
                Effect::Grant(peer, granted) => {
                    self.granted += 1;
                    let lease = granted.grant.lease;
                    encode(&self.signed(*granted)?)?;
                    answers.push((peer, encode(&Ask::Release { lease })?));
                }
                Effect::Renew(_, granted) => drop(encode(&self.signed(*granted)?)?),
                _ => {}
            }
        }
        Ok(answers)
    }

    /// A lease as its holder gets it.
    fn signed(&self, granted: Granted) -> Result<Tell, String> {
        let (now, text) = (SystemTime::now(), granted.grant.to_text());
        let signed = issue_lease(&self.identity, self.holder.public(), &text, now, now + granted.lasts);
        let signed = signed.map_err(|e| e.to_string())?;
        // As many bytes as it has as base64.
        let certificate = "A".repeat(signed.len().div_ceil(3) * 4);
        let (lease, lasts_ms) = (granted.grant.lease, granted.lasts.as_millis() as u64);
        Ok(Tell::Granted(Box::new(Lease { lease, certificate, lasts_ms, servers: granted.servers })))
    }
}
