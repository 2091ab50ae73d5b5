//! Finding devices for a request.

use std::collections::HashSet;

use ropeway_lease::want::{Condition, Group, Operator, Placement, Want, memory_of};

use super::leases::Part;
use super::pool::{DeviceIndex, Pool};

/// Devices for all groups of a request that are free now; `None` if there are too few.
///
/// Groups that few devices fit choose first. Of a device that is shared, as much as possible is used before another is
/// begun; whole devices are taken from servers that have few left, so that others keep many on one.
pub fn place(pool: &mut Pool, want: &Want) -> Option<Vec<Part>> {
    let mut groups: Vec<(&Group, Vec<DeviceIndex>)> =
        want.groups.iter().map(|group| (group, pool.free_for(group))).collect();
    groups.sort_by_key(|(group, free)| free.len().saturating_sub(group.count as usize));
    let (mut taken, mut parts) = (HashSet::new(), Vec::new());
    for (group, mut free) in groups {
        free.retain(|device| !taken.contains(device));
        let chosen = choose(pool, group, free)?;
        for device in chosen {
            taken.insert(device);
            let all = memory_of(&pool.device(device).properties).unwrap_or(0);
            parts.push(Part { device, share: group.share, memory: group.memory_of(all) });
        }
    }
    Some(parts)
}

/// Of the devices that a group can have, those that it gets.
fn choose(pool: &Pool, group: &Group, mut free: Vec<DeviceIndex>) -> Option<Vec<DeviceIndex>> {
    let count = group.count as usize;
    if free.len() < count {
        return None;
    }
    match group.placement {
        Placement::Any => {
            // Shared ones that have been begun first; then in order, which fills server after server.
            free.sort_by_key(|device| pool.device(*device).free);
            free.truncate(count);
            Some(free)
        }
        Placement::OneServer => {
            // The server with the fewest that suffice.
            let servers = free.chunk_by(|a, b| pool.device(*a).server == pool.device(*b).server);
            let best = servers.filter(|devices| devices.len() >= count).min_by_key(|devices| devices.len())?;
            Some(best[..count].to_vec())
        }
        Placement::Spread => {
            let servers = free.chunk_by(|a, b| pool.device(*a).server == pool.device(*b).server);
            let firsts: Vec<_> = servers.filter_map(|devices| devices.first().copied()).take(count).collect();
            (firsts.len() == count).then_some(firsts)
        }
    }
}

/// Whether a request could be met if nothing were lent and all servers were there.
///
/// # Errors
/// One sentence: which property nobody has, or what there is too little of.
pub fn possible(pool: &mut Pool, want: &Want) -> Result<(), String> {
    if pool.devices().next().is_none() {
        return Err("no server has registered its devices yet".to_owned());
    }
    for group in &want.groups {
        let usable: Vec<DeviceIndex> = pool.usable(group).ones().map(|place| DeviceIndex(place as u32)).collect();
        if choose_any(pool, group, &usable) {
            continue;
        }
        return Err(reason(pool, group, &usable));
    }
    // Groups that fit the same devices need as many as all of them together want.
    for group in &want.groups {
        let rivals = want.groups.iter().filter(|other| other.conditions == group.conditions);
        let wanted: usize = rivals.map(|other| other.count as usize).sum();
        let there = pool.usable(group).count_ones(..);
        if there < wanted {
            return Err(format!(
                "{wanted} devices are wanted with {}, and there are {there}",
                listed(&group.conditions)
            ));
        }
    }
    Ok(())
}

/// Whether so many devices are where they have to be, if all are free.
fn choose_any(pool: &Pool, group: &Group, usable: &[DeviceIndex]) -> bool {
    let count = group.count as usize;
    let mut servers = usable.chunk_by(|a, b| pool.device(*a).server == pool.device(*b).server);
    match group.placement {
        Placement::Any => usable.len() >= count,
        Placement::OneServer => servers.any(|devices| devices.len() >= count),
        Placement::Spread => servers.count() >= count,
    }
}

/// Why there are never enough devices for a group.
fn reason(pool: &mut Pool, group: &Group, usable: &[DeviceIndex]) -> String {
    let devices: Vec<DeviceIndex> = pool.devices().collect();
    let memory = group.memory.map(|bytes| Condition {
        property: "global_mem_size".to_owned(),
        operator: Operator::AtLeast,
        value: bytes.to_string(),
    });
    let conditions: Vec<Condition> = group.conditions.iter().cloned().chain(memory).collect();
    let nobody = conditions
        .iter()
        .find(|condition| !devices.iter().any(|device| condition.holds(&pool.device(*device).properties)));
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
