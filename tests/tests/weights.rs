//! Sessions of clients with weights take turns on a device. How exactly its time is shared is a figure, which
//! `ropeway-bench` prints: here everybody gets on, whoever else wants the device, is idle, is stopped or is killed.

use std::fs;
use std::time::Duration;

use ropeway_tests::broker::Broker;
use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::{c_program, stub_vendors};
use ropeway_tests::program::{Program, Running};
use ropeway_tests::server::Server;
use rustix::process::{Pid, Signal, kill_process};

/// Rows of the product that take 1 ms on a stub device of 1 GFLOP/s.
const ROWS: &str = "50";

/// More than a program will have got when the test is over.
const FOR_EVER: &str = "1000000000";

/// The server of a device whose kernels take their time without a processor.
fn stub() -> Encrypted {
    let vendors = stub_vendors();
    Encrypted::start_in(&[], &[("OCL_ICD_VENDORS", vendors.to_str().unwrap()), ("STUB_GFLOPS", "1")])
}

/// A program of a new client with this weight.
fn start(server: &Encrypted, weight: u32, program: &str, args: &[&str]) -> Running {
    let ticket = server.new_ticket(&format!("weight-{weight}"), &["--weight", &weight.to_string()]);
    let mut running = Program::remote(c_program(program), &ticket).args(args).limit(Duration::from_secs(120)).start();
    let line = running.line();
    if line != "ready" {
        panic!("{line}: {:?}", running.finish());
    }
    running
}

/// Has all of them begin, and waits until each has got this many products.
fn finish(mut programs: Vec<Running>, products: &str) {
    programs.iter_mut().for_each(|program| program.say("go"));
    for mut program in programs {
        let line = program.line();
        assert_eq!(line, products, "{:?}", program.finish());
    }
}

#[test]
fn sessions_with_weights_all_get_on() {
    let server = stub();
    let programs = [1, 2, 4].into_iter().map(|weight| start(&server, weight, "turns", &["400", ROWS])).collect();
    finish(programs, "400");
}

#[test]
fn so_they_do_where_kernels_take_longer_than_a_turn() {
    let server = stub();
    let programs = [1, 4].into_iter().map(|weight| start(&server, weight, "turns", &["40", "1000"])).collect();
    finish(programs, "40");
}

#[test]
fn launches_that_wait_for_the_program_hold_up_nobody() {
    let server = Encrypted::start();
    let mut other = start(&server, 4, "turns", &[FOR_EVER, ROWS]);
    let waits = start(&server, 1, "turns_waits", &["30"]);
    other.say("go");
    finish(vec![waits], "300 30");
    // Once more while it is alone.
    other.kill();
    finish(vec![start(&server, 2, "turns_waits", &["30"])], "300 30");
}

#[test]
fn who_is_idle_keeps_nobody_from_the_device() {
    let server = stub();
    // It waits for its line, and has had the device last.
    let mut idle = start(&server, 100, "turns", &["400", ROWS]);
    finish(vec![start(&server, 1, "turns", &["400", ROWS])], "400");
    idle.say("go");
    assert_eq!(idle.line(), "400");
}

#[test]
fn a_session_that_is_stopped_or_killed_keeps_nobody_from_the_device() {
    let server = stub();
    let mut stuck = start(&server, 100, "turns", &[FOR_EVER, ROWS]);
    stuck.say("go");
    let worker = Pid::from_raw(server.server.worker_of(stuck.pid()).cast_signed()).unwrap();
    let beside = start(&server, 1, "turns", &["400", ROWS]);
    kill_process(worker, Signal::STOP).unwrap();
    finish(vec![beside], "400");
    kill_process(worker, Signal::CONT).unwrap();
    let mut beside = start(&server, 2, "turns", &["400", ROWS]);
    beside.say("go");
    kill_process(worker, Signal::KILL).unwrap();
    assert_eq!(beside.line(), "400");
    stuck.kill();
}

/// Whether the server has had somebody take turns.
fn has_turns(server: &Server) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().flatten();
    let names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    names.into_iter().any(|name| name.trim() == "turns")
}

#[test]
fn leases_on_shares_of_a_device_take_turns_and_others_do_not() {
    let broker = Broker::start();
    let server = broker.server(1);
    let alice = broker.ticket("alice", &[]);
    let start = |want: &str| {
        let mut running = broker.program(&alice, want, c_program("turns"), &["80", ROWS]).start();
        assert_eq!(running.line(), "ready", "{want}");
        running
    };
    finish(vec![start("cpu")], "80");
    broker.expect_leases(0);
    assert!(!has_turns(&server));
    let both = vec![start("cpu, share=0.25"), start("cpu, share=0.75")];
    assert!(has_turns(&server));
    finish(both, "80");
}
