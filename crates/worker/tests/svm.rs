//! Shared virtual memory and pipes at the server: what it allocates, and what it refuses.

mod support;

use std::collections::VecDeque;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_protocol::ids::{ContextId, KernelId, MemoryId, TransferId};
use ropeway_protocol::messages::*;
use ropeway_protocol::types::*;
use support::{Client, Worker, command, on};

#[test]
fn worker_process() {
    support::be_worker();
}

const PAGE: u32 = 4096;

fn ask(memory: u64, size: u64) -> SvmAlloc {
    let (memory, context) = (MemoryId(memory), ContextId(1));
    SvmAlloc { memory, context, flags: 1, size, alignment: 0, page: PAGE, attempt: 0, taken: vec![] }
}

fn refused(reason: &str, worst: impl FnOnce(&mut Client) -> &mut Client) {
    let mut worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0).buffer(1, 1000);
    client.call(&ask(2, 1000)).unwrap();
    worst(&mut client);
    client.until_closed();
    let closing = client.notes.closing.take().expect("the worker says why");
    assert!(closing.contains(reason), "{closing}");
    assert!(worker.ended_within(Duration::from_secs(2)));
    assert!(worker.process.wait().unwrap().success());
}

/// Adds a call to the output without waiting for the reply, as a refused call gets none.
fn raw<C: ropeway_protocol::Call>(client: &mut Client, call: &C) {
    let mut frame = Vec::new();
    ropeway_protocol::encode_call(&mut frame, 1000, call, 0);
    client.raw(&frame);
}

#[test]
fn allocations_have_their_pages_to_themselves() {
    let worker = Worker::start("quota");
    let mut client = worker.connect();
    client.begin(0);
    let mut pages = std::collections::BTreeSet::new();
    for n in 0..50 {
        let size = 1 + n * 1000;
        let alignment = if n % 2 == 0 { 0 } else { 128 };
        let address = client.call(&SvmAlloc { alignment, ..ask(n, size) }).unwrap();
        assert!(address != 0 && address.is_multiple_of(u64::from(PAGE)));
        for page in address / u64::from(PAGE)..(address + size).div_ceil(u64::from(PAGE)) {
            assert!(pages.insert(page), "{address:#x}");
        }
    }
    // The session may have 64 MiB in all, and a failed allocation makes no object.
    assert_eq!(client.call(&ask(50, 64 << 20)), Err(-4));
    assert_eq!(client.call(&ask(50, 0)), Err(-4));
    for n in 0..50 {
        client.post(&ReleaseMemory { memory: MemoryId(n) });
    }
    client.call(&ask(50, 63 << 20)).unwrap();
    assert_eq!(client.finish(1), 0);
}

#[test]
fn another_attempt_stays_clear_of_what_is_taken() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    let mut taken = Vec::new();
    for attempt in 0..12 {
        let size = 5000;
        let first = client.call(&SvmAlloc { attempt, taken: taken.clone(), ..ask(attempt.into(), size) }).unwrap();
        // The first attempts may return addresses already in use, as in the heap; later ones must not.
        let within = |&(start, len): &(u64, u64)| start <= first && first < start + len;
        assert!(attempt < 8 || !taken.iter().any(within), "{first:#x} in {taken:x?}");
        taken.push((first & !0xFFFF, 0x2_0000));
    }
    // Invalid ranges must do no harm.
    taken = vec![(u64::MAX, u64::MAX), (0, u64::MAX), (0, 0), (1 << 46, 1 << 45), (12345, 6789)];
    client.call(&SvmAlloc { attempt: u32::MAX, taken, ..ask(100, 10) }).unwrap();
}

