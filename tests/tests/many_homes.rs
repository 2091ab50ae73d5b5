//! One context of the devices of several servers.

use std::time::Duration;

use ropeway_tests::cluster::Cluster;
use ropeway_tests::places::c_program;
use ropeway_tests::process;
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::server::Server;
use ropeway_tests::stats::Stats;

fn urls(servers: &[Server]) -> String {
    servers.iter().map(Server::url).collect::<Vec<_>>().join(",")
}

fn run(name: &str, servers: &[Server]) -> Outcome {
    let outcome = Program::remote(c_program(name), &urls(servers)).run().success();
    assert!(!outcome.stdout.contains("WRONG"), "{}", outcome.stdout);
    outcome
}

/// The output of `many_homes` for so many devices, as the specification has it. (PoCL's own context of two devices
/// waits for ever for a command that has failed before, and has a log for the first device only.)
fn expected(devices: usize) -> String {
    let each = |line: &dyn Fn(usize) -> String| (0..devices).map(|i| line(i) + "\n").collect::<String>();
    [
        format!("{devices} devices\n"),
        "context: all devices 1, in order 1, references as made 1\nby type: all devices 1\n".to_owned(),
        "queue for a device of no such context: -33\nforeign event: -34\n".to_owned(),
        "queue on a device: 0 -35, shared virtual memory: 0\n".to_owned(),
        "program: for all devices 1, kernels 3\n".to_owned(),
        each(&|i| format!("device {i}: status 0, type 4, binary 1, groups 1")),
        each(&|i| format!("of a binary on {i}: 0, {}", 45 + i)),
        "broken: -11\n".to_owned(),
        each(&|i| format!("device {i}: status -2, log 1")),
        "its kernel: -45\nfor the last: first -1, last 0\nfor the first: first 0, last 0\n".to_owned(),
        each(&|i| format!("linked on {i}: 8")),
        each(&|i| format!("scaled on {i}: right")),
        each(&|i| format!("reversed on {i}: right")),
        "image formats: 1\n".to_owned(),
        each(&|i| format!("sampled on {i}: {} {}", 32 + 2 * i, 62 + 2 * i)),
        "held up: 1 1\nchain: ended 100 of 100, called with 0\n".to_owned(),
        each(&|i| format!("counted on {i}: right")),
        "late: 0, held: 1\nthen: 0\nwaiting for all: -14\n".to_owned(),
        each(&|i| format!("failed on {i}: 1 1 1")),
        "after: -14\nboth: 1 -14\n".to_owned(),
        each(&|i| format!("on {i} all goes on: 1")),
        each(&|i| format!("called off on {i}: 7")),
        each(&|i| format!("gone back to {i}: 1 7 7")),
        "part of a device, and others: right\nthreads: right\ndone\n".to_owned(),
    ]
    .concat()
}

#[test]
fn one_context_of_two_servers_and_of_three() {
    let mut servers = vec![Server::start(), Server::start_unix()];
    let outcome = run("many_homes", &servers);
    assert_eq!(outcome.stdout, expected(2), "{}", outcome.stderr);
    servers.push(Server::start());
    let outcome = run("many_homes", &servers);
    assert_eq!(outcome.stdout, expected(3), "{}", outcome.stderr);
}

#[test]
fn one_context_of_servers_on_machines_of_their_own() {
    let Some(cluster) = Cluster::start() else { return };
    let outcome = cluster.program("many_homes", &[]).run().success();
    assert_eq!(outcome.stdout, expected(3), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("ropeway: "), "{}", outcome.stderr);
}

#[test]
fn servers_that_do_not_reach_each_other_are_served_by_the_client() {
    let servers = [Server::start(), Server::start()];
    let program = Program::remote(c_program("many_homes"), &urls(&servers)).env("ROPEWAY_PEERS", "off");
    let outcome = program.run().success();
    assert_eq!(outcome.stdout, expected(2), "{}", outcome.stderr);
}

#[test]
fn a_server_may_have_several_of_the_devices() {
    let two = Server::start_with(&["--listen", "tcp://127.0.0.1:0"], &[("POCL_DEVICES", "pthread pthread")]);
    let outcome = run("many_homes", &[two, Server::start()]);
    assert!(outcome.stdout.starts_with("3 devices\n") && outcome.stdout.ends_with("done\n"), "{}", outcome.stdout);
}

#[test]
fn when_a_server_is_lost_the_others_go_on() {
    for (kill_server, peers) in [(false, "on"), (true, "on"), (false, "off")] {
        let mut servers = vec![Server::start(), Server::start(), Server::start()];
        let program = Program::remote(c_program("many_homes_lost"), &urls(&servers)).env("ROPEWAY_PEERS", peers);
        let mut running = program.limit(Duration::from_secs(60)).start();
        assert_eq!(running.line(), "ready");
        let worker = servers[0].worker_of(running.pid());
        if kill_server {
            servers[0].kill();
        }
        process::kill(worker);
        running.say("go");
        let outcome = running.finish().success();
        let expected = "finish: 1, wait: 1\nfirst 1, dependent 1, further 1, called 1\navailable: 0 1\nindependent: 1\n\
            a kernel made later: 11\nbuilt later: -2 0, for the lost one alone 1\na kernel of a program made later: 15\n\
            waits for what is lost: -14\nlaunch there: 1\nqueue there: 1\ncontext of all: -2\ncontext of the rest: 1\ndone\n";
        assert_eq!(outcome.stdout, expected, "{}", outcome.stderr);
        assert_eq!(outcome.stderr.matches("is lost").count(), 1, "{}", outcome.stderr);
    }
}

#[test]
fn a_context_of_one_server_costs_the_same_beside_others() {
    let (first, second) = (Server::start(), Server::start());
    // An answer that is there before anybody waits for it is not counted: on a busy machine one sometimes is.
    let most = |servers: &str| {
        let run = || Program::remote(c_program("vector_add"), servers).env("ROPEWAY_STATS", "1").run().success();
        let counts = (0..4).map(|_| Stats::of(&run().stderr));
        counts.max_by_key(|stats| stats.round_trips).expect("there were some")
    };
    let both = format!("{},{}", first.url(), second.url());
    // The first of all sends the program's source.
    most(&both);
    let (alone, beside) = (most(first.url()), most(&both));
    // Connecting costs two round trips for each server, and sharing memory with one of this machine a third.
    assert_eq!(beside.round_trips, alone.round_trips + 3, "{alone:?} {beside:?}");
}

#[test]
fn several_servers_and_the_client_take_the_same_memory_at_once() {
    let servers = [(); 3].map(|()| Server::start());
    let program = Program::remote(c_program("one_source"), &urls(&servers)).args(["500"]);
    let outcome = program.run().success();
    assert_eq!(outcome.stdout, "3 devices, 500 rounds, 0 wrong\n", "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("ropeway: "), "{}", outcome.stderr);
}
