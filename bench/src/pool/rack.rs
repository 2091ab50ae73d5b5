//! Servers that register, and clients that ask.

use std::time::Duration;

use ropeway_broker::core::{Broker, Peer, Settings, User};
use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::{Ask, LeaseAsk, Registration, VERSION};
use ropeway_lease::want::Want;

/// How many servers there are.
pub const SERVERS: u64 = 1000;

/// How many devices each has.
pub const DEVICES: u64 = 8;

/// A broker with all servers, which are the peers from 0 on.
///
/// # Errors
/// The properties of its devices cannot be read.
pub fn broker(now: Duration) -> Result<Broker, String> {
    let mut broker = Broker::new(Settings::default(), Vec::new(), Vec::new(), LeaseId(0), now);
    for number in 0..SERVERS {
        // Unlike machines: four kinds of GPUs, of which each server has two.
        let device = |at: u64| {
            let model = (number % 4 + at % 2) % 4;
            let json = format!(
                r#"{{"type":["gpu"],"name":"GPU {model}","global_mem_size":{},"max_compute_units":{}}}"#,
                (16 + 32 * model) << 30,
                64 + model
            );
            serde_json::from_str(&json).map_err(|e| e.to_string())
        };
        let peer = Peer(number);
        broker.connected(peer, User { name: format!("rack {number}"), registers: true });
        hello(&mut broker, peer, now);
        let registration = Registration {
            name: format!("rack {number}"),
            key: format!("key of rack {number}"),
            address: format!("tls://rack{number}:7590"),
            devices: (0..DEVICES).map(device).collect::<Result<_, String>>()?,
            leases: Vec::new(),
        };
        broker.ask(peer, Ask::Register(registration), now);
    }
    broker.decide(now);
    Ok(broker)
}

/// A client that has said hello.
pub fn client(broker: &mut Broker, number: u64, user: u64, now: Duration) -> Peer {
    let peer = Peer(SERVERS + number);
    broker.connected(peer, User { name: format!("user {user}"), registers: false });
    hello(broker, peer, now);
    peer
}

fn hello(broker: &mut Broker, peer: Peer, now: Duration) {
    broker.ask(peer, Ask::Hello { version: VERSION, release: "bench".into(), program: "bench".into() }, now);
}

/// A request that waits for ever.
pub fn ask(want: Want, key: &str) -> LeaseAsk {
    LeaseAsk { want, key: key.to_owned(), for_ms: None, wait_ms: None, priority: 0, expected_ms: None }
}
