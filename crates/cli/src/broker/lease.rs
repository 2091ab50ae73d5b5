//! `ropeway lease` and `ropeway queue`.

use std::time::Duration;

use ropeway_lease::connection::BrokerError;
use ropeway_lease::grant::{Share, WHOLE};
use ropeway_lease::host_file;
use ropeway_lease::messages::{Ask, DeviceLine, LeaseLine, Tell};
use ropeway_transport::Endpoint;
use ropeway_transport::tls::Identity;

use super::ask::{ANSWER, brokers, connect, obtain, program, wanted};
use crate::args::{AskArgs, LeaseArgs, LeaseCommand};
use crate::failure::Failure;
use crate::table::table;

/// Gets, lists, renews and releases leases.
pub fn lease(args: &LeaseArgs) -> Result<(), Failure> {
    match &args.command {
        LeaseCommand::New { broker, want, lasts, output } => {
            let identity = Identity::generate()?;
            let ask = wanted(want, Some(*lasts), &identity)?;
            let (_, lease) = obtain(&brokers(broker)?, &program(), ask)?;
            let endpoints = host_file::endpoints(&lease.servers, &lease.certificate, &identity)?;
            match output {
                Some(path) => {
                    host_file::write(path, &endpoints)?;
                    println!("{}", lease.lease);
                }
                None => {
                    eprintln!("ropeway: lease {}", lease.lease);
                    endpoints.iter().map(Endpoint::with_secret).for_each(|line| println!("{line}"));
                }
            }
            Ok(())
        }
        LeaseCommand::List { broker, all } => {
            let rows: Vec<_> = leases(broker, *all)?.iter().map(row).collect();
            table(&COLUMNS, &rows).iter().for_each(|line| println!("{line}"));
            Ok(())
        }
        LeaseCommand::Show { broker, lease } => {
            let leases = leases(broker, true)?;
            let line = leases.iter().find(|line| line.lease == *lease);
            let line = line.ok_or_else(|| Failure::new(format!("the broker has no lease {lease}")))?;
            COLUMNS.iter().zip(row(line)).for_each(|(column, value)| println!("{:10} {value}", column.to_lowercase()));
            Ok(())
        }
        LeaseCommand::Renew { broker, lease, lasts, output } => {
            let for_ms = lasts.map(|time| time.as_millis() as u64);
            let renewed = connect(broker)?.ask(&Ask::Renew { lease: *lease, for_ms }, ANSWER)?;
            let Tell::Renewed { certificate, lasts_ms, .. } = renewed else {
                return Err(BrokerError::strange().into());
            };
            if let Some(path) = output {
                host_file::renew(path, &certificate)?;
            }
            println!("Lease {lease} lasts {} from now.", time(lasts_ms));
            Ok(())
        }
        LeaseCommand::Release { broker, lease } => {
            connect(broker)?.ask(&Ask::Release { lease: *lease }, ANSWER)?;
            println!("Lease {lease} is released; its sessions end now.");
            Ok(())
        }
    }
}

/// Lists the requests that wait.
pub fn queue(args: &AskArgs) -> Result<(), Failure> {
    let Tell::Queue { waiting, total } = connect(args)?.ask(&Ask::Queue, ANSWER)? else {
        return Err(BrokerError::strange().into());
    };
    let rows = waiting.iter().map(|line| {
        vec![
            line.request.to_string(),
            line.user.clone(),
            line.program.clone(),
            line.priority.to_string(),
            time(line.age_ms),
            line.in_ms.map_or_else(String::new, |ms| format!("in {}", time(ms))),
            line.want.to_string(),
            line.why.clone(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    table(&["REQUEST", "USER", "PROGRAM", "PRIORITY", "WAITS", "TURN", "WANTS", "WAITS FOR"], &rows)
        .iter()
        .for_each(|line| println!("{line}"));
    say_cut(rows.len(), total);
    Ok(())
}

/// Says, below a list, that it is not whole.
fn say_cut(listed: usize, total: u64) {
    if total > listed as u64 {
        println!("These are the first {listed} of {total}.");
    }
}

/// Lists the devices that a broker lends.
pub fn devices(brokers: &[Endpoint]) -> Result<(), Failure> {
    let asked = connect(&AskArgs { broker: brokers.to_vec() })?.ask(&Ask::Devices, ANSWER)?;
    let Tell::Devices { devices, total } = asked else { return Err(BrokerError::strange().into()) };
    let row = |line: &DeviceLine| {
        let state = match (line.online, line.free, line.leases.is_empty()) {
            (false, _, true) => "its server is away".to_owned(),
            (false, ..) => "lent; its server is away".to_owned(),
            (true, _, true) => "free".to_owned(),
            (true, 0, _) => "lent".to_owned(),
            (true, free, _) => format!("lent; {} % are free", f64::from(free) / 10.0),
        };
        let leases: Vec<_> = line.leases.iter().map(ToString::to_string).collect();
        vec![line.server.clone(), line.number.to_string(), line.name.clone(), state, leases.join(",")]
    };
    let rows: Vec<_> = devices.iter().map(row).collect();
    table(&["SERVER", "DEVICE", "NAME", "STATE", "LEASES"], &rows).iter().for_each(|line| println!("{line}"));
    say_cut(rows.len(), total);
    Ok(())
}

fn leases(broker: &AskArgs, all: bool) -> Result<Vec<LeaseLine>, Failure> {
    match connect(broker)?.ask(&Ask::Leases { all }, ANSWER)? {
        Tell::Leases { leases, total } => {
            if total > leases.len() as u64 {
                eprintln!("ropeway: only the first {} of {total} leases are listed", leases.len());
            }
            Ok(leases)
        }
        _ => Err(BrokerError::strange().into()),
    }
}

/// The columns of the list of leases.
const COLUMNS: [&str; 8] = ["LEASE", "USER", "PROGRAM", "HELD", "LASTS", "SESSIONS", "BUSY", "DEVICES"];

fn row(line: &LeaseLine) -> Vec<String> {
    let device = |(server, number, name, share): &(String, u32, String, Share)| {
        let part = if *share == WHOLE { String::new() } else { format!(" ({} %)", f64::from(*share) / 10.0) };
        format!("{server}:{number} {name}{part}")
    };
    let lasts = match (line.lasts_ms, line.attached) {
        (None, _) => "ends now".to_owned(),
        (Some(_), true) => "as its program".to_owned(),
        (Some(ms), false) => time(ms),
    };
    vec![
        line.lease.to_string(),
        line.user.clone(),
        line.program.clone(),
        time(line.age_ms),
        lasts,
        line.sessions.to_string(),
        format!("{:.1} s", line.device_seconds.abs()),
        line.devices.iter().map(device).collect::<Vec<_>>().join(", "),
    ]
}

/// A time for a person: to the second.
fn time(ms: u64) -> String {
    humantime::format_duration(Duration::from_secs(ms / 1000)).to_string()
}
