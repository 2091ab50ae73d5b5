//! Servers that announce themselves on the local network, and which of them are used.
//!
//! Anybody on a network can announce anything. A server is used only if its address is this machine's own (loopback),
//! or if the user has listed its network or its name as trusted. A name is only the server's own claim: it chooses
//! among servers on a network whose machines are all trusted, and proves nothing.
//!
//! The program `ropeway` does the looking (`ropeway look`): multicast DNS is nothing that every OpenCL program should
//! load.

use std::io::{self, ErrorKind, Read};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use ropeway_transport::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::servers::binary;
use crate::servers::config::{Config, Trust};

/// How long the looking program may take to start and to end, in addition to the time spent looking.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum size of an answer; a longer one is an error.
const MAX_ANSWER: usize = 1 << 20;

/// The separator between the parts of a [`Found`] in its line.
const BETWEEN: char = '\t';

/// A server that announces itself. Every field is an unverified claim from the network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The name that it announces.
    pub name: String,
    /// The name that its machine gives itself; empty if it says nothing.
    pub host: String,
    /// Its addresses, those that are most likely of use first.
    pub addresses: Vec<IpAddr>,
    /// Its TCP port.
    pub port: u16,
}

impl Found {
    /// The server as a line of text, in which the looking program reports it to the library.
    pub fn to_line(&self) -> String {
        let plain = |text: &str| text.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>();
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let parts = [plain(&self.name), plain(&self.host), self.port.to_string(), addresses.join(",")];
        parts.join(&BETWEEN.to_string())
    }

    /// Reads [`Self::to_line`]; `None` for another text.
    pub fn from_line(line: &str) -> Option<Self> {
        let mut parts = line.split(BETWEEN);
        let (name, host) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let port = parts.next()?.parse().ok()?;
        let addresses = parts.next()?.split(',').filter(|text| !text.is_empty());
        let addresses = addresses.map(|text| text.parse().ok()).collect::<Option<_>>()?;
        parts.next().is_none().then_some(Self { name, host, addresses, port })
    }
}

/// A server that was found.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// The server's announcement.
    pub found: Found,
    /// The address to connect to, if there is a reason to trust the server.
    pub trusted: Option<Endpoint>,
}

impl Sighting {
    fn new(found: Found, trusted: &[Trust]) -> Self {
        let names = [&*found.name, &*found.host];
        let is_trusted = |address: &&IpAddr| {
            address.to_canonical().is_loopback() || trusted.iter().any(|trust| trust.covers(**address, names))
        };
        let address = found.addresses.iter().find(is_trusted);
        let trusted = address.map(|address| Endpoint::Tcp { host: address.to_string(), port: found.port });
        Self { found, trusted }
    }

    /// The address that the server announces.
    pub fn address(&self) -> Endpoint {
        let announced = || Endpoint::Tcp {
            host: self.found.addresses.first().map(ToString::to_string).unwrap_or_default(),
            port: self.found.port,
        };
        self.trusted.clone().unwrap_or_else(announced)
    }
}

/// Looks for servers as long as the configuration says, with the program `ropeway` at `binary`, or where it is found.
/// Servers of `config.servers` are left out.
///
/// # Errors
/// A sentence: there is no such program, or it cannot look.
pub fn discover(config: &Config, binary: Option<&Path>) -> io::Result<Vec<Sighting>> {
    let found = look(config.discover_time, binary)?;
    let sightings = found.into_iter().map(|found| Sighting::new(found, &config.trusted));
    Ok(sightings.filter(|sighting| !config.servers.contains(&sighting.address())).collect())
}

fn look(time: Duration, binary: Option<&Path>) -> io::Result<Vec<Found>> {
    let binary = match binary {
        Some(binary) => binary.to_owned(),
        None => binary::find()?,
    };
    let mut command = Command::new(&binary);
    command.arg("look").arg(time.as_millis().to_string());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start {}: {error}", binary.display())))?;
    let answer = child.stdout.take().ok_or(ErrorKind::BrokenPipe.into());
    let answer = answer.and_then(|output| read_all(output, Instant::now() + time + PATIENCE));
    if answer.is_err() {
        // The child's answer is of no use any more.
        let _ = child.kill();
    }
    let ended = wait(child);
    let text = answer?;
    let found: Vec<Found> = text.lines().filter_map(Found::from_line).collect();
    match text.lines().find_map(|line| line.strip_prefix("cannot look: ")) {
        Some(why) => Err(io::Error::other(why.to_owned())),
        None if ended || !found.is_empty() => Ok(found),
        None => Err(io::Error::other(format!("`{} look` failed", binary.display()))),
    }
}

/// Waits for the child to end; returns whether it succeeded. If the program that uses this library has already waited
/// for the child, success is assumed.
fn wait(mut child: Child) -> bool {
    child.wait().map_or(true, |status| status.success())
}

/// Reads until the other end is closed.
fn read_all(mut output: ChildStdout, deadline: Instant) -> io::Result<String> {
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(io::Error::new(ErrorKind::TimedOut, "the program `ropeway` takes too long to look")),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match output.read(&mut piece)? {
            0 => return Ok(String::from_utf8_lossy(&said).into_owned()),
            _ if said.len() > MAX_ANSWER => return Err(io::Error::other("the program `ropeway` says too much")),
            n => said.extend_from_slice(&piece[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(addresses: &[&str], trusted: &[&str]) -> Option<String> {
        let found = Found {
            name: "gpu".into(),
            host: "node7".into(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            port: 7,
        };
        let trusted: Vec<Trust> = trusted.iter().map(|trust| trust.parse().unwrap()).collect();
        Sighting::new(found, &trusted).trusted.map(|endpoint| endpoint.to_string())
    }

    #[test]
    fn only_with_a_reason_and_only_at_the_address_that_it_is_for() {
        assert_eq!(sighting(&["10.0.0.1"], &[]), None);
        assert_eq!(sighting(&["127.0.0.1"], &[]).unwrap(), "tcp://127.0.0.1:7");
        assert_eq!(sighting(&["10.0.0.1", "192.168.1.1"], &["192.168.0.0/16"]).unwrap(), "tcp://192.168.1.1:7");
        assert_eq!(sighting(&["fd00::1"], &["NODE7"]).unwrap(), "tcp://[fd00::1]:7");
        assert_eq!(sighting(&["10.0.0.1"], &["other", "10.1.0.0/16"]), None);
    }

    #[test]
    fn what_was_found_comes_over_in_a_line() {
        let addresses = ["10.0.0.1", "fd00::1"].map(|address| address.parse().unwrap()).to_vec();
        let found = Found { name: "gpu lab".into(), host: "node7".into(), addresses, port: 7590 };
        assert_eq!(Found::from_line(&found.to_line()), Some(found.clone()));
        let bare = Found { host: String::new(), addresses: vec![], ..found.clone() };
        assert_eq!(Found::from_line(&bare.to_line()), Some(bare));
        let hostile = Found { name: "a\tb\n7".into(), ..found };
        assert_eq!(Found::from_line(&hostile.to_line()).unwrap().name, "a?b?7");
        for wrong in ["", "cannot look: so", "a\tb\tc\t", "a\tb\t1\t1.2.3", "a\tb\t1\t1.2.3.4\tmore"] {
            assert_eq!(Found::from_line(wrong), None, "{wrong}");
        }
    }
}
