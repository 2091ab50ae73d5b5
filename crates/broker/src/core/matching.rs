//! Which devices go to which groups of a request, where several groups could use the same ones: all possibilities are
//! looked through, so that an assignment is found where there is one.
//!
//! Groups whose devices may be anywhere, or each on another server, are a flow: from a group, through a server where
//! that matters, to the devices. A group on one server is tried on each server that has enough; of servers that are
//! alike for the request, one is tried. How many groups of that kind fit beside each other is as hard as packing, so
//! that the search has a bound, which requests of people and programs do not come near.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ropeway_lease::want::{Group, MAX_GROUPS, Placement};

use super::pool::{DeviceIndex, ServerIndex};

/// Most servers that are tried for the groups of one request.
const MAX_TRIES: u32 = 4096;

/// Which groups could use a device, one bit each.
type Mask = u32;
const _: () = assert!(MAX_GROUPS <= Mask::BITS as usize);

/// Devices that are alike for a request.
#[derive(Debug)]
struct Kind {
    server: ServerIndex,
    mask: Mask,
    devices: Vec<DeviceIndex>,
}

struct Search<'a> {
    groups: &'a [Group],
    kinds: Vec<Kind>,
    /// For each group that is to be on one server: the server, once it is chosen.
    chosen: Vec<Option<ServerIndex>>,
    tries: u32,
}

/// Devices for each group, each for one; `None` if there are too few. `free` has those that each can use.
pub fn assign(
    groups: &[Group],
    free: &[Vec<DeviceIndex>],
    server_of: impl Fn(DeviceIndex) -> ServerIndex,
) -> Option<Vec<Vec<DeviceIndex>>> {
    let mut masks: BTreeMap<DeviceIndex, Mask> = BTreeMap::new();
    for (at, devices) in free.iter().enumerate() {
        for device in devices {
            *masks.entry(*device).or_default() |= 1 << at;
        }
    }
    let wanted: usize = groups.iter().map(|group| group.count as usize).sum();
    if masks.len() < wanted {
        return None;
    }
    let anywhere = groups.iter().all(|group| group.placement == Placement::Any);
    let mut kinds: BTreeMap<(ServerIndex, Mask), Vec<DeviceIndex>> = BTreeMap::new();
    for (device, mask) in masks {
        let server = if anywhere { ServerIndex(0) } else { server_of(device) };
        kinds.entry((server, mask)).or_default().push(device);
    }
    let kinds = kinds.into_iter().map(|((server, mask), devices)| Kind { server, mask, devices }).collect();
    let mut search = Search { groups, kinds, chosen: vec![None; groups.len()], tries: 0 };
    let mut flows = search.flow()?;
    let on_one: Vec<usize> = (0..groups.len()).filter(|at| groups[*at].placement == Placement::OneServer).collect();
    if !on_one.is_empty() {
        flows = search.try_servers(&on_one)?;
    }
    let mut left: Vec<VecDeque<DeviceIndex>> = search.kinds.iter().map(|kind| kind.devices.clone().into()).collect();
    let mut take = |flow: Vec<(usize, u32)>| -> Vec<DeviceIndex> {
        flow.into_iter().flat_map(|(kind, count)| left[kind].drain(..count as usize).collect::<Vec<_>>()).collect()
    };
    Some(flows.into_iter().map(&mut take).collect())
}

/// For each group, how many of which kind.
type Flows = Vec<Vec<(usize, u32)>>;

