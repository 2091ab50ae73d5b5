//! A process that is stopped for a while goes on where it was; a server that is stopped for good is noticed, on every
//! kind of link.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ropeway_tests::net::Net;
use ropeway_tests::places::c_program;
use ropeway_tests::process;
use ropeway_tests::program::{Program, Running};
use ropeway_tests::server::Server;
use ropeway_tests::wait_for;

/// How long a process is stopped that then goes on: longer than TCP's own time-outs would have it.
const FOR_A_WHILE: Duration = Duration::from_secs(13);

/// A server's process that does nothing any more is lost after 20 s, found at the next look.
const NOTICED: Duration = Duration::from_secs(25);

/// A machine that answers nothing is gone after 14 s.
const VANISHED: Duration = Duration::from_secs(19);

/// The variable by which whoever runs a test by hand says for how many seconds programs are stopped. Servers are not,
/// which would be lost.
const SECONDS: &str = "STOPPED_SECONDS";

fn a_while() -> Duration {
    let by_hand = std::env::var(SECONDS).ok().map(|text| text.parse().expect("a number of seconds"));
    by_hand.map_or(FOR_A_WHILE, Duration::from_secs)
}

/// A stopped process, which goes on when this is dropped.
struct Stopped(u32);

impl Stopped {
    fn now(pid: u32) -> Self {
        process::stop(pid);
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        process::resume(self.0);
    }
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Program,
    Worker,
}

fn start(mode: &str, urls: &str) -> Running {
    let mut program = Program::remote(c_program("stopped"), urls).args([mode]).limit(a_while() + NOTICED * 4).start();
    assert_eq!(program.line(), "ready", "{mode}");
    // Its transfers go on for as long as it is not told to end: any moment is in the middle of them.
    thread::sleep(Duration::from_millis(300));
    program
}

fn goes_on(mode: &str, servers: &[&Server], who: Who) {
    let urls: Vec<_> = servers.iter().map(|server| server.url()).collect();
    let mut program = start(mode, &urls.join(","));
    let (pid, time) = match who {
        Who::Program => (program.pid(), a_while()),
        Who::Worker => (servers[servers.len() - 1].worker_of(program.pid()), FOR_A_WHILE),
    };
    let stopped = Stopped::now(pid);
    thread::sleep(time);
    drop(stopped);
    program.say("end");
    let outcome = program.finish().success();
    assert_eq!((&*outcome.stdout, &*outcome.stderr), ("right\n", ""), "{mode} {who:?} {urls:?}");
}

#[test]
fn who_is_stopped_for_a_while_goes_on() {
    let (tcp, unix) = (Server::start(), Server::start_unix());
    thread::scope(|scope| {
        for server in [&tcp, &unix] {
            for mode in ["write", "read"] {
                scope.spawn(move || goes_on(mode, &[server], Who::Program));
                scope.spawn(move || goes_on(mode, &[server], Who::Worker));
            }
        }
    });
}

#[test]
fn a_peer_that_is_stopped_for_a_while_goes_on() {
    let (tcp, unix) = ([Server::start(), Server::start()], [Server::start_unix(), Server::start_unix()]);
    thread::scope(|scope| {
        for servers in [&tcp, &unix] {
            let servers = [&servers[0], &servers[1]];
            scope.spawn(move || goes_on("between", &servers, Who::Worker));
            scope.spawn(move || goes_on("between", &servers, Who::Program));
        }
    });
}

/// The program's calls come back with errors in time, and it says once why.
fn is_noticed(what: &str, mut program: Running, worker: u32, after: usize) {
    process::stop(worker);
    let since = Instant::now();
    let ended = program.line();
    let took = since.elapsed();
    process::kill(worker);
    eprintln!("{what}: {ended} after {took:?}");
    assert!(ended.starts_with("ended with -"), "{what}: {ended}");
    assert!(took < NOTICED, "{what}: only after {took:?}");
    let outcome = program.finish().success();
    assert_eq!(outcome.stdout.lines().count(), after, "{what}: {}", outcome.stdout);
    assert_eq!(outcome.stderr.matches("is lost: it gives no sign of life").count(), 1, "{what}: {}", outcome.stderr);
}

