//! Residency of a context's memory objects over several servers: the bytes that move, and those that do not.

use ropeway_tests::cluster::Cluster;
use ropeway_tests::places::c_program;
use ropeway_tests::process;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

/// A program's output, and its counts.
struct Seen {
    said: String,
    stderr: String,
}

impl Seen {
    fn count(&self, name: &str) -> u64 {
        let pairs = self.stderr.split_whitespace().filter_map(|pair| pair.split_once('='));
        let found = pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok());
        found.unwrap_or_else(|| panic!("no {name} in: {}", self.stderr))
    }

    /// Bytes over the client's links.
    fn bytes(&self) -> u64 {
        self.count("bytes_sent") + self.count("bytes_received")
    }
}

/// The program that does what the arguments say.
fn program(args: &[&str]) -> std::path::PathBuf {
    c_program(match args[0] {
        "released" | "recorded" | "threads" | "lost" | "random" => "residency_more",
        "own_events" => "own_events",
        _ => "residency",
    })
}

struct Servers(Vec<Server>);

impl Servers {
    fn start(count: usize) -> Self {
        Self((0..count).map(|_| Server::start()).collect())
    }

    fn start_with(count: usize, args: &[&str]) -> Self {
        let args = [&["--listen", "tcp://127.0.0.1:0"], args].concat();
        Self((0..count).map(|_| Server::start_with(&args, &[])).collect())
    }

    fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Seen {
        let urls: Vec<_> = self.0.iter().map(Server::url).collect();
        let mut program = Program::remote(program(args), &urls.join(",")).args(args).env("ROPEWAY_STATS", "1");
        for (name, value) in env {
            program = program.env(name, value);
        }
        let outcome = program.run().success();
        eprintln!("{args:?}: {}", outcome.stderr.trim_end());
        assert!(outcome.stdout.ends_with("right\n"), "{}", outcome.stdout);
        Seen { said: outcome.stdout, stderr: outcome.stderr }
    }

    fn run(&self, args: &[&str]) -> Seen {
        self.run_with(args, &[])
    }
}

const ALL: [&[&str]; 10] = [
    &["alternate", "20", "4"],
    &["broadcast", "400000"],
    &["halves", "300000"],
    &["never", "10000000"],
    &["overwrite", "400000"],
    &["objects"],
    &["released", "20"],
    &["threads", "40"],
    &["random", "7", "300"],
    &["own_events"],
];

#[test]
fn everything_is_as_natively() {
    let servers = Servers::start(3);
    for args in ALL {
        let devices = Program::native(program(args)).env("POCL_DEVICES", "pthread pthread pthread");
        let native = devices.args(args).run().success();
        assert_eq!(servers.run(args).said, native.stdout, "left: through Ropeway, right: native");
    }
}

#[test]
fn everything_is_the_same_through_pinned_memory() {
    let servers = Servers::start_with(3, &["--force-pinned"]);
    for args in ALL {
        servers.run(args);
    }
}

#[test]
fn everything_is_the_same_through_the_client() {
    let servers = Servers::start(3);
    for args in ALL {
        let seen = servers.run_with(args, &[("ROPEWAY_PEERS", "off")]);
        assert_eq!(seen.count("bytes_relayed"), seen.count("bytes_moved"));
    }
}

/// The client's own count of moved bytes equals the traffic on the links of servers on machines of their own.
#[test]
fn what_is_said_to_move_is_what_the_links_carry() {
    let Some(cluster) = Cluster::start() else { return };
    for args in ALL.into_iter().chain([&["random", "21", "500"][..]]) {
        let before = cluster.traffic();
        let name = program(args);
        let program = Program::remote(name, &cluster.urls()).args(args).env("ROPEWAY_STATS", "1");
        let outcome = program.on(cluster.host(0)).run().success();
        let links: Vec<_> = cluster.traffic().into_iter().zip(before).map(|(after, before)| after - before).collect();
        let seen = Seen { said: outcome.stdout, stderr: outcome.stderr };
        assert!(seen.said.ends_with("right\n"), "{}", seen.said);
        let came: u64 = links.iter().skip(1).map(|link| link.bytes_in).sum();
        // The links are not all looked at in the same moment: the client's last words may not have come.
        let between = came.saturating_sub(links[0].bytes_out);
        let (moved, moves) = (seen.count("bytes_moved"), seen.count("moves"));
        eprintln!("{args:?}: {moved} bytes in {moves} moves, {between} between the servers");
        // Each move takes a message and a few packets, and so does each end that is told.
        let most = moved + moved / 50 + 1000 * moves + 300_000;
        assert!((moved..most).contains(&between), "{args:?}: {moved} bytes in {moves} moves: {links:?}");
        assert_eq!(seen.count("bytes_relayed"), 0);
    }
}

