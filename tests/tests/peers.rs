//! Sessions of one client that share memory and events, each on a server of its own: with a client that speaks the
//! protocol itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use ropeway_protocol::handshake::{HandshakeError, peer_proof};
use ropeway_protocol::ids::{ContextId, EventId, MemoryId, SessionId, TransferId};
use ropeway_protocol::image::{ImageDescription, ImageFormat, ImageKind, ImagePart};
use ropeway_protocol::limits::{self, CHUNK};
use ropeway_protocol::messages::*;
use ropeway_protocol::types::{EventList, InitialContents, Moved};
use ropeway_protocol::{FRAME_HEADER_LEN, FrameHeader, Post as _, decode};
use ropeway_tests::fake;
use ropeway_tests::peering::{Pair, SECRET, connect, data, push, whole};
use ropeway_tests::proxy::{Fault, Proxy};
use ropeway_tests::raw::{Client, PATIENCE, command, frame, join, knock, peer_purpose};
use ropeway_tests::server::Server;

const INCREMENT: &str = "kernel void increment(global int *n) { *n += 1; }";

/// CL_DEVICE_NOT_AVAILABLE.
const LOST: i32 = -2;

fn pushes_arrive(pair: Pair) {
    let mut pair = pair.connect();
    let Pair { a, b, .. } = &mut pair;
    // Large, with an odd end; small; and scattered ranges that cross the bounds of chunks.
    for (index, size) in [5 * CHUNK + 77, 1000, 9 << 20].into_iter().enumerate() {
        let (id, contents) = (10 + index as u64, fake::noise(size, index as u64));
        a.buffer(id, &contents);
        b.buffer(id, &vec![0; size]);
        push(a, b, id, &whole(size), &[], id, 100 + id);
        assert_eq!(b.end_of(100 + id), 0);
        assert!(b.read(id, size, &[]) == contents, "{size} bytes arrive as they are");
    }
    let size = 3 * CHUNK;
    let contents = fake::noise(size, 9);
    a.buffer(20, &contents);
    b.buffer(20, &vec![0; size]);
    let ranges = [(1, 5), (100, CHUNK - 3), (CHUNK + 100, 7), (2 * CHUNK, CHUNK)];
    push(a, b, 20, &Moved::Ranges(ranges.map(|(o, s)| (o as u64, s as u64)).to_vec()), &[], 20, 120);
    assert_eq!(b.end_of(120), 0);
    let mut expected = vec![0; size];
    for (offset, len) in ranges {
        expected[offset..offset + len].copy_from_slice(&contents[offset..offset + len]);
    }
    assert!(b.read(20, size, &[]) == expected, "just the ranges arrive");
    // And back over the same connections.
    a.buffer(21, &vec![0; size]);
    b.buffer(21, &contents);
    push(b, a, 21, &whole(size), &[], 21, 121);
    assert!(a.read(21, size, &[121]) == contents);
}

#[test]
fn pushes_arrive_in_mapped_memory() {
    pushes_arrive(Pair::new(&[]));
}

#[test]
fn pushes_arrive_through_pinned_memory() {
    pushes_arrive(Pair::new(&["--force-pinned"]));
}

#[test]
fn pushes_arrive_through_shared_memory() {
    pushes_arrive(Pair::sharing(&[]));
    pushes_arrive(Pair::sharing(&["--force-pinned"]));
}