impl Search<'_> {
    /// Tries servers for these groups, one after the other.
    fn try_servers(&mut self, on_one: &[usize]) -> Option<Flows> {
        let Some((first, rest)) = on_one.split_first() else { return self.flow() };
        for server in self.candidates(*first) {
            self.tries += 1;
            if self.tries > MAX_TRIES {
                return None;
            }
            self.chosen[*first] = Some(server);
            // The others may be anywhere for now: if that is not enough, no choice for them is.
            if self.flow().is_some()
                && let Some(flows) = self.try_servers(rest)
            {
                return Some(flows);
            }
            self.chosen[*first] = None;
        }
        None
    }

    /// The servers that could do for a group, one of those that are alike; those with the fewest devices first.
    fn candidates(&self, group: usize) -> Vec<ServerIndex> {
        let mut servers: Vec<(u32, ServerIndex)> = Vec::new();
        let mut seen: HashMap<Vec<(Mask, usize)>, ()> = HashMap::new();
        for kinds in self.kinds.chunk_by(|a, b| a.server == b.server) {
            let server = kinds[0].server;
            let fitting = kinds.iter().filter(|kind| kind.mask & (1 << group) != 0);
            let there: usize = fitting.map(|kind| kind.devices.len()).sum();
            if there < self.groups[group].count as usize {
                continue;
            }
            let alike = kinds.iter().map(|kind| (kind.mask, kind.devices.len())).collect();
            if self.chosen.contains(&Some(server)) || seen.insert(alike, ()).is_none() {
                servers.push((there as u32, server));
            }
        }
        servers.sort();
        servers.into_iter().map(|(_, server)| server).collect()
    }

    /// Whether a group can use a kind, as servers are chosen.
    fn fits(&self, group: usize, kind: &Kind) -> bool {
        kind.mask & (1 << group) != 0 && self.chosen[group].is_none_or(|server| server == kind.server)
    }

    /// As many devices for each group as it wants, if that is possible as servers are chosen: a flow, enlarged by one
    /// way after another as long as there is one.
    fn flow(&self) -> Option<Flows> {
        let mut flow = Flow::default();
        let (source, sink) = (flow.node(), flow.node());
        let kinds: Vec<usize> = self.kinds.iter().map(|_| flow.node()).collect();
        for (kind, node) in self.kinds.iter().zip(&kinds) {
            flow.edge(*node, sink, kind.devices.len() as u32);
        }
        let mut edges = vec![Vec::new(); self.groups.len()];
        let mut wanted = 0;
        for (at, group) in self.groups.iter().enumerate() {
            let node = flow.node();
            flow.edge(source, node, group.count);
            wanted += group.count;
            let mut on: Option<(ServerIndex, usize)> = None;
            for (place, kind) in self.kinds.iter().enumerate().filter(|(_, kind)| self.fits(at, kind)) {
                let from = match (group.placement, on) {
                    (Placement::Spread, Some((server, node))) if server == kind.server => node,
                    (Placement::Spread, _) => {
                        let through = flow.node();
                        flow.edge(node, through, 1);
                        on = Some((kind.server, through));
                        through
                    }
                    _ => node,
                };
                edges[at].push((place, flow.edge(from, kinds[place], u32::MAX)));
            }
        }
        if flow.fill(source, sink) < wanted {
            return None;
        }
        let used = edges.into_iter().map(|edges| {
            let used = edges.into_iter().map(|(kind, edge)| (kind, flow.through(edge)));
            used.filter(|(_, count)| *count > 0).collect()
        });
        Some(used.collect())
    }
}

/// A network with capacities; each edge lies beside its reverse.
#[derive(Default)]
struct Flow {
    edges: Vec<(usize, u32)>,
    of: Vec<Vec<usize>>,
}

impl Flow {
    fn node(&mut self) -> usize {
        self.of.push(Vec::new());
        self.of.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, capacity: u32) -> usize {
        let edge = self.edges.len();
        self.edges.push((to, capacity));
        self.edges.push((from, 0));
        self.of[from].push(edge);
        self.of[to].push(edge + 1);
        edge
    }

    /// How much goes through an edge.
    fn through(&self, edge: usize) -> u32 {
        self.edges[edge + 1].1
    }

    /// Enlarges the flow as far as possible, by the shortest ways; returns how much it is.
    fn fill(&mut self, source: usize, sink: usize) -> u32 {
        let mut all = 0;
        loop {
            let mut by: Vec<Option<usize>> = vec![None; self.of.len()];
            let mut reached = VecDeque::from([source]);
            'search: while let Some(node) = reached.pop_front() {
                for edge in &self.of[node] {
                    let (to, capacity) = self.edges[*edge];
                    if capacity > 0 && to != source && by[to].is_none() {
                        by[to] = Some(*edge);
                        if to == sink {
                            break 'search;
                        }
                        reached.push_back(to);
                    }
                }
            }
            let (mut way, mut at) = (Vec::new(), sink);
            while let Some(edge) = by[at] {
                way.push(edge);
                at = self.edges[edge ^ 1].0;
            }
            let Some(more) = way.iter().map(|edge| self.edges[*edge].1).min() else { return all };
            for edge in way {
                self.edges[edge].1 -= more;
                self.edges[edge ^ 1].1 += more;
            }
            all += more;
        }
    }
}
