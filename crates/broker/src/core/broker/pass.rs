//! One look through the queue.
//!
//! Requests are looked at in their order; each gets what it wants if that is free. The first ones that do not get it are
//! planned for: it is reckoned when they can be met at the earliest and by which devices, and those are kept for them.
//! Others may have such devices for as long as they give them back in time. That is backfilling as by EASY (D. Lifka,
//! "The ANL/IBM SP Scheduling System", 1995), for several requests where they want different devices.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use fixedbitset::FixedBitSet;
use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::Tell;

use super::{Alarm, Broker};
use crate::core::leases::{Leases, Part};
use crate::core::outlook::{Ends, Hold, earliest};
use crate::core::placement::{choose_all, place};
use crate::core::pool::{DeviceIndex, Pool};
use crate::core::queue::{Queue, Slot, Visit, Visitor};
use crate::core::usage::{AccountIndex, Accounts, Score};
use crate::core::wants::{Known, WantIndex, Wants};

/// How long the next pass waits for each request of a long queue, so that passes take a small part of the time whatever
/// comes: each takes a tenth of that for a request, or less.
const EACH: Duration = Duration::from_nanos(2500);

/// A queue as long as this is looked through at every change.
const SHORT: usize = 256;

/// A request to which devices are lent in this pass.
#[derive(Debug)]
pub(super) struct Granting {
    request: u64,
    pub(super) lease: LeaseId,
    pub(super) parts: Vec<Part>,
    /// Whether it has devices that are kept for others, because it says how long it needs them.
    pub(super) has_passed: bool,
}

/// For a request that waits: when it will be its turn.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) request: u64,
    pub(super) hold: Hold,
}

/// Devices that are kept for users and groups for a time.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// Since the beginning of 1970.
    from: Duration,
    until: Duration,
    users: Vec<String>,
    groups: Vec<String>,
    devices: FixedBitSet,
}

/// Some holds, one bit each.
type Mask = u64;

struct Pass<'a> {
    now: Duration,
    queue: &'a Queue,
    pool: &'a mut Pool,
    wants: &'a mut Wants,
    accounts: &'a mut Accounts,
    leases: &'a Leases,
    latest: &'a mut LeaseId,
    granted: Vec<Granting>,
    /// What is kept for users and groups now or later, and then what is kept for requests.
    holds: Vec<Hold>,
    kept: Vec<&'a Kept>,
    plans: Vec<Plan>,
    /// How many more plans may be tried.
    tries: usize,
    /// When each device is free, once it was reckoned.
    ends: Option<Vec<Duration>>,
    /// The devices that have been lent since.
    lent: Vec<DeviceIndex>,
    ends_of_granted: HashMap<LeaseId, Duration>,
    /// For each user, the bits of what is kept for him or her, once it was asked for.
    own: HashMap<AccountIndex, Mask>,
    /// The devices of several holds.
    blocked: HashMap<Mask, FixedBitSet>,
    /// For each kind, those holds beside which nothing is free for it.
    dead: Vec<Vec<Mask>>,
    /// How many have been looked at that wait.
    waits: u32,
    /// How many go before those that do not know yet that they wait.
    before: Vec<(u64, u32)>,
    /// The earliest of those.
    first_untold: Option<u64>,
}

impl Visitor for Pass<'_> {
    fn score(&mut self, account: AccountIndex) -> Score {
        self.accounts.score(account, self.pool.totals(), self.now)
    }

    fn visit(&mut self, number: u64, account: AccountIndex, slot: Slot) -> Visit {
        // Who has as much as is allowed holds up nobody else.
        if self.accounts.has_room_for(account, slot.amount, self.now) {
            let mask = self.mask(account, slot.length);
            if !self.dead[slot.want.0 as usize].iter().any(|dead| dead & mask == *dead) {
                match self.try_to_place(account, slot, mask) {
                    Some(parts) if self.accounts.has_room_for(account, Part::sum(&parts), self.now) => {
                        self.lend(number, account, slot, parts);
                        return Visit::Granted;
                    }
                    Some(_) => {
                        self.wait(number);
                        return Visit::Waits;
                    }
                    None => self.dead[slot.want.0 as usize].push(mask),
                }
            }
            if self.plans.len() < self.accounts.rules().queue.planned && self.tries > 0 {
                self.plan(number, slot.want);
            }
        }
        self.wait(number);
        Visit::Waits
    }
}