#[test]
fn images_arrive() {
    let mut pair = Pair::connected(&[]);
    let Pair { a, b, .. } = &mut pair;
    let extent = [640, 480, 1];
    // CL_RGBA, CL_UNSIGNED_INT8.
    let format = ImageFormat { order: 0x10B5, data_type: 0x10DA };
    let contents = fake::noise(640 * 480 * 4, 3);
    let part = ImagePart { origin: [0; 3], region: extent };
    for client in [&mut *a, &mut *b] {
        let like = ImageDescription { kind: ImageKind::Image2D, format, extent, row_pitch: 0 };
        let (image, context, initial) = (MemoryId(1), ContextId(1), InitialContents::Undefined);
        client.post(&CreateImage { image, context, flags: 1, like, of: None, initial });
    }
    for (index, rows) in contents.chunks(640 * 4 * 60).enumerate() {
        let part = ImagePart { origin: [0, 60 * index as u64, 0], region: [640, 60, 1] };
        let event = Some(200 + index as u64);
        a.post_tail(&WriteImage { command: command(1, &[], event), image: MemoryId(1), part }, rows);
    }
    push(a, b, 1, &Moved::Image(part), &(200..208).collect::<Vec<_>>(), 1, 300);
    let transfer = TransferId(5);
    b.post(&ReadImage { command: command(1, &[300], None), image: MemoryId(1), part, transfer });
    b.until("the image", |notes| notes.data.get(&transfer).is_some_and(|data| data.len() == contents.len()));
    assert!(b.notes.data[&transfer] == contents);
}

fn a_number_goes_to_and_fro(pair: Pair) {
    const ROUNDS: u64 = 20;
    let mut pair = pair.connect();
    let Pair { a, b, .. } = &mut pair;
    for client in [&mut *a, &mut *b] {
        client.buffer(1, &[0; 4]).kernel(1, INCREMENT, "increment", 1);
    }
    let (before_a, before_b) = (a.notes.count, b.notes.count);
    // All of it is said before anything of it is done.
    let mut arrived = None;
    for round in 0..ROUNDS {
        let names = 1000 + 10 * round;
        a.launch(1, arrived.as_slice(), Some(names));
        push(a, b, 1, &whole(4), &[names], names, names + 1);
        b.launch(1, &[names + 1], Some(names + 2));
        push(b, a, 1, &whole(4), &[names + 2], names + 3, names + 3);
        arrived = Some(names + 3);
    }
    let last = arrived.unwrap();
    assert_eq!(a.end_of(last), 0);
    assert_eq!(
        (a.notes.count - before_a, b.notes.count - before_b),
        (1, 0),
        "only the one end that was asked for is told"
    );
    assert_eq!(a.read(1, 4, &[last]), (2 * ROUNDS as u32).to_le_bytes());
}

#[test]
fn a_number_goes_to_and_fro_natively() {
    a_number_goes_to_and_fro(Pair::new(&[]));
}

#[test]
fn a_number_goes_to_and_fro_through_shared_memory() {
    a_number_goes_to_and_fro(Pair::sharing(&[]));
}

#[test]
fn a_number_goes_to_and_fro_through_pinned_memory() {
    a_number_goes_to_and_fro(Pair::new(&["--force-pinned"]));
}

#[test]
fn more_is_waited_for_than_there_are_threads() {
    const MANY: u64 = 200;
    let mut pair = Pair::connected(&[]);
    let Pair { a, b, .. } = &mut pair;
    let (context, size) = (ContextId(1), 100_000);
    a.buffer(1, &vec![1; size * MANY as usize]);
    b.buffer(1, &vec![0; size * MANY as usize]);
    let part = |n: u64| Moved::Ranges(vec![(n * size as u64, size as u64)]);
    for n in 0..MANY {
        a.post(&CreateUserEvent { event: EventId(1000 + n), context });
        b.post(&ExpectSignal { event: EventId(2000 + n), context, peer: a.id() });
        a.post(&SignalPeer { event: EventId(1000 + n), peer: b.id(), remote: EventId(2000 + n) });
        push(a, b, 1, &part(n), &[1000 + n], n, 3000 + n);
    }
    // The last first.
    for n in (0..MANY).rev() {
        a.post(&SetUserEventStatus { event: EventId(1000 + n), status: 0 }).send();
        if n % 50 == 0 {
            assert_eq!((b.end_of(2000 + n), b.end_of(3000 + n)), (0, 0));
        }
    }
    let all: Vec<_> = (0..MANY).flat_map(|n| [2000 + n, 3000 + n]).collect();
    assert!(b.read(1, size * MANY as usize, &all) == vec![1; size * MANY as usize]);
}

