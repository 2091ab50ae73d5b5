//! Collective operations: what they compute, on one server and over several, beside ordinary calls; what they cost.

use ropeway_tests::places::c_program;
use ropeway_tests::process;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::stats::Stats;

fn native(args: &[&str]) -> String {
    let outcome = Program::native(c_program("collectives")).args(args).run().success();
    assert!(outcome.stdout.contains("all right"), "{}", outcome.stdout);
    outcome.stdout
}

fn three_servers() -> ([Server; 3], String) {
    let servers = [(); 3].map(|()| Server::start());
    let urls = servers.each_ref().map(Server::url).join(",");
    (servers, urls)
}

/// Natively there are only ordinary calls.
#[test]
fn they_do_what_ordinary_calls_do() {
    let server = Server::start();
    for args in [&["5"][..], &["7", "unordered", "small"], &["1", "small"]] {
        let native = native(args);
        for program in ["collectives", "collectives_ordinary"] {
            let remote = Program::remote(c_program(program), server.url()).args(args).run().success();
            assert_eq!(remote.stdout, native, "left: {program} through Ropeway, right: native; {}", remote.stderr);
        }
    }
}

#[test]
fn over_three_servers_they_do_the_same() {
    let (_servers, urls) = three_servers();
    for args in [&["3"][..], &["5", "unordered"], &["7", "small"]] {
        let remote = Program::remote(c_program("collectives"), &urls).args(args).run().success();
        assert_eq!(remote.stdout, native(args), "left: through Ropeway, right: native; {}", remote.stderr);
    }
    let (args, program) = (["3", "small"], c_program("collectives_ordinary"));
    let remote = Program::remote(program, &urls).args(args).run().success();
    assert_eq!(remote.stdout, native(&args), "left: ordinary calls through Ropeway, right: native; {}", remote.stderr);
}

#[test]
fn devices_of_one_platform_do_the_same() {
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0"], &[("POCL_DEVICES", "pthread pthread")]);
    for args in [["4", "small", ""], ["3", "small", "unordered"]] {
        let remote = Program::remote(c_program("collectives"), server.url()).args(args).run().success();
        assert_eq!(remote.stdout, native(&args), "left: through Ropeway, right: native; {}", remote.stderr);
    }
}

#[test]
fn when_a_server_is_lost_they_fail_and_the_other_ranks_go_on() {
    let (servers, urls) = three_servers();
    let mut program = Program::remote(c_program("collectives"), &urls).args(["3", "lost"]).start();
    assert_eq!(program.line(), "ready");
    process::kill(servers[1].worker_of(program.pid()));
    program.say("");
    let outcome = program.finish().success();
    assert_eq!(outcome.stdout, "both have failed\nthe others go on\n", "{}", outcome.stderr);
}

/// PoCL ends the program when a command fails, so that what fails is not compared with it.
#[test]
fn they_wait_for_events_and_fail_with_them() {
    let (_servers, urls) = three_servers();
    for order in ["", "unordered"] {
        let native = Program::native(c_program("collectives")).args(["4", "events", order]).run().success();
        let remote = Program::remote(c_program("collectives"), &urls).args(["4", "events", "failing", order]);
        let remote = remote.run().success();
        assert_eq!(remote.stdout, native.stdout + "fails with what it waits for\n", "{}", remote.stderr);
    }
}

#[test]
fn wrong_calls_are_refused() {
    let server = Server::start();
    let outcome = Program::remote(c_program("collectives_errors"), server.url()).run();
    assert_eq!(outcome.stdout, "all right\n", "{}", outcome.stderr);
}

/// Adds up `count` numbers on each of `ranks` ranks, so often. What the program counted, and the bytes that went between servers.
fn turns(urls: &str, ranks: u64, turns: u64, count: u64) -> (Stats, u64) {
    let args = [ranks.to_string(), "turns".into(), turns.to_string(), count.to_string()];
    let program = Program::remote(c_program("collectives"), urls).args(args).env("ROPEWAY_STATS", "1");
    let outcome = program.run().success();
    assert_eq!(outcome.stdout, format!("the last number is {}\n", ranks * (ranks + 1) / 2), "{}", outcome.stderr);
    let moved =
        outcome.stderr.split("bytes_moved=").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    (Stats::of(&outcome.stderr), moved.expect("it is counted"))
}

#[test]
fn nothing_waits_and_no_data_passes_through_the_client() {
    let (_servers, urls) = three_servers();
    // The first time the source goes over.
    turns(&urls, 3, 1, 1000);
    let ((few, _), (many, _)) = (turns(&urls, 3, 10, 1000), turns(&urls, 3, 30, 1000));
    // The program itself waits for the three queues after each turn.
    assert!((many.round_trips - few.round_trips).abs_diff(20 * 3) <= 5, "{few:?}\n{many:?}");
    // 24 MB on each of three servers: round the ring, between servers.
    let (much, _) = turns(&urls, 3, 1, 6 << 20);
    assert!(much.bytes_sent < 200_000 && much.bytes_received < 100_000, "{much:?}");
}

#[test]
fn between_servers_goes_what_the_textbook_says() {
    let (_servers, urls) = three_servers();
    let moved = |ranks, count| turns(&urls, ranks, 1, count).1;
    // Two trees, and a ring: twice the data for all but one rank.
    assert_eq!(moved(3, 1000), 4 * 1000 * 2 * 2);
    assert_eq!(moved(3, 3_000_000), 4 * 3_000_000 * 2 * 2);
    // A ring of six ranks leads from server to server three times, with two parts of six less than all.
    assert_eq!(moved(6, 600_000), 3 * (4 * 600_000 * 2 * 5 / 6));
}
