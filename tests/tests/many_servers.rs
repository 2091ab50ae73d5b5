//! Three servers, each on a machine of its own, and one context of all their devices. What goes over each machine's
//! link is counted.

use std::time::{Duration, Instant};

use ropeway_tests::net::{Host, Net, Traffic};
use ropeway_tests::places::c_program;
use ropeway_tests::program::{Outcome, Program, Running};
use ropeway_tests::server::Server;
use ropeway_tests::stats::Stats;

const MIB: u64 = 1 << 20;

/// Servers on all machines of a network but the first, which is the client's.
struct Cluster {
    servers: Vec<Server>,
    // Dropped last: processes first, then the network.
    net: Net,
}

impl Cluster {
    /// Three servers and a client; `None` where there can be no network namespaces.
    fn start() -> Option<Self> {
        Self::of(3)
    }

    fn of(servers: u8) -> Option<Self> {
        let net = Net::or_skip(servers + 1)?;
        let servers = net.hosts().iter().skip(1).map(|host| Server::start_on(host, &[], &[])).collect();
        Some(Self { servers, net })
    }

    /// Two servers that have a network between them, besides the one that the client is on.
    fn with_inner_network() -> Option<Self> {
        let net = Net::or_skip(3)?;
        net.add_inner();
        let start = |host: &Host| {
            let inner = format!("tcp://{}:7590", host.inner_address());
            Server::start_on(host, &["--listen", &inner, "--peer-address", &inner], &[])
        };
        let servers = net.hosts().iter().skip(1).map(start).collect();
        Some(Self { servers, net })
    }

    fn program(&self, args: &[&str]) -> Program {
        let urls: Vec<_> = self.servers.iter().map(Server::url).collect();
        let program = Program::remote(c_program("many_servers"), &urls.join(",")).args(args);
        program.on(self.net.host(0))
    }

    /// What has gone over the links of all machines, the client's first.
    fn traffic(&self) -> Vec<Traffic> {
        self.net.hosts().iter().map(Host::traffic).collect()
    }

    /// Runs a program that says where its measured part begins and ends; gives the links' traffic in between.
    fn measured(&self, args: &[&str]) -> (Vec<Traffic>, Duration, Outcome) {
        let mut program = self.program(args).start();
        expect(&mut program, "begin");
        let (before, begun) = (self.traffic(), Instant::now());
        program.say("go");
        expect(&mut program, "end");
        let (after, took) = (self.traffic(), begun.elapsed());
        program.say("go");
        let outcome = program.finish().success();
        let moved = after.into_iter().zip(before).map(|(after, before)| after - before).collect();
        eprintln!("{args:?}: {moved:?} in {took:?}; {}", outcome.stderr.trim_end());
        (moved, took, outcome)
    }
}

/// The program says this next.
fn expect(program: &mut Running, line: &str) {
    let said = program.line();
    assert_eq!(said, line, "the program said something else");
}

/// All that came to the servers, which counts what goes between two of them once.
fn to_servers(traffic: &[Traffic]) -> u64 {
    traffic.iter().skip(1).map(|link| link.bytes_in).sum()
}

#[test]
fn everything_is_as_in_a_native_context_of_three_devices() {
    let Some(cluster) = Cluster::start() else { return };
    let devices = Program::native(c_program("many_servers")).env("POCL_DEVICES", "pthread pthread pthread");
    let native = devices.args(["all"]).run().success();
    let remote = cluster.program(&["all"]).run().success();
    assert_eq!(remote.stdout, native.stdout, "left: through Ropeway, right: native; {}", remote.stderr);
    assert!(remote.stdout.starts_with("3 devices in one context\n"), "{}", remote.stdout);
}

#[test]
fn data_goes_from_server_to_server() {
    let Some(cluster) = Cluster::start() else { return };
    let (moved, _, _) = cluster.measured(&["exchange", "67108864", "4"]);
    assert!(moved[0].bytes() < 100_000, "the client's link carried {:?}", moved[0]);
    let between = to_servers(&moved);
    assert!(between >= 4 * 64 * MIB, "only {between} bytes went between the servers");
    assert!(between < 4 * 64 * MIB * 108 / 100, "{between} bytes went between the servers: something twice");
}

