//! Devices that a broker lends: who gets which, and what happens when somebody ends.

use std::fs;
use std::time::Duration;

use ropeway_tests::broker::{Broker, with_key_of};
use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::{process, wait_for};

const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_program_gets_the_devices_that_it_wants_and_no_others() {
    let broker = Broker::start();
    let (_one, _two) = (broker.server(2), broker.server(2));
    let alice = broker.ticket("alice", &[]);
    for (want, devices) in
        [("1 cpu", 1), ("3 devices", 3), ("2 cpu on one server and 1 device, memory>=1M", 3), ("4", 4)]
    {
        let outcome = broker.run(&alice, want, "clinfo", &["-l"]).success();
        assert_eq!(outcome.listed(), devices, "{want}: {outcome:?}");
    }
    broker.run(&alice, "2 cpu on different servers", c_program("two_devices"), &[]).success();
    for (want, told) in [
        ("gpu", "no device has type=gpu"),
        ("5 devices", "5 devices are wanted with any properties, and there are 4"),
        ("3 cpu on one server", "no server has 3 devices with type=cpu; there are 4 in all"),
        ("cpu, memory>=100T", "no device has global_mem_size>=100T"),
        ("cpu, colour=red", "'colour' is not a property of devices"),
    ] {
        let outcome = broker.run(&alice, want, "clinfo", &["-l"]);
        assert!(!outcome.status.success() && outcome.stderr.contains(told), "{want}: {outcome:?}");
    }
    // The program's exit code is its own.
    let outcome = broker.run(&alice, "cpu", "sh", &["-c", "exit 7"]);
    assert_eq!(outcome.status.code(), Some(7), "{outcome:?}");
    broker.expect_leases(0);
}

#[test]
fn nobody_sees_devices_without_a_lease() {
    let broker = Broker::start();
    let server = broker.server(1);
    let own = server.own_ticket("bob");
    let outcome = Program::remote("clinfo", &own).args(["-l"]).run();
    assert_eq!(outcome.listed(), 0);
    assert!(outcome.stderr.contains("its devices are lent by a broker"), "{outcome:?}");
}

#[test]
fn who_comes_later_waits_until_devices_are_free() {
    let broker = Broker::start();
    let _server = broker.server(2);
    let (alice, bob) = (broker.ticket("alice", &[]), broker.ticket("bob", &[]));
    let mut first = broker.program(&alice, "2 cpu", c_program("held"), &[]).start();
    assert_eq!(first.line(), "ready");
    let told = broker.command(&["run", "--want", "cpu", "--wait", "0s", "--", "true"]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("not enough of what is wanted is free now"), "{told:?}");
    let second = broker.program(&bob, "cpu", "clinfo", &["-l"]).start();
    wait_for("a request that waits", LONG, || broker.says(&["queue"]).contains("bob").then_some(()));
    assert_eq!(broker.lease_count(), 1);
    first.finish().success();
    let outcome = second.finish().success();
    assert_eq!(outcome.listed(), 1);
    assert!(outcome.stderr.contains("the request waits for devices that others have; it is the next"), "{outcome:?}");
    broker.expect_leases(0);
}

#[test]
fn a_holder_that_is_killed_loses_its_devices() {
    let broker = Broker::start();
    let server = broker.server(1);
    let alice = broker.ticket("alice", &[]);
    let mut program = broker.program(&alice, "cpu", c_program("held"), &[]).start();
    assert_eq!(program.line(), "ready");
    let of_program = process::children(program.pid());
    let worker = server.worker_of(of_program[0]);
    process::kill(program.pid());
    broker.expect_leases(0);
    assert!(!server.workers().contains(&worker), "the session has ended before the device was free");
    server.expect_log("its holder is gone");
    assert_eq!(broker.run(&alice, "cpu", "clinfo", &["-l"]).success().listed(), 1);
    of_program.into_iter().for_each(process::kill);
}

#[test]
fn leases_outlast_their_broker_and_are_not_given_twice() {
    let mut broker = Broker::start();
    let server = broker.server(1);
    let alice = broker.ticket("alice", &[]);
    let mut program = broker.program(&alice, "cpu", c_program("held"), &[]).start();
    assert_eq!(program.line(), "ready");
    broker.kill();
    program.say("compute");
    assert_eq!(program.line(), "1");
    broker.restart();
    broker.expect_leases(1);
    wait_for("the server at the broker", LONG, || broker.devices().contains("lent").then_some(()));
    let told = broker.command(&["run", "--want", "cpu", "--wait", "0s", "--", "true"]);
    assert!(!told.status.success(), "{told:?}");
    // Longer than holders have to come back.
    std::thread::sleep(Duration::from_secs(2));
    program.say("compute");
    assert_eq!(program.line(), "2");
    assert_eq!(broker.lease_count(), 1);
    program.finish().success();
    broker.expect_leases(0);
    drop(server);
}

