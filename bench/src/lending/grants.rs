//! From a request to its lease, and from many clients' deaths to free devices.

use std::time::{Duration, Instant};

use ropeway_lease::connection::Connection;
use ropeway_lease::messages::{Ask, LeaseAsk, Tell};
use ropeway_transport::tls::Identity;

use super::house::{ANSWER, House, devices};
use crate::setup::Bench;
use crate::table::{Reach, Row};

const GRANTS: [(&str, f64); 2] = [
    ("lending: request to lease, on the disk, median", 2.0),
    ("lending: request to lease, on the disk, 99 of 100", 10.0),
];

const DEATHS: &str = "lending: 1,000 clients are killed at once: all devices free after";

/// How many clients die.
const CLIENTS: usize = 1000;

/// Measures the wanted rows; a failure becomes the error of its row.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    let row = |figure, unit, ropeway, limit| Row::without_floor(figure, unit, ropeway, None, Reach::AtMost(limit), "");
    let mut rows = Vec::new();
    if GRANTS.iter().any(|(figure, _)| figure.contains(&bench.only)) {
        say(GRANTS[0].0);
        let times = match granting(bench) {
            Ok(times) => times.map(Ok),
            Err(why) => [Err(why.clone()), Err(why)],
        };
        let all = GRANTS.into_iter().zip(times).filter(|((figure, _), _)| figure.contains(&bench.only));
        rows.extend(all.map(|((figure, limit), time)| row(figure, "ms", time, limit)));
    }
    if DEATHS.contains(&bench.only) {
        say(DEATHS);
        rows.push(row(DEATHS, "s", dying(bench), 5.0));
    }
    rows
}

/// Asks for a device, and waits until there is a lease.
fn lease(connection: &mut Connection, want: &str, key: &str) -> Result<Tell, String> {
    let ask = LeaseAsk {
        want: want.parse()?,
        key: key.to_owned(),
        for_ms: None,
        wait_ms: None,
        priority: 0,
        expected_ms: None,
    };
    match connection.ask(&Ask::Lease(ask), ANSWER).map_err(|error| error.to_string())? {
        granted @ Tell::Granted(_) => Ok(granted),
        other => Err(format!("the broker says {other:?} instead of granting a lease")),
    }
}

/// The median and the hundredth largest part of the times of requests for a free device, in milliseconds.
fn granting(bench: &Bench) -> Result<[f64; 2], String> {
    let mut house = House::start(bench, "grants")?;
    house.add_servers(4, 8)?;
    let mut connection = house.connect(&house.ticket("client", &[])?)?;
    let key = Identity::generate().map_err(|error| error.to_string())?.public().text();
    let mut times = Vec::new();
    for _ in 0..bench.rounds(500) {
        let begun = Instant::now();
        let granted = lease(&mut connection, "gpu, memory>=40G", &key)?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        let Tell::Granted(granted) = granted else { continue };
        connection.ask(&Ask::Release { lease: granted.lease }, ANSWER).map_err(|error| error.to_string())?;
    }
    times.sort_by(f64::total_cmp);
    Ok([times[times.len() / 2], times[times.len() * 99 / 100]])
}

/// How long it takes until everything is free again, in seconds, once the connections of all holders have broken.
fn dying(bench: &Bench) -> Result<f64, String> {
    let mut house = House::start(bench, "deaths")?;
    house.add_servers(16, 8)?;
    let ticket = house.ticket("client", &[])?;
    let key = Identity::generate().map_err(|error| error.to_string())?.public().text();
    let mut holders = Vec::new();
    let mut beats = Instant::now();
    for _ in 0..CLIENTS {
        let mut connection = house.connect(&ticket)?;
        lease(&mut connection, "gpu, share=0.125", &key)?;
        holders.push(connection);
        // Those that hold their leases already are not silent meanwhile.
        if beats.elapsed() > Duration::from_millis(200) {
            for holder in &mut holders {
                let _ = holder.next_by(Instant::now());
            }
            beats = Instant::now();
        }
    }
    let mut watcher = house.connect(&ticket)?;
    let lent = devices(&mut watcher)?.iter().map(|line| line.leases.len()).sum::<usize>();
    if lent != CLIENTS {
        return Err(format!("{lent} of {CLIENTS} leases are there"));
    }
    let begun = Instant::now();
    drop(holders);
    while devices(&mut watcher)?.iter().any(|line| !line.leases.is_empty()) {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err("devices are still lent after 60 s".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(begun.elapsed().as_secs_f64())
}
