//! What people ask to see.

use std::time::Duration;

use ropeway_lease::grant::Share;
use ropeway_lease::messages::{DeviceLine, LeaseLine, MAX_MESSAGE, PoolDevice, PoolServer, QueueLine, Tell};
use serde::Serialize;

use super::Broker;
use crate::core::leases::Held;
use crate::core::placement::place;
use crate::core::pool::{DeviceIndex, Server};
use crate::core::queue::{Slot, Visit, Visitor};
use crate::core::usage::{AccountIndex, Accounts, Score};

/// Most lines of a list.
const MAX_LINES: usize = 1000;

/// Most bytes of a list's lines: the rest of a message is short.
const MAX_BYTES: usize = MAX_MESSAGE - (64 << 10);

/// The first requests of the queue.
struct First<'a> {
    accounts: &'a mut Accounts,
    totals: crate::core::pool::Totals,
    now: Duration,
    numbers: Vec<u64>,
}

impl Visitor for First<'_> {
    fn score(&mut self, account: AccountIndex) -> Score {
        self.accounts.score(account, self.totals, self.now)
    }

    fn visit(&mut self, number: u64, _: AccountIndex, _: Slot) -> Visit {
        self.numbers.push(number);
        if self.numbers.len() < MAX_LINES { Visit::Waits } else { Visit::Enough }
    }
}

/// As many lines as a message can have.
fn cut<T: Serialize>(lines: impl Iterator<Item = T>) -> Vec<T> {
    let mut left = MAX_BYTES;
    let fits = |line: &T| {
        let len = serde_json::to_vec(line).map_or(usize::MAX, |text| text.len() + 1);
        let fits = len <= left;
        left = left.saturating_sub(len);
        fits
    };
    lines.take(MAX_LINES).take_while(fits).collect()
}

impl Broker {
    /// The leases of a user, or all.
    pub(super) fn lease_lines(&mut self, all: bool, user: &str, now: Duration) -> Tell {
        if all {
            let leases = cut(self.leases.iter().map(|held| self.line_of(held, now)));
            return Tell::Leases { leases, total: self.leases.len() as u64 };
        }
        let account = self.accounts.user(user, now);
        let of = self.leases.of_user(account);
        let total = of.len() as u64;
        let held = of.filter_map(|lease| self.leases.get(lease));
        Tell::Leases { leases: cut(held.map(|held| self.line_of(held, now))), total }
    }

    fn line_of(&self, held: &Held, now: Duration) -> LeaseLine {
        let devices = held.parts.iter().map(|part| {
            let device = self.pool.device(part.device);
            let server = self.pool.server(device.server).about.name.clone();
            (server, device.number, device.name.clone(), part.share)
        });
        LeaseLine {
            lease: held.record.lease,
            user: held.record.user.clone(),
            program: held.record.program.clone(),
            age_ms: now.saturating_sub(held.since).as_millis() as u64,
            lasts_ms: (!held.is_over()).then(|| held.until.saturating_sub(now).as_millis() as u64),
            attached: held.record.attached,
            devices: devices.collect(),
            sessions: held.sessions(),
            device_seconds: held.using.values().map(|(_, seconds)| seconds).sum(),
        }
    }

    /// The requests that wait, those whose turn comes first.
    pub(super) fn queue_lines(&mut self, now: Duration) -> Tell {
        let (aging, totals) = (self.accounts.rules().queue.aging, self.pool.totals());
        let mut first = First { accounts: &mut self.accounts, totals, now, numbers: Vec::new() };
        self.queue.walk(aging, now, &mut first);
        let numbers = first.numbers;
        let lines: Vec<QueueLine> = numbers.into_iter().filter_map(|number| self.queue_line(number, now)).collect();
        Tell::Queue { waiting: cut(lines.into_iter()), total: self.queue.len() as u64 }
    }

