//! Finding devices for a request.

use fixedbitset::FixedBitSet;
use ropeway_lease::grant::WHOLE;
use ropeway_lease::want::{Condition, Group, Operator, Placement};

use super::leases::Part;
use super::matching;
use super::pool::{DeviceIndex, Pool};
use super::wants::Known;

/// Devices for all groups of a request that are free now, but those that are `blocked` for it; `None` if there are too
/// few.
///
/// Of a device that is shared, as much as possible is used before another is begun; whole devices are taken from servers
/// of which something is lent before others, so that many stay together on the others.
pub fn place(pool: &Pool, known: &Known, blocked: Option<&FixedBitSet>) -> Option<Vec<Part>> {
    let groups = &known.want.groups;
    let chosen = match (&groups[..], &known.usable[..]) {
        ([group], [usable]) => vec![pick(pool, group, usable, blocked)?],
        (groups, usable) => pick_all(pool, groups, usable, blocked).or_else(|| {
            let free = groups.iter().zip(usable).map(|(group, usable)| pool.free_for(group, usable, blocked));
            choose_all(pool, groups, free.collect(), &|device| pool.device(device).free)
        })?,
    };
    Some(parts(pool, groups, chosen))
}

/// The same for several groups that choose one after the other, those first that few devices fit: `None` does not say
/// that it cannot be.
fn pick_all(
    pool: &Pool,
    groups: &[Group],
    usable: &[FixedBitSet],
    blocked: Option<&FixedBitSet>,
) -> Option<Vec<Vec<DeviceIndex>>> {
    let mut order: Vec<(usize, usize)> = Vec::with_capacity(groups.len());
    for (at, (group, usable)) in groups.iter().zip(usable).enumerate() {
        let left = pool.count_free(group.share, usable).checked_sub(group.count as usize)?;
        order.push((left, at));
    }
    order.sort_unstable();
    let mut taken = blocked.cloned().unwrap_or_default();
    taken.grow(pool.places() as usize);
    let mut chosen = vec![Vec::new(); groups.len()];
    for (_, at) in order {
        chosen[at] = pick(pool, &groups[at], &usable[at], Some(&taken))?;
        chosen[at].iter().for_each(|device| taken.insert(device.0 as usize));
    }
    Some(chosen)
}

/// Devices for one group that are free now; `None` if there are too few.
fn pick(pool: &Pool, group: &Group, usable: &FixedBitSet, blocked: Option<&FixedBitSet>) -> Option<Vec<DeviceIndex>> {
    let (count, is_whole) = (group.count as usize, group.share == WHOLE);
    if pool.count_free(group.share, usable) < count {
        return None;
    }
    if group.placement == Placement::OneServer {
        return if is_whole {
            on_one_server(pool, group, pool.whole_in_order(usable, blocked))
        } else {
            on_one_server(pool, group, pool.free_for(group, usable, blocked).into_iter())
        };
    }
    let mut begun = Vec::new();
    if !is_whole {
        begun.extend(pool.begun_for(group, usable, blocked));
        begun.sort_by_key(|device| pool.device(*device).free);
    }
    let all = begun.into_iter().chain(pool.whole_of(usable, blocked));
    let chosen: Vec<DeviceIndex> = match group.placement {
        Placement::Spread => {
            let mut servers = FixedBitSet::new();
            let is_new = |device: &DeviceIndex| {
                let server = pool.server_of(*device).0 as usize;
                servers.grow(server + 1);
                !servers.put(server)
            };
            all.filter(is_new).take(count).collect()
        }
        _ => all.take(count).collect(),
    };
    (chosen.len() == count).then_some(chosen)
}

/// Of devices that lie server after server, those of one server that has the fewest that suffice.
fn on_one_server(pool: &Pool, group: &Group, free: impl Iterator<Item = DeviceIndex>) -> Option<Vec<DeviceIndex>> {
    let count = group.count as usize;
    let (mut best, mut current): (Option<Vec<DeviceIndex>>, Vec<DeviceIndex>) = (None, Vec::new());
    let keep = |best: &mut Option<Vec<DeviceIndex>>, current: &Vec<DeviceIndex>| {
        if current.len() >= count && best.as_ref().is_none_or(|best| current.len() < best.len()) {
            *best = Some(current.clone());
        }
    };
    for device in free {
        if current.first().is_some_and(|first| pool.server_of(*first) != pool.server_of(device)) {
            keep(&mut best, &current);
            if best.as_ref().is_some_and(|best| best.len() == count) {
                return best;
            }
            current.clear();
        }
        current.push(device);
    }
    keep(&mut best, &current);
    let mut best = best?;
    best.sort_by_key(|device| pool.device(*device).free);
    best.truncate(count);
    Some(best)
}

/// What a lease has of the devices that are chosen for each group.
pub fn parts(pool: &Pool, groups: &[Group], chosen: Vec<Vec<DeviceIndex>>) -> Vec<Part> {
    let parts = groups.iter().zip(chosen).flat_map(|(group, devices)| {
        let part = |device: DeviceIndex| {
            let memory = group.memory_of(pool.device(device).memory);
            Part { device, share: group.share, memory }
        };
        devices.into_iter().map(part)
    });
    parts.collect()
}

