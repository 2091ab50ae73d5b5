//! Ends: of the server, of workers, of clients.

mod common;

use std::time::{Duration, Instant};

use common::{Server, rest, until};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

fn is_alive(pid: i32) -> bool {
    test_kill_process(Pid::from_raw(pid).unwrap()).is_ok()
}

#[test]
fn asked_to_stop_it_ends_with_its_sessions_and_workers() {
    let socket = std::env::temp_dir().join(format!("ropeway-stop-{}.sock", std::process::id()));
    let listen = format!("unix:{}", socket.display());
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(&["--listen", &listen]);
        assert!(socket.exists());
        let client = server.client().unwrap();
        client.ping();
        let workers = server.workers();
        assert!(workers.len() >= 2, "{workers:?}");
        let start = Instant::now();
        assert_eq!(server.end(signal), Some(0));
        assert!(start.elapsed() < Duration::from_millis(2500), "took {:?}", start.elapsed());
        rest(&client.link);
        assert!(!socket.exists(), "the socket's file is left");
        assert!(!workers.into_iter().any(is_alive), "workers are left");
    }
}

#[test]
fn killed_it_takes_its_workers_with_it() {
    let mut server = Server::start(&[]);
    let client = server.client().unwrap();
    let workers = server.workers();
    assert_eq!(server.end(Signal::KILL), None);
    let start = Instant::now();
    rest(&client.link);
    assert!(start.elapsed() < Duration::from_secs(2));
    until("the workers' end", || !workers.iter().any(|&pid| is_alive(pid)));
}

#[test]
fn a_killed_worker_ends_its_own_session_only() {
    let server = Server::start(&["--warm", "1"]);
    let worker = *server.workers().first().unwrap();
    let victim = server.client().unwrap();
    victim.ping();
    let other = server.client().unwrap();
    kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    rest(&victim.link);
    other.ping();
    server.await_log("its worker failed");
    server.await_log("SIGKILL (9");
    server.client().unwrap().ping();
}

#[test]
fn killed_warm_workers_are_replaced() {
    let server = Server::start(&[]);
    let workers = server.workers();
    for &worker in &workers {
        kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    }
    until("all ends in the log", || server.log().matches("a warm worker ended by itself").count() == workers.len());
    server.client().unwrap().ping();
}

#[test]
fn a_client_that_goes_away_frees_its_worker() {
    let server = Server::start(&["--warm", "1"]);
    let worker = *server.workers().first().unwrap();
    let client = server.client().unwrap();
    client.ping();
    drop(client);
    let start = Instant::now();
    until("the worker's end", || !is_alive(worker));
    assert!(start.elapsed() < Duration::from_secs(2));
    server.await_log("session ends");
}

#[test]
fn many_clients_at_once_are_all_served() {
    let server = Server::start(&[]);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| server.client().unwrap().ping());
        }
    });
}

#[test]
fn a_worker_is_not_started_by_hand() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_ropeway")).arg("worker").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("started by `ropeway serve`"));
}