impl Pass<'_> {
    fn wait(&mut self, number: u64) {
        if self.first_untold.is_some_and(|first| number >= first) && self.queue.is_untold(number) {
            self.before.push((number, self.waits));
        }
        self.waits += 1;
    }

    /// The holds that a request has to leave alone: those that begin before it has given the devices back.
    fn mask(&mut self, account: AccountIndex, length: Option<Duration>) -> Mask {
        let end = self.now + length.unwrap_or(self.accounts.rules().queue.assumed);
        let late = self.holds.iter().enumerate().filter(|(_, hold)| hold.at < end);
        let mask = late.fold(0, |mask, (bit, _)| mask | 1 << bit);
        if self.kept.is_empty() { mask } else { mask & !self.own(account) }
    }

    /// What is kept for a user.
    fn own(&mut self, account: AccountIndex) -> Mask {
        let (kept, accounts) = (&self.kept, &*self.accounts);
        *self.own.entry(account).or_insert_with(|| {
            let own = kept.iter().enumerate().filter(|(_, kept)| accounts.is_among(account, &kept.users, &kept.groups));
            own.fold(0, |mask, (bit, _)| mask | 1 << bit)
        })
    }

    /// Devices for a request, of what is kept for its user before others.
    fn try_to_place(&mut self, account: AccountIndex, slot: Slot, mask: Mask) -> Option<Vec<Part>> {
        let mine = if self.kept.is_empty() { 0 } else { self.own(account) };
        for bit in (0..self.kept.len()).filter(|bit| mine & (1 << bit) != 0) {
            let mut others = FixedBitSet::with_capacity(self.pool.places() as usize);
            others.insert_range(..);
            others.difference_with(&self.kept[bit].devices);
            let known = self.wants.look_at(slot.want, self.pool);
            if self.holds[bit].at <= self.now
                && let Some(parts) = place(self.pool, known, Some(&others))
                && !self.is_kept_for_requests(&parts, mask)
            {
                return Some(parts);
            }
        }
        let holds = &self.holds;
        let blocked = self.blocked.entry(mask).or_insert_with(|| union(holds, mask));
        let blocked = (mask != 0).then_some(&*blocked);
        place(self.pool, self.wants.look_at(slot.want, self.pool), blocked)
    }

    fn is_kept_for_requests(&self, parts: &[Part], mask: Mask) -> bool {
        let holds = self.holds.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0);
        let mut devices = holds.map(|(_, hold)| &hold.devices);
        devices.any(|devices| parts.iter().any(|part| devices.contains(part.device.0 as usize)))
    }

    /// Lends devices, so that nobody who is looked at later in this pass finds them free.
    fn lend(&mut self, request: u64, account: AccountIndex, slot: Slot, parts: Vec<Part>) {
        *self.latest = LeaseId(self.latest.0 + 1);
        for part in &parts {
            self.pool.lend(part.device, *self.latest, part.share, part.memory);
        }
        self.accounts.takes(account, Part::sum(&parts), self.now);
        let of_requests = &self.holds[self.kept.len()..];
        let is_held = |part: &Part| of_requests.iter().any(|hold| hold.devices.contains(part.device.0 as usize));
        let has_passed = slot.length.is_some() && parts.iter().any(is_held);
        self.lent.extend(parts.iter().map(|part| part.device));
        let length = slot.length.unwrap_or(self.accounts.rules().queue.assumed);
        self.ends_of_granted.insert(*self.latest, self.now + length);
        self.granted.push(Granting { request, lease: *self.latest, parts, has_passed });
    }

    /// Keeps devices for a request that cannot be met now.
    fn plan(&mut self, number: u64, want: WantIndex) {
        self.tries -= 1;
        let changed = std::mem::take(&mut self.lent);
        let all = if self.holds.is_empty() { 0 } else { Mask::MAX >> (64 - self.holds.len()) };
        let holds = &self.holds;
        let blocked = self.blocked.entry(all).or_insert_with(|| union(holds, all));
        let (assumed, now, leases) = (self.accounts.rules().queue.assumed, self.now, self.leases);
        let granted = &self.ends_of_granted;
        let end = |lease: LeaseId| match leases.get(lease) {
            Some(held) => held.ends(assumed, now),
            None => granted.get(&lease).copied().unwrap_or(now + assumed),
        };
        // The devices that were lent since the plan before are looked at anew.
        let whole = self.ends.take();
        let ends = Ends::new(self.pool, end, whole, &changed);
        let found = earliest(self.pool, self.wants.look_at(want, self.pool), Some(blocked), &ends);
        self.ends = Some(ends.into_whole());
        let Some((at, chosen)) = found else { return };
        let hold = Hold::new(at.max(self.now), &chosen);
        self.plans.push(Plan { request: number, hold: hold.clone() });
        self.holds.push(hold);
    }
}