#[test]
fn a_buffer_in_turn_moves_once_a_turn() {
    let servers = Servers::start(2);
    let seen = servers.run(&["alternate", "41", "4"]);
    // The first turn finds what the client had; what is read is where the last one was.
    assert_eq!((seen.count("moves"), seen.count("bytes_moved")), (40, 160));
}

#[test]
fn large_data_does_not_come_near_the_client() {
    let servers = Servers::start(2);
    // 64 turns of 16 MiB: 1 GiB. The first contents go out, what is read at the end comes in.
    let (few, many) = (servers.run(&["alternate", "2", "16777216"]), servers.run(&["alternate", "66", "16777216"]));
    assert_eq!(many.count("bytes_moved") - few.count("bytes_moved"), 1 << 30);
    let more = many.bytes() - few.bytes();
    assert!(more < 100_000, "{more} bytes over the client's links");
    assert_eq!(many.count("bytes_relayed"), 0);
}

#[test]
fn what_is_only_read_is_copied_once_to_each() {
    let servers = Servers::start(3);
    let seen = servers.run(&["broadcast", "4000000"]);
    assert_eq!((seen.count("moves"), seen.count("bytes_moved")), (2, 8_000_000), "three rounds on three devices");
    // The client sends it once.
    assert!((4_000_000..4_100_000).contains(&seen.count("bytes_sent")), "{}", seen.stderr);
}

#[test]
fn parts_are_written_at_the_same_time() {
    let servers = Servers::start(2);
    let seen = servers.run(&["halves", "2000000"]);
    // In each of two rounds each device gets the other's half, and none before it writes its own again.
    let half = 2_000_000 / 2 / 4096 * 4096;
    assert_eq!((seen.count("moves"), seen.count("bytes_moved")), (4, 4 * half));
}

#[test]
fn what_nobody_wrote_does_not_move() {
    let servers = Servers::start(3);
    let seen = servers.run(&["never", "100000000"]);
    assert_eq!((seen.count("moves"), seen.count("bytes_moved")), (2, 2 * 1024));
    assert!(seen.bytes() < 100_000, "{}", seen.stderr);
}

#[test]
fn what_is_replaced_or_not_needed_does_not_move() {
    let servers = Servers::start(2);
    assert_eq!(servers.run(&["overwrite", "2000000"]).count("moves"), 0);
}

#[test]
fn recorded_commands_find_what_they_use() {
    let servers = Servers::start(2);
    // 10 rounds on two devices, the first of which finds what the client had, and a read on the first.
    assert_eq!(servers.run(&["recorded"]).count("moves"), 20);
}

#[test]
fn commands_at_random_see_what_they_should() {
    let servers = Servers::start(3);
    for seed in ["11", "12", "13", "14"] {
        servers.run(&["random", seed, "500"]);
    }
}

#[test]
fn what_a_lost_server_alone_had_is_lost_until_it_is_written_again() {
    for peers in ["on", "off"] {
        let servers = Servers::start(3);
        let urls: Vec<_> = servers.0.iter().map(Server::url).collect();
        let program = Program::remote(program(&["lost"]), &urls.join(",")).args(["lost"]);
        let mut program = program.env("ROPEWAY_PEERS", peers).start();
        assert_eq!(program.line(), "ready");
        process::kill(servers.0[0].worker_of(program.pid()));
        program.say("go on");
        let outcome = program.finish().success();
        assert_eq!(outcome.stdout, "what others have is right\n", "{}", outcome.stderr);
    }
}