fn transfers(how: &str) {
    const SIZE: u64 = 5 << 20;
    let worker = Worker::start(how);
    let mut client = worker.connect();
    client.begin(0);
    client.call(&ask(1, SIZE)).unwrap();
    client.call(&ask(2, SIZE)).unwrap();
    let data: Vec<u8> = (0..SIZE).map(|n| (n.wrapping_mul(2654435761) >> 11) as u8).collect();
    client.write_large(command(1, Some(1), &[]), 1, 1, &data);
    let (source, target) = (MemoryId(1), MemoryId(2));
    let copy = CopyBuffer { command: on(1), source, target, source_offset: 0, target_offset: 0, size: SIZE };
    client.post(&copy);
    assert!(client.read(1, 2, 0, SIZE, 2) == data);
    client.post_tail(&WriteBuffer { command: on(1), buffer: target, offset: 100 }, &[7; 10]);
    client.post(&FillBuffer { command: on(1), buffer: target, pattern: &[1, 2], offset: 110, size: 10 });
    assert_eq!(client.read(1, 2, 100, 20, 3), [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2]);
    // The memory is released behind a write that has not ended.
    client.write_large(command(1, Some(2), &[]), 2, 4, &data);
    client.post(&ReleaseMemory { memory: target }).post(&ReleaseMemory { memory: source });
    client.call(&ask(3, SIZE)).unwrap();
    client.post_tail(&WriteBuffer { command: on(1), buffer: MemoryId(3), offset: SIZE - 4 }, &[9; 4]);
    assert_eq!(client.read(1, 3, SIZE - 4, 4, 5), [9; 4]);
    assert_eq!(client.finish(1), 0);
    assert_eq!(client.notes.done[&ropeway_protocol::ids::EventId(2)].status, 0);
}

#[test]
fn transfers_go_through_mapped_memory() {
    transfers("");
}

#[test]
fn transfers_go_through_pinned_memory() {
    transfers("pinned");
}

#[test]
fn what_no_client_sends_ends_the_session() {
    type Change = fn(&mut SvmAlloc);
    let with = |change: Change| {
        move |client: &mut Client| {
            let mut message = ask(3, 1000);
            change(&mut message);
            raw(client, &message);
        }
    };
    let wrong: [(&str, Change); 6] = [
        ("does not exist", |m| m.context = ContextId(9)),
        ("exists already", |m| m.memory = MemoryId(2)),
        ("aligned to", |m| m.alignment = 24),
        ("aligned to", |m| m.page = 0),
        ("aligned to", |m| m.page = 1 << 30),
        ("aligned to", |m| m.taken = vec![(0, 1); 1000]),
    ];
    for (reason, change) in wrong {
        refused(reason, |c| {
            with(change)(c);
            c
        });
    }
    let over = |svm, offset, size| CreateSvmBuffer { memory: MemoryId(3), svm: MemoryId(svm), flags: 1, offset, size };
    refused("does not exist", |c| c.post(&over(7, 0, 1)));
    refused("not within", |c| c.post(&over(2, 1, 1000)));
    refused("not within", |c| c.post(&over(2, u64::MAX, 2)));
    let pointers = vec![(MemoryId(9), 0)];
    refused("does not exist", |c| c.post(&SetKernelSvmPointers { kernel: KernelId(1), pointers: pointers.clone() }));
    refused("does not exist", |c| c.post(&SetKernelSvmPointers { kernel: KernelId(1), pointers: vec![] }));
}

