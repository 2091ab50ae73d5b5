//! Buffers of which only the first bytes mean something: the others do not travel.

use ropeway_tests::cluster::Cluster;
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::stats::Stats;

fn run(program: Program) -> Stats {
    let outcome = program.env("ROPEWAY_STATS", "1").run().success();
    assert_eq!(outcome.stdout, "contents are right\n");
    eprintln!("{}", outcome.stderr.trim_end());
    Stats::of(&outcome.stderr)
}

#[test]
fn it_is_set_and_refused_as_the_extension_says() {
    let server = Server::start();
    let program = |program: Program| program.args(["errors"]).run().success().stdout;
    let native = program(Program::native(c_program("content_size")));
    assert_eq!(program(Program::remote(c_program("content_size"), server.url())), native);
}

#[test]
fn reads_end_with_the_contents() {
    let server = Server::start();
    for (size, contents) in [("4000000", "1000"), ("4000000", "700000"), ("4000000", "0"), ("1000", "10")] {
        let stats = run(Program::remote(c_program("content_size"), server.url()).args(["read", size, contents]));
        // The first read has the contents; the second, after it was said that there is more, has all.
        let expected = size.parse::<u64>().unwrap() + contents.parse::<u64>().unwrap();
        assert!(stats.bytes_received < expected + 30_000, "{stats:?}");
    }
}

/// Through mapped memory, or as on a device with memory of its own.
fn contents_go_round(args: &[&str]) {
    let args = [&["--listen", "tcp://127.0.0.1:0"], args].concat();
    let servers: Vec<_> = (0..3).map(|_| Server::start_with(&args, &[])).collect();
    let urls = servers.iter().map(Server::url).collect::<Vec<_>>().join(",");
    for contents in ["0", "1", "65536", "524287", "524288", "524289", "1572864", "2000000"] {
        for peers in ["on", "off"] {
            let program = Program::remote(c_program("content_size"), &urls).args(["turns", "2000000", contents, "7"]);
            run(program.env("ROPEWAY_PEERS", peers));
        }
    }
}

#[test]
fn contents_go_from_server_to_server_whatever_their_size() {
    contents_go_round(&[]);
}

#[test]
fn contents_go_through_pinned_memory() {
    contents_go_round(&["--force-pinned"]);
}

#[test]
fn what_means_nothing_does_not_go_from_server_to_server() {
    let Some(cluster) = Cluster::start() else { return };
    // 19 times from server to server, a part of 10,000,000 bytes.
    for contents in [0, 5000, 200_000, 3_000_000] {
        let args = ["turns", "10000000", &contents.to_string(), "20", "staged"];
        let (stages, outcome) = cluster.stages(cluster.program("content_size", &args));
        assert_eq!(outcome.stdout, "contents are right\n");
        let [in_turn, read] = &stages[..] else { panic!("two parts are measured: {stages:?}") };
        in_turn.expect_between(19 * contents, 200_000);
        assert!(in_turn.client() < 50_000, "{in_turn:?}");
        read.expect_to_client(contents, 100_000);
        assert!(read.between() < 10_000, "{read:?}");
    }
}
