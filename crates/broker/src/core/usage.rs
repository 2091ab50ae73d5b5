//! What users and groups have used, have, and may have.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ropeway_lease::grant::WHOLE;
use serde::{Deserialize, Serialize};

use super::pool::Totals;
use super::rules::{Limits, Rules};

/// The bytes of a gigabyte, in which memory is reckoned here.
const GIGABYTE: f64 = (1u64 << 30) as f64;

const DAY: u64 = 24 * 3600;

/// How many days a week's quota looks back, today among them.
const WEEK: u64 = 7;

/// How often, at most, it is written down what a user has used.
const PAUSE: Duration = Duration::from_secs(1);

/// The place of a user or a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AccountIndex(pub u32);

/// What is written down of what a user has used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UsageRecord {
    /// The user.
    pub user: String,
    /// When that was, in seconds since the beginning of 1970.
    pub at: u64,
    /// Seconds of a whole device, of which those of long ago count less.
    pub device_seconds: f64,
    /// Seconds of a gigabyte of devices' memory, in the same way.
    pub memory_seconds: f64,
    /// Seconds of a whole device on each of the last days, by their numbers since the beginning of 1970.
    pub days: BTreeMap<u64, f64>,
}

/// What somebody has at one time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Amount {
    /// Devices, in thousandths.
    pub devices: u64,
    /// Bytes of their memory.
    pub memory: u64,
}

/// Who goes first among requests of one priority: who has the smaller one.
#[derive(Clone, Copy, Default, Debug)]
pub struct Score {
    group: f64,
    user: f64,
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.group.total_cmp(&other.group).then(self.user.total_cmp(&other.user))
    }
}

#[derive(Debug)]
struct Account {
    name: String,
    /// A user's group.
    group: Option<AccountIndex>,
    limits: Limits,
    device_seconds: f64,
    memory_seconds: f64,
    days: BTreeMap<u64, f64>,
    /// When that was.
    at: Duration,
    has: Amount,
    waiting: u32,
    /// When it was last written down.
    written: Duration,
    /// Whether it has changed since.
    is_new: bool,
}

/// All users and groups.
#[derive(Debug)]
pub struct Accounts {
    all: Vec<Account>,
    users: HashMap<String, AccountIndex>,
    groups: HashMap<String, AccountIndex>,
    rules: Rules,
    /// The time since the beginning of 1970 at the broker's start.
    epoch: Duration,
}

