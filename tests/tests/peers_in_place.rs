//! Pushes between workers of one machine whose devices have memory of their own: the one device copies to memory that both
//! workers see, the other copies from there, and nothing of them is sent.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::Duration;

use ropeway_protocol::ids::{ContextId, EventId, MemoryId, QueueId, SessionId, TransferId};
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::messages::{
    CreateQueue, Ended, Expect, OpenPeers, Push, PushData, PushFailed, PushInPlace, PushTaken, Signal, SignalPeer,
    Subscribe, Traffic,
};
use ropeway_protocol::types::{EventList, Moved};
use ropeway_protocol::{FRAME_HEADER_LEN, FrameHeader, Post, decode, limits};
use ropeway_tests::peering::{Pair, SECRET, join_sharing, push, whole};
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::raw::{Client, frame};
use ropeway_tests::server::Server;
use ropeway_tests::{fake, wait_for};
use ropeway_transport::{Link, Sender as _};

/// Devices are used as if they had memory of their own.
const PINNED: &[&str] = &["--force-pinned"];

/// How many slots each side has.
const SLOTS: usize = 16;

/// Where the arena is in the memory of a connection.
const ARENA: u64 = 2_101_248;

/// Where the half of the arena begins that belongs to the side which has not made it, and with it that side's slots.
const SECOND: u64 = 32 << 20;

/// Where the slots begin of the side which has made it.
const FIRST: u64 = SECOND - (SLOTS * CHUNK) as u64;

/// A peer that the test plays itself.
const PEER: SessionId = SessionId(77);

/// Bytes that both sessions have sent their peers, in all.
fn sent(pair: &mut Pair) -> u64 {
    [&mut pair.a, &mut pair.b].map(|client| client.call(&Traffic {}).unwrap()).iter().map(|traffic| traffic[3]).sum()
}

/// Pushes of several sizes and shapes there and back, and how many bytes of messages they took. What arrives is right.
fn messages_of_pushes(pair: &mut Pair, sizes: [usize; 2]) -> u64 {
    let before = sent(pair);
    for (round, size) in (1..).zip(sizes) {
        let contents = fake::noise(size, round);
        let (id, event) = (100 * round, 1000 * round);
        let Pair { a, b, .. } = &mut *pair;
        a.buffer(id, &contents);
        b.buffer(id, &vec![0; size]);
        push(a, b, id, &whole(size), &[], id, event);
        assert!(b.read(id, size, &[event]) == contents, "{size} bytes");
        // The other way round, what lies apart.
        let (half, third) = (size as u64 / 2, size as u64 / 3);
        let apart = Moved::Ranges(vec![(1, third), (half, half - 1)]);
        let other = fake::noise(size, round + 7);
        b.buffer(id + 1, &other);
        a.buffer(id + 1, &contents);
        push(b, a, id + 1, &apart, &[], id + 1, event + 1);
        let mut expected = contents;
        for range in [1..1 + third as usize, half as usize..(2 * half - 1) as usize] {
            expected[range.clone()].copy_from_slice(&other[range]);
        }
        assert!(a.read(id + 1, size, &[event + 1]) == expected, "{size} bytes");
    }
    sent(pair) - before
}

const SIZES: [usize; 2] = [3 * CHUNK + 5, (2 * SLOTS + 3) * CHUNK + 77];

#[test]
fn what_devices_copy_is_not_sent() {
    let total = SIZES.iter().sum::<usize>() as u64;
    let messages = messages_of_pushes(&mut Pair::sharing(PINNED).connect(), SIZES);
    assert!(messages < 10_000, "{messages} bytes of messages");
    // Over sockets, it is.
    assert!(messages_of_pushes(&mut Pair::connected(PINNED), SIZES) > total);
    // Devices that have no memory of their own take it from where it is, but send what they have.
    let messages = messages_of_pushes(&mut Pair::sharing(&[]).connect(), SIZES);
    assert!(messages > total);
    for args in [[PINNED, &[]], [&[], PINNED]] {
        let messages = messages_of_pushes(&mut Pair::sharing_of(args).connect(), SIZES);
        assert!((total / 4..2 * total).contains(&messages), "{messages} bytes of messages, {args:?}");
    }
}

