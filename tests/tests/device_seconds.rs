//! How long sessions keep devices busy, as the audit log says and the list of leases.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use ropeway_tests::broker::Broker;
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a condition may take to come true, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time between two looks of which the second finds what the first has found: the server counts every 20 ms while it
/// takes a device to be busy. On a machine that keeps it from doing so for as long, the test looks less closely.
const QUIET: Duration = Duration::from_secs(1);

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

    /// What the server has counted until now, in seconds: its workers write that where it can read it at any time.
    fn counted(&self) -> f64 {
        let folder = format!("/proc/{}/fd", self.0.pid());
        let files = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        let is_usage = |path: &PathBuf| {
            fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("/memfd:ropeway-usage"))
        };
        let pages = files.filter(is_usage).filter_map(|path| fs::read(path).ok());
        let of_page = |page: Vec<u8>| page.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).sum::<u64>();
        pages.map(of_page).sum::<u64>() as f64 * 1e-9
    }

    /// The line about the end of the only session, and the seconds of its only device.
    fn end(&self) -> (String, f64) {
        let line = wait_for("line of the audit log", PATIENCE, || {
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
    let mut running = audited.program("left").start();
    let (least, _) = bounds(&running.line());
    // If the server did not find out that it has ended, it would count for ever.
    let counted = wait_for("end of the counting", PATIENCE, || {
        let before = audited.counted();
        sleep(QUIET);
        (before >= least && audited.counted() == before).then_some(before)
    });
    running.say("go");
    running.finish().success();
    let (line, seconds) = audited.end();
    assert!(seconds >= least && (seconds - counted).abs() < 1e-6, "{seconds}, before {counted}: {line}");
}

#[test]
fn a_session_whose_worker_is_killed_has_its_seconds() {
    let audited = Audited::start();
    let mut running = audited.program("endless").start();
    let (least, _) = bounds(&running.line());
    let worker = audited.0.worker_of(running.pid());
    // Nobody has waited for what it does now.
    let counted =
        wait_for("more seconds", PATIENCE, || Some(audited.counted()).filter(|counted| *counted > 2.0 * least));
    kill_process(Pid::from_raw(worker.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let (line, seconds) = audited.end();
    running.kill();
    assert!(line.contains("SIGKILL") && !line.contains("\"devices\""), "{line}");
    assert!(seconds >= counted - 1e-6, "{seconds}, before {counted}: {line}");
}

#[test]
fn the_list_of_leases_says_how_long_each_keeps_devices_busy() {
    let broker = Broker::start();
    let _server = broker.server(1);
    let alice = broker.ticket("alice", &[]);
    let mut running = broker.program(&alice, "cpu", c_program("device_seconds"), &["endless"]).start();
    let (least, _) = bounds(&running.line());
    let busy = || {
        let list = broker.leases();
        let (header, line) = (list.lines().next()?, list.lines().find(|line| line.contains("alice"))?);
        line.get(header.find("BUSY")?..)?.split_whitespace().next()?.parse::<f64>().ok()
    };
    // Nobody has waited for what it does now.
    wait_for("seconds in the list", PATIENCE, || busy().filter(|busy| *busy > 2.0 * least));
    let before = busy().expect("it is in the list");
    wait_for("more seconds in the list", PATIENCE, || busy().filter(|busy| *busy > before));
    running.say("end");
    running.finish().success();
    broker.expect_leases(0);
}
