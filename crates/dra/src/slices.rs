//! What the cluster is told of a broker's devices: ResourceSlices of network-attached devices.

use std::collections::BTreeMap;

use ropeway_lease::messages::PoolServer;
use ropeway_lease::property::{Properties, Value};
use serde_json::json;

use crate::names;
use crate::objects::{Attribute, Capacity, Device, MAX_DEVICES, MAX_TEXT, Pool, Slice, SliceSpec};

/// The properties of devices that become attributes or capacity.
pub const PROPERTIES: [&str; 9] = [
    "type",
    "name",
    "vendor",
    "driver_version",
    "version",
    "max_compute_units",
    "global_mem_size",
    "double_fp_config",
    "half_fp_config",
];

/// How the slices of a pool are told from others, and where their devices can be used.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// The driver.
    pub driver: String,
    /// The pool.
    pub pool: String,
    /// The label and value of the nodes that reach the devices; `None`: all do.
    pub nodes: Option<(String, String)>,
}

/// What is to be done to a cluster's slices.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Slices that are there, as they are to be.
    pub replace: Vec<Slice>,
    /// New ones.
    pub create: Vec<Slice>,
    /// The names of those that are not wanted.
    pub delete: Vec<String>,
}

/// The devices that can be had now, or so many shares of each: those of servers that are connected, of which nobody else
/// has anything.
pub fn devices(servers: &[PoolServer], shares: u16) -> Vec<Device> {
    let online = servers.iter().filter(|server| server.online);
    let all = online.flat_map(|server| {
        let numbered = server.devices.iter().enumerate().filter(|(_, device)| device.others == 0);
        numbered.flat_map(move |(number, device)| {
            let name = names::device(&server.name, &server.key, number);
            let part = move |name| Device {
                name,
                attributes: attributes(server, &device.properties, shares),
                capacity: memory(&device.properties, shares),
            };
            names::shares(&name, shares).into_iter().map(part)
        })
    });
    let mut devices: Vec<Device> = all.collect();
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    devices
}

fn attributes(server: &PoolServer, properties: &Properties, shares: u16) -> BTreeMap<String, Attribute> {
    let mut attributes = BTreeMap::new();
    let mut add = |name: &str, attribute: Attribute| attributes.insert(name.to_owned(), attribute);
    add("server", Attribute::String(shortened(&server.name)));
    add("shares", Attribute::Int(shares.into()));
    let kind = match properties.get("type") {
        Some(Value::List(kinds)) => kinds.first(),
        other => other,
    };
    for (name, value) in [
        ("type", kind),
        ("name", properties.get("name")),
        ("vendor", properties.get("vendor")),
        ("driverVersion", properties.get("driver_version")),
    ] {
        if let Some(Value::Text(text)) = value {
            add(name, Attribute::String(shortened(text)));
        }
    }
    if let Some(version) = properties.get("version").and_then(|value| version(&value.to_string())) {
        add("openclVersion", Attribute::Version(version));
    }
    if let Some(Value::Number(units)) = properties.get("max_compute_units") {
        add("computeUnits", Attribute::Int(i64::try_from(*units).unwrap_or(i64::MAX)));
    }
    for (name, property) in [("fp64", "double_fp_config"), ("fp16", "half_fp_config")] {
        let has = matches!(properties.get(property), Some(Value::Number(bits)) if *bits != 0);
        add(name, Attribute::Bool(has));
    }
    attributes
}

fn memory(properties: &Properties, shares: u16) -> BTreeMap<String, Capacity> {
    match properties.get("global_mem_size") {
        Some(Value::Number(bytes)) => {
            [("memory".to_owned(), Capacity { value: quantity(bytes / u64::from(shares)) })].into()
        }
        _ => BTreeMap::new(),
    }
}

/// A size in the one form in which the API server writes it, down to the last whole KiB: otherwise what it gives back
/// were another text than what it got.
fn quantity(bytes: u64) -> String {
    let (mut number, mut unit) = (bytes >> 10, 0);
    if number == 0 {
        return "0".to_owned();
    }
    while number.is_multiple_of(1 << 10) && unit < 5 {
        (number, unit) = (number >> 10, unit + 1);
    }
    format!("{number}{}", ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][unit])
}

