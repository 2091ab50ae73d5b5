//! Which devices a request gets, beside all possibilities one by one.

use fixedbitset::FixedBitSet;
use proptest::prelude::*;
use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::Registration;
use ropeway_lease::property::Properties;
use ropeway_lease::want::{Group, Placement, Want};

use crate::core::peer::Peer;
use crate::core::placement::{place, possible};
use crate::core::pool::{DeviceIndex, Pool};
use crate::core::wants::Known;

fn device(kind: &str, gigabytes: u64) -> Properties {
    let memory = gigabytes << 30;
    serde_json::from_str(&format!(r#"{{"type":["{kind}"],"name":"{kind}{gigabytes}","global_mem_size":{memory}}}"#))
        .unwrap()
}

fn pool(servers: &[&[(&str, u64)]]) -> Pool {
    let mut pool = Pool::default();
    for (number, devices) in servers.iter().enumerate() {
        let key = format!("s{number}");
        let devices = devices.iter().map(|(kind, memory)| device(kind, *memory)).collect();
        let about = Registration { name: key.clone(), address: key.clone(), key, devices, leases: Vec::new() };
        pool.register(about, Some(Peer(number as u64)));
    }
    pool
}

fn places(pool: &Pool, want: &str) -> Option<Vec<u32>> {
    let parts = place(pool, &Known::of(&want.parse().unwrap(), pool), None)?;
    Some(parts.iter().map(|part| part.device.0).collect())
}

#[test]
fn a_group_leaves_to_another_what_only_that_can_use() {
    // All groups have two to choose from; whoever chooses first by itself takes the only one that is left for another.
    let mixed = pool(&[&[("gpu", 40), ("gpu", 80)], &[("cpu", 40), ("cpu", 80)], &[("gpu", 16)]]);
    let found = places(&mixed, "devices, memory>=80G and gpu, memory>=40G and gpu, memory<=40G").unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(places(&mixed, "2 devices, memory>=80G and gpu, memory>=40G and gpu"), Some(vec![1, 3, 0, 4]));
    assert_eq!(places(&mixed, "2 devices, memory>=80G and 2 gpu, memory>=40G"), None);
}

#[test]
fn devices_can_be_asked_for_by_their_places() {
    let mut mixed = pool(&[&[("gpu", 40), ("gpu", 40)], &[("gpu", 40), ("cpu", 40)], &[("gpu", 40)]]);
    for (want, found) in [
        ("device, server=s1, device=1", Some(vec![3])),
        ("1 device, server=s2, device=0 and 1 device, server=s0, device=1", Some(vec![4, 1])),
        ("2 devices, server=s1", Some(vec![2, 3])),
        ("gpu, server=s1", Some(vec![2])),
        ("gpu, server!=s0", Some(vec![2])),
        ("3 gpu, device=0", Some(vec![0, 2, 4])),
        ("3 gpu, server=s0", None),
    ] {
        assert_eq!(places(&mixed, want), found, "{want}");
    }
    let refused = |pool: &Pool, want: &str| possible(pool, &Known::of(&want.parse().unwrap(), pool)).unwrap_err();
    assert_eq!(refused(&mixed, "gpu, server=s3"), "no device has server=s3");
    assert_eq!(refused(&mixed, "gpu, device=2"), "no device has device=2");
    assert_eq!(refused(&mixed, "cpu, server=s0"), "no device has all of type=cpu, server=s0");
    assert_eq!(refused(&mixed, "2 gpu, server=s1"), "2 devices are wanted with type=gpu, server=s1, and there are 1");
    // A server that has another name now is another one for requests.
    let before = mixed.generation();
    let about = Registration { name: "s3".into(), ..mixed.server(mixed.find("s1").unwrap()).about.clone() };
    mixed.register(about, Some(Peer(1)));
    assert_ne!(mixed.generation(), before);
    assert_eq!(places(&mixed, "2 devices, server=s3"), Some(vec![2, 3]));
    assert_eq!(places(&mixed, "2 devices, server=s1"), Some(vec![2, 3]), "its key is as it was");
}

#[test]
fn groups_that_compete_are_named() {
    let mixed = pool(&[&[("gpu", 80)], &[("gpu", 40), ("cpu", 16)]]);
    let refused = |want: &str| possible(&mixed, &Known::of(&want.parse().unwrap(), &mixed)).unwrap_err();
    assert!(possible(&mixed, &Known::of(&"gpu, memory>=80G and gpu and cpu".parse().unwrap(), &mixed)).is_ok());
    assert_eq!(
        refused("gpu, memory>=80G and 2 gpu"),
        "there are not enough devices for '2 devices, type=gpu' beside the other groups of the request: they want the same 2 devices"
    );
    assert_eq!(refused("2 gpu and gpu"), "3 devices are wanted with type=gpu, and there are 2");
}

#[test]
fn servers_that_are_begun_are_filled_first() {
    let mut racks = pool(&[&[("gpu", 80); 4], &[("gpu", 80); 4], &[("gpu", 80); 4]]);
    racks.lend(DeviceIndex(5), LeaseId(1), 1000, 80 << 30);
    assert_eq!(places(&racks, "2 gpu"), Some(vec![4, 6]));
    assert_eq!(places(&racks, "4 gpu on one server"), Some(vec![0, 1, 2, 3]), "only whole ones suffice");
    assert_eq!(places(&racks, "2 gpu on one server"), Some(vec![4, 6]), "the one with the fewest that suffice");
    racks.lend(DeviceIndex(9), LeaseId(2), 500, 40 << 30);
    assert_eq!(places(&racks, "gpu, share=0.5"), Some(vec![9]), "shares are packed");
    assert_eq!(places(&racks, "2 gpu on different servers, share=0.5"), Some(vec![9, 4]));
    racks.give_back(DeviceIndex(5), LeaseId(1));
    assert_eq!(places(&racks, "gpu"), Some(vec![8]), "its server is whole again");
}

#[test]
fn groups_on_one_server_find_theirs() {
    // Taking the server with the fewest that suffice for the first group leaves none for the second.
    let racks = pool(&[&[("gpu", 80), ("gpu", 80), ("cpu", 1)], &[("gpu", 80), ("gpu", 80), ("gpu", 80)]]);
    let found = places(&racks, "2 gpu on one server and 3 gpu on one server").unwrap();
    assert_eq!((&found[..2], &found[2..]), (&[0, 1][..], &[3, 4, 5][..]));
    assert_eq!(places(&racks, "3 gpu on one server and 3 gpu on one server"), None);
}

/// Whether there is an assignment, by trying every device for every place in every group.
fn exists(
    pool: &Pool,
    groups: &[Group],
    left: &[FixedBitSet],
    taken: &mut Vec<(usize, u32)>,
    slot: u32,
    group: usize,
) -> bool {
    let Some(now) = groups.get(group) else { return true };
    if slot == now.count {
        return exists(pool, groups, left, taken, 0, group + 1);
    }
    let server = |device: u32| pool.device(DeviceIndex(device)).server;
    for device in left[group].ones().map(|place| place as u32) {
        let mut mine = taken.iter().filter(|(of, _)| *of == group).map(|(_, device)| server(*device));
        let fits = match now.placement {
            Placement::Any => true,
            Placement::OneServer => mine.all(|other| other == server(device)),
            Placement::Spread => mine.all(|other| other != server(device)),
        };
        if fits && !taken.iter().any(|(_, other)| *other == device) {
            taken.push((group, device));
            if exists(pool, groups, left, taken, slot + 1, group) {
                return true;
            }
            taken.pop();
        }
    }
    false
}

fn groups() -> impl Strategy<Value = String> {
    let kinds = prop_oneof![Just("gpu"), Just("cpu"), Just("device")];
    let kinds =
        (1..3u32, kinds, 0..3usize, 0..3usize, 0..3usize).prop_map(|(count, kind, placement, memory, share)| {
            let kind = if kind == "device" { "devices".to_owned() } else { kind.to_owned() };
            let placement = ["", " on one server", " on different servers"][placement];
            let memory = ["", ", memory>=40G", ", memory>=80G"][memory];
            let share = ["", "", ", share=0.5"][share];
            format!("{count} {kind}{placement}{memory}{share}")
        });
    proptest::collection::vec(kinds, 1..4).prop_map(|groups| groups.join(" and "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]
    #[test]
    fn devices_are_found_where_there_are_enough(
        servers in proptest::collection::vec(proptest::collection::vec((0..2usize, 0..3usize, 0..4usize), 1..4), 1..4),
        want in groups(),
        blocked in proptest::collection::vec(0..9u32, 0..2),
    ) {
        let described: Vec<Vec<(&str, u64)>> = servers
            .iter()
            .map(|devices| devices.iter().map(|(kind, memory, _)| (["gpu", "cpu"][*kind], [16, 40, 80][*memory])).collect())
            .collect();
        let mut pool = pool(&described.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let want: Want = want.parse().unwrap();
        let known = Known::of(&want, &pool);
        let all: Vec<FixedBitSet> = known.usable.clone();
        prop_assert_eq!(possible(&pool, &known).is_ok(), exists(&pool, &want.groups, &all, &mut Vec::new(), 0, 0));
        // Some are lent, in part or whole, and some are kept for others.
        for (place, (.., lent)) in servers.iter().flatten().enumerate() {
            let device = DeviceIndex(place as u32);
            let memory = pool.device(device).memory;
            match lent {
                0 => pool.lend(device, LeaseId(1), 1000, memory),
                1 => pool.lend(device, LeaseId(2), 500, memory / 2),
                _ => {}
            }
        }
        let mut kept = FixedBitSet::with_capacity(16);
        blocked.iter().for_each(|device| kept.insert(*device as usize));
        let free: Vec<FixedBitSet> = want.groups.iter().zip(&known.usable).map(|(group, usable)| {
            let mut free = FixedBitSet::with_capacity(16);
            for device in usable.ones().filter(|place| !kept.contains(*place)).map(|place| DeviceIndex(place as u32)) {
                let has = pool.device(device);
                free.set(device.0 as usize, has.free >= group.share && has.free_memory >= group.memory_of(has.memory));
            }
            free
        }).collect();
        let found = place(&pool, &known, Some(&kept));
        prop_assert_eq!(found.is_some(), exists(&pool, &want.groups, &free, &mut Vec::new(), 0, 0), "{}", want);
        if let Some(parts) = found {
            let (mut at, mut seen) = (0, Vec::new());
            for (group, free) in want.groups.iter().zip(&free) {
                let mine: Vec<u32> = parts[at..at + group.count as usize].iter().map(|part| part.device.0).collect();
                at += mine.len();
                prop_assert!(mine.iter().all(|device| free.contains(*device as usize) && !seen.contains(device)));
                seen.extend(&mine);
                let mut servers: Vec<_> = mine.iter().map(|device| pool.device(DeviceIndex(*device)).server).collect();
                servers.sort();
                servers.dedup();
                match group.placement {
                    Placement::Any => {}
                    Placement::OneServer => prop_assert_eq!(servers.len(), 1),
                    Placement::Spread => prop_assert_eq!(servers.len(), mine.len()),
                }
            }
            prop_assert_eq!(at, parts.len());
        }
    }
}
