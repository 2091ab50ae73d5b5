//! Drivers that keep their caller waiting, for long or for ever: the server serves all the same, or says at which call
//! it stands.

use std::time::Duration;

use ropeway_tests::places::{c_program, stub_vendors};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::wait_for;

const LISTEN: [&str; 4] = ["--listen", "tcp://127.0.0.1:0", "--warm", "1"];

fn driver(variable: &'static str, value: &'static str) -> [(&'static str, String); 2] {
    let vendors = stub_vendors();
    [("OCL_ICD_VENDORS", vendors.to_str().expect("a path in UTF-8").to_owned()), (variable, value.to_owned())]
}

fn list(server: &Server) -> Program {
    // No longer than usual: the server answers.
    Program::remote(c_program("listing"), server.url()).env("ROPEWAY_CONNECT_TIMEOUT", "2")
}

#[test]
fn a_driver_that_never_comes_back_from_being_tried_serves_all_the_same() {
    let env = driver("STUB_FLUSH_FINISHES", "1");
    // Only a driver that could be tried, or was given up, makes a server ready.
    let server = Server::start_with(&LISTEN, &[(env[0].0, &env[0].1), (env[1].0, &env[1].1)]);
    let log = server.log();
    let line = log.lines().find(|line| line.contains("a trial of this driver")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("clFlush of a write that waits for a user event"), "{line}");
    let outcome = list(&server).run().success();
    assert!(outcome.stdout.contains("Ropeway: 1 devices (0)"), "{}", outcome.stdout);
    // Nobody is left in the driver: there is the worker that takes the place of the one that served, once it is started.
    wait_for("one worker", Duration::from_secs(10), || (server.workers().len() == 1).then_some(()));
}

#[test]
fn a_client_hears_where_the_start_of_the_workers_stands_and_may_leave() {
    let env = driver("STUB_CONTEXT_SECONDS", "14");
    let server = Server::start_cold(&LISTEN, &[(env[0].0, &env[0].1), (env[1].0, &env[1].1)]);
    let patient = list(&server).start();
    server.expect_log("client=1");
    let impatient = list(&server).start();
    server.expect_log("client=2");
    impatient.kill();
    server.expect_log("a client leaves before it had a worker");
    let outcome = patient.finish().success();
    assert!(outcome.stdout.contains("Ropeway: 1 devices (0)"), "{}", outcome.stdout);
    let notice = outcome.stderr.lines().find(|line| line.contains("waiting for the server"));
    let notice = notice.unwrap_or_else(|| panic!("{}", outcome.stderr));
    assert!(notice.contains("one has been in clCreateContext for stub for "), "{notice}");
    server.expect_log("a worker has been in clCreateContext for");
    // The one that left has no session.
    assert!(!server.log().contains("session begins session=2"), "{}", server.log());
}
