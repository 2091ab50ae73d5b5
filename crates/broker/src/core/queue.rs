//! Requests that wait, and who of them goes first.
//!
//! First those that have waited longest, once they have waited too long; then by priority; among requests of one
//! priority whoever has used least, and of one user's the earlier.

use std::cmp::Reverse;
use std::collections::btree_map::Iter;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use ropeway_lease::messages::LeaseAsk;

use super::alarms::Alarms;
use super::peer::Peer;
use super::usage::{AccountIndex, Amount, Score};
use super::wants::WantIndex;

/// A request that waits.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its number: earlier ones are smaller.
    pub number: u64,
    /// Whose it is.
    pub account: AccountIndex,
    /// The program that waits.
    pub program: String,
    /// The connection on which it waits.
    pub peer: Peer,
    /// What was asked. The devices that are wanted are said once for all requests of a kind: [`Slot::want`].
    pub ask: LeaseAsk,
    /// When it came.
    pub since: Duration,
    /// When it is given up.
    pub until: Option<Duration>,
    /// What the queue has to know of it.
    pub slot: Slot,
}

/// What is looked at of a request in every pass.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// What is wanted.
    pub want: WantIndex,
    /// How long the devices are needed, as far as is known.
    pub length: Option<Duration>,
    /// How much is wanted at least: of memory, where a request does not say how much, nothing is known before.
    pub amount: Amount,
}

/// All requests that wait.
#[derive(Default, Debug)]
pub struct Queue {
    requests: BTreeMap<u64, Request>,
    /// Of each priority, the highest first, each user's requests, the earliest first.
    levels: BTreeMap<Reverse<i32>, BTreeMap<AccountIndex, BTreeMap<u64, Slot>>>,
    /// Those whose clients do not know yet that they wait.
    untold: BTreeSet<u64>,
    /// When requests are given up.
    alarms: Alarms<u64>,
    next: u64,
}

/// Who is asked, one after the other, what becomes of each request.
pub trait Visitor {
    /// A user's place among those of one priority.
    fn score(&mut self, account: AccountIndex) -> Score;

    /// What becomes of a request.
    fn visit(&mut self, number: u64, account: AccountIndex, slot: Slot) -> Visit;
}

/// What has become of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// It has what it wants.
    Granted,
    /// It waits.
    Waits,
    /// No more are to be looked at.
    Enough,
}

impl Queue {
    /// Puts a request in its place; returns its number.
    pub fn add(&mut self, make: impl FnOnce(u64) -> Request) -> u64 {
        self.next += 1;
        let request = make(self.next);
        let level = self.levels.entry(Reverse(request.ask.priority)).or_default();
        level.entry(request.account).or_default().insert(self.next, request.slot);
        self.untold.insert(self.next);
        self.requests.insert(self.next, request);
        self.next
    }

    /// Takes a request out.
    pub fn remove(&mut self, number: u64) -> Option<Request> {
        let request = self.requests.remove(&number)?;
        let priority = Reverse(request.ask.priority);
        if let Some(level) = self.levels.get_mut(&priority) {
            if let Some(mine) = level.get_mut(&request.account) {
                mine.remove(&number);
                if mine.is_empty() {
                    level.remove(&request.account);
                }
            }
            if level.is_empty() {
                self.levels.remove(&priority);
            }
        }
        self.untold.remove(&number);
        self.alarms.set(number, None);
        Some(request)
    }

    /// A request, if it waits.
    pub fn get(&self, number: u64) -> Option<&Request> {
        self.requests.get(&number)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether a request's client does not know yet that it waits.
    pub fn is_untold(&self, number: u64) -> bool {
        self.untold.contains(&number)
    }

    /// The earliest of those.
    pub fn first_untold(&self) -> Option<u64> {
        self.untold.first().copied()
    }

    /// Those that do not know yet that they wait, who know it from now on.
    pub fn tell(&mut self) -> BTreeSet<u64> {
        let untold = std::mem::take(&mut self.untold);
        for number in &untold {
            let until = self.requests.get(number).and_then(|request| request.until);
            self.alarms.set(*number, until);
        }
        untold
    }

    /// The next time at which a request is given up.
    pub fn deadline(&self) -> Option<Duration> {
        self.alarms.next()
    }

    /// The number of one whose time is over.
    pub fn expired(&mut self, now: Duration) -> Option<u64> {
        self.alarms.due(now)
    }

    /// When the next request has waited for `aging`, if that is later than now.
    pub fn ages(&self, aging: Duration, now: Duration) -> Option<Duration> {
        self.requests.values().map(|request| request.since + aging).find(|at| *at > now)
    }

    /// Has all requests visited, in the order in which they go.
    pub fn walk(&self, aging: Duration, now: Duration, visitor: &mut impl Visitor) {
        let is_old = |request: &&Request| request.since + aging <= now;
        let old = self.requests.values().take_while(is_old);
        let mut latest_old = 0;
        for request in old {
            latest_old = request.number;
            if visitor.visit(request.number, request.account, request.slot) == Visit::Enough {
                return;
            }
        }
        for level in self.levels.values() {
            if !walk_level(level, latest_old, visitor) {
                return;
            }
        }
    }
}

/// Has the requests of one priority visited; returns whether more are to be looked at.
fn walk_level(
    level: &BTreeMap<AccountIndex, BTreeMap<u64, Slot>>,
    latest_old: u64,
    visitor: &mut impl Visitor,
) -> bool {
    let mut waiting: Vec<Option<Iter<'_, u64, Slot>>> = Vec::with_capacity(level.len());
    // Of several with one score, whose first request is the earliest.
    let mut order: BinaryHeap<Reverse<(Score, u64, AccountIndex, usize)>> = BinaryHeap::with_capacity(level.len());
    for (account, mine) in level {
        if let Some((first, _)) = mine.range(latest_old + 1..).next() {
            order.push(Reverse((visitor.score(*account), *first, *account, waiting.len())));
            waiting.push(Some(mine.iter()));
        }
    }
    while let Some(Reverse((score, first, account, place))) = order.pop() {
        let current = visitor.score(account);
        if current > score {
            order.push(Reverse((current, first, account, place)));
            continue;
        }
        let Some(mut mine) = waiting[place].take() else { continue };
        while let Some((number, slot)) = mine.next() {
            if *number <= latest_old {
                continue;
            }
            match visitor.visit(*number, account, *slot) {
                Visit::Waits => {}
                Visit::Enough => return false,
                Visit::Granted => {
                    if let Some((first, _)) = mine.clone().next() {
                        order.push(Reverse((visitor.score(account), *first, account, place)));
                        waiting[place] = Some(mine);
                    }
                    break;
                }
            }
        }
    }
    true
}
