//! Leases, from their grant to their end.

use std::time::Duration;

use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::Tell;

use super::{Alarm, Broker, Effect};
use crate::core::leases::{Held, Part};
use crate::core::peer::{Peer, User};

impl Broker {
    /// A lease's holder is back.
    pub(super) fn attach(&mut self, peer: Peer, user: &User, lease: LeaseId, now: Duration) {
        if let Err(why) = self.owned(lease, user) {
            return self.say(peer, Tell::Ended { lease, why });
        }
        let Some(held) = self.leases.get_mut(lease).filter(|held| held.record.attached) else {
            return self.refuse(peer, &format!("lease {lease} does not depend on a connection"));
        };
        held.holder = Some(peer);
        held.gone_at = None;
        // It gets a new proof at once: it may have missed one.
        held.renew_at = Duration::ZERO;
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.leases.insert(lease);
        }
        let notice = held.notice.clone();
        self.set_alarm(lease);
        self.say(peer, Tell::Done);
        // It may have missed that as well.
        if let Some(notice) = notice {
            let in_ms = notice.at.saturating_sub(now).as_millis() as u64;
            self.say(peer, Tell::Notice { lease, in_ms, why: notice.why });
        }
    }

    /// A lease is to last longer.
    pub(super) fn renew(&mut self, peer: Peer, user: &User, lease: LeaseId, for_ms: Option<u64>, now: Duration) {
        let attached = match self.owned(lease, user) {
            Ok(held) => held.record.attached,
            Err(why) => return self.refuse(peer, &why),
        };
        let longest = self.longest(attached).as_millis() as u64;
        let Some(held) = self.leases.get_mut(lease) else { return };
        let for_ms = for_ms.unwrap_or(held.record.for_ms).min(longest);
        if held.record.for_ms != for_ms {
            held.record.for_ms = for_ms;
            let record = held.record.clone();
            self.effects.push(Effect::Keep(Box::new(record)));
        }
        self.prolong(lease, Some(peer), now);
    }

    /// Makes a lease last as long as it does after a renewal, from now on, and tells `peer` and its servers.
    fn prolong(&mut self, lease: LeaseId, peer: Option<Peer>, now: Duration) {
        let Some(held) = self.leases.get_mut(lease) else { return };
        let lasts = Duration::from_millis(held.record.for_ms);
        (held.until, held.renew_at) = (now + lasts, now + lasts / 3);
        let for_ms = held.record.for_ms;
        let held = held.clone();
        let granted = self.granted(&held, lasts);
        self.set_alarm(lease);
        self.tell_servers(lease, &Tell::Lasts { lease, for_ms });
        if let Some(peer) = peer {
            self.effects.push(Effect::Renew(peer, Box::new(granted)));
        }
    }

    /// Nobody has been told of a lease that was granted.
    pub fn undelivered(&mut self, lease: LeaseId, now: Duration) {
        self.end(lease, "its client was gone before it was granted", now);
    }

    /// Ends a lease: its servers are told, and what they have said to be clear of it is free.
    pub(super) fn end(&mut self, lease: LeaseId, why: &str, now: Duration) {
        let Some(held) = self.leases.get_mut(lease).filter(|held| !held.is_over()) else { return };
        held.record.over = Some(why.to_owned());
        let (record, holder) = (held.record.clone(), held.holder.take());
        let (account, amount) = (held.account, held.amount());
        self.alarms.set(Alarm::Lease(lease), None);
        self.accounts.gives_back(account, amount, now);
        let used = self.accounts.record(account, now);
        self.effects.extend(used.map(|used| Effect::KeepUsage(Box::new(used))));
        self.effects.push(Effect::Keep(Box::new(record)));
        if let Some(holder) = holder {
            if let Some(connection) = self.connections.get_mut(&holder) {
                connection.leases.remove(&lease);
            }
            self.say(holder, Tell::Ended { lease, why: why.to_owned() });
        }
        self.tell_servers(lease, &Tell::End { lease, why: why.to_owned() });
        self.forget_if_clear(lease);
    }

    /// On this connection's server, nothing of a lease is left.
    pub(super) fn cleared(&mut self, peer: Peer, lease: LeaseId) {
        let Some(server) = self.connections.get(&peer).and_then(|connection| connection.server) else { return };
        if self.pool.server(server).online != Some(peer) {
            return;
        }
        self.pool.lost_stray(server, lease);
        self.is_due = true;
        let key = self.pool.server(server).about.key.clone();
        let Some(held) = self.leases.get_mut(lease) else { return };
        held.using.entry(key.clone()).or_default().0 = 0;
        if !held.is_over() {
            return;
        }
        let pool = &self.pool;
        let here: Vec<Part> = held.parts.extract_if(.., |part| pool.device(part.device).server == server).collect();
        // A broker that is started again must not take them for lent to this lease: others may have them by then.
        held.record.devices.retain(|(has, ..)| *has != key);
        let record = held.record.clone();
        let is_less = !here.is_empty() && !held.parts.is_empty();
        self.leases.left_server(&key, lease);
        if is_less {
            self.effects.push(Effect::Keep(Box::new(record)));
        }
        for part in here {
            self.pool.give_back(part.device, lease);
        }
        self.forget_if_clear(lease);
    }

    /// Crosses out a lease that is over and has nothing any more.
    fn forget_if_clear(&mut self, lease: LeaseId) {
        if self.leases.get(lease).is_some_and(|held| held.is_over() && held.parts.is_empty()) {
            self.leases.remove(lease);
            self.effects.push(Effect::Forget(lease));
        }
    }

    /// Does what is to be done about a lease at this time; returns it if the time of its notice is over.
    pub(super) fn look_at_lease(&mut self, lease: LeaseId, now: Duration) -> Option<LeaseId> {
        let held = self.leases.get(lease)?;
        let is_gone = held.gone_at.is_some_and(|at| at <= now);
        if held.until <= now {
            self.end(lease, "it was not renewed in time", now);
            return None;
        }
        if is_gone && self.is_heard_of(held) {
            self.end(lease, "its holder is gone", now);
            return None;
        }
        let (renews, holder) = (held.renew_at <= now, held.holder);
        let is_over = held.notice.as_ref().is_some_and(|notice| notice.at <= now);
        // Those before whom it went may have its devices.
        self.is_due |= held.is_overtime(now);
        if is_gone && let Some(held) = self.leases.get_mut(lease) {
            // Where no server is heard either, it may be the broker that is cut off: that ends nobody's lease.
            held.gone_at = Some(now + self.settings.returns);
        }
        if renews && holder.is_some() {
            self.prolong(lease, holder, now);
        }
        self.set_alarm_after(lease, now);
        is_over.then_some(lease)
    }

    /// Sets the alarm of a lease to what is later than now.
    fn set_alarm_after(&mut self, lease: LeaseId, now: Duration) {
        let at = self.leases.get(lease).and_then(|held| held.alarm_after(now));
        self.alarms.set(Alarm::Lease(lease), at);
    }

    /// Whether a server of a lease is connected.
    fn is_heard_of(&self, held: &Held) -> bool {
        let online = |part: &Part| self.pool.server(self.pool.device(part.device).server).online.is_some();
        held.parts.is_empty() || held.parts.iter().any(online)
    }
}
