//! Requests that wait.

use std::collections::BTreeMap;
use std::time::Duration;

use ropeway_lease::messages::LeaseAsk;

use super::peer::Peer;

/// A request that waits.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its number: earlier ones are smaller.
    pub number: u64,
    /// Whose it is.
    pub user: String,
    /// The program that waits.
    pub program: String,
    /// The connection on which it waits.
    pub peer: Peer,
    /// What is wanted.
    pub ask: LeaseAsk,
    /// When it came.
    pub since: Duration,
    /// Whether its client knows that it waits.
    pub told: bool,
    /// When it is given up.
    pub until: Option<Duration>,
}

/// All requests that wait, the next one first.
#[derive(Default, Debug)]
pub struct Queue {
    /// By what decides who goes first: the more important, then the earlier.
    waiting: BTreeMap<(std::cmp::Reverse<i32>, u64), Request>,
    next: u64,
}

impl Queue {
    /// Puts a request in its place; returns its number and how many are before it.
    pub fn add(&mut self, make: impl FnOnce(u64) -> Request) -> (u64, u32) {
        self.next += 1;
        let request = make(self.next);
        let place = (std::cmp::Reverse(request.ask.priority), self.next);
        let before = self.waiting.range(..place).count() as u32;
        self.waiting.insert(place, request);
        (self.next, before)
    }

    /// Takes a request out.
    pub fn remove(&mut self, number: u64) -> Option<Request> {
        let place = self.waiting.iter().find(|(_, request)| request.number == number).map(|(place, _)| *place)?;
        self.waiting.remove(&place)
    }

    /// The requests in the order in which they are looked at.
    pub fn in_order(&self) -> impl Iterator<Item = &Request> {
        self.waiting.values()
    }

    /// Those that do not know yet that they wait, who know it from now on: how many are before each, its connection, its
    /// number, and when it is given up.
    pub fn untold(&mut self) -> Vec<(u32, Peer, u64, Option<Duration>)> {
        let all = (0..).zip(self.waiting.values_mut());
        let untold = all.filter_map(|(before, request)| {
            let was_told = std::mem::replace(&mut request.told, true);
            (!was_told).then_some((before, request.peer, request.number, request.until))
        });
        untold.collect()
    }

    /// The next time at which a request is given up.
    pub fn deadline(&self) -> Option<Duration> {
        self.waiting.values().filter_map(|request| request.until).min()
    }

    /// The numbers of those whose time is over.
    pub fn expired(&self, now: Duration) -> Vec<u64> {
        let over = |request: &&Request| request.until.is_some_and(|until| until <= now);
        self.waiting.values().filter(over).map(|request| request.number).collect()
    }
}