impl Accounts {
    /// Nobody has used anything.
    pub fn new(rules: Rules) -> Self {
        let (users, groups) = (HashMap::new(), HashMap::new());
        Self { all: Vec::new(), users, groups, rules, epoch: Duration::ZERO }
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Takes in other rules.
    pub fn set_rules(&mut self, rules: Rules, now: Duration) {
        self.rules = rules;
        let mut users: Vec<_> = self.users.values().copied().collect();
        users.sort_unstable();
        for user in &users {
            self.advance(*user, now);
        }
        // Groups are what their users are.
        for (name, index) in self.groups.clone() {
            let limits = self.rules.groups.get(&name).map(|group| group.limits.clone()).unwrap_or_default();
            *self.account_mut(index) = Account::new(&name, limits, None, now);
        }
        for user in users {
            let account = self.account(user);
            let (name, has, waiting, seconds) =
                (account.name.clone(), account.has, account.waiting, (account.device_seconds, account.memory_seconds));
            let days = account.days.clone();
            let group = self.rules.group_of(&name).map(str::to_owned).map(|group| self.group(&group, now));
            let limits = self.rules.user(&name).clone();
            let account = self.account_mut(user);
            (account.group, account.limits) = (group, limits);
            if let Some(group) = group {
                let group = self.account_mut(group);
                group.device_seconds += seconds.0;
                group.memory_seconds += seconds.1;
                days.into_iter().for_each(|(day, seconds)| *group.days.entry(day).or_default() += seconds);
                group.has.devices += has.devices;
                group.has.memory += has.memory;
                group.waiting += waiting;
            }
        }
    }

    /// Says what the time is, since the beginning of 1970.
    pub fn set_clock(&mut self, now: Duration, wall: Duration) {
        self.epoch = wall.saturating_sub(now);
    }

    /// The time since the beginning of 1970.
    pub fn wall(&self, now: Duration) -> Duration {
        self.epoch + now
    }

    /// When a moment since the beginning of 1970 is; those before the broker's start are its start.
    pub fn when(&self, wall: Duration) -> Duration {
        wall.saturating_sub(self.epoch)
    }

    /// The place of a user.
    pub fn user(&mut self, name: &str, now: Duration) -> AccountIndex {
        if let Some(user) = self.users.get(name) {
            return *user;
        }
        let group = self.rules.group_of(name).map(str::to_owned).map(|group| self.group(&group, now));
        let limits = self.rules.user(name).clone();
        let user = self.add(name, limits, group, now);
        self.users.insert(name.to_owned(), user);
        user
    }

    fn group(&mut self, name: &str, now: Duration) -> AccountIndex {
        if let Some(group) = self.groups.get(name) {
            return *group;
        }
        let limits = self.rules.groups.get(name).map(|group| group.limits.clone()).unwrap_or_default();
        let group = self.add(name, limits, None, now);
        self.groups.insert(name.to_owned(), group);
        group
    }

    fn add(&mut self, name: &str, limits: Limits, group: Option<AccountIndex>, now: Duration) -> AccountIndex {
        self.all.push(Account::new(name, limits, group, now));
        AccountIndex(self.all.len() as u32 - 1)
    }

    fn account(&self, index: AccountIndex) -> &Account {
        &self.all[index.0 as usize]
    }

    fn account_mut(&mut self, index: AccountIndex) -> &mut Account {
        &mut self.all[index.0 as usize]
    }

    /// A user's name.
    pub fn name(&self, user: AccountIndex) -> &str {
        &self.account(user).name
    }

    /// Whether a user is one of these, or in one of these groups.
    pub fn is_among(&self, user: AccountIndex, users: &[String], groups: &[String]) -> bool {
        let account = self.account(user);
        users.contains(&account.name) || account.group.is_some_and(|group| groups.contains(&self.account(group).name))
    }

    /// Whether the leases of a user may be ended for others.
    pub fn is_preemptible(&self, user: AccountIndex) -> bool {
        let account = self.account(user);
        account.limits.preemptible && account.group.is_none_or(|group| self.account(group).limits.preemptible)
    }

    /// Takes in what was written down of a user before the broker's start.
    pub fn restore(&mut self, record: UsageRecord, now: Duration) {
        let away = self.wall(now).saturating_sub(Duration::from_secs(record.at));
        let left = self.left_after(away);
        let user = self.user(&record.user, now);
        for index in [Some(user), self.account(user).group].into_iter().flatten() {
            let account = self.account_mut(index);
            account.device_seconds += sane(record.device_seconds) * left;
            account.memory_seconds += sane(record.memory_seconds) * left;
            record.days.iter().for_each(|(day, used)| *account.days.entry(*day).or_default() += sane(*used));
        }
    }

    /// What is left after a time of what was used before it.
    fn left_after(&self, time: Duration) -> f64 {
        (-time.as_secs_f64() / self.rules.queue.half_life.as_secs_f64()).exp2()
    }

    /// Reckons in what an account has had since the last time.
    fn advance(&mut self, index: AccountIndex, now: Duration) {
        let account = self.account(index);
        let time = now.saturating_sub(account.at);
        if time.is_zero() {
            return;
        }
        let left = self.left_after(time);
        let half_life = self.rules.queue.half_life.as_secs_f64();
        // What is had all the time decays from the moment on at which it was had.
        let had = (1.0 - left) * half_life / std::f64::consts::LN_2;
        let today = self.wall(now).as_secs() / DAY;
        let account = self.account_mut(index);
        let (devices, memory) = (account.devices(), account.memory());
        account.device_seconds = account.device_seconds * left + devices * had;
        account.memory_seconds = account.memory_seconds * left + memory * had;
        if devices > 0.0 {
            *account.days.entry(today).or_default() += devices * time.as_secs_f64();
            account.is_new = true;
        }
        account.days.retain(|day, _| day + WEEK > today && *day <= today + WEEK);
        account.at = now;
    }

    /// A user and the user's group.
    fn both(&self, user: AccountIndex) -> impl Iterator<Item = AccountIndex> + use<> {
        [Some(user), self.account(user).group].into_iter().flatten()
    }

    /// A user has so much more.
    pub fn takes(&mut self, user: AccountIndex, amount: Amount, now: Duration) {
        for index in self.both(user) {
            self.advance(index, now);
            let has = &mut self.account_mut(index).has;
            has.devices += amount.devices;
            has.memory = has.memory.saturating_add(amount.memory);
        }
    }

    /// A user has so much less.
    pub fn gives_back(&mut self, user: AccountIndex, amount: Amount, now: Duration) {
        for index in self.both(user) {
            self.advance(index, now);
            let account = self.account_mut(index);
            account.has.devices = account.has.devices.saturating_sub(amount.devices);
            account.has.memory = account.has.memory.saturating_sub(amount.memory);
            account.is_new = true;
        }
    }

    /// A request of a user's waits.
    pub fn waits(&mut self, user: AccountIndex) {
        self.both(user).for_each(|index| self.account_mut(index).waiting += 1);
    }

    /// It does not wait any more.
    pub fn left(&mut self, user: AccountIndex) {
        self.both(user).for_each(|index| self.account_mut(index).waiting -= 1);
    }

    /// What decides who of several goes first.
    pub fn score(&mut self, user: AccountIndex, totals: Totals, now: Duration) -> Score {
        self.both(user).for_each(|index| self.advance(index, now));
        let of = |account: &Account| account.share(totals, self.rules.queue.ahead.as_secs_f64());
        let account = self.account(user);
        let user = of(account);
        Score { group: account.group.map_or(user, |group| of(self.account(group))), user }
    }

    /// Whether a user may have so much more now.
    pub fn has_room_for(&mut self, user: AccountIndex, amount: Amount, now: Duration) -> bool {
        self.both(user).for_each(|index| self.advance(index, now));
        self.both(user).all(|index| self.account(index).has_room_for(amount))
    }

    /// Why a user may not have so much more now.
    pub fn is_too_much(&self, user: AccountIndex, amount: Amount) -> Option<String> {
        self.both(user).find_map(|index| {
            let (account, who) = (self.account(index), self.who(index, user));
            let limits = &account.limits;
            let has = Amount {
                devices: account.has.devices + amount.devices,
                memory: account.has.memory.saturating_add(amount.memory),
            };
            if let Some(most) = limits.devices.filter(|most| has.devices > *most) {
                let (has, most) = (in_devices(account.has.devices), in_devices(most));
                return Some(format!("{who} has {has} devices, and may have {most} at one time"));
            }
            if limits.memory.is_some_and(|most| has.memory > most) {
                return Some(format!("{who} has as much of devices' memory as is allowed at one time"));
            }
            let used: f64 = account.days.values().sum();
            let hours = limits.device_hours.filter(|hours| used >= hours * 3600.0)?;
            Some(format!("{who} has used the {hours} hours of devices that are allowed in seven days"))
        })
    }

    /// Why a user's request cannot be taken in at all.
    pub fn is_never_allowed(&self, user: AccountIndex, amount: Amount, priority: i32) -> Option<String> {
        self.both(user).find_map(|index| {
            let (account, who) = (self.account(index), self.who(index, user));
            let limits = &account.limits;
            if let Some(most) = limits.devices.filter(|most| amount.devices > *most) {
                let (wanted, most) = (in_devices(amount.devices), in_devices(most));
                return Some(format!("{wanted} devices are wanted, and {who} may have {most} at one time"));
            }
            if let Some(most) = limits.memory.filter(|most| amount.memory > *most) {
                let (wanted, most) = (amount.memory as f64 / GIGABYTE, most as f64 / GIGABYTE);
                return Some(format!("{wanted:.1}G of memory is wanted, and {who} may have {most:.1}G at one time"));
            }
            if limits.waiting.is_some_and(|most| account.waiting >= most) {
                return Some(format!("{who} has as many requests that wait as are allowed: {}", account.waiting));
            }
            let most = limits.priority.filter(|most| priority > *most)?;
            Some(format!("the priority is {priority}, and {who} may give {most} at most"))
        })
    }

    fn who(&self, index: AccountIndex, user: AccountIndex) -> String {
        let kind = if index == user { "user" } else { "group" };
        format!("{kind} '{}'", self.account(index).name)
    }

    /// What is to be written down of a user, if it was not just now.
    pub fn record(&mut self, user: AccountIndex, now: Duration) -> Option<UsageRecord> {
        self.advance(user, now);
        let at = self.wall(now).as_secs();
        let account = self.account_mut(user);
        if !account.is_new || (!account.written.is_zero() && now < account.written + PAUSE) {
            return None;
        }
        (account.is_new, account.written) = (false, now);
        let Account { name, device_seconds, memory_seconds, days, .. } = account;
        let (user, days) = (name.clone(), days.clone());
        Some(UsageRecord { user, at, device_seconds: *device_seconds, memory_seconds: *memory_seconds, days })
    }

    /// All users who have something, or have had since it was last written down.
    pub fn active(&self) -> Vec<AccountIndex> {
        let is_active = |user: &AccountIndex| {
            let account = self.account(*user);
            account.is_new || account.has != Amount::default()
        };
        self.users.values().copied().filter(is_active).collect()
    }

    /// All users.
    #[cfg(test)]
    pub fn names(&self) -> Vec<String> {
        self.users.keys().cloned().collect()
    }

    /// What a user has, and how many requests of the user's wait.
    #[cfg(test)]
    pub fn holdings(&mut self, user: &str, now: Duration) -> (Amount, u32) {
        let user = self.user(user, now);
        (self.account(user).has, self.account(user).waiting)
    }

    /// What a user has used, as the queue sees it: seconds of a device, and of a gigabyte of memory.
    #[cfg(test)]
    pub fn used(&mut self, user: &str, now: Duration) -> (f64, f64) {
        let user = self.user(user, now);
        self.advance(user, now);
        (self.account(user).device_seconds, self.account(user).memory_seconds)
    }
}

impl Account {
    fn new(name: &str, limits: Limits, group: Option<AccountIndex>, now: Duration) -> Self {
        Self {
            name: name.to_owned(),
            group,
            limits,
            device_seconds: 0.0,
            memory_seconds: 0.0,
            days: BTreeMap::new(),
            at: now,
            has: Amount::default(),
            waiting: 0,
            written: Duration::ZERO,
            is_new: false,
        }
    }

