//! A broker whose network, machine, disk or clock fails, and holders whose do.

use std::fs;
use std::time::{Duration, Instant};

use ropeway_tests::broker::{Broker, with_key_of};
use ropeway_tests::net::Net;
use ropeway_tests::places::{c_program, shifted_clock};
use ropeway_tests::program::Program;
use ropeway_tests::small_disk::SmallDisk;
use ropeway_tests::{process, wait_for};

const LONG: Duration = Duration::from_secs(40);

/// Longer than a connection may be silent, and its holder away after that.
const NOTICED: Duration = Duration::from_secs(4);

#[test]
fn a_holder_whose_machine_is_gone_loses_its_devices_and_a_broker_that_is_cut_off_takes_none() {
    let Some(net) = Net::or_skip(4) else { return };
    let [broker_at, server_at, gone, other] = [0, 1, 2, 3].map(|number| net.host(number));
    let broker = Broker::start_on(broker_at);
    let server = broker.server_on(server_at, 2);
    let (alice, bob) = (broker.ticket("alice", &[]), broker.ticket("bob", &[]));
    let mut lost = broker.program(&alice, "cpu", c_program("held"), &[]).on(gone).start();
    let mut kept = broker.program(&bob, "cpu", c_program("held"), &[]).on(other).start();
    assert_eq!((lost.line(), kept.line()), ("ready".into(), "ready".into()));
    assert_eq!(broker.lease_count(), 2);

    // The broker hears nobody: it may be the one that is cut off.
    broker_at.cut();
    std::thread::sleep(NOTICED);
    kept.say("compute");
    assert_eq!(kept.line(), "1");
    broker_at.mend();
    wait_for("the server at the broker", LONG, || (broker.devices().matches("lent").count() == 2).then_some(()));
    std::thread::sleep(NOTICED);
    assert_eq!(broker.lease_count(), 2);

    // A machine is gone, and the server is not: its device is free before the server's kernel has given up the session.
    gone.cut();
    broker.expect_leases(1);
    server.expect_log("its holder is gone");
    let fresh = broker.program(&bob, "cpu", "clinfo", &["-l"]).on(other).run().success();
    assert_eq!(fresh.listed(), 1);
    kept.say("compute");
    assert_eq!(kept.line(), "2");
    kept.finish().success();
    lost.kill();
}

#[test]
fn a_server_that_is_cut_off_ends_leases_when_they_are_not_renewed() {
    let Some(net) = Net::or_skip(3) else { return };
    let [broker_at, server_at, client] = [0, 1, 2].map(|number| net.host(number));
    let broker = Broker::start_on(broker_at);
    let server = broker.server_on(server_at, 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lease");
    broker.says(&["lease", "new", "--want", "cpu", "--for", "8s", "--output", file.to_str().unwrap()]);
    let program = Program::remote(c_program("held"), "").without("ROPEWAY_SERVERS");
    let mut program = program.env("ROPEWAY_HOSTFILE", file.to_str().unwrap()).on(client).start();
    assert_eq!(program.line(), "ready");
    server_at.part_from(broker_at);
    server.expect_log("no devices are lent now, and leases go on");
    program.say("compute");
    assert_eq!(program.line(), "1");
    // The broker cannot have the device back before the server says so; the server ends the session by itself.
    wait_for("end of the session", LONG, || server.log().contains("it was not renewed in time").then_some(()));
    assert!(broker.leases().contains("ends now"));
    program.kill();
}

#[test]
fn a_hundred_holders_that_are_killed_at_once_leave_everything_free() {
    let broker = Broker::start();
    let _servers = [broker.server(64), broker.server(64)];
    let alice = broker.ticket("alice", &[]);
    let run = |_| broker.program(&alice, "cpu, share=0.125", "sleep", &["100"]).start();
    let holders: Vec<_> = (0..HOLDERS).map(run).collect();
    broker.expect_leases(HOLDERS);
    let programs: Vec<u32> = holders.iter().flat_map(|holder| process::children(holder.pid())).collect();
    let begin = Instant::now();
    holders.iter().for_each(|holder| process::kill(holder.pid()));
    broker.expect_leases(0);
    println!("free after {:.2} s", begin.elapsed().as_secs_f64());
    assert_eq!(broker.devices().matches("free").count(), 128);
    programs.into_iter().for_each(process::kill);
}

/// Each is a process of three threads, with a program.
const HOLDERS: usize = 100;

#[test]
fn a_broker_whose_disk_is_full_lends_nothing_and_loses_nothing() {
    let Some(disk) = SmallDisk::or_skip(4 << 20) else { return };
    let mut broker = Broker::start_in(disk.path());
    let _server = broker.server(2);
    let alice = broker.ticket("alice", &[]);
    let mut program = broker.program(&alice, "cpu", c_program("held"), &[]).start();
    assert_eq!(program.line(), "ready");
    let ballast = disk.fill();
    // The store has some room of its own.
    let refused = wait_for("a refusal", LONG, || {
        let told = broker.command(&["lease", "new", "--want", "cpu, share=0.001", "--for", "1h", "--wait", "0s"]);
        (!told.status.success()).then(|| String::from_utf8_lossy(&told.stderr).into_owned())
    });
    assert!(refused.contains("the request waits until the broker can write it down (cannot"), "{refused}");
    let refused = broker.command(&["lease", "new", "--want", "cpu, share=0.001", "--for", "1h"]);
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("the broker lends nothing now: cannot write to"), "{refused}");
    program.say("compute");
    assert_eq!(program.line(), "1");
    fs::remove_file(&ballast).unwrap();
    let again = wait_for("a lease", LONG, || {
        let told = broker.command(&["lease", "new", "--want", "cpu, share=0.001", "--for", "1h"]);
        told.status.success().then(|| broker.leases())
    });
    // Each that was said to be granted is still there when it is started again.
    broker.restart();
    wait_for("the server at the broker", LONG, || broker.devices().contains("lent").then_some(()));
    for line in again.lines().skip(1) {
        let number = line.split_whitespace().next().unwrap();
        broker.says(&["lease", "show", number]);
    }
    program.say("compute");
    assert_eq!(program.line(), "2");
    program.finish().success();
}

