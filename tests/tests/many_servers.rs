//! Three servers, each on a machine of its own, and one context of all their devices. What goes over each machine's
//! link is counted.

use std::time::{Duration, Instant};

use ropeway_tests::cluster::{Cluster, MIB, expect};
use ropeway_tests::net::Traffic;
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::stats::Stats;

const PROGRAM: &str = "many_servers";

#[test]
fn everything_is_as_in_a_native_context_of_three_devices() {
    let Some(cluster) = Cluster::start() else { return };
    let devices = Program::native(c_program("many_servers")).env("POCL_DEVICES", "pthread pthread pthread");
    let native = devices.args(["all"]).run().success();
    let remote = cluster.program(PROGRAM, &["all"]).run().success();
    assert_eq!(remote.stdout, native.stdout, "left: through Ropeway, right: native; {}", remote.stderr);
    assert!(remote.stdout.starts_with("3 devices in one context\n"), "{}", remote.stdout);
}

#[test]
fn data_goes_from_server_to_server() {
    let Some(cluster) = Cluster::start() else { return };
    let (stage, _) = cluster.measured(cluster.program(PROGRAM, &["exchange", "67108864", "4"]));
    assert!(stage.client() < 100_000, "{stage:?}");
    stage.expect_between(4 * 64 * MIB, 8 * MIB);
    // Round: from the first to the second, the third, the first and the second.
    for (server, times) in [(0, 1), (1, 2), (2, 1)] {
        stage.expect_to(server, times * 64 * MIB, 4 * MIB);
    }
}

#[test]
fn servers_use_a_network_of_their_own() {
    let Some(cluster) = Cluster::with_inner_network() else { return };
    let (stage, _) = cluster.measured(cluster.program(PROGRAM, &["exchange", "33554432", "4"]));
    let outer: u64 = stage.links.iter().map(Traffic::bytes).sum();
    assert!(outer < 100_000, "the client's network carried {stage:?}");
    let inner = cluster.host(1).inner_traffic().bytes();
    assert!((4 * 32 * MIB..4 * 33 * MIB).contains(&inner), "the servers' own network carried {inner} bytes");
}

#[test]
fn what_a_server_has_does_not_move_again() {
    let Some(cluster) = Cluster::of(1) else { return };
    // One device, eight kernels in a row on the same data.
    let (stage, _) = cluster.measured(cluster.program(PROGRAM, &["exchange", "16777216", "8"]));
    assert!(stage.client() < 20_000 && stage.server(0).bytes() < 20_000, "{stage:?}");
}

#[test]
fn ends_of_kernels_go_from_server_to_server() {
    let Some(cluster) = Cluster::start() else { return };
    let received = |kernels: &str| {
        let program = cluster.program(PROGRAM, &["signals", kernels]).env("ROPEWAY_STATS", "1");
        Stats::of(&cluster.measured(program).1.stderr).messages_received
    };
    // Only the end of the last one comes back to the client, however many there were.
    let (few, many) = (received("30"), received("330"));
    assert!(many <= few + 10, "300 kernels more made {few} messages to the client {many}");
}

#[test]
fn only_results_cross_a_slow_link() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.host(0).limit("100mbit");
    // 20 pictures of 4 MiB, whose results are of 16 KiB.
    let (stage, _) = cluster.measured(cluster.program(PROGRAM, &["pipeline", "4194304", "20"]));
    let took = stage.took;
    let results = 20 * 16 * 1024;
    assert!(stage.client() < results + results / 5 + 50_000, "{stage:?}");
    stage.expect_between(20 * 4 * MIB, MIB);
    // The pictures alone would take 6.7 s over the client's link, once.
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn servers_that_cannot_reach_each_other_are_served_by_the_client() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.host(1).part_from(cluster.host(2));
    let outcome = cluster.program(PROGRAM, &["all"]).limit(Duration::from_secs(240)).run().success();
    assert!(outcome.stdout.ends_with("failures are right\n"), "{}", outcome.stdout);
}

/// So many that flushes one right after the other are left to another thread.
#[test]
fn eight_servers_are_flushed_with_two_sends_each_at_most() {
    let servers: Vec<_> =
        (0..8).map(|_| Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--warm", "1"], &[])).collect();
    let urls = servers.iter().map(Server::url).collect::<Vec<_>>().join(",");
    let stats = |rounds: &str| {
        let program = Program::remote(c_program(PROGRAM), &urls).args(["flushed", rounds]).env("ROPEWAY_STATS", "1");
        Stats::of(&program.run().success().stderr)
    };
    stats("1");
    let (few, many) = (stats("10"), stats("110"));
    eprintln!("{few:?}\n{many:?}");
    // The two arguments, the launch, the flush, the wait, the release of the event, for each server.
    let messages = many.messages_sent - few.messages_sent;
    assert!((4_700..=4_900).contains(&messages), "{messages} messages");
    assert_eq!(many.messages_received - few.messages_received, 800);
    // The flush, and the wait where the flush was faster. A round's first messages may find the last round's releases.
    let batches = many.batches - few.batches;
    assert!(batches <= 1_650, "{batches} batches for 100 rounds of 8 servers");
}

/// One of three servers is lost in the middle; what the program then says, and how long it took to notice.
fn lost(limit: Duration, lose: impl FnOnce(&mut Cluster)) {
    let Some(mut cluster) = Cluster::start() else { return };
    let mut program = cluster.program(PROGRAM, &["lost"]).start();
    expect(&mut program, "begin");
    // The program goes on for as long as no server is lost: any moment is in the middle.
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
    lost(Duration::from_secs(15), |cluster| cluster.host(2).cut());
}
