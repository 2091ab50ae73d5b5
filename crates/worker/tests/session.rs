//! Whole sessions against this machine's OpenCL.

mod support;

use std::time::Duration;

use ropeway_protocol::content::ContentHash;
use ropeway_protocol::ids::{ContextId, EventId, MemoryId, QueueId, TransferId};
use ropeway_protocol::messages::*;
use ropeway_protocol::types::*;
use support::{Worker, command, on};

const OUT_OF_ORDER: u64 = 1;
const PROFILING: u64 = 2;
/// CL_MIGRATE_MEM_OBJECT_HOST.
const TO_HOST: u64 = 1;

const SOURCE: &str = r#"
    kernel void add(global const int *a, global int *b, int n) { size_t i = get_global_id(0); b[i] = a[i] + n; }
    kernel void kinds(global float *g, constant float *c, local float *l, char x, float4 v, double d) { g[0] = c[0] + x; }
    kernel void hello(int n) { printf("hello %d\n", n); }
    kernel void empty() {}
"#;

#[test]
fn worker_process() {
    support::be_worker();
}

fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn the_welcome_tells_of_devices() {
    let client = Worker::start("").connect();
    let welcome = &client.welcome;
    assert_eq!(welcome.host, "testhost");
    let name = |properties: &[(u32, Result<Vec<u8>, Status>)], which| {
        let found = properties.iter().find(|(name, _)| *name == which).unwrap();
        String::from_utf8(found.1.clone().unwrap()).unwrap()
    };
    assert!(!name(&welcome.platforms[0].properties, 0x0902).is_empty());
    assert!(!name(&welcome.platforms[0].devices[0].properties, 0x102B).is_empty());
}

/// A thread costs some 50 us of processor where system calls are filtered, and the client waits for it.
#[test]
fn a_session_begins_with_the_threads_that_are_there() {
    let worker = Worker::start("");
    let warm = worker.threads();
    let mut client = worker.connect();
    client.begin(0).buffer(1, 4);
    client.post_tail(&WriteBuffer { command: on(1), buffer: MemoryId(1), offset: 0 }, &words([7]));
    assert_eq!(client.read(1, 1, 0, 4, 1), words([7]));
    // The native implementation has started its own for the first command, which came before the client.
    assert_eq!(worker.threads(), warm);
}

/// To wake a thread costs about as much as a small kernel.
#[test]
fn the_follower_sleeps_through_jobs_that_are_over_soon() {
    const JOBS: u64 = 20;
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    assert_eq!(client.finish(1), 0);
    std::thread::sleep(Duration::from_millis(20));
    let before = worker.sleeps("session");
    for _ in 0..JOBS {
        assert_eq!(client.finish(1), 0);
        // Longer than the follower leaves a job alone.
        std::thread::sleep(Duration::from_millis(2));
    }
    let after = worker.sleeps("session");
    assert_eq!((before.len(), after.len()), (1, 1));
    // On a machine with much else to do, some jobs may take that long.
    assert!(after[0] - before[0] <= JOBS / 2, "{before:?} {after:?}");
}

#[test]
fn a_kernel_adds() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0).buffer(1, 4000).buffer(2, 4000);
    let built = client.build(1, SOURCE);
    assert_eq!(built.status, 0, "{:?}", built.devices);
    client.kernel(1, 1, "add");
    client.arg(1, 0, ArgValue::Memory(Some(MemoryId(1)))).arg(1, 1, ArgValue::Memory(Some(MemoryId(2))));
    client.arg(1, 2, ArgValue::Bytes(&5u32.to_le_bytes()));
    let write = WriteBuffer { command: on(1), buffer: MemoryId(1), offset: 0 };
    client.post_tail(&write, &words(0..1000));
    client.launch(on(1), 1, 1000);
    assert_eq!(client.read(1, 2, 0, 4000, 1), words(5..1005));
    assert_eq!(client.finish(1), 0);
}