#[test]
fn leases_without_a_program_last_as_long_as_they_are_renewed() {
    let broker = Broker::start();
    let server = broker.server(2);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lease");
    let file = file.to_str().unwrap();
    let number = broker.says(&["lease", "new", "--want", "cpu", "--for", "1h", "--output", file]);
    let number = number.trim();
    let with_file = |file: &str| Program::remote("clinfo", "").without("ROPEWAY_SERVERS").env("ROPEWAY_HOSTFILE", file);
    assert_eq!(with_file(file).args(["-l"]).run().success().listed(), 1);
    assert!(broker.says(&["lease", "show", number]).contains("admin"));
    assert!(broker.says(&["lease", "renew", number, "--for", "2h", "--output", file]).contains("lasts 2h from now"));
    let mut session =
        Program::remote(c_program("held"), "").without("ROPEWAY_SERVERS").env("ROPEWAY_HOSTFILE", file).start();
    assert_eq!(session.line(), "ready");
    let worker = server.worker_of(session.pid());
    // It is nobody else's to release.
    let mallory = broker.ticket("mallory", &[]);
    let told = broker.command(&["lease", "release", number, "--broker", &mallory]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("'mallory' has no lease"), "{told:?}");
    broker.says(&["lease", "release", number]);
    broker.expect_leases(0);
    assert!(!server.workers().contains(&worker));
    session.kill();
    let outcome = with_file(file).args(["-l"]).run();
    assert!(outcome.stderr.contains("is over"), "{outcome:?}");

    // One that is not renewed.
    broker.says(&["lease", "new", "--want", "cpu", "--for", "1s", "--output", file]);
    broker.expect_leases(0);
    let outcome = with_file(file).args(["-l"]).run();
    assert_eq!(outcome.listed(), 0, "{outcome:?}");
    let told = broker.command(&["lease", "renew", "2"]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("has no lease 2"), "{told:?}");
}

