//! The client against a stand-in server: what is sent when, who reads, how things end.

mod stand_in;

use std::io::Write;
use std::time::{Duration, Instant};

use ropeway_abi::{CL_COMMAND_READ_BUFFER, CL_COMMAND_WRITE_BUFFER};
use ropeway_client::SERVER_LOST;
use ropeway_client::context::Context;
use ropeway_client::event::{Event, wait_for_all};
use ropeway_client::memory::Memory;
use ropeway_client::queue::Queue;
use ropeway_client::transfer::Part;
use ropeway_protocol::frame::{FrameHeader, REPLY};
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{Finish, ReadBuffer, ReadData, TransferReady, WaitForEvents, WriteBufferTransfer};
use ropeway_protocol::types::{Completions, EventDone};
use ropeway_protocol::{Call, Post, decode, encode_note};

use stand_in::{ALONE, WITH_EVENT, connect, target, to_bytes};

#[test]
fn a_finish_takes_along_what_was_posted_before_and_brings_the_ends_of_events() {
    let (_context, queue, server) = connect(|mut peer| {
        let mut events = Vec::new();
        while let Some(frame) = peer.next() {
            if frame.header.opcode == ropeway_protocol::messages::Marker::OPCODE {
                let marker: ropeway_protocol::messages::Marker = decode(&frame.body).unwrap();
                events.extend(marker.command.event);
            } else if frame.header.opcode == Finish::OPCODE {
                let done = events.drain(..).map(|event| EventDone { event, status: 0, times: None });
                peer.waited(frame.header.call, done.collect());
            }
        }
    });
    let events: Vec<_> = (0..100).map(|_| queue.enqueue_marker(WITH_EVENT).unwrap().unwrap()).collect();
    queue.finish().unwrap();
    assert!(events.iter().all(|e| e.status() == 0));
    drop(events);
    drop((queue, _context));
    drop(server);
}

#[test]
fn a_large_write_waits_to_be_asked_for_and_a_large_read_arrives_in_pieces() {
    const SIZE: usize = 3 * MAX_EAGER + 17;
    let pattern = |seed: usize| (0..SIZE).map(|i| (i * 7 + seed) as u8).collect::<Vec<_>>();
    let (context, queue, server) = connect(move |mut peer| {
        let mut stored = Vec::new();
        while let Some(frame) = peer.next() {
            match frame.header.opcode {
                WriteBufferTransfer::OPCODE => {
                    let write: WriteBufferTransfer = decode(&frame.body).unwrap();
                    peer.note(&TransferReady { transfer: write.transfer }, &[]);
                }
                op if op == ropeway_protocol::messages::TransferData::OPCODE => stored.extend(frame.tail),
                ReadBuffer::OPCODE => {
                    let read: ReadBuffer = decode(&frame.body).unwrap();
                    for (index, chunk) in stored.chunks(100_000).enumerate() {
                        let offset = (index * 100_000) as u64;
                        peer.note(&ReadData { transfer: read.transfer, offset }, chunk);
                    }
                }
                Finish::OPCODE => peer.waited(frame.header.call, vec![]),
                _ => {}
            }
        }
    });
    let buffer = Memory::buffer(&context, 1, SIZE, None, None).unwrap();
    queue.enqueue_write(Part::Bytes(&buffer, 0), Box::new(pattern(3)), true, ALONE, CL_COMMAND_WRITE_BUFFER).unwrap();
    let (bytes, into) = target(SIZE);
    queue.enqueue_read(Part::Bytes(&buffer, 0), into, true, ALONE, CL_COMMAND_READ_BUFFER).unwrap();
    assert!(*bytes.lock().unwrap() == pattern(3));

    // Nobody waits: the background I/O thread sends what is asked for, and finish waits for what is still to come.
    let (bytes, into) = target(SIZE);
    queue.enqueue_read(Part::Bytes(&buffer, 0), into, false, ALONE, CL_COMMAND_READ_BUFFER).unwrap();
    queue.finish().unwrap();
    assert!(*bytes.lock().unwrap() == pattern(3));
    drop((buffer, queue, context));
    drop(server);
}

