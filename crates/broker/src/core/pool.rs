//! The devices of all servers, and what of them is free.

use std::collections::{BTreeMap, HashMap};
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
    /// What it says of itself: the place of its model.
    model: u32,
    /// The bytes of its memory; of one that does not say how many it has, none.
    pub memory: u64,
    /// The share of its time that nobody has.
    pub free: Share,
    /// The bytes of its memory that nobody has.
    pub free_memory: u64,
    /// Who has it, and how much: the share, and the bytes.
    pub leases: Vec<(LeaseId, Share, u64)>,
    /// Whether it is counted among its server's that are lent.
    is_counted: bool,
}

/// Devices that say the same of themselves.
#[derive(Debug)]
struct Model {
    properties: Properties,
    devices: FixedBitSet,
}

/// What the devices that servers have come to, connected or not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// How many there are.
    pub devices: u64,
    /// The bytes of their memory.
    pub memory: u64,
}

/// All servers and their devices.
#[derive(Default, Debug)]
pub struct Pool {
    servers: Vec<Server>,
    by_key: HashMap<String, ServerIndex>,
    devices: Vec<Device>,
    /// Of each device.
    server_of: Vec<ServerIndex>,
    /// The devices that can be lent whole now.
    whole: FixedBitSet,
    /// The devices of which some can be lent now.
    some: FixedBitSet,
    /// The devices of servers of which something is lent.
    begun: FixedBitSet,
    /// How many devices of each server are lent, in part or whole.
    lent: Vec<u32>,
    models: Vec<Model>,
    by_properties: BTreeMap<Properties, u32>,
    /// Counts how often devices came or went.
    generation: u64,
    totals: Totals,
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
                // Requests name servers.
                self.generation += u64::from(known.about.name != about.name);
                known.about = about;
                known.online = online;
            }
            known => {
                let before = known.map(|known| known.devices.clone()).unwrap_or_default();
                // Nobody finds those any more.
                for place in before {
                    self.remove(place);
                }
                let devices = self.add(index, &about.devices);
                match self.servers.get_mut(index.0 as usize) {
                    Some(known) => {
                        known.devices = devices;
                        known.about = about;
                        known.online = online;
                    }
                    None => {
                        self.servers.push(Server { about, devices, online, strays: Vec::new() });
                        self.lent.push(0);
                    }
                }
                self.generation += 1;
            }
        }
        self.look_at(index);
        (index, !is_same)
    }

    /// Adds a server's devices; returns their places.
    fn add(&mut self, server: ServerIndex, devices: &[Properties]) -> Range<u32> {
        let start = self.devices.len() as u32;
        let end = start + devices.len() as u32;
        for set in [&mut self.whole, &mut self.some, &mut self.begun] {
            set.grow(end as usize);
        }
        for (number, properties) in (0..).zip(devices) {
            let model = self.model_of(properties);
            let device = Device::new(server, number, properties, model);
            self.models[model as usize].devices.grow(end as usize);
            self.models[model as usize].devices.insert(self.devices.len());
            self.totals.devices += 1;
            self.totals.memory += device.memory;
            self.devices.push(device);
            self.server_of.push(server);
        }
        start..end
    }

    /// Takes a device out, though leases on it go on until they have ended.
    fn remove(&mut self, place: u32) {
        let device = &self.devices[place as usize];
        self.models[device.model as usize].devices.set(place as usize, false);
        self.totals.devices -= 1;
        self.totals.memory -= device.memory;
        for set in [&mut self.whole, &mut self.some, &mut self.begun] {
            set.set(place as usize, false);
        }
    }

    fn model_of(&mut self, properties: &Properties) -> u32 {
        if let Some(model) = self.by_properties.get(properties) {
            return *model;
        }
        let model = self.models.len() as u32;
        self.models.push(Model { properties: properties.clone(), devices: FixedBitSet::new() });
        self.by_properties.insert(properties.clone(), model);
        model
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

    /// How many places of devices there are, those among them whose devices are gone.
    pub fn places(&self) -> u32 {
        self.devices.len() as u32
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

    /// Counts how often devices came or went: what was reckoned from their properties is true as long as it stays.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What the devices come to.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// What a device says of itself.
    pub fn properties(&self, index: DeviceIndex) -> &Properties {
        &self.models[self.device(index).model as usize].properties
    }

    /// Whether any device's properties are such.
    fn has_any(&self, is_such: impl Fn(&Properties) -> bool) -> bool {
        self.models.iter().any(|model| !model.devices.is_clear() && is_such(&model.properties))
    }

    /// Whether a device's server is connected, and still has it.
    pub fn is_online(&self, index: DeviceIndex) -> bool {
        let server = self.server(self.device(index).server);
        server.online.is_some() && server.devices.contains(&index.0)
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

    /// The devices that a group can use at all, whatever is lent of them.
    pub fn usable(&self, group: &Group) -> FixedBitSet {
        let mut usable = FixedBitSet::with_capacity(self.devices.len());
        if group.names_places() {
            usable.extend(self.at(group).filter(|place| group.takes(self.properties(DeviceIndex(*place as u32)))));
            return usable;
        }
        for model in self.models.iter().filter(|model| group.takes(&model.properties)) {
            usable.union_with(&model.devices);
        }
        usable
    }

    /// The places of the devices that are where a group says, whatever their properties.
    fn at(&self, group: &Group) -> impl Iterator<Item = usize> {
        let there = self.servers.iter().filter(|server| group.takes_server(&server.about.name, &server.about.key));
        there.flat_map(|server| {
            let numbered = (0..).zip(server.devices.clone());
            numbered.filter(|(number, _)| group.takes_device(*number)).map(|(_, place)| place as usize)
        })
    }

    /// Whether any device meets a condition.
    pub fn has_any_with(&self, condition: &Condition) -> bool {
        if !condition.is_place() {
            return self.has_any(|properties| condition.holds(properties));
        }
        let on = |server: &Server| condition.holds_for_server(&server.about.name, &server.about.key);
        let mut numbers = self.servers.iter().filter(|server| on(server)).map(|server| 0..server.devices.len() as u32);
        numbers.any(|mut numbers| numbers.any(|number| condition.holds_for_device(number)))
    }

    /// Of these devices, those that a group can have now, in the order of their places.
    pub fn free_for(&self, group: &Group, usable: &FixedBitSet, blocked: Option<&FixedBitSet>) -> Vec<DeviceIndex> {
        let free = if group.share == WHOLE { &self.whole } else { &self.some };
        let found = in_order(usable, free, |at| !word_of(blocked, at));
        found.filter(|device| self.has_enough(*device, group)).collect()
    }

    /// Of these devices, those that nobody has any of: of servers of which something is lent before others, so that as
    /// many servers as possible stay whole.
    pub fn whole_of<'a>(
        &'a self,
        usable: &'a FixedBitSet,
        blocked: Option<&'a FixedBitSet>,
    ) -> impl Iterator<Item = DeviceIndex> + 'a {
        let begun = |at: usize| self.begun.as_slice()[at];
        let on = in_order(usable, &self.whole, move |at| begun(at) & !word_of(blocked, at));
        on.chain(in_order(usable, &self.whole, move |at| !begun(at) & !word_of(blocked, at)))
    }

    /// The same, server after server.
    pub fn whole_in_order<'a>(
        &'a self,
        usable: &'a FixedBitSet,
        blocked: Option<&'a FixedBitSet>,
    ) -> impl Iterator<Item = DeviceIndex> + 'a {
        in_order(usable, &self.whole, move |at| !word_of(blocked, at))
    }

    /// Of these devices, those of which somebody has some, but which a group can have now.
    pub fn begun_for<'a>(
        &'a self,
        group: &'a Group,
        usable: &'a FixedBitSet,
        blocked: Option<&'a FixedBitSet>,
    ) -> impl Iterator<Item = DeviceIndex> + 'a {
        let whole = self.whole.as_slice();
        let begun = in_order(usable, &self.some, move |at| !whole[at] & !word_of(blocked, at));
        begun.filter(|device| self.has_enough(*device, group))
    }

    /// How many of these devices somebody could have now, in part or whole.
    pub fn count_free(&self, share: Share, usable: &FixedBitSet) -> usize {
        let free = if share == WHOLE { &self.whole } else { &self.some };
        usable.intersection_count(free)
    }

    /// The server of a device.
    pub fn server_of(&self, index: DeviceIndex) -> ServerIndex {
        self.server_of[index.0 as usize]
    }

    /// Whether so much of a device is free.
    fn has_enough(&self, index: DeviceIndex, group: &Group) -> bool {
        let device = self.device(index);
        device.free >= group.share && device.free_memory >= group.memory_of(device.memory)
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
        let lent = device.leases.iter().map(|(_, share, memory)| (*share, *memory));
        (device.free, device.free_memory) = lent.fold((WHOLE, device.memory), |(free, bytes), (share, memory)| {
            (free.saturating_sub(share), bytes.saturating_sub(memory))
        });
        let (whole, some, server) = (device.leases.is_empty(), device.free > 0, device.server);
        self.whole.set(index.0 as usize, is_lendable && whole);
        self.some.set(index.0 as usize, is_lendable && some);
        self.count_lent(index, server, !whole);
    }

    /// Keeps count of how many devices of a server are lent.
    fn count_lent(&mut self, index: DeviceIndex, server: ServerIndex, is_lent: bool) {
        let device = &mut self.devices[index.0 as usize];
        if std::mem::replace(&mut device.is_counted, is_lent) == is_lent {
            return;
        }
        let lent = &mut self.lent[server.0 as usize];
        *lent = if is_lent { *lent + 1 } else { *lent - 1 };
        let (is_begun, devices) = (*lent > 0, self.servers[server.0 as usize].devices.clone());
        self.begun.set_range(devices.start as usize..devices.end as usize, is_begun);
    }
}

