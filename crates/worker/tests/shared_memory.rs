//! Sessions over memory that the client shares, and may write to at any time.

mod support;

use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ropeway_protocol::ids::{ContextId, MemoryId, QueueId, TransferId};
use ropeway_protocol::messages::*;
use ropeway_transport::Arena;
use support::{Client, Worker, on};

/// Where both rings' positions are, and where their bytes begin.
const CONTROL: u64 = 1024;

#[test]
fn worker_process() {
    support::be_worker();
}

#[test]
fn a_session_goes_through_shared_memory() {
    let worker = Worker::start("");
    let (mut client, _memory) = worker.connect_sharing();
    client.begin(0).buffer(1, 10 << 20);
    let data: Vec<u8> = (0..10 << 20).map(|at: u32| (at % 251) as u8).collect();
    client.write_large(on(1), 1, 1, &data);
    assert_eq!(client.read(1, 1, 0, 10 << 20, 2), data);
    assert_eq!(client.finish(1), 0);
}

/// How many bytes the link has carried in both directions since its traffic was this.
fn moved_since(client: &Client, (sent, received): (u64, u64)) -> u64 {
    let now = client.link.traffic();
    now.0 - sent + now.1 - received
}

/// What it is to copy, the client finds in the memory; nothing travels.
#[test]
fn large_transfers_are_copied_where_they_are() {
    const SIZE: u64 = 10 << 20;
    let worker = Worker::start("");
    let (mut client, _memory) = worker.connect_sharing();
    client.begin(0).buffer(1, SIZE);
    let data: Vec<u8> = (0..SIZE).map(|at| (at % 249) as u8).collect();
    let before = client.link.traffic();
    client.write_large(on(1), 1, 1, &data);
    assert_eq!(client.read(1, 1, 0, SIZE, 2), data);
    assert_eq!(client.finish(1), 0);
    let moved = moved_since(&client, before);
    assert!(moved < 1000, "{moved} bytes of messages");
    // It is where the server says it is, and used there.
    let place = client.call(&LocateBuffer { buffer: MemoryId(1) }).unwrap();
    let arena = client.link.arena().unwrap().clone();
    let mut seen = vec![0; SIZE as usize];
    assert!(arena.copy_out(place, &mut seen));
    assert!(seen == data);
    assert!(arena.copy_in(place + 5, b"changed"));
    assert_eq!(client.read(1, 1, 5, 7, 3), b"changed");
}

/// A device with memory of its own: client and device copy by way of a window, in pieces, and nothing travels.
#[test]
fn large_transfers_of_other_devices_are_copied_in_pieces() {
    let worker = Worker::start("pinned");
    let (mut client, _memory) = worker.connect_sharing();
    client.begin(0).buffer(1, 10 << 20);
    // From one piece to many, and a last one that is short.
    for (turn, size) in [300_000, 1 << 20, (10 << 20) - 5].into_iter().enumerate() {
        let data: Vec<u8> = (0..size).map(|at| ((at + turn) % 249) as u8).collect();
        let before = client.link.traffic();
        client.write_large(on(1), 1, 10 + turn as u64, &data);
        assert!(client.read(1, 1, 0, size as u64, 20 + turn as u64) == data);
        assert_eq!(client.finish(1), 0);
        let moved = moved_since(&client, before);
        assert!(moved < 1500, "{moved} bytes of messages");
    }
    assert!(client.call(&LocateBuffer { buffer: MemoryId(1) }).is_err(), "the device has it elsewhere");
}