#[test]
fn what_is_no_such_memory_or_behind_its_end_fails_launches_only() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0).buffer(1, 64);
    client.call(&ask(2, 64)).unwrap();
    client.build(1, "kernel void set(global int *x) { *x = 5; }");
    client.kernel(1, 1, "set");
    // A buffer has no address, and shared memory no handle.
    for wrong in [
        ArgValue::Svm(Some((MemoryId(1), 0))),
        ArgValue::Svm(Some((MemoryId(2), 65))),
        ArgValue::Svm(Some((MemoryId(2), u64::MAX))),
        ArgValue::Memory(Some(MemoryId(2))),
    ] {
        client.arg(1, 0, wrong).launch(on(1), 1, 1);
        assert!(client.finish(1) < 0, "{wrong:?}");
    }
    let pointers = vec![(MemoryId(1), 0), (MemoryId(2), 100)];
    client.post(&SetKernelSvmPointers { kernel: KernelId(1), pointers });
    // A buffer over shared virtual memory cannot be made over a plain buffer.
    client.post(&CreateSvmBuffer { memory: MemoryId(3), svm: MemoryId(1), flags: 1, offset: 0, size: 10 });
    client.post(&ReadBuffer { command: on(1), buffer: MemoryId(3), offset: 0, size: 10, transfer: TransferId(1) });
    client.until(|notes| notes.failed.contains_key(&TransferId(1)));
    client.arg(1, 0, ArgValue::Svm(Some((MemoryId(2), 60)))).launch(on(1), 1, 1);
    assert_eq!(client.read(1, 2, 60, 4, 2), [5, 0, 0, 0]);
}

/// PoCL has no pipes, so the worker cannot make one; commands that use it must fail.
#[test]
fn a_pipe_that_could_not_be_made_fails_what_uses_it() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    let (memory, context) = (MemoryId(1), ContextId(1));
    client.post(&CreatePipe { memory, context, flags: 1, packet_size: u32::MAX, max_packets: u32::MAX });
    client.post(&FillBuffer { command: on(1), buffer: memory, pattern: &[1], offset: 0, size: 1 });
    client.until_closed();
    assert!(client.notes.closing.take().expect("the worker says why").contains("is not a buffer"));
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    client.post(&CreatePipe { memory, context, flags: 1, packet_size: 4, max_packets: 4 });
    client.build(1, "kernel void set(global int *x) { *x = 5; }");
    client.kernel(1, 1, "set");
    client.arg(1, 0, ArgValue::Memory(Some(memory))).launch(on(1), 1, 1);
    assert_eq!(client.finish(1), -59);
    client.post(&ReleaseMemory { memory });
    assert_eq!(client.finish(1), 0);
}

#[test]
fn a_free_that_waits_holds_up_no_transfer() {
    const SIZE: u64 = 1 << 20;
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    client.call(&ask(1, SIZE)).unwrap();
    client.call(&ask(2, SIZE)).unwrap();
    // A transfer that has its place in the queue, followed by the free.
    let (buffer, transfer) = (MemoryId(1), TransferId(1));
    let event = ropeway_protocol::ids::EventId(1);
    client.post(&CreateUserEvent { event, context: ContextId(1) });
    let command = command(1, None, &[1]);
    client.post(&WriteBufferTransfer { command, buffer, offset: 0, size: SIZE, transfer });
    client.post(&ReleaseMemory { memory: MemoryId(2) });
    client.post(&SetUserEventStatus { event, status: 0 });
    client.until(|notes| notes.ready.contains(&transfer));
    client.send_data(1, &vec![7; SIZE as usize]);
    assert_eq!(client.read(1, 1, SIZE - 4, 4, 2), [7; 4]);
    assert_eq!(client.finish(1), 0);
}