/// Many pushes at once share the slots of a connection.
#[test]
fn pushes_share_the_slots() {
    const PUSHES: u64 = 40;
    let size = 5 * CHUNK + 3;
    let mut pair = Pair::sharing(PINNED).connect();
    let contents: Vec<_> = (0..PUSHES).map(|seed| fake::noise(size, seed)).collect();
    let Pair { a, b, .. } = &mut pair;
    for (id, bytes) in (1..).zip(&contents) {
        a.buffer(id, bytes).buffer(1000 + id, &vec![0; size]);
        b.buffer(1000 + id, bytes).buffer(id, &vec![0; size]);
    }
    for id in 1..=PUSHES {
        push(a, b, id, &whole(size), &[], id, 5000 + id);
        push(b, a, 1000 + id, &whole(size), &[], 1000 + id, 6000 + id);
    }
    for (id, bytes) in (1..).zip(&contents) {
        assert!(b.read(id, size, &[5000 + id]) == *bytes && a.read(1000 + id, size, &[6000 + id]) == *bytes, "{id}");
    }
}

/// A session that has a peer which the test plays: its connections 0 and 1.
struct Played {
    client: Client,
    control: Link,
    bulk: Link,
    memory: File,
}

/// A server, and the Unix socket at which it listens, too.
fn serve(args: &[&str]) -> (Server, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let unix = format!("unix:{}", folder.path().join("ropeway.sock").display());
    let server = Server::start_with(&[&["--listen", "tcp://127.0.0.1:0", "--listen", &unix], args].concat(), &[]);
    (server, unix, folder)
}

fn play(server: &Server, unix: &str) -> Played {
    let mut client = Client::connect(server.address());
    client.begin().post(&OpenPeers { secret: SECRET }).send();
    let (bulk, memory) = join_sharing(unix, (PEER, client.id()), 1);
    let (control, _) = join_sharing(unix, (PEER, client.id()), 0);
    Played { client, control, bulk, memory }
}

impl Played {
    fn expect(&mut self, id: u64, size: usize) {
        let (memory, what, transfer) = (MemoryId(id), whole(size), TransferId(id));
        let expect = Expect { memory, what, event: EventId(id), peer: PEER, transfer, queue: None };
        self.client.post(&expect).send();
    }

    fn say(&self, message: &impl Post) {
        send(&self.bulk, &frame(message, &[]));
    }

    fn read_slot(&self, at: u64, size: u64) -> Vec<u8> {
        let mut bytes = vec![0; size as usize];
        self.memory.read_exact_at(&mut bytes, ARENA + at).unwrap();
        bytes
    }
}

fn send(link: &Link, bytes: &[u8]) {
    link.send_all(&mut [std::io::IoSlice::new(bytes)]).unwrap();
}

/// The body of the next message by a connection, which is one of this kind.
fn hear<P: Post>(link: &Link) -> Vec<u8> {
    let mut head = [0; FRAME_HEADER_LEN];
    link.recv_exact(&mut head).unwrap();
    let header = FrameHeader::from_bytes(&head, limits::MAX_BODY_TO_SERVER).unwrap();
    assert_eq!(header.opcode, P::OPCODE);
    let mut body = vec![0; header.payload()];
    link.recv_exact(&mut body).unwrap();
    body
}

/// Where the session says that it has left something.
fn announced(link: &Link) -> PushInPlace {
    decode(&hear::<PushInPlace>(link)).unwrap()
}