    fn queue_line(&mut self, number: u64, now: Duration) -> Option<QueueLine> {
        let why = self.why_waits(number);
        let planned = self.plans.iter().find(|plan| plan.request == number);
        // A time that depends on leases of which nobody has said how long they last is nothing to go by.
        let assumed = self.accounts.rules().queue.assumed;
        let guessed = |at| self.leases.iter().any(|held| held.ends_anytime() && held.ends(assumed, now) == at);
        let planned = planned.filter(|plan| !guessed(plan.hold.at));
        let in_ms = planned.map(|plan| plan.hold.at.saturating_sub(now).as_millis() as u64);
        let request = self.queue.get(number)?;
        Some(QueueLine {
            request: number,
            user: self.accounts.name(request.account).to_owned(),
            program: request.program.clone(),
            want: self.wants.get(request.slot.want).want.clone(),
            priority: request.ask.priority,
            age_ms: now.saturating_sub(request.since).as_millis() as u64,
            why,
            in_ms,
        })
    }

    /// What a request waits for: part of a sentence.
    pub(super) fn why_waits(&mut self, number: u64) -> String {
        let Some(request) = self.queue.get(number) else { return String::new() };
        if let Some(why) = self.accounts.is_too_much(request.account, request.slot.amount) {
            return format!("because {why}");
        }
        if self.plans.iter().any(|plan| plan.request == number) {
            return "for devices that others have".to_owned();
        }
        let known = self.wants.look_at(request.slot.want, &self.pool);
        if let Some(parts) = place(&self.pool, known, None) {
            let amount = crate::core::leases::Part::sum(&parts);
            return match self.accounts.is_too_much(request.account, amount) {
                Some(why) => format!("because {why}"),
                None => "because what is free is kept for others".to_owned(),
            };
        }
        let is_away = known.want.groups.iter().zip(&known.usable).any(|(group, usable)| {
            let online = usable.ones().filter(|place| self.pool.is_online(DeviceIndex(*place as u32)));
            online.take(group.count as usize).count() < group.count as usize
        });
        if is_away { "for servers that are not connected" } else { "for devices that others have" }.to_owned()
    }

    /// The devices.
    pub(super) fn device_lines(&self) -> Tell {
        let line = |index: DeviceIndex| {
            let device = self.pool.device(index);
            let server = self.pool.server(device.server);
            DeviceLine {
                server: server.about.name.clone(),
                number: device.number,
                name: device.name.clone(),
                online: server.online.is_some(),
                free: device.free,
                leases: device.leases.iter().map(|(lease, ..)| *lease).collect(),
            }
        };
        Tell::Devices { devices: cut(self.pool.devices().map(line)), total: self.pool.totals().devices }
    }

    /// The servers and their devices, with these properties, as this user sees them.
    pub(super) fn pool_lines(&self, from: u32, names: &[String], user: &str) -> Tell {
        let device = |place: u32| {
            let device = self.pool.device(DeviceIndex(place));
            let is_others = |lease| self.leases.get(lease).is_none_or(|held| held.record.user != user);
            let others = device.leases.iter().filter(|(lease, ..)| is_others(*lease));
            let all = self.pool.properties(DeviceIndex(place));
            let properties = names.iter().filter_map(|name| all.get_key_value(name));
            PoolDevice {
                properties: properties.map(|(name, value)| (name.clone(), value.clone())).collect(),
                others: others.map(|(_, share, _)| share).sum::<Share>(),
            }
        };
        let line = |server: &Server| PoolServer {
            name: server.about.name.clone(),
            key: server.about.key.clone(),
            online: server.online.is_some(),
            devices: server.devices.clone().map(device).collect(),
        };
        let rest = self.pool.servers().skip(from as usize).map(|(_, server)| line(server));
        let servers = cut(rest);
        let until = from.saturating_add(servers.len() as u32);
        let is_more = !servers.is_empty() && self.pool.servers().nth(until as usize).is_some();
        Tell::Pool { servers, next: is_more.then_some(until) }
    }
}
