//! How long sessions keep devices busy, as the audit log says.

use std::fs;
use std::time::Duration;

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long the server may take to find out that a device is idle for which nobody waits (40 ms), on a busy machine.
const UNNOTICED: f64 = 1.5;

/// Of the idle 400 ms in which a kernel runs, so many seconds are counted for certain.
const COUNTED: f64 = 0.2;

/// A server with an audit log.
struct Audited(Server, TempDir);

impl Audited {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--audit-log", log.to_str().unwrap()], &[]);
        Self(server, folder)
    }

    fn program(&self, what: &str) -> Program {
        Program::remote(c_program("device_seconds"), self.0.url()).args([what]).limit(Duration::from_secs(120))
    }

    /// The line about the end of the only session, and the seconds of its only device.
    fn end(&self) -> (String, f64) {
        let line = wait_for("line of the audit log", Duration::from_secs(10), || {
            let text = fs::read_to_string(self.1.path().join("audit.log")).unwrap();
            text.lines().find(|line| line.contains("\"event\":\"end\"")).map(str::to_owned)
        });
        let of_device = line.split_once("\"device_seconds\":{\"0\":").unwrap_or_else(|| panic!("{line}")).1;
        let seconds = of_device.split_once('}').unwrap().0.parse().unwrap();
        (line, seconds)
    }
}

/// The least that must be counted, and the most that may be, as the program says.
fn bounds(line: &str) -> (f64, f64) {
    let (least, most) = line.trim().split_once(' ').unwrap();
    (least.parse().unwrap(), most.parse().unwrap())
}

#[test]
fn a_device_is_busy_while_commands_run_and_not_between_them() {
    let audited = Audited::start();
    let (least, most) = bounds(&audited.program("finished").run().success().stdout);
    let (line, seconds) = audited.end();
    assert!((least..=most).contains(&seconds), "{seconds}, at least {least}, at most {most}: {line}");
}

#[test]
fn a_kernel_that_nobody_waits_for_counts_until_it_ends() {
    let audited = Audited::start();
    let (least, most) = bounds(&audited.program("left").run().success().stdout);
    let (line, seconds) = audited.end();
    assert!((least..=most + UNNOTICED).contains(&seconds), "{seconds}, at least {least}, at most {most}: {line}");
}

#[test]
fn a_session_whose_worker_is_killed_has_its_seconds() {
    let audited = Audited::start();
    let mut running = audited.program("endless").start();
    let (least, _) = bounds(&running.line());
    let worker = audited.0.worker_of(running.pid());
    kill_process(Pid::from_raw(worker.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let (line, seconds) = audited.end();
    running.kill();
    assert!(line.contains("SIGKILL") && !line.contains("\"devices\""), "{line}");
    assert!(seconds >= least + COUNTED, "{seconds}, at least {least} and {COUNTED} more: {line}");
}