#[test]
fn arguments_are_described() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    let built = client.build(1, SOURCE);
    let kinds = built.kernels.iter().find(|kernel| kernel.name == "kinds").unwrap();
    let expected =
        [ArgKind::Buffer, ArgKind::Buffer, ArgKind::Local, ArgKind::Value(1), ArgKind::Value(16), ArgKind::Value(8)];
    assert_eq!(kinds.args.iter().map(|arg| arg.kind).collect::<Vec<_>>(), expected);
    assert_eq!(built.kernels.len(), 4);
    assert!(kinds.work_group[0].work_group_size > 0);
}

#[test]
fn a_known_source_is_not_asked_for_again_and_errors_have_a_log() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    assert_eq!(client.build(1, "kernel void broken( {").status, -11);
    let program = ropeway_protocol::ids::ProgramId(2);
    let source = ContentHash::of(b"kernel void broken( {");
    client.post(&CreateProgramWithSource { program, context: ContextId(1), source });
    let reply = client.call(&BuildProgram { program, devices: vec![0], named: 1, options: "" }).unwrap();
    let BuildReply::Built(built) = reply else { panic!("asked for it again") };
    assert!(!built.devices[0].log.is_empty());
    assert_eq!(built.devices[0].status, -2);
}

#[test]
fn a_binary_makes_the_same_program() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    client.build(1, SOURCE);
    let (program, transfer) = (ropeway_protocol::ids::ProgramId(1), TransferId(1));
    let len = client.call(&ProgramBinary { program, device: 0, transfer }).unwrap();
    assert_eq!(client.call(&ProgramBinarySize { program, device: 0 }).unwrap(), len);
    client.until(|notes| notes.data.get(&transfer).is_some_and(|data| data.len() as u64 == len));
    let binary = client.notes.data.remove(&transfer).unwrap();
    let hash = ContentHash::of(&binary);
    let program = ropeway_protocol::ids::ProgramId(2);
    let load =
        CreateProgramWithBinary { program, context: ContextId(1), binaries: vec![BinaryFor { device: 0, hash, len }] };
    assert_eq!(client.call(&load).unwrap(), BinaryReply::NeedContent(vec![hash]));
    for (at, piece) in binary.chunks(512 << 10).enumerate() {
        let offset = (at * (512 << 10)) as u64;
        client.post_tail(&PutContent { hash, total: len, offset }, piece);
    }
    let BinaryReply::Loaded { status: 0, each, devices } = client.call(&load).unwrap() else { panic!("has it all") };
    assert_eq!((each, devices.len()), (vec![0], 1));
    let reply = client.call(&BuildProgram { program, devices: vec![0], named: 1, options: "" }).unwrap();
    let BuildReply::Built(again) = reply else { panic!("needs nothing") };
    assert_eq!((again.status, again.kernels.len()), (0, 4));
}

#[test]
fn events_end_in_order_and_are_told_once() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(PROFILING).buffer(1, 64);
    client.build(1, SOURCE);
    client.kernel(1, 1, "empty");
    for event in 1..=50 {
        client.launch(command(1, Some(event), &[]), 1, 1);
    }
    client.post(&ReleaseEvent { event: EventId(7) });
    assert_eq!(client.wait(&[20]), 0);
    assert!((1..=20).all(|e| e == 7 || client.notes.done.contains_key(&EventId(e))));
    assert_eq!(client.finish(1), 0);
    assert_eq!(client.notes.done.len(), 49);
    let times = client.notes.done[&EventId(50)].times.unwrap();
    assert!(times.is_sorted() && times[0] > 0, "{times:?}");
}

