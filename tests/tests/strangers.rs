//! A stranger, or a peer that misbehaves, on a machine of its own beside three servers: its messages have no effect, or
//! end the one session that it concerns.

use std::io::Write;
use std::net::TcpStream;

use ropeway_protocol::handshake::{HandshakeError, peer_proof};
use ropeway_protocol::ids::{ContextId, EventId, MemoryId, SessionId, TransferId};
use ropeway_protocol::messages::*;
use ropeway_protocol::types::InitialContents;
use ropeway_tests::cluster::{Cluster, MIB};
use ropeway_tests::fake;
use ropeway_tests::peering::{SECRET, connect, data, push, whole};
use ropeway_tests::raw::{Client, blurt, frame, join, peer_purpose};

/// The name that a stranger gives itself.
const STRANGER: SessionId = SessionId(666);

/// The machine that has no server.
const OUTSIDE: usize = 4;

/// CL_DEVICE_NOT_AVAILABLE.
const LOST: i32 = -2;

fn refused<T: std::fmt::Debug>(result: Result<T, HandshakeError>) {
    assert_eq!(result.unwrap_err(), HandshakeError::Refused("it does not know the secret".into()));
}

/// A session of the client on each server, with a context; all have the secret.
fn sessions(cluster: &Cluster) -> [Client; 3] {
    let session = |number: usize| {
        let address = cluster.servers[number].address();
        let mut client = cluster.host(0).inside(|| Client::connect(address));
        client.begin().post(&OpenPeers { secret: SECRET }).send();
        client
    };
    [0, 1, 2].map(session)
}

/// The name of a server's first session.
fn session_of(cluster: &Cluster, server: usize) -> SessionId {
    let log = cluster.servers[server].log();
    let name = log.lines().find_map(|line| line.split_once("]: session ")?.1.split([' ', ':']).next());
    SessionId(u64::from_str_radix(name.expect("there is a session"), 16).expect("a session has a number"))
}

#[test]
fn a_program_is_not_disturbed_by_who_has_no_proof() {
    let Some(cluster) = Cluster::beside(3, 1) else { return };
    let outside = cluster.host(OUTSIDE);
    let knock_at_all = || {
        for server in 0..3 {
            let (session, address) = (session_of(&cluster, server), cluster.servers[server].address());
            for secret in [[0; 32], SECRET] {
                refused(outside.inside(|| join(address, (STRANGER, session), &secret, 0)));
                // Nor in the name of a session that is a peer.
                let from = session_of(&cluster, (server + 1) % 3);
                refused(outside.inside(|| join(address, (from, session), &secret, 1)));
            }
            cluster.servers[server].expect_log("it does not know the secret");
        }
    };
    let program = cluster.program("moves", &[&MIB.to_string()]);
    let (stages, outcome) = cluster.stages_after(program, |part| {
        if part == "migrated" {
            knock_at_all();
        }
    });
    stages[1].expect_between(MIB, 50_000);
    assert_eq!((stages[1].name.as_str(), outcome.stdout.as_str()), ("migrated", "what moved is right\n"));
    assert!(!outcome.stderr.contains("ropeway: "), "{}", outcome.stderr);
}

#[test]
fn who_does_not_wait_for_an_answer_neither_pushes_nor_signals() {
    let Some(cluster) = Cluster::beside(3, 1) else { return };
    let [mut a, mut b, c] = sessions(&cluster);
    connect(&mut a, &b);
    connect(&mut b, &c);
    b.buffer(1, &[3; 1000]);
    let (memory, peer, transfer) = (MemoryId(1), a.id(), TransferId(9));
    b.post(&ExpectSignal { event: EventId(5), context: ContextId(1), peer });
    b.post(&Expect { memory, what: whole(1000), event: EventId(9), peer, transfer, queue: None });
    b.call(&Traffic {}).unwrap();
    // In a's name, with what it would send.
    let signal = frame(&Signal { event: EventId(5), status: 0 }, &[]);
    let bytes = [signal, data(9, 0, 1000)].concat();
    let proof = peer_proof(&[1; 32], a.id(), b.id(), 0);
    for link in 0..2 {
        let purpose = peer_purpose((a.id(), b.id()), link, proof);
        cluster.host(OUTSIDE).inside(|| blurt(b.address(), purpose, &bytes));
    }
    cluster.servers[1].expect_log("it does not know the secret");
    b.call(&Traffic {}).unwrap();
    assert!(!b.notes.done.contains_key(&EventId(5)) && !b.notes.done.contains_key(&EventId(9)), "nothing has ended");
    assert_eq!(b.read(1, 1000, &[]), [3; 1000]);
    // The real one comes through.
    a.post(&CreateUserEvent { event: EventId(7), context: ContextId(1) });
    a.post(&SignalPeer { event: EventId(7), peer: b.id(), remote: EventId(5) });
    a.post(&SetUserEventStatus { event: EventId(7), status: 0 });
    a.buffer(1, &[4; 1000]);
    a.post(&Push { memory, what: whole(1000), after: Default::default(), event: None, peer: b.id(), transfer }).send();
    assert_eq!((b.end_of(5), b.end_of(9)), (0, 0));
    assert_eq!(b.read(1, 1000, &[]), [4; 1000]);
}

