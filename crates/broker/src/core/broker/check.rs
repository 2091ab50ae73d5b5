//! Whether everything that is kept twice, to be found quickly, says the same.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Broker;
use crate::core::pool::DeviceIndex;
use crate::core::usage::Amount;

impl Broker {
    /// Compares the indexes with what they are made from, and what users are said to have with their leases.
    pub fn check(&mut self, now: Duration) {
        let mut has: BTreeMap<String, Amount> = BTreeMap::new();
        for held in self.leases.iter() {
            let lease = held.record.lease;
            for (key, ..) in &held.record.devices {
                assert!(self.leases.on_server(key).any(|on| on.record.lease == lease), "lease {lease} is on {key}");
            }
            assert!(self.leases.of_user(held.account).any(|of| of == lease));
            for part in &held.parts {
                let leases = &self.pool.device(part.device).leases;
                assert!(leases.contains(&(lease, part.share, part.memory)), "{leases:?} have {lease}");
            }
            if !held.is_over() {
                let (sum, more) = (has.entry(held.record.user.clone()).or_default(), held.amount());
                (sum.devices, sum.memory) = (sum.devices + more.devices, sum.memory + more.memory);
            }
        }
        for place in 0..self.pool.places() {
            let device = self.pool.device(DeviceIndex(place));
            assert!(device.leases.iter().all(|(lease, ..)| self.leases.get(*lease).is_some()));
            let lent: u64 = device.leases.iter().map(|(_, share, _)| u64::from(*share)).sum();
            assert!(lent <= 1000 && u64::from(device.free) == 1000 - lent);
        }
        let mut waiting = 0;
        for user in self.accounts.names() {
            let (amount, waits) = self.accounts.holdings(&user, now);
            assert_eq!(amount, has.remove(&user).unwrap_or_default(), "what {user} has");
            waiting += waits as usize;
        }
        assert_eq!(has.len(), 0, "these have nothing: {has:?}");
        assert_eq!(waiting, self.queue.len());
        let requests = self.connections.values().filter_map(|connection| connection.request);
        assert!(requests.clone().all(|request| self.queue.get(request).is_some()));
        assert_eq!(requests.count(), self.queue.len());
        assert!(self.plans.iter().all(|plan| self.queue.get(plan.request).is_some()));
    }
}
