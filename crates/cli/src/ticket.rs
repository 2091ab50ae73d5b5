//! `ropeway ticket` and `ropeway join`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ropeway_client::tickets;
use ropeway_daemon::access::{Rules, State, from_now, text_of};
use ropeway_daemon::worker::{Allowance, host_name};
use ropeway_transport::tls::{Identity, Ticket};
use ropeway_transport::{DEFAULT_PORT, Endpoint, Pass};

use crate::args::{JoinArgs, TicketArgs, TicketCommand};
use crate::failure::Failure;
use crate::table::table;

/// The state folder of servers that are given none: what systemd made for the service, or the user's.
pub fn state_folder(asked: Option<&Path>) -> Option<PathBuf> {
    let env = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = || Some(env("XDG_STATE_HOME").or_else(|| Some(env("HOME")?.join(".local/state")))?.join("ropeway"));
    asked.map(Path::to_owned).or_else(|| env("STATE_DIRECTORY")).or_else(user)
}

/// Makes, lists, shows and revokes tickets.
pub fn ticket(args: &TicketArgs) -> Result<(), Failure> {
    let folder = state_folder(args.state.as_deref());
    let folder = folder
        .ok_or_else(|| Failure::new("this user has no home folder; name the server's state folder with --state"))?;
    let state = State::open(&folder)?;
    match &args.command {
        TicketCommand::New { name, host, expires, sessions, devices, memory } => {
            let now = SystemTime::now();
            let identity = Identity::generate()?;
            let expires = expires.as_deref().map(|text| from_now(text, now)).transpose().map_err(Failure::new)?;
            let devices = (!devices.is_empty()).then(|| devices.clone());
            let allowance = Allowance { devices, memory: *memory };
            let rules =
                Rules { allowance, created: Some(now), expires, sessions: *sessions, ..Rules::new(identity.public()) };
            let server = state.identity()?.public();
            let address = host.clone().unwrap_or_else(|| format!("{}:{DEFAULT_PORT}", host_name()));
            let endpoint: Endpoint = format!("tls://{address}").parse()?;
            state.change(|clients| clients.add(name, &rules))?;
            let (host, port) = (endpoint.host().to_owned(), endpoint.port());
            let ticket = Endpoint::Tls { host, port, pass: Some(Pass::Ticket(Ticket { server, identity }).into()) };
            println!("{}", ticket.with_secret());
            Ok(())
        }
        TicketCommand::List => {
            let clients = state.clients()?;
            let now = SystemTime::now();
            let time = |at: Option<SystemTime>| at.map_or("-".to_owned(), text_of);
            let rows = clients.all().iter().map(|(name, rules)| {
                let over = if rules.has_expired(now) { " (over)" } else { "" };
                let sessions = rules.sessions.map_or("-".to_owned(), |most| most.to_string());
                vec![
                    name.clone(),
                    format!("{:?}", rules.key),
                    time(rules.created),
                    time(rules.expires) + over,
                    sessions,
                ]
            });
            let rows: Vec<_> = rows.collect();
            table(&["NAME", "KEY", "CREATED", "EXPIRES", "SESSIONS"], &rows).iter().for_each(|line| println!("{line}"));
            Ok(())
        }
        TicketCommand::Revoke { name } => {
            if !state.change(|clients| Ok(clients.remove(name)))? {
                return Err(Failure::new(format!("there is no client '{name}'; `ropeway ticket list` lists them")));
            }
            println!("The ticket of '{name}' is revoked; a running server ends its sessions now.");
            Ok(())
        }
    }
}

/// Keeps a ticket at the client.
pub fn join(args: &JoinArgs) -> Result<(), Failure> {
    let endpoint: Endpoint = args.ticket.parse()?;
    let path = tickets::keep(&endpoint).map_err(|error| Failure::new(format!("cannot keep the ticket: {error}")))?;
    println!("{} can be used as {endpoint} from now on (kept in {}).", endpoint.host(), path.display());
    Ok(())
}