/// Of the devices that each group can have, in the order of their places, those that it gets, if there are enough for
/// all: no device goes to two groups.
///
/// First those groups choose that few devices fit, each what is best; where that fails, because one has taken what only
/// another can use, all possibilities are looked through. What `later` gives the lower values for is taken first.
pub fn choose_all<K: Ord>(
    pool: &Pool,
    groups: &[Group],
    free: Vec<Vec<DeviceIndex>>,
    later: &impl Fn(DeviceIndex) -> K,
) -> Option<Vec<Vec<DeviceIndex>>> {
    if free.iter().zip(groups).any(|(free, group)| free.len() < group.count as usize) {
        return None;
    }
    if let ([group], [free]) = (groups, &free[..]) {
        return choose(pool, group, free.clone(), later).map(|devices| vec![devices]);
    }
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|at| free[*at].len() - groups[*at].count as usize);
    let mut taken = FixedBitSet::new();
    let mut chosen = vec![Vec::new(); groups.len()];
    for at in order {
        let left = free[at].iter().copied().filter(|device| !taken.contains(device.0 as usize)).collect();
        let Some(devices) = choose(pool, &groups[at], left, later) else {
            return matching::assign(groups, &free, |device| pool.device(device).server);
        };
        for device in &devices {
            taken.grow_and_insert(device.0 as usize);
        }
        chosen[at] = devices;
    }
    Some(chosen)
}

/// Of the devices that a group can have, those that it gets.
fn choose<K: Ord>(
    pool: &Pool,
    group: &Group,
    mut free: Vec<DeviceIndex>,
    later: &impl Fn(DeviceIndex) -> K,
) -> Option<Vec<DeviceIndex>> {
    let count = group.count as usize;
    if free.len() < count {
        return None;
    }
    let same_server = |a: &DeviceIndex, b: &DeviceIndex| pool.device(*a).server == pool.device(*b).server;
    match group.placement {
        Placement::Any => {
            // Shared ones that have been begun first; then in order, which fills server after server.
            free.sort_by_key(|device| later(*device));
            free.truncate(count);
            Some(free)
        }
        Placement::OneServer => {
            // The server with the fewest that suffice.
            let servers = free.chunk_by(same_server);
            let best = servers.filter(|devices| devices.len() >= count).min_by_key(|devices| devices.len())?;
            let mut best = best.to_vec();
            best.sort_by_key(|device| later(*device));
            best.truncate(count);
            Some(best)
        }
        Placement::Spread => {
            let servers = free.chunk_by(same_server);
            let firsts = servers.filter_map(|devices| devices.iter().min_by_key(|device| later(**device)));
            let mut firsts: Vec<_> = firsts.copied().collect();
            firsts.sort_by_key(|device| later(*device));
            firsts.truncate(count);
            (firsts.len() == count).then_some(firsts)
        }
    }
}

/// Whether a request could be met if nothing were lent and all servers were there.
///
/// # Errors
/// One sentence: which property nobody has, or what there is too little of.
pub fn possible(pool: &Pool, known: &Known) -> Result<(), String> {
    if pool.totals().devices == 0 {
        return Err("no server has registered its devices yet".to_owned());
    }
    let in_order = |device: DeviceIndex| device;
    let groups = &known.want.groups;
    let usable: Vec<Vec<DeviceIndex>> =
        known.usable.iter().map(|set| set.ones().map(|place| DeviceIndex(place as u32)).collect()).collect();
    for (group, usable) in groups.iter().zip(&usable) {
        if choose(pool, group, usable.clone(), &in_order).is_none() {
            return Err(reason(pool, group, usable));
        }
    }
    if choose_all(pool, groups, usable.clone(), &in_order).is_some() {
        return Ok(());
    }
    // Groups that fit the same devices need as many as all of them together want.
    for group in groups {
        let rivals = || groups.iter().zip(&usable).filter(|(other, _)| other.conditions == group.conditions);
        let wanted: usize = rivals().map(|(other, _)| other.count as usize).sum();
        let there = rivals().map(|(_, usable)| usable.len()).max().unwrap_or(0);
        if there < wanted {
            let listed = listed(&group.conditions);
            return Err(format!("{wanted} devices are wanted with {listed}, and there are {there}"));
        }
    }
    // The first group for which those before it leave too few.
    let enough =
        |groups: usize| choose_all(pool, &known.want.groups[..groups], usable[..groups].to_vec(), &in_order).is_some();
    let first = (1..=groups.len()).find(|count| !enough(*count)).unwrap_or(groups.len());
    Err(format!(
        "there are not enough devices for '{}' beside the other groups of the request: they want the same {} devices",
        groups[first - 1],
        usable[first - 1].len()
    ))
}

/// Why there are never enough devices for a group.
fn reason(pool: &Pool, group: &Group, usable: &[DeviceIndex]) -> String {
    let memory = group.memory.map(|bytes| Condition {
        property: "global_mem_size".to_owned(),
        operator: Operator::AtLeast,
        value: bytes.to_string(),
    });
    let conditions: Vec<Condition> = group.conditions.iter().cloned().chain(memory).collect();
    let nobody = conditions.iter().find(|condition| !pool.has_any_with(condition));
    if let Some(condition) = nobody {
        return format!("no device has {condition}");
    }
    let listed = listed(&conditions);
    match (usable.len(), group.placement) {
        (0, _) => format!("no device has all of {listed}"),
        (there, Placement::Any) => format!("{} devices are wanted with {listed}, and there are {there}", group.count),
        (there, Placement::OneServer) => {
            format!("no server has {} devices with {listed}; there are {there} in all", group.count)
        }
        (there, Placement::Spread) => {
            format!("fewer than {} servers have a device with {listed}; there are {there} in all", group.count)
        }
    }
}

fn listed(conditions: &[Condition]) -> String {
    match conditions {
        [] => "any properties".to_owned(),
        conditions => conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
