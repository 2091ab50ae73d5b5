//! Servers of one machine, and sessions of one server, that send each other what goes from one to the other through
//! memory that both see.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::ids::{ContextId, EventId, SessionId, TransferId};
use ropeway_protocol::messages::{
    ConnectPeer, CreateUserEvent, ExpectSignal, OpenPeers, PushData, SetUserEventStatus, Signal, SignalPeer,
};
use ropeway_tests::cluster::MIB;
use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::net::Net;
use ropeway_tests::peering::{Pair, SECRET, join_sharing, push, whole};
use ropeway_tests::places::c_program;
use ropeway_tests::program::{Program, Running};
use ropeway_tests::proxy::{Fault, Proxy};
use ropeway_tests::raw::{Client, frame};
use ropeway_tests::server::Server;
use ropeway_tests::shared_memory::{held, mapped};
use ropeway_tests::{fake, process, wait_for};
use rustix::net::{Shutdown, shutdown};

/// How soon everybody has to know that the other is gone.
const SOON: Duration = Duration::from_secs(3);

/// How connections to peers go, by the servers' logs: through shared memory, and otherwise.
fn connections<'a>(servers: impl IntoIterator<Item = &'a Server>) -> (usize, usize) {
    let said: Vec<_> = servers.into_iter().map(Server::log).collect();
    let all = said.iter().map(|log| log.matches(" goes through ").count()).sum::<usize>();
    let shared = said.iter().map(|log| log.matches(" goes through shared memory\n").count()).sum();
    (shared, all - shared)
}

/// How many sockets this server's session has had to its peer, by the log.
fn renewals(server: &Server) -> usize {
    let log = server.log();
    log.matches(" goes through ").count() + log.matches(" goes on\n").count()
}

/// A buffer of `size` bytes goes to and fro for as long as it can.
fn bouncing(size: u64, servers: &[Server]) -> Running {
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let mut program = Program::remote(c_program("bounced"), &urls.join(",")).args([&size.to_string(), "0"]).start();
    assert_eq!(program.line(), "ready");
    program
}

#[test]
fn servers_of_this_machine_share_it_unless_the_client_wants_none() {
    for start in [Server::start_unix, Server::start] {
        for (shm, shares) in [("", true), ("shm:off,", false)] {
            let servers = [start(), start()];
            let urls = format!("{shm}{},{}", servers[0].url(), servers[1].url());
            let mut program = Program::remote(c_program("bounced"), &urls).args(["4194304", "5"]).start();
            assert_eq!(program.line(), "begin to and fro");
            let (shared, other) = connections(&servers);
            assert_eq!((shared > 0, other > 0), (shares, !shares), "{}{}", servers[0].log(), servers[1].log());
            // Each has the client's and one for each connection to the other.
            let each = if shares { 1 + shared / 2 } else { 0 };
            for server in &servers {
                let worker = server.worker_of(program.pid());
                assert_eq!((mapped(worker), held(worker)), (each, 0), "{urls}");
                assert_eq!((mapped(server.pid()), held(server.pid())), (0, 0), "{urls}");
            }
            program.say("go");
            assert_eq!(program.line(), "end");
            program.say("go");
            assert_eq!(program.finish().success().stdout, "right\n");
        }
    }
}

#[test]
fn sessions_of_one_server_share_it() {
    let folder = tempfile::tempdir().unwrap();
    let urls = ["one", "other"].map(|name| format!("unix:{}", folder.path().join(name).display()));
    let server = Server::start_with(&["--listen", &urls[0], "--listen", &urls[1]], &[]);
    let mut program = Program::remote(c_program("bounced"), &urls.join(",")).args(["4194304", "5"]).start();
    for line in ["begin to and fro", "end"] {
        assert_eq!(program.line(), line);
        program.say("go");
    }
    assert_eq!(program.finish().success().stdout, "right\n");
    let (shared, other) = connections([&server]);
    assert!(shared > 0 && other == 0, "{}", server.log());
}