#[test]
fn a_user_event_holds_a_chain_and_subscribers_are_told() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(OUT_OF_ORDER).buffer(1, 64);
    client.build(1, SOURCE);
    client.kernel(1, 1, "empty");
    client.post(&CreateUserEvent { event: EventId(1), context: ContextId(1) });
    for event in 2..=20 {
        client.launch(command(1, Some(event), &[event - 1]), 1, 1);
    }
    client.post(&Subscribe { event: EventId(20) }).send();
    client.call(&Ping { answer: 0 }).unwrap();
    // Time for notes that must not come.
    std::thread::sleep(Duration::from_millis(20));
    client.call(&Ping { answer: 0 }).unwrap();
    assert!(client.notes.done.is_empty());
    client.post(&SetUserEventStatus { event: EventId(1), status: 0 });
    client.until(|notes| notes.done.contains_key(&EventId(20)));
    assert_eq!(client.finish(1), 0);
    assert_eq!(client.notes.done.len(), 19);
}

#[test]
fn one_thread_waits_for_what_ends_in_order() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    client.post(&CreateUserEvent { event: EventId(1), context: ContextId(1) });
    for event in 2..102 {
        client.post(&Marker { command: command(1, Some(event), &[1]) });
        client.post(&Subscribe { event: EventId(event) });
    }
    client.post(&SetUserEventStatus { event: EventId(1), status: 0 });
    client.until(|notes| (2..102).all(|event| notes.done.contains_key(&EventId(event))));
    assert!(client.notes.done.values().all(|done| done.status == 0));
    // Waiter threads are never ended, so all that were made can be counted.
    let tasks = std::fs::read_dir(format!("/proc/{}/task", worker.process.id())).unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    assert_eq!(names.filter(|name| name.trim_end() == "waiter").count(), 1);
}

#[test]
fn a_failed_user_event_fails_what_waits_for_it() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(OUT_OF_ORDER).buffer(1, 1 << 20);
    client.post(&CreateUserEvent { event: EventId(1), context: ContextId(1) });
    let read = |transfer, size, event, wait| ReadBuffer {
        command: command(1, Some(event), &[wait]),
        buffer: MemoryId(1),
        offset: 0,
        size,
        transfer: TransferId(transfer),
    };
    client.post(&read(1, 4, 2, 1)).post(&read(2, 1 << 20, 3, 1));
    client.post(&SetUserEventStatus { event: EventId(1), status: -5 });
    client.until(|notes| notes.failed.len() == 2);
    assert!(client.wait(&[2, 3]) < 0);
    assert!([2, 3].iter().all(|e| client.notes.done[&EventId(*e)].status < 0));
}

#[test]
fn what_fails_natively_is_told_by_event_or_queue() {
    let worker = Worker::start("quota");
    let mut client = worker.connect();
    client.begin(0).buffer(1, 65 << 20).buffer(2, 64);
    let fill = |event, waits: &[u64]| FillBuffer {
        command: command(1, event, waits),
        buffer: MemoryId(1),
        pattern: &[0],
        offset: 0,
        size: 64,
    };
    client.post(&fill(Some(1), &[])).post(&fill(None, &[]));
    client.post(&Marker { command: command(1, Some(2), &[1]) });
    assert_eq!(client.finish(1), -4);
    assert_eq!(client.finish(1), 0);
    assert_eq!(client.notes.done[&EventId(1)].status, -4);
    assert_eq!(client.notes.done[&EventId(2)].status, -14);
}

#[test]
fn kernels_print_at_the_client_before_the_wait_is_over() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    client.build(1, SOURCE);
    client.kernel(1, 1, "hello");
    client.arg(1, 0, ArgValue::Bytes(&42u32.to_le_bytes())).launch(on(1), 1, 3);
    assert_eq!(client.finish(1), 0);
    assert_eq!(client.notes.printed, "hello 42\n".repeat(3));
}

