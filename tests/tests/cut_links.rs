//! Connection 0 between two servers, by which signals and small pushes go, is cut again and again by what lies between
//! them, in the middle of messages too, while both servers live.

use std::io::{Read, Write};
use std::net::TcpStream;

use ropeway_protocol::handshake::HandshakeError;
use ropeway_protocol::ids::{ContextId, EventId, SessionId};
use ropeway_protocol::messages::{
    ConnectPeer, CreateUserEvent, ExpectSignal, OpenPeers, Received, SetUserEventStatus, Signal, SignalPeer, Traffic,
};
use ropeway_tests::fake;
use ropeway_tests::peering::{Pair, SECRET, push, whole};
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::proxy::{Fault, Proxy};
use ropeway_tests::raw::{Client, frame, join, resume};
use ropeway_tests::server::Server;

/// Two sessions; the first connects to the second by a link that puts in this fault.
fn apart(fault: Fault) -> (Pair, Proxy) {
    let mut pair = Pair::new(&[]);
    let proxy = Proxy::to(pair.b.address(), fault);
    let Pair { a, b, .. } = &mut pair;
    a.post(&ConnectPeer { peer: b.id(), addresses: vec![proxy.url().to_owned()] });
    a.until("a peer", |notes| !notes.peers.is_empty());
    assert!(a.notes.peers.pop().expect("it is there").connected);
    (pair, proxy)
}

/// How often the connection was made again.
fn renewals(server: &Server) -> usize {
    server.log().matches(" goes on\n").count()
}

/// Signals to the other session, of the events from `first` on.
fn signals(from: &mut Client, to: &mut Client, first: u64, count: u64) {
    let context = ContextId(1);
    for event in (first..).map(EventId).take(count as usize) {
        to.post(&ExpectSignal { event, context, peer: from.id() });
        from.post(&SignalPeer { event: EventId(1), peer: to.id(), remote: event });
    }
}

#[test]
fn each_signal_and_each_small_push_arrives_once() {
    const ROUNDS: u64 = 60;
    const SIZE: usize = 3000;
    // A cut falls within a push, a signal or a header, each time elsewhere.
    let (mut pair, _proxy) = apart(Fault::CutSignals(17_777));
    let Pair { a, b, servers } = &mut pair;
    for client in [&mut *a, &mut *b] {
        client.post(&CreateUserEvent { event: EventId(1), context: ContextId(1) });
        client.post(&SetUserEventStatus { event: EventId(1), status: 0 });
    }
    let contents: Vec<_> = (0..ROUNDS).map(|round| fake::noise(SIZE, round)).collect();
    for (id, bytes) in (10..).zip(&contents) {
        a.buffer(id, bytes);
        b.buffer(id, &[0; SIZE]);
    }
    for round in 0..ROUNDS {
        let (id, first) = (10 + round, 10_000 + 100 * round);
        // There, and back into the buffer that it came from, with signals before, between and behind.
        signals(a, b, first, 3);
        push(a, b, id, &whole(SIZE), &[], 2 * id, first + 10);
        signals(b, a, first + 20, 3);
        push(b, a, id, &whole(SIZE), &[first + 10], 2 * id + 1, first + 30);
        signals(a, b, first + 40, 1);
    }
    for round in 0..ROUNDS {
        let first = 10_000 + 100 * round;
        for event in [0, 1, 2, 10, 40] {
            assert_eq!(b.end_of(first + event), 0, "event {event} of round {round}");
        }
        for event in [20, 21, 22, 30] {
            assert_eq!(a.end_of(first + event), 0, "event {event} of round {round}");
        }
    }
    for (id, bytes) in (10..).zip(&contents) {
        assert!(a.read(id, SIZE, &[]) == *bytes && b.read(id, SIZE, &[]) == *bytes);
    }
    for (client, server) in [(&*a, &servers[0]), (&*b, &servers[1])] {
        assert!(client.notes.peers.is_empty(), "nobody is told of a loss: {:?}", client.notes.peers);
        assert!(renewals(server) >= 5, "{}", server.log());
    }
}