#[test]
fn threads_that_wait_at_the_same_time_all_get_their_answers() {
    let (context, queue, server) = connect(|mut peer| {
        // Answers pairs of waits in the opposite order.
        let mut held: Option<(u32, WaitForEvents)> = None;
        while let Some(frame) = peer.next() {
            if frame.header.opcode != WaitForEvents::OPCODE {
                continue;
            }
            let wait: WaitForEvents = decode(&frame.body).unwrap();
            let done = |wait: &WaitForEvents| {
                wait.events.0.iter().map(|event| EventDone { event: *event, status: 0, times: None }).collect()
            };
            match held.take() {
                None => held = Some((frame.header.call, wait)),
                Some((first, first_wait)) => {
                    peer.waited(frame.header.call, done(&wait));
                    peer.waited(first, done(&first_wait));
                }
            }
        }
    });
    for _ in 0..200 {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let event = queue.enqueue_marker(WITH_EVENT).unwrap().unwrap();
                    wait_for_all(&[&event]).unwrap();
                    assert_eq!(event.status(), 0);
                });
            }
        });
    }
    drop((queue, context));
    drop(server);
}

#[test]
fn a_lost_server_ends_every_wait_and_every_event() {
    let (context, queue, server) = connect(|mut peer| {
        // Dies at the first call.
        while let Some(frame) = peer.next() {
            if frame.header.call != 0 {
                return;
            }
        }
    });
    let event = queue.enqueue_marker(WITH_EVENT).unwrap().unwrap();
    let (_bytes, into) = target(8);
    let buffer = Memory::buffer(&context, 1, 8, None, None).unwrap();
    let read =
        queue.enqueue_read(Part::Bytes(&buffer, 0), into, false, WITH_EVENT, CL_COMMAND_READ_BUFFER).unwrap().unwrap();
    let begin = Instant::now();
    assert_eq!(queue.finish(), Err(SERVER_LOST));
    assert_eq!(event.status(), SERVER_LOST);
    assert_eq!(read.status(), SERVER_LOST);
    assert!(wait_for_all(&[&event, &read]).is_err());
    assert_eq!(queue.enqueue_marker(ALONE).unwrap_err(), SERVER_LOST);
    assert!(begin.elapsed() < Duration::from_secs(2), "nobody waits long for a dead server");
    assert!(!queue.device().is_available());
    server.join().unwrap();
}

/// A wait that was not answered fails only for commands that have not ended.
#[test]
fn a_command_that_has_ended_well_is_waited_for_although_its_server_is_lost() {
    let (context, queue, server) = connect(|mut peer| {
        while let Some(frame) = peer.next() {
            if frame.header.opcode == WaitForEvents::OPCODE {
                let wait: WaitForEvents = decode(&frame.body).unwrap();
                let done = vec![EventDone { event: wait.events.0[0], status: 0, times: None }];
                peer.note(&ropeway_protocol::messages::Completed { completions: Completions { done } }, &[]);
                return;
            }
        }
    });
    let ends = queue.enqueue_marker(WITH_EVENT).unwrap().unwrap();
    let never_ends = queue.enqueue_marker(WITH_EVENT).unwrap().unwrap();
    assert_eq!(wait_for_all(&[&ends]), Ok(()));
    assert_eq!(ends.status(), 0);
    assert!(wait_for_all(&[&never_ends]).is_err());
    assert_eq!(never_ends.status(), SERVER_LOST);
    drop((context, queue));
    server.join().unwrap();
}

#[test]
fn a_user_event_set_by_another_thread_ends_a_wait() {
    let (context, queue, server) = connect(|mut peer| while peer.next().is_some() {});
    let user = Event::user(&context).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| wait_for_all(&[&user]).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        user.set_status(0).unwrap();
    });
    assert!(user.set_status(0).is_err(), "a user event is set once");
    drop((user, queue, context));
    drop(server);
}

#[test]
fn callbacks_come_without_anybody_waiting() {
    let (context, queue, server) = connect(|mut peer| {
        while let Some(frame) = peer.next() {
            if frame.header.opcode == ropeway_protocol::messages::Subscribe::OPCODE {
                let s: ropeway_protocol::messages::Subscribe = decode(&frame.body).unwrap();
                let done = vec![EventDone { event: s.event, status: -5, times: None }];
                let completions = Completions { done };
                peer.note(&ropeway_protocol::messages::Completed { completions }, &[]);
            }
        }
    });
    for _ in 0..20 {
        let event = queue.enqueue_marker(WITH_EVENT).unwrap().unwrap();
        let (sender, called) = std::sync::mpsc::channel();
        event.on_status(0, Box::new(move |status| sender.send(status).unwrap()));
        assert_eq!(called.recv_timeout(Duration::from_secs(5)), Ok(-5));
        // Long enough for the background I/O thread to go to sleep now and then.
        std::thread::sleep(Duration::from_millis(3));
    }
    drop((queue, context));
    drop(server);
}

