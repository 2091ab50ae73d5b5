//! Servers that come and go while a program runs (cl_ropeway_servers).

use std::time::Duration;

use ropeway_tests::cluster::{Cluster, FULL_PACKET};
use ropeway_tests::places::c_program;
use ropeway_tests::process;
use ropeway_tests::program::{Program, Running};
use ropeway_tests::server::Server;
use ropeway_tests::wait_for;

/// How soon everybody has to know.
const SOON: Duration = Duration::from_secs(5);

/// The program that does what it is told.
fn start(servers: &str, env: &[(&str, &str)]) -> Running {
    let mut program = Program::remote(c_program("servers"), servers);
    for (name, value) in env {
        program = program.env(name, value);
    }
    ready(program)
}

/// The same on a cluster's client machine, of whose servers it knows the first so many.
fn start_in(cluster: &Cluster, known: usize) -> Running {
    let urls: Vec<_> = cluster.servers.iter().take(known).map(Server::url).collect();
    ready(Program::remote(c_program("servers"), &urls.join(",")).on(cluster.host(0)))
}

fn ready(program: Program) -> Running {
    let mut program = program.start();
    assert_eq!(program.line(), "ready");
    program
}

/// Its answer to one command, a line.
fn ask(program: &mut Running, command: &str) -> String {
    program.say(command);
    program.line()
}

/// Its servers' lines, and the line that counts them.
fn list(program: &mut Running) -> Vec<String> {
    program.say("list");
    let mut lines = vec![program.line()];
    while !lines.last().is_some_and(|line| line.contains(" servers ")) {
        lines.push(program.line());
    }
    lines
}

fn shown(number: usize, server: &Server, state: u32) -> String {
    let port = server.address().rsplit_once(':').unwrap().1;
    format!("server {number} {} port {port} state {state} devices 1", server.url())
}

#[test]
fn what_a_link_carries_is_counted() {
    let server = Server::start();
    let mut program = start(&format!("shm:off,{}", server.url()), &[]);
    assert_eq!(list(&mut program), [shown(0, &server, 1), "1 servers 1 devices".into()]);
    assert_eq!(ask(&mut program, "open 0"), "open");
    assert_eq!(ask(&mut program, "traffic"), "traffic 1 1");
    program.finish().success();
}

#[test]
fn servers_are_connected_and_disconnected() {
    let (first, second) = (Server::start(), Server::start());
    let mut program = start(first.url(), &[]);
    assert_eq!(list(&mut program), [shown(0, &first, 1), "1 servers 1 devices".into()]);
    assert_eq!(ask(&mut program, "open 0"), "open");
    assert_eq!(ask(&mut program, "run"), "run 42");
    assert_eq!(ask(&mut program, "traffic"), "traffic 0 0", "it shares memory with the server");
    assert_eq!(ask(&mut program, "release"), "released");
    assert_eq!(ask(&mut program, &format!("connect {}", second.url())), "connected 1");
    assert_eq!(ask(&mut program, &format!("connect-wwu {}", second.url())), "connected 1", "it is connected already");
    assert_eq!(list(&mut program), [shown(0, &first, 1), shown(1, &second, 1), "2 servers 2 devices".into()]);
    assert_eq!(ask(&mut program, "open 1"), "open");
    assert_eq!(ask(&mut program, "run"), "run 42");

    // Objects of a disconnected server can be released, and give errors.
    let worker = second.worker_of(program.pid());
    assert_eq!(ask(&mut program, "disconnect 1"), "disconnected 0");
    assert!(ask(&mut program, "run").starts_with("run -"));
    assert_eq!(ask(&mut program, "release"), "released");
    assert_eq!(ask(&mut program, "disconnect-wwu 1"), "disconnected 0", "again");
    assert_eq!(list(&mut program), [shown(0, &first, 1), "1 servers 1 devices".into()]);
    assert_eq!(ask(&mut program, "show 1"), shown(1, &second, 3));
    second.expect_log("session ends");
    assert!(!process::is_alive(worker));
    // Connected again it is another session.
    assert_eq!(ask(&mut program, &format!("connect-wwu {}", second.url())), "connected 2");
    assert_eq!(list(&mut program), [shown(0, &first, 1), shown(2, &second, 1), "2 servers 2 devices".into()]);
    assert_eq!(ask(&mut program, "open 2"), "open");
    assert_eq!(ask(&mut program, "run"), "run 42");
    assert_eq!(ask(&mut program, "release"), "released");
    // A command that waits ends with its server.
    assert_eq!(ask(&mut program, "hold 2"), "held -14 1");
    assert_eq!(ask(&mut program, "open 0"), "open");
    assert_eq!(ask(&mut program, "run"), "run 42");
    let outcome = program.finish().success();
    assert_eq!(outcome.stderr, "", "what the program asked for is no news");
}

