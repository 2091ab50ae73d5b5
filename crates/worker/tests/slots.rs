//! Small transfers through slots that the client fills and empties.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ropeway_protocol::ids::{ContextId, EventId, MemoryId, TransferId};
use ropeway_protocol::messages::*;
use ropeway_protocol::slots;
use ropeway_transport::Arena;
use support::{Client, Worker, command, on};

#[test]
fn worker_process() {
    support::be_worker();
}

/// A client's side of its slots.
struct Slots {
    arena: Arc<Arena>,
    at: u64,
}

impl Slots {
    fn open(client: &mut Client) -> Self {
        let at = client.call(&OpenSlots { context: ContextId(1) }).unwrap();
        Self { arena: client.link.arena().unwrap().clone(), at }
    }

    fn is_in_use(&self, slot: u32) -> bool {
        self.arena.number(self.at + slots::number(slot)).unwrap().load(Ordering::Acquire) != 0
    }

    fn lend(&self, slot: u32) {
        self.arena.number(self.at + slots::number(slot)).unwrap().store(1, Ordering::Release);
    }

    fn fill(&self, slot: u32, bytes: &[u8]) {
        assert!(!self.is_in_use(slot));
        assert!(self.arena.copy_in(self.at + slots::place(slot), bytes));
        self.lend(slot);
    }

    fn bytes(&self, slot: u32, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        assert!(self.arena.copy_out(self.at + slots::place(slot), &mut bytes));
        bytes
    }
}

/// A write of buffer 1 on queue 1.
fn write(offset: u64, size: u64, slot: u32) -> WriteSlot {
    WriteSlot { command: on(1), buffer: MemoryId(1), offset, size, slot }
}

/// A read of buffer 1 on queue 1.
fn read(offset: u64, size: u64, slot: u32, transfer: u64) -> ReadSlot {
    ReadSlot { command: on(1), buffer: MemoryId(1), offset, size, slot, transfer: TransferId(transfer) }
}

/// From no byte's neighbour to a whole slot, at all places of a buffer: what is written is there, and nothing else is changed.
#[test]
fn bytes_go_through_slots_both_ways_and_not_over_the_link() {
    const SIZE: u64 = 3 << 20;
    let worker = Worker::start("pinned");
    let (mut client, _memory) = worker.connect_sharing();
    client.begin(0).buffer(1, SIZE);
    let mut model: Vec<u8> = (0..SIZE).map(|at| (at % 247) as u8).collect();
    client.write_large(on(1), 1, 1, &model);
    assert_eq!(client.finish(1), 0);
    let slots = Slots::open(&mut client);
    let before = client.link.traffic();
    let sizes = [1, 4095, 4096, slots::SIZE - 1, slots::SIZE];
    let turns = sizes.into_iter().flat_map(|size| [0, 1, 4097, SIZE - size].map(|offset| (size, offset)));
    let mut count = 0;
    for (turn, (size, offset)) in turns.enumerate() {
        let (turn, slot) = (turn as u64, turn as u32 % slots::COUNT);
        let bytes: Vec<u8> = (0..size).map(|at| (at * 7 + turn) as u8).collect();
        slots.fill(slot, &bytes);
        client.post(&write(offset, size, slot));
        model[offset as usize..(offset + size) as usize].copy_from_slice(&bytes);
        // It ends before the read does, which the worker sees when it is told of that one.
        let (from, len) = (offset.saturating_sub(3), size.min(SIZE - offset));
        let other = (slot + 1) % slots::COUNT;
        slots.lend(other);
        client.post(&read(from, len, other, 100 + turn));
        client.until(|notes| notes.slots_read.contains(&TransferId(100 + turn)));
        assert!(slots.bytes(other, len as usize) == model[from as usize..(from + len) as usize], "{size} at {offset}");
        count += 1;
        client.post(&read(0, 1, (slot + 2) % slots::COUNT, 1000 + turn));
        client.until(|notes| notes.slots_read.contains(&TransferId(1000 + turn)));
        assert!(!slots.is_in_use(slot) && !slots.is_in_use(other), "they are given back");
    }
    let now = client.link.traffic();
    let moved = now.0 - before.0 + now.1 - before.1;
    assert!(moved < count * 200, "{moved} bytes of messages for {count} turns");
    assert!(client.read(1, 1, 0, SIZE, 2) == model, "nothing else has changed");
    assert_eq!(client.call(&OpenSlots { context: ContextId(1) }).unwrap(), slots.at, "there is one set of them");
}

