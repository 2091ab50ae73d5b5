//! Servers that announce themselves on the local network, and clients that look for them.

use std::fs;
use std::path::PathBuf;

use ropeway_tests::net::{Host, Net};
use ropeway_tests::places::{self, c_program};
use ropeway_tests::program::{Outcome, Program, Running};
use ropeway_tests::server::Server;

/// The type of service that servers announce.
const SERVICE: &[u8] = b"_ropeway._tcp";

/// The output of `listing` with the servers of the network.
fn list(client: &Host, trusted: &str) -> Outcome {
    let program = Program::remote(c_program("listing"), "auto").env("ROPEWAY_DISCOVER_TIME", "3");
    program.env("ROPEWAY_TRUSTED", trusted).on(client).run()
}

/// The library's messages.
fn said(outcome: &Outcome) -> Vec<&str> {
    outcome.stderr.lines().filter(|line| line.starts_with("ropeway: ")).collect()
}

/// A server on a machine's loopback address.
fn on_loopback(host: &Host, name: &str) -> Running {
    let serve =
        ["serve", "--listen", "tcp://127.0.0.1:0", "--warm", "1", &format!("--announce={name}")].map(str::to_owned);
    let mut server = Program::native(places::ropeway()).args(serve).on(host).start();
    while server.line() != "ready" {}
    server
}

#[test]
fn trusted_servers_are_found_and_others_named() {
    let Some(net) = Net::or_skip(4) else { return };
    let announced = Server::start_on(net.host(1), &["--announce=gpu one"], &[]);
    let other = Server::start_on(net.host(2), &["--announce=gpu.two"], &[]);
    let _silent = Server::start_on(net.host(3), &[], &[]);
    let client = net.host(0);

    let by_name = list(client, "GPU one").success();
    assert_eq!(by_name.stdout, "Ropeway: 1 devices (0)\n1 platforms\n", "{}", by_name.stderr);
    assert_eq!(said(&by_name).len(), 1, "{}", by_name.stderr);
    let named = format!("a server 'gpu.two' announces itself at {}, and is not used", other.url());
    assert!(by_name.stderr.contains(&named), "{}", by_name.stderr);

    let by_network = list(client, "10.0.0.0/24").success();
    assert_eq!(by_network.stdout, "Ropeway: 2 devices (0)\n1 platforms\n", "{}", by_network.stderr);
    assert!(said(&by_network).is_empty(), "{}", by_network.stderr);
    let none = list(client, "10.0.1.0/24").success();
    assert!(none.stdout.ends_with("0 platforms\n"), "{}", none.stdout);
    assert_eq!(said(&none).len(), 2, "{}", none.stderr);

    // The table shows both, and what is not trusted is not connected.
    let devices = Program::native(places::ropeway()).args(["devices", "--discover", "--no-measure"]);
    let devices =
        devices.env("ROPEWAY_TRUSTED", "gpu one").env("ROPEWAY_DISCOVER_TIME", "3").on(client).run().success();
    let line = |url: &str| devices.stdout.lines().find(|line| line.starts_with(url)).unwrap_or_default().to_owned();
    assert!(line(announced.url()).contains("CPU"), "{}", devices.stdout);
    assert!(line(other.url()).contains("'gpu.two' is not trusted"), "{}", devices.stdout);
    assert_eq!(other.log().matches("session begins").count(), 1, "only by its network: {}", other.log());
}

