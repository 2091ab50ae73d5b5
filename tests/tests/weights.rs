//! Sessions of clients with weights take turns on a device.

use std::time::Duration;

use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::{c_program, stub_vendors};
use ropeway_tests::program::{Program, Running};
use rustix::process::{Pid, Signal, kill_process};

/// Rows of the product that take 1 ms on a stub device of 1 GFLOP/s.
const ROWS: &str = "50";

/// The server of a device whose kernels take their time without a processor.
fn stub() -> Encrypted {
    let vendors = stub_vendors();
    Encrypted::start_in(&[], &[("OCL_ICD_VENDORS", vendors.to_str().unwrap()), ("STUB_GFLOPS", "1")])
}

/// A program of a new client with this weight that will want the device for so many milliseconds.
fn greedy(server: &Encrypted, weight: u32, milliseconds: &str) -> Running {
    start(server, weight, "turns", &[milliseconds, ROWS])
}

/// A program of a new client with this weight.
fn start(server: &Encrypted, weight: u32, program: &str, args: &[&str]) -> Running {
    let ticket = server.new_ticket(&format!("weight-{weight}"), &["--weight", &weight.to_string()]);
    let mut running = Program::remote(c_program(program), &ticket).args(args).limit(Duration::from_secs(60)).start();
    assert_eq!(running.line(), "ready");
    running
}

/// How many kernels each has got.
fn counts(programs: Vec<Running>) -> Vec<u32> {
    programs.into_iter().map(|mut program| program.line().parse().unwrap()).collect()
}

#[test]
fn device_time_is_shared_by_weight() {
    let server = stub();
    let mut programs: Vec<_> = [1, 2, 4].into_iter().map(|weight| greedy(&server, weight, "4000")).collect();
    programs.iter_mut().for_each(|program| program.say("go"));
    let counts = counts(programs);
    println!("kernels by weight 1, 2, 4: {counts:?}");
    // Without turns, all would have as many. The figure itself is the benchmark's.
    assert!(counts[0] > 0 && 2 * counts[1] > 3 * counts[0] && 2 * counts[2] > 3 * counts[1], "{counts:?}");
}

#[test]
fn time_is_shared_by_weight_also_where_kernels_take_longer_than_a_turn() {
    let server = stub();
    let start = |weight| start(&server, weight, "turns", &["6000", "1000"]);
    let mut programs: Vec<_> = [1, 4].into_iter().map(start).collect();
    programs.iter_mut().for_each(|program| program.say("go"));
    let counts = counts(programs);
    println!("kernels of 20 ms by weight 1, 4: {counts:?}");
    assert!(counts[1] > 2 * counts[0], "{counts:?}");
}

#[test]
fn launches_that_wait_for_the_program_hold_up_nobody() {
    let server = Encrypted::start();
    let mut other = start(&server, 4, "turns", &["8000", ROWS]);
    let mut waits = start(&server, 1, "turns_waits", &["30"]);
    // Once while it is alone, and then beside the other.
    waits.say("go");
    other.say("go");
    assert_eq!(waits.line(), "300 30");
    other.kill();
}

#[test]
fn who_is_alone_or_beside_the_idle_has_the_whole_device() {
    let server = stub();
    // Idle: it waits for its line.
    let _idle = greedy(&server, 100, "1");
    let mut program = greedy(&server, 1, "2000");
    program.say("go");
    let counts = counts(vec![program]);
    println!("kernels in 2 s: {counts:?}");
    // By weight it would be one part in a hundred.
    assert!(counts[0] > 400, "{counts:?}");
}

#[test]
fn a_session_that_is_stopped_or_killed_keeps_nobody_from_the_device() {
    let server = stub();
    let mut stuck = greedy(&server, 100, "60000");
    stuck.say("go");
    let worker = Pid::from_raw(server.server.worker_of(stuck.pid()).cast_signed()).unwrap();
    kill_process(worker, Signal::STOP).unwrap();
    let mut program = greedy(&server, 1, "4000");
    program.say("go");
    let beside_stopped = counts(vec![program]);
    kill_process(worker, Signal::CONT).unwrap();
    let mut program = greedy(&server, 2, "4000");
    program.say("go");
    kill_process(worker, Signal::KILL).unwrap();
    let beside_killed = counts(vec![program]);
    stuck.kill();
    println!("kernels in 4 s: {beside_stopped:?} beside a stopped session, {beside_killed:?} beside a killed one");
    // By weight it would be one part in a hundred; a second is lost at most.
    assert!(beside_stopped[0] > 400 && beside_killed[0] > 800);
}
