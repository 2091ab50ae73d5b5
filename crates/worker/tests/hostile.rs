//! Messages that no honest client sends: each ends the session with a reason, and does nothing worse.

mod support;

use std::time::Duration;

use ropeway_protocol::content::ContentHash;
use ropeway_protocol::frame::FrameHeader;
use ropeway_protocol::ids::{
    CommandBufferId, ContextId, EventId, KernelId, MemoryId, QueueId, SemaphoreId, TransferId,
};
use ropeway_protocol::messages::*;
use ropeway_protocol::recording::Recorded;
use ropeway_protocol::types::*;
use support::{Client, Worker, on};

#[test]
fn worker_process() {
    support::be_worker();
}

/// Lets `client` do its worst; the worker must end on its own, with a reason that contains `reason`.
/// `reason` may be several, separated by bars.
fn refused(reason: &str, worst: impl FnOnce(&mut Client) -> &mut Client) {
    let mut worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0).buffer(1, 1000);
    worst(&mut client);
    client.until_closed();
    let closing = client.notes.closing.take().expect("the worker says why");
    assert!(reason.split('|').any(|reason| closing.contains(reason)), "{closing}");
    assert!(worker.ended_within(Duration::from_secs(2)));
    let status = worker.process.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn frames_that_are_none() {
    refused("flags", |c| c.raw(&[0xFF; 64]));
    refused("no message has opcode", |c| c.raw(&FrameHeader { opcode: 9999, call: 0, body: 0, tail: 0 }.to_bytes()));
    refused("over the limit", |c| c.raw(&FrameHeader { opcode: 41, call: 0, body: u32::MAX, tail: 0 }.to_bytes()));
    refused("does not decode", |c| {
        c.raw(&FrameHeader { opcode: 41, call: 0, body: 3, tail: 0 }.to_bytes()).raw(&[0xFF; 3])
    });
    refused("call number", |c| c.raw(&FrameHeader { opcode: 64, call: 0, body: 1, tail: 0 }.to_bytes()).raw(&[1]));
}

#[test]
fn names_that_do_not_exist_or_exist_twice() {
    refused("does not exist", |c| c.post(&Flush { queue: QueueId(99) }));
    refused("does not exist", |c| c.launch(on(1), 5, 1));
    refused("does not exist", |c| c.launch(on(77), 5, 1));
    refused("does not exist", |c| c.post(&ReleaseEvent { event: EventId(3) }));
    refused("does not exist", |c| c.post(&CreateContext { context: ContextId(2), platform: 7, devices: vec![0] }));
    refused("does not exist", |c| c.post(&CreateContext { context: ContextId(2), platform: 0, devices: vec![] }));
    refused("exists already", |c| c.buffer(1, 10));
}

#[test]
fn ranges_outside_the_buffer() {
    let write = |offset| WriteBuffer { command: on(1), buffer: MemoryId(1), offset };
    refused("not within", |c| c.post_tail(&write(999), &[0; 2]));
    refused("not within", |c| c.post_tail(&write(u64::MAX), &[0; 2]));
    let read = |offset, size| ReadBuffer { command: on(1), buffer: MemoryId(1), offset, size, transfer: TransferId(1) };
    refused("not within", |c| c.post(&read(0, 1 << 60)));
    refused("not within", |c| c.post(&read(u64::MAX - 3, 8)));
}

