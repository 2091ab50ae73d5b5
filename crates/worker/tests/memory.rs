//! How much memory a session makes its worker take.

mod support;

use ropeway_protocol::content::ContentHash;
use ropeway_protocol::ids::{ContextId, EventId, MemoryId, ProgramId, QueueId, TransferId};
use ropeway_protocol::limits;
use ropeway_protocol::messages::*;
use ropeway_protocol::types::*;
use support::{Client, STAGED, Worker, command, on};

/// Bytes of a small write.
const SIZE: usize = 64 << 10;

/// CL_OUT_OF_HOST_MEMORY.
const OUT_OF_HOST_MEMORY: Status = -6;

#[test]
fn worker_process() {
    support::be_worker();
}

/// Bytes of memory of its own that the worker has resident.
fn resident(worker: &Worker) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn queue(client: &mut Client, queue: u64) {
    let (queue, context) = (QueueId(queue), ContextId(1));
    client.post(&CreateQueue { queue, context, device: 0, properties: 0, priority: 0, throttle: 0 });
}

fn write(client: &mut Client, command: Command, bytes: &[u8]) {
    client.post_tail(&WriteBuffer { command, buffer: MemoryId(1), offset: 0 }, bytes);
}

#[test]
fn queues_that_are_released_without_a_finish_leave_nothing_behind() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0).buffer(1, SIZE as u64);
    let bytes = vec![1; SIZE];
    let mut use_queues = |from: u64, count: u64| {
        for id in from..from + count {
            queue(&mut client, id);
            write(&mut client, on(id), &bytes);
            client.post(&ReleaseQueue { queue: QueueId(id) });
            client.send();
        }
        client.call(&Ping { answer: 0 }).unwrap();
        client.finish(1);
    };
    use_queues(2, 500);
    let before = resident(&worker);
    // 256 MiB of writes.
    use_queues(1000, 4000);
    let grown = resident(&worker).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more than before");
}

#[test]
fn what_the_small_writes_of_a_session_hold_is_limited_for_all_its_queues_together() {
    let worker = Worker::start("staged");
    let mut client = worker.connect();
    client.begin(0).buffer(1, limits::MAX_EAGER as u64);
    client.post(&CreateUserEvent { event: EventId(1), context: ContextId(1) });
    let (queues, bytes) = (8, vec![1; limits::MAX_EAGER]);
    for id in 2..=queues {
        queue(&mut client, id);
    }
    // Twice as many as may be held.
    let writes = 2 * (STAGED / limits::MAX_EAGER) as u64;
    for number in 0..writes {
        let id = 1 + number % queues;
        write(&mut client, command(id, Some(100 + number), &[1]), &bytes);
        client.send();
    }
    client.call(&Ping { answer: 0 }).unwrap();
    let held = resident(&worker);
    assert!(held < STAGED as u64 + (128 << 20), "{held} bytes");
    client.post(&SetUserEventStatus { event: EventId(1), status: 0 });
    let all: Vec<u64> = (0..writes).map(|number| 100 + number).collect();
    // CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
    assert_eq!(client.wait(&all), -14);
    let failed = client.notes.done.values().filter(|done| done.status == OUT_OF_HOST_MEMORY).count() as u64;
    let right = client.notes.done.values().filter(|done| done.status == 0).count() as u64;
    assert_eq!(failed + right, writes);
    assert!(failed >= writes / 2, "{failed} of {writes} failed");
    assert!(right >= writes / 2 - queues * 4, "{right} of {writes} were carried out");
    // The memory of writes that have ended may be used again.
    write(&mut client, command(1, Some(9), &[]), &bytes);
    assert_eq!(client.wait(&[9]), 0);
}