/// An allocation and a buffer over part of it are where the server says, in memory that the client sees, and used there.
#[test]
fn allocations_are_in_memory_that_the_client_shares() {
    const SIZE: u64 = 1 << 20;
    let worker = Worker::start("");
    let (mut client, _memory) = worker.connect_sharing();
    client.begin(0);
    let svm = MemoryId(1);
    client.call(&ask(1, SIZE)).unwrap();
    client.post(&CreateSvmBuffer { memory: MemoryId(2), svm, flags: 1, offset: 8192, size: 4096 });
    let (region, id) = ((1024, 2048), MemoryId(3));
    client.post(&CreateSubBuffer { memory: id, parent: MemoryId(2), flags: 1, origin: region.0, size: region.1 });
    client.post(&FillBuffer { command: on(1), buffer: svm, pattern: &[1, 2, 3, 4], offset: 0, size: SIZE });
    assert_eq!(client.finish(1), 0);
    let places = [1, 2, 3].map(|id| client.call(&LocateBuffer { buffer: MemoryId(id) }).unwrap());
    assert_eq!((places[1] - places[0], places[2] - places[1]), (8192, 1024));
    let arena = client.link.arena().unwrap().clone();
    let mut seen = [0; 8];
    assert!(arena.copy_out(places[0] + SIZE - 8, &mut seen));
    assert_eq!(seen, [1, 2, 3, 4, 1, 2, 3, 4]);
    assert!(arena.copy_in(places[2], b"changed"));
    assert_eq!(client.read(1, 1, 8192 + 1024, 7, 1), b"changed");
    assert_eq!(client.read(1, 2, 1024, 7, 2), b"changed");
    for id in [3, 2, 1] {
        client.post(&ReleaseMemory { memory: MemoryId(id) });
    }
    // What is asked for again is there again, and whoever sees it harms nobody by writing there.
    for _ in 0..20 {
        client.call(&ask(1, SIZE)).unwrap();
        assert!(arena.copy_in(places[0], &vec![0xff; SIZE as usize]));
        client.post(&ReleaseMemory { memory: svm });
        assert!(arena.copy_in(places[0], &vec![0xee; SIZE as usize]));
    }
    client.buffer(4, 64);
    assert_eq!(client.finish(1), 0);
}

/// The implementation's allocator uses the pages of what it gave before and after, and never the client's.
#[test]
fn a_client_that_writes_anywhere_there_harms_no_allocator() {
    let mut worker = Worker::start("");
    let (mut client, memory) = worker.connect_sharing();
    client.begin(0).buffer(1000, 64);
    let place = client.call(&LocateBuffer { buffer: MemoryId(1000) }).unwrap();
    let arena = client.link.arena().unwrap().clone();
    let len = memory.metadata().unwrap().len();
    let begin = len - arena.size_in_bytes() as u64 + place;
    let (over, process) = (AtomicBool::new(false), &mut worker.process);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (nonsense, since) = (vec![0xff; 8 << 20], Instant::now());
            while !over.load(Ordering::SeqCst) && since.elapsed() < Duration::from_secs(30) {
                memory.write_all_at(&nonsense, begin).unwrap();
            }
            // A worker whose allocator has met nonsense may as well run for ever.
            if !over.load(Ordering::SeqCst) {
                process.kill().unwrap();
            }
        });
        let mut kept = VecDeque::new();
        for id in 0..1000 {
            // Of sizes that come from the heap and from mappings, freed in another order than they were made in.
            let size = 1 + (id * 7919) % 40_000 * if id % 50 == 0 { 100 } else { 1 };
            client.call(&ask(id, size)).unwrap();
            let buffer = MemoryId(id);
            client.post(&FillBuffer { command: on(1), buffer, pattern: &[7], offset: 0, size });
            kept.push_back(buffer);
            while kept.len() > 8 {
                let freed = if id % 2 == 0 { kept.pop_front() } else { kept.pop_back() };
                client.post(&ReleaseMemory { memory: freed.unwrap() });
            }
        }
        assert_eq!(client.finish(1), 0);
        over.store(true, Ordering::SeqCst);
    });
    drop(client);
    assert!(worker.ended_within(Duration::from_secs(10)));
    assert!(worker.process.wait().unwrap().success(), "it crashed");
}

#[test]
fn pages_of_another_size_are_not_shared() {
    let worker = Worker::start("");
    let (mut client, _memory) = worker.connect_sharing();
    client.begin(0);
    client.call(&SvmAlloc { page: 64, ..ask(1, 100) }).unwrap();
    assert!(client.call(&LocateBuffer { buffer: MemoryId(1) }).is_err(), "other allocations may be on that page");
}
