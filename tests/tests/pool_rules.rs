//! The rules of a pool (`pool.toml`), as users and the one who runs the rack see them.

use std::time::Duration;

use ropeway_tests::broker::Broker;
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::{Program, Running};
use ropeway_tests::wait_for;

const LONG: Duration = Duration::from_secs(30);

/// A program that holds what is wanted.
fn holding(broker: &Broker, ticket: &str, want: &str) -> Running {
    let mut program = broker.program(ticket, want, c_program("held"), &[]).start();
    assert_eq!(program.line(), "ready");
    program
}

/// What is said to a request that is not met at once.
fn refused(ticket: &str, want: &str, more: &[&str]) -> String {
    let run = ["run", "--broker", ticket, "--wait", "0s", "--want", want];
    let outcome = Program::native(ropeway()).args(run).args(more).args(["--", "true"]).run();
    assert!(!outcome.status.success(), "{outcome:?}");
    outcome.stderr
}

#[test]
fn who_wants_more_than_is_allowed_is_told_which_rule_that_is() {
    let mut broker = Broker::start();
    let _server = broker.server(4);
    let (alice, bob) = (broker.ticket("alice", &[]), broker.ticket("bob", &[]));
    broker.rule("[users.alice]\ndevices = 2\npriority = 3\nwaiting = 1\n");
    let told = refused(&alice, "3 cpu", &[]);
    assert_eq!(told, "ropeway: 3 devices are wanted, and user 'alice' may have 2 at one time\n");
    let told = refused(&alice, "cpu", &["--priority", "4"]);
    assert_eq!(told, "ropeway: the priority is 4, and user 'alice' may give 3 at most\n");
    // At one time, and not more: the next one waits although devices are free, and others have them.
    let first = holding(&broker, &alice, "2 cpu");
    let second = broker.program(&alice, "cpu", "clinfo", &["-l"]).start();
    wait_for("a request that waits", LONG, || broker.says(&["queue"]).contains("alice").then_some(()));
    let why = "because user 'alice' has 2 devices, and may have 2 at one time";
    assert!(broker.says(&["queue"]).contains(why), "{}", broker.says(&["queue"]));
    let told = refused(&alice, "cpu", &[]);
    assert_eq!(told, "ropeway: user 'alice' has as many requests that wait as are allowed: 1\n");
    assert_eq!(broker.run(&bob, "2 cpu", "clinfo", &["-l"]).success().listed(), 2);
    first.finish().success();
    let outcome = second.finish().success();
    assert_eq!((outcome.listed(), outcome.stderr.matches(why).count()), (1, 1), "{outcome:?}");
    broker.expect_leases(0);
}

#[test]
fn what_is_reserved_is_lent_to_nobody_else() {
    let mut broker = Broker::start();
    let _server = broker.server(3);
    let (alice, carol) = (broker.ticket("alice", &[]), broker.ticket("carol", &[]));
    let times = "from = '2020-01-01T00:00:00Z'\nuntil = '2100-01-01T00:00:00Z'";
    broker.rule(&format!("[reservations.course]\nwant = '2 cpu'\nusers = ['carol']\n{times}\n"));
    let held = holding(&broker, &alice, "cpu");
    let told = refused(&alice, "cpu", &[]);
    assert!(told.contains("not enough of what is wanted is free now"), "{told}");
    assert_eq!(broker.run(&carol, "2 cpu", "clinfo", &["-l"]).success().listed(), 2);
    // One that cannot be kept is named in the log.
    broker.rule(&format!("[reservations.course]\nwant = '4 cpu'\nusers = ['carol']\n{times}\n"));
    broker.daemon().expect_log("the devices of reservation 'course' are not there, or are kept for others");
    held.finish().success();
    // Without it, everybody has everything.
    broker.rule("");
    assert_eq!(broker.run(&alice, "3 cpu", "clinfo", &["-l"]).success().listed(), 3);
}

#[test]
fn rules_are_read_again_while_the_broker_runs_and_stay_where_the_file_has_an_error() {
    let mut broker = Broker::start();
    let _server = broker.server(2);
    let alice = broker.ticket("alice", &[]);
    let held = holding(&broker, &alice, "2 cpu");
    let pid = broker.daemon().pid();
    broker.rule("[default]\ndevices = 1\n");
    let told = refused(&alice, "2 cpu", &[]);
    assert!(told.contains("2 devices are wanted, and user 'alice' may have 1 at one time"), "{told}");
    // New rules end no leases.
    assert_eq!(broker.lease_count(), 1);
    held.finish().success();
    broker.expect_leases(0);

    broker.write_rules("[default]\ndevices = 2\n[users.alice]\nwieght = 2\n");
    broker.daemon().expect_log("the pool's rules stay as they were: ");
    let log = broker.daemon().log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("the pool's rules stay as they were")).collect();
    let [line] = lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("pool.toml") && line.contains("'alice'") && line.contains("'wieght'"), "{line}");
    let told = refused(&alice, "2 cpu", &[]);
    assert!(told.contains("may have 1 at one time"), "{told}");
    assert_eq!(broker.daemon().pid(), pid);
    // A broker does not start with such a file.
    let state = broker.state();
    broker.kill();
    let start = ["broker", "--listen", "tls://127.0.0.1:0", "--state"];
    let outcome = Program::native(ropeway()).args(start).args([&state]).run();
    assert!(!outcome.status.success() && outcome.stderr.contains("'wieght'"), "{outcome:?}");
    broker.write_rules("[default]\ndevices = 2\n");
    broker.restart();
    assert_eq!(broker.run(&alice, "2 cpu", "clinfo", &["-l"]).success().listed(), 2);
}
