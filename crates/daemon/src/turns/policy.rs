//! Whose turn it is on one device: start-time fair queueing over measured time.
//!
//! Each session has a virtual time: the time for which it has had the device, divided by its weight. Whoever wants the
//! device and has the least gets the next turn. A turn lasts a quantum and then until what was begun has ended; all of it
//! counts. Who has been idle begins with the virtual time of those that are served, so that nobody saves up. A session
//! that is alone has the device without turns, and pays nothing for that: it keeps the device, also while it is idle,
//! until somebody else wants it, and nothing is said meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a turn lasts, before what was begun in it has ended.
pub(super) const QUANTUM: Duration = Duration::from_millis(4);

/// How long a session that has been told to give back the device keeps the others from it. Longer kernels go on beside
/// theirs, and so does a session that does not answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The least that a turn counts, as each keeps the device from others for a moment.
const LEAST: Duration = Duration::from_micros(200);

/// The most that a turn counts.
const MOST: Duration = Duration::from_secs(10);

/// What is told to a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// The device is its alone, until further notice.
    Open,
    /// It may use the device for a quantum, and says when it has.
    Turn,
    /// It is to give back the device, and says when it has.
    Hold,
}

/// How a session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// It wants nothing.
    Idle,
    /// It waits for its turn.
    Waiting,
    /// It has the device alone.
    Open,
    /// It has had a turn, or been told to give back the device, at the first time, and is overdue after the second.
    Turn(Instant, Instant),
    /// Others have turns although it has not given back the device that it got then.
    Overdue(Instant),
}

/// A session on the device.
#[derive(Debug)]
struct Entry<G> {
    weight: u32,
    /// All sessions of a group have one weight together.
    group: G,
    /// In nanoseconds for a weight of one, times [`SCALE`].
    virtual_time: u128,
    standing: Standing,
}

/// So that nothing is lost by division.
const SCALE: u128 = 1 << 20;

/// The sessions on one device, and whose turn it is.
#[derive(Debug)]
pub(super) struct Device<G> {
    entries: BTreeMap<u64, Entry<G>>,
    /// Who has the device.
    current: Option<u64>,
    /// The virtual time of who was served last.
    now: u128,
}

impl<G: PartialEq + Clone> Device<G> {
    /// One that nobody uses.
    pub(super) fn new() -> Self {
        Self { entries: BTreeMap::new(), current: None, now: 0 }
    }

    /// A session wants the device.
    pub(super) fn wants(&mut self, session: u64, (weight, group): (u32, &G), now: Instant) -> Vec<(u64, Order)> {
        let entry = self.entries.entry(session).or_insert_with(|| Entry {
            weight: weight.max(1),
            group: group.clone(),
            virtual_time: 0,
            standing: Standing::Idle,
        });
        if entry.standing != Standing::Idle {
            return Vec::new();
        }
        entry.standing = Standing::Waiting;
        entry.virtual_time = entry.virtual_time.max(self.now);
        self.go_on(now)
    }

    /// A session has given back the device, and wants `more` or not.
    pub(super) fn yields(&mut self, session: u64, more: bool, now: Instant) -> Vec<(u64, Order)> {
        match self.entries.get(&session).map(|entry| entry.standing) {
            Some(Standing::Turn(since, _) | Standing::Overdue(since)) => {
                self.charge(session, now.saturating_duration_since(since));
            }
            Some(Standing::Open) => {}
            Some(Standing::Idle | Standing::Waiting) | None => return Vec::new(),
        }
        let served = self.now;
        if let Some(entry) = self.entries.get_mut(&session) {
            // Who was overdue has saved nothing while others were served.
            if let Standing::Overdue(_) = entry.standing {
                entry.virtual_time = entry.virtual_time.max(served);
            }
            entry.standing = if more { Standing::Waiting } else { Standing::Idle };
        }
        self.current = self.current.filter(|current| *current != session);
        self.go_on(now)
    }

    /// A session is over.
    pub(super) fn gone(&mut self, session: u64, now: Instant) -> Vec<(u64, Order)> {
        self.entries.remove(&session);
        self.current = self.current.filter(|current| *current != session);
        self.go_on(now)
    }

