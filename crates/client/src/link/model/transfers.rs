//! Bulk data: the application's memory is the library's while a read fills it or a write is sent from it, and not a
//! moment longer.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ropeway_model::shuttle::rand::{Rng, thread_rng};
use ropeway_protocol::Post;
use ropeway_protocol::ids::{EventId, MemoryId, QueueId, TransferId};
use ropeway_protocol::messages::{ReadBuffer, ReadData, TransferData, TransferReady, WriteBufferTransfer};
use ropeway_protocol::types::{Command, EventList, Status};

use super::server::{Frame, Server};
use super::{check, connect};
use crate::base::host::{HostSource, HostTarget};
use crate::base::modelled::atomic::{AtomicI32, AtomicUsize, Ordering};
use crate::base::modelled::thread;
use crate::base::modelled::{Mutex, lock};
use crate::base::status::{Result, SERVER_LOST};
use crate::link::completion::Completion;
use crate::link::connection::Connection;
use crate::link::transfers::{Incoming, Outgoing, Piece, Ticket, Transfers};

/// Bytes of a transfer: of two chunks and a part of a third.
const SIZE: usize = 11;

/// Memory of the application's: `SIZE` bytes at an address.
#[derive(Default)]
struct Host {
    address: usize,
    bytes: Mutex<Vec<u8>>,
    /// How many commands it is lent to.
    lent: AtomicUsize,
}

impl Host {
    fn new(address: usize, bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { address, bytes: Mutex::new(bytes), lent: AtomicUsize::new(0) })
    }

    fn lend(self: &Arc<Self>) -> Lent {
        self.lent.fetch_add(1, Ordering::SeqCst);
        Lent { host: Arc::clone(self), taken: OnceLock::new(), filled: vec![0; SIZE] }
    }

    fn is_lent(&self) -> bool {
        self.lent.load(Ordering::SeqCst) > 0
    }
}

/// It, while the library has it.
struct Lent {
    host: Arc<Host>,
    /// What is sent: the contents when the first byte is taken.
    taken: OnceLock<Vec<u8>>,
    /// What has been received, which is the application's when this is given back.
    filled: Vec<u8>,
}

/// To write from.
struct Source(Lent);

/// To read into.
struct Target(Lent);

impl HostSource for Source {
    fn size(&self) -> usize {
        SIZE
    }

    fn span(&self) -> Range<usize> {
        self.0.host.address..self.0.host.address + SIZE
    }

    fn run(&self, at: usize) -> &[u8] {
        assert!(self.0.host.is_lent(), "taken from memory that was given back");
        let taken = self.0.taken.get_or_init(|| lock(&self.0.host.bytes).clone());
        taken.get(at..).unwrap_or_default()
    }
}

impl HostTarget for Target {
    fn size(&self) -> usize {
        SIZE
    }

    fn span(&self) -> Range<usize> {
        self.0.host.address..self.0.host.address + SIZE
    }

