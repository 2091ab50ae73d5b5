//! `ropeway devices`.

use std::time::Duration;

use ropeway_client::config::Config;
use ropeway_client::discover::{Sighting, discover};
use ropeway_transport::Endpoint;

use crate::args::{DevicesArgs, flatten};
use crate::broker;
use crate::failure::Failure;
use crate::info;
use crate::probe::{Measured, Probe, ProbeError};
use crate::table::table;

/// Prints a table of the devices of all servers.
pub fn devices(args: &DevicesArgs) -> Result<(), Failure> {
    if !args.broker.is_empty() {
        return broker::devices(&args.broker);
    }
    let mut config = Config::load();
    for problem in &config.problems {
        eprintln!("ropeway: {problem}");
    }
    config.discover |= args.discover;
    let (servers, strangers) = servers_and_strangers(flatten(&args.servers), &config)?;
    let mut rows = Vec::new();
    let mut failed = 0;
    for (endpoint, result) in open_all(&servers, &config) {
        let result = result.and_then(|mut probe| {
            let measured = if args.no_measure { None } else { Some(probe.measure()?) };
            Ok((probe, measured))
        });
        match result {
            Ok((probe, measured)) => rows.extend(server_rows(&endpoint, &probe, measured)),
            Err(error) => {
                failed += 1;
                eprintln!("ropeway: {endpoint}: {error}; {}", error.advice(&endpoint));
            }
        }
    }
    rows.extend(strangers.iter().map(stranger_row));
    let headings = [
        "SERVER",
        "LINK",
        "LATENCY",
        "TO SERVER",
        "FROM SERVER",
        "TYPE",
        "DEVICE",
        "PLATFORM",
        "UNITS",
        "MEMORY",
        "OPENCL",
    ];
    if !rows.is_empty() {
        for line in table(&headings, &rows) {
            println!("{line}");
        }
    }
    match failed {
        0 => Ok(()),
        1 => Err(Failure::new(format!("1 of {} servers is of no use", servers.len()))),
        n => Err(Failure::new(format!("{n} of {} servers are of no use", servers.len()))),
    }
}

/// Fails where neither the command line nor the configuration names a server.
pub fn require_servers(asked: &[Endpoint], config: &Config) -> Result<(), Failure> {
    if asked.is_empty() && config.servers.is_empty() && !config.discover {
        return Err(Failure::new(
            "no server is configured; give --server URL, or set ROPEWAY_SERVERS or `servers` in ~/.config/ropeway/ropeway.toml",
        ));
    }
    Ok(())
}

/// Returns the servers of the command line, else those configured, plus the trusted ones on the local network if
/// discovery is on; and the untrusted ones found there.
pub fn servers_and_strangers(asked: Vec<Endpoint>, config: &Config) -> Result<(Vec<Endpoint>, Vec<Sighting>), Failure> {
    require_servers(&asked, config)?;
    let mut servers = if asked.is_empty() { config.servers.clone() } else { asked };
    if !config.discover {
        return Ok((servers, Vec::new()));
    }
    let (trusted, strangers): (Vec<_>, Vec<_>) =
        discover(config, Some(&std::env::current_exe()?))?.into_iter().partition(|one| one.trusted.is_some());
    for address in trusted.into_iter().filter_map(|one| one.trusted) {
        if !servers.contains(&address) {
            servers.push(address);
        }
    }
    Ok((servers, strangers))
}

fn stranger_row(stranger: &Sighting) -> Vec<String> {
    let mut row = vec!["-".to_owned(); 11];
    row[0] = stranger.address().to_string();
    row[6] = format!("'{}' is not trusted", stranger.found.name);
    row
}

/// Connects to all servers at once.
pub fn open_all(servers: &[Endpoint], config: &Config) -> Vec<(Endpoint, Result<Probe, ProbeError>)> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = servers.iter().map(|server| scope.spawn(move || Probe::open(server, config))).collect();
        let results = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(ProbeError::Link(std::io::Error::other("a fault in this program"))))
        });
        servers.iter().cloned().zip(results).collect()
    })
}

fn server_rows(endpoint: &Endpoint, probe: &Probe, measured: Option<Measured>) -> Vec<Vec<String>> {
    let link = match measured {
        Some(m) => [duration(m.latency), bandwidth(m.up), bandwidth(m.down)],
        None => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for platform in &probe.welcome.platforms {
        for device in &platform.devices {
            rows.push(vec![
                info::device_type(device).into(),
                info::device_name(device),
                info::platform_name(platform),
                info::compute_units(device),
                info::memory(device),
                info::device_version(device),
            ]);
        }
    }
    if rows.is_empty() {
        rows.push(vec!["-".into(), "no devices".into()]);
    }
    let first = [endpoint.to_string(), probe.medium().to_owned()].into_iter().chain(link).collect::<Vec<_>>();
    let heads = std::iter::once(first).chain(std::iter::repeat(vec![String::new(); 5]));
    heads.zip(rows).map(|(head, row)| [head, row].concat()).collect()
}

fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 1e-3 => format!("{:.0} us", s * 1e6),
        s if s < 0.1 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} ms", s * 1e3),
    }
}

fn bandwidth(bytes_per_second: f64) -> String {
    match bytes_per_second {
        b if b >= 1e9 => format!("{:.1} GB/s", b / 1e9),
        b if b >= 1e7 => format!("{:.0} MB/s", b / 1e6),
        b => format!("{:.2} MB/s", b / 1e6),
    }
}
