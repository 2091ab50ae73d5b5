//! Leases that are ended for requests that wait.

use std::collections::HashMap;
use std::time::Duration;

use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::Tell;

use super::Broker;
use super::pass::Plan;
use crate::core::leases::{Held, Notice};
use crate::core::outlook::{Ends, earliest};
use crate::core::wants::Known;

/// Most leases of which it is tried whether a request can do without ending them.
const MAX_TRIED: usize = 64;

impl Broker {
    /// Gives notice to leases that are to end for requests with plans.
    pub(super) fn preempt(&mut self, now: Duration) {
        for plan in self.plans.clone() {
            self.end_overtime(&plan, now);
            let rules = &self.accounts.rules().queue;
            let (Some(step), Some(request)) = (rules.preempt, self.queue.get(plan.request)) else { continue };
            // What ends by itself as early needs no notice; neither does what has one already.
            if plan.hold.at <= now + rules.grace {
                continue;
            }
            let priority = request.ask.priority;
            let victims = self.victims(&plan, priority.saturating_sub(step), now);
            for lease in victims {
                let why = format!("its devices are needed for a request of priority {priority}");
                self.notify(lease, plan.request, why, now);
            }
        }
    }

    /// Gives notice to those that have gone before a request because they said how long they would take, and take longer.
    fn end_overtime(&mut self, plan: &Plan, now: Duration) {
        let held = plan.hold.devices.ones().filter(|place| *place < self.pool.places() as usize);
        let on = held.flat_map(|place| &self.pool.device(crate::core::pool::DeviceIndex(place as u32)).leases);
        let late = on.filter_map(|(lease, ..)| {
            let held = self.leases.get(*lease)?;
            (held.is_overtime(now) && !held.is_over() && held.notice.is_none()).then_some(*lease)
        });
        let mut late: Vec<LeaseId> = late.collect();
        late.sort_unstable();
        late.dedup();
        for lease in late {
            let why = "it went before a request that waits, and takes longer than it was expected to".to_owned();
            self.notify(lease, plan.request, why, now);
        }
    }

    fn notify(&mut self, lease: LeaseId, request: u64, why: String, now: Duration) {
        let grace = self.accounts.rules().queue.grace;
        let Some(held) = self.leases.get_mut(lease) else { return };
        held.notice = Some(Notice { at: now + grace, request, why: why.clone() });
        let holder = held.holder;
        self.set_alarm(lease);
        if let Some(holder) = holder {
            self.say(holder, Tell::Notice { lease, in_ms: grace.as_millis() as u64, why });
        }
    }

    /// Ends a lease whose time since its notice is over, if the request for which that was still waits.
    pub(super) fn end_noticed(&mut self, lease: LeaseId, now: Duration) {
        let Some(notice) = self.leases.get(lease).and_then(|held| held.notice.clone()) else { return };
        if notice.at > now {
            return;
        }
        if self.queue.get(notice.request).is_some() {
            return self.end(lease, &notice.why, now);
        }
        if let Some(held) = self.leases.get_mut(lease) {
            held.notice = None;
        }
        // Others may have waited for it to end.
        self.is_due = true;
        self.set_alarm(lease);
    }

    /// The leases of at most this priority without which a request can be met: as few as possible, the younger ones
    /// first, and none that could stay.
    fn victims(&mut self, plan: &Plan, priority: i32, now: Duration) -> Vec<LeaseId> {
        let Some(request) = self.queue.get(plan.request) else { return Vec::new() };
        let want = request.slot.want;
        self.wants.look_at(want, &self.pool);
        let known = self.wants.get(want);
        let accounts = &self.accounts;
        let is_lower = |held: &&Held| {
            held.record.priority <= priority
                && !held.is_over()
                && held.notice.is_none()
                && accounts.is_preemptible(held.account)
        };
        let needed = known.want.devices() as usize;
        // Those that give most of what is needed are as few as can be; of those, the ones that have least beside it.
        let mut victims: Vec<(usize, usize, LeaseId)> = self
            .leases
            .iter()
            .filter(is_lower)
            .filter_map(|held| {
                let fits = |place: u32| known.usable.iter().any(|usable| usable.contains(place as usize));
                let useful = held.parts.iter().filter(|part| fits(part.device.0)).count().min(needed);
                (useful > 0).then_some((useful, held.parts.len(), held.record.lease))
            })
            .collect();
        victims
            .sort_unstable_by_key(|(useful, all, lease)| (std::cmp::Reverse(*useful), *all, std::cmp::Reverse(*lease)));
        let ranks: HashMap<LeaseId, u64> = (1..).zip(&victims).map(|(rank, (_, _, lease))| (*lease, rank)).collect();
        // As though each ended after those that are rather ended: the earliest time is the number of those that have to.
        let Some((last, chosen)) = self.without(known, &|lease| ranks.get(&lease).copied(), plan, now) else {
            return Vec::new();
        };
        let touched = |lease: &LeaseId| {
            let parts = self.leases.get(*lease).into_iter().flat_map(|held| &held.parts);
            parts.into_iter().any(|part| chosen.contains(&part.device.0))
        };
        let mut ending: Vec<LeaseId> =
            victims.iter().map(|(_, _, lease)| *lease).filter(|lease| ranks[lease] <= last).collect();
        if ending.len() > MAX_TRIED {
            ending.retain(touched);
        }
        // Whoever could stay stays, the least wanted to end first.
        for lease in ending.clone().into_iter().rev().take(MAX_TRIED) {
            let others = |other: LeaseId| (other != lease && ending.contains(&other)).then_some(1);
            if self.without(known, &others, plan, now).is_some() {
                ending.retain(|other| *other != lease);
            }
        }
        ending
    }

    /// The rank up to which leases have to end for a request to be met, and its devices then. Those that are over, and
    /// those that have had notice, end in any case.
    fn without(
        &self,
        known: &Known,
        rank: &impl Fn(LeaseId) -> Option<u64>,
        plan: &Plan,
        now: Duration,
    ) -> Option<(u64, Vec<u32>)> {
        let soon = now + self.accounts.rules().queue.grace;
        let end = |lease: LeaseId| match self.leases.get(lease) {
            Some(held) if held.is_over() || held.notice.as_ref().is_some_and(|notice| notice.at <= soon) => {
                Duration::ZERO
            }
            _ => rank(lease).map_or(Duration::MAX, Duration::from_secs),
        };
        // What is kept for others stays kept.
        let mut blocked = fixedbitset::FixedBitSet::new();
        for other in self.plans.iter().filter(|other| other.request != plan.request) {
            blocked.grow(other.hold.devices.len());
            blocked.union_with(&other.hold.devices);
        }
        for kept in self.kept_from_now(now) {
            blocked.grow(kept.len());
            blocked.union_with(kept);
        }
        let ends = Ends::new(&self.pool, end, None, &[]);
        let (last, chosen) = earliest(&self.pool, known, Some(&blocked), &ends)?;
        Some((last.as_secs(), chosen.into_iter().flatten().map(|device| device.0).collect()))
    }
}
