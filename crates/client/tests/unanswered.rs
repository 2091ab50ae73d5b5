//! A server that does not answer holds up the thread that needs its answer, and no other.

mod stand_in;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ropeway_abi::CL_COMMAND_WRITE_BUFFER;
use ropeway_client::memory::Memory;
use ropeway_client::transfer::Part;
use ropeway_protocol::ids::EventId;
use ropeway_protocol::messages::{Completed, ConnectPeer, Expect, Finish, PeerState, WaitForEvents};
use ropeway_protocol::types::{BufferRect, Completions, EventDone};
use ropeway_protocol::{Call, Post, decode};

use stand_in::{ALONE, Connected, Peer, Serve, connect_all};

/// Longer than anything takes that does not wait for an answer.
const LONG: Duration = Duration::from_secs(5);

/// The size of a memory object; half of it, in rows, is more than the rows of a rectangle that are tracked separately.
const SIZE: usize = 1 << 10;

/// The messages that a stand-in server leaves unanswered until it is told to answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unanswered {
    /// Requests to connect to a peer.
    Connecting,
    /// Questions of what has ended, from the first failed arrival on.
    Ends,
}

/// A server that says when it has been asked for what it leaves unanswered, and answers when it is told to.
fn server(leaves: Unanswered, asked: Sender<()>, answer: Receiver<()>) -> Serve {
    Box::new(move |mut peer: Peer| {
        let hold = || {
            let _ = asked.send(());
            let _ = answer.recv_timeout(4 * LONG);
        };
        let mut arrival: Option<EventId> = None;
        while let Some(frame) = peer.next() {
            match frame.header.opcode {
                ConnectPeer::OPCODE => {
                    let wanted: ConnectPeer = decode(&frame.body).unwrap();
                    let connected = leaves != Unanswered::Connecting;
                    if !connected {
                        hold();
                    }
                    peer.note(&PeerState { peer: wanted.peer, connected, text: "a test".into() }, &[]);
                }
                Expect::OPCODE => arrival = Some(decode::<Expect>(&frame.body).unwrap().event),
                Finish::OPCODE => {
                    let failed = arrival.take().map(|event| EventDone { event, status: -5, times: None });
                    if let Some(failed) = failed {
                        peer.note(&Completed { completions: Completions { done: vec![failed] } }, &[]);
                    }
                    peer.waited(frame.header.call, vec![]);
                }
                WaitForEvents::OPCODE => {
                    if leaves == Unanswered::Ends {
                        hold();
                    }
                    peer.waited(frame.header.call, vec![]);
                }
                _ if frame.header.call != 0 => peer.waited(frame.header.call, vec![]),
                _ => {}
            }
        }
    })
}

/// Two servers, with the channel on which they report that they were asked, and the channels that tell them to answer.
fn two(leaves: Unanswered) -> (Connected, Receiver<()>, [Sender<()>; 2]) {
    let (asked, was_asked) = channel();
    let (first, answer_first) = channel();
    let (second, answer_second) = channel();
    let servers = vec![server(leaves, asked.clone(), answer_first), server(leaves, asked, answer_second)];
    (connect_all(servers), was_asked, [first, second])
}

/// Memory that the first server's device has written.
fn written(connected: &Connected) -> std::sync::Arc<Memory> {
    let memory = Memory::buffer(&connected.context, 1, SIZE, None, None).unwrap();
    write(connected, 0, &memory);
    memory
}

fn write(connected: &Connected, queue: usize, memory: &Memory) {
    let (part, bytes) = (Part::Bytes(memory, 0), Box::new(vec![1; SIZE]));
    connected.queues[queue].enqueue_write(part, bytes, false, ALONE, CL_COMMAND_WRITE_BUFFER).unwrap();
}

/// Has one thread enqueue a command of the second server that needs contents of the first one; while that waits for an
/// answer, other threads' commands must go on.
fn others_go_on(
    connected: &Connected,
    needed: &Memory,
    other: &Memory,
    was_asked: &Receiver<()>,
    answers: [Sender<()>; 2],
) {
    let copy = written(connected);
    let elsewhere = Memory::buffer(&connected.context, 1, SIZE, None, None).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| connected.queues[1].enqueue_copy((needed, 0), (&elsewhere, 0), SIZE, ALONE));
        was_asked.recv_timeout(LONG).expect("the thread needs an answer");
        let (done, is_done) = channel();
        scope.spawn(move || {
            connected.queues[0].enqueue_copy((other, 0), (&copy, 0), SIZE, ALONE).unwrap();
            let own = Memory::buffer(&connected.context, 1, SIZE, None, None).unwrap();
            write(connected, 1, &own);
            connected.queues[1].enqueue_marker(ALONE).unwrap();
            let _ = done.send(());
        });
        let went_on = is_done.recv_timeout(LONG);
        assert!(!waits.is_finished(), "it waits for what nobody has answered");
        // All threads must end, whatever the outcome.
        drop(answers);
        assert!(went_on.is_ok(), "other threads' commands waited, too");
        let _ = waits.join().unwrap();
    });
}

#[test]
fn a_pair_that_does_not_connect_holds_up_nobody_else() {
    let (connected, was_asked, answers) = two(Unanswered::Connecting);
    let needed = written(&connected);
    // Commands that use the same memory where it already is must go on as well.
    others_go_on(&connected, &needed, &needed, &was_asked, answers);
}

#[test]
fn asking_what_came_of_an_event_holds_up_nobody_else() {
    let (connected, was_asked, answers) = two(Unanswered::Ends);
    let needed = written(&connected);
    // Every other byte is replaced: the others come from the first server.
    let rows = SIZE as u64 / 2;
    let rect = BufferRect { origin: [0; 3], region: [1, rows, 1], row_pitch: 2, slice_pitch: SIZE as u64 };
    let bytes = Box::new(vec![2; SIZE / 2]);
    connected.queues[1].enqueue_write(Part::Rect(&needed, rect), bytes, false, ALONE, CL_COMMAND_WRITE_BUFFER).unwrap();
    // The client is told that the transfer from the first server has failed, but not how the events that it waited for
    // ended.
    connected.queues[1].finish().unwrap();
    others_go_on(&connected, &needed, &written(&connected), &was_asked, answers);
}