/// Two servers at one address of their machine, and the program on another: between the two go no bytes but those of the
/// memory.
#[test]
fn nothing_goes_over_the_sockets() {
    const SIZE: u64 = 16 * MIB;
    const HOPS: u64 = 8;
    let Some(net) = Net::or_skip(2) else { return };
    let (far, host) = (net.host(0), net.host(1));
    let servers = [7590, 7591].map(|port| {
        let listen = format!("tcp://{}:{port}", host.address());
        Server::serve_on(host, &["--listen", &listen, "--plaintext-network"], &[])
    });
    for (shm, expected) in [("", 0..100_000), ("shm:off,", HOPS * SIZE..HOPS * SIZE * 11 / 10)] {
        let urls = format!("{shm}{},{}", servers[0].url(), servers[1].url());
        let args = [SIZE.to_string(), HOPS.to_string()];
        let mut program = Program::remote(c_program("bounced"), &urls).args(&args).on(far).start();
        assert_eq!(program.line(), "begin to and fro");
        let (own, link) = (host.own_traffic(), host.traffic());
        program.say("go");
        assert_eq!(program.line(), "end");
        let (own, link) = (host.own_traffic() - own, host.traffic() - link);
        program.say("go");
        assert_eq!(program.finish().success().stdout, "right\n");
        assert!(expected.contains(&own.bytes_in), "{urls}: {own:?}");
        assert!(link.bytes() < 100_000, "{urls}: {link:?}");
    }
}

/// Servers that clients reach over TLS are known to each other by a Unix socket.
#[test]
fn servers_that_are_encrypted_share_it_over_a_socket_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    for (has_socket, expected) in [(true, "shared memory\n"), (false, "TLS\n")] {
        let servers = ["one", "other"].map(|name| {
            let url = format!("unix:{}", folder.path().join(name).display());
            let args = ["--listen", &url, "--peer-address", &url];
            Encrypted::start_with(if has_socket { &args } else { &[] })
        });
        let tickets = servers.each_ref().map(|server| server.new_ticket("me", &[]));
        let mut program = Program::remote(c_program("bounced"), &tickets.join(",")).args(["4194304", "5"]).start();
        for line in ["begin to and fro", "end"] {
            assert_eq!(program.line(), line);
            program.say("go");
        }
        assert_eq!(program.finish().success().stdout, "right\n");
        for server in &servers {
            let log = server.server.log();
            let all = log.matches(" goes through ").count();
            assert!(all > 0 && log.matches(&format!(" goes through {expected}")).count() == all, "{log}");
        }
    }
}

/// Who stands between the two, as one who slows the link or counts what goes over it, goes on doing that.
#[test]
fn nobody_is_gone_round() {
    let mut pair = Pair::sharing(&[]);
    let proxy = Proxy::to(pair.b.address(), Fault::Delay(Duration::ZERO));
    let Pair { a, b, servers } = &mut pair;
    a.post(&ConnectPeer { peer: b.id(), addresses: vec![proxy.url().to_owned()] });
    a.until("a peer", |notes| notes.peers.iter().any(|state| state.connected));
    a.buffer(1, &[1; 5000]);
    b.buffer(1, &[0; 5000]);
    push(a, b, 1, &whole(5000), &[], 1, 2);
    assert_eq!(b.end_of(2), 0);
    let (shared, other) = connections(&*servers);
    assert!(shared == 0 && other > 0, "{}", servers[0].log());
}