/// A write waits for its events, with its slot; one that fails gives the slot back and changes nothing.
#[test]
fn a_slot_is_the_servers_until_the_command_has_ended() {
    let worker = Worker::start("pinned");
    let (mut client, _memory) = worker.connect_sharing();
    client.begin(0).buffer(1, 1 << 20).buffer(2, 1 << 20);
    let slots = Slots::open(&mut client);
    for (event, status) in [(1, 0), (2, -7)] {
        client.post(&CreateUserEvent { context: ContextId(1), event: EventId(event) });
        slots.fill(3, &[event as u8; 100]);
        let waiting = command(1, Some(10 + event), &[event]);
        client.post(&WriteSlot { command: waiting, buffer: MemoryId(1), offset: 0, size: 100, slot: 3 });
        // Of another queue's point of view, the time in which the first command could have been carried out.
        client.call(&Ping { answer: 0 }).unwrap();
        assert!(slots.is_in_use(3), "event {event} has not ended");
        client.post(&SetUserEventStatus { event: EventId(event), status });
        let ended = client.wait(&[10 + event]);
        assert_eq!(ended == 0, status == 0, "{ended}");
        slots.lend(4);
        client.post(&read(0, 100, 4, 20 + event));
        client.until(|notes| {
            let transfer = TransferId(20 + event);
            notes.slots_read.contains(&transfer) || notes.failed.contains_key(&transfer)
        });
        assert!(!slots.is_in_use(3), "{event}");
        assert_eq!(slots.bytes(4, 100), [1; 100], "only the first has written");
        client.post(&read(0, 1, 5, 30 + event));
        client.until(|notes| notes.slots_read.contains(&TransferId(30 + event)));
    }
}

#[test]
fn devices_that_use_memory_where_it_is_need_none() {
    let worker = Worker::start("");
    let (mut client, _memory) = worker.connect_sharing();
    client.begin(0);
    assert!(client.call(&OpenSlots { context: ContextId(1) }).is_err());
}

/// Each ends its session, and none the worker in another way.
#[test]
fn who_names_slots_that_it_has_not_ends_its_session() {
    let whole = slots::SIZE;
    let cases: [(bool, &[WriteSlot]); 6] = [
        (false, &[write(0, 8, 0)]),
        (true, &[write(0, 8, slots::COUNT)]),
        (true, &[write(0, 8, u32::MAX)]),
        (true, &[write(0, whole + 1, 0)]),
        (true, &[write(2 * whole - 7, 8, 0)]),
        (true, &[write(u64::MAX, whole, 1)]),
    ];
    for (number, (opens, writes)) in cases.into_iter().enumerate() {
        for reads in [false, true] {
            let mut worker = Worker::start("pinned");
            let (mut client, _memory) = worker.connect_sharing();
            client.begin(0).buffer(1, 2 * whole);
            if opens {
                client.call(&OpenSlots { context: ContextId(1) }).unwrap();
            }
            for WriteSlot { offset, size, slot, .. } in writes {
                match reads {
                    true => client.post(&read(*offset, *size, *slot, 5)),
                    false => client.post(&write(*offset, *size, *slot)),
                };
            }
            client.send();
            assert!(worker.ended_within(Duration::from_secs(30)), "{number}");
            assert!(worker.process.wait().unwrap().code().is_some(), "{number}: it crashed");
        }
    }
}

/// A slot of a command that waits is nobody else's.
#[test]
fn who_uses_a_slot_twice_ends_its_session() {
    let mut worker = Worker::start("pinned");
    let (mut client, _memory) = worker.connect_sharing();
    client.begin(0).buffer(1, 1 << 20);
    Slots::open(&mut client);
    client.post(&CreateUserEvent { context: ContextId(1), event: EventId(1) });
    let command = command(1, None, &[1]);
    client.post(&WriteSlot { command, buffer: MemoryId(1), offset: 0, size: 8, slot: 2 });
    client.call(&Ping { answer: 0 }).unwrap();
    client.post(&read(0, 8, 2, 7));
    client.send();
    assert!(worker.ended_within(Duration::from_secs(30)));
    assert!(worker.process.wait().unwrap().code().is_some(), "it crashed");
}

/// What a client writes into a slot that the server uses is its own harm: the session goes on.
#[test]
fn who_writes_into_slots_in_use_harms_nobody() {
    let worker = Worker::start("pinned");
    let (mut client, _memory) = worker.connect_sharing();
    client.begin(0).buffer(1, slots::SIZE);
    let slots = Slots::open(&mut client);
    for turn in 0..200_u64 {
        let slot = turn as u32 % slots::COUNT;
        client.post(&write(0, slots::SIZE, slot));
        client.post(&read(0, slots::SIZE, (slot + 1) % slots::COUNT, turn));
        client.send();
        for slot in 0..slots::COUNT {
            assert!(slots.arena.copy_in(slots.at + slots::place(slot), &[turn as u8; 5000]));
            slots.lend(slot);
        }
        client.until(|notes| notes.slots_read.contains(&TransferId(turn)));
    }
    assert_eq!(client.finish(1), 0);
}