    /// Whether so much more is within its limits.
    fn has_room_for(&self, amount: Amount) -> bool {
        let limits = &self.limits;
        limits.devices.is_none_or(|most| self.has.devices + amount.devices <= most)
            && limits.memory.is_none_or(|most| self.has.memory.saturating_add(amount.memory) <= most)
            && limits.device_hours.is_none_or(|hours| self.days.values().sum::<f64>() < hours * 3600.0)
    }

    fn devices(&self) -> f64 {
        self.has.devices as f64 / f64::from(WHOLE)
    }

    fn memory(&self) -> f64 {
        self.has.memory as f64 / GIGABYTE
    }

    /// The share of the pool of which this account has used most, by its weight.
    fn share(&self, totals: Totals, ahead: f64) -> f64 {
        let devices = (self.device_seconds + self.devices() * ahead) / (totals.devices.max(1) as f64);
        let memory = (self.memory_seconds + self.memory() * ahead) / (totals.memory as f64 / GIGABYTE).max(1.0);
        devices.max(memory) / self.limits.weight
    }
}

/// A number from a file that may be anything.
fn sane(number: f64) -> f64 {
    if number.is_finite() && number > 0.0 { number } else { 0.0 }
}

/// Thousandths as people read them.
fn in_devices(thousandths: u64) -> f64 {
    thousandths as f64 / f64::from(WHOLE)
}
