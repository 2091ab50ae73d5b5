//! Images of which devices of several servers write some rows each: what moves, and what does not.

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

/// Bytes of a row of the images of which bytes are counted, and how many rows they have.
const ROW: u64 = 200 * 4;
const ROWS: u64 = 300;

/// A program's output, the number of moves, and their bytes.
fn run(servers: &[Server], args: &[&str], peers: &str) -> (String, u64, u64) {
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let program = Program::remote(c_program("image_rows"), &urls.join(",")).args(args);
    let outcome = program.env("ROPEWAY_STATS", "1").env("ROPEWAY_PEERS", peers).run().success();
    eprintln!("{args:?}: {}", outcome.stderr.trim_end());
    assert!(outcome.stdout.ends_with("right\n"), "{}", outcome.stdout);
    let count = |name: &str| {
        let pairs = outcome.stderr.split_whitespace().filter_map(|pair| pair.split_once('='));
        let value = pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in: {}", outcome.stderr))
    };
    let (moves, bytes) = (count("moves"), count("bytes_moved"));
    (outcome.stdout, moves, bytes)
}

fn start(servers: usize, args: &[&str]) -> Vec<Server> {
    let args = [&["--listen", "tcp://127.0.0.1:0"], args].concat();
    (0..servers).map(|_| Server::start_with(&args, &[])).collect()
}

#[test]
fn each_gets_the_rows_that_it_lacks() {
    for peers in ["on", "off"] {
        let (_, moves, bytes) = run(&start(2, &[]), &["bands"], peers);
        // Each gets the other's half, and then one the half that was written again.
        assert_eq!((moves, bytes), (3, 3 * ROWS / 2 * ROW));
        let (_, moves, bytes) = run(&start(3, &[]), &["bands"], peers);
        // Two thirds each, some of them together; then one third for two.
        assert_eq!(bytes, (3 * 2 + 2) * ROWS / 3 * ROW);
        assert!(moves <= 8, "{moves} moves");
    }
}

#[test]
fn what_is_replaced_does_not_move() {
    let (_, moves, _) = run(&start(2, &[]), &["replaced"], "on");
    assert_eq!(moves, 0);
}

#[test]
fn a_row_of_which_some_is_written_comes_first() {
    let (_, _, bytes) = run(&start(2, &[]), &["columns"], "on");
    // Ten rows come and go, then all others come.
    assert_eq!(bytes, (10 + 10 + ROWS - 10) * ROW);
}

#[test]
fn commands_at_random_see_what_they_should() {
    let native = Program::native(c_program("image_rows")).env("POCL_DEVICES", "pthread pthread pthread");
    native.args(["random", "1", "200"]).run().success();
    let (servers, pinned) = (start(3, &[]), start(3, &["--force-pinned"]));
    for seed in ["1", "2", "3", "4"] {
        run(&servers, &["random", seed, "400"], "on");
        run(&pinned, &["random", seed, "400"], if seed == "1" { "off" } else { "on" });
    }
    run(&servers, &["random", "5", "200"], "off");
}
