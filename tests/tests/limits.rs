//! What the access rules limit beside who may come: each limit is reached, its client hears of it, and nobody else does.

use std::fs;
use std::time::Duration;

use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::{c_program, stub_vendors};
use ropeway_tests::program::{Outcome, Program, Running};
use ropeway_tests::wait_for;
use tempfile::TempDir;

/// A server with an audit log, and another client's session on it.
struct Limited {
    encrypted: Encrypted,
    folder: TempDir,
    other: Running,
    /// What the other client's kernel adds to its number each time: the stub's kernels do nothing.
    step: u32,
    number: u32,
}

impl Limited {
    fn start() -> Self {
        Self::start_in(&[], 1)
    }

    fn start_in(env: &[(&str, &str)], step: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let encrypted = Encrypted::start_in(&["--audit-log", log.to_str().unwrap()], env);
        let ticket = encrypted.new_ticket("other", &[]);
        let mut other = Program::remote(c_program("held"), &ticket).limit(Duration::from_secs(300)).start();
        assert_eq!(other.line(), "ready");
        Self { encrypted, folder, other, step, number: 0 }
    }

    fn program(&self, ticket: &str, what: &str) -> Program {
        Program::remote(c_program("limits"), ticket).args([what]).limit(Duration::from_secs(120))
    }

    /// The outcome that the audit log has for the first session of `client` that ended.
    fn audited(&self, client: &str) -> String {
        let of_client = format!("\"client\":\"{client}\"");
        let line = wait_for("line of the audit log", Duration::from_secs(10), || {
            let text = fs::read_to_string(self.folder.path().join("audit.log")).unwrap();
            let is_it = |line: &&str| line.contains("\"event\":\"end\"") && line.contains(&of_client);
            text.lines().find(is_it).map(str::to_owned)
        });
        line.split_once("\"outcome\":\"").unwrap().1.split_once('"').unwrap().0.to_owned()
    }

    /// The other client is as it was.
    fn other_goes_on(&mut self) {
        self.number += self.step;
        self.other.say("");
        assert_eq!(self.other.line(), self.number.to_string());
    }