/// More transfers at once than there are windows: the others' bytes travel.
#[test]
fn what_finds_no_window_is_sent() {
    const SIZE: u64 = 1 << 20;
    let worker = Worker::start("pinned");
    let (mut client, _memory) = worker.connect_sharing();
    client.begin(0).buffer(1, SIZE);
    client.write_large(on(1), 1, 1, &[5; SIZE as usize]);
    assert_eq!(client.finish(1), 0);
    for id in 2..10 {
        let (context, buffer, transfer) = (ContextId(1), MemoryId(1), TransferId(id));
        client.post(&CreateQueue { queue: QueueId(id), context, device: 0, properties: 0, priority: 0, throttle: 0 });
        client.post(&ReadBuffer { command: on(id), buffer, offset: 0, size: SIZE, transfer });
    }
    client.until(|notes| {
        let sent = notes.data.values().filter(|data| data.len() as u64 == SIZE && data.iter().all(|byte| *byte == 5));
        notes.lent.values().filter(|pieces| pieces.len() == 2).count() == 4 && sent.count() == 4
    });
    for transfer in client.notes.lent.keys().copied().collect::<Vec<_>>() {
        let is_there = |arena: &Arena, at, range: Range<usize>| {
            let mut bytes = vec![0; range.len()];
            assert!(arena.copy_out(at, &mut bytes) && bytes.iter().all(|byte| *byte == 5));
        };
        client.copy_lent(transfer, is_there, SIZE);
    }
    assert_eq!(client.finish(9), 0);
    // They are there again.
    assert!(client.read(1, 1, 0, SIZE, 10) == [5; SIZE as usize]);
}

#[test]
fn who_says_that_it_has_copied_what_it_was_not_to_ends_its_session() {
    for (how, lent) in [("", false), ("", true), ("pinned", true)] {
        let mut worker = Worker::start(how);
        let (mut client, _memory) = worker.connect_sharing();
        client.begin(0).buffer(1, 1 << 20);
        if lent {
            client.write_large(on(1), 1, 7, &[1; 1 << 20]);
            assert_eq!(client.finish(1), 0);
        }
        client.post(&TransferCopied { transfer: TransferId(7) });
        client.send();
        assert!(worker.ended_within(Duration::from_secs(30)));
        assert!(worker.process.wait().unwrap().code().is_some(), "it crashed");
    }
}

#[test]
fn a_file_that_is_no_such_memory_ends_its_session() {
    let mut worker = Worker::start("");
    let mut client = worker.connect_passing(std::fs::File::open("/proc/self/exe").unwrap().into());
    assert!(client.read_to_end(&mut Vec::new()).is_ok_and(|n| n == 0), "it is not even welcomed");
    assert!(worker.ended_within(Duration::from_secs(5)));
    assert_eq!(worker.process.wait().unwrap().code(), Some(1));
}

/// Numbers that look random; the same for the same `state`.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Small and large commands, as long as the session stands. Returns whether it does.
fn commands(client: &mut Client, rounds: Range<u64>) -> bool {
    let mut scratch = vec![0; 1 << 20];
    for round in rounds {
        let (command, buffer, transfer) = (on(1), MemoryId(1), TransferId(round));
        let size = if round % 3 == 0 { 200_000 } else { 100 };
        client.post(&ReadBuffer { command, buffer, offset: 0, size, transfer });
        client.send();
        match client.link.recv_for_a_glance(&mut scratch) {
            Ok(0) => return false,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return false,
            _ => {}
        }
    }
    true
}

/// Ten sessions, on devices that use the memory where it is and on others, in each of which the client writes 100,000 times anywhere into the memory while commands go through it:
/// the worker goes on, or ends its session by itself, but it never crashes, and never stays.
#[test]
fn a_client_that_writes_anywhere_at_any_time_ends_no_more_than_its_session() {
    for session in 1..=10_u64 {
        let mut worker = Worker::start(if session % 2 == 0 { "pinned" } else { "" });
        let (mut client, memory) = worker.connect_sharing();
        client.begin(0).buffer(1, 1 << 20);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut seed = session;
                for _ in 0..100_000 {
                    // The first sessions leave the positions alone, which lets them last.
                    let anywhere = session > 5 && random(&mut seed).is_multiple_of(50);
                    let at = match anywhere {
                        true => random(&mut seed) % CONTROL,
                        // The rings' bytes, and the buffers behind them.
                        false => 4096 + random(&mut seed) % (4 << 20),
                    };
                    let value = random(&mut seed) >> (random(&mut seed) % 64);
                    memory.write_all_at(&value.to_le_bytes(), at).unwrap();
                }
                over.store(true, Ordering::SeqCst);
            });
            let mut round = 0;
            while !over.load(Ordering::SeqCst) && commands(&mut client, round..round + 100) {
                round += 100;
            }
        });
        drop(client);
        assert!(worker.ended_within(Duration::from_secs(30)), "session {session}: it stays");
        assert!(worker.process.wait().unwrap().code().is_some(), "session {session}: it crashed");
    }
}
