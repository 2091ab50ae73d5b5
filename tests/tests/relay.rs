//! Traffic between servers that do not reach each other, by way of the client.

use std::time::Duration;

use ropeway_protocol::messages::{CreateQueue, CreateUserEvent, TransferData};
use ropeway_tests::places::c_program;
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::proxy::{Fault, Proxy};
use ropeway_tests::server::Server;
use ropeway_tests::stats::Stats;
use ropeway_tests::{process, wait_for};

const MIB: u64 = 1 << 20;

/// A program whose servers do not reach each other. It shares no memory with them: that would count as its own, and what
/// it copies there is not sent.
fn program(urls: &[String], args: &[&str]) -> Program {
    let program = Program::remote(c_program("relayed"), &format!("shm:off,{}", urls.join(","))).args(args);
    program.env("ROPEWAY_PEERS", "off").env("ROPEWAY_STATS", "1")
}

fn start(servers: usize, args: &[&str]) -> Vec<Server> {
    let args = [&["--listen", "tcp://127.0.0.1:0"], args].concat();
    (0..servers).map(|_| Server::start_with(&args, &[])).collect()
}

fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(|server| server.url().to_owned()).collect()
}

fn run(servers: &[Server], args: &[&str]) -> Outcome {
    let outcome = program(&urls(servers), args).run().success();
    eprintln!("{args:?}: {} {}", outcome.stdout.trim_end(), outcome.stderr.trim_end());
    outcome
}

/// The most memory that the program had, in bytes.
fn memory(outcome: &Outcome) -> u64 {
    let line = outcome.stdout.lines().find_map(|line| line.strip_prefix("memory: ")?.strip_suffix(" kB"));
    line.and_then(|kb| kb.parse::<u64>().ok()).expect("the program says it") * 1024
}

#[test]
fn large_data_needs_little_memory_of_the_client() {
    let servers = start(2, &[]);
    let little = memory(&run(&servers, &["large", "3", "1000000"]));
    // Six moves of 100 MB.
    let much = memory(&run(&servers, &["large", "6", "100000000"]));
    let more = much.saturating_sub(little);
    // Two servers, 8 MiB each, and what comes of allocating these.
    assert!(more < 32 * MIB, "{} MiB more for 600 MB", more / MIB);
}

#[test]
fn all_sizes_move_at_once() {
    for args in [&[][..], &["--force-pinned"]] {
        let servers = start(3, args);
        let outcome = run(&servers, &["many", "60"]);
        // 60 buffers of up to 6 MB each.
        assert!(memory(&outcome) < 100 * MIB, "{}", outcome.stdout);
        run(&servers, &["image"]);
    }
}

#[test]
fn what_is_held_up_holds_up_nothing_else() {
    run(&start(2, &[]), &["held", "40"]);
    run(&start(3, &["--force-pinned"]), &["held", "100"]);
}

#[test]
fn a_callback_may_wait_for_what_moves() {
    run(&start(2, &[]), &["called"]);
}

#[test]
fn each_server_has_one_queue_more() {
    let servers = start(2, &[]);
    let proxies = servers.iter().map(|server| Proxy::to(server.address(), Fault::None)).collect::<Vec<_>>();
    let through: Vec<_> = proxies.iter().map(|proxy| proxy.url().to_owned()).collect();
    let few = Stats::of(&program(&through, &["small", "4"]).run().success().stderr);
    let queues = || proxies.iter().map(|proxy| proxy.sent::<CreateQueue>()).collect::<Vec<_>>();
    assert_eq!(queues(), [2; 2], "the program's and that of what moves");
    let many = Stats::of(&program(&through, &["small", "104"]).run().success().stderr);
    assert_eq!(queues(), [4; 2]);
    assert_eq!(proxies.iter().map(|proxy| proxy.sent::<CreateUserEvent>()).sum::<u64>(), 0);
    let each = (many.messages_sent - few.messages_sent) as f64 / 100.0;
    eprintln!("{each} messages for each turn");
    // A launch with its arguments and events takes 7 or 8 of them: the rest asks for what it waits for, reads, writes
    // and signals.
    assert!(each < 14.0, "{each} messages for each turn");
}

#[test]
fn a_server_lost_under_way_ends_what_it_has_to_do_with() {
    let mut servers = start(3, &[]);
    // 48 MiB with 64 KiB for each 2 ms: more than a second each way.
    let slow = || Fault::Delay(Duration::from_millis(2));
    let through: Vec<_> = servers.iter().map(|server| Proxy::to(server.address(), slow())).collect();
    let urls: Vec<_> = through.iter().map(|proxy| proxy.url().to_owned()).collect();
    for (kill_server, size) in [(false, "400"), (false, "50331648"), (true, "50331648")] {
        let mut program = program(&urls, &["lost", size]).limit(Duration::from_secs(90)).start();
        assert_eq!(program.line(), "ready");
        let worker = servers[0].worker_of(program.pid());
        let relayed = || through.iter().skip(1).map(Proxy::sent::<TransferData>).min();
        let before = relayed();
        program.say("go");
        assert_eq!(program.line(), "under way");
        let is_large = size != "400";
        if is_large {
            // The transfers to the others have begun, and take more than a second.
            wait_for("data on its way", Duration::from_secs(60), || (relayed() > before).then_some(()));
        }
        if kill_server {
            servers[0].kill();
        }
        process::kill(worker);
        let outcome = program.finish().success();
        assert_eq!(outcome.stderr.matches("is lost").count(), 1, "{}", outcome.stderr);
        for (from, to) in (0..3).flat_map(|from| (0..3).map(move |to| (from, to))) {
            let came = |what| outcome.stdout.contains(&format!("{from} to {to}: {what}\n"));
            let is_right = match (from, to) {
                (1.., 1..) => came(1),
                // A small transfer may have been faster.
                _ => came(0) || came(1) && !(is_large && from != to),
            };
            assert!(is_right, "{from} to {to}: {}\n{}", outcome.stdout, outcome.stderr);
        }
    }
}

#[test]
fn a_server_that_falls_silent_holds_up_nobody_for_ever() {
    let servers = start(2, &[]);
    let first = Proxy::to(servers[0].address(), Fault::None);
    let mut program = program(&[first.url().to_owned(), servers[1].url().to_owned()], &["silent"]).start();
    assert_eq!(program.line(), "ready");
    first.freeze();
    program.say("go");
    // Nothing but what goes from the first server to the second is waited for, and at the second.
    let outcome = program.finish().success();
    assert!(outcome.stdout.starts_with("waited: -14, ended: 1\n"), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("is lost: it gives no sign of life"), "{}", outcome.stderr);
}