/// Bits in a word of a set.
const BITS: usize = usize::BITS as usize;

/// The devices in both sets, and in a third, of which `also` gives the words.
fn in_order<'a>(
    usable: &'a FixedBitSet,
    free: &'a FixedBitSet,
    also: impl Fn(usize) -> usize + 'a,
) -> impl Iterator<Item = DeviceIndex> + 'a {
    let words = usable.as_slice().iter().zip(free.as_slice()).enumerate();
    words.flat_map(move |(at, (usable, free))| {
        let mut word = usable & free & also(at);
        std::iter::from_fn(move || {
            let place = (word != 0).then(|| DeviceIndex((at * BITS) as u32 + word.trailing_zeros()))?;
            word &= word - 1;
            Some(place)
        })
    })
}

/// A word of a set that may not be there.
fn word_of(set: Option<&FixedBitSet>, at: usize) -> usize {
    set.and_then(|set| set.as_slice().get(at)).copied().unwrap_or(0)
}

impl Device {
    fn new(server: ServerIndex, number: u32, properties: &Properties, model: u32) -> Self {
        let name = match properties.get("name") {
            Some(Value::Text(name)) => name.clone(),
            _ => format!("device {number}"),
        };
        let memory = memory_of(properties).unwrap_or(0);
        let (free, free_memory, leases) = (WHOLE, memory, Vec::new());
        Self { server, number, name, model, memory, free, free_memory, leases, is_counted: false }
    }
}
