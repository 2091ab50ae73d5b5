//! Requests, from their coming to their lease.

use std::time::Duration;

use ropeway_lease::grant::{Grant, GrantedDevice, GrantedServer, LeaseId};
use ropeway_lease::messages::{LeaseAsk, LeasedServer, Tell};

use super::pass::Granting;
use super::{Broker, Effect, Granted};
use crate::core::leases::{Held, LeaseRecord};
use crate::core::peer::Peer;
use crate::core::pool::ServerIndex;
use crate::core::queue::{Request, Slot};
use crate::core::usage::Amount;

impl Broker {
    /// Takes in a request.
    pub(super) fn request(&mut self, peer: Peer, mut ask: LeaseAsk, now: Duration) {
        let Some(connection) = self.connections.get(&peer) else { return };
        if connection.request.is_some() {
            return self.refuse(peer, "a request waits on this connection already");
        }
        let (user, program) = (connection.user.name.clone(), connection.program.clone().unwrap_or_default());
        let account = self.accounts.user(&user, now);
        // How much memory a request takes that does not say it depends on the devices that it gets.
        let amount = ask.want.groups.iter().fold(Amount::default(), |sum, group| Amount {
            devices: sum.devices + u64::from(group.count) * u64::from(group.share),
            memory: sum.memory.saturating_add(u64::from(group.count).saturating_mul(group.memory.unwrap_or(0))),
        });
        if let Some(why) = self.accounts.is_never_allowed(account, amount, ask.priority) {
            return self.refuse(peer, &why);
        }
        let want = match self.wants.wait_for(&ask.want, &self.pool) {
            Ok(want) => want,
            Err(why) => return self.refuse(peer, &why),
        };
        // Long queues are looked through faster without it.
        ask.want.groups = Vec::new();
        let length = [ask.expected_ms, ask.for_ms].into_iter().flatten().min().map(Duration::from_millis);
        let until = ask.wait_ms.map(|wait| now + Duration::from_millis(wait));
        let slot = Slot { want, length, amount };
        let number = self.queue.add(|number| Request { number, account, program, peer, ask, since: now, until, slot });
        self.accounts.waits(account);
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.request = Some(number);
        }
        // Those before it go first, and only then it is told that it waits.
        self.is_due = true;
    }

    /// Takes a request out of the queue.
    pub(super) fn take_out(&mut self, number: u64) -> Option<Request> {
        let request = self.queue.remove(number)?;
        self.accounts.left(request.account);
        self.wants.left(request.slot.want);
        // What was kept for it may be others'.
        let before = self.plans.len();
        self.plans.retain(|plan| plan.request != number);
        self.is_due |= self.plans.len() < before;
        Some(request)
    }

    /// Takes a request out of the queue, and says why.
    pub(super) fn give_up(&mut self, number: u64, why: &str) {
        let Some(request) = self.take_out(number) else { return };
        if let Some(connection) = self.connections.get_mut(&request.peer) {
            connection.request = None;
        }
        self.refuse(request.peer, why);
    }

    /// Grants a request what has been lent to it.
    pub(super) fn grant(&mut self, request: Request, granting: Granting, now: Duration) {
        let Granting { lease, parts, has_passed, .. } = granting;
        let Request { account, program, peer, ask, .. } = request;
        let user = self.accounts.name(account).to_owned();
        let attached = ask.for_ms.is_none();
        let for_ms = ask.for_ms.unwrap_or(u64::MAX).min(self.longest(attached).as_millis() as u64);
        let devices = parts.iter().map(|part| {
            let device = self.pool.device(part.device);
            let server = self.pool.server(device.server).about.key.clone();
            (server, device.number, device.name.clone(), part.share, part.memory)
        });
        let record = LeaseRecord {
            lease,
            user,
            program,
            key: ask.key,
            for_ms,
            attached,
            over: None,
            devices: devices.collect(),
            priority: ask.priority,
            expected_ms: ask.expected_ms,
        };
        let lasts = Duration::from_millis(for_ms);
        let holder = attached.then_some(peer);
        let held = Held {
            record: record.clone(),
            parts,
            account,
            notice: None,
            has_passed,
            since: now,
            until: now + lasts,
            renew_at: now + lasts / 3,
            holder,
            gone_at: None,
            using: Default::default(),
        };
        let granted = self.granted(&held, lasts);
        self.leases.insert(held);
        self.set_alarm(lease);
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.request = None;
            if attached {
                connection.leases.insert(lease);
            }
        }
        self.effects.push(Effect::Keep(Box::new(record)));
        self.tell_servers(lease, &Tell::Lasts { lease, for_ms });
        self.effects.push(Effect::Grant(peer, Box::new(granted)));
    }

    pub(super) fn longest(&self, attached: bool) -> Duration {
        if attached { self.settings.lasts } else { self.settings.longest }
    }

    /// What the proof of a lease says.
    pub(super) fn granted(&self, held: &Held, lasts: Duration) -> Granted {
        let mut servers: Vec<GrantedServer> = Vec::new();
        let mut told: Vec<LeasedServer> = Vec::new();
        for part in &held.parts {
            let device = self.pool.device(part.device);
            let about = &self.pool.server(device.server).about;
            if servers.last().is_none_or(|server| server.key != about.key)
                && !servers.iter().any(|server| server.key == about.key)
            {
                servers.push(GrantedServer { key: about.key.clone(), devices: Vec::new() });
                let (name, address, key) = (about.name.clone(), about.address.clone(), about.key.clone());
                told.push(LeasedServer { name, address, key, devices: Vec::new() });
            }
            let Some(at) = servers.iter().position(|server| server.key == about.key) else { continue };
            // What is not shared is bounded by the device alone.
            let memory = (part.share < ropeway_lease::grant::WHOLE).then_some(part.memory);
            let (number, name, share) = (device.number, device.name.clone(), part.share);
            servers[at].devices.push(GrantedDevice { number, name, share, memory });
            told[at].devices.push(device.name.clone());
        }
        let grant = Grant { lease: held.record.lease, user: held.record.user.clone(), servers };
        Granted { grant, key: held.record.key.clone(), lasts, servers: told }
    }

    /// The servers on which a lease still has something, and their connections.
    fn servers_of(&self, lease: LeaseId) -> Vec<(ServerIndex, Option<Peer>)> {
        let Some(held) = self.leases.get(lease) else { return Vec::new() };
        let mut servers: Vec<_> = held.parts.iter().map(|part| self.pool.device(part.device).server).collect();
        servers.sort_unstable();
        servers.dedup();
        servers.into_iter().map(|server| (server, self.pool.server(server).online)).collect()
    }

    /// Says something to the servers of a lease that are connected.
    pub(super) fn tell_servers(&mut self, lease: LeaseId, tell: &Tell) {
        for (_, online) in self.servers_of(lease) {
            if let Some(peer) = online {
                self.say(peer, tell.clone());
            }
        }
    }
}