    /// Runs into a limit on time, which ends the session and its worker.
    fn ends_over(mut self, client: &str, limit: [&str; 2], what: &str, because: &str) {
        let ticket = self.encrypted.new_ticket(client, &limit);
        let mut running = self.program(&ticket, what).start();
        assert_eq!(running.line(), "ready");
        let worker = self.encrypted.server.worker_of(running.pid());
        self.other_goes_on();
        let outcome = running.finish();
        let told = outcome.stderr.lines().find(|line| line.contains("it ended the session")).unwrap_or_default();
        assert!(told.contains(because), "{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.ends_with("after it: -2\n"), "{}", outcome.stdout);
        wait_for("end of the worker", Duration::from_secs(10), || {
            (!self.encrypted.server.workers().contains(&worker)).then_some(())
        });
        assert_eq!(self.audited(client), because);
        self.other_goes_on();
    }
}

/// The lines of its log that name the limit.
fn notices(outcome: &Outcome, ticket: &str) -> Vec<String> {
    let of_ticket = format!("the ticket '{ticket}' allows");
    outcome.stderr.lines().filter(|line| line.contains(&of_ticket)).map(str::to_owned).collect()
}

#[test]
fn more_objects_than_a_ticket_allows_fail_and_the_session_goes_on() {
    let mut limited = Limited::start();
    let ticket = limited.encrypted.new_ticket("ann", &["--objects", "100"]);
    let outcome = limited.program(&ticket, "objects").run().success();
    // A context, a queue, a program, two kernels and a buffer are there already. Each time, all 94 others are had again.
    let expected = "ready\n94 buffers, then -5\n94 events, then -5\n94 kernels, then -5\na program: -5\na queue: -5\na context: -5\na user event: 0\nshared virtual memory: none\nan image: -5\nafter it: 0\n";
    assert_eq!(outcome.stdout, expected, "{}", outcome.stderr);
    let notices = notices(&outcome, "ann");
    assert_eq!(notices.len(), 1, "{notices:?}");
    let expected =
        "the ticket 'ann' allows 100 objects in all its sessions together: one more was refused (CL_OUT_OF_RESOURCES)";
    assert!(notices[0].starts_with("ropeway: the server ") && notices[0].ends_with(expected), "{notices:?}");
    assert_eq!(limited.audited("ann"), "ended");
    limited.other_goes_on();
}

#[test]
fn more_memory_than_a_ticket_allows_is_refused_with_a_line_that_says_whose_limit_it_was() {
    let mut limited = Limited::start();
    let ticket = limited.encrypted.new_ticket("bob", &["--memory", "16M"]);
    let outcome = limited.program(&ticket, "memory").run().success();
    // The program's own buffer takes a few bytes.
    assert_eq!(outcome.stdout, "ready\n15 buffers, then -4\nafter it: 0\n", "{}", outcome.stderr);
    let notices = notices(&outcome, "bob");
    assert_eq!(notices.len(), 1, "{notices:?}");
    let expected =
        "allows 16 MiB of buffers in all its sessions together, of which 15 MiB are taken: 1 MiB more were refused";
    assert!(notices[0].contains(expected), "{notices:?}");
    limited.other_goes_on();
}

/// One session holds `most` buffers of `size` bytes; another of the same ticket gets `left` meanwhile, and `all` of them
/// once the first has released its own. If the first is killed, so is what it had.
fn share(limit: [&str; 2], (most, size): (u32, u32), status: i32, (left, all): (u32, u32)) {
    let mut limited = Limited::start();
    let ticket = limited.encrypted.new_ticket("gus", &limit);
    let size = size.to_string();
    let program = |most: u32| {
        let program = Program::remote(c_program("limits"), &ticket).args(["share", &most.to_string(), &size]);
        let mut running = program.limit(Duration::from_secs(120)).start();
        assert_eq!(running.line(), "ready");
        running
    };
    let other_gets = |expected: u32| {
        let mut other = program(10_000);
        assert_eq!(other.line(), format!("{expected} buffers, then {status}"));
        other.say("");
        assert_eq!(other.line(), "released");
        other.say("");
        other.finish().success();
    };
    let mut first = program(most);
    assert_eq!(first.line(), format!("{most} buffers, then 0"));
    other_gets(left);
    first.say("");
    assert_eq!(first.line(), "released");
    other_gets(all);
    let mut killed = program(most);
    let worker = limited.encrypted.server.worker_of(killed.pid());
    assert_eq!(killed.line(), format!("{most} buffers, then 0"));
    killed.kill();
    wait_for("end of the worker", Duration::from_secs(10), || {
        (!limited.encrypted.server.workers().contains(&worker)).then_some(())
    });
    other_gets(all);
    limited.other_goes_on();
}

#[test]
fn all_sessions_of_a_ticket_share_its_memory() {
    share(["--memory", "16M"], (10, 1 << 20), -4, (5, 15));
}

#[test]
fn all_sessions_of_a_ticket_share_its_objects() {
    // Each session has six objects beside these, and may keep one that it has released.
    share(["--objects", "100"], (40, 64), -5, (48, 87));
}

#[test]
fn an_endless_kernel_ends_with_its_session() {
    let because = "a kernel has run longer than 2s, and the ticket 'cid' allows no more (kernel_time)";
    Limited::start().ends_over("cid", ["--kernel-time", "2s"], "kernel", because);
}

/// As above, on the stub device, with a driver that says what `running` stands for of commands that run.
fn an_endless_kernel_of_a_driver(client: &str, running: &str, because: &str) {
    let vendors = stub_vendors();
    let env = [("OCL_ICD_VENDORS", vendors.to_str().unwrap()), ("STUB_RUNNING", running)];
    Limited::start_in(&env, 0).ends_over(client, ["--kernel-time", "2s"], "kernel", because);
}

#[test]
fn a_driver_that_does_not_say_when_a_kernel_begins_to_run_lets_none_run_for_ever() {
    let because = "a kernel has run longer than 2s, and the ticket 'hal' allows no more (kernel_time)";
    an_endless_kernel_of_a_driver("hal", "submitted", because);
}

#[test]
fn a_driver_that_does_not_answer_lets_no_kernel_run_for_ever() {
    let because = "a kernel has run longer than 2s, and the ticket 'ida' allows no more (kernel_time)";
    an_endless_kernel_of_a_driver("ida", "asked", because);
}

#[test]
fn an_endless_build_ends_with_its_session() {
    let because = "a build has taken longer than 10s, and the ticket 'dan' allows no more (build_time)";
    Limited::start().ends_over("dan", ["--build-time", "10s"], "build", because);
}

#[test]
fn many_brief_kernels_and_one_that_waits_are_no_long_one() {
    let mut limited = Limited::start();
    let ticket = limited.encrypted.new_ticket("eve", &["--kernel-time", "3s", "--build-time", "60s"]);
    let outcome = limited.program(&ticket, "brief").run().success();
    assert_eq!(outcome.stdout, "ready\nafter it: 0\n", "{}", outcome.stderr);
    assert_eq!(limited.audited("eve"), "ended");
    limited.other_goes_on();
}

#[test]
fn who_stays_below_all_limits_does_not_notice_them() {
    let servers: Vec<_> = (0..2).map(|_| Encrypted::start()).collect();
    let limits = ["--memory", "8G", "--objects", "100000", "--kernel-time", "60s", "--build-time", "60s"];
    let tickets: Vec<_> = servers.iter().map(|server| server.new_ticket("jim", &limits)).collect();
    // Random commands over both, checked word by word (see random.rs).
    let random = Program::remote(c_program("random"), &tickets.join(",")).args(["1", "3", "600", "without"]);
    let outcome = random.limit(Duration::from_secs(300)).run().success();
    assert!(notices(&outcome, "jim").is_empty(), "{}", outcome.stderr);
}

#[test]
fn a_ticket_shows_its_limits() {
    let encrypted = Encrypted::start();
    encrypted.new_ticket("fay", &["--objects", "1000", "--kernel-time", "90s", "--build-time", "1500ms"]);
    let shown = encrypted.ticket(&["show", "fay"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let of = |name: &str| shown.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let limits = ["objects", "kernel-time", "build-time", "memory"].map(of);
    assert_eq!(limits, [Some("1000"), Some("1m 30s"), Some("1s 500ms"), Some("-")], "{shown}");
}