fn large_transfers(how: &str) {
    const SIZE: u64 = 20 << 20;
    let worker = Worker::start(how);
    for properties in [0, OUT_OF_ORDER] {
        let worker = if properties == 0 { &worker } else { &Worker::start(how) };
        let mut client = worker.connect();
        client.begin(properties).buffer(1, SIZE).buffer(2, SIZE);
        let data = words((0..(SIZE / 4) as u32).map(|n| n.wrapping_mul(2654435761)));
        client.write_large(command(1, Some(1), &[]), 1, 1, &data);
        let copy = CopyBuffer {
            command: command(1, Some(2), &[1]),
            source: MemoryId(1),
            target: MemoryId(2),
            source_offset: 0,
            target_offset: 0,
            size: SIZE,
        };
        client.post(&copy);
        assert_eq!(client.wait(&[2]), 0);
        assert!(client.read(1, 2, 0, SIZE, 2) == data);
        assert!(client.read(1, 2, 12, 300_000, 3) == data[12..300_012]);
        assert!(client.read(1, 2, 8, 200_000, 4) == data[8..200_008]);
        // A buffer with its contents from the start.
        let (buffer, context) = (MemoryId(3), ContextId(1));
        let initial = InitialContents::Transfer(TransferId(5));
        client.post(&CreateBuffer { buffer, context, flags: 1, size: SIZE, initial }).send();
        client.send_data(5, &data);
        assert!(client.read(1, 3, 0, SIZE, 6) == data);
        let initial = InitialContents::Tail;
        client.post_tail(&CreateBuffer { buffer: MemoryId(4), context, flags: 1, size: 1000, initial }, &data[..1000]);
        assert!(client.read(1, 4, 0, 1000, 7) == data[..1000]);
        assert_eq!(client.finish(1), 0);
    }
}

#[test]
fn large_transfers_go_through_mapped_memory() {
    large_transfers("");
}

#[test]
fn large_transfers_go_through_pinned_memory() {
    large_transfers("pinned");
}

#[test]
fn a_large_write_waits_for_its_turn_and_holds_up_nobody() {
    const SIZE: u64 = 1 << 20;
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0).buffer(1, SIZE).buffer(2, SIZE);
    client.post(&CreateQueue {
        queue: QueueId(2),
        context: ContextId(1),
        device: 0,
        properties: 0,
        priority: 0,
        throttle: 0,
    });
    client.post(&CreateUserEvent { event: EventId(1), context: ContextId(1) });
    let (buffer, transfer) = (MemoryId(1), TransferId(1));
    let gated = command(1, Some(2), &[1]);
    client.post(&WriteBufferTransfer { command: gated, buffer, offset: 0, size: SIZE, transfer });
    // The read comes behind the write on the same queue.
    let read = ReadBuffer { command: on(1), buffer: MemoryId(1), offset: SIZE - 4, size: 4, transfer: TransferId(2) };
    client.post(&read).send();
    for n in 0..20 {
        let write = WriteBuffer { command: on(2), buffer: MemoryId(2), offset: 0 };
        client.post_tail(&write, &words([n]));
        assert_eq!(client.read(2, 2, 0, 4, 10 + u64::from(n)), words([n]));
    }
    assert!(client.notes.ready.is_empty() && client.notes.data.is_empty());
    client.post(&SetUserEventStatus { event: EventId(1), status: 0 });
    client.until(|notes| notes.ready == [transfer]);
    client.send_data(1, &vec![7; SIZE as usize]);
    client.until(|notes| notes.data.contains_key(&TransferId(2)));
    assert_eq!(client.notes.data[&TransferId(2)], [7; 4]);
    assert_eq!(client.finish(1), 0);
    assert_eq!(client.notes.done[&EventId(2)].status, 0);
}

#[test]
fn a_wait_on_one_queue_does_not_hold_up_another() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0).buffer(1, 64);
    client.post(&CreateQueue {
        queue: QueueId(2),
        context: ContextId(1),
        device: 0,
        properties: 0,
        priority: 0,
        throttle: 0,
    });
    client.post(&CreateUserEvent { event: EventId(1), context: ContextId(1) });
    client.post(&Marker { command: command(1, Some(2), &[1]) });
    // A wait that does not end until the client has done more, as another of its threads would.
    let mut frame = Vec::new();
    ropeway_protocol::encode_call(&mut frame, 1000, &Finish { queue: QueueId(1) }, 0);
    client.raw(&frame).send();
    client.post_tail(&WriteBuffer { command: on(2), buffer: MemoryId(1), offset: 0 }, &[9; 64]);
    assert_eq!(client.read(2, 1, 0, 64, 1), [9; 64]);
    client.post(&SetUserEventStatus { event: EventId(1), status: 0 });
    client.until_reply(1000);
    assert_eq!(client.finish(2), 0);
}