#[test]
fn a_connection_that_lets_no_message_through_is_given_up() {
    // Less than one push, however often it is made again.
    let (mut pair, _proxy) = apart(Fault::CutSignals(1000));
    let Pair { a, b, servers } = &mut pair;
    a.buffer(1, &[1; 5000]);
    b.buffer(1, &[0; 5000]);
    push(a, b, 1, &whole(5000), &[], 1, 2);
    // CL_DEVICE_NOT_AVAILABLE.
    assert_eq!(b.end_of(2), -2);
    for client in [a, b] {
        client.until("word of it", |notes| notes.peers.iter().any(|state| !state.connected));
    }
    servers[0].expect_log("is lost: ");
}

#[test]
fn each_large_push_arrives_or_fails() {
    const SIZE: usize = 300_000;
    let (mut pair, _proxy) = apart(Fault::CutBulk(1_000_000));
    let Pair { a, b, servers } = &mut pair;
    let contents = [fake::noise(SIZE, 1), fake::noise(SIZE, 2)];
    for id in 10..30 {
        a.buffer(id, &contents[0]).buffer(id + 100, &[0; SIZE]);
        b.buffer(id + 100, &contents[1]).buffer(id, &[0; SIZE]);
    }
    // Both ways at the same time.
    for id in 10..30 {
        push(a, b, id, &whole(SIZE), &[], 1000 + id, 2000 + id);
        push(b, a, id + 100, &whole(SIZE), &[], 3000 + id, 4000 + id);
    }
    let mut failed = 0;
    for id in 10..30 {
        for (to, name, id) in [(&mut *b, 2000 + id, id), (&mut *a, 4000 + id, id + 100)] {
            match to.end_of(name) {
                0 => assert!(to.read(id, SIZE, &[]) == contents[usize::from(id >= 100)]),
                status => {
                    // CL_OUT_OF_RESOURCES.
                    assert_eq!(status, -5);
                    failed += 1;
                }
            }
        }
    }
    assert!(failed > 0, "the connection is cut");
    for client in [&*a, &*b] {
        assert!(client.notes.peers.iter().all(|state| state.connected), "{:?}", client.notes.peers);
    }
    servers[0].expect_log("is made again\n");
    // What is large goes on arriving: at least one of two goes over a connection before that is cut.
    let mut arrives = |name| {
        push(a, b, 10, &whole(SIZE), &[], name, name);
        b.end_of(name) == 0 && b.read(10, SIZE, &[]) == contents[0]
    };
    assert!(arrives(5000) || arrives(5001));
}

#[test]
fn random_programs_are_right_whatever_is_cut() {
    let proxies = [(); 2].map(|()| Proxy::new(Fault::CutSignals(200_000)));
    let servers = [0, 1].map(|number: usize| {
        let args = ["--listen", "tcp://127.0.0.1:0", "--peer-address", proxies[number].url()];
        let server = Server::start_with(&args, &[]);
        proxies[number].lead_to(server.address());
        server
    });
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let program = Program::remote(c_program("random"), &urls.join(","));
    let outcome = program.args(["1", "6", "600", "without"]).run().success();
    assert_eq!(outcome.stdout.lines().filter(|line| line.ends_with(": all right")).count(), 6, "{}", outcome.stdout);
    assert!(!outcome.stderr.contains("ropeway: "), "{}", outcome.stderr);
    for server in &servers {
        assert!(renewals(server) >= 3, "{}", server.log());
        assert!(!server.log().contains("is lost"), "{}", server.log());
    }
}

/// A session with a peer of a few lines, by connections 0 and 1; the session's event 1 has ended.
fn beside_a_peer() -> (Server, Client, [TcpStream; 2]) {
    let server = Server::start();
    let mut client = Client::connect(server.address());
    client.begin().post(&OpenPeers { secret: SECRET });
    client.post(&CreateUserEvent { event: EventId(1), context: ContextId(1) });
    client.post(&SetUserEventStatus { event: EventId(1), status: 0 });
    client.call(&Traffic {}).expect("it answers");
    let peer = [1, 0].map(|link| join(server.address(), (PEER, client.id()), &SECRET, link).expect("it is let in"));
    let [bulk, control] = peer;
    (server, client, [control, bulk])
}

