//! Which broker of a pool leads: the one that has written the leader's key, and writes it again and again. Another takes
//! it over when nobody has written it for a while.
//!
//! etcd has leases for that. They last two seconds at least, are looked at every half a second, and begin anew when etcd
//! itself elects: with them, devices would be lent again more than three seconds after a broker was killed.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;
use tracing::{info, warn};

use super::client::{Client, delete, has, is_of, put};
use super::{ANSWER, Etcd, EtcdAddress, EtcdFiles, Keys};
use crate::store::StoreError;
use crate::store::tenure::{Tenure, now};

/// How often the leader writes its key.
const BEAT: Duration = Duration::from_millis(300);

/// How often the others look at it.
const LOOK: Duration = Duration::from_millis(100);

/// How long a broker leads after it asked for its key to be written, if that was done.
const HOLDS: Duration = Duration::from_millis(1600);

/// How long the others wait after they have seen it written.
const TAKES: Duration = Duration::from_millis(2000);

/// How long the others believe that the leader is there.
const DOUBTS: Duration = Duration::from_millis(700);

/// How long a member of etcd has for an answer.
const LIMIT: Duration = Duration::from_millis(500);

/// How long to wait before another member is asked.
const PAUSE: Duration = Duration::from_millis(20);

/// What a broker may do.
#[derive(Debug)]
pub enum Standing {
    /// It stands by; the address of the one that leads, if that is known to be there.
    StandsBy(Option<String>),
    /// It leads.
    Leads(Box<Term>),
}

/// The time in which a broker leads.
#[derive(Debug)]
pub struct Term {
    /// How long that is.
    pub tenure: Tenure,
    /// What it reads and writes.
    pub store: Etcd,
}

/// Who wants to lead.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where etcd is.
    pub etcd: EtcdAddress,
    /// The files for its connections.
    pub files: EtcdFiles,
    /// Where clients reach this broker: `host:port`.
    pub address: String,
    /// The public key of the pool's brokers, as text.
    pub key: String,
}

/// The thread that sees to it that one broker leads; gives the lead away when dropped.
#[derive(Debug)]
pub struct Campaign {
    has_to_end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Campaigner {
    client: Client,
    keys: Keys,
    candidate: Candidate,
    has_to_end: Arc<AtomicBool>,
}

impl Campaign {
    /// Begins. `report` is told what the broker may do when that changes, and returns whether anybody listens.
    ///
    /// # Errors
    /// etcd does not answer, belongs to brokers with another key, or cannot be used.
    pub fn start(
        candidate: Candidate,
        report: impl FnMut(Standing) -> bool + Send + 'static,
    ) -> Result<Self, StoreError> {
        let keys = Keys::of(&candidate.etcd.pool);
        let client = Client::new(&candidate.etcd, &candidate.files, LIMIT).map_err(StoreError)?;
        let has_to_end = Arc::new(AtomicBool::new(false));
        let mut campaigner = Campaigner { client, keys, candidate, has_to_end: Arc::clone(&has_to_end) };
        campaigner.check_key()?;
        let thread = thread::Builder::new().name("campaign".to_owned()).spawn(move || campaigner.run(report));
        let thread = thread.map_err(|error: io::Error| StoreError(format!("cannot start a thread: {error}")))?;
        Ok(Self { has_to_end, thread: Some(thread) })
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        self.has_to_end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there is reported by itself.
            let _ = thread.join();
        }
    }
}

impl Campaigner {
    /// All brokers of a pool have one key: leases that one has signed are good with the next.
    fn check_key(&mut self) -> Result<(), StoreError> {
        let key = self.candidate.key.as_bytes();
        let mut last = String::new();
        // Members that are being started, or elect, answer a little later.
        for _ in 0..10 * self.client.member_count() {
            let mine = [has(&self.keys.key, None)];
            let first = self.client.transact(json!(mine), json!([put(&self.keys.key, key)]), json!([]));
            match first.and_then(|_| self.client.get(&self.keys.key)) {
                Ok(Some(entry)) if entry.value == key => return Ok(()),
                Ok(_) => {
                    let why = "the brokers of this pool have another key; copy the file server.key of one of them into this broker's state folder";
                    return Err(StoreError(why.to_owned()));
                }
                Err(why) => last = why,
            }
            self.rest(LOOK);
        }
        Err(StoreError(last))
    }

    fn rest(&self, time: Duration) {
        if !self.has_to_end() {
            thread::park_timeout(time);
        }
    }