    /// When [`Device::expire`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.entries.get(&self.current?)?.standing {
            Standing::Turn(_, overdue) => Some(overdue),
            _ => None,
        }
    }

    /// Passes on the device where it has not been given back in time.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<(u64, Order)> {
        let current = self.current.and_then(|current| self.entries.get_mut(&current));
        let Some(Entry { standing, .. }) = current else { return Vec::new() };
        match *standing {
            Standing::Turn(since, overdue) if now >= overdue => *standing = Standing::Overdue(since),
            _ => return Vec::new(),
        }
        self.current = None;
        self.go_on(now)
    }

    fn charge(&mut self, session: u64, time: Duration) {
        let Some((group, weight)) = self.entries.get(&session).map(|entry| (entry.group.clone(), entry.weight)) else {
            return;
        };
        let wants = |entry: &&Entry<G>| entry.group == group && entry.standing != Standing::Idle;
        let together = self.entries.values().filter(wants).count().max(1);
        let time = time.clamp(LEAST, MOST).as_nanos() * SCALE * together as u128 / u128::from(weight);
        if let Some(entry) = self.entries.get_mut(&session) {
            entry.virtual_time += time;
        }
    }

    /// Gives the device to who is next, if it is free; otherwise tells who has it alone that others want it, too.
    fn go_on(&mut self, now: Instant) -> Vec<(u64, Order)> {
        let waiting = self.entries.iter().filter(|(_, entry)| entry.standing == Standing::Waiting);
        let next = waiting.min_by_key(|(session, entry)| (entry.virtual_time, **session)).map(|(session, _)| *session);
        let Some(next) = next else { return Vec::new() };
        if let Some(current) = self.current {
            let Some(Entry { standing, .. }) = self.entries.get_mut(&current) else { return Vec::new() };
            if *standing != Standing::Open {
                return Vec::new();
            }
            *standing = Standing::Turn(now, now + PATIENCE);
            return vec![(current, Order::Hold)];
        }
        let others =
            self.entries.iter().filter(|(session, entry)| **session != next && entry.standing != Standing::Idle);
        let is_alone = others.count() == 0;
        let Some(entry) = self.entries.get_mut(&next) else { return Vec::new() };
        self.current = Some(next);
        self.now = self.now.max(entry.virtual_time);
        entry.standing = if is_alone { Standing::Open } else { Standing::Turn(now, now + QUANTUM + PATIENCE) };
        vec![(next, if is_alone { Order::Open } else { Order::Turn })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A device, and sessions that always want more than they have.
    struct Simulation {
        device: Device<u64>,
        now: Instant,
        /// Who has a turn.
        turn: Option<u64>,
        /// The time for which each session has had the device.
        had: BTreeMap<u64, Duration>,
        /// The order of the turns.
        turns: Vec<u64>,
    }

    impl Simulation {
        fn new() -> Self {
            let (had, turns) = Default::default();
            Self { device: Device::new(), now: Instant::now(), turn: None, had, turns }
        }

        /// Takes in what sessions are told; whoever is to hold has nothing under way.
        fn follow(&mut self, orders: Vec<(u64, Order)>) {
            for (session, order) in orders {
                if order == Order::Hold {
                    let more = self.device.yields(session, true, self.now);
                    self.follow(more);
                } else {
                    self.turn = Some(session);
                    self.turns.push(session);
                }
            }
        }

        fn wants(&mut self, session: u64, weight: u32, group: u64) {
            let orders = self.device.wants(session, (weight, &group), self.now);
            self.follow(orders);
        }

        /// The turn takes so long, after which its session wants `more`.
        fn take(&mut self, time: Duration, more: bool) {
            let session = self.turn.take().expect("somebody has a turn");
            self.now += time;
            *self.had.entry(session).or_default() += time;
            let orders = self.device.yields(session, more, self.now);
            self.follow(orders);
        }

        /// How much of the time each has had since `before`, in percent.
        fn shares(&self, before: &BTreeMap<u64, Duration>) -> Vec<u128> {
            let since = |(session, had): (&u64, &Duration)| *had - before.get(session).copied().unwrap_or_default();
            let had: Vec<_> = self.had.iter().map(since).collect();
            let all: Duration = had.iter().sum();
            had.iter().map(|had| (had.as_nanos() * 1000 / all.as_nanos() + 5) / 10).collect()
        }
    }

    #[test]
    fn turns_are_by_weight() {
        let mut simulation = Simulation::new();
        [(1, 1), (2, 2), (3, 4)].into_iter().for_each(|(session, weight)| simulation.wants(session, weight, session));
        simulation.turns.clear();
        (0..14).for_each(|_| simulation.take(QUANTUM, true));
        let of = |session: u64| simulation.turns.iter().filter(|turn| **turn == session).count();
        assert_eq!([1, 2, 3].map(of), [2, 4, 8], "{:?}", simulation.turns);
    }

    #[test]
    fn time_is_shared_by_weight_whatever_the_length_of_the_kernels() {
        let mut simulation = Simulation::new();
        let weights = [(1, 1, 9), (2, 2, 30), (3, 4, 0)];
        weights.into_iter().for_each(|(session, weight, _)| simulation.wants(session, weight, session));
        let before = simulation.had.clone();
        for _ in 0..10_000 {
            // What was begun in a turn ends so much later.
            let later = weights[simulation.turn.unwrap() as usize - 1].2;
            simulation.take(QUANTUM + later * MS, true);
        }
        assert_eq!(simulation.shares(&before), [14, 29, 57]);
    }

    #[test]
    fn who_was_idle_has_saved_nothing() {
        let mut simulation = Simulation::new();
        simulation.wants(1, 1, 1);
        simulation.take(10_000 * MS, true);
        simulation.wants(2, 1, 2);
        let before = simulation.had.clone();
        (0..1000).for_each(|_| simulation.take(QUANTUM, true));
        assert_eq!(simulation.shares(&before)[1], 50);
    }

    #[test]
    fn who_was_alone_has_nothing_to_pay_for() {
        for (weight, of_other) in [(1, 50), (3, 25)] {
            let mut simulation = Simulation::new();
            simulation.wants(1, weight, 1);
            // It may have been at work all the time, or not.
            simulation.now += 10_000 * MS;
            simulation.wants(2, 1, 2);
            let before = simulation.had.clone();
            (0..1000).for_each(|_| simulation.take(QUANTUM, true));
            assert_eq!(simulation.shares(&before).last(), Some(&of_other));
        }
    }

    #[test]
    fn turns_of_no_length_count_too() {
        let mut simulation = Simulation::new();
        [1, 2].into_iter().for_each(|session| simulation.wants(session, 1, session));
        simulation.turns.clear();
        for _ in 0..2100 {
            let time = if simulation.turn == Some(1) { Duration::ZERO } else { QUANTUM };
            simulation.take(time, true);
        }
        let of = |session: u64| simulation.turns.iter().filter(|turn| **turn == session).count();
        assert_eq!([1, 2].map(of), [2000, 100]);
    }

    #[test]
    fn who_is_alone_has_no_turns() {
        let mut device = Device::new();
        let now = Instant::now();
        assert_eq!(device.wants(1, (1, &1), now), [(1, Order::Open)]);
        assert_eq!(device.deadline(), None);
        assert_eq!(device.wants(2, (1, &2), now), [(1, Order::Hold)]);
        assert_eq!(device.wants(3, (1, &3), now), [], "it is told once");
        assert_eq!(device.yields(1, true, now), [(2, Order::Turn)]);
        assert_eq!(device.yields(2, false, now), [(3, Order::Turn)]);
        assert_eq!(device.yields(3, false, now), [(1, Order::Open)], "and again");
        assert_eq!(device.yields(1, false, now), []);
        assert_eq!(device.wants(3, (1, &3), now), [(3, Order::Open)]);
    }

    #[test]
    fn sessions_of_one_client_have_its_weight_together() {
        let mut simulation = Simulation::new();
        [(1, 7), (2, 7), (3, 7), (4, 8)].into_iter().for_each(|(session, of)| simulation.wants(session, 1, of));
        let before = simulation.had.clone();
        (0..6000).for_each(|_| simulation.take(QUANTUM, true));
        assert_eq!(simulation.shares(&before), [17, 17, 17, 50]);
    }

    #[test]
    fn who_does_not_give_back_the_device_loses_it_and_pays_for_it() {
        let mut device = Device::new();
        let mut now = Instant::now();
        device.wants(1, (1, &1), now);
        device.wants(2, (1, &2), now);
        let due = device.deadline().unwrap();
        assert_eq!((due - now, device.expire(due - MS)), (PATIENCE, vec![]));
        now = due;
        assert_eq!(device.expire(now), [(2, Order::Turn)], "never alone while the other may be at work");
        now += QUANTUM;
        assert_eq!(device.yields(2, true, now), [(2, Order::Turn)], "nobody else waits");
        assert_eq!(device.yields(1, true, now), []);
        for _ in 0..200 {
            now += QUANTUM;
            assert_eq!(device.yields(2, true, now), [(2, Order::Turn)], "until it has had as much");
        }
        assert_eq!(device.gone(2, now), [(1, Order::Open)]);
    }

    #[test]
    fn who_comes_back_after_it_was_overdue_keeps_nobody_from_the_device() {
        let mut simulation = Simulation::new();
        let now = simulation.now;
        simulation.device.wants(1, (100, &1), now);
        simulation.device.wants(2, (1, &2), now);
        let orders = simulation.device.expire(now + PATIENCE);
        simulation.follow(orders);
        simulation.now += PATIENCE;
        (0..1000).for_each(|_| simulation.take(QUANTUM, true));
        simulation.turn = None;
        simulation.device.gone(2, simulation.now);
        let orders = simulation.device.yields(1, true, simulation.now);
        simulation.follow(orders);
        simulation.wants(3, 2, 3);
        simulation.turns.clear();
        (0..510).for_each(|_| simulation.take(QUANTUM, true));
        let turns = simulation.turns.iter().filter(|turn| **turn == 3).count();
        assert!((9..=11).contains(&turns), "2 parts in 102 of 510 turns, not {turns}");
    }

    #[test]
    fn what_a_session_says_out_of_turn_changes_nothing() {
        let mut device = Device::new();
        let now = Instant::now();
        assert_eq!(device.yields(1, true, now), [], "it is not known");
        device.wants(1, (1, &1), now);
        device.wants(2, (1, &2), now);
        for _ in 0..3 {
            assert_eq!((device.yields(2, false, now), device.wants(2, (9, &2), now)), (vec![], vec![]));
        }
        assert_eq!(device.yields(1, false, now), [(2, Order::Open)]);
        assert_eq!(device.gone(1, now), []);
    }
}