#[test]
fn many_live_queues_that_have_done_their_writes_hold_none_of_the_limit() {
    let worker = Worker::start("staged");
    let mut client = worker.connect();
    client.begin(0).buffer(1, limits::MAX_EAGER as u64);
    let bytes = vec![1; limits::MAX_EAGER];
    // 1.25 times as many bytes as may be held at a time.
    let queues = (STAGED / limits::MAX_EAGER) as u64 * 5 / 4;
    for id in 2..2 + queues {
        queue(&mut client, id);
        write(&mut client, command(id, Some(id), &[]), &bytes);
        if id % 64 == 0 {
            assert_eq!(client.wait(&[id]), 0);
        }
    }
    let all: Vec<u64> = (2..2 + queues).collect();
    assert_eq!(client.wait(&all), 0);
}

#[test]
fn a_failed_large_write_keeps_nothing_of_its_buffer() {
    // It may have 64 MiB of buffers.
    let worker = Worker::start("quota");
    let mut client = worker.connect();
    let size = 40 << 20;
    client.begin(0);
    for round in 0..3 {
        let (gate, end, buffer, transfer) = (10 + round, 20 + round, 30 + round, TransferId(40 + round));
        client.post(&CreateUserEvent { event: EventId(gate), context: ContextId(1) });
        client.buffer(buffer, size);
        assert_eq!(client.call(&MemoryStatus { memory: MemoryId(buffer) }), Ok(()), "round {round}");
        let command = command(1, Some(end), &[gate]);
        client.post(&WriteBufferTransfer { command, buffer: MemoryId(buffer), offset: 0, size, transfer });
        client.post(&SetUserEventStatus { event: EventId(gate), status: -5 });
        client.until(|notes| notes.failed.contains_key(&transfer));
        client.post(&ReleaseMemory { memory: MemoryId(buffer) });
        // A queue on which a command has failed may keep failing, so it is replaced.
        client.post(&ReleaseQueue { queue: QueueId(1) });
        queue(&mut client, 1);
    }
}

#[test]
fn what_is_sent_of_program_contents_counts_with_all_else_that_is_held() {
    let worker = Worker::start("staged");
    let mut client = worker.connect();
    client.begin(0);
    // Each of these contents stays one byte short of complete.
    let piece = vec![0; limits::MAX_TAIL];
    for number in 0..STAGED / limits::MAX_TAIL + 1 {
        let hash = ContentHash::of(&number.to_le_bytes());
        client.post_tail(&PutContent { hash, total: piece.len() as u64 + 1, offset: 0 }, &piece);
        client.send();
    }
    client.until_closed();
    let closing = client.notes.closing.take().expect("the worker says why");
    assert!(closing.contains("over the limit"), "{closing}");
}

#[test]
fn program_contents_that_no_folder_keeps_give_way_to_new_ones() {
    let worker = Worker::start("staged");
    let mut client = worker.connect();
    client.begin(0);
    let before = resident(&worker);
    // Twice as many bytes as may be held.
    let text = |number: usize| {
        let mut text = format!("kernel void k{number}() {{}}\n").into_bytes();
        text.resize(limits::MAX_TAIL, b' ');
        text
    };
    for number in 0..2 * STAGED / limits::MAX_TAIL {
        let text = text(number);
        client.post_tail(&PutContent { hash: ContentHash::of(&text), total: text.len() as u64, offset: 0 }, &text);
        client.send();
    }
    client.call(&Ping { answer: 0 }).unwrap();
    let grown = resident(&worker).saturating_sub(before);
    assert!(grown < STAGED as u64 + (32 << 20), "{grown} bytes");
    // The last text is still held; the first is asked for again.
    let mut needs = |program: u64, text: &[u8]| {
        let source = ContentHash::of(text);
        let program = ProgramId(program);
        client.post(&CreateProgramWithSource { program, context: ContextId(1), source });
        let build = BuildProgram { program, devices: vec![0], named: 1, options: "" };
        matches!(client.call(&build).unwrap(), BuildReply::NeedContent(_))
    };
    assert!(!needs(1, &text(2 * STAGED / limits::MAX_TAIL - 1)));
    assert!(needs(2, &text(0)));
}