#[test]
fn a_slot_is_used_again_once_it_was_taken() {
    let size = (SLOTS + 4) * CHUNK - 9;
    let (server, unix, _folder) = serve(PINNED);
    let mut played = play(&server, &unix);
    let contents = fake::noise(size, 3);
    played.client.buffer(1, &contents);
    let (what, event, transfer) = (whole(size), Some(EventId(1)), TransferId(1));
    played.client.post(&Push { memory: MemoryId(1), what, after: EventList::default(), event, peer: PEER, transfer });
    played.client.send();
    let mut received = vec![0; size];
    let mut take = |message: &PushInPlace| {
        let PushInPlace { transfer, offset, at, size } = *message;
        assert_eq!((transfer, size), (TransferId(1), (received.len() as u64 - offset).min(CHUNK as u64)));
        received[offset as usize..(offset + size) as usize].copy_from_slice(&played.read_slot(at, size));
    };
    let first: Vec<PushInPlace> = (0..SLOTS).map(|_| announced(&played.bulk)).collect();
    let mut places: Vec<_> = first.iter().map(|message| message.at).collect();
    places.sort_unstable();
    assert!(places.into_iter().eq((0..SLOTS).map(|slot| SECOND + (slot * CHUNK) as u64)), "{first:?}");
    first.iter().for_each(&mut take);
    // It has no other slot than the one that it gets back.
    for slot in [7, 3, 15, 3] {
        let at = SECOND + (slot * CHUNK) as u64;
        played.say(&PushTaken { at });
        let next = announced(&played.bulk);
        assert_eq!(next.at, at);
        take(&next);
    }
    assert_eq!(played.client.end_of(1), 0);
    assert!(received == contents);
}

#[test]
fn what_a_peer_leaves_is_taken_and_its_slot_given_back() {
    let size = CHUNK + 1000;
    for args in [PINNED, &[]] {
        let (server, unix, _folder) = serve(args);
        let mut played = play(&server, &unix);
        for id in 1..=3 * SLOTS as u64 {
            let contents = fake::noise(size, id);
            played.client.buffer(id, &vec![0; size]);
            // Early or not.
            if id % 2 == 0 {
                played.expect(id, size);
            }
            for (offset, bytes) in [(CHUNK as u64, &contents[CHUNK..]), (0, &contents[..CHUNK])] {
                let slot = (2 * id + u64::from(offset > 0)) % SLOTS as u64;
                let (transfer, at, size) = (TransferId(id), FIRST + slot * CHUNK as u64, bytes.len() as u64);
                played.memory.write_all_at(bytes, ARENA + at).unwrap();
                played.say(&PushInPlace { transfer, offset, at, size });
                if id % 2 == 1 && offset == 0 {
                    played.expect(id, contents.len());
                }
                assert_eq!(decode::<PushTaken>(&hear::<PushTaken>(&played.bulk)).unwrap().at, at);
            }
            assert_eq!(played.client.end_of(id), 0);
            assert!(played.client.read(id, size, &[]) == contents, "{id} {args:?}");
        }
    }
}

/// How many threads of a worker copy, move, hear peers and wait for native commands.
fn threads(worker: u32) -> [usize; 4] {
    let tasks = fs::read_dir(format!("/proc/{worker}/task")).unwrap();
    // One that ends just now has no name.
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    let names: Vec<_> = names.collect();
    ["copies", "mover", "peer", "waiter"].map(|kind| names.iter().filter(|name| name.trim() == kind).count())
}

/// However much a session expects of its peers, and however much of it the client wants to be told of, no thread waits for it.
#[test]
fn no_threads_wait_for_what_comes_from_peers() {
    /// More than there would ever be threads.
    const TRANSFERS: u64 = 60;
    let size = CHUNK + 1000;
    let (server, unix, _folder) = serve(PINNED);
    let mut played = play(&server, &unix);
    let all = 1..=TRANSFERS;
    let contents: Vec<_> = all.clone().map(|id| fake::noise(size, id)).collect();
    let offsets = [0, CHUNK as u64];
    let leave = |played: &Played, id: u64, offset: u64| {
        let bytes = &contents[id as usize - 1][offset as usize..].chunks(CHUNK).next().unwrap();
        let (transfer, at, size) = (TransferId(id), FIRST + id % SLOTS as u64 * CHUNK as u64, bytes.len() as u64);
        played.memory.write_all_at(bytes, ARENA + at).unwrap();
        played.say(&PushInPlace { transfer, offset, at, size });
        assert_eq!(decode::<PushTaken>(&hear::<PushTaken>(&played.bulk)).unwrap().at, at);
    };
    for id in all.clone() {
        played.client.buffer(id, &vec![0; size]);
    }
    // The first one starts the threads that there are for all of them.
    played.expect(1, size);
    played.client.post(&Subscribe { event: EventId(1) }).read(1, 1, &[]);
    offsets.iter().for_each(|offset| leave(&played, 1, *offset));
    assert_eq!(played.client.end_of(1), 0);
    let worker = server.worker_of(1);
    let before = threads(worker);
    assert_eq!(
        before[..3],
        [2, 0, 3],
        "one for what comes and one for what goes; two for the bulk connection, and one"
    );
    for id in 2..=TRANSFERS {
        played.expect(id, size);
        played.client.post(&Subscribe { event: EventId(id) });
    }
    // The session has read all of this, and has copied half of what it expects.
    played.client.read(1, 1, &[]);
    (2..=TRANSFERS).for_each(|id| leave(&played, id, 0));
    let now = threads(worker);
    assert_eq!(now[..3], before[..3]);
    // The read just now may have needed one.
    assert!(now[3] <= before[3] + 1, "{now:?} {before:?}");
    (2..=TRANSFERS).for_each(|id| leave(&played, id, offsets[1]));
    for (id, bytes) in (1..).zip(&contents) {
        assert_eq!(played.client.end_of(id), 0);
        assert!(played.client.read(id, size, &[]) == *bytes, "{id}");
    }
    assert_eq!(threads(worker)[..3], before[..3]);
}