/// A semantic version of the `OpenCL 3.0 ...` of a device.
fn version(text: &str) -> Option<String> {
    let word = text.split_whitespace().find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()))?;
    let (major, minor) = word.split_once('.')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(format!("{major}.{minor}.0"))
}

fn shortened(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim().to_owned()
}

/// What makes these slices of a pool have exactly these devices; nothing, where they have.
///
/// All slices of a pool have the same generation, and the number of slices: the scheduler takes devices only from a pool
/// whose latest generation is whole.
pub fn plan(place: &Place, devices: Vec<Device>, there: Vec<Slice>) -> Plan {
    let count = devices.len().div_ceil(MAX_DEVICES);
    let is_ours = |slice: &Slice| slice.spec.driver == place.driver && slice.spec.pool.name == place.pool;
    let mut there: Vec<Slice> = there.into_iter().filter(is_ours).collect();
    there.sort_by(|a, b| first(&a.spec).cmp(first(&b.spec)));
    let latest = there.iter().map(|slice| slice.spec.pool.generation).max().unwrap_or(0);
    let specs = |generation: i64| {
        devices.chunks(MAX_DEVICES).map(move |chunk| SliceSpec {
            driver: place.driver.clone(),
            pool: Pool { name: place.pool.clone(), generation, resource_slice_count: count },
            all_nodes: place.nodes.is_none().then_some(true),
            node_selector: place.nodes.as_ref().map(selector),
            devices: chunk.to_vec(),
        })
    };
    if there.len() == count && specs(latest).eq(there.iter().map(|slice| slice.spec.clone())) {
        return Plan::default();
    }
    let mut plan = Plan::default();
    let mut left = there.into_iter();
    for spec in specs(latest + 1) {
        match left.next() {
            Some(slice) => plan.replace.push(Slice { spec, ..slice }),
            None => {
                let prefix = format!("{}-{}-", place.driver, place.pool).replace('/', "-");
                plan.create.push(Slice { metadata: json!({"generateName": prefix}), spec });
            }
        }
    }
    plan.delete = left.map(|slice| slice.name().to_owned()).collect();
    plan
}

fn first(spec: &SliceSpec) -> &str {
    spec.devices.first().map_or("", |device| &device.name)
}