    fn run(&mut self, at: usize) -> &mut [u8] {
        assert!(self.0.host.is_lent(), "written into memory that was given back");
        self.0.filled.get_mut(at..).unwrap_or_default()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.0.host.lent.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        *lock(&self.0.host.bytes) = std::mem::take(&mut self.0.filled);
        self.0.host.lent.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The bytes of a transfer.
fn pattern(transfer: TransferId) -> Vec<u8> {
    (0..SIZE).map(|at| (transfer.0 as usize * 20 + at) as u8).collect()
}

fn command(event: Option<EventId>) -> Command {
    Command { queue: QueueId(1), event, waits: EventList::default() }
}

/// Waits for the end of a transfer, after which the memory is the application's.
fn wait(connection: &Connection, ticket: &Ticket, host: &Host) -> Result<()> {
    let ended = connection.wait(|| ticket.ended());
    assert!(!host.is_lent(), "the wait is over: {ended:?}");
    match ended? {
        0 => Ok(()),
        status => Err(status),
    }
}

/// A blocking write.
fn write(connection: &Connection, transfer: TransferId, host: &Arc<Host>) -> Result<()> {
    let ticket = Ticket::new(None, None);
    connection.offer_outgoing(transfer, Outgoing::new(Box::new(Source(host.lend())), Arc::clone(&ticket), Vec::new()));
    let size = SIZE as u64;
    let posted = connection.post(&WriteBufferTransfer {
        command: command(None),
        buffer: MemoryId(1),
        offset: 0,
        size,
        transfer,
    });
    posted.and_then(|()| wait(connection, &ticket, host)).inspect_err(|_| assert!(!host.is_lent()))
}

/// A blocking read.
fn read(connection: &Connection, transfer: TransferId, host: &Arc<Host>) -> Result<()> {
    let ticket = begin_read(connection, transfer, host, None);
    wait(connection, &ticket, host)
}

fn begin_read(
    connection: &Connection,
    transfer: TransferId,
    host: &Arc<Host>,
    event: Option<(EventId, Arc<dyn Completion>)>,
) -> Arc<Ticket> {
    let (name, event) = event.unzip();
    let ticket = Ticket::new(event, None);
    connection.expect_incoming(transfer, Incoming::new(Box::new(Target(host.lend())), Arc::clone(&ticket)));
    let (buffer, size) = (MemoryId(1), SIZE as u64);
    // Where that fails the server is lost, and the read ends with it.
    let _ = connection.post(&ReadBuffer { command: command(name), buffer, offset: 0, size, transfer });
    ticket
}

/// What a server does with reads and writes, in small steps and in any order, until it has done `most` of them or the
/// client is gone.
fn serve(server: &Server, mut most: usize) -> Vec<(TransferId, Vec<u8>)> {
    let (mut asked, mut sending) = (Vec::new(), Vec::new());
    let mut received: Vec<(TransferId, Vec<u8>)> = Vec::new();
    while most > 0 {
        let choices = asked.len() + sending.len();
        if choices == 0 || server.has_next() && thread_rng().gen_bool(0.5) {
            match server.next() {
                Some(frame) => begin(&frame, &mut asked, &mut sending, &mut received),
                None => break,
            }
            continue;
        }
        most -= 1;
        let choice = thread_rng().gen_range(0..choices);
        if choice < asked.len() {
            let transfer = asked.swap_remove(choice);
            server.note(&TransferReady { transfer }, &[]);
        } else {
            let (transfer, sent) = &mut sending[choice - asked.len()];
            let bytes = &pattern(*transfer)[*sent..];
            let bytes = &bytes[..bytes.len().min(thread_rng().gen_range(1..=SIZE))];
            server.note(&ReadData { transfer: *transfer, offset: *sent as u64 }, bytes);
            *sent += bytes.len();
            sending.retain(|(_, sent)| *sent < SIZE);
        }
    }
    received
}

/// Takes in a message: what is to be asked for, what is to be sent, or bytes.
fn begin(
    frame: &Frame,
    asked: &mut Vec<TransferId>,
    sending: &mut Vec<(TransferId, usize)>,
    received: &mut Vec<(TransferId, Vec<u8>)>,
) {
    match frame.header.opcode {
        WriteBufferTransfer::OPCODE => asked.push(frame.body::<WriteBufferTransfer>().transfer),
        ReadBuffer::OPCODE => sending.push((frame.body::<ReadBuffer>().transfer, 0)),
        TransferData::OPCODE => {
            let data: TransferData = frame.body();
            if data.offset == 0 {
                received.push((data.transfer, Vec::new()));
            }
            let (_, bytes) = received.iter_mut().find(|(transfer, _)| *transfer == data.transfer).expect("begun");
            assert_eq!(bytes.len() as u64, data.offset, "in order");
            bytes.extend_from_slice(&frame.tail);
        }
        other => panic!("no message of this test: {other}"),
    }
}

#[test]
fn blocking_writes_of_several_threads_are_sent_whole_and_return() {
    check(|| {
        let (connection, server) = connect(|server| {
            let mut received = serve(&server, usize::MAX);
            received.sort_unstable();
            assert_eq!(received, [1, 2, 3].map(|transfer| (TransferId(transfer), pattern(TransferId(transfer)))));
        });
        let writers = [1, 2, 3].map(|transfer| {
            let (connection, transfer) = (Arc::clone(&connection), TransferId(transfer));
            thread::spawn(move || {
                let host = Host::new(transfer.0 as usize * 100, pattern(transfer));
                assert_eq!(write(&connection, transfer, &host), Ok(()));
            })
        });
        writers.into_iter().for_each(|writer| writer.join().expect("it has not failed"));
        drop(connection);
        server.join().expect("it has not failed");
    });
}

#[test]
fn blocking_reads_of_several_threads_are_filled_and_return() {
    check(|| {
        let (connection, server) = connect(|server| assert!(serve(&server, usize::MAX).is_empty()));
        let readers = [1, 2, 3].map(|transfer| {
            let (connection, transfer) = (Arc::clone(&connection), TransferId(transfer));
            thread::spawn(move || {
                let host = Host::new(transfer.0 as usize * 100, Vec::new());
                assert_eq!(read(&connection, transfer, &host), Ok(()));
                assert_eq!(*lock(&host.bytes), pattern(transfer));
            })
        });
        readers.into_iter().for_each(|reader| reader.join().expect("it has not failed"));
        drop(connection);
        server.join().expect("it has not failed");
    });
}

#[test]
fn no_memory_is_used_after_a_wait_that_the_loss_of_the_server_ends() {
    check(|| {
        let served = thread_rng().gen_range(0..8);
        let (connection, server) = connect(move |server| drop(serve(&server, served)));
        let transfers = [1, 2, 3, 4].map(|transfer| {
            let (connection, transfer) = (Arc::clone(&connection), TransferId(transfer));
            thread::spawn(move || {
                let host = Host::new(transfer.0 as usize * 100, pattern(transfer));
                let kind = if transfer.0 % 2 == 0 { read } else { write };
                let ended = kind(&connection, transfer, &host);
                assert!(ended == Ok(()) || ended == Err(SERVER_LOST), "{ended:?}");
            })
        });
        if thread_rng().gen_bool(0.5) {
            connection.close();
        }
        transfers.into_iter().for_each(|transfer| transfer.join().expect("it has not failed"));
        drop(connection);
        server.join().expect("it has not failed");
    });
}

#[test]
fn the_loss_waits_for_threads_that_have_taken_a_transfer_out() {
    check(|| {
        let (reading, writing) = (TransferId(1), TransferId(2));
        let (from, into) = (Host::new(100, pattern(writing)), Host::new(200, Vec::new()));
        let [read, written] = [(); 2].map(|()| Ticket::new(None, None));
        let transfers = Arc::<Transfers>::default();
        transfers.expect(reading, Incoming::new(Box::new(Target(into.lend())), Arc::clone(&read)));
        transfers.offer(writing, Outgoing::new(Box::new(Source(from.lend())), Arc::clone(&written), Vec::new()));
        let sender = {
            let transfers = Arc::clone(&transfers);
            thread::spawn(move || {
                transfers.asked_for(writing);
                let Some((id, sending)) = transfers.take_ready() else { return };
                assert_eq!(sending.source.run(0).len(), SIZE);
                transfers.put_ready(id, sending);
            })
        };
        let receiver = {
            let transfers = Arc::clone(&transfers);
            let is_cut_short = thread_rng().gen_bool(0.5);
            thread::spawn(move || {
                let Some(mut receiving) = transfers.take_incoming(reading) else { return };
                assert_eq!(receiving.target.run(0).len(), SIZE);
                if is_cut_short {
                    transfers.end_with_loss(receiving);
                } else {
                    transfers.put_back(reading, receiving);
                }
            })
        };
        let tickets = transfers.close();
        assert!(!from.is_lent() && !into.is_lent(), "the loss is about to be made known");
        tickets.iter().for_each(|ticket| ticket.end(SERVER_LOST));
        [sender, receiver].into_iter().for_each(|thread| thread.join().expect("it has not failed"));
        assert_eq!([read.ended(), written.ended()], [Some(SERVER_LOST); 2]);
    });
}

/// Memory for a write's pieces comes while threads fill what came before: each piece is filled once and in order, and a
/// loss in the midst ends the write.
#[test]
fn pieces_are_filled_as_they_are_lent() {
    check(|| {
        let (id, is_lost) = (TransferId(2), thread_rng().gen_bool(0.3));
        let from = Host::new(100, pattern(id));
        let written = Ticket::new(None, None);
        let transfers = Arc::<Transfers>::default();
        transfers.offer(id, Outgoing::new(Box::new(Source(from.lend())), Arc::clone(&written), Vec::new()));
        let filled = Arc::new(Mutex::new(Vec::new()));
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let (transfers, filled, written) = (Arc::clone(&transfers), Arc::clone(&filled), Arc::clone(&written));
                thread::spawn(move || {
                    while written.ended().is_none() {
                        let Some((id, mut sending)) = transfers.take_ready() else {
                            thread::yield_now();
                            continue;
                        };
                        let piece = sending.piece.expect("it was lent one");
                        assert_eq!(piece.from, sending.sent);
                        lock(&filled).push(piece);
                        sending.sent = piece.until;
                        if sending.sent < SIZE {
                            transfers.await_piece(id, sending);
                            continue;
                        }
                        let ticket = sending.give_back();
                        transfers.forget_lent(id);
                        ticket.end(0);
                        transfers.note_sent();
                    }
                })
            })
            .collect();
        let pieces = [(0, 4), (4, 8), (8, SIZE)].map(|(from, until)| Piece { at: 1000, from, until });
        let lent = pieces.iter().take(if is_lost { 2 } else { 3 }).filter(|piece| transfers.lent(id, **piece)).count();
        assert_eq!(lent, if is_lost { 2 } else { 3 }, "there is such a write");
        if is_lost {
            let tickets = transfers.close();
            assert!(!from.is_lent(), "the loss is about to be made known");
            tickets.iter().for_each(|ticket| ticket.end(SERVER_LOST));
        }
        senders.into_iter().for_each(|thread| thread.join().expect("it has not failed"));
        let filled = lock(&filled);
        assert_eq!(filled[..], pieces[..filled.len()]);
        assert!(is_lost || filled.len() == 3);
        assert_eq!(written.ended(), Some(if is_lost { SERVER_LOST } else { 0 }));
    });
}

