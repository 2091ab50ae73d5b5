//! Servers, each on a machine of its own with an address of its own, and a client on another: what goes over each
//! machine's link is counted.
//!
//! A program that wants parts of its work measured includes `stages.h`: it says where each begins and ends, and waits
//! meanwhile.

use std::time::{Duration, Instant};

use crate::net::{Host, Net, Traffic};
use crate::places::c_program;
use crate::program::{Outcome, Program, Running};
use crate::server::Server;

/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;

/// The largest packet that TCP sends, with all headers.
pub const FULL_PACKET: u64 = 1514;

/// A network whose first machine is the client's. Servers are on those behind it.
pub struct Cluster {
    /// The servers: number 0 is on machine 1.
    pub servers: Vec<Server>,
    // Dropped last: processes first, then the network.
    net: Net,
}

/// A part of a program's work: what went over the machines' links meanwhile.
#[derive(Debug)]
pub struct Stage {
    /// Its name in the program.
    pub name: String,
    /// The links of all machines, the client's first.
    pub links: Vec<Traffic>,
    /// How long it took.
    pub took: Duration,
    servers: usize,
}

impl Stage {
    /// Bytes over the client's link, both ways.
    pub fn client(&self) -> u64 {
        self.links[0].bytes()
    }

    /// Bytes that came to the client.
    pub fn to_client(&self) -> u64 {
        self.links[0].bytes_in
    }

    /// Bytes that the client sent.
    pub fn from_client(&self) -> u64 {
        self.links[0].bytes_out
    }

    /// The link of the server with this number.
    pub fn server(&self, number: usize) -> Traffic {
        self.links[number + 1]
    }

    /// Bytes that went from servers to servers, each counted once: the bytes that came to all of them, less those that
    /// the client has sent.
    pub fn between(&self) -> u64 {
        let came: u64 = self.links[1..=self.servers].iter().map(|link| link.bytes_in).sum();
        came.saturating_sub(self.links[0].bytes_out)
    }

    /// Exactly `bytes` of the program's went from server to server, but for what packets and messages take themselves:
    /// `framing` at most, beside a fiftieth of the bytes and what was sent again.
    ///
    /// # Panics
    /// When it is more or less.
    pub fn expect_between(&self, bytes: u64, framing: u64) {
        self.expect("between the servers", self.between(), bytes, framing);
    }

    /// As [`Self::expect_between`], for what has come to one server from anywhere.
    ///
    /// # Panics
    /// When it is more or less.
    pub fn expect_to(&self, server: usize, bytes: u64, framing: u64) {
        self.expect(&format!("to server {server}"), self.server(server).bytes_in, bytes, framing);
    }

    /// As [`Self::expect_between`], for what one server has sent to anybody.
    ///
    /// # Panics
    /// When it is more or less.
    pub fn expect_from(&self, server: usize, bytes: u64, framing: u64) {
        self.expect(&format!("from server {server}"), self.server(server).bytes_out, bytes, framing);
    }

    /// As [`Self::expect_between`], for what came to the client.
    ///
    /// # Panics
    /// When it is more or less.
    pub fn expect_to_client(&self, bytes: u64, framing: u64) {
        self.expect("to the client", self.to_client(), bytes, framing);
    }

    /// As [`Self::expect_between`], for what the client sent.
    ///
    /// # Panics
    /// When it is more or less.
    pub fn expect_from_client(&self, bytes: u64, framing: u64) {
        self.expect("from the client", self.from_client(), bytes, framing);
    }

    fn expect(&self, which: &str, went: u64, bytes: u64, framing: u64) {
        let resent: u64 = self.links.iter().map(|link| link.resent).sum();
        let most = bytes + bytes / 50 + framing + resent * FULL_PACKET;
        assert!((bytes..=most).contains(&went), "{}: {went} bytes went {which}, not {bytes}: {self:?}", self.name);
    }
}

impl Cluster {
    /// Three servers and a client; `None` where there can be no network namespaces.
    pub fn start() -> Option<Self> {
        Self::of(3)
    }

    /// So many servers and a client.
    pub fn of(servers: u8) -> Option<Self> {
        Self::beside(servers, 0)
    }

    /// So many servers and a client, and behind the servers so many machines that have none.
    pub fn beside(servers: u8, others: u8) -> Option<Self> {
        Self::with(servers, others, &[])
    }

