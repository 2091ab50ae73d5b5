//! Notice to programs whose devices are taken back for others: on standard error, and by `cl_ropeway_servers`.

use std::time::Duration;

use ropeway_tests::broker::Broker;
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::{Outcome, Program, Running};
use ropeway_tests::server::Server;
use ropeway_tests::wait_for;

const LONG: Duration = Duration::from_secs(30);

/// The rules: who asks with priority 10 gets the devices of others.
const RULES: &str = "[queue]\npreempt = 10\ngrace = '5s'\n";

/// The time between notice and end, in milliseconds.
const GRACE: u64 = 5000;

/// A pool of one device.
struct Pool {
    broker: Broker,
    _server: Server,
    alice: String,
    bob: String,
}

impl Pool {
    fn start() -> Self {
        Self::start_with(RULES)
    }

    fn start_with(rules: &str) -> Self {
        let mut broker = Broker::start();
        broker.rule(rules);
        let server = broker.server(1);
        let (alice, bob) = (broker.ticket("alice", &[]), broker.ticket("bob", &[]));
        Self { broker, _server: server, alice, bob }
    }

    /// A request for the device that is more important than others, and lists it.
    fn urgent(&self) -> Running {
        let run = ["run", "--broker", &self.bob, "--only", "--priority", "10", "--want", "cpu", "--", "clinfo", "-l"];
        Program::native(ropeway()).args(run).env("ROPEWAY_CONNECT_TIMEOUT", "20").start()
    }
}

/// A program that does what it is told, once it computes on the device.
fn computing(program: Program) -> Running {
    let mut program = program.start();
    assert_eq!(program.line(), "ready");
    program.say("list");
    assert!(program.line().contains(" state 1 devices 1"));
    assert_eq!(program.line(), "1 servers 1 devices");
    assert_eq!(ask(&mut program, "open 0"), "open");
    assert_eq!(ask(&mut program, "run"), "run 42");
    assert_eq!(ask(&mut program, "left 0"), "left ever");
    program
}

fn ask(program: &mut Running, command: &str) -> String {
    program.say(command);
    program.line()
}

/// How long it said that the devices stay.
fn time_of(answer: &str, beginning: &str) -> u64 {
    let left = answer.strip_prefix(beginning).and_then(|left| left.parse().ok());
    let left = left.unwrap_or_else(|| panic!("{answer}"));
    assert!(left > 0 && left <= GRACE, "{answer}");
    left
}

/// The program gets notice, goes on until its time is over, and then its devices are gone.
fn is_told(pool: &Pool, program: Program) -> Outcome {
    let mut program = computing(program);
    assert_eq!(ask(&mut program, "heed"), "heeding");
    let urgent = pool.urgent();
    let told = time_of(&ask(&mut program, "news"), "notice 0 ");
    assert!(time_of(&ask(&mut program, "left 0"), "left ") <= told);
    assert_eq!(ask(&mut program, "run"), "run 42", "there is time left");
    assert_eq!(ask(&mut program, "news"), "lost 0");
    assert_eq!(ask(&mut program, "run"), "run -2");
    let outcome = urgent.finish().success();
    assert!(outcome.stdout.contains("Device #0"), "{outcome:?}");
    let outcome = program.finish().success();
    let why = "its devices are needed for a request of priority 10";
    assert!(outcome.stderr.contains(&format!("ropeway: the devices are taken back in 5 s: {why}\n")), "{outcome:?}");
    assert!(outcome.stderr.contains(&format!("ropeway: the lease is over: {why}\n")), "{outcome:?}");
    pool.broker.expect_leases(0);
    outcome
}

#[test]
fn a_program_is_told_that_its_devices_are_taken_back() {
    let pool = Pool::start();
    is_told(&pool, pool.broker.program(&pool.alice, "cpu", c_program("servers"), &[]));
}

#[test]
fn so_is_one_whose_lease_the_library_has_asked_for() {
    let pool = Pool::start();
    let program = Program::remote(c_program("servers"), "").without("ROPEWAY_SERVERS");
    let program =
        program.env("ROPEWAY_BINARY", ropeway()).env("ROPEWAY_BROKER", &pool.alice).env("ROPEWAY_WANT", "cpu");
    is_told(&pool, program);
}

#[test]
fn without_such_a_rule_nobody_is_told_anything() {
    let pool = Pool::start_with("[queue]\ngrace = '5s'\n");
    let mut program = computing(pool.broker.program(&pool.alice, "cpu", c_program("servers"), &[]));
    assert_eq!(ask(&mut program, "heed"), "heeding");
    let urgent = pool.urgent();
    wait_for("a request that waits", LONG, || pool.broker.says(&["queue"]).contains("bob").then_some(()));
    // Longer than it would have had.
    std::thread::sleep(Duration::from_millis(GRACE + 1000));
    assert_eq!(ask(&mut program, "left 0"), "left ever");
    assert_eq!(ask(&mut program, "run"), "run 42");
    assert_eq!(ask(&mut program, "unwatch"), "not watching");
    let outcome = program.finish().success();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""));
    assert!(urgent.finish().success().stdout.contains("Device #0"));
    pool.broker.expect_leases(0);
}

#[test]
fn a_notice_that_comes_to_nothing_ends_nothing() {
    let pool = Pool::start();
    let mut program = computing(pool.broker.program(&pool.alice, "cpu", c_program("servers"), &[]));
    let urgent = pool.urgent();
    let left = wait_for("a notice", LONG, || Some(ask(&mut program, "left 0")).filter(|left| left != "left ever"));
    time_of(&left, "left ");
    // Who wants to be told late is told of what there is.
    assert_eq!(ask(&mut program, "heed"), "heeding");
    time_of(&ask(&mut program, "news"), "notice 0 ");
    assert_eq!(ask(&mut program, "unwatch"), "not watching");
    urgent.kill();
    wait_for("end of the time", LONG, || (ask(&mut program, "left 0") == "left 0").then_some(()));
    // The broker has looked at it since.
    wait_for("an empty queue", LONG, || (pool.broker.says(&["queue"]).lines().count() <= 1).then_some(()));
    assert_eq!(ask(&mut program, "run"), "run 42");
    assert_eq!(pool.broker.lease_count(), 1);
    let outcome = program.finish().success();
    assert!(!outcome.stderr.contains("the lease is over"), "{outcome:?}");
    pool.broker.expect_leases(0);
}
