//! What the operator of a pool decides: who goes first, how much each may have, what is kept for whom.

mod file;

use std::collections::BTreeMap;
use std::time::Duration;

use ropeway_lease::want::Want;

/// The rules of a pool, from `pool.toml`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rules {
    /// How requests wait.
    pub queue: QueueRules,
    /// The limits of each user who has no rules of his or her own.
    pub default: Limits,
    /// Users, by name.
    pub users: BTreeMap<String, Limits>,
    /// Groups of users, by name.
    pub groups: BTreeMap<String, Group>,
    /// Devices that are kept, by the reservation's name.
    pub reservations: BTreeMap<String, Reservation>,
}

/// How requests wait.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueRules {
    /// After this time, what a user has used counts half.
    pub half_life: Duration,
    /// A lease counts as though it had lasted so long already when it begins: of users who have used as much, each gets
    /// some in turn.
    pub ahead: Duration,
    /// A request that has waited so long goes before all others.
    pub aging: Duration,
    /// How long a lease is taken to last whose request does not say it.
    pub assumed: Duration,
    /// For how many requests devices are kept in time.
    pub planned: usize,
    /// By how much a request's priority has to be higher than that of a lease for it to be ended; `None`: never.
    pub preempt: Option<i32>,
    /// The time between the notice and the end.
    pub grace: Duration,
}

impl Default for QueueRules {
    fn default() -> Self {
        Self {
            half_life: Duration::from_secs(24 * 3600),
            ahead: Duration::from_secs(600),
            aging: Duration::from_secs(24 * 3600),
            assumed: Duration::from_secs(24 * 3600),
            planned: 8,
            preempt: None,
            grace: Duration::from_secs(30),
        }
    }
}

/// What a user or a group may have.
#[derive(Clone, PartialEq, Debug)]
pub struct Limits {
    /// Who has twice the weight of another gets twice as much where both want more than there is.
    pub weight: f64,
    /// Most devices at one time, in thousandths.
    pub devices: Option<u64>,
    /// Most bytes of devices' memory at one time.
    pub memory: Option<u64>,
    /// Most hours of a device in seven days.
    pub device_hours: Option<f64>,
    /// Most requests that wait.
    pub waiting: Option<u32>,
    /// Highest priority of a request.
    pub priority: Option<i32>,
    /// Whether leases may be ended for requests of higher priority.
    pub preemptible: bool,
}

impl Default for Limits {
    fn default() -> Self {
        let (devices, memory, device_hours) = (None, None, None);
        Self { weight: 1.0, devices, memory, device_hours, waiting: None, priority: None, preemptible: true }
    }
}

/// Some users.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Group {
    /// Their names.
    pub members: Vec<String>,
    /// What all of them together may have.
    pub limits: Limits,
}

/// Devices that are kept for somebody.
#[derive(Clone, PartialEq, Debug)]
pub struct Reservation {
    /// Which devices.
    pub want: Want,
    /// For which users.
    pub users: Vec<String>,
    /// For which groups.
    pub groups: Vec<String>,
    /// From when on, since the beginning of 1970.
    pub from: Duration,
    /// Until when.
    pub until: Duration,
}

impl Rules {
    /// What a user may have.
    pub fn user(&self, name: &str) -> &Limits {
        self.users.get(name).unwrap_or(&self.default)
    }

    /// The group of a user.
    pub fn group_of(&self, user: &str) -> Option<&str> {
        let is_in = |group: &Group| group.members.iter().any(|member| member == user);
        self.groups.iter().find(|(_, group)| is_in(group)).map(|(name, _)| name.as_str())
    }
}