/// The devices of several holds.
fn union(holds: &[Hold], mask: Mask) -> FixedBitSet {
    let mut union = FixedBitSet::new();
    for (_, hold) in holds.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0) {
        union.grow(hold.devices.len());
        union.union_with(&hold.devices);
    }
    union
}

impl Broker {
    /// Looks through the queue, and grants what can be granted.
    pub(super) fn pass(&mut self, now: Duration) {
        if self.kept_for != Some(self.pool.generation()) {
            self.keep_devices();
        }
        let Self { pool, wants, accounts, leases, queue, latest, kept, .. } = self;
        let aging = accounts.rules().queue.aging;
        let wall = accounts.wall(now);
        let kept: Vec<&Kept> = kept.iter().filter(|kept| kept.until > wall).collect();
        let holds = kept.iter().map(|kept| Hold { at: accounts.when(kept.from), devices: kept.devices.clone() });
        let changes = kept.iter().flat_map(|kept| [kept.from, kept.until]).filter(|at| *at > wall).min();
        let changes = changes.map(|at| accounts.when(at));
        let mut pass = Pass {
            now,
            queue,
            holds: holds.collect(),
            kept,
            tries: 2 * accounts.rules().queue.planned,
            dead: vec![Vec::new(); wants.len()],
            pool,
            wants,
            accounts,
            leases,
            latest,
            granted: Vec::new(),
            plans: Vec::new(),
            ends: None,
            lent: Vec::new(),
            ends_of_granted: HashMap::new(),
            own: HashMap::new(),
            blocked: HashMap::new(),
            waits: 0,
            before: Vec::new(),
            first_untold: queue.first_untold(),
        };
        queue.walk(aging, now, &mut pass);
        let Pass { granted, plans, before, .. } = pass;
        self.plans = plans;
        self.alarms.set(Alarm::Pass, [changes, self.queue.ages(aging, now)].into_iter().flatten().min());
        for granting in granted {
            if let Some(request) = self.take_out(granting.request) {
                self.grant(request, granting, now);
            }
        }
        self.tell_waiting(&before.into_iter().collect(), now);
        self.preempt(now);
        self.next_pass = now + EACH * self.queue.len().saturating_sub(SHORT).min(1 << 24) as u32;
    }

    /// Tells those that have come since the last time that they wait, or that they will not get anything now.
    fn tell_waiting(&mut self, before: &BTreeMap<u64, u32>, now: Duration) {
        let untold: BTreeSet<u64> = self.queue.tell();
        for number in untold {
            let Some(request) = self.queue.get(number) else { continue };
            let peer = request.peer;
            if request.until.is_some_and(|until| until <= now) {
                self.give_up(number, "not enough of what is wanted is free now");
            } else {
                let why = self.why_waits(number);
                let before = before.get(&number).copied().unwrap_or(0);
                self.say(peer, Tell::Waiting { before, why });
            }
        }
    }

    /// The devices that are kept for users and groups now or later.
    pub(super) fn kept_from_now(&self, now: Duration) -> impl Iterator<Item = &FixedBitSet> {
        let wall = self.accounts.wall(now);
        self.kept.iter().filter(move |kept| kept.until > wall).map(|kept| &kept.devices)
    }

    /// Chooses the devices that are kept for users and groups. Returns, for each reservation that cannot be kept, why.
    pub(super) fn keep_devices(&mut self) -> Vec<String> {
        self.kept_for = Some(self.pool.generation());
        let (mut kept, mut wrong): (Vec<Kept>, _) = (Vec::new(), Vec::new());
        for (name, reservation) in &self.accounts.rules().reservations {
            let known = Known::of(&reservation.want, &self.pool);
            let overlap = |other: &&Kept| other.from < reservation.until && reservation.from < other.until;
            let is_open = |place: &usize| !kept.iter().filter(overlap).any(|other| other.devices.contains(*place));
            let usable = known.usable.iter();
            let usable = usable.map(|set| set.ones().filter(is_open).map(|place| DeviceIndex(place as u32)).collect());
            // Those that are connected, and those that nobody has, before others.
            let later = |device: DeviceIndex| {
                (!self.pool.is_online(device), std::cmp::Reverse(self.pool.device(device).free), device)
            };
            match choose_all(&self.pool, &reservation.want.groups, usable.collect(), &later) {
                Some(chosen) => kept.push(Kept {
                    from: reservation.from,
                    until: reservation.until,
                    users: reservation.users.clone(),
                    groups: reservation.groups.clone(),
                    devices: Hold::new(Duration::ZERO, &chosen).devices,
                }),
                None => wrong.push(format!(
                    "the devices of reservation '{name}' are not there, or are kept for others: {}",
                    reservation.want
                )),
            }
        }
        self.kept = kept;
        wrong
    }
}
