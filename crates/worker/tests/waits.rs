//! More simultaneous waiting calls than a session has threads.

mod support;

use ropeway_protocol::ids::{ContextId, EventId, MemoryId, QueueId, TransferId};
use ropeway_protocol::messages::*;
use ropeway_protocol::types::*;
use support::{Client, Worker, command, on};

/// As many calls as a large program has threads.
const CALLS: u64 = 1000;

/// The user event that everything waits for.
const GATE: u64 = 1;

/// The name of the event of queue `queue`'s command.
fn event(queue: u64) -> u64 {
    1000 + queue
}

#[test]
fn worker_process() {
    support::be_worker();
}

/// Makes queues 1 to [`CALLS`], with one command each, which waits for [`GATE`].
fn held(client: &mut Client, properties: u64) {
    client.begin(properties);
    client.post(&CreateUserEvent { event: EventId(GATE), context: ContextId(1) });
    for queue in 1..=CALLS {
        let (id, context) = (QueueId(queue), ContextId(1));
        if queue > 1 {
            client.post(&CreateQueue { queue: id, context, device: 0, properties, priority: 0, throttle: 0 });
        }
        client.post(&Marker { command: command(queue, Some(event(queue)), &[GATE]) });
    }
}

/// Checks that the session goes on as if no call waited: it builds a program, and does a large transfer.
fn others_are_served(client: &mut Client) {
    let built = client.build(1, "kernel void empty() {}");
    assert_eq!(built.status, 0, "{:?}", built.devices);
    let (free, context) = (QueueId(CALLS + 1), ContextId(1));
    client.post(&CreateQueue { queue: free, context, device: 0, properties: 0, priority: 0, throttle: 0 });
    client.buffer(1, 1 << 20);
    let data: Vec<u8> = (0..1 << 20).map(|n: u32| n as u8).collect();
    client.write_large(on(free.0), 1, 1, &data);
    assert_eq!(client.read(free.0, 1, 0, 1 << 20, 2), data);
}

fn opened(client: &mut Client) {
    client.post(&SetUserEventStatus { event: EventId(GATE), status: 0 });
}

/// The threads of the worker's process.
fn threads(worker: &Worker) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", worker.process.id())).unwrap().count()
}

#[test]
fn a_thousand_queues_are_finished_at_the_same_time() {
    for properties in [0, 1] {
        let worker = Worker::start("");
        let mut client = worker.connect();
        held(&mut client, properties);
        let calls: Vec<_> = (1..=CALLS).map(|queue| client.ask(&Finish { queue: QueueId(queue) })).collect();
        others_are_served(&mut client);
        assert!(threads(&worker) < 200, "{} threads", threads(&worker));
        opened(&mut client);
        let answers = client.answers::<Waited>(&calls);
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|waited| waited.status == 0)));
        assert_eq!(client.finish(1), 0);
    }
}

#[test]
fn a_thousand_calls_wait_for_events_at_the_same_time() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    held(&mut client, 0);
    // Each call waits for two events: that of its own queue, and that of the next.
    let pair = |queue: u64| [event(queue), event(queue % CALLS + 1)].map(EventId).into_iter().collect();
    let calls: Vec<_> = (1..=CALLS).map(|queue| client.ask(&WaitForEvents { events: pair(queue) })).collect();
    others_are_served(&mut client);
    opened(&mut client);
    let answers = client.answers::<Waited>(&calls);
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|waited| waited.status == 0)));
    let told = answers.iter().flat_map(|answer| &answer.as_ref().unwrap().completions.done);
    assert_eq!(told.count() + client.notes.done.len(), CALLS as usize, "each end is told once");
}

#[test]
fn waits_beyond_the_threads_tell_of_what_failed() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    held(&mut client, 0);
    let calls: Vec<_> = (1..=CALLS)
        .map(|queue| client.ask(&WaitForEvents { events: [EventId(event(queue))].into_iter().collect() }))
        .collect();
    client.post(&SetUserEventStatus { event: EventId(GATE), status: -5 });
    let answers = client.answers::<Waited>(&calls);
    // CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
    let wrong = answers.iter().position(|answer| answer.as_ref().is_ok_and(|waited| waited.status != -14));
    assert_eq!(wrong, None);
}

#[test]
fn a_thousand_reads_are_waited_for_at_the_same_time() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    held(&mut client, 0);
    client.buffer(2, 64);
    for queue in 1..=CALLS {
        let (command, transfer) = (on(queue), TransferId(5000 + queue));
        client.post(&ReadBuffer { command, buffer: MemoryId(2), offset: 0, size: 64, transfer });
    }
    others_are_served(&mut client);
    opened(&mut client);
    client.until(|notes| notes.data.len() == CALLS as usize);
    assert!(client.notes.failed.is_empty());
}

#[test]
fn more_large_reads_than_threads_wait_for_their_turn() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    held(&mut client, 0);
    let size = 256 << 10;
    client.buffer(2, size);
    for queue in 1..=100 {
        let (command, transfer) = (on(queue), TransferId(5000 + queue));
        client.post(&ReadBuffer { command, buffer: MemoryId(2), offset: 0, size, transfer });
    }
    others_are_served(&mut client);
    opened(&mut client);
    client.until(|notes| notes.data.values().filter(|data| data.len() as u64 == size).count() == 100);
    assert!(client.notes.failed.is_empty());
}
