//! Native implementations that do what OpenCL allows and others do not do, or what it does not quite allow.

use ropeway_protocol::ids::{ContextId, KernelId, ProgramId};
use ropeway_protocol::messages::{CreateProgramWithBinary, DeviceTimer, SetKernelArg, SetKernelSvmPointers};
use ropeway_protocol::types::{ArgValue, BinaryReply, Moved};
use ropeway_tests::fake;
use ropeway_tests::peering::{Pair, push, whole};
use ropeway_tests::places::{c_program, stub_vendors};
use ropeway_tests::program::Program;
use ropeway_tests::raw::Client;
use ropeway_tests::server::Server;

/// Two connected sessions on stub devices with this variable.
fn stubs(name: &str, value: &str) -> Pair {
    let vendors = stub_vendors();
    let vendors = vendors.to_str().expect("a path in UTF-8");
    Pair::with_env(&[], &[("OCL_ICD_VENDORS", vendors), (name, value)]).connect()
}

/// Pushes these ranges of a buffer of so many bytes, and reads what has arrived.
fn ranges_arrive(pair: &mut Pair, size: usize, ranges: &[(usize, usize)]) {
    let Pair { a, b, .. } = pair;
    let contents = fake::noise(size, 1);
    a.buffer(1, &contents);
    b.buffer(1, &vec![0; size]);
    let mut expected = vec![0; size];
    for (offset, len) in ranges {
        expected[*offset..offset + len].copy_from_slice(&contents[*offset..offset + len]);
    }
    let moved = ranges.iter().map(|(offset, len)| (*offset as u64, *len as u64)).collect();
    push(a, b, 1, &Moved::Ranges(moved), &[], 1, 2);
    assert_eq!(b.end_of(2), 0);
    assert!(b.read(1, size, &[]) == expected, "just the ranges arrive");
}

#[test]
fn a_status_that_lags_behind_is_not_passed_on() {
    // Far longer than the rest takes.
    let mut pair = stubs("STUB_LAG", "300000");
    ranges_arrive(&mut pair, 1000, &[(1, 5), (100, 40), (999, 1)]);
}

#[test]
fn a_finished_queue_has_delivered_its_reads_whatever_is_said_of_them() {
    let vendors = stub_vendors();
    let env = [("OCL_ICD_VENDORS", vendors.to_str().expect("a path in UTF-8")), ("STUB_LAG", "300000")];
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0"], &env);
    let outcome = Program::remote(c_program("reads_finished"), server.url()).run().success();
    assert_eq!(
        outcome.stdout,
        "in order: 0 wrong, 0 late\nout of order: 0 wrong, 0 late\nby the last event: 0 wrong\n"
    );
}

/// Asking takes up to a microsecond each time.
#[test]
fn a_driver_is_asked_once_how_a_command_has_ended() {
    let vendors = stub_vendors();
    let env = [("OCL_ICD_VENDORS", vendors.to_str().expect("a path in UTF-8")), ("STUB_ONCE", "1")];
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0"], &env);
    Program::remote(c_program("reads_finished"), server.url()).run().success();
}

#[test]
fn what_is_mapped_elsewhere_each_time_arrives() {
    let mut pair = stubs("STUB_MOVES", "1");
    ranges_arrive(&mut pair, 300_000, &[(0, 70_000), (100_000, 100_000), (299_999, 1)]);
}

#[test]
fn a_connection_that_breaks_for_a_reason_of_this_machine_costs_what_was_on_it_and_is_made_again() {
    // So few that the client reads them without a mapping.
    const SIZE: usize = 200_000;
    // Sending from where nothing is.
    let mut pair = stubs("STUB_LIES", "1");
    let Pair { a, b, servers } = &mut pair;
    let contents = fake::noise(SIZE, 1);
    a.buffer(1, &contents);
    b.buffer(1, &vec![0; SIZE]);
    push(a, b, 1, &whole(SIZE), &[], 1, 2);
    // CL_OUT_OF_RESOURCES: that of the push, and of nothing else.
    assert_eq!(b.end_of(2), -5);
    a.until("word of it", |notes| {
        notes.peers.iter().any(|state| state.connected && state.text.contains("os error 14"))
    });
    assert!(b.notes.peers.is_empty(), "for the other, nothing has happened: {:?}", b.notes.peers);
    servers[0].expect_log("what was being sent over it failed");
    servers[0].expect_log("is made again\n");
    // As before, both ways, and what is larger by the connection that is made again.
    push(a, b, 1, &whole(SIZE), &[], 2, 3);
    assert_eq!(b.end_of(3), 0);
    assert!(b.read(1, SIZE, &[]) == contents);
    push(b, a, 1, &whole(100), &[], 3, 4);
    assert_eq!(a.end_of(4), 0);
    assert!(!a.notes.peers.iter().any(|state| !state.connected), "{:?}", a.notes.peers);
}

/// A server of the stub device, whose driver has the functions of OpenCL 1.2 only.
fn on_stub() -> Server {
    let vendors = stub_vendors();
    Server::start_with(
        &["--listen", "tcp://127.0.0.1:0"],
        &[("OCL_ICD_VENDORS", vendors.to_str().expect("a path in UTF-8"))],
    )
}

#[test]
fn functions_that_an_older_driver_does_not_have_are_not_called() {
    let server = on_stub();
    let mut client = Client::connect(server.url().trim_start_matches("tcp://"));
    client.begin().buffer(1, &[7; 100]).kernel(1, "kernel void touch(global char *at) {}", "touch", 1);
    // No memory is shared here, but nothing is no memory.
    client.post(&SetKernelArg { kernel: KernelId(1), index: 0, value: ArgValue::Svm(None) });
    client.post(&SetKernelSvmPointers { kernel: KernelId(1), pointers: Vec::new() });
    assert_eq!(client.call(&DeviceTimer { platform: 0, device: 0 }), Err(-59), "CL_INVALID_OPERATION");
    assert_eq!(client.read(1, 100, &[]), [7; 100]);
}

#[test]
fn a_program_of_no_binaries_is_refused_before_a_driver_sees_it() {
    let server = on_stub();
    let mut client = Client::connect(server.url().trim_start_matches("tcp://"));
    let (program, context) = (ProgramId(1), ContextId(1));
    let made = client.begin().call(&CreateProgramWithBinary { program, context, binaries: Vec::new() });
    let Ok(BinaryReply::Loaded { status, .. }) = made else { panic!("{made:?}") };
    assert_eq!(status, -30, "CL_INVALID_VALUE");
}