#[test]
fn regions_and_parts_outside_the_buffer() {
    let rect = |origin, region, row_pitch, slice_pitch| BufferRect { origin, region, row_pitch, slice_pitch };
    let (buffer, transfer) = (MemoryId(1), TransferId(1));
    for rect in [
        rect([0, 0, 1], [10, 10, 10], 10, 100),
        rect([991, 0, 0], [10, 1, 1], 10, 10),
        rect([0, 1 << 63, 0], [1, 1, 1], 2, 2),
        rect([0, 0, u64::MAX], [1, 1, 1], u64::MAX, u64::MAX),
        rect([0, 0, 0], [1, 1, 1 << 60], 1, 16),
    ] {
        refused("not within|no region", |c| c.post(&ReadBufferRect { command: on(1), buffer, rect, transfer }));
        refused("not within|no region", |c| {
            c.post(&WriteBufferRectTransfer { command: on(1), buffer, rect, transfer })
        });
        refused("not within|no region", |c| {
            c.post(&CopyBufferRect {
                command: on(1),
                source: buffer,
                target: buffer,
                source_rect: rect,
                target_rect: rect,
            })
        });
    }
    for rect in [rect([0; 3], [0, 1, 1], 0, 0), rect([0; 3], [10, 2, 1], 5, 10), rect([0; 3], [10, 2, 2], 10, 10)] {
        refused("no region", |c| c.post(&ReadBufferRect { command: on(1), buffer, rect, transfer }));
    }
    let whole = rect([0; 3], [10, 10, 10], 10, 100);
    refused("1000 in a write", |c| c.post_tail(&WriteBufferRect { command: on(1), buffer, rect: whole }, &[0; 999]));
    let (memory, flags) = (MemoryId(2), 0);
    let part = |origin, size| CreateSubBuffer { memory, parent: buffer, flags, origin, size };
    refused("not within", |c| c.post(&part(999, 2)));
    refused("not within", |c| c.post(&part(u64::MAX, 2)));
    refused("does not exist", |c| c.post(&CreateSubBuffer { parent: MemoryId(9), ..part(0, 2) }));
    refused("exists already", |c| c.post(&CreateSubBuffer { memory: buffer, ..part(0, 128) }));
    refused("does not exist", |c| c.post(&MigrateMemory { command: on(1), memory: vec![memory], flags: 0 }));
}

#[test]
fn transfers_that_are_none() {
    refused("does not exist", |c| c.post_tail(&TransferData { transfer: TransferId(1), offset: 0 }, &[0; 100]));
    refused("before it was asked for", |c| {
        c.post(&CreateUserEvent { event: EventId(1), context: ContextId(1) });
        let (buffer, transfer) = (MemoryId(1), TransferId(1));
        let command = support::command(1, None, &[1]);
        c.post(&WriteBufferTransfer { command, buffer, offset: 0, size: 100, transfer });
        c.post_tail(&TransferData { transfer, offset: 0 }, &[0; 100])
    });
    refused("not what comes next", |c| {
        let (buffer, context, transfer) = (MemoryId(2), ContextId(1), TransferId(1));
        let initial = InitialContents::Transfer(transfer);
        c.post(&CreateBuffer { buffer, context, flags: 1, size: 100, initial });
        c.post_tail(&TransferData { transfer, offset: 0 }, &[0; 101])
    });
    let hash = ContentHash::of(b"two pieces");
    refused("not the next one", |c| {
        c.post_tail(&PutContent { hash, total: 10, offset: 0 }, b"two pi");
        // The total is smaller than the bytes received so far.
        c.post_tail(&PutContent { hash, total: 4, offset: 6 }, b"eces")
    });
    refused("not the next one", |c| {
        c.post_tail(&PutContent { hash, total: 10, offset: 0 }, b"two pi");
        c.post_tail(&PutContent { hash, total: 11, offset: 6 }, b"eces!")
    });
    refused("not theirs", |c| c.post_tail(&PutContent { hash: ContentHash([0; 32]), total: 4, offset: 0 }, b"evil"));
}