#[test]
fn a_server_that_pauses_within_a_frame_is_waited_for_as_between_frames() {
    const SIZE: usize = 100_000;
    let (context, queue, server) = connect(|mut peer| {
        while let Some(frame) = peer.next() {
            if frame.header.opcode == ReadBuffer::OPCODE {
                let read: ReadBuffer = decode(&frame.body).unwrap();
                let mut note = Vec::new();
                encode_note(&mut note, &ReadData { transfer: read.transfer, offset: 0 }, SIZE);
                note.resize(note.len() + SIZE, 7);
                // Longer than a thread waits before it pings the server.
                for part in note.chunks(note.len() / 2 + 1) {
                    peer.0.write_all(part).unwrap();
                    std::thread::sleep(Duration::from_secs(7));
                }
            }
        }
    });
    let buffer = Memory::buffer(&context, 1, SIZE, None, None).unwrap();
    let (bytes, into) = target(SIZE);
    queue.enqueue_read(Part::Bytes(&buffer, 0), into, true, ALONE, CL_COMMAND_READ_BUFFER).unwrap();
    assert_eq!(*bytes.lock().unwrap(), [7; SIZE]);
    drop((buffer, queue, context));
    drop(server);
}

#[test]
fn a_server_that_gives_no_sign_of_life_is_lost_in_the_end() {
    let (context, queue, server) = connect(|peer| {
        // TCP sees the server as alive, but the server never answers.
        std::thread::sleep(Duration::from_secs(40));
        drop(peer);
    });
    let begin = Instant::now();
    // One thread waits for an answer, another for being asked for its bytes.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let buffer = Memory::buffer(&context, 1, 2 * MAX_EAGER, None, None).unwrap();
            let outcome = queue.enqueue_write(
                Part::Bytes(&buffer, 0),
                Box::new(vec![0; 2 * MAX_EAGER]),
                true,
                ALONE,
                CL_COMMAND_WRITE_BUFFER,
            );
            assert_eq!(outcome.unwrap_err(), SERVER_LOST);
        });
        assert_eq!(queue.finish(), Err(SERVER_LOST));
    });
    assert!(begin.elapsed() < Duration::from_secs(35), "a wait has an end");
    drop((queue, context));
    drop(server);
}

#[test]
fn nothing_on_another_queue_overtakes_a_blocking_write_that_returned_early() {
    use ropeway_protocol::messages::{CopyBuffer, Marker, WriteBuffer};
    let (sender, seen) = std::sync::mpsc::channel();
    let (context, queue, server) = connect(move |mut peer| {
        while let Some(frame) = peer.next() {
            match frame.header.opcode {
                WriteBuffer::OPCODE => {
                    let write: WriteBuffer = decode(&frame.body).unwrap();
                    sender.send(("write", write.command)).unwrap();
                }
                Marker::OPCODE => {
                    sender.send(("marker", decode::<Marker>(&frame.body).unwrap().command)).unwrap();
                }
                CopyBuffer::OPCODE => {
                    sender.send(("copy", decode::<CopyBuffer>(&frame.body).unwrap().command)).unwrap();
                }
                _ => {}
            }
        }
    });
    let buffer = Memory::buffer(&context, 1, 8, None, None).unwrap();
    let write = || {
        queue
            .enqueue_write(Part::Bytes(&buffer, 0), Box::new(vec![0; 4]), true, ALONE, CL_COMMAND_WRITE_BUFFER)
            .unwrap()
    };
    let next = || {
        context.devices()[0].connection().flush().unwrap();
        seen.recv_timeout(Duration::from_secs(5)).unwrap()
    };
    write();
    assert_eq!(next().1.event, None, "with one in-order queue there is nothing to overtake it");

    // The marker stands for what was written before there was another queue.
    let other = Queue::new(&context, &context.devices()[0], 0).unwrap();
    let (kind, marker) = next();
    assert_eq!(kind, "marker");
    other.enqueue_copy((&buffer, 0), (&buffer, 4), 4, ALONE).unwrap();
    assert_eq!(next().1.waits.0.as_slice(), marker.event.as_slice());

    write();
    let (_, written) = next();
    assert!(written.event.is_some());
    other.enqueue_copy((&buffer, 0), (&buffer, 4), 4, ALONE).unwrap();
    assert_eq!(
        next().1.waits.0.as_slice(),
        written.event.as_slice(),
        "only the latest write of an in-order queue counts"
    );
    queue.enqueue_copy((&buffer, 0), (&buffer, 4), 4, ALONE).unwrap();
    assert!(next().1.waits.0.is_empty(), "its own queue keeps its order");

    // Another context has other memory, and its commands cannot wait for this one's events.
    let elsewhere = Context::new(context.devices().to_vec(), None).unwrap();
    let apart = Queue::new(&elsewhere, &elsewhere.devices()[0], 0).unwrap();
    let its_buffer = Memory::buffer(&elsewhere, 1, 8, None, None).unwrap();
    apart.enqueue_copy((&its_buffer, 0), (&its_buffer, 4), 4, ALONE).unwrap();
    assert!(next().1.waits.0.is_empty());
    drop((its_buffer, apart, elsewhere));
    drop((buffer, other, queue, context));
    drop(server);
}

