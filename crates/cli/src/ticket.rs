//! `ropeway ticket` and `ropeway join`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ropeway_client::tickets;
use ropeway_daemon::access::{Rules, State, from_now, size_text, text_of, time_text};
use ropeway_daemon::worker::{Allowance, host_name};
use ropeway_transport::tls::{Identity, Ticket};
use ropeway_transport::{DEFAULT_PORT, Endpoint, Pass};

use crate::args::{AllowanceArgs, JoinArgs, TicketArgs, TicketCommand};
use crate::failure::Failure;
use crate::places::{filled, of_user};
use crate::table::table;

/// The state folder of servers that are given none: what systemd made for the service, or the user's.
pub fn state_folder(asked: Option<&Path>) -> Option<PathBuf> {
    let service = || filled("STATE_DIRECTORY").map(PathBuf::from);
    asked.map(Path::to_owned).or_else(service).or_else(|| of_user("XDG_STATE_HOME", ".local/state"))
}

/// Makes, lists, shows and revokes tickets.
pub fn ticket(args: &TicketArgs) -> Result<(), Failure> {
    let folder = state_folder(args.state.as_deref());
    let folder = folder
        .ok_or_else(|| Failure::new("this user has no home folder; name the server's state folder with --state"))?;
    let state = State::open(&folder)?;
    match &args.command {
        TicketCommand::New {
            name,
            host,
            expires,
            sessions,
            weight,
            host_memory,
            compiler_cache,
            registers,
            allowed,
        } => {
            let now = SystemTime::now();
            let identity = Identity::generate()?;
            let expires = expires.as_deref().map(|text| from_now(text, now)).transpose().map_err(Failure::new)?;
            let AllowanceArgs { devices, memory, objects, kernel_time, build_time } = allowed.clone();
            let devices = (!devices.is_empty()).then_some(devices);
            let allowance = Allowance { devices, memory, objects, kernel_time, build_time, client: None };
            let (sessions, weight, registers) = (*sessions, *weight, *registers);
            let (host_memory, compiler_cache) = (*host_memory, *compiler_cache);
            let (key, created) = (identity.public(), Some(now));
            let rules =
                Rules { key, created, expires, sessions, weight, host_memory, compiler_cache, allowance, registers };
            let server = state.identity()?.public();
            let address = host.clone().unwrap_or_else(|| format!("{}:{DEFAULT_PORT}", host_name()));
            let endpoint: Endpoint = format!("tls://{address}").parse()?;
            state.change(|clients| clients.add(name, &rules))?;
            let (host, port) = (endpoint.host().to_owned(), endpoint.port());
            let ticket =
                Endpoint::Tls { host, port, pass: Some(Pass::Ticket(Ticket { server, identity, lease: None }).into()) };
            println!("{}", ticket.with_secret());
            Ok(())
        }
        TicketCommand::List => {
            let clients = state.clients()?;
            let now = SystemTime::now();
            let rows = clients.all().iter().map(|(name, rules)| row(name, rules, now));
            let rows: Vec<_> = rows.collect();
            table(&COLUMNS, &rows).iter().for_each(|line| println!("{line}"));
            Ok(())
        }
        TicketCommand::Show { name } => {
            let clients = state.clients()?;
            let rules = clients.all().get(name).ok_or_else(|| no_client(name))?;
            let row = row(name, rules, SystemTime::now());
            COLUMNS.iter().zip(row).for_each(|(column, value)| println!("{:14} {value}", column.to_lowercase()));
            Ok(())
        }
        TicketCommand::Revoke { name } => {
            if !state.change(|clients| Ok(clients.remove(name)))? {
                return Err(no_client(name));
            }
            println!("The ticket of '{name}' is revoked; a running server ends its sessions now.");
            Ok(())
        }
    }
}

fn no_client(name: &str) -> Failure {
    Failure::new(format!("there is no client '{name}'; `ropeway ticket list` lists them"))
}

/// The columns of the list of tickets.
const COLUMNS: [&str; 13] = [
    "NAME",
    "KEY",
    "CREATED",
    "EXPIRES",
    "SESSIONS",
    "WEIGHT",
    "MEMORY",
    "HOST-MEMORY",
    "COMPILER-CACHE",
    "OBJECTS",
    "KERNEL-TIME",
    "BUILD-TIME",
    "DEVICES",
];

fn row(name: &str, rules: &Rules, now: SystemTime) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let over = if rules.has_expired(now) { " (over)" } else { "" };
    let devices = rules.allowance.devices.as_ref();
    vec![
        name.to_owned(),
        format!("{:?}", rules.key),
        or_none(rules.created.map(text_of)),
        or_none(rules.expires.map(text_of)) + over,
        or_none(rules.sessions.map(|most| most.to_string())),
        or_none(rules.weight.map(|weight| weight.to_string())),
        or_none(rules.allowance.memory.map(size_text)),
        or_none(rules.host_memory.map(size_text)),
        or_none(rules.compiler_cache.map(size_text)),
        or_none(rules.allowance.objects.map(|most| most.to_string())),
        or_none(rules.allowance.kernel_time.map(time_text)),
        or_none(rules.allowance.build_time.map(time_text)),
        or_none(devices.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))),
    ]
}

/// Keeps a ticket at the client.
pub fn join(args: &JoinArgs) -> Result<(), Failure> {
    let endpoint: Endpoint = args.ticket.parse()?;
    let path = tickets::keep(&endpoint).map_err(|error| Failure::new(format!("cannot keep the ticket: {error}")))?;
    println!("{} can be used as {endpoint} from now on (kept in {}).", endpoint.host(), path.display());
    Ok(())
}