#[test]
fn a_context_goes_on_with_the_servers_that_are_left() {
    let (first, second) = (Server::start(), Server::start());
    let mut program = start(first.url(), &[]);
    assert_eq!(ask(&mut program, &format!("connect {}", second.url())), "connected 0");
    assert_eq!(list(&mut program).len(), 3);
    assert_eq!(ask(&mut program, "both 10"), "gone -2 the other 43");
    assert_eq!(list(&mut program), [shown(0, &second, 1), "1 servers 1 devices".into()]);
    program.finish().success();
}

#[test]
fn wrong_arguments_are_refused() {
    let server = Server::start();
    let mut program = start(server.url(), &[]);
    assert_eq!(ask(&mut program, "wrong"), "wrong arguments");
    program.finish().success();
}

#[test]
fn a_server_is_lost_and_found_while_a_program_runs() {
    let first = Server::start();
    let mut second = Server::start();
    let url = second.url().to_owned();
    let mut program = start(&format!("{},{url}", first.url()), &[]);
    assert_eq!(list(&mut program).len(), 3);
    // Nobody uses the link, and yet its end is seen by whoever asks.
    second.kill();
    let lost = [shown(0, &first, 1), shown(1, &second, 2), "2 servers 2 devices".into()];
    // Its worker ends a little later.
    wait_for("end of the link", SOON, || (list(&mut program) == lost).then_some(()));
    // A program that watches is told when it is there again.
    assert_eq!(ask(&mut program, "watch"), "watching");
    let mut second = Server::start_with(&["--listen", &url], &[]);
    assert_eq!(ask(&mut program, "news"), "found 2");
    assert_eq!(list(&mut program), [shown(0, &first, 1), shown(2, &second, 1), "2 servers 2 devices".into()]);
    assert_eq!(ask(&mut program, "open 2"), "open");
    assert_eq!(ask(&mut program, "run"), "run 42");
    // And when it goes while nothing is asked of it.
    second.kill();
    assert_eq!(ask(&mut program, "news"), "lost 2");
    assert!(ask(&mut program, "run").starts_with("run -"));
    assert_eq!(ask(&mut program, "release"), "released");
    let third = Server::start_with(&["--listen", &url], &[]);
    assert_eq!(ask(&mut program, "news"), "found 3");
    assert_eq!(ask(&mut program, "unwatch"), "not watching");
    assert_eq!(list(&mut program), [shown(0, &first, 1), shown(3, &third, 1), "2 servers 2 devices".into()]);
    program.finish().success();
}

#[test]
fn threads_end_with_what_they_are_for() {
    let threads = |pid: u32| std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    let (first, mut second) = (Server::start(), Server::start());
    let mut program = start(first.url(), &[]);
    let before = threads(program.pid());
    for number in 0..3 {
        assert_eq!(ask(&mut program, &format!("connect {}", second.url())), format!("connected {number}"));
        assert_eq!(ask(&mut program, &format!("disconnect {number}")), "disconnected 0");
    }
    let settles = |pid, count| {
        wait_for("end of threads", SOON, || (threads(pid) <= count).then_some(()));
    };
    settles(program.pid(), before);
    // One thread looks for lost servers, and one tells of them; the first ends when nobody wants to know.
    ask(&mut program, &format!("connect {}", second.url()));
    ask(&mut program, "watch");
    second.kill();
    assert_eq!(ask(&mut program, "news"), "lost 3");
    ask(&mut program, "unwatch");
    settles(program.pid(), before + 1);
    program.finish().success();
}

#[test]
fn a_program_may_begin_without_any_server() {
    let server = Server::start();
    let mut program = start("", &[("ROPEWAY_PLATFORMS", "always")]);
    assert_eq!(list(&mut program), ["0 servers 0 devices"]);
    assert_eq!(ask(&mut program, &format!("connect {}", server.url())), "connected 0");
    assert_eq!(list(&mut program), [shown(0, &server, 1), "1 servers 1 devices".into()]);
    assert_eq!(ask(&mut program, "open 0"), "open");
    assert_eq!(ask(&mut program, "run"), "run 42");
    program.finish().success();
}

#[test]
fn with_a_platform_for_each_the_new_ones_are_found_by_their_server() {
    let (first, second) = (Server::start(), Server::start());
    let mut program = start(first.url(), &[("ROPEWAY_PLATFORMS", "per-platform")]);
    assert_eq!(ask(&mut program, &format!("connect {}", second.url())), "connected 0");
    // The platform that this program asks is the first server's.
    assert_eq!(list(&mut program), [shown(1, &first, 1), shown(0, &second, 1), "2 servers 1 devices".into()]);
    assert_eq!(ask(&mut program, "open 0"), "open");
    assert_eq!(ask(&mut program, "run"), "run 42");
    program.finish().success();
}

