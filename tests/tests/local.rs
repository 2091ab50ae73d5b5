//! `local:`, a server that a program starts for itself: this machine's devices beside remote ones.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ropeway_tests::cluster::{Cluster, MIB};
use ropeway_tests::places::{self, c_program};
use ropeway_tests::process;
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::server::Server;
use ropeway_tests::wait_for;

/// The folders of local servers in `runtime`; each is there as long as its server.
fn servers(runtime: &Path) -> usize {
    let entries = fs::read_dir(runtime).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("ropeway-local-")).count()
}

fn expect_end(runtime: &Path) {
    wait_for("end of the local server", Duration::from_secs(10), || (servers(runtime) == 0).then_some(()));
}

/// `program` with a folder for sockets of its own.
fn program(name: &str, servers: &str, runtime: &Path) -> Program {
    Program::remote(c_program(name), servers).env("XDG_RUNTIME_DIR", runtime)
}

#[test]
fn this_machines_devices_take_part() {
    let runtime = tempfile::tempdir().unwrap();
    let native = Program::native(c_program("vector_add")).run().success();
    let local = program("vector_add", "local:", runtime.path()).run().success();
    assert_eq!(local.stdout, native.stdout);
    assert_eq!(local.stderr, "", "its log is not the program's output");
    expect_end(runtime.path());

    let server = Server::start();
    let both = format!("local:,{}", server.url());
    let listed = program("listing", &both, runtime.path()).run().success();
    assert_eq!(listed.stdout, "Ropeway: 2 devices (0)\n1 platforms\n", "{}", listed.stderr);
    expect_end(runtime.path());
}

#[test]
fn one_context_holds_devices_of_this_machine_and_of_others() {
    let runtime = tempfile::tempdir().unwrap();
    let native = Program::native(c_program("many_servers")).env("POCL_DEVICES", "pthread pthread").args(["all"]);
    let server = Server::start();
    let both =
        program("many_servers", &format!("local:,{}", server.url()), runtime.path()).args(["all"]).run().success();
    assert_eq!(both.stdout, native.run().success().stdout, "left: through Ropeway, right: native; {}", both.stderr);
    assert!(both.stdout.starts_with("2 devices in one context\n"), "{}", both.stdout);
    assert_eq!(both.stderr, "", "they reach each other");
    expect_end(runtime.path());
}

/// Bytes to and from this machine's devices go over its link, and those between the others do not.
#[test]
fn they_take_part_with_devices_of_a_network() {
    let Some(cluster) = Cluster::of(2) else { return };
    let runtime = tempfile::tempdir().unwrap();
    let all = format!("local:,{}", cluster.urls());
    let run = |args: &[&str]| program("many_servers", &all, runtime.path()).args(args).on(cluster.host(0));
    let native = Program::native(c_program("many_servers")).env("POCL_DEVICES", "pthread pthread pthread");
    let remote = run(&["all"]).run().success();
    assert_eq!(remote.stdout, native.args(["all"]).run().success().stdout, "left: through Ropeway, right: native");
    assert_eq!(remote.stderr, "", "they reach each other");
    expect_end(runtime.path());
    // Twice round: from this machine to the first server, the second, and back.
    let (stage, _) = cluster.measured(run(&["exchange", "4194304", "6"]));
    stage.expect_from_client(2 * 4 * MIB, MIB);
    stage.expect_between(2 * 4 * MIB, MIB);
    stage.expect_to_client(2 * 4 * MIB, MIB);
    expect_end(runtime.path());
}

#[test]
fn it_comes_and_goes_with_the_program() {
    let runtime = tempfile::tempdir().unwrap();
    let mut program = program("servers", "local:", runtime.path()).start();
    assert_eq!(program.line(), "ready");
    assert_eq!(servers(runtime.path()), 1);
    // A program that waits for its children has none.
    assert!(process::children(program.pid()).is_empty());
    let mut ask = |command: &str| {
        program.say(command);
        program.line()
    };
    assert_eq!(ask("connect local:"), "connected 0");
    assert_eq!(ask("show 0"), "server 0 local: port 0 state 1 devices 1");
    assert_eq!(ask("open 0"), "open");
    assert_eq!(ask("run"), "run 42");
    assert_eq!(ask("disconnect 0"), "disconnected 0");
    expect_end(runtime.path());
    assert_eq!(ask("connect local:"), "connected 1");
    assert_eq!(servers(runtime.path()), 1);
    program.kill();
    expect_end(runtime.path());
}

#[test]
fn its_program_is_found_or_missed_with_a_sentence() {
    let runtime = tempfile::tempdir().unwrap();
    let with =
        |binary: &Path| -> Outcome { program("listing", "local:", runtime.path()).env("ROPEWAY_BINARY", binary).run() };
    assert!(with(&places::ropeway()).success().stdout.contains("1 devices"));
    let missing = with(Path::new("/nonexistent/ropeway"));
    assert!(missing.stderr.contains("cannot start /nonexistent/ropeway"), "{}", missing.stderr);
    let other = with(Path::new("/bin/true"));
    assert!(other.stderr.contains("did not start a server"), "{}", other.stderr);
}

#[test]
fn the_tools_know_it() {
    let runtime = tempfile::tempdir().unwrap();
    let devices = Program::native(places::ropeway()).args(["devices", "--no-measure", "--server", "local:"]);
    let devices = devices.env("XDG_RUNTIME_DIR", runtime.path()).run().success();
    assert!(devices.stdout.contains("local:"), "{}", devices.stdout);
    expect_end(runtime.path());
    // The program sees only Ropeway, and the server behind it the machine's own drivers.
    let listing = c_program("listing");
    let run = Program::native(places::ropeway()).args(["run", "--only", "--server", "local:", "--"]).args([&listing]);
    let run = run.env("XDG_RUNTIME_DIR", runtime.path()).run().success();
    assert_eq!(run.stdout, "Ropeway: 1 devices (0)\n1 platforms\n", "{}", run.stderr);
    expect_end(runtime.path());
}