    fn has_to_end(&self) -> bool {
        self.has_to_end.load(Ordering::Relaxed)
    }

    fn run(mut self, mut report: impl FnMut(Standing) -> bool) {
        while let Some((tenure, leader)) = self.stand_by(&mut report) {
            let client = Client::new(&self.candidate.etcd, &self.candidate.files, ANSWER);
            let is_heard = match client {
                Ok(client) => {
                    let store = Etcd::new(client, self.keys.clone(), leader.clone(), tenure.clone());
                    report(Standing::Leads(Box::new(Term { tenure: tenure.clone(), store })))
                }
                Err(why) => {
                    warn!("this broker cannot lead: {why}");
                    true
                }
            };
            if !is_heard {
                return;
            }
            self.lead(&tenure, &leader);
            tenure.end();
            if self.has_to_end() {
                // Where that is not possible, the others wait a little longer.
                let (key, mine) = (&self.keys.leader, Some(&leader[..]));
                let _ = self.client.transact(json!([has(key, mine)]), json!([delete(key)]), json!([]));
                return;
            }
        }
    }

    /// Waits until nobody leads, and leads then; `None`: this is to end.
    fn stand_by(&mut self, report: &mut impl FnMut(Standing) -> bool) -> Option<(Tenure, Vec<u8>)> {
        let mut seen: Option<(String, Duration)> = None;
        let mut told: Option<Option<String>> = None;
        let mut last = String::new();
        while !self.has_to_end() {
            let mut leader = None;
            let mut takes = false;
            match self.client.get(&self.keys.leader) {
                Ok(None) => {
                    (seen, takes) = (None, true);
                    last.clear();
                }
                Ok(Some(entry)) => {
                    if seen.as_ref().is_none_or(|(revision, _)| *revision != entry.revision) {
                        seen = Some((entry.revision, now()));
                    }
                    let age = seen.as_ref().map_or(Duration::ZERO, |(_, at)| now().saturating_sub(*at));
                    let text = String::from_utf8_lossy(&entry.value).into_owned();
                    leader = text.split_once(' ').filter(|_| age < DOUBTS).map(|(_, address)| address.to_owned());
                    takes = age >= TAKES;
                    last.clear();
                }
                Err(why) if why != last => {
                    warn!("it is not known which broker leads: {why}");
                    last = why;
                }
                Err(_) => {}
            }
            if takes && let Some(won) = self.take(seen.as_ref().map(|(revision, _)| &**revision)) {
                return Some(won);
            }
            if told.as_ref() != Some(&leader) {
                if let Some(leader) = &leader {
                    info!(%leader, "this broker stands by");
                }
                if !report(Standing::StandsBy(leader.clone())) {
                    return None;
                }
                told = Some(leader);
            }
            self.rest(LOOK);
        }
        None
    }

    /// Takes the leader's key, if it still is as it was seen.
    fn take(&mut self, revision: Option<&str>) -> Option<(Tenure, Vec<u8>)> {
        // Nobody has written this before, not even this broker in an attempt that was not answered.
        let leader = format!("{:016x} {}", RandomState::new().hash_one(0), self.candidate.address).into_bytes();
        let key = &self.keys.leader;
        let condition = revision.map_or_else(|| has(key, None), |revision| is_of(key, revision));
        let begun = now();
        let outcome = self.client.transact(json!([condition]), json!([put(key, &leader)]), json!([]));
        let has_won = outcome.is_ok_and(|outcome| outcome.has_succeeded);
        has_won.then(|| (Tenure::until(begun + HOLDS), leader))
    }

    /// Leads as long as that is possible.
    fn lead(&mut self, tenure: &Tenure, leader: &[u8]) {
        info!("this broker leads");
        let mut wait = BEAT;
        loop {
            self.rest(wait);
            if self.has_to_end() || !tenure.holds() {
                break;
            }
            let (key, begun) = (&self.keys.leader, now());
            let outcome = self.client.transact(json!([has(key, Some(leader))]), json!([put(key, leader)]), json!([]));
            match outcome {
                Ok(outcome) if outcome.has_succeeded && tenure.extend(begun + HOLDS) => wait = BEAT,
                Ok(_) => break,
                Err(why) => {
                    warn!("this broker cannot say that it leads: {why}");
                    wait = PAUSE;
                }
            }
        }
        info!("this broker does not lead any more");
    }
}