#[test]
fn signals_make_a_chain_over_servers() {
    let mut pair = Pair::connected(&[]);
    let Pair { a, b, .. } = &mut pair;
    let (peer_a, peer_b) = (a.id(), b.id());
    let context = ContextId(1);
    // An event of the user's on one server; after it, in turns, a marker on the other and on the one.
    a.post(&CreateUserEvent { event: EventId(1), context });
    for round in 0..10 {
        let names = 100 * (round + 1);
        let start = if round == 0 { 1 } else { names - 100 + 3 };
        b.post(&ExpectSignal { event: EventId(names + 1), context, peer: peer_a });
        b.post(&Marker { command: command(1, &[names + 1], Some(names + 2)) });
        b.post(&SignalPeer { event: EventId(names + 2), peer: peer_a, remote: EventId(names + 3) }).send();
        a.post(&SignalPeer { event: EventId(start), peer: peer_b, remote: EventId(names + 1) });
        a.post(&ExpectSignal { event: EventId(names + 3), context, peer: peer_b }).send();
    }
    a.post(&SetUserEventStatus { event: EventId(1), status: 0 });
    assert_eq!(a.end_of(1003), 0);
    assert_eq!(b.end_of(1002), 0);
}

#[test]
fn an_error_is_passed_on() {
    let mut pair = Pair::connected(&[]);
    let Pair { a, b, .. } = &mut pair;
    let context = ContextId(1);
    a.buffer(1, &[1; 4]);
    b.buffer(1, &[0; 4]);
    a.post(&CreateUserEvent { event: EventId(1), context });
    b.post(&ExpectSignal { event: EventId(2), context, peer: a.id() });
    a.post(&SignalPeer { event: EventId(1), peer: b.id(), remote: EventId(2) });
    push(a, b, 1, &whole(4), &[1], 1, 3);
    a.post(&SetUserEventStatus { event: EventId(1), status: -77 }).send();
    assert_eq!(b.end_of(2), -77);
    assert_eq!(b.end_of(3), -14);
    assert_eq!(b.read(1, 4, &[]), [0; 4], "nothing was written");
    // Later commands are none the worse for it.
    push(a, b, 1, &whole(4), &[], 2, 4);
    assert_eq!(b.read(1, 4, &[4]), [1; 4]);
}

#[test]
fn a_session_is_its_own_peer() {
    let server = Server::start();
    let mut client = Client::connect(server.address());
    client.begin().post(&OpenPeers { secret: SECRET }).send();
    let peer = client.id();
    client.post(&ConnectPeer { peer, addresses: Vec::new() });
    client.until("itself", |notes| notes.peers.iter().any(|state| state.connected && state.peer == peer));
    let contents = fake::noise(3 * CHUNK + 5, 1);
    client.buffer(1, &contents).buffer(2, &vec![0; contents.len()]);
    let (transfer, what) = (TransferId(1), whole(contents.len()));
    let (event, after) = (Some(EventId(2)), EventList::default());
    client.post(&Push { memory: MemoryId(1), what: what.clone(), after, event, peer, transfer });
    client.post(&Expect { memory: MemoryId(2), what, event: EventId(3), peer, transfer, queue: None });
    client.post(&ExpectSignal { event: EventId(4), context: ContextId(1), peer });
    client.post(&SignalPeer { event: EventId(2), peer, remote: EventId(4) });
    assert_eq!(client.end_of(4), 0);
    assert!(client.read(2, contents.len(), &[3]) == contents);
}

