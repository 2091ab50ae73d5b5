//! Many clients at once: each waits until a worker is made for it, in the order in which they came, and none is turned
//! away.

use std::thread;
use std::time::Duration;

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

const CLIENTS: usize = 64;

/// The numbers that the server gives its clients as they come, in the order in which their sessions begin.
fn served(log: &str) -> Vec<usize> {
    let begins = log.lines().filter(|line| line.contains("session begins"));
    begins.map(|line| number(line, "client=")).collect()
}

fn number(line: &str, field: &str) -> usize {
    let value = line.split_once(field).and_then(|(_, rest)| rest.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {field} in '{line}'"))
}

#[test]
fn all_clients_of_a_burst_are_served_first_come_first_served() {
    let server = Server::start();
    // A program's usual time-out: these servers answer, however busy the machine is.
    let programs: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let program = Program::remote(c_program("vector_add"), server.url()).env("ROPEWAY_CONNECT_TIMEOUT", "2");
            thread::spawn(move || program.limit(Duration::from_secs(280)).run())
        })
        .collect();
    let outcomes: Vec<_> = programs.into_iter().map(|program| program.join().expect("it ends")).collect();
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.status.success()).collect();
    assert!(failed.is_empty(), "{} of {CLIENTS} were not served, such as {:?}", failed.len(), failed[0]);
    let served = served(&server.log());
    assert_eq!(served, (1..=CLIENTS).collect::<Vec<_>>());
}
