//! The files that say who may use whose server: a client's tickets, and a server's key and access rules.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use ropeway_client::config::{Config, Source};
use ropeway_client::tickets;
use ropeway_daemon::access::State;
use ropeway_transport::{Endpoint, Pass};

use super::Findings;
use crate::ticket::state_folder;

/// Whether users other than its owner have one of these rights to it; not where there is no such file.
fn others_may(path: &Path, rights: u32) -> bool {
    fs::metadata(path).is_ok_and(|about| about.mode() & rights != 0)
}

const READ: u32 = 0o044;
const WRITE: u32 = 0o022;

/// Tickets that were joined, and those in the configuration.
pub fn tickets(findings: &mut Findings, config: &Config) {
    for folder in tickets::folders() {
        let found = tickets::kept_in(&folder);
        let whole = found.iter().filter(|(_, read)| read.is_ok()).count();
        for (path, error) in found.iter().filter_map(|(path, read)| Some((path, read.as_ref().err()?))) {
            let what = format!("ticket {}", path.display());
            if others_may(path, READ | WRITE) {
                let advice = "a ticket is a secret: if others may have read it, have it revoked (`ropeway ticket revoke NAME` \
                              at the server) and `ropeway join` a new one";
                findings.failed(&what, &error.to_string(), &format!("chmod 600 {}; {advice}", path.display()));
            } else {
                findings.failed(&what, &error.to_string(), "remove it, and `ropeway join` the ticket again");
            }
        }
        let name = folder.display();
        if others_may(&folder, WRITE) {
            findings.failed(
                "tickets",
                &format!("others can write to {name}, and so put tickets for servers of theirs there"),
                &format!("chmod go-w {name}; then see that all tickets there are yours"),
            );
        } else if whole > 0 {
            findings.ok("tickets", &format!("{whole} in {name}"));
        }
    }
    let has_ticket = |server: &Endpoint| matches!(server.pass(), Some(Pass::Ticket(_)));
    if let Source::File(path) | Source::HostFile(path) = &config.source
        && config.servers.iter().any(has_ticket)
        && others_may(path, READ | WRITE)
    {
        let path = path.display();
        let text = format!("{path} has a ticket, and others can read it");
        findings.failed("configuration", &text, &format!("chmod 600 {path}, or `ropeway join` the ticket"));
    }
}

/// The files of a server on this machine, where there is one, or `asked` says where.
pub fn server(findings: &mut Findings, asked: Option<&Path>) {
    let Some(folder) = state_folder(asked) else { return };
    // Nothing is made by looking at it.
    if !folder.join(State::KEY).exists() {
        if asked.is_some() {
            let text = format!("there is no server's key in {}", folder.display());
            findings.failed(
                "state folder",
                &text,
                "the first `ropeway serve` with this folder makes it; is the name right?",
            );
        }
        return;
    }
    let what = "state folder";
    let state = match State::open(&folder) {
        Ok(state) => state,
        Err(error) => return findings.failed(what, &error.to_string(), "who can write there can let themselves in"),
    };
    if let Err(error) = state.identity() {
        let advice = "who has read the key can pretend to be this server: then remove it, and all tickets are void";
        return findings.failed(what, &error.to_string(), advice);
    }
    match state.clients() {
        Ok(clients) => {
            let now = SystemTime::now();
            let (all, over) = (clients.all(), clients.all().values().filter(|rules| rules.has_expired(now)).count());
            let plural = if all.len() == 1 { "client" } else { "clients" };
            let over = if over > 0 { format!(", of whom {over} had tickets that are over now") } else { String::new() };
            findings.ok(&format!("{what} {}", folder.display()), &format!("{} {plural}{over}", all.len()));
        }
        Err(error) => {
            let keeps = "a running server keeps the old rules until then, and none starts";
            let advice = if others_may(&folder.join(State::ACCESS), WRITE) {
                format!("then see with `ropeway ticket list` that all clients are yours; {keeps}")
            } else {
                format!("correct it; {keeps}")
            };
            findings.failed(what, &error.to_string(), &advice);
        }
    }
}