#[test]
fn traffic_is_counted_and_does_not_go_by_the_client() {
    let mut pair = Pair::connected(&[]);
    let Pair { a, b, .. } = &mut pair;
    let size = 4 << 20;
    a.buffer(1, &vec![1; size]);
    let (buffer, initial) = (MemoryId(1), InitialContents::Undefined);
    b.post(&CreateBuffer { buffer, context: ContextId(1), flags: 1, size: size as u64, initial });
    let before = [a.call(&Traffic {}).unwrap(), b.call(&Traffic {}).unwrap()];
    push(a, b, 1, &whole(size), &[], 1, 2);
    assert_eq!(b.end_of(2), 0);
    let after = [a.call(&Traffic {}).unwrap(), b.call(&Traffic {}).unwrap()];
    // From and to the client, from and to peers.
    let counted = |session: usize| std::array::from_fn::<_, 4, _>(|i| after[session][i] - before[session][i]);
    let ([a_from_client, a_to_client, a_in, a_out], [b_from_client, b_to_client, b_in, b_out]) =
        (counted(0), counted(1));
    assert!(a_from_client + a_to_client + b_from_client + b_to_client < 1000, "{before:?} {after:?}");
    assert_eq!((a_in, b_out, a_out), (0, 0, b_in));
    assert!((size as u64..size as u64 + 1000).contains(&a_out), "{a_out}");
}

/// Somebody who is no peer of a session's, or not a good one.
fn intruder(victim: &Client, secret: &[u8; 32]) -> Result<TcpStream, HandshakeError> {
    join(victim.address(), (SessionId(666), victim.id()), secret, 0)
}

#[test]
fn who_does_not_know_the_secret_stays_outside() {
    let mut pair = Pair::connected(&[]);
    for secret in [[0; 32], [8; 32]] {
        let refused = intruder(&pair.b, &secret).unwrap_err();
        assert_eq!(refused, HandshakeError::Refused("it does not know the secret".into()));
    }
    // A proof that was made for somebody else, or for another connection.
    let (b, address) = (pair.b.id(), pair.b.address().to_owned());
    let proof = peer_proof(&SECRET, pair.a.id(), b, 1);
    for (from, link) in [(SessionId(666), 1), (pair.a.id(), 0)] {
        let refused = knock(&address, peer_purpose((from, b), link, proof)).unwrap_err();
        assert_eq!(refused, HandshakeError::Refused("it does not know the secret".into()));
    }
    let nobody = join(&address, (SessionId(1), SessionId(2)), &SECRET, 0).unwrap_err();
    assert!(nobody.to_string().contains("no such session"), "{nobody}");
    pair.servers[1].expect_log("it does not know the secret");
    pair.servers[1].expect_log("no such session");
    // The session goes on as if nothing had been.
    let Pair { a, b, .. } = &mut pair;
    a.buffer(1, &[1; 4]);
    b.buffer(1, &[0; 4]);
    push(a, b, 1, &whole(4), &[], 1, 3);
    assert_eq!(b.read(1, 4, &[3]), [1; 4]);
}

/// Reads pieces of a push from a connection until it is at its end; gives those with their offsets.
fn collect(mut stream: TcpStream) -> Vec<(u64, Vec<u8>)> {
    let mut pieces = Vec::new();
    let mut head = [0; FRAME_HEADER_LEN];
    while stream.read_exact(&mut head).is_ok() {
        let header = FrameHeader::from_bytes(&head, limits::MAX_BODY_TO_SERVER).unwrap();
        let mut payload = vec![0; header.payload()];
        stream.read_exact(&mut payload).unwrap();
        let (body, tail) = payload.split_at(header.body as usize);
        assert_eq!(header.opcode, PushData::OPCODE);
        pieces.push((decode::<PushData>(body).unwrap().offset, tail.to_vec()));
    }
    pieces
}