#[test]
fn a_server_that_is_started_again_keeps_its_leases() {
    let broker = Broker::start();
    let mut server = broker.server(1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lease");
    let number = broker.says(&["lease", "new", "--want", "cpu", "--output", file.to_str().unwrap()]);
    server.restart();
    wait_for("the server at the broker", LONG, || broker.devices().contains("lent").then_some(()));
    let program = || {
        let program = Program::remote("clinfo", "").without("ROPEWAY_SERVERS");
        program.env("ROPEWAY_HOSTFILE", file.to_str().unwrap()).args(["-l"])
    };
    assert_eq!(program().run().success().listed(), 1);
    assert_eq!(broker.lease_count(), 1);
    // What was released while it was away is over there, too.
    server.kill();
    broker.says(&["lease", "release", number.trim()]);
    assert!(broker.leases().contains("ends now"));
    server.restart();
    broker.expect_leases(0);
    let outcome = program().run();
    assert_eq!(outcome.listed(), 0, "{outcome:?}");
}

#[test]
fn a_server_that_is_started_again_without_a_broker_knows_which_leases_are_over() {
    let mut broker = Broker::start();
    let mut server = broker.server(2);
    let folder = tempfile::tempdir().unwrap();
    let files = ["over", "open"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let [over, open] = &files;
    let number = broker.says(&["lease", "new", "--want", "cpu", "--output", over]);
    broker.says(&["lease", "new", "--want", "cpu", "--output", open]);
    let list = |file: &str| {
        let program = Program::remote("clinfo", "").without("ROPEWAY_SERVERS");
        program.env("ROPEWAY_HOSTFILE", file).args(["-l"]).run()
    };
    assert_eq!(list(over).success().listed(), 1);
    broker.says(&["lease", "release", number.trim()]);
    broker.expect_leases(1);
    broker.kill();
    server.restart();
    assert_eq!(list(open).success().listed(), 1);
    let outcome = list(over);
    assert_eq!(outcome.listed(), 0, "{outcome:?}");
    assert!(
        outcome.stderr.contains(&format!("lease {} is over: its broker has ended it", number.trim())),
        "{outcome:?}"
    );
    broker.restart();
    wait_for("the server at the broker", LONG, || broker.devices().contains("lent").then_some(()));
    assert_eq!((list(open).success().listed(), list(over).listed()), (1, 0));
}

#[test]
fn only_the_servers_own_broker_lends_its_devices() {
    let (broker, other) = (Broker::start(), Broker::start());
    let (server, foreign) = (broker.server(1), other.server(1));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lease");
    other.says(&["lease", "new", "--want", "cpu", "--output", file.to_str().unwrap()]);
    let line = fs::read_to_string(&file).unwrap();
    let here = |line: &str| line.trim().replace(foreign.address(), server.address());
    // The server's key is another, too.
    let outcome = Program::remote("clinfo", &here(&line)).args(["-l"]).run();
    assert!(outcome.stderr.contains("it has another key than the ticket says"), "{outcome:?}");
    let forged = with_key_of(&here(&line), &server.own_ticket("x"));
    let outcome = Program::remote("clinfo", &forged).args(["-l"]).run();
    assert!(outcome.stderr.contains("not from its broker"), "{outcome:?}");
    // A lease of the right broker on another of its servers.
    let second = broker.server(1);
    broker.says(&["lease", "new", "--want", "cpu on different servers", "--output", file.to_str().unwrap()]);
    let line = fs::read_to_string(&file).unwrap();
    let (has, has_not) = if line.contains(server.address()) { (&server, &second) } else { (&second, &server) };
    let moved = line.trim().replace(has.address(), has_not.address());
    let moved = with_key_of(&moved, &has_not.own_ticket("y"));
    let outcome = Program::remote("clinfo", &moved).args(["-l"]).run();
    assert!(outcome.stderr.contains("has no devices of this server"), "{outcome:?}");
    // An ordinary server takes no leases at all.
    let plain = Encrypted::start();
    let moved = line.trim().replace(has.address(), plain.host());
    let moved = with_key_of(&moved, &plain.new_ticket("z", &[]));
    let outcome = Program::remote("clinfo", &moved).args(["-l"]).run();
    assert!(outcome.stderr.contains("it takes no leases"), "{outcome:?}");
}

#[test]
fn tickets_say_who_may_ask_and_who_may_register() {
    let broker = Broker::start();
    let alice = broker.ticket("alice", &[]);
    let state = tempfile::tempdir().unwrap();
    let server = ropeway_tests::server::Server::start_cold(
        &["--listen", "tls://127.0.0.1:0", "--state", state.path().to_str().unwrap(), "--broker", &alice],
        &[],
    );
    server.expect_log("the ticket of 'alice' is not for servers");
    drop(server);
    let running = broker.ticket("bob", &[]);
    fs::remove_file(broker.state().join("access.toml")).unwrap();
    let outcome = broker.run(&running, "cpu", "true", &[]);
    assert!(!outcome.status.success() && outcome.stderr.contains("does not let this client's key in"), "{outcome:?}");
}

#[test]
fn a_program_gets_devices_by_its_environment_or_its_configuration_alone() {
    let broker = Broker::start();
    let _server = broker.server(2);
    let alice = broker.ticket("alice", &[]);
    let program = |name: &str| {
        let program = Program::remote(name, "").without("ROPEWAY_SERVERS");
        program.env("ROPEWAY_BINARY", ropeway_tests::places::ropeway())
    };
    let with_env = |name: &str| program(name).env("ROPEWAY_BROKER", &alice).env("ROPEWAY_WANT", "cpu");
    assert_eq!(with_env("clinfo").args(["-l"]).run().success().listed(), 1);
    broker.expect_leases(0);
    let mut held = with_env(c_program("held").to_str().unwrap()).start();
    assert_eq!(held.line(), "ready");
    assert!(broker.leases().contains("held"), "{}", broker.leases());
    let both = with_env("clinfo").env("ROPEWAY_WANT", "2 cpu").env("ROPEWAY_WANT_WAIT", "0.5").args(["-l"]).run();
    assert_eq!(both.listed(), 0);
    assert!(both.stderr.contains("has not become free in the time"), "{both:?}");
    held.kill();
    broker.expect_leases(0);

    let configured = program("clinfo").args(["-l"]);
    let folder = configured.home().join("config/ropeway");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("ropeway.toml"), format!("broker = \"{alice}\"\nwant = \"2 cpu\"\n")).unwrap();
    assert_eq!(configured.run().success().listed(), 2);
    broker.expect_leases(0);
}

#[test]
fn the_doctor_asks_the_broker() {
    let mut broker = Broker::start();
    let alice = broker.ticket("alice", &[]);
    let told = |want: &str| {
        let doctor = Program::remote(ropeway_tests::places::ropeway(), "").without("ROPEWAY_SERVERS").args(["doctor"]);
        doctor.env("ROPEWAY_BROKER", &alice).env("ROPEWAY_WANT", want).run().stdout
    };
    assert!(
        told("gpu").contains("FAILED  broker: it knows 'alice', and has 0 servers and no device"),
        "{}",
        told("gpu")
    );
    let _server = broker.server(2);
    let right = told("2 cpu");
    assert!(right.contains("ok      broker: it knows 'alice', and has 2 devices on 1 server"), "{right}");
    assert!(right.contains("ok      wanted of the broker: 2 devices, type=cpu"), "{right}");
    assert!(told("2 tpu").contains("FAILED  wanted of the broker: '2 tpu' is not a number of devices"));
    broker.kill();
    assert!(told("cpu").contains("FAILED  broker: cannot reach the broker"), "{}", told("cpu"));
}