#[test]
fn no_memory_is_put_where_a_lying_server_says() {
    use ropeway_protocol::messages::{ReleaseMemory, SvmAlloc};
    let (sender, released) = std::sync::mpsc::channel();
    let (context, queue, server) = connect(move |mut peer| {
        let lies = [0, 1, u64::MAX, 0x1234_5678, 1 << 63, u64::MAX - 4095];
        let mut asked = 0;
        while let Some(frame) = peer.next() {
            if frame.header.opcode == SvmAlloc::OPCODE {
                let body = to_bytes(&Ok::<u64, i32>(lies[asked % lies.len()]));
                asked += 1;
                let header = FrameHeader { opcode: REPLY, call: frame.header.call, body: body.len() as u32, tail: 0 };
                peer.0.write_all(&header.to_bytes()).unwrap();
                peer.0.write_all(&body).unwrap();
            } else if frame.header.opcode == ReleaseMemory::OPCODE {
                sender.send(()).unwrap();
            }
        }
    });
    let tried = std::cell::RefCell::new(Vec::new());
    let outcome = context.svm_alloc(1, 100, 64, |address, wanted| {
        let ropeway_client::host::Wanted::Own(len) = wanted else { panic!("nothing is shared") };
        tried.borrow_mut().push((address, len));
        None
    });
    assert_eq!(outcome, Err(ropeway_abi::CL_MEM_OBJECT_ALLOCATION_FAILURE));
    // An address that is no multiple of the page size is not even tried.
    assert!(tried.borrow().iter().all(|(address, len)| *address != 0 && address % 4096 == 0 && *len == 4096));
    assert!(matches!(context.svm_region(0x1000, 1), Ok(None)));
    queue.flush().unwrap();
    for _ in 0..16 {
        released.recv_timeout(Duration::from_secs(5)).expect("each rejected allocation is given back");
    }
    drop((queue, context));
    drop(server);
}

#[test]
fn a_server_cannot_fill_the_memory_with_errors_that_nobody_takes() {
    use ropeway_protocol::messages::{ContextError, CreateContext};
    const TEXT: usize = 1 << 10;
    let (first_context, queue, server) = connect(|mut peer| {
        let mut context = None;
        while let Some(frame) = peer.next() {
            match frame.header.opcode {
                CreateContext::OPCODE => context = Some(decode::<CreateContext>(&frame.body).unwrap().context),
                Finish::OPCODE => {
                    for _ in 0..20_000 {
                        let context = context.expect("it was made before");
                        peer.note(&ContextError { context, text: "x".repeat(TEXT) }, &[]);
                    }
                    peer.waited(frame.header.call, vec![]);
                }
                _ => {}
            }
        }
    });
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let told = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&told);
    let listener = move |_: &str| {
        // The first is held until all have come.
        let _ = held.lock().unwrap().recv();
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    };
    let devices = first_context.devices().to_vec();
    let context = Context::new(devices, Some(std::sync::Arc::new(listener))).unwrap();
    queue.finish().unwrap();
    drop(release);
    // Callbacks come one after the other.
    let user = Event::user(&context).unwrap();
    let (sender, called) = std::sync::mpsc::channel();
    user.on_status(0, Box::new(move |status| sender.send(status).unwrap()));
    user.set_status(0).unwrap();
    assert_eq!(called.recv_timeout(Duration::from_secs(60)), Ok(0));
    assert_eq!(told.load(std::sync::atomic::Ordering::SeqCst), 1024);
    drop((user, context, queue, first_context));
    drop(server);
}