#[test]
fn servers_use_a_network_of_their_own() {
    let Some(cluster) = Cluster::with_inner_network() else { return };
    let (moved, _, _) = cluster.measured(&["exchange", "33554432", "4"]);
    let outer: u64 = moved.iter().map(Traffic::bytes).sum();
    assert!(outer < 100_000, "the client's network carried {moved:?}");
    let inner = cluster.net.host(1).inner_traffic();
    assert!(inner.bytes() >= 4 * 32 * MIB, "the servers' own network carried {inner:?}");
}

#[test]
fn what_a_server_has_does_not_move_again() {
    let Some(cluster) = Cluster::of(1) else { return };
    // One device, eight kernels in a row on the same data.
    let (moved, _, _) = cluster.measured(&["exchange", "16777216", "8"]);
    assert!(moved[0].bytes() < 20_000 && moved[1].bytes() < 20_000, "{moved:?}");
}

#[test]
fn ends_of_kernels_go_from_server_to_server() {
    let Some(cluster) = Cluster::start() else { return };
    let received = |kernels: &str| {
        let program = cluster.program(&["signals", kernels]).env("ROPEWAY_STATS", "1");
        let mut program = program.start();
        for stage in ["begin", "end"] {
            expect(&mut program, stage);
            program.say("go");
        }
        Stats::of(&program.finish().success().stderr).messages_received
    };
    // What comes back to the client is the end of the last one, however many there were.
    let (few, many) = (received("30"), received("330"));
    assert!(many <= few + 10, "300 kernels more made {few} messages to the client {many}");
}

#[test]
fn only_results_cross_a_slow_link() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.net.host(0).limit("100mbit");
    // 20 pictures of 4 MiB, whose results are of 16 KiB.
    let (moved, took, _) = cluster.measured(&["pipeline", "4194304", "20"]);
    let results = 20 * 16 * 1024;
    assert!(moved[0].bytes() < results + results / 5 + 50_000, "the client's link carried {:?}", moved[0]);
    assert!(to_servers(&moved) >= 20 * 4 * MIB, "{moved:?}");
    // The pictures alone would take 6.7 s over the client's link, once.
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn servers_that_cannot_reach_each_other_are_served_by_the_client() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.net.host(1).part_from(cluster.net.host(2));
    let outcome = cluster.program(&["all"]).limit(Duration::from_secs(240)).run().success();
    assert!(outcome.stdout.ends_with("failures are right\n"), "{}", outcome.stdout);
}

/// One of three servers is lost in the middle; what the program then says, and how long it took to notice.
fn lost(limit: Duration, lose: impl FnOnce(&mut Cluster)) {
    let Some(mut cluster) = Cluster::start() else { return };
    let mut program = cluster.program(&["lost"]).start();
    expect(&mut program, "begin");
    std::thread::sleep(Duration::from_millis(300));
    lose(&mut cluster);
    let since = Instant::now();
    let mut said = Vec::new();
    loop {
        let line = program.line();
        if line == "lost" || line.is_empty() {
            break;
        }
        said.push(line);
    }
    assert!(since.elapsed() < limit, "noticed only after {:?}", since.elapsed());
    let outcome = program.finish().success();
    eprintln!("{}", outcome.stderr);
    said.extend(outcome.stdout.lines().map(str::to_owned));
    let expected = [
        "waiting for what waits for it: an error",
        "its own command: an error",
        "what waits for it: an error",
        "what waits for that: an error",
        "finishing its queue: an error",
        "a kernel that needs what only it had: an error",
        "reading what only it had: an error",
        "the others go on",
    ];
    assert_eq!(said, expected, "{}", outcome.stderr);
}

#[test]
fn a_server_is_killed() {
    lost(Duration::from_secs(2), |cluster| cluster.servers[1].kill());
}

#[test]
fn a_server_is_cut_off() {
    // A silent link is given up after ten seconds.
    lost(Duration::from_secs(15), |cluster| cluster.net.host(2).cut());
}
