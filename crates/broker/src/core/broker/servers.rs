//! Servers, as they register.

use std::time::Duration;

use ropeway_lease::messages::{Registration, Tell};

use super::{Broker, Effect};
use crate::core::leases::Part;
use crate::core::peer::Peer;
use crate::core::pool::ServerIndex;

impl Broker {
    /// Takes in a server.
    pub(super) fn register(&mut self, peer: Peer, about: Registration, now: Duration) {
        let Some(connection) = self.connections.get(&peer) else { return };
        if connection.server.is_some() {
            return self.refuse(peer, "a server has registered on this connection already");
        }
        let before = self.pool.find(&about.key).and_then(|server| self.pool.server(server).online);
        let (strays, about) = (about.leases.clone(), Registration { leases: Vec::new(), ..about });
        let (server, is_new) = self.pool.register(about.clone(), Some(peer));
        if let Some(before) = before {
            // The server has connected again before its old connection was known to be lost.
            self.effects.push(Effect::Close(before));
        }
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.server = Some(server);
        }
        if is_new {
            self.effects.push(Effect::KeepServer(Box::new(about.clone())));
            self.end_what_is_gone(server, now);
        }
        let (mut current, mut over) = (Vec::new(), Vec::new());
        for held in self.leases.on_server(&about.key) {
            match &held.record.over {
                None => current.push((held.record.lease, held.until.saturating_sub(now).as_millis() as u64)),
                Some(why) => over.push((held.record.lease, why.clone())),
            }
        }
        for lease in strays {
            if !current.iter().any(|(known, _)| *known == lease) {
                self.pool.has_stray(server, lease);
                if !over.iter().any(|(known, _)| *known == lease) {
                    over.push((lease, "the broker does not know it any more".to_owned()));
                }
            }
        }
        self.say(peer, Tell::Registered { latest: self.latest, leases: current });
        for (lease, why) in over {
            self.say(peer, Tell::End { lease, why });
        }
        self.is_due = true;
    }

    /// Ends the leases on devices that a server does not have any more.
    fn end_what_is_gone(&mut self, server: ServerIndex, now: Duration) {
        let devices = self.pool.server(server).devices.clone();
        let key = &self.pool.server(server).about.key;
        let is_gone = |part: &Part| self.pool.device(part.device).server == server && !devices.contains(&part.device.0);
        let gone: Vec<_> = self
            .leases
            .on_server(key)
            .filter(|held| held.parts.iter().any(is_gone))
            .map(|held| held.record.lease)
            .collect();
        for lease in gone {
            let name = self.pool.server(server).about.name.clone();
            self.end(lease, &format!("the devices of {name} are others now"), now);
        }
    }
}