#[test]
fn command_buffers_that_cannot_be() {
    let begin = |c: &mut Client| {
        c.post(&CreateCommandBuffer { commands: CommandBufferId(1), queue: QueueId(1) });
    };
    let record = |waits: &[u32], action| Record { commands: CommandBufferId(1), waits: waits.to_vec(), action };
    refused("does not exist", |c| c.post(&CreateCommandBuffer { commands: CommandBufferId(1), queue: QueueId(9) }));
    refused("does not exist", |c| c.post(&record(&[], Recorded::Barrier)));
    refused("does not exist", |c| c.post(&Replay { command: on(1), commands: CommandBufferId(1) }));
    refused("not before it", |c| {
        begin(c);
        c.post(&record(&[0], Recorded::Barrier))
    });
    refused("not before it", |c| {
        begin(c);
        c.post(&record(&[], Recorded::Barrier)).post(&record(&[u32::MAX], Recorded::Barrier))
    });
    refused("does not exist", |c| {
        begin(c);
        let range = NdRange { dims: 1, offset: None, global: [1, 0, 0], local: None };
        c.post(&record(&[], Recorded::Kernel { kernel: KernelId(5), range }))
    });
    refused("not within", |c| {
        begin(c);
        let (buffer, offset, size) = (MemoryId(1), u64::MAX - 3, 8);
        c.post(&record(&[], Recorded::FillBuffer { buffer, pattern: &[0; 4], offset, size }))
    });
}

#[test]
fn semaphores_that_cannot_be() {
    let (semaphore, semaphores) = (SemaphoreId(1), vec![SemaphoreId(1), SemaphoreId(2)]);
    refused("does not exist", |c| c.post(&CreateSemaphore { semaphore, context: ContextId(9) }));
    refused("does not exist", |c| c.post(&ReleaseSemaphore { semaphore }));
    refused("exists already", |c| {
        let create = CreateSemaphore { semaphore, context: ContextId(1) };
        c.post(&create).post(&create)
    });
    let begin = |c: &mut Client| {
        c.post(&CreateSemaphore { semaphore, context: ContextId(1) });
    };
    refused("does not exist", |c| {
        begin(c);
        c.post(&SignalSemaphores { command: on(1), semaphores: semaphores.clone() })
    });
    refused("does not exist", |c| {
        begin(c);
        c.post(&WaitSemaphores { command: on(1), semaphores: semaphores.clone() })
    });
    refused("does not exist", |c| {
        begin(c);
        c.post(&WaitSemaphores { command: on(9), semaphores: vec![semaphore] })
    });
}

/// Arbitrary bytes passed as handles must not reach the driver.
#[test]
fn bytes_where_a_buffer_belongs() {
    let worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0);
    client.build(1, "kernel void f(global int *p, local int *l) { *p = 1; }");
    client.kernel(1, 1, "f");
    let garbage = 0xDEAD_BEEF_DEAD_BEEF_u64.to_le_bytes();
    for value in [ArgValue::Bytes(&garbage), ArgValue::Local(64)] {
        client.post(&SetKernelArg { kernel: KernelId(1), index: 0, value });
        client.arg(1, 1, ArgValue::Local(64)).launch(on(1), 1, 1);
        assert!(client.finish(1) < 0);
    }
}

/// A client disappears in the middle of a tail.
#[test]
fn a_frame_that_never_ends() {
    let mut worker = Worker::start("");
    let mut client = worker.connect();
    client.begin(0).buffer(1, 1000);
    client.raw(&FrameHeader { opcode: 41, call: 0, body: 4, tail: 1000 }.to_bytes()).raw(&[1, 0, 0, 1]).send();
    drop(client);
    assert!(worker.ended_within(Duration::from_secs(2)));
}

#[test]
fn a_client_that_reads_nothing_is_told_only_so_much() {
    let mut worker = Worker::start("quota");
    let mut client = worker.connect();
    // The buffer is over the quota, so each read of it fails at once, and the client would be told of each failure.
    client.begin(0).buffer(1, 65 << 20);
    for transfer in 1..400_000 {
        let (command, transfer) = (on(1), TransferId(transfer));
        client.post(&ReadBuffer { command, buffer: MemoryId(1), offset: 0, size: 8, transfer });
    }
    std::thread::scope(|scope| {
        scope.spawn(|| client.send());
        assert!(worker.ended_within(Duration::from_secs(100)), "it goes on");
    });
}
