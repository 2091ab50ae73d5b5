//! Connections to brokers.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use ropeway_client::tickets;
use ropeway_lease::connection::{BrokerError, Connection, DEFAULT_PORT};
use ropeway_lease::messages::{Ask, Lease, LeaseAsk, Tell};
use ropeway_transport::Endpoint;
use ropeway_transport::tls::Identity;

use crate::args::{AskArgs, WantArgs};
use crate::failure::Failure;
use crate::places::filled;

/// How long connecting to a broker may take.
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// How long a broker has for an answer.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// How long a broker that is lost while a request waits has to come back.
const COMES_BACK: Duration = Duration::from_secs(15);

/// How long to wait before it is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// The environment variables that name brokers, and what is wanted.
const BROKER: &str = "ROPEWAY_BROKER";
const WANT: &str = "ROPEWAY_WANT";

/// A broker's address, whose port is another than a server's.
pub fn parse_broker(text: &str) -> Result<Endpoint, String> {
    let endpoint: Endpoint = text.parse().map_err(|error| format!("{error}"))?;
    let address = text.split('#').next().unwrap_or_default();
    Ok(match endpoint {
        Endpoint::Tls { host, port, pass }
            if port == ropeway_transport::DEFAULT_PORT && !address.contains(&format!(":{port}")) =>
        {
            Endpoint::Tls { host, port: DEFAULT_PORT, pass }
        }
        other => other,
    })
}

/// The brokers that are named, with their tickets.
pub(super) fn brokers(args: &AskArgs) -> Result<Vec<Endpoint>, Failure> {
    let mut named = args.broker.clone();
    if named.is_empty()
        && let Some(list) = filled(BROKER)
    {
        let list = list.to_string_lossy().into_owned();
        let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        named = entries
            .map(parse_broker)
            .collect::<Result<_, _>>()
            .map_err(|why| Failure::new(format!("{BROKER}: {why}")))?;
    }
    if named.is_empty() {
        return Err(Failure::new(format!("no broker is named; give --broker TICKET, or set {BROKER}")));
    }
    Ok(named.iter().map(tickets::with_ticket).collect::<Result<_, _>>()?)
}

/// Connects to the broker that is named.
pub(super) fn connect(args: &AskArgs) -> Result<Connection, Failure> {
    Ok(Connection::open(&brokers(args)?, &program(), CONNECT)?)
}

/// What a broker has.
pub struct Pool {
    /// The name by which it knows this user.
    pub user: String,
    /// Its servers.
    pub servers: usize,
    /// Their devices.
    pub devices: usize,
}

/// Asks the broker of this name or ticket, or that of the environment, what it has.
pub fn pool(named: Option<&str>) -> Result<Pool, Failure> {
    let broker = named.map(parse_broker).transpose().map_err(Failure::new)?.into_iter().collect();
    let mut connection = connect(&AskArgs { broker })?;
    let Tell::Devices { devices, total } = connection.ask(&Ask::Devices, ANSWER)? else {
        return Err(BrokerError::strange().into());
    };
    let servers: BTreeSet<_> = devices.iter().map(|line| &line.server).collect();
    Ok(Pool {
        user: connection.user().to_owned(),
        servers: servers.len(),
        devices: total.max(devices.len() as u64) as usize,
    })
}

/// What the broker is told of who asks.
pub(super) fn program() -> String {
    format!("ropeway[{}]", std::process::id())
}

/// What is wanted, for `lasts`; `None`: for as long as the connection.
pub(super) fn wanted(args: &WantArgs, lasts: Option<Duration>, identity: &Identity) -> Result<LeaseAsk, Failure> {
    let want = match (&args.want, filled(WANT)) {
        (Some(want), _) => want.clone(),
        (None, Some(text)) => text.to_string_lossy().parse().map_err(|why| Failure::new(format!("{WANT}: {why}")))?,
        (None, None) => {
            return Err(Failure::new(format!("say which devices are wanted, as in --want '2 gpu', or set {WANT}")));
        }
    };
    let ms = |time: Duration| time.as_millis() as u64;
    Ok(LeaseAsk {
        want,
        key: identity.public().text(),
        for_ms: lasts.map(ms),
        wait_ms: args.wait.map(ms),
        priority: args.priority,
        expected_ms: args.expected.map(ms),
    })
}

/// Asks for devices, and waits for them; says on standard error that it waits. Where the broker is lost meanwhile, the
/// next one is asked, or the same one once it is back.
pub(super) fn obtain(brokers: &[Endpoint], program: &str, mut ask: LeaseAsk) -> Result<(Connection, Lease), Failure> {
    let until = ask.wait_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
    let mut connection = Connection::open(brokers, program, CONNECT)?;
    loop {
        match obtain_from(&mut connection, &ask, until) {
            Ok(lease) => return Ok((connection, lease)),
            Err(BrokerError::Unreachable(why)) => eprintln!("ropeway: {why}; the request is made again"),
            Err(refused) => return Err(refused.into()),
        }
        connection = open_again(brokers, program)?;
        ask.wait_ms = until.map(|until| until.saturating_duration_since(Instant::now()).as_millis() as u64);
    }
}

/// Connects after the broker was lost.
fn open_again(brokers: &[Endpoint], program: &str) -> Result<Connection, BrokerError> {
    let deadline = Instant::now() + COMES_BACK;
    loop {
        match Connection::open(brokers, program, CONNECT) {
            Err(BrokerError::Unreachable(_)) if Instant::now() < deadline => thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}

fn obtain_from(connection: &mut Connection, ask: &LeaseAsk, until: Option<Instant>) -> Result<Lease, BrokerError> {
    let waits = |before, why: &str| {
        let others = match before {
            0 => "it is the next".to_owned(),
            1 => "1 other is before it".to_owned(),
            n => format!("{n} others are before it"),
        };
        eprintln!("ropeway: the request waits {why}; {others}");
    };
    // The broker itself gives the request up; this is for one that cannot.
    let lease = connection.obtain(ask.clone(), until.map(|until| until + ANSWER), waits)?;
    lease.ok_or_else(|| BrokerError::Refused("the broker has not answered in the time that there was".to_owned()))
}