/// As [`beside_a_peer`], and the client's event 10 waits for a signal of the peer's.
fn beside_an_awaited_peer() -> (Server, Client, [TcpStream; 2]) {
    let (server, mut client, links) = beside_a_peer();
    client.post(&ExpectSignal { event: EventId(10), context: ContextId(1), peer: PEER }).send();
    client.call(&Traffic {}).expect("it answers");
    (server, client, links)
}

/// The name of the peer's session.
const PEER: SessionId = SessionId(666);

/// Reads so many bytes.
fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).expect("they come");
    bytes
}

fn signal(event: u64) -> Vec<u8> {
    frame(&Signal { event: EventId(event), status: 0 }, &[])
}

#[test]
fn a_connection_goes_on_with_the_first_message_that_was_not_handled() {
    let (server, mut client, [mut control, _bulk]) = beside_a_peer();
    let context = ContextId(1);
    for event in [10, 11] {
        client.post(&ExpectSignal { event: EventId(event), context, peer: PEER });
        client.post(&SignalPeer { event: EventId(1), peer: PEER, remote: EventId(event + 10) }).send();
        assert_eq!(read(&mut control, signal(event + 10).len()), signal(event + 10));
    }
    control.write_all(&signal(10)).expect("it reads");
    assert_eq!(client.end_of(10), 0);
    // Half a message, which does not count; the peer has lost the second one, too.
    control.write_all(&signal(11)[..7]).expect("it reads");
    drop(control);
    let mut control = resume(server.address(), (PEER, client.id()), &SECRET).expect("it is let in");
    let handled = |count: usize| frame(&Received { bytes: (signal(10).len() * count) as u64 }, &[]);
    assert_eq!(read(&mut control, handled(1).len()), handled(1));
    control.write_all(&[handled(1), signal(11)].concat()).expect("it reads");
    assert_eq!(read(&mut control, signal(21).len()), signal(21));
    assert_eq!(client.end_of(11), 0);
    // Once more, with nothing to be sent again, and the old connection still there.
    let old = control;
    let mut control = resume(server.address(), (PEER, client.id()), &SECRET).expect("it is let in");
    assert_eq!(read(&mut control, handled(2).len()), handled(2));
    control.write_all(&handled(2)).expect("it reads");
    client.post(&SignalPeer { event: EventId(1), peer: PEER, remote: EventId(22) }).send();
    assert_eq!(read(&mut control, signal(22).len()), signal(22));
    assert!(client.notes.peers.is_empty(), "{:?}", client.notes.peers);
    drop(old);
}

#[test]
fn a_connection_does_not_go_on_with_what_nobody_has() {
    let (server, mut client, [mut control, bulk]) = beside_an_awaited_peer();
    control.write_all(&signal(30)).expect("it reads");
    drop(control);
    let mut control = resume(server.address(), (PEER, client.id()), &SECRET).expect("it is let in");
    // Nothing was ever sent to the peer.
    control.write_all(&frame(&Received { bytes: 1 }, &[])).expect("it reads");
    assert_eq!(client.end_of(10), -2);
    client.until("word of it", |notes| notes.peers.iter().any(|state| state.text.contains("messages on it are lost")));
    let refused = resume(server.address(), (PEER, client.id()), &SECRET).unwrap_err();
    assert_eq!(refused, HandshakeError::Refused("it has given up that connection".into()));
    drop(bulk);
}

#[test]
fn a_connection_that_is_not_made_again_is_given_up() {
    let (server, mut client, [control, _bulk]) = beside_an_awaited_peer();
    drop(control);
    assert_eq!(client.end_of(10), -2);
    server.expect_log("is lost: a connection to it was not made again in time");
}

#[test]
fn a_peer_whose_connections_all_end_is_lost_at_once() {
    let (server, mut client, [control, bulk]) = beside_an_awaited_peer();
    drop(control);
    drop(bulk);
    assert_eq!(client.end_of(10), -2);
    server.expect_log("is lost: it closed the connection");
}