#[test]
fn another_clients_session_does_not_become_a_peer() {
    let Some(cluster) = Cluster::beside(3, 1) else { return };
    let [mut a, mut b, _c] = sessions(&cluster);
    // It has a session of its own, whose server may well connect to other servers.
    let mut other = cluster.host(OUTSIDE).inside(|| Client::connect(cluster.servers[2].address()));
    other.begin().post(&OpenPeers { secret: [9; 32] });
    for victim in [&a, &b] {
        let (peer, addresses) = (victim.id(), vec![format!("tcp://{}", victim.address())]);
        other.post(&ConnectPeer { peer, addresses });
        other.until("an answer", |notes| !notes.peers.is_empty());
        let state = other.notes.peers.pop().unwrap();
        assert!(!state.connected && state.text.contains("does not know the secret"), "{state:?}");
    }
    connect(&mut a, &b);
    a.buffer(1, &[1; 4]);
    b.buffer(1, &[0; 4]);
    push(&mut a, &mut b, 1, &whole(4), &[], 1, 3);
    assert_eq!(b.read(1, 4, &[3]), [1; 4]);
}

/// Data from server to server to server, counted where it goes.
#[test]
fn peers_push_by_the_links_between_them() {
    let Some(cluster) = Cluster::beside(3, 1) else { return };
    let [mut a, mut b, mut c] = sessions(&cluster);
    connect(&mut a, &b);
    connect(&mut c, &b);
    let size = (3 << 20) + 5;
    let contents = fake::noise(size, 1);
    a.buffer(1, &contents);
    for client in [&mut b, &mut c] {
        let (buffer, initial) = (MemoryId(1), InitialContents::Undefined);
        client.post(&CreateBuffer { buffer, context: ContextId(1), flags: 1, size: size as u64, initial });
    }
    let before = cluster.traffic();
    push(&mut a, &mut b, 1, &whole(size), &[], 1, 3);
    push(&mut b, &mut c, 1, &whole(size), &[3], 2, 4);
    assert_eq!((b.end_of(3), c.end_of(4)), (0, 0));
    let went: Vec<_> = cluster.traffic().into_iter().zip(before).map(|(after, before)| after - before).collect();
    let once = size as u64..size as u64 + size as u64 / 20;
    assert!(went[0].bytes() < 10_000 && went[OUTSIDE].bytes() < 1000, "{went:?}");
    for bytes in [went[1].bytes_out, went[2].bytes_in, went[2].bytes_out, went[3].bytes_in] {
        assert!(once.contains(&bytes), "{went:?}");
    }
    assert!(went[1].bytes_in < 100_000 && went[3].bytes_out < 100_000, "{went:?}");
    assert!(c.read(1, size, &[]) == contents);
}

/// One session has a peer from outside that knows the secret, and sends this. Gives why the session ends. The others,
/// one of which waits for it, go on.
fn ends_over(cluster: &Cluster, send: &[Vec<u8>]) -> String {
    let [mut a, mut b, mut c] = sessions(cluster);
    connect(&mut a, &b);
    connect(&mut a, &c);
    b.buffer(1, &[0; 1000]);
    let (memory, event, transfer) = (MemoryId(1), EventId(9), TransferId(9));
    b.post(&Expect { memory, what: whole(1000), event, peer: STRANGER, transfer, queue: None });
    b.call(&Traffic {}).unwrap();
    a.buffer(1, &[0; 4]);
    let (memory, peer, transfer) = (MemoryId(1), b.id(), TransferId(1));
    a.post(&Expect { memory, what: whole(4), event: EventId(1), peer, transfer, queue: None }).send();
    let to = b.id();
    let mut stranger: TcpStream =
        cluster.host(OUTSIDE).inside(|| join(b.address(), (STRANGER, to), &SECRET, 0)).expect("it knows the secret");
    for bytes in send {
        // The session may have ended already.
        let _ = stranger.write_all(bytes);
    }
    let reason = b.until_closed().expect("it says why");
    cluster.servers[1].expect_log(&reason);
    assert_eq!(a.end_of(1), LOST, "what waits for the session fails");
    c.buffer(1, &[8; 4]);
    push(&mut c, &mut a, 1, &whole(4), &[], 2, 2);
    assert_eq!(a.read(1, 4, &[2]), [8; 4]);
    reason
}

#[test]
fn a_message_that_no_peer_sends_ends_the_one_session_that_it_comes_to() {
    let Some(cluster) = Cluster::beside(3, 1) else { return };
    let signal = frame(&Signal { event: EventId(5), status: 0 }, &[]);
    let cases = [
        (vec![data(9, 0, 1001)], "for which 1000 bytes were announced"),
        (vec![data(9, 0, 0)], "no bytes of"),
        (vec![signal.clone(), signal], "twice"),
    ];
    // Each by itself, at the same time.
    let cluster = &cluster;
    std::thread::scope(|scope| {
        for (send, why) in &cases {
            scope.spawn(move || {
                let reason = ends_over(cluster, send);
                assert!(reason.contains(why), "'{why}' in '{reason}'");
            });
        }
    });
    for server in &cluster.servers {
        let log = server.log();
        assert!(!log.contains("defect") && !log.contains("worker failed"), "{log}");
    }
}