fn selector((label, value): &(String, String)) -> serde_json::Value {
    let requirement = json!({"key": label, "operator": "In", "values": [value]});
    json!({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use ropeway_lease::messages::PoolDevice;

    fn place() -> Place {
        Place { driver: "ropeway.io".into(), pool: "rack".into(), nodes: None }
    }

    fn server(key: &str, devices: usize) -> PoolServer {
        let properties: Properties = serde_json::from_value(json!({
            "type": ["gpu"], "name": "H200 ".repeat(20), "vendor": "NVIDIA Corporation", "version": "OpenCL 3.0 CUDA",
            "driver_version": "580.159.03", "max_compute_units": 132, "global_mem_size": 150_u64 << 30,
            "double_fp_config": 63, "half_fp_config": 0
        }))
        .unwrap();
        let device = || PoolDevice { properties: properties.clone(), others: 0 };
        PoolServer {
            name: "rack7".into(),
            key: key.into(),
            online: true,
            devices: (0..devices).map(|_| device()).collect(),
        }
    }

    /// The slices after what a plan says, as the API server has them then.
    fn after(there: Vec<Slice>, plan: Plan) -> Vec<Slice> {
        let mut slices: Vec<_> = there
            .into_iter()
            .filter(|slice| !plan.delete.contains(&slice.name().to_owned()))
            .map(|slice| {
                let new = plan.replace.iter().find(|new| new.metadata == slice.metadata);
                new.expect("all that stay are replaced, as the generation is another").clone()
            })
            .collect();
        for (number, mut slice) in plan.create.into_iter().enumerate() {
            let generation = slice.spec.pool.generation;
            let prefix = slice.metadata["generateName"].as_str().unwrap().to_owned();
            slice.metadata = json!({"name": format!("{prefix}{generation}-{number}")});
            slices.push(slice);
        }
        slices
    }

    #[test]
    fn a_device_says_what_it_is() {
        let device = serde_json::to_value(&devices(&[server("k", 1)], 1)[0]).unwrap();
        let name = names::device("rack7", "k", 0);
        let attributes = json!({
            "type": {"string": "gpu"}, "server": {"string": "rack7"}, "vendor": {"string": "NVIDIA Corporation"},
            "name": {"string": "H200 ".repeat(13).trim()}, "driverVersion": {"string": "580.159.03"},
            "openclVersion": {"version": "3.0.0"}, "shares": {"int": 1}, "computeUnits": {"int": 132},
            "fp64": {"bool": true}, "fp16": {"bool": false}
        });
        let capacity = json!({"memory": {"value": "150Gi"}});
        assert_eq!(device, json!({"name": name, "attributes": attributes, "capacity": capacity}));
        let quarters = devices(&[server("k", 1)], 4);
        assert_eq!(quarters.len(), 4);
        assert_eq!(quarters[2].name, format!("{name}-3of4"));
        assert_eq!(quarters[2].capacity["memory"].value, "38400Mi");
        assert_eq!(quarters[2].attributes["shares"], Attribute::Int(4));
        for (bytes, text) in [(0, "0"), (1023, "0"), (1025, "1Ki"), (12_000_000_000, "11718750Ki"), (1 << 60, "1Ei")] {
            assert_eq!(quantity(bytes), text);
        }
        assert_eq!(shortened(&"\u{20ac}".repeat(30)).len(), 63);
        assert_eq!(version("OpenCL 1.2 pocl"), Some("1.2.0".into()));
        assert_eq!(version("OpenCL x"), None);
    }

    #[test]
    fn only_what_can_be_had_is_told() {
        let mut servers = [server("a", 2), server("b", 2)];
        assert_eq!(devices(&servers, 1).len(), 4);
        servers[0].devices[1].others = 250;
        assert_eq!(devices(&servers, 1).len(), 3);
        servers[1].online = false;
        assert_eq!(devices(&servers, 1).len(), 1);
    }

    #[test]
    fn slices_come_to_what_there_is_with_one_generation() {
        let mut there = Vec::new();
        let mut before = 0;
        for (devices_there, slices) in [(300, 3), (129, 2), (1, 1), (0, 0), (128, 1), (256, 2)] {
            let devices = devices(&[server("k", devices_there)], 1);
            let made = plan(&place(), devices.clone(), there.clone());
            assert_ne!(made, Plan::default());
            there = after(there, made);
            assert_eq!(there.len(), slices);
            let generations: Vec<_> = there.iter().map(|slice| slice.spec.pool.generation).collect();
            assert!(generations.windows(2).all(|two| two[0] == two[1]), "{generations:?}");
            // Where no slice is left, there is nothing that an earlier generation could be taken for.
            assert!(generations.first().is_none_or(|generation| *generation > before));
            before = generations.first().copied().unwrap_or(0);
            assert!(there.iter().all(|slice| slice.spec.pool.resource_slice_count == slices));
            let told: Vec<_> = there.iter().flat_map(|slice| slice.spec.devices.clone()).collect();
            assert_eq!(told.len(), devices.len());
            assert!(devices.iter().all(|device| told.contains(device)));
            there.reverse();
            assert_eq!(plan(&place(), devices, there.clone()), Plan::default(), "nothing is left to do");
        }
    }

    #[test]
    fn other_drivers_and_pools_are_left_alone() {
        let mut other = after(Vec::new(), plan(&place(), devices(&[server("k", 1)], 1), Vec::new()));
        other[0].spec.pool.name = "other".into();
        let made = plan(&place(), Vec::new(), other.clone());
        assert_eq!(made, Plan::default());
        let made = plan(&place(), devices(&[server("k", 1)], 1), other);
        assert_eq!((made.create.len(), made.replace.len(), made.delete.len()), (1, 0, 0));
    }

    #[test]
    fn nodes_that_reach_the_devices_can_be_named() {
        let nodes = Some(("zone".to_owned(), "a".to_owned()));
        let made = plan(&Place { nodes, ..place() }, devices(&[server("k", 1)], 1), Vec::new());
        let spec = serde_json::to_value(&made.create[0].spec).unwrap();
        assert_eq!(spec.get("allNodes"), None);
        let expected = json!({"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        ]});
        assert_eq!(spec["nodeSelector"], expected);
    }
}