#[test]
fn reads_that_nobody_waits_for_arrive() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0).buffer(1, 4000);
    client.post_tail(&WriteBuffer { command: on(1), buffer: MemoryId(1), offset: 0 }, &words(0..1000));
    for n in 0..1000 {
        let (command, transfer) = (command(1, Some(n + 1), &[]), TransferId(n));
        client.post(&ReadBuffer { command, buffer: MemoryId(1), offset: n * 4, size: 4, transfer });
        client.post(&Subscribe { event: EventId(n + 1) });
    }
    client.until(|notes| notes.data.len() == 1000 && notes.done.len() == 1000);
    assert!((0..1000).all(|n| client.notes.data[&TransferId(n)] == words([n as u32])));
}

#[test]
fn a_ping_is_answered() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.call(&Ping { answer: 100_000 }).unwrap();
}

#[test]
fn the_process_ends_with_its_client_even_in_mid_wait() {
    let mut worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    client.post(&CreateUserEvent { event: EventId(1), context: ContextId(1) });
    client.post(&Marker { command: command(1, None, &[1]) });
    let mut frame = Vec::new();
    ropeway_protocol::encode_call(&mut frame, 1, &Finish { queue: QueueId(1) }, 0);
    client.raw(&frame).send();
    // The worker should be inside the wait by now, which it does not report; before the wait, it would end as well.
    std::thread::sleep(Duration::from_millis(300));
    drop(client);
    assert!(worker.ended_within(Duration::from_secs(2)));
}

#[test]
fn goodbye_ends_the_process() {
    let mut worker = Worker::start("");
    worker.connect().post(&Goodbye {}).until_closed();
    assert!(worker.ended_within(Duration::from_secs(2)));
}

/// PoCL 3.1 releases the event of a migration to the host once too often when another thread enqueues a command on the
/// same buffer meanwhile.
#[test]
fn events_of_migrations_to_the_host_outlive_transfers_of_the_same_buffer() {
    const SIZE: u64 = 1 << 20;
    const MIGRATIONS: u64 = 100;
    let mut next = 1;
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0).buffer(1, SIZE);
    let (queue, context) = (QueueId(2), ContextId(1));
    client.post(&CreateQueue { queue, context, device: 0, properties: 0, priority: 0, throttle: 0 });
    for transfer in 1..=100 {
        // A thread of its own maps the buffer for it and unmaps it.
        let transfer = TransferId(transfer);
        client.post(&ReadBuffer { command: on(2), buffer: MemoryId(1), offset: 0, size: SIZE, transfer });
        let events: Vec<_> = (next..next + MIGRATIONS).collect();
        for event in &events {
            let (buffer, pattern) = (MemoryId(1), &[7; 4]);
            client.post(&FillBuffer { command: on(1), buffer, offset: 0, size: 64, pattern });
            let memory = vec![buffer];
            client.post(&MigrateMemory { command: command(1, Some(*event), &[]), memory, flags: TO_HOST });
        }
        next += MIGRATIONS;
        client.until(|notes| notes.data.get(&transfer).is_some_and(|data| data.len() as u64 == SIZE));
        client.notes.data.remove(&transfer);
        assert_eq!(client.finish(1), 0);
        for event in events {
            assert_eq!(client.notes.done[&EventId(event)].status, 0);
            client.post(&ReleaseEvent { event: EventId(event) });
        }
    }
    assert_eq!(client.finish(2), 0);
}
