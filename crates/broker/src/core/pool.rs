//! The devices of all servers, and what of them is free.

use std::collections::HashMap;
use std::ops::Range;

use fixedbitset::FixedBitSet;
use ropeway_lease::grant::{LeaseId, Share, WHOLE};
use ropeway_lease::messages::Registration;
use ropeway_lease::property::{Properties, Value};
use ropeway_lease::want::{Condition, Group, memory_of};

use super::peer::Peer;

/// A server's place in its pool, for as long as the broker runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerIndex(pub u32);

/// A device's place in its pool. The devices of a server lie one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceIndex(pub u32);

/// Most kinds of requests whose devices are remembered.
const MAX_CLASSES: usize = 4096;

/// A server that has registered.
#[derive(Clone, Debug)]
pub struct Server {
    /// What it has said of itself.
    pub about: Registration,
    /// Its devices' places.
    pub devices: Range<u32>,
    /// Its connection, while it has one.
    pub online: Option<Peer>,
    /// Leases that are over and have sessions there: nothing is lent before these have ended.
    pub strays: Vec<LeaseId>,
}

/// A device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its server.
    pub server: ServerIndex,
    /// Its number there.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// What it says of itself.
    pub properties: Properties,
    /// The share of its time that nobody has.
    pub free: Share,
    /// The bytes of its memory that nobody has; of one that does not say how many it has, none.
    pub free_memory: u64,
    /// Who has it, and how much: the share, and the bytes.
    pub leases: Vec<(LeaseId, Share, u64)>,
}

/// What makes two groups of requests fit the same devices: their conditions, and the memory.
type Class = (Vec<Condition>, Option<u64>);

/// All servers and their devices.
#[derive(Default, Debug)]
pub struct Pool {
    servers: Vec<Server>,
    by_key: HashMap<String, ServerIndex>,
    devices: Vec<Device>,
    /// The devices that can be lent whole now.
    whole: FixedBitSet,
    /// The devices of which some can be lent now.
    some: FixedBitSet,
    /// The devices that each kind of request can use at all; forgotten when devices come or go.
    classes: HashMap<Class, FixedBitSet>,
}

impl Pool {
    /// Takes in a server, or what a known one says of itself now; returns its place, and whether it is another than
    /// before. What was lent of it is still lent, but of devices that are gone.
    pub fn register(&mut self, about: Registration, online: Option<Peer>) -> (ServerIndex, bool) {
        let found = self.by_key.get(&about.key).copied();
        let index = found.unwrap_or_else(|| {
            let index = ServerIndex(self.servers.len() as u32);
            self.by_key.insert(about.key.clone(), index);
            index
        });
        let known = self.servers.get_mut(index.0 as usize);
        let has_same = known.as_ref().is_some_and(|known| known.about.devices == about.devices);
        let is_same = has_same
            && known
                .as_ref()
                .is_some_and(|known| known.about.name == about.name && known.about.address == about.address);
        match known {
            Some(known) if has_same => {
                known.about = about;
                known.online = online;
            }
            known => {
                let start = self.devices.len() as u32;
                self.devices.extend(
                    (0..).zip(&about.devices).map(|(number, properties)| Device::new(index, number, properties)),
                );
                let devices = start..self.devices.len() as u32;
                match known {
                    Some(known) => {
                        let before = std::mem::replace(&mut known.devices, devices);
                        known.about = about;
                        known.online = online;
                        // Nobody finds those any more.
                        for device in before {
                            self.whole.set(device as usize, false);
                            self.some.set(device as usize, false);
                        }
                    }
                    None => self.servers.push(Server { about, devices, online, strays: Vec::new() }),
                }
                self.whole.grow(self.devices.len());
                self.some.grow(self.devices.len());
                self.classes.clear();
            }
        }
        self.look_at(index);
        (index, !is_same)
    }

    /// The connection of a server is lost.
    pub fn went_offline(&mut self, index: ServerIndex) {
        if let Some(server) = self.servers.get_mut(index.0 as usize) {
            server.online = None;
        }
        self.look_at(index);
    }

    /// A server has sessions of this lease, which is over.
    pub fn has_stray(&mut self, index: ServerIndex, lease: LeaseId) {
        if let Some(server) = self.servers.get_mut(index.0 as usize)
            && !server.strays.contains(&lease)
        {
            server.strays.push(lease);
        }
        self.look_at(index);
    }

    /// It has none any more.
    pub fn lost_stray(&mut self, index: ServerIndex, lease: LeaseId) {
        if let Some(server) = self.servers.get_mut(index.0 as usize) {
            server.strays.retain(|stray| *stray != lease);
        }
        self.look_at(index);
    }

