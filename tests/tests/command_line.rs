//! The commands: what they print when all is well, and when it is not.

use std::fs;
use std::time::Duration;

use ropeway_tests::fake;
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::server::Server;

fn run(args: &[&str]) -> Outcome {
    Program::native(ropeway()).args(args).run()
}

#[test]
fn run_gives_a_program_the_servers_devices() {
    let server = Server::start();
    let program = c_program("listing").display().to_string();
    let only = run(&["run", "--server", server.url(), "--only", "--", &program]).success();
    assert_eq!(only.stdout, "Ropeway: 1 devices (0)\n1 platforms\n", "{}", only.stderr);
    let beside = run(&["run", "--server", server.url(), "--", &program]).success();
    assert!(beside.stdout.contains("Portable Computing Language: 1"), "{}", beside.stdout);
    assert!(beside.stdout.contains("Ropeway: 1"), "{}", beside.stdout);
    let each = run(&["run", "--server", server.url(), "--only", "--per-platform", "--", &program]).success();
    assert!(each.stdout.contains("Portable Computing Language ["), "{}", each.stdout);
}

#[test]
fn run_ends_as_its_program_does() {
    let server = Server::start();
    assert_eq!(run(&["run", "--server", server.url(), "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let missing = run(&["run", "--server", server.url(), "--", "/no/such/program"]);
    assert!(!missing.status.success() && missing.stderr.contains("/no/such/program"), "{}", missing.stderr);
}

#[test]
fn devices_are_a_table_with_latency_and_bandwidth() {
    let server = Server::start();
    let table = run(&["devices", "--server", server.url()]).success().stdout;
    for part in [server.address(), "pthread", "B/s"] {
        assert!(table.contains(part), "no '{part}' in:\n{table}");
    }
    // A busy machine takes milliseconds.
    assert!([" us ", " ms "].iter().any(|unit| table.contains(unit)), "no latency in:\n{table}");
    let nobody = fake::nobody();
    let both = run(&["devices", "--server", &format!("{},{nobody}", server.url())]);
    assert!(both.stdout.contains("pthread"), "the other server is still listed:\n{}", both.stdout);
    let said = both.stdout + &both.stderr;
    assert!(said.contains(nobody.trim_start_matches("tcp://")), "{said}");
}

#[test]
fn doctor_finds_nothing_wrong_or_says_what_to_do() {
    let server = Server::start();
    let well = run(&["doctor", "--server", server.url()]);
    assert!(well.stdout.contains("pthread") || well.stdout.contains("1 device"), "{}\n{}", well.stdout, well.stderr);
    let nobody = fake::nobody();
    let ill = run(&["doctor", "--server", &nobody]);
    let said = ill.stdout + &ill.stderr;
    assert!(!ill.status.success(), "{said}");
    for part in [&nobody[..], "refused", "ropeway serve"] {
        assert!(said.contains(part), "no '{part}' in:\n{said}");
    }
}

#[test]
fn doctor_reads_the_configuration_that_is_in_effect() {
    let program = Program::native(ropeway()).args(["doctor"]);
    let folder = program.home().join("config/ropeway");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("ropeway.toml"), "servers = [\"ftp://nonsense\"]\ncolour = 1\n").unwrap();
    let outcome = program.run();
    let said = outcome.stdout + &outcome.stderr;
    for part in ["ropeway.toml:1", "ftp://nonsense", "ropeway.toml:2", "colour"] {
        assert!(said.contains(part), "no '{part}' in:\n{said}");
    }
}

#[test]
fn serve_refuses_a_network_where_there_is_no_place_for_its_key() {
    let serve = Program::native(ropeway()).args(["serve", "--listen", "tcp://0.0.0.0:0"]);
    let nowhere = ["HOME", "XDG_STATE_HOME", "STATE_DIRECTORY"].into_iter();
    let refused = nowhere.fold(serve, |serve, name| serve.env(name, "")).limit(Duration::from_secs(20)).run();
    assert!(!refused.status.success());
    assert!(refused.stderr.contains("--plaintext-network"), "{}", refused.stderr);
}

#[test]
fn a_port_in_use_is_said_plainly() {
    let server = Server::start();
    let refused = run(&["serve", "--listen", server.url()]);
    assert!(!refused.status.success());
    assert!(refused.stderr.contains("another program does already"), "{}", refused.stderr);
}

#[test]
fn a_server_stops_cleanly() {
    let mut server = Server::start_unix();
    let socket = server.url().trim_start_matches("unix:").to_owned();
    assert!(fs::exists(&socket).unwrap());
    assert!(server.stop().success());
    assert!(!fs::exists(&socket).unwrap(), "the socket's file goes with the server");
}

#[test]
fn servers_come_from_a_host_file_and_from_the_configuration() {
    let server = Server::start();
    let lists = |program: Program| {
        let outcome = program.run().success();
        assert_eq!(outcome.stdout, "Ropeway: 1 devices (0)\n1 platforms\n", "{}", outcome.stderr);
    };
    let program = Program::remote(c_program("listing"), "");
    let hosts = program.home().join("hosts");
    fs::write(&hosts, format!("# the lab\n{}  # this one\n", server.address())).unwrap();
    lists(program.env("ROPEWAY_HOSTFILE", &hosts));
    let program = Program::remote(c_program("listing"), "");
    let folder = program.home().join("config/ropeway");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("ropeway.toml"), format!("servers = [\"{}\"]\n", server.url())).unwrap();
    lists(program);
}

#[test]
fn completions_and_man_pages_come_from_the_same_definitions() {
    assert!(run(&["completions", "bash"]).success().stdout.contains("plaintext-network"));
    let program = Program::native(ropeway());
    let folder = program.home().join("man").display().to_string();
    let pages = program.args(["man", &folder]).run().success();
    assert!(pages.file("man/ropeway-serve.1").contains("plaintext"));
}

#[test]
fn calls_are_traced_when_that_is_asked_for() {
    let server = Server::start();
    let program = Program::remote(c_program("vector_add"), server.url()).env("ROPEWAY_LOG", "debug");
    let trace = program.run().success().stderr;
    for call in ["clCreateContext", "clCreateBuffer", "clEnqueueNDRangeKernel", "clEnqueueReadBuffer"] {
        assert!(trace.contains(call), "no {call} in:\n{trace}");
    }
}