#[test]
fn nobody_looks_unless_asked() {
    let Some(net) = Net::or_skip(2) else { return };
    let server = Server::start_on(net.host(1), &["--announce=gpu"], &[]);
    // Its announcements are over before long; then what comes to the client's machine is only what it asks for.
    let multicast = |host: &Host| {
        let counters = host.command("cat").arg("/proc/net/snmp").output().unwrap();
        let text = String::from_utf8(counters.stdout).unwrap();
        let line = text.lines().filter(|line| line.starts_with("Udp:")).nth(1).unwrap().to_owned();
        line.split_whitespace().nth(4).unwrap().parse::<u64>().unwrap()
    };
    Program::remote(c_program("listing"), server.url()).on(net.host(0)).run().success();
    assert_eq!(multicast(net.host(0)), 0, "datagrams sent without being asked to look");
    let config = Program::remote(c_program("listing"), "").env("ROPEWAY_TRUSTED", "gpu").on(net.host(0));
    let file = config.home().join("config/ropeway/ropeway.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "discover = true\ndiscover-time = 3\n").unwrap();
    let found = config.run().success();
    assert_eq!(found.stdout, "Ropeway: 1 devices (0)\n1 platforms\n", "{}", found.stderr);
    assert!(multicast(net.host(0)) > 0);
}

#[test]
fn ones_own_machine_is_trusted_and_other_machines_do_not_hear_of_it() {
    let Some(net) = Net::or_skip(2) else { return };
    let _server = on_loopback(net.host(0), "own");
    let own = list(net.host(0), "").success();
    assert_eq!(own.stdout, "Ropeway: 1 devices (0)\n1 platforms\n", "{}", own.stderr);
    let others = list(net.host(1), "0.0.0.0/0").success();
    assert!(others.stdout.ends_with("0 platforms\n"), "{}", others.stdout);
    assert!(said(&others).is_empty(), "{}", others.stderr);
}

#[test]
fn a_server_that_listens_everywhere_is_found_by_its_networks_address() {
    let Some(net) = Net::or_skip(2) else { return };
    let args = ["--listen", "tcp://0.0.0.0:7600", "--announce=everywhere"];
    let server = Server::start_on(net.host(1), &args, &[]);
    // One name for each port.
    let run =
        Program::native(places::ropeway()).args(["run", "--only", "--discover", "--"]).args([c_program("listing")]);
    let run =
        run.env("ROPEWAY_TRUSTED", "everywhere 7600").env("ROPEWAY_DISCOVER_TIME", "3").on(net.host(0)).run().success();
    assert_eq!(run.stdout, "Ropeway: 1 devices (0)\n1 platforms\n", "{}", run.stderr);
    assert!(
        run.stderr.contains(&format!("a server 'everywhere' announces itself at {}", server.url())),
        "{}",
        run.stderr
    );
    server.expect_log("session begins");
}

#[test]
fn a_server_appears_while_a_program_runs() {
    let Some(net) = Net::or_skip(2) else { return };
    let program = Program::remote(c_program("servers"), "auto").env("ROPEWAY_PLATFORMS", "always");
    let mut program = program.env("ROPEWAY_TRUSTED", "10.0.0.0/24").on(net.host(0)).start();
    assert_eq!(program.line(), "ready");
    let mut ask = |command: &str| {
        program.say(command);
        program.line()
    };
    assert_eq!(ask("list"), "0 servers 0 devices");
    let threads = |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    assert_eq!(ask("watch"), "watching");
    let mut server = Server::start_on(net.host(1), &["--announce"], &[]);
    assert_eq!(ask("news"), "found 0");
    assert_eq!(ask("open 0"), "open");
    assert_eq!(ask("run"), "run 42");
    server.kill();
    assert_eq!(ask("news"), "lost 0");
    assert_eq!(ask("release"), "released");
    assert_eq!(ask("unwatch"), "not watching");
    let pid = program.pid();
    // The program's own, and the one that runs callbacks.
    ropeway_tests::wait_for("end of threads", std::time::Duration::from_secs(10), || (threads(pid) <= 2).then_some(()));
    program.finish().success();
}

/// The service's name stands where looking and announcing is done, and only there.
#[test]
fn programs_do_not_load_what_only_looking_needs() {
    let has = |path: PathBuf| {
        let bytes = fs::read(path).expect("it was built");
        bytes.windows(SERVICE.len()).any(|window| window == SERVICE)
    };
    assert!(has(places::ropeway()));
    assert!(!has(places::library()), "the client library has multicast DNS in it");
}