#[test]
fn a_large_push_goes_by_several_connections() {
    let server = Server::start();
    let mut client = Client::connect(server.address());
    let size = (12 << 20) + 5;
    let contents = fake::noise(size, 5);
    client.begin().post(&OpenPeers { secret: SECRET }).buffer(1, &contents);
    let peer = SessionId(666);
    let join = |link| join(server.address(), (peer, client.id()), &SECRET, link).unwrap();
    let (one, other, control) = (join(1), join(2), join(0));
    let readers = [one, other, control].map(|stream| std::thread::spawn(|| collect(stream)));
    let (what, event, transfer) = (whole(size), Some(EventId(1)), TransferId(1));
    client.post(&Push { memory: MemoryId(1), what, after: EventList::default(), event, peer, transfer });
    assert_eq!(client.end_of(1), 0);
    drop(client);
    let [one, other, control] = readers.map(|reader| reader.join().unwrap());
    assert!(!one.is_empty() && !other.is_empty() && control.is_empty());
    let mut received = vec![0; size];
    for (offset, bytes) in one.into_iter().chain(other) {
        let offset = offset as usize;
        assert!(offset.is_multiple_of(CHUNK) && bytes.len() == CHUNK.min(size - offset), "{} at {offset}", bytes.len());
        received[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
    assert!(received == contents);
}

#[test]
fn whatever_a_peer_sends_harms_nobody_else() {
    let server = Server::start();
    let mut bystander = Client::connect(server.address());
    bystander.begin().buffer(1, &[9; 8]);
    for seed in 0..24 {
        let mut client = Client::connect(server.address());
        client.begin().post(&OpenPeers { secret: SECRET });
        client.buffer(1, &vec![0; 3 * CHUNK]).buffer(2, &[0; 900]);
        for (memory, size) in [(1, 3 * CHUNK), (2, 900)] {
            let (what, event, transfer) = (whole(size), EventId(memory), TransferId(memory));
            client.post(&Expect { memory: MemoryId(memory), what, event, peer: SessionId(666), transfer, queue: None });
        }
        client.call(&Traffic {}).unwrap();
        let mut peer = intruder(&client, &SECRET).unwrap();
        // Messages that are nearly right, in an order and with lengths that are not.
        let mut choice = fake::noise(40, seed).into_iter().map(usize::from);
        let mut next = || choice.next().unwrap_or(0);
        for _ in 0..8 {
            let (transfer, at, len) = (1 + next() % 3, next() % 4 * CHUNK + next() % 2, [CHUNK, 900, 1, 0][next() % 4]);
            let mut bytes = data(transfer as u64, at as u64, len);
            if next() % 4 == 0 {
                let damaged = next() % bytes.len().min(24);
                bytes[damaged] ^= 1 << (next() % 8);
            }
            if peer.write_all(&bytes).is_err() {
                break;
            }
        }
        // Sometimes in the middle of something.
        drop(peer);
        assert_eq!(bystander.read(1, 8, &[]), [9; 8]);
    }
    let log = server.log();
    assert!(!log.contains("defect") && !log.contains("worker failed"), "{log}");
}

/// The reason that a session gives when it ends over a peer's message.
fn ends_over(expect: impl FnOnce(&mut Client), send: &[Vec<u8>]) -> String {
    let server = Server::start();
    let mut client = Client::connect(server.address());
    client.begin().post(&OpenPeers { secret: SECRET }).buffer(1, &[0; 1000]);
    let mut peer = intruder(&client, &SECRET).unwrap();
    expect(&mut client);
    client.send();
    client.call(&Traffic {}).unwrap();
    for bytes in send {
        let _ = peer.write_all(bytes);
    }
    let begin = Instant::now();
    let reason = client.until_closed().expect("it says why");
    assert!(begin.elapsed() < PATIENCE);
    server.expect_log(&reason);
    // Others are not concerned.
    let mut other = Client::connect(server.address());
    other.begin().buffer(1, &[5; 8]);
    assert_eq!(other.read(1, 8, &[]), [5; 8]);
    reason
}

fn expect_bytes(client: &mut Client) {
    let (memory, what, event, transfer) = (MemoryId(1), whole(1000), EventId(9), TransferId(9));
    client.post(&Expect { memory, what, event, peer: SessionId(666), transfer, queue: None });
}

#[test]
fn a_push_larger_than_announced_ends_the_session() {
    let reason = ends_over(expect_bytes, &[data(9, 0, 1001)]);
    assert!(reason.contains("for which 1000 bytes were announced"), "{reason}");
    let reason = ends_over(expect_bytes, &[data(9, 1 << 60, 1000)]);
    assert!(reason.contains("for which 1000 bytes were announced"), "{reason}");
    let reason = ends_over(expect_bytes, &[data(9, 0, 999)]);
    assert!(reason.contains("for which 1000 bytes were announced"), "{reason}");
}

#[test]
fn a_push_that_ends_where_it_may_not_ends_the_session() {
    let end = |size| frame(&PushEnds { transfer: TransferId(9), size }, &[]);
    let reason = ends_over(expect_bytes, &[end(500)]);
    assert!(reason.contains("an end of"), "{reason}");
    let may_end = |client: &mut Client| {
        let (memory, ranges, event, transfer) = (MemoryId(1), vec![(0, 1000)], EventId(9), TransferId(9));
        client.post(&ExpectContent { memory, ranges, event, peer: SessionId(666), transfer });
    };
    let reason = ends_over(may_end, &[end(1001)]);
    assert!(reason.contains("an end of"), "{reason}");
    let reason = ends_over(may_end, &[end(900), end(900)]);
    assert!(reason.contains("an end of"), "{reason}");
    let reason = ends_over(may_end, &[data(9, 0, 600), end(500)]);
    assert!(reason.contains("than its end"), "{reason}");
    let reason = ends_over(may_end, &[end(500), data(9, 0, 600)]);
    assert!(reason.contains("than its end"), "{reason}");
    let reason = ends_over(may_end, &[data(9, 0, 1001)]);
    assert!(reason.contains("for which 1000 bytes were announced"), "{reason}");
    // The content-size buffer has too few bytes for a size.
    let few = |client: &mut Client| {
        client.buffer(2, &[0; 7]);
        let (memory, content, after) = (MemoryId(1), MemoryId(2), EventList::default());
        let (ranges, peer, transfer) = (vec![(0, 1000)], SessionId(666), TransferId(9));
        client.post(&PushContent { memory, ranges, content, after, peer, transfer });
    };
    let server = Server::start();
    let mut client = Client::connect(server.address());
    client.begin().post(&OpenPeers { secret: SECRET }).buffer(1, &[0; 1000]);
    few(&mut client);
    client.send();
    let reason = client.until_closed().expect("it says why");
    assert!(reason.contains("are not within"), "{reason}");
}

#[test]
fn a_push_of_nothing_ends_the_session() {
    let reason = ends_over(expect_bytes, &[data(9, 0, 0)]);
    assert!(reason.contains("no bytes of"), "{reason}");
}

#[test]
fn what_nobody_expects_is_not_read_beyond_its_bound_and_harms_nobody() {
    let server = Server::start();
    let mut client = Client::connect(server.address());
    client.begin().post(&OpenPeers { secret: SECRET }).buffer(1, &[0; 1000]).buffer(2, &[0; CHUNK]);
    let mut peer = intruder(&client, &SECRET).unwrap();
    expect_bytes(&mut client);
    client.call(&Traffic {}).unwrap();
    // The second is for something that is not expected any more; the third is more than is kept, and what is behind it
    // is not read.
    for bytes in [data(9, 0, 1000), data(9, 0, 1000), data(77, 0, CHUNK), data(78, 0, 100)] {
        peer.write_all(&bytes).unwrap();
    }
    assert_eq!(client.end_of(9), 0);
    assert_eq!(client.read(1, 1000, &[]), [1; 1000]);
    // Whenever the client comes to expect it, it is there.
    let mut expect = |memory, size, transfer| {
        let (memory, what, event) = (MemoryId(memory), whole(size), EventId(transfer));
        let transfer = TransferId(transfer);
        client.post(&Expect { memory, what, event, peer: SessionId(666), transfer, queue: None });
        client.end_of(event.0)
    };
    assert_eq!((expect(2, CHUNK, 77), expect(1, 100, 78)), (0, 0));
    assert!(client.read(2, CHUNK, &[]) == vec![1; CHUNK]);
}

#[test]
fn what_the_client_says_late_on_a_slow_link_is_waited_for() {
    const BULK: usize = 5 << 20;
    let server = Server::start();
    // 3 Mbit/s: the client's word comes 14 seconds later than the peer's.
    let proxy = Proxy::to(server.address(), Fault::RateUp(375_000));
    let mut client = Client::connect(proxy.url().trim_start_matches("tcp://"));
    let context = ContextId(1);
    client.begin().post(&OpenPeers { secret: SECRET }).buffer(1, &[0; 1000]).buffer(3, &[0; 4]);
    let initial = InitialContents::Undefined;
    client.post(&CreateBuffer { buffer: MemoryId(2), context, flags: 1, size: BULK as u64, initial });
    client.call(&Traffic {}).unwrap();
    let mut peer = join(server.address(), (SessionId(666), client.id()), &SECRET, 0).unwrap();
    peer.write_all(&frame(&Signal { event: EventId(5), status: 0 }, &[])).unwrap();
    peer.write_all(&data(9, 0, 1000)).unwrap();
    let begin = Instant::now();
    for offset in (0..BULK).step_by(limits::MAX_EAGER) {
        let write = WriteBuffer { command: command(1, &[], None), buffer: MemoryId(2), offset: offset as u64 };
        client.post_tail(&write, &vec![3; limits::MAX_EAGER]);
    }
    expect_bytes(&mut client);
    client.post(&ExpectSignal { event: EventId(5), context, peer: SessionId(666) });
    assert_eq!((client.end_of(9), client.end_of(5)), (0, 0));
    assert!(begin.elapsed() > Duration::from_secs(11), "the link is slow: {:?}", begin.elapsed());
    assert_eq!(client.read(1, 1000, &[]), [1; 1000]);
}

#[test]
fn pushes_that_are_not_sent_have_a_bound() {
    let server = Server::start();
    let mut client = Client::connect(server.address());
    client.begin().post(&OpenPeers { secret: SECRET }).buffer(1, &[0; 4]);
    // To a peer that is not there yet.
    for transfer in 0..=1 << 18 {
        let (after, transfer) = (EventList::default(), TransferId(transfer));
        client.post(&Push { memory: MemoryId(1), what: whole(4), after, event: None, peer: SessionId(666), transfer });
    }
    let reason = client.until_closed().expect("it says why");
    assert!(reason.contains("more than 262144 pushes and signals that are not sent yet"), "{reason}");
}

#[test]
fn a_signal_twice_or_what_is_none_ends_the_session() {
    let signal = |status| frame(&Signal { event: EventId(5), status }, &[]);
    let reason = ends_over(|_| {}, &[signal(0), signal(0)]);
    assert!(reason.contains("twice"), "{reason}");
    let reason = ends_over(|_| {}, &[signal(3)]);
    assert!(reason.contains("status 3"), "{reason}");
    let reason = ends_over(|_| {}, &[fake::noise(5000, 4)]);
    assert!(reason.contains("frame"), "{reason}");
}

#[test]
fn what_comes_early_is_kept() {
    let server = Server::start();
    let mut client = Client::connect(server.address());
    client.begin().post(&OpenPeers { secret: SECRET }).buffer(1, &[0; 1000]).buffer(2, &vec![0; 2 * CHUNK]);
    let mut peer = intruder(&client, &SECRET).unwrap();
    peer.write_all(&frame(&Signal { event: EventId(5), status: 0 }, &[])).unwrap();
    peer.write_all(&data(9, 0, 1000)).unwrap();
    // More than is kept: it stays in the socket.
    peer.write_all(&data(10, CHUNK as u64, CHUNK)).unwrap();
    // Time for it to be read all the same, which must not happen.
    std::thread::sleep(Duration::from_millis(300));
    expect_bytes(&mut client);
    client.post(&ExpectSignal { event: EventId(5), context: ContextId(1), peer: SessionId(666) });
    assert_eq!((client.end_of(9), client.end_of(5)), (0, 0));
    assert_eq!(client.read(1, 1000, &[]), [1; 1000]);
    let (what, event, transfer) = (whole(2 * CHUNK), EventId(10), TransferId(10));
    client.post(&Expect { memory: MemoryId(2), what, event, peer: SessionId(666), transfer, queue: None }).send();
    peer.write_all(&data(10, 0, CHUNK)).unwrap();
    assert_eq!(client.end_of(10), 0);
    assert!(client.read(2, 2 * CHUNK, &[]) == vec![1; 2 * CHUNK]);
}

#[test]
fn a_lost_peer_fails_what_waits_for_it_and_nothing_else() {
    let mut pair = Pair::connected(&[]);
    let Pair { a, b, servers } = &mut pair;
    let (context, peer) = (ContextId(1), a.id());
    b.buffer(1, &[3; 4]);
    b.post(&ExpectSignal { event: EventId(1), context, peer });
    b.post(&Expect {
        memory: MemoryId(1),
        what: whole(4),
        event: EventId(2),
        peer,
        transfer: TransferId(1),
        queue: None,
    });
    b.post(&Marker { command: command(1, &[1], Some(3)) });
    b.call(&Traffic {}).unwrap();
    servers[0].kill();
    assert_eq!((b.end_of(1), b.end_of(2)), (LOST, LOST));
    assert!(b.end_of(3) < 0);
    b.until("word of it", |notes| notes.peers.iter().any(|state| state.peer == peer && !state.connected));
    // Later expectations fail at once.
    b.post(&ExpectSignal { event: EventId(4), context, peer });
    b.post(&Push {
        memory: MemoryId(1),
        what: whole(4),
        after: EventList::default(),
        event: Some(EventId(5)),
        peer,
        transfer: TransferId(2),
    });
    assert_eq!((b.end_of(4), b.end_of(5)), (LOST, LOST));
    assert_eq!(b.read(1, 4, &[]), [3; 4], "the session goes on");
}

#[test]
fn a_peer_that_cannot_be_reached_is_told_of() {
    let mut pair = Pair::new(&[]);
    let Pair { a, b, .. } = &mut pair;
    let (peer, context) = (b.id(), ContextId(1));
    // Nobody listens there any more; and what listens here is no server.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [gone, silent.local_addr().unwrap()].map(|at| format!("tcp://{at}")).to_vec();
    a.post(&ExpectSignal { event: EventId(1), context, peer });
    a.post(&ConnectPeer { peer, addresses });
    a.until("word of it", |notes| notes.peers.iter().any(|state| state.peer == peer && !state.connected));
    let text = a.notes.peers.pop().unwrap().text;
    assert!(text.contains("Connection refused") && text.contains("does not answer in time"), "{text}");
    assert_eq!(a.end_of(1), LOST);
    // An expectation of a peer that never connects does not wait for ever, either.
    b.post(&ExpectSignal { event: EventId(1), context, peer: a.id() });
    assert_eq!(b.end_of(1), LOST);
    // A later attempt may do better.
    connect(a, b);
    a.buffer(1, &[1; 4]);
    b.buffer(1, &[0; 4]);
    push(a, b, 1, &whole(4), &[], 1, 3);
    assert_eq!(b.read(1, 4, &[3]), [1; 4]);
}

#[test]
fn a_server_names_its_peer_address() {
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--peer-address", "tcp://10.1.2.3:99"], &[]);
    let client = Client::connect(server.address());
    assert_eq!(client.welcome.peer_address.as_deref(), Some("tcp://10.1.2.3:99"));
    assert!(client.welcome.little_endian);
}
