//! A network that is parted: a broker that led does not reach etcd, and some of the servers and clients go on with it, while
//! others come to the one that leads now.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::Dice;
use super::rack::Rack;
use crate::broker::Broker;
use crate::net::{Host, Net};
use crate::valve::Valve;
use crate::wait_for;

/// How long another broker takes to lead on a busy machine.
const TAKES_OVER: Duration = Duration::from_secs(60);

/// The machines of a run.
pub struct Parts {
    /// Each broker's.
    pub brokers: Vec<Host>,
    /// Those of etcd's members.
    pub etcd: Vec<Host>,
    /// Those of servers and clients.
    pub sides: Vec<Host>,
}

impl Parts {
    /// How many machines that are.
    pub const HOSTS: u8 = 8;

    /// Three for brokers, three for etcd, and two for servers and clients.
    pub fn of(net: &Net) -> Self {
        let some = |from: usize, to: usize| (from..to).map(|number| net.host(number).clone()).collect();
        Self { brokers: some(0, 3), etcd: some(3, 6), sides: some(6, 8) }
    }

    /// The machine of a server or client.
    pub(super) fn side(&self, number: u64) -> &Host {
        &self.sides[number as usize % self.sides.len()]
    }

    /// Parts a broker from etcd until another one leads, and then from one side, whose servers connect again at once: they
    /// come to the one that leads now, while the old one still takes them for its own.
    pub(super) fn part(&self, brokers: &[(Broker, Vec<Valve>)], number: usize, racks: &[Arc<Rack>], dice: &mut Dice) {
        let (broker, chosen) = (&self.brokers[number], dice.below(self.sides.len() as u64));
        let side = self.side(chosen);
        self.etcd.iter().for_each(|member| broker.part_from(member));
        let others = || brokers.iter().enumerate().filter(|(other, _)| *other != number);
        wait_for("another broker that leads", TAKES_OVER, || others().any(|(_, (one, _))| one.leads()).then_some(()));
        broker.part_from(side);
        let on_side = (0..).zip(racks).filter(|(number, _)| std::ptr::eq(self.side(*number), side));
        on_side.for_each(|(_, rack)| rack.hang_up());
        self.etcd.iter().for_each(|member| broker.join_with(member));
        thread::sleep(Duration::from_millis(1500 + dice.below(2000)));
        broker.join_with(side);
    }
}
