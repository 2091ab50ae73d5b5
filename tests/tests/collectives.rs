//! Collective operations: what they compute, on one server and over several, beside ordinary calls; what they cost.

use ropeway_tests::cluster::{Cluster, Stage, expect};
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

#[test]
fn when_a_server_is_cut_off_they_fail_and_the_other_ranks_go_on() {
    let Some(cluster) = Cluster::start() else { return };
    let mut program = cluster.program("collectives", &["3", "lost"]).start();
    expect(&mut program, "ready");
    cluster.host(2).cut();
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

/// Adds up `count` numbers on each of `ranks` ranks, so often. What the program counted, and the bytes that went
/// between servers.
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

/// The bytes that an operation has to move: to and from each server, the rank of the same number.
struct Moved {
    to: Vec<u64>,
    from: Vec<u64>,
}

impl Moved {
    /// Copies of so many bytes, from rank to rank.
    fn of(ranks: usize, copies: &[(usize, usize, u64)]) -> Self {
        let mut this = Self { to: vec![0; ranks], from: vec![0; ranks] };
        for (from, to, bytes) in copies {
            this.from[*from] += bytes;
            this.to[*to] += bytes;
        }
        this
    }

    /// Each rank sends so much, and receives as much.
    fn all(ranks: usize, bytes: u64) -> Self {
        Self { to: vec![bytes; ranks], from: vec![bytes; ranks] }
    }
}

/// The bytes that go along rings and chains of `ranks` ranks, the second of which is the root, where each has, or each
/// block is of, `size` bytes.
fn much(operation: &str, ranks: usize, size: u64) -> Moved {
    let (root, others) = (1, ranks as u64 - 1);
    // All ranks in the order of a chain that begins with this one.
    let chain = |first: usize| -> Vec<_> {
        (0..ranks - 1).map(|at| ((first + at) % ranks, (first + at + 1) % ranks, size)).collect()
    };
    let aside = (0..ranks).filter(|rank| *rank != root);
    match operation {
        "broadcast" => Moved::of(ranks, &chain(root)),
        "scatter" => Moved::of(ranks, &aside.map(|rank| (root, rank, size)).collect::<Vec<_>>()),
        "gather" => Moved::of(ranks, &aside.map(|rank| (rank, root, size)).collect::<Vec<_>>()),
        "allgather" | "alltoall" | "reduce-scatter" => Moved::all(ranks, others * size),
        "reduce" => Moved::of(ranks, &chain(root + 1)),
        "allreduce" => Moved::all(ranks, 2 * others * size / ranks as u64),
        "scan" | "exclusive scan" => Moved::of(ranks, &chain(0)),
        other => panic!("'{other}' is no operation"),
    }
}

/// The same along trees: what all servers together receive.
fn little(operation: &str, ranks: u64, size: u64) -> u64 {
    let others = ranks - 1;
    // Of four, one passes on another one's block.
    let dealt = if ranks == 4 { 4 } else { others };
    size * match operation {
        "broadcast" | "reduce" => others,
        "scatter" | "gather" => dealt,
        "allgather" | "alltoall" => ranks * others,
        "allreduce" => 2 * others,
        "reduce-scatter" => ranks * others + dealt,
        // Two rounds; without itself a rank first takes what the one before it has.
        "scan" => others + (others - 1),
        "exclusive scan" => others + (others - 1) + (others - 2),
        other => panic!("'{other}' is no operation"),
    }
}

/// Every operation with so many numbers, on as many servers as there are ranks: the same as natively by ordinary calls,
/// and what its algorithm moves, between the servers alone.
fn each_moves(servers: u8, count: u64, look: impl Fn(&Stage, usize, u64)) {
    let Some(cluster) = Cluster::of(servers) else { return };
    let (ranks, count_text) = (servers.to_string(), count.to_string());
    let (stages, outcome) = cluster.stages(cluster.program("collectives", &[&ranks, "each", &count_text, "staged"]));
    let plain = Program::native(c_program("collectives_ordinary")).args([&ranks, "each", &count_text]).run().success();
    assert_eq!(outcome.stdout, plain.stdout, "left: over servers, right: ordinary calls natively");
    assert_eq!(stages.len(), 10, "{stages:?}");
    for stage in &stages {
        assert!(stage.client() < 100_000, "{stage:?}");
        look(stage, servers.into(), 4 * count);
    }
}

#[test]
fn much_goes_round_rings_of_servers() {
    for servers in [3, 4] {
        each_moves(servers, 1_200_000, |stage, ranks, size| {
            let moved = much(&stage.name, ranks, size);
            for rank in 0..ranks {
                stage.expect_to(rank, moved.to[rank], 300_000);
                stage.expect_from(rank, moved.from[rank], 300_000);
            }
        });
    }
}

#[test]
fn little_goes_along_trees_of_servers() {
    for servers in [3, 4] {
        each_moves(servers, 15_000, |stage, ranks, size| {
            stage.expect_between(little(&stage.name, ranks as u64, size), 45_000);
        });
    }
}