    /// The same, of servers with these further arguments.
    pub fn with(servers: u8, others: u8, args: &[&str]) -> Option<Self> {
        let net = Net::or_skip(servers + others + 1)?;
        let hosts = net.hosts().iter().skip(1).take(servers.into());
        let servers = hosts.map(|host| Server::start_on(host, args, &[])).collect();
        Some(Self { servers, net })
    }

    /// A client and as many servers as there are lists: each with these variables.
    pub fn with_env(env: &[&[(&str, &str)]]) -> Option<Self> {
        let net = Net::or_skip(u8::try_from(env.len()).expect("few servers") + 1)?;
        let hosts = net.hosts().iter().skip(1).zip(env);
        let servers = hosts.map(|(host, env)| Server::start_on(host, &[], env)).collect();
        Some(Self { servers, net })
    }

    /// Two servers that have a network between them, besides the one that the client is on.
    pub fn with_inner_network() -> Option<Self> {
        let net = Net::or_skip(3)?;
        net.add_inner();
        let start = |host: &Host| {
            let inner = format!("tcp://{}:7590", host.inner_address());
            Server::start_on(host, &["--listen", &inner, "--peer-address", &inner], &[])
        };
        let servers = net.hosts().iter().skip(1).map(start).collect();
        Some(Self { servers, net })
    }

    /// Machine `number`: the client's is 0, the first server's 1.
    pub fn host(&self, number: usize) -> &Host {
        self.net.host(number)
    }

    /// The addresses of all servers, with commas in between.
    pub fn urls(&self) -> String {
        let urls: Vec<_> = self.servers.iter().map(Server::url).collect();
        urls.join(",")
    }

    /// A program of `tests/c` at the client, which sees all servers.
    pub fn program(&self, name: &str, args: &[&str]) -> Program {
        Program::remote(c_program(name), &self.urls()).args(args).on(self.host(0))
    }

    /// Bytes that have gone over the links of all machines, the client's first.
    pub fn traffic(&self) -> Vec<Traffic> {
        self.net.hosts().iter().map(Host::traffic).collect()
    }

    /// Runs a program to its end. Gives the parts that it had measured, and what it did and said besides.
    ///
    /// # Panics
    /// When it fails.
    pub fn stages(&self, program: Program) -> (Vec<Stage>, Outcome) {
        self.stages_after(program, |_| ())
    }

    /// The same; before each part, `first` is done with its name.
    ///
    /// # Panics
    /// When the program fails.
    pub fn stages_after(&self, program: Program, mut first: impl FnMut(&str)) -> (Vec<Stage>, Outcome) {
        let mut program = program.start();
        let mut stages = Vec::new();
        let mut said = String::new();
        loop {
            let line = program.line();
            if let Some(name) = begun(&line) {
                first(name);
                stages.push(self.stage(&mut program, name));
            } else if line.is_empty() {
                break;
            } else {
                said = said + &line + "\n";
            }
        }
        let mut outcome = program.finish();
        outcome.stdout = said;
        let outcome = outcome.success();
        eprintln!("{}", outcome.stderr.trim_end());
        (stages, outcome)
    }

    /// Bytes that go over the links during one part of a program, from the line that announces the part.
    ///
    /// # Panics
    /// When it says something else then that it has ended.
    pub fn stage(&self, program: &mut Running, name: &str) -> Stage {
        let (before, begun) = (self.traffic(), Instant::now());
        program.say("go");
        assert_eq!(program.line(), "end", "the program said something else in '{name}'");
        let (after, took) = (self.traffic(), begun.elapsed());
        program.say("go");
        let links = after.into_iter().zip(before).map(|(after, before)| after - before).collect();
        let stage = Stage { name: name.to_owned(), links, took, servers: self.servers.len() };
        eprintln!("{name}: {} between, {:?}, {took:?}", stage.between(), stage.links);
        stage
    }

    /// Runs a program that has one part measured.
    ///
    /// # Panics
    /// When it has not, or fails.
    pub fn measured(&self, program: Program) -> (Stage, Outcome) {
        let (mut stages, outcome) = self.stages(program);
        assert_eq!(stages.len(), 1, "one part is measured: {stages:?}");
        (stages.remove(0), outcome)
    }
}

/// The name of the part that begins with this line.
fn begun(line: &str) -> Option<&str> {
    line.strip_prefix("begin").filter(|rest| rest.is_empty() || rest.starts_with(' ')).map(str::trim_start)
}

/// The program says this next.
///
/// # Panics
/// When it says something else.
pub fn expect(program: &mut Running, line: &str) {
    let said = program.line();
    assert_eq!(said, line, "the program said something else");
}