/// The event of a read: over when both its command and its data are.
#[derive(Default)]
struct OfRead {
    completed: AtomicUsize,
    arrived: AtomicUsize,
    status: AtomicI32,
}

impl Completion for OfRead {
    fn progressed(&self, _status: Status) {
        unreachable!("nobody asks for that");
    }

    fn completed(&self, status: Status, _times: Option<[u64; 5]>) {
        self.status.store(status, Ordering::SeqCst);
        self.completed.fetch_add(1, Ordering::SeqCst);
    }

    fn data_arrived(&self, _status: Status) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
    }

    fn lost(&self) {}
}

#[test]
fn a_read_that_fails_gives_its_memory_back_whatever_comes_after() {
    const FAILED: Status = -5;
    check(|| {
        let (event, transfer) = (EventId(1), TransferId(1));
        let (connection, server) = connect(move |server| {
            server.next().expect("the read");
            let bytes = pattern(transfer);
            server.note(&ReadData { transfer, offset: 0 }, &bytes[..4]);
            server.completed(&[event], FAILED);
            server.note(&ReadData { transfer, offset: 4 }, &bytes[4..]);
            while server.next().is_some() {}
        });
        let (host, told) = (Host::new(100, Vec::new()), Arc::<OfRead>::default());
        connection.add_event(event, &told);
        let reader = {
            let (connection, host, told) = (Arc::clone(&connection), Arc::clone(&host), Arc::clone(&told));
            thread::spawn(move || {
                let completion: Arc<dyn Completion> = told;
                let ticket = begin_read(&connection, transfer, &host, Some((event, completion)));
                assert_eq!(wait(&connection, &ticket, &host), Err(FAILED));
            })
        };
        // Takes in what comes, so that another thread than the one that waits may.
        connection.drain();
        connection.drain();
        reader.join().expect("it has not failed");
        assert_eq!([told.completed.load(Ordering::SeqCst), told.arrived.load(Ordering::SeqCst)], [1, 1]);
        drop(connection);
        server.join().expect("it has not failed");
    });
}

#[test]
fn a_write_from_memory_that_a_read_fills_sends_what_was_read() {
    check(|| {
        let (reading, writing) = (TransferId(1), TransferId(2));
        let (connection, server) = connect(move |server| {
            assert_eq!(serve(&server, usize::MAX), [(writing, pattern(reading))]);
        });
        let host = Host::new(100, vec![0; SIZE]);
        let read = begin_read(&connection, reading, &host, None);
        let reader = {
            let connection = Arc::clone(&connection);
            thread::spawn(move || assert_eq!(connection.wait(|| read.ended()), Ok(0)))
        };
        assert_eq!(write(&connection, writing, &host), Ok(()));
        reader.join().expect("it has not failed");
        drop(connection);
        server.join().expect("it has not failed");
    });
}
