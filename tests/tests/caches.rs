//! What a server keeps of a client's compiler caches: no more than its rules say, and nothing once it was removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::wait_for;

/// The folders of the clients that have caches there.
fn clients(own: &Path) -> Vec<PathBuf> {
    let clients = fs::read_dir(own.join("clients")).unwrap().flatten().map(|entry| entry.path());
    clients.filter(|client| client.join("0").is_dir()).collect()
}

/// The bytes of all files below.
fn bytes(folder: &Path) -> u64 {
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes(&entry.path()),
        about => about.map_or(0, |about| about.len()),
    };
    fs::read_dir(folder).into_iter().flatten().flatten().map(size).sum()
}

fn run(ticket: &str) {
    let outcome = Program::remote(c_program("vector_add"), ticket).run().success();
    assert!(outcome.stdout.contains("1024 sums are right"), "{}", outcome.stdout);
}

fn until<T>(what: &str, condition: impl Fn() -> Option<T>) -> T {
    wait_for(what, Duration::from_secs(10), condition)
}

#[test]
fn caches_of_a_removed_client_go_also_while_its_session_ends() {
    let encrypted = Encrypted::start_with(&["--warm", "1"]);
    let own = encrypted.server.home().join("cache/ropeway/programs.own");
    let (alice, bob) = (encrypted.new_ticket("alice", &[]), encrypted.new_ticket("bob", &[]));
    run(&alice);
    let of_alice = until("alice's caches", || clients(&own).pop());
    run(&bob);
    until("bob's caches", || (clients(&own).len() == 2).then_some(()));
    let session = Program::remote(c_program("held"), &alice).start();
    let worker = encrypted.server.worker_of(session.pid());
    assert!(encrypted.ticket(&["revoke", "alice"]).status.success());
    until("end of the session", || (!encrypted.server.workers().contains(&worker)).then_some(()));
    until("removal", || (!of_alice.exists()).then_some(()));
    session.kill();
    // The server removes what is left to remove before it ends.
    let mut server = encrypted.server;
    server.stop();
    assert!(!of_alice.exists());
    assert_eq!(clients(&own).len(), 1);
}

#[test]
fn no_more_of_a_clients_caches_is_kept_than_its_rules_say() {
    const MOST: u64 = 4 << 10;
    let encrypted = Encrypted::start_with(&["--warm", "1"]);
    let own = encrypted.server.home().join("cache/ropeway/programs.own");
    let (alice, bob) = (encrypted.new_ticket("alice", &["--compiler-cache", "4K"]), encrypted.new_ticket("bob", &[]));
    let shown = encrypted.ticket(&["show", "alice"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("compiler-cache 4K"), "{shown:?}");
    run(&bob);
    let of_bob = until("bob's caches", || clients(&own).pop());
    // As large are those of the same program otherwise.
    assert!(bytes(&of_bob.join("0")) > MOST);
    for _ in 0..2 {
        run(&alice);
        until("alice's caches below the bound", || {
            let both = clients(&own);
            let of_alice = both.iter().find(|client| **client != of_bob)?;
            (bytes(&of_alice.join("0")) <= MOST).then_some(())
        });
    }
    assert!(bytes(&of_bob.join("0")) > MOST);
}
