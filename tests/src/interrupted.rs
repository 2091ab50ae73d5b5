//! Programs and workers that are killed at any time, in the midst of what they do.

use std::thread;
use std::time::{Duration, Instant};

use crate::places::c_program;
use crate::program::{Program, Running};
use crate::server::Server;
use crate::{process, wait_for};

/// What the program `interrupted` does meanwhile: transfers of 32 MB, maps of memory of both kinds, small commands.
const MODES: [&str; 5] = ["read", "write", "map", "finish", "svm"];

/// Starts `interrupted`, as `remote` has a program run, and waits until it has begun.
///
/// # Panics
/// When it does not begin.
pub fn start(remote: impl Fn(std::path::PathBuf) -> Program, mode: &str) -> Running {
    let mut program = remote(c_program("interrupted")).args([mode]).start();
    assert_eq!(program.line(), "ready", "{mode}");
    program
}

/// Each of these, whose server gives no sign of life `since` then, has taken it for lost after 20 seconds.
///
/// # Panics
/// When one has not.
pub fn expect_loss_by_silence(programs: &mut [Running], since: Instant) {
    for program in programs {
        let ended = program.line();
        assert!(ended.starts_with("ended with -"), "{ended}");
    }
    assert!(since.elapsed() < Duration::from_secs(25), "only after {:?}", since.elapsed());
}

/// Not a condition: any moment will do.
fn any_moment(round: u64) {
    thread::sleep(Duration::from_micros(round * 1717 % 20_000));
}

/// Kills so many programs of a server; their workers end `soon`.
///
/// # Panics
/// When one does not.
pub fn kill_clients(server: &Server, remote: impl Fn(std::path::PathBuf) -> Program, rounds: u64, soon: Duration) {
    for (round, mode) in (0..rounds).zip(MODES.iter().cycle()) {
        let program = start(&remote, mode);
        let worker = server.worker_of(program.pid());
        any_moment(round);
        program.kill();
        wait_for("end of the worker", soon, || (!process::is_alive(worker)).then_some(()));
    }
}

/// Kills so many workers of a server; their programs are told `soon`, and go on.
///
/// # Panics
/// When one is not.
pub fn kill_workers(server: &Server, remote: impl Fn(std::path::PathBuf) -> Program, rounds: u64, soon: Duration) {
    for (round, mode) in (0..rounds).zip(MODES.iter().cycle()) {
        let mut program = start(&remote, mode);
        let worker = server.worker_of(program.pid());
        any_moment(round);
        let since = Instant::now();
        process::kill(worker);
        let ended = program.line();
        assert!(ended.starts_with("ended with -"), "{mode}: {ended}");
        assert!(since.elapsed() < soon, "{mode}: only after {:?}", since.elapsed());
        program.finish().success();
    }
}
