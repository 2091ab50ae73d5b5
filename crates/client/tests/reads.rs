//! Once the application is told that a read is over, nothing writes to its memory any more, whatever a server does.

mod stand_in;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ropeway_abi::CL_COMMAND_READ_BUFFER;
use ropeway_client::SERVER_LOST;
use ropeway_client::event::wait_for_all;
use ropeway_client::host::{HostTarget, addresses};
use ropeway_client::memory::Memory;
use ropeway_client::transfer::Part;
use ropeway_protocol::messages::{Completed, Finish, ReadBuffer, ReadData};
use ropeway_protocol::types::{Completions, EventDone};
use ropeway_protocol::{Call, Post, decode, encode_note};

use stand_in::{ALONE, Peer, WITH_EVENT, connect, connect_all, target};

/// The end of a command.
fn ended(read: &ReadBuffer, status: i32) -> Completions {
    let event = read.command.event.expect("the application wants an event");
    Completions { done: vec![EventDone { event, status, times: None }] }
}

#[test]
fn a_read_whose_event_has_failed_takes_no_more_bytes() {
    const SIZE: usize = 8;
    for by_note in [true, false] {
        let (context, queue, server) = connect(move |mut peer| {
            let mut failed: Option<ReadBuffer> = None;
            while let Some(frame) = peer.next() {
                match frame.header.opcode {
                    ReadBuffer::OPCODE => {
                        let read: ReadBuffer = decode(&frame.body).unwrap();
                        peer.note(&ReadData { transfer: read.transfer, offset: 0 }, &[1; SIZE / 2]);
                        if by_note {
                            peer.note(&Completed { completions: ended(&read, -5) }, &[]);
                        }
                        failed = Some(read);
                    }
                    Finish::OPCODE => {
                        // Bytes of a read that has failed: they belong nowhere.
                        if let Some(read) = &failed {
                            let offset = SIZE as u64 / 2;
                            peer.note(&ReadData { transfer: read.transfer, offset }, &[2; SIZE / 2]);
                        }
                        peer.waited(frame.header.call, vec![]);
                    }
                    _ if frame.header.call != 0 => {
                        let done = failed.as_ref().map(|read| ended(read, -5).done);
                        peer.waited(frame.header.call, done.unwrap_or_default());
                    }
                    _ => {}
                }
            }
        });
        let buffer = Memory::buffer(&context, 1, SIZE, None, None).unwrap();
        let (bytes, into) = target(SIZE);
        let part = Part::Bytes(&buffer, 0);
        let event = queue.enqueue_read(part, into, false, WITH_EVENT, CL_COMMAND_READ_BUFFER).unwrap().unwrap();
        assert!(wait_for_all(&[&event]).is_err());
        assert_eq!(event.status(), -5);
        let own_again = std::mem::take(&mut *bytes.lock().unwrap());
        assert_eq!(own_again, [[1; SIZE / 2], [0; SIZE / 2]].concat(), "the memory is given back with the event's end");
        queue.finish().unwrap();
        assert!(bytes.lock().unwrap().is_empty());
        drop((buffer, queue, context));
        drop(server);
    }
}

/// Memory that lets a test look while a thread is writing into it.
struct Held {
    bytes: Vec<u8>,
    /// Notified when a thread is about to write.
    entered: Sender<()>,
    /// Notified when the thread may go on.
    go_on: Receiver<()>,
    given_back: Arc<AtomicBool>,
}

impl HostTarget for Held {
    fn size(&self) -> usize {
        self.bytes.len()
    }

    fn span(&self) -> std::ops::Range<usize> {
        addresses(&self.bytes)
    }

    fn run(&mut self, at: usize) -> &mut [u8] {
        let _ = self.entered.send(());
        // If the others wait for this thread, as they should, nobody sends, and this times out.
        let _ = self.go_on.recv_timeout(Duration::from_millis(500));
        self.bytes.get_mut(at..).unwrap_or_default()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.given_back.store(true, Ordering::SeqCst);
    }
}

/// Sends the first half of a read's only piece, and then nothing more.
fn stop_halfway(peer: &mut Peer, read: &ReadBuffer) {
    let tail = vec![1; read.size as usize];
    let mut frame = Vec::new();
    encode_note(&mut frame, &ReadData { transfer: read.transfer, offset: 0 }, tail.len());
    frame.extend_from_slice(&tail[..tail.len() / 2]);
    peer.0.write_all(&frame).unwrap();
}

#[test]
fn nobody_is_told_of_a_loss_while_a_thread_still_receives() {
    const SIZE: usize = 100_000;
    let mut connected = connect_all(vec![Box::new(|mut peer| {
        while let Some(frame) = peer.next() {
            if frame.header.opcode == ReadBuffer::OPCODE {
                stop_halfway(&mut peer, &decode(&frame.body).unwrap());
            }
        }
    })]);
    let queue = connected.queues.remove(0);
    let buffer = Memory::buffer(&connected.context, 1, SIZE, None, None).unwrap();
    let (entered, has_entered) = channel();
    let (release, go_on) = channel();
    let given_back = Arc::new(AtomicBool::new(false));
    let into = Held { bytes: vec![0; SIZE], entered, go_on, given_back: Arc::clone(&given_back) };
    let part = Part::Bytes(&buffer, 0);
    let event = queue.enqueue_read(part, Box::new(into), false, WITH_EVENT, CL_COMMAND_READ_BUFFER).unwrap().unwrap();
    let told_early: Mutex<Vec<&str>> = Mutex::default();
    std::thread::scope(|scope| {
        // Whichever way the application is told that the server is lost, it may free its memory at once.
        let (given_back, told_early) = (&given_back, &told_early);
        let told = |by: &'static str| {
            if !given_back.load(Ordering::SeqCst) {
                told_early.lock().unwrap().push(by);
            }
        };
        let receiver = scope.spawn(|| wait_for_all(&[&event]));
        has_entered.recv_timeout(Duration::from_secs(5)).expect("the data comes");
        let waits = scope.spawn(move || {
            assert_eq!(queue.finish(), Err(SERVER_LOST));
            told("clFinish");
            assert!(queue.enqueue_marker(ALONE).is_err());
        });
        connected.system.disconnect(&connected.system.servers()[0]);
        told("the one who loses it");
        assert_eq!(event.status(), SERVER_LOST);
        waits.join().unwrap();
        drop(release);
        assert!(receiver.join().unwrap().is_err());
        assert_eq!(event.status(), SERVER_LOST);
    });
    assert_eq!(*told_early.lock().unwrap(), Vec::<&str>::new(), "told before the memory was given back");
}