#[test]
fn servers_of_a_network_come_and_go() {
    let Some(cluster) = Cluster::start() else { return };
    let [first, second, third] = &cluster.servers[..] else { panic!("there are three") };
    let mut program = start_in(&cluster, 1);
    assert_eq!(list(&mut program), [shown(0, first, 1), "1 servers 1 devices".into()]);
    // Nobody has talked to the others so far, but to ask who has which address.
    let before = cluster.traffic();
    assert!(before[2].bytes() < 1000 && before[3].bytes() < 1000, "{before:?}");
    assert_eq!(ask(&mut program, &format!("connect {}", second.url())), "connected 1");
    assert_eq!(ask(&mut program, &format!("connect-wwu {}", third.url())), "connected 2");
    let all = [shown(0, first, 1), shown(1, second, 1), shown(2, third, 1), "3 servers 3 devices".into()];
    assert_eq!(list(&mut program), all);
    for number in 0..3 {
        assert_eq!(ask(&mut program, &format!("open {number}")), "open");
        let before = cluster.traffic();
        assert_eq!(ask(&mut program, "run"), "run 42");
        assert_eq!(ask(&mut program, "traffic"), "traffic 1 1");
        for (machine, (after, before)) in cluster.traffic().into_iter().zip(before).enumerate().skip(1) {
            let went = (after - before).bytes();
            // On a busy machine, TCP takes some of it for lost and sends it again.
            let expected = if machine == number + 1 { 2 << 20..3 << 20 } else { 0..1000 };
            assert!(expected.contains(&went), "{went} bytes at machine {machine} for server {number}");
        }
        assert_eq!(ask(&mut program, "release"), "released");
    }
    // In one context of the second and the third, then of the third alone.
    assert_eq!(ask(&mut program, "both 12"), "gone -2 the other 43");
    second.expect_log("session ends");
    assert_eq!(list(&mut program), [shown(0, first, 1), shown(2, third, 1), "2 servers 2 devices".into()]);
    assert_eq!(ask(&mut program, "disconnect-wwu 2"), "disconnected 0");
    third.expect_log("session ends");
    assert_eq!(ask(&mut program, &format!("connect {}", second.url())), "connected 3");
    assert_eq!(list(&mut program), [shown(0, first, 1), shown(3, second, 1), "2 servers 2 devices".into()]);
    // A machine that has no server.
    assert_eq!(ask(&mut program, "connect tcp://10.0.0.4:1"), "not connected -52572", "CL_SERVER_UNREACHABLE_ROPEWAY");
    let stderr = program.finish().success().stderr;
    let why = "cannot use the server tcp://10.0.0.4:1: Connection refused";
    assert!(stderr.contains(why) && stderr.lines().count() == 1, "what the program asked for is no news: {stderr}");
}

#[test]
fn what_is_counted_of_a_server_went_over_its_link() {
    let Some(cluster) = Cluster::start() else { return };
    let begin = cluster.traffic();
    let client = begin[0];
    let mut program = start_in(&cluster, 3);
    assert_eq!(list(&mut program).len(), 4);
    for (number, begin) in begin.iter().skip(1).enumerate() {
        assert_eq!(ask(&mut program, &format!("open {number}")), "open");
        for _ in 0..=number {
            assert_eq!(ask(&mut program, "traffic"), "traffic 1 1");
        }
        let said = ask(&mut program, &format!("counts {number}"));
        let link = cluster.host(number + 1).traffic() - *begin;
        // On a busy machine TCP takes packets for lost that are only late, and sends them again, at either end.
        let resent = (link.resent + cluster.host(0).traffic().resent - client.resent) * FULL_PACKET;
        let counted: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // Packets have headers, and are acknowledged.
        for (counted, went) in [(counted[0], link.bytes_in), (counted[1], link.bytes_out)] {
            let most = counted + counted / 20 + 10_000 + resent;
            assert!((counted..most).contains(&went), "'{said}' of server {number}, and on its link {link:?}");
            assert!(counted >= (number as u64 + 1) << 20, "{said}");
        }
        assert_eq!(ask(&mut program, "release"), "released");
    }
    program.finish().success();
}

#[test]
fn a_server_that_is_cut_off_is_lost_and_found() {
    let Some(cluster) = Cluster::start() else { return };
    let [first, second, third] = &cluster.servers[..] else { panic!("there are three") };
    let mut program = start_in(&cluster, 3);
    assert_eq!(list(&mut program).len(), 4);
    assert_eq!(ask(&mut program, "watch"), "watching");
    assert_eq!(ask(&mut program, "open 1"), "open");
    assert_eq!(ask(&mut program, "run"), "run 42");
    cluster.host(2).cut();
    // Nothing is asked of it, and yet its silence is noticed.
    assert_eq!(ask(&mut program, "news"), "lost 1");
    assert!(ask(&mut program, "run").starts_with("run -"));
    assert_eq!(ask(&mut program, "release"), "released");
    let lost = [shown(0, first, 1), shown(1, second, 2), shown(2, third, 1), "3 servers 3 devices".into()];
    assert_eq!(list(&mut program), lost);
    assert_eq!(ask(&mut program, "open 2"), "open");
    assert_eq!(ask(&mut program, "run"), "run 42");
    assert_eq!(ask(&mut program, "release"), "released");
    cluster.host(2).mend();
    assert_eq!(ask(&mut program, "news"), "found 3");
    assert_eq!(ask(&mut program, "both 03"), "gone -2 the other 43");
    let outcome = program.finish().success();
    assert_eq!(outcome.stderr.matches("is lost").count(), 1, "{}", outcome.stderr);
}