fn interrupted(mode: &str, url: &str, runtime: &Path) -> Running {
    let program = Program::remote(c_program("interrupted"), url).args([mode]).env("XDG_RUNTIME_DIR", runtime);
    let mut program = program.start();
    assert_eq!(program.line(), "ready", "{mode}");
    // Into the middle of its waiting, which lasts: nothing tells of it.
    thread::sleep(Duration::from_millis(300));
    program
}

/// Without memory that the program shares with the server: it would read and write there, and miss nobody.
fn unshared(url: &str, mode: &str) -> String {
    let is_served = ["finish", "events"].contains(&mode);
    if is_served { url.to_owned() } else { format!("shm:off,{url}") }
}

#[test]
fn a_worker_that_is_stopped_for_good_is_lost() {
    let (tcp, unix) = (Server::start(), Server::start_unix());
    let modes = ["finish", "events", "read", "write", "map"];
    thread::scope(|scope| {
        for server in [&tcp, &unix] {
            for mode in modes {
                scope.spawn(move || {
                    let runtime = tempfile::tempdir().expect("a temporary folder can be made");
                    let program = interrupted(mode, &unshared(server.url(), mode), runtime.path());
                    let worker = server.worker_of(program.pid());
                    is_noticed(&format!("{mode} {}", server.url()), program, worker, 3);
                });
            }
        }
        for mode in ["read", "write", "finish"] {
            scope.spawn(move || {
                let runtime = tempfile::tempdir().expect("a temporary folder can be made");
                let program = interrupted(mode, &unshared("local:", mode), runtime.path());
                let server = process::with_argument(&runtime.path().to_string_lossy());
                let [server] = server[..] else { panic!("not one server: {server:?}") };
                // The others are ready for other clients.
                let workers = process::children(server);
                workers.iter().for_each(|&worker| process::stop(worker));
                is_noticed(&format!("{mode} local:"), program, workers[0], 3);
                workers.iter().for_each(|&worker| process::kill(worker));
                wait_for("end of the local server", Duration::from_secs(10), || {
                    (!process::is_alive(server)).then_some(())
                });
            });
        }
    });
}

/// Nothing comes from it any more, not even from its kernel.
#[test]
fn a_machine_that_vanishes_is_noticed_on_both_sides() {
    let Some(net) = Net::or_skip(2) else { return };
    let server = Server::start_on(net.host(1), &[], &[]);
    let mut programs: Vec<_> = ["finish", "events", "read", "write"]
        .map(|mode| {
            let program = Program::remote(c_program("interrupted"), server.url()).args([mode]).on(net.host(0));
            let mut program = program.start();
            assert_eq!(program.line(), "ready", "{mode}");
            (mode, program)
        })
        .into();
    let workers: Vec<_> = programs.iter().map(|(_, program)| server.worker_of(program.pid())).collect();
    net.host(1).cut();
    let since = Instant::now();
    for (mode, program) in &mut programs {
        let ended = program.line();
        eprintln!("{mode}: {ended} after {:?}", since.elapsed());
        assert!(ended.starts_with("ended with -"), "{mode}: {ended}");
        assert!(since.elapsed() < VANISHED, "{mode}: only after {:?}", since.elapsed());
    }
    for worker in workers {
        wait_for("end of a worker", VANISHED.saturating_sub(since.elapsed()), || {
            (!process::is_alive(worker)).then_some(())
        });
    }
    eprintln!("the workers had ended after {:?}", since.elapsed());
    for (mode, program) in programs {
        let outcome = program.finish().success();
        assert_eq!(outcome.stderr.matches("is lost: ").count(), 1, "{mode}: {}", outcome.stderr);
    }
}

/// The program waits at one server for what comes from the other.
#[test]
fn a_peer_that_is_stopped_for_good_is_lost() {
    let (tcp, unix) = ([Server::start(), Server::start()], [Server::start_unix(), Server::start_unix()]);
    thread::scope(|scope| {
        for servers in [&tcp, &unix] {
            for stopped in [0, 1] {
                scope.spawn(move || {
                    let program = start("between", &format!("{},{}", servers[0].url(), servers[1].url()));
                    let worker = servers[stopped].worker_of(program.pid());
                    is_noticed(&format!("between {stopped} {}", servers[0].url()), program, worker, 0);
                });
            }
        }
    });
}