#[test]
fn clocks_that_jump_end_no_lease_and_keep_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let clock = shifted_clock();
    let shifts = ["broker", "server"].map(|name| folder.path().join(name));
    let set = |which: usize, seconds: &str| fs::write(&shifts[which], seconds).unwrap();
    let env = |which: usize| {
        [("LD_PRELOAD", clock.to_str().unwrap()), ("SHIFTED_CLOCK_FILE", shifts[which].to_str().unwrap())]
    };
    set(0, "0");
    set(1, "0");
    let mut broker = Broker::start_with_env(&env(0));
    let server = broker.server_with_env(&env(1));
    let alice = broker.ticket("alice", &[]);
    let mut program = broker.program(&alice, "cpu, share=0.5", c_program("held"), &[]).start();
    assert_eq!(program.line(), "ready");
    let works = |broker: &Broker| {
        let outcome = broker.run(&alice, "cpu, share=0.5", "clinfo", &["-l"]).success();
        assert_eq!(outcome.listed(), 1, "{outcome:?}");
    };
    for (which, seconds) in [(0, "3600"), (0, "-3600"), (1, "7200"), (1, "-7200")] {
        set(which, seconds);
        std::thread::sleep(Duration::from_secs(1));
        works(&broker);
    }
    // A broker that is started again takes its machine's word, and tells its servers.
    broker.restart();
    wait_for("the server at the broker", LONG, || broker.devices().contains("free").then_some(()));
    works(&broker);
    program.say("compute");
    assert_eq!(program.line(), "1");
    program.finish().success();
    drop(server);
}

#[test]
fn strangers_at_the_brokers_port_keep_nobody_out() {
    let mut broker = Broker::start();
    let _server = broker.server(1);
    let alice = broker.ticket("alice", &[]);
    let address = alice.strip_prefix("ropeway://").unwrap().split('/').next().unwrap().to_owned();
    // Silent ones, from another address of this machine; they are more than may be there at one time.
    let silent: Vec<_> = (0..400)
        .map(|_| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            let from: std::net::SocketAddr = "127.0.0.2:0".parse().unwrap();
            socket.bind(&from.into()).unwrap();
            let to: std::net::SocketAddr = address.parse().unwrap();
            socket.connect(&to.into()).unwrap();
            socket
        })
        .collect();
    assert_eq!(broker.run(&alice, "cpu", "clinfo", &["-l"]).success().listed(), 1);
    drop(silent);
    // Those who say something that is no TLS, or are no client.
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 300], &[22, 3, 1, 255, 255]] {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let _ = std::io::Write::write_all(&mut stream, garbage);
        let mut said = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut said);
        assert!(said.len() < 64, "a stranger hears an alert at most: {said:?}");
    }
    let other = Broker::start();
    let foreign = with_key_of(&other.ticket("mallory", &[]).replace(other.address(), &address), &alice);
    let told = broker.run(&foreign, "cpu", "true", &[]);
    assert!(told.stderr.contains("does not let this client's key in"), "{told:?}");
    assert_eq!(broker.run(&alice, "cpu", "clinfo", &["-l"]).success().listed(), 1);
    assert!(!broker.daemon().log().contains("panicked"));
}
