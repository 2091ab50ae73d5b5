//! What will be free when, as far as is known.

use std::cmp::Reverse;
use std::time::Duration;

use fixedbitset::FixedBitSet;
use ropeway_lease::grant::{LeaseId, WHOLE};
use ropeway_lease::want::Group;

use super::placement::choose_all;
use super::pool::{DeviceIndex, Pool};
use super::wants::Known;

/// Devices that are kept for a request, or for a user, from a time on.
#[derive(Clone, Debug)]
pub struct Hold {
    /// From when on.
    pub at: Duration,
    /// The devices.
    pub devices: FixedBitSet,
}

impl Hold {
    /// One with these devices.
    pub fn new(at: Duration, chosen: &[Vec<DeviceIndex>]) -> Self {
        let mut devices = FixedBitSet::new();
        chosen.iter().flatten().for_each(|device| devices.grow_and_insert(device.0 as usize));
        Self { at, devices }
    }
}

/// When leases end.
#[derive(Debug)]
pub struct Ends<F> {
    /// Of each lease.
    of: F,
    /// When each device is wholly free.
    whole: Vec<Duration>,
}

impl<F: Fn(LeaseId) -> Duration> Ends<F> {
    /// As `of` says of each lease. When devices are free may be known from another time, but for those that are
    /// `changed`.
    pub fn new(pool: &Pool, of: F, known: Option<Vec<Duration>>, changed: &[DeviceIndex]) -> Self {
        let end = |device: DeviceIndex| {
            pool.device(device).leases.iter().map(|(lease, ..)| of(*lease)).max().unwrap_or_default()
        };
        let whole = match known {
            Some(mut whole) => {
                changed.iter().for_each(|device| whole[device.0 as usize] = end(*device));
                whole
            }
            None => (0..pool.places()).map(DeviceIndex).map(end).collect(),
        };
        Self { of, whole }
    }

    /// When each device is wholly free.
    pub fn into_whole(self) -> Vec<Duration> {
        self.whole
    }

    /// When enough of a device is free for a group.
    fn free_at(&self, pool: &Pool, index: DeviceIndex, group: &Group) -> Duration {
        if group.share == WHOLE {
            return self.whole[index.0 as usize];
        }
        let device = pool.device(index);
        let (mut share, mut memory, mut at) = (device.free, device.free_memory, Duration::ZERO);
        let needed = group.memory_of(device.memory);
        let leases = device.leases.iter().map(|(lease, has, bytes)| ((self.of)(*lease), *has, *bytes));
        let mut leases: Vec<_> = leases.collect();
        leases.sort_unstable();
        for (end, has, bytes) in leases {
            if share >= group.share && memory >= needed {
                break;
            }
            (share, memory, at) = (share.saturating_add(has), memory.saturating_add(bytes), end);
        }
        at
    }
}

/// When, at the earliest, a request can be met, and by which devices of each group; `None`: not by servers that are
/// connected, or not before what ends at [`Duration::MAX`].
pub fn earliest<F: Fn(LeaseId) -> Duration>(
    pool: &Pool,
    known: &Known,
    blocked: Option<&FixedBitSet>,
    ends: &Ends<F>,
) -> Option<(Duration, Vec<Vec<DeviceIndex>>)> {
    let groups = &known.want.groups;
    let is_open = |place: &usize| blocked.is_none_or(|blocked| !blocked.contains(*place));
    let when_free: Vec<Vec<(Duration, DeviceIndex)>> = groups
        .iter()
        .zip(&known.usable)
        .map(|(group, usable)| {
            let places = usable.ones().filter(is_open).map(|place| DeviceIndex(place as u32));
            let online = places.filter(|device| pool.is_lendable(*device));
            let timed = online.map(|device| (ends.free_at(pool, device, group), device));
            timed.filter(|(at, _)| *at < Duration::MAX).collect()
        })
        .collect();
    let mut times: Vec<Duration> = when_free.iter().flatten().map(|(at, _)| *at).collect();
    times.sort_unstable();
    times.dedup();
    let by = |time: Duration| {
        let free = |devices: &Vec<(Duration, DeviceIndex)>| {
            devices.iter().filter(|(at, _)| *at <= time).map(|(_, device)| *device).collect()
        };
        // Those that are free already before those that are not.
        let later = |device: DeviceIndex| Reverse(pool.device(device).free);
        choose_all(pool, groups, when_free.iter().map(free).collect(), &later)
    };
    let last = by(*times.last()?)?;
    // What can be met at some time can be met at every later one.
    let first = times[..times.len() - 1].partition_point(|time| by(*time).is_none());
    let time = times[first];
    Some((time, if first + 1 == times.len() { last } else { by(time)? }))
}
