//! How long a broker takes to look through a long queue.

use std::time::Duration;

use ropeway_broker::core::{Broker, Effect, Peer};
use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::{Ask, Tell};
use ropeway_lease::want::Want;
use rustix::time::{ClockId, clock_gettime};

use super::rack::{self, DEVICES, SERVERS};
use crate::median::median;

const REQUESTS: u64 = 100_000;

/// How many users the requests are from.
const USERS: u64 = 1000;

/// The processor's time for one look through the queue, in milliseconds: the median of `rounds`. Requests are of so many kinds: of
/// one device and of several, anywhere, on one server and on several, of shares; some say how long they take.
///
/// # Errors
/// What was to be granted was not, or what was to wait did not.
pub fn measure(kinds: u64, is_half_free: bool, rounds: usize) -> Result<f64, String> {
    let mut times = Vec::new();
    for _ in 0..rounds.max(1) {
        times.push(once(kinds, is_half_free)?);
    }
    Ok(median(&mut times))
}

fn once(kinds: u64, is_half_free: bool) -> Result<f64, String> {
    let mut now = Duration::from_secs(1);
    let mut broker = rack::broker(now)?;
    let leases = fill(&mut broker, now)?;
    let wants = (0..kinds).map(want).collect::<Result<Vec<_>, _>>()?;
    for number in 0..REQUESTS {
        let peer = rack::client(&mut broker, SERVERS * DEVICES + number, number % USERS, now);
        let mut ask = rack::ask(wants[(number % kinds) as usize].clone(), "key");
        ask.priority = (number % 3) as i32;
        ask.expected_ms = (number % 4 == 0).then_some(60_000 * (1 + number % 60));
        broker.ask(peer, Ask::Lease(ask), now);
    }
    now += Duration::from_secs(1);
    broker.decide(now);
    if broker.waiting() as u64 != REQUESTS {
        return Err(format!("{} requests wait instead of {REQUESTS}", broker.waiting()));
    }
    // Something becomes free: one device, or half of all.
    let freed: Vec<_> = leases.iter().filter(|(at, _)| if is_half_free { at % 2 == 0 } else { *at == 0 }).collect();
    for (at, lease) in freed {
        broker.ask(Peer(SERVERS + at), Ask::Release { lease: *lease }, now);
    }
    // Each server says that it is clear of what it was told to end.
    for effect in broker.decide(now) {
        if let Effect::Say(server, Tell::End { lease, .. }) = effect {
            broker.ask(server, Ask::Cleared { lease }, now);
        }
    }
    now += Duration::from_secs(1);
    let before = processor_time();
    let effects = broker.decide(now);
    let time = processor_time() - before;
    let granted = effects.iter().filter(|effect| matches!(effect, Effect::Grant(..))).count();
    if granted == 0 || broker.waiting() as u64 != REQUESTS - granted as u64 {
        return Err(format!("{granted} requests were granted, and {} wait", broker.waiting()));
    }
    Ok(time * 1e3)
}

/// The seconds that this thread has had of a processor: what else goes on in the machine does not count.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Lends every device, each by itself. Returns the clients' numbers and leases.
fn fill(broker: &mut Broker, now: Duration) -> Result<Vec<(u64, LeaseId)>, String> {
    let one: Want = "gpu".parse()?;
    for number in 0..SERVERS * DEVICES {
        let peer = rack::client(broker, number, number % USERS, now);
        broker.ask(peer, Ask::Lease(rack::ask(one.clone(), "key")), now);
    }
    let granted = broker.decide(now).into_iter().filter_map(|effect| match effect {
        Effect::Grant(peer, granted) => Some((peer.0 - SERVERS, granted.grant.lease)),
        _ => None,
    });
    let granted: Vec<_> = granted.collect();
    if granted.len() as u64 != SERVERS * DEVICES {
        return Err(format!("{} leases were granted instead of one for each device", granted.len()));
    }
    Ok(granted)
}

/// One of many kinds of requests.
fn want(kind: u64) -> Result<Want, String> {
    let (count, memory) = (1 + kind % 7, kind * 20);
    let conditions = format!("memory>={memory}M, max_compute_units>={}", kind % 64);
    match kind % 5 {
        0 => format!("gpu, {conditions}"),
        1 => format!("{} gpu on one server, {conditions}", count.min(4)),
        2 => format!("{count} gpu on different servers, {conditions}"),
        3 => format!("gpu, share=0.5, {conditions}"),
        _ => format!("{count} gpu, {conditions} and 1 gpu"),
    }
    .parse()
}