/// Few bytes that a queue's next commands need are written by commands that wait already: one thread for all of a queue's
/// waits for their ends.
#[test]
fn one_thread_waits_for_the_small_writes_of_a_queue() {
    const WRITES: u64 = 40;
    let (server, unix, _folder) = serve(PINNED);
    let mut played = play(&server, &unix);
    let queue = QueueId(2);
    let create = CreateQueue { queue, context: ContextId(1), device: 0, properties: 0, priority: 0, throttle: 0 };
    played.client.post(&create).buffer(1, &[0; 4 * WRITES as usize]);
    for id in 1..=WRITES {
        let (memory, what, transfer) = (MemoryId(1), Moved::Ranges(vec![(4 * (id - 1), 4)]), TransferId(id));
        let expect = Expect { memory, what, event: EventId(id), peer: PEER, transfer, queue: Some(queue) };
        played.client.post(&expect).post(&Subscribe { event: EventId(id) });
    }
    played.client.read(1, 1, &[]);
    let [.., waiters] = threads(server.worker_of(1));
    // The read just now may have needed another.
    assert!((1..=2).contains(&waiters), "{waiters}");
    for id in 1..=WRITES {
        send(&played.control, &frame(&PushData { transfer: TransferId(id), offset: 0 }, &(id as u32).to_le_bytes()));
    }
    for id in 1..=WRITES {
        assert_eq!(played.client.end_of(id), 0);
    }
    let expected: Vec<_> = (1..=WRITES as u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(played.client.read(1, expected.len(), &[]), expected);
}

#[test]
fn a_peer_is_held_to_its_slots() {
    let chunk = CHUNK as u64;
    let place = |at, size| frame(&PushInPlace { transfer: TransferId(1), offset: 0, at, size }, &[]);
    let taken = |at| frame(&PushTaken { at }, &[]);
    let wrong = [
        ("not its half", place(SECOND, chunk)),
        ("no slot", place(FIRST + 4096, chunk)),
        ("before the slots", place(FIRST - chunk, chunk)),
        ("beyond the arena", place(2 * SECOND, chunk)),
        ("far beyond", place(u64::MAX - 4095, chunk)),
        ("too long", place(FIRST, chunk + 1)),
        ("much too long", place(FIRST, u64::MAX)),
        ("nothing", place(FIRST, 0)),
        ("back without having it", taken(SECOND)),
        ("back what is its own", taken(FIRST)),
        ("back what is none", taken(SECOND + 1)),
        ("back what is nowhere", taken(u64::MAX)),
        ("back behind the slots", taken(SECOND + SLOTS as u64 * chunk)),
    ];
    let (server, unix, _folder) = serve(PINNED);
    let mut bystander = Client::connect(server.address());
    bystander.begin().buffer(1, &[9; 8]);
    for by_control in [false, true] {
        for (what, bytes) in &wrong {
            let mut played = play(&server, &unix);
            played.client.buffer(1, &vec![0; CHUNK]);
            played.expect(1, CHUNK);
            send(if by_control { &played.control } else { &played.bulk }, bytes);
            let why = played.client.until_closed().unwrap_or_default();
            assert!(why.contains("its peer 000000000000004d sent what it must not"), "{what}: {why}");
        }
    }
    // Connection 0 has none.
    let mut played = play(&server, &unix);
    send(&played.control, &place(FIRST, 100));
    assert!(played.client.until_closed().is_some_and(|why| why.contains("no slot of its")));
    assert_eq!(bystander.read(1, 8, &[]), [9; 8]);
}

/// What was announced, and not handled before the connection ended, is lost, and the push with it.
#[test]
fn what_is_announced_and_not_handled_fails() {
    let size = 3 * CHUNK;
    let (server, unix, _folder) = serve(PINNED);
    for handles in [3, 2] {
        let mut played = play(&server, &unix);
        played.client.buffer(1, &fake::noise(size, 3));
        let (what, event, transfer) = (whole(size), Some(EventId(1)), TransferId(1));
        let after = EventList::default();
        played.client.post(&Push { memory: MemoryId(1), what, after, event, peer: PEER, transfer });
        assert_eq!(played.client.end_of(1), 0);
        let heard: Vec<_> =
            (0..3).map(|_| (FRAME_HEADER_LEN + hear::<PushInPlace>(&played.bulk).len()) as u64).collect();
        let Played { bulk, control, mut client, .. } = played;
        drop(bulk);
        assert_eq!(decode::<Ended>(&hear::<Ended>(&control)).unwrap().bytes, 0, "it got nothing");
        let bytes = heard[..handles].iter().sum();
        send(&control, &frame(&Ended { stream: 1, yours: false, bytes }, &[]));
        let (event, remote) = (EventId(1), EventId(9));
        if handles < 3 {
            assert_eq!(decode::<PushFailed>(&hear::<PushFailed>(&control)).unwrap().transfer, TransferId(1));
        }
        // Nothing else was said of it.
        client.post(&SignalPeer { event, peer: PEER, remote }).send();
        assert_eq!(decode::<Signal>(&hear::<Signal>(&control)).unwrap().event, remote);
    }
}

/// A peer that announces its slots as it likes, and writes into the memory at any time, may end its session, but no worker
/// crashes or stays.
#[test]
fn a_peer_that_writes_into_slots_at_any_time_harms_only_itself() {
    let (server, unix, _folder) = serve(PINNED);
    const SESSIONS: u64 = 6;
    for session in 1..=SESSIONS {
        let mut played = play(&server, &unix);
        let size = 8 * CHUNK;
        for id in 1..=8 {
            played.client.buffer(id, &[0; 8]);
            played.client.buffer(100 + id, &vec![0; size]);
            let (memory, what, transfer) = (MemoryId(100 + id), whole(size), TransferId(id));
            let expect = Expect { memory, what, event: EventId(id), peer: PEER, transfer, queue: None };
            played.client.post(&expect).send();
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                let noise = fake::noise(8 << 20, session);
                for (at, bytes) in noise.chunks(8).enumerate().take(100_000) {
                    let at = (at as u64).wrapping_mul(0x9E37_79B9) % (2 * SECOND - 8);
                    played.memory.write_all_at(bytes, ARENA + at).unwrap();
                    // Some spoil what the rings say, too.
                    if session > SESSIONS / 2 && at.is_multiple_of(500) {
                        played.memory.write_all_at(bytes, at % 1024).unwrap();
                    }
                }
            });
            // Each slot is announced again as soon as it was given back, or before in the last sessions.
            for number in 0..64_u64 {
                let (transfer, offset) = (TransferId(1 + number / 8), number % 8 * CHUNK as u64);
                let (at, size) = (FIRST + number % SLOTS as u64 * CHUNK as u64, CHUNK as u64);
                if played.bulk.try_send(&frame(&PushInPlace { transfer, offset, at, size }, &[])).is_err() {
                    break;
                }
                if session % 2 == 0 && played.bulk.recv_exact(&mut [0; FRAME_HEADER_LEN]).is_err() {
                    break;
                }
            }
        });
        drop(played);
    }
    wait_for("end of all sessions", Duration::from_secs(20), || {
        (server.log().matches("session ends").count() as u64 >= SESSIONS).then_some(())
    });
    assert!(!server.log().contains("its worker failed"), "{}", server.log());
    Program::remote(c_program("vector_add"), server.url()).run().success();
}