/// Servers of devices that are used as if they had memory of their own: bulk bytes go through memory that lies still.
fn pinned() -> [Server; 2] {
    [(); 2].map(|()| Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--force-pinned"], &[]))
}

#[test]
fn workers_are_killed_at_any_time() {
    kill_workers([Server::start_unix(), Server::start()]);
}

#[test]
fn workers_that_copy_in_place_are_killed_at_any_time() {
    kill_workers(pinned());
}

/// A worker that is killed at any time leaves nothing at the others, which go on.
fn kill_workers(servers: [Server; 2]) {
    for round in 0..24_u64 {
        let size = [64 << 10, 1 << 20, 16 << 20][round as usize % 3];
        let mut program = bouncing(size, &servers);
        let [killed, other] = [0, 1].map(|at| servers[(round as usize + at) % 2].worker_of(program.pid()));
        // Not a condition: any moment will do.
        thread::sleep(Duration::from_micros(round * 1717 % 20_000));
        let since = Instant::now();
        process::kill(killed);
        let ended = program.line();
        assert!(ended.starts_with("ended with -"), "round {round}: {ended}");
        assert!(since.elapsed() < SOON, "round {round}: only after {:?}", since.elapsed());
        // What is left is the link of the client.
        wait_for("end of its memory", SOON, || (mapped(other) == 1).then_some(()));
        assert_eq!(held(other), 0, "round {round}");
        program.say("go");
        program.finish().success();
        wait_for("end of the worker", SOON, || (!process::is_alive(other)).then_some(()));
    }
    for server in &servers {
        assert_eq!((mapped(server.pid()), held(server.pid())), (0, 0));
    }
    // Both were told, and serve others.
    let (shared, other) = connections(&servers);
    assert!(shared >= 24 && other == 0);
    let mut program = bouncing(1 << 20, &servers);
    process::kill(servers[0].worker_of(program.pid()));
    assert!(program.line().starts_with("ended with -"));
}

#[test]
fn clients_are_killed_at_any_time() {
    kill_clients([Server::start_unix(), Server::start()]);
}

#[test]
fn clients_of_workers_that_copy_in_place_are_killed_at_any_time() {
    kill_clients(pinned());
}

fn kill_clients(servers: [Server; 2]) {
    for round in 0..24_u64 {
        let program = bouncing([64 << 10, 1 << 20, 16 << 20][round as usize % 3], &servers);
        let workers = [&servers[0], &servers[1]].map(|server| server.worker_of(program.pid()));
        thread::sleep(Duration::from_micros(round * 1717 % 20_000));
        program.kill();
        for worker in workers {
            wait_for("end of the worker", SOON, || (!process::is_alive(worker)).then_some(()));
        }
    }
    for server in &servers {
        assert_eq!((mapped(server.pid()), held(server.pid())), (0, 0));
    }
}

#[test]
fn sockets_are_cut_at_any_time() {
    cut_sockets(&[]);
}

#[test]
fn sockets_are_cut_at_any_time_beside_memory_that_devices_copy_to() {
    cut_sockets(&["--force-pinned"]);
}

/// The sockets beside the memory end while both processes live: what was in the memory arrives once all the same.
fn cut_sockets(args: &[&str]) {
    const ROUNDS: u64 = 30;
    const SIZE: usize = 20_000;
    const LARGE: usize = 300_000;
    let mut pair = Pair::sharing(args).connect();
    let Pair { a, b, servers } = &mut pair;
    let address = servers[1].address().parse().unwrap();
    let worker = wait_for("the worker that has connected", SOON, || {
        let connected = |worker: &u32| process::sockets_to(*worker, address).is_ok_and(|found| !found.is_empty());
        servers[0].workers().into_iter().find(connected)
    });
    let context = ContextId(1);
    for client in [&mut *a, &mut *b] {
        client.post(&CreateUserEvent { event: EventId(1), context });
        client.post(&SetUserEventStatus { event: EventId(1), status: 0 });
    }
    a.buffer(1, &[1; LARGE]);
    b.buffer(1, &[0; LARGE]);
    let contents: Vec<_> = (0..ROUNDS).map(|round| fake::noise(SIZE, round)).collect();
    for (id, bytes) in (10..).zip(&contents) {
        a.buffer(id, bytes);
        b.buffer(id, &[0; SIZE]);
    }
    for (round, bytes) in (0..).zip(&contents) {
        let (id, first) = (10 + round, 10_000 + 100 * round);
        // What breaks without having been of any use is not made again for ever; there may be two of the kind.
        for name in [first + 50, first + 51] {
            push(a, b, 1, &whole(LARGE), &[], 100_000 + name, name);
            assert_eq!(b.end_of(name), 0, "round {round}");
        }
        for event in [first, first + 1] {
            b.post(&ExpectSignal { event: EventId(event), context, peer: a.id() });
            a.post(&SignalPeer { event: EventId(1), peer: b.id(), remote: EventId(event) });
        }
        push(a, b, id, &whole(SIZE), &[], 2 * id, first + 10);
        push(b, a, id, &whole(SIZE), &[first + 10], 2 * id + 1, first + 30);
        // Not a condition: any moment will do.
        thread::sleep(Duration::from_micros(round * 97 % 1500));
        let sockets = process::sockets_to(worker, address).expect("it goes on");
        let before = servers.each_ref().map(renewals);
        shutdown(&sockets[round as usize % sockets.len()], Shutdown::Both).unwrap();
        for event in [first, first + 1, first + 10] {
            assert_eq!(b.end_of(event), 0, "event {event} of round {round}");
        }
        assert_eq!(a.end_of(first + 30), 0, "round {round}");
        assert!(a.read(id, SIZE, &[]) == *bytes && b.read(id, SIZE, &[]) == *bytes);
        // A peer that has lost all of its connections at the same time is gone.
        for (server, before) in servers.iter().zip(before) {
            wait_for("another socket", SOON, || (renewals(server) > before).then_some(()));
        }
    }
    for client in [a, b] {
        assert!(client.notes.peers.is_empty(), "nobody is told of a loss: {:?}", client.notes.peers);
    }
    for server in &*servers {
        assert!(server.log().matches(" goes on\n").count() >= 5, "{}", server.log());
    }
    assert_eq!(connections(&*servers).1, 0);
}

/// The worker's end of a connection to a peer, who writes into the memory: numbers that look random, at places that do.
fn write_anywhere(memory: &File, seed: &mut u64, anywhere: bool) {
    let mut random = || {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    };
    // Where the positions are, or the bytes of the ring to the server.
    let at = if anywhere && random().is_multiple_of(50) { random() % 1024 } else { 4096 + random() % (1 << 20) };
    let value = random() >> (random() % 64);
    memory.write_all_at(&value.to_le_bytes(), at).unwrap();
}

/// A peer that writes into the memory at any time may end its connection, or the session: but no worker crashes or stays,
/// and the server serves others.
#[test]
fn a_peer_that_writes_anywhere_ends_no_more_than_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let unix = format!("unix:{}", folder.path().join("ropeway.sock").display());
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--listen", &unix], &[]);
    for session in 1..=8_u64 {
        let mut client = Client::connect(server.address());
        client.begin().post(&OpenPeers { secret: SECRET }).send();
        let from = SessionId(77);
        let (link, memory) = join_sharing(&unix, (from, client.id()), 0);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut seed = session;
                for _ in 0..50_000 {
                    // The first sessions leave the positions alone, which lets them last.
                    write_anywhere(&memory, &mut seed, session > 4);
                }
                over.store(true, Ordering::SeqCst);
            });
            let signal = |event| frame(&Signal { event: EventId(event), status: 0 }, &[]);
            let data = |transfer| frame(&PushData { transfer: TransferId(transfer), offset: 0 }, &[1; 3000]);
            let mut number = 0;
            while !over.load(Ordering::SeqCst) {
                number += 1;
                let bytes = if number % 3 == 0 { data(number) } else { signal(number) };
                // Without waiting: nobody reads any more than is kept of what comes early.
                if link.try_send(&bytes).is_err() {
                    break;
                }
            }
        });
        drop(client);
    }
    wait_for("end of all sessions", Duration::from_secs(20), || {
        let log = server.log();
        (log.matches("session ends").count() >= 8).then_some(())
    });
    assert!(!server.log().contains("its worker failed"), "{}", server.log());
    Program::remote(c_program("vector_add"), server.url()).run().success();
}
