//! A state folder on a disk that is full: what was there stays, and what is new is refused with the reason.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::small_disk::SmallDisk;

fn ticket(state: &Path, args: &[&str]) -> Output {
    Command::new(ropeway()).args(["ticket", "--state"]).arg(state).args(args).output().expect("ropeway starts")
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_ticket_for_which_there_is_no_room_is_refused_and_the_others_stay() {
    let Some(disk) = SmallDisk::or_skip(64 << 10) else { return };
    let state = disk.path().join("state");
    let server = Server::start_with(&["--listen", "tls://127.0.0.1:0", "--state", state.to_str().unwrap()], &[]);
    let host = server.url().strip_prefix("tls://").unwrap().to_owned();
    let made = ticket(&state, &["new", "kim", "--host", &host]);
    assert!(made.status.success(), "{made:?}");
    let kim = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    server.expect_log("clients=1");
    let (rules, there) = (fs::read(state.join("access.toml")).unwrap(), files(&state));

    let filling = disk.fill();
    let refused = ticket(&state, &["new", "lou", "--host", &host]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    assert!(told.contains("access.toml") && told.contains("No space left"), "{told}");
    assert_eq!((fs::read(state.join("access.toml")).unwrap(), files(&state)), (rules, there));
    Program::remote(c_program("vector_add"), &kim).run().success();

    fs::remove_file(filling).unwrap();
    assert!(ticket(&state, &["new", "lou", "--host", &host]).status.success());
    server.expect_log("clients=2");
}
