//! Shared virtual memory: the same addresses in the program and on the server's device.

use ropeway_tests::compare::same;
use ropeway_tests::places::c_program;
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::server::Server;
use ropeway_tests::stats::Stats;

fn remote(name: &str) -> Outcome {
    let server = Server::start();
    Program::remote(c_program(name), server.url()).run().success()
}

fn same_and_right(name: &str) {
    let remote = same(name);
    assert!(!remote.stdout.contains("WRONG"), "{}", remote.stdout);
}

#[test]
fn each_function_does_what_it_does_natively() {
    same_and_right("svm");
}

#[test]
fn pointers_in_memory_mean_the_same_on_the_device() {
    same_and_right("svm_list");
}

/// Not compared with PoCL, which crashes in some of them.
#[test]
fn errors_are_those_of_the_specification() {
    let outcome = remote("svm_errors");
    assert!(outcome.stdout.ends_with("\n0 are wrong\n"), "{}", outcome.stdout);
    assert!(
        outcome.stdout.starts_with("capabilities: 1\n"),
        "only coarse-grain buffers are offered: {}",
        outcome.stdout
    );
}

#[test]
fn nothing_is_put_over_what_the_program_has_at_an_address() {
    assert_eq!(remote("svm_taken").stdout, "40 usable, 40 kept\n");
}

#[test]
fn memory_outlives_its_server() {
    let mut server = Server::start();
    let mut program = Program::remote(c_program("svm_lost"), server.url()).start();
    assert_eq!(program.line(), "mapped");
    server.kill();
    program.say("on");
    assert_eq!(program.line(), "finish -2, unmap -2, fill -2, copy -2, no memory");
    program.finish().success();
}

fn count(servers: &str, what: &str) -> Stats {
    let program = Program::remote(c_program("svm_counted"), servers).args([what]).env("ROPEWAY_STATS", "1");
    let stats = Stats::of(&program.run().success().stderr);
    eprintln!("{what}: {stats:?}");
    stats
}

/// The cost of each: 100 of them, rounded, as the beginning and the end of a program may need a message more or less. Round
/// trips, messages, and kilobytes sent and received: the memory has 100,000 bytes.
fn costs(servers: &str) -> impl Fn(&str) -> (u64, u64, u64, u64) {
    // The first time the source of the kernel goes over.
    count(servers, "nothing");
    let nothing = count(servers, "nothing");
    move |what| {
        let stats = count(servers, what);
        let each = |all: u64, before: u64| (all + 50).saturating_sub(before) / 100;
        let kilobytes = |all: u64, before: u64| each(all, before) / 1000;
        (
            each(stats.round_trips, nothing.round_trips),
            each(stats.messages_sent, nothing.messages_sent),
            kilobytes(stats.bytes_sent, nothing.bytes_sent),
            kilobytes(stats.bytes_received, nothing.bytes_received),
        )
    }
}

#[test]
fn the_cost_of_each_function_is_known() {
    let server = Server::start();
    let apart = format!("shm:off,{}", server.url());
    let cost = costs(&apart);
    assert_eq!(cost("allocations"), (1, 2, 0, 0), "a question where the memory lies, and a word at its end");
    assert_eq!(cost("read"), (1, 1, 0, 100), "a map to read brings the bytes, its unmap takes none back");
    assert_eq!(cost("write"), (0, 2, 100, 0), "a map that invalidates brings nothing and needs no answer");
    assert_eq!(cost("both"), (1, 2, 100, 100), "a map to read and write brings the bytes and takes them back");
    assert_eq!(cost("pointers"), (0, 2, 0, 0), "an argument and a launch need no answer");
    assert_eq!(cost("inside"), (0, 2, 0, 0), "copies and fills within shared memory stay at the server");
}

/// As [`the_cost_of_each_function_is_known`], where the program and the device have the same pages.
#[test]
fn memory_that_the_program_sees_costs_nothing_to_map() {
    let server = Server::start();
    let cost = costs(server.url());
    assert_eq!(cost("allocations"), (2, 3, 0, 0), "one question more: where it is in what both see");
    for what in ["read", "write", "both"] {
        assert_eq!(cost(what), (0, 0, 0, 0), "{what}");
    }
    assert_eq!(cost("pointers"), (0, 2, 0, 0), "as without");
    assert_eq!(cost("inside"), (0, 2, 0, 0), "as without");
}
