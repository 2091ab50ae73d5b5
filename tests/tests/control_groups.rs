//! Workers are in control groups of their own, which bound what all processes of a session take together.

use std::time::Duration;

use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::groups::Groups;
use ropeway_tests::places::{attempting_vendors, c_program};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::wait_for;

/// On one worker.
const COMMON: [&str; 4] = ["--listen", "tcp://127.0.0.1:0", "--warm", "1"];

#[test]
fn a_worker_has_no_more_tasks_than_the_server_says() {
    let Some(groups) = Groups::new() else { return };
    let vendors = attempting_vendors();
    let variables = [("OCL_ICD_VENDORS", vendors.to_str().unwrap()), ("INSIDE_TASKS", "300")];
    let tasks = |args: &[&str]| {
        let server = Server::start_in_groups(&groups, &[&COMMON, args].concat(), &variables);
        let log = server.log();
        let line = log.lines().find_map(|line| line.strip_prefix("inside: tasks ")).expect("a line of the driver's");
        let (started, outcome) = line.split_once(": ").expect("a number and an outcome");
        // It serves all the same.
        let outcome = (started.parse::<u32>().unwrap(), outcome.to_owned());
        let listed = Program::remote(c_program("listing"), server.url()).run();
        assert!(listed.status.success(), "{}", listed.stderr);
        outcome
    };
    // The bound leaves room for the worker's own threads.
    let (started, outcome) = tasks(&["--session-tasks", "100"]);
    assert!(outcome == "EAGAIN" && (50..100).contains(&started), "{started}: {outcome}");
    assert_eq!(tasks(&["--no-sandbox=groups"]), (300, "came through".to_owned()));
}

#[test]
fn what_a_session_has_started_counts_as_its_memory() {
    let Some(groups) = Groups::new() else { return };
    let vendors = attempting_vendors();
    let variables = [("OCL_ICD_VENDORS", vendors.to_str().unwrap()), ("INSIDE_HOARDS", "300")];
    let encrypted = Encrypted::start_in_groups(&groups, &["--warm", "1"], &variables);
    let alice = encrypted.new_ticket("alice", &["--host-memory", "200M"]);
    let bob = encrypted.new_ticket("bob", &["--host-memory", "600M"]);
    let mut of_bob = Program::remote(c_program("held"), &bob).start();
    assert_eq!(of_bob.line(), "ready");
    let of_alice = Program::remote(c_program("held"), &alice).start();
    encrypted.server.expect_log("(the limit of 'alice' there); other sessions go on");
    let log = encrypted.server.log();
    let sentence = log.lines().find(|line| line.contains("the limit of 'alice'")).unwrap_or_default();
    assert!(sentence.contains("and may take 200"), "{sentence}");
    of_bob.say("");
    assert!(of_bob.line().parse::<i32>().is_ok());
    drop((of_alice, of_bob));
}

#[test]
fn groups_go_with_their_workers_and_those_of_a_killed_server_with_the_next() {
    let Some(groups) = Groups::new() else { return };
    let vendors = attempting_vendors();
    let variables = [("OCL_ICD_VENDORS", vendors.to_str().unwrap()), ("INSIDE_STAYS", "1")];
    let start = || Server::start_in_groups(&groups, &COMMON, &variables);
    let one_for_each = |server: &Server| {
        wait_for("a group for each worker", Duration::from_secs(20), || {
            let workers = server.workers().len();
            let groups = groups.of_workers();
            (workers == 1 && groups.iter().all(|groups| groups.len() == 1)).then_some(groups)
        })
    };
    let mut server = start();
    let before = one_for_each(&server);
    let mut session = Program::remote(c_program("held"), server.url()).start();
    assert_eq!(session.line(), "ready");
    session.kill();
    // That worker has ended, and another is in its place.
    wait_for("another worker's group", Duration::from_secs(20), || (one_for_each(&server) != before).then_some(()));

    server.kill();
    let left = groups.of_workers();
    assert!(left.iter().all(|groups| groups.len() == 1), "{left:?}");
    let mut next = start();
    let now = one_for_each(&next);
    assert!(!left[0].contains(&now[0][0]), "{left:?} {now:?}");
    assert_eq!(groups.of_servers(), groups.hierarchies());
    next.stop();
    assert_eq!(groups.of_servers(), 0);
}