    /// The server at a place.
    pub fn server(&self, index: ServerIndex) -> &Server {
        &self.servers[index.0 as usize]
    }

    /// The server with this key.
    pub fn find(&self, key: &str) -> Option<ServerIndex> {
        self.by_key.get(key).copied()
    }

    /// All servers.
    pub fn servers(&self) -> impl Iterator<Item = (ServerIndex, &Server)> {
        (0..).map(ServerIndex).zip(&self.servers)
    }

    /// The device at a place.
    pub fn device(&self, index: DeviceIndex) -> &Device {
        &self.devices[index.0 as usize]
    }

    /// The device with this number and name on a server, if it is there.
    pub fn device_of(&self, server: ServerIndex, number: u32, name: &str) -> Option<DeviceIndex> {
        let devices = &self.server(server).devices;
        let place = devices.start.checked_add(number).filter(|place| devices.contains(place))?;
        (self.devices[place as usize].name == name).then_some(DeviceIndex(place))
    }

    /// The devices that servers have, connected or not.
    pub fn devices(&self) -> impl Iterator<Item = DeviceIndex> {
        self.servers.iter().flat_map(|server| server.devices.clone()).map(DeviceIndex)
    }

    /// Whether some of a device can be lent now.
    pub fn is_lendable(&self, index: DeviceIndex) -> bool {
        let server = self.server(self.device(index).server);
        server.online.is_some() && server.strays.is_empty() && server.devices.contains(&index.0)
    }

    /// Lends some of a device. Whoever asks has seen that it is free, or knows that it was lent before.
    pub fn lend(&mut self, index: DeviceIndex, lease: LeaseId, share: Share, memory: u64) {
        self.devices[index.0 as usize].leases.push((lease, share, memory));
        self.look_at_device(index);
    }

    /// Takes back what a lease has of a device.
    pub fn give_back(&mut self, index: DeviceIndex, lease: LeaseId) {
        self.devices[index.0 as usize].leases.retain(|(has, ..)| *has != lease);
        self.look_at_device(index);
    }

    /// The devices that a group can use at all.
    pub fn usable(&mut self, group: &Group) -> &FixedBitSet {
        if self.classes.len() >= MAX_CLASSES {
            self.classes.clear();
        }
        let class = (group.conditions.clone(), group.memory);
        let (devices, servers) = (&self.devices, &self.servers);
        self.classes.entry(class).or_insert_with(|| {
            let mut usable = FixedBitSet::with_capacity(devices.len());
            for place in servers.iter().flat_map(|server| server.devices.clone()) {
                usable.set(place as usize, group.takes(&devices[place as usize].properties));
            }
            usable
        })
    }

    /// The devices that a group can use now, in the order of their places.
    pub fn free_for(&mut self, group: &Group) -> Vec<DeviceIndex> {
        let takes_whole = group.share == WHOLE;
        self.usable(group);
        let free = if takes_whole { &self.whole } else { &self.some };
        let class = (group.conditions.clone(), group.memory);
        let Some(usable) = self.classes.get(&class) else { return Vec::new() };
        let found = usable.intersection(free).map(|place| DeviceIndex(place as u32));
        let has_enough = |index: &DeviceIndex| {
            let device = &self.devices[index.0 as usize];
            let all = memory_of(&device.properties).unwrap_or(0);
            device.free >= group.share && device.free_memory >= group.memory_of(all)
        };
        found.filter(has_enough).collect()
    }

    fn look_at(&mut self, index: ServerIndex) {
        for place in self.server(index).devices.clone() {
            self.look_at_device(DeviceIndex(place));
        }
    }

    /// Reckons what of a device is free, from what is lent of it.
    fn look_at_device(&mut self, index: DeviceIndex) {
        let is_lendable = self.is_lendable(index);
        let device = &mut self.devices[index.0 as usize];
        let all = memory_of(&device.properties).unwrap_or(0);
        let lent = device.leases.iter().map(|(_, share, memory)| (*share, *memory));
        (device.free, device.free_memory) = lent.fold((WHOLE, all), |(free, bytes), (share, memory)| {
            (free.saturating_sub(share), bytes.saturating_sub(memory))
        });
        let (whole, some) = (device.leases.is_empty(), device.free > 0);
        self.whole.set(index.0 as usize, is_lendable && whole);
        self.some.set(index.0 as usize, is_lendable && some);
    }
}

impl Device {
    fn new(server: ServerIndex, number: u32, properties: &Properties) -> Self {
        let name = match properties.get("name") {
            Some(Value::Text(name)) => name.clone(),
            _ => format!("device {number}"),
        };
        let free_memory = memory_of(properties).unwrap_or(0);
        Self { server, number, name, properties: properties.clone(), free: WHOLE, free_memory, leases: Vec::new() }
    }
}
