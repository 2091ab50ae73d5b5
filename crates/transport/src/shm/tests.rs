use std::io::{ErrorKind, IoSlice};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Instant;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::*;
use crate::{GLANCE, Link, Sender as _};

/// Numbers that look random; the same for the same `state`.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A client's and a server's end of a link, after hello and answer; `uses`: whether the server uses the memory.
fn greeted(uses: bool) -> (Link, Link) {
    let (near, far) = UnixStream::pair().unwrap();
    let (mut client, mut server) = (Link::from_fd(near.into()).unwrap(), Link::from_fd(far.into()).unwrap());
    client.offer_memory(b"hello", Room::WithArena).unwrap();
    let mut hello = [0; 5];
    assert_eq!(server.try_recv_hello(&mut hello[..2]).unwrap(), 2);
    assert_eq!(server.try_recv_hello(&mut hello[2..]).unwrap(), 3);
    assert_eq!(&hello, b"hello");
    assert!(server.memory().is_some(), "it comes with the first bytes, and is kept");
    if uses {
        server = server.answer_hello(b"welcome", Room::WithArena).unwrap();
    } else {
        server.send_all(&mut [IoSlice::new(b"welcome")]).unwrap();
    }
    let mut welcome = [0; 7];
    client.recv_exact(&mut welcome).unwrap();
    assert_eq!(&welcome, b"welcome");
    let client = client.take_up_memory().unwrap();
    assert_eq!((client.shares_memory(), server.shares_memory()), (uses, uses));
    (client, server)
}

/// Sends `len` bytes in pieces of all sizes; the byte at each place is known.
fn send(link: &Link, len: usize, mut seed: u64) {
    let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let mut at = 0;
    while at < len {
        let size = (random(&mut seed) % 3_000_000) as usize >> (random(&mut seed) % 22);
        let piece = &bytes[at..(at + size).min(len)];
        if random(&mut seed).is_multiple_of(4) {
            at += link.try_send(piece).unwrap();
        } else {
            let (one, other) = piece.split_at(piece.len() / 3);
            link.send_all(&mut [IoSlice::new(one), IoSlice::new(&[]), IoSlice::new(other)]).unwrap();
            at += piece.len();
        }
    }
}

/// Receives them in other pieces, in every way that there is.
fn receive(link: &Link, len: usize, mut seed: u64) {
    let mut at = 0;
    let mut into = vec![0; 300_000];
    while at < len {
        let size = (1 + random(&mut seed) as usize % 299_999) >> (random(&mut seed) % 18);
        let room = &mut into[..size.max(1).min(len - at)];
        let got = match random(&mut seed) % 4 {
            0 => match link.try_recv(room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(link.wait_readable(None).unwrap());
                    0
                }
                got => got.unwrap(),
            },
            1 => link.recv(room).unwrap(),
            2 => match link.recv_for_a_glance(room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                got => got.unwrap(),
            },
            _ => {
                link.recv_exact(room).unwrap();
                room.len()
            }
        };
        assert!(room[..got].iter().enumerate().all(|(n, byte)| usize::from(*byte) == (at + n) % 251), "after {at}");
        at += got;
    }
}

#[test]
fn bytes_arrive_in_order_both_ways_at_once() {
    const LEN: usize = 40_000_000;
    for seed in 1..4 {
        let (client, server) = greeted(true);
        thread::scope(|scope| {
            scope.spawn(|| send(&client, LEN, seed));
            scope.spawn(|| send(&server, LEN, seed + 10));
            scope.spawn(|| receive(&server, LEN, seed + 20));
            receive(&client, LEN, seed + 30);
        });
        // The five bytes of the hello, and the seven of its answer, went through the socket.
        assert_eq!(client.traffic(), (LEN as u64 + 5, LEN as u64 + 7));
        assert_eq!(server.taken().unwrap(), LEN as u64 + 7);
    }
}

#[test]
fn a_server_that_does_not_use_the_memory_is_heard_through_the_socket() {
    let (client, server) = greeted(false);
    thread::scope(|scope| {
        scope.spawn(|| send(&server, 1_000_000, 5));
        receive(&client, 1_000_000, 6);
    });
}

#[test]
fn only_a_reader_that_sleeps_is_woken() {
    let (near, far) = UnixStream::pair().unwrap();
    let (client, files) = Rings::create(Room::ForPeers, near.as_fd()).unwrap();
    let server = Rings::open(&files, Room::ForPeers, far.as_fd()).unwrap();
    assert!(client.is_used());
    let is_woken = |server: &Rings| server.await_waking(Duration::ZERO);
    // A bell that is new counts as rung.
    assert_eq!((is_woken(&server), is_woken(&server)), (Ok(1), Err(Errno::AGAIN)));
    assert_eq!(client.write(b"one").unwrap(), 3);
    assert_eq!(is_woken(&server), Err(Errno::AGAIN), "nobody has asked");
    assert!(server.ask_to_be_woken(), "there is something already");
    assert_eq!(client.write(b"two").unwrap(), 3);
    assert_eq!((is_woken(&server), is_woken(&server)), (Ok(1), Err(Errno::AGAIN)));
    assert_eq!(client.write(b"three").unwrap(), 5);
    assert_eq!(is_woken(&server), Err(Errno::AGAIN), "once is enough");
    let mut read = [0; 16];
    assert_eq!(server.read(&mut read).unwrap(), 11);
    assert!(!server.ask_to_be_woken());
    thread::scope(|scope| {
        let waits = scope.spawn(|| server.await_waking(Duration::from_secs(20)));
        assert_eq!(client.write(b"four").unwrap(), 4);
        assert_eq!(waits.join().unwrap(), Ok(1));
    });
    drop(near);
    assert_eq!((is_woken(&server), is_woken(&server)), (Ok(0), Ok(0)), "for good");
}

/// Rings that count how often the system is asked whether this side was woken.
#[derive(Debug)]
struct Counted(Rings, Arc<AtomicUsize>);

impl Medium for Counted {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn wait_for_room(&self, patience: Duration) -> io::Result<bool> {
        self.0.wait_for_room(patience)
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }

    fn has_more(&self) -> bool {
        self.0.has_more()
    }

    fn has_more_in_a_moment(&self) -> bool {
        self.0.has_more_in_a_moment()
    }

    fn ask_to_be_woken(&self) -> bool {
        self.0.ask_to_be_woken()
    }

    fn await_waking(&self, patience: Duration) -> Result<usize, Errno> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.await_waking(patience)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor()
    }

    fn taken(&self) -> u64 {
        self.0.taken()
    }

    fn end(&self) {
        self.0.end();
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

#[test]
fn who_only_looks_asks_the_system_once() {
    let (near, far) = UnixStream::pair().unwrap();
    let (client, files) = Rings::create(Room::ForPeers, near.as_fd()).unwrap();
    let server = Rings::open(&files, Room::ForPeers, far.as_fd()).unwrap();
    let (mut link, calls) = (Link::from_fd(near.into()).unwrap(), Arc::<AtomicUsize>::default());
    link.use_medium(Box::new(Counted(client, calls.clone())));
    let look = || {
        let got = link.try_recv(&mut [0; 8]).map_err(|error| error.kind());
        (got, calls.swap(0, Ordering::Relaxed))
    };
    // A bell that is new counts as rung.
    assert_eq!(look(), (Err(ErrorKind::WouldBlock), 1));
    assert_eq!(look(), (Err(ErrorKind::WouldBlock), 1));
    assert!(!link.is_readable_or_will_tell());
    assert_eq!(server.write(b"one").unwrap(), 3);
    // It has been woken for what it reads here.
    assert_eq!(look(), (Ok(3), 0));
    assert_eq!(look(), (Err(ErrorKind::WouldBlock), 1));
    assert_eq!(server.write(b"two").unwrap(), 3);
    assert_eq!(look(), (Ok(3), 0));
    drop(far);
    assert_eq!(look(), (Ok(0), 1), "the end is found by the same call");
}

/// The other process has the same bells, and may do anything to them.
#[test]
fn a_bell_holds_up_nobody_who_rings_it() {
    let (near, far) = UnixStream::pair().unwrap();
    let (client, files) = Rings::create(Room::ForPeers, near.as_fd()).unwrap();
    let server = Rings::open(&files, Room::ForPeers, far.as_fd()).unwrap();
    for bell in &files.bells {
        rustix::io::ioctl_fionbio(bell, false).unwrap();
        rustix::io::write(bell, &(u64::MAX - 2).to_ne_bytes()).unwrap();
    }
    for (one, other) in [(&client, &server), (&server, &client)] {
        assert!(!other.ask_to_be_woken());
        assert_eq!(one.write(b"one").unwrap(), 3);
        assert_eq!(other.await_waking(Duration::ZERO), Ok(1));
    }
}

#[test]
fn other_bells_are_refused() {
    let (near, far) = UnixStream::pair().unwrap();
    let (_client, files) = Rings::create(Room::ForPeers, near.as_fd()).unwrap();
    for number in 0..2 {
        let mut bells = [&files.bells[0], &files.bells[1]].map(|bell| bell.try_clone().unwrap());
        bells[number] = rustix::pipe::pipe().unwrap().1;
        let files = Files { memory: files.memory.try_clone().unwrap(), bells };
        let opened = Rings::open(&files, Room::ForPeers, far.as_fd());
        assert_eq!(opened.map(drop).map_err(|error| error.kind()), Err(ErrorKind::InvalidData));
    }
}

#[test]
fn a_thread_that_looks_leaves_the_waking_to_the_one_that_reads() {
    const ROUNDS: usize = 20_000;
    let (mut client, server) = greeted(true);
    // So that it sleeps each time.
    client.spins = false;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                client.wait_for_sign(Some(Duration::from_micros(250))).unwrap();
            }
        });
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                if server.recv_exact(&mut [0]).is_ok() {
                    let _ = server.send_all(&mut [IoSlice::new(&[1])]);
                }
            }
        });
        let echoed = (0..ROUNDS).take_while(|_| {
            let begun = Instant::now();
            client.send_all(&mut [IoSlice::new(&[1])]).unwrap();
            // It would find the answer when it looks by itself.
            client.recv_for_a_glance(&mut [0]).is_ok() && begun.elapsed() < GLANCE
        });
        let echoed = echoed.count();
        is_over.store(true, Ordering::Relaxed);
        // Ends the other thread where not all have come in time.
        client.shutdown();
        assert_eq!(echoed, ROUNDS, "an answer was there, and its reader slept on");
    });
}

#[test]
fn other_files_are_refused() {
    let socket = UnixStream::pair().unwrap().0;
    let made_for = |room: Room, len: u64, seals: SealFlags| {
        let file = memfd_create("other", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, len).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        let files = Files::around(file).unwrap();
        Rings::open(&files, room, socket.as_fd()).map(drop).map_err(|error| error.kind())
    };
    let made = |len, seals| made_for(Room::WithArena, len, seals);
    let (len, sealed) = (LEN, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL);
    assert_eq!(made(len, sealed), Ok(()));
    assert_eq!(made(len, SealFlags::GROW | SealFlags::SEAL), Err(ErrorKind::InvalidData), "it could be shortened");
    assert_eq!(made(len - 1, sealed), Err(ErrorKind::InvalidData));
    assert_eq!(made(len + arena::STEP, sealed), Ok(()));
    assert_eq!(made_for(Room::ForPeers, len, sealed), Ok(()));
    assert_eq!(made_for(Room::ForPeers, len + Arena::OF_PEERS, sealed), Ok(()));
    assert_eq!(made_for(Room::ForPeers, len + 2 * Arena::OF_PEERS, sealed), Err(ErrorKind::InvalidData));
    assert_eq!(made(len + arena::STEP - 4096, sealed), Err(ErrorKind::InvalidData));
    assert_eq!(made(1 << 40, sealed), Err(ErrorKind::InvalidData));
    let files = Files::around(UnixStream::pair().unwrap().0.into()).unwrap();
    assert_eq!(
        Rings::open(&files, Room::WithArena, socket.as_fd()).map(drop).map_err(|error| error.kind()),
        Err(ErrorKind::InvalidData)
    );
}

#[test]
fn what_a_process_wrote_before_its_end_is_read() {
    let (client, server) = greeted(true);
    client.send_all(&mut [IoSlice::new(b"last words")]).unwrap();
    drop(client);
    let mut read = [0; 16];
    assert_eq!(server.recv(&mut read).unwrap(), 10);
    assert_eq!(server.recv(&mut read).unwrap(), 0);
    assert_eq!(server.try_recv(&mut read).unwrap(), 0);
    assert!(server.has_ended());
}

#[test]
fn nobody_waits_for_a_process_that_is_gone() {
    let (client, server) = greeted(true);
    thread::scope(|scope| {
        let writes = scope.spawn(|| {
            let bytes = vec![0; 2 * RING];
            client.send_all(&mut [IoSlice::new(&bytes)]).map_err(|error| error.kind())
        });
        // It has filled the ring by then.
        while server.has_more() && server.sharing_unread() < RING {
            thread::yield_now();
        }
        drop(server);
        assert_eq!(writes.join().unwrap(), Err(ErrorKind::BrokenPipe));
    });
}

#[test]
fn what_this_side_ends_is_over_for_all_its_threads() {
    let (client, _server) = greeted(true);
    thread::scope(|scope| {
        let reads = scope.spawn(|| client.recv(&mut [0; 16]));
        let bytes = vec![0; RING];
        client.send_all(&mut [IoSlice::new(&bytes)]).unwrap();
        let writes = scope.spawn(|| client.send_all(&mut [IoSlice::new(b"more")]));
        client.shutdown();
        assert_eq!(reads.join().unwrap().unwrap(), 0);
        assert_eq!(writes.join().unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

/// One side writes anything anywhere in the memory, while the other goes on: that may lose what it says, and is found
/// out or not, but reads and writes stay within the memory, and come to an end.
#[test]
fn a_side_that_writes_anywhere_harms_only_itself() {
    let (near, far) = UnixStream::pair().unwrap();
    let (client, files) = Rings::create(Room::ForPeers, near.as_fd()).unwrap();
    let server = Rings::open(&files, Room::ForPeers, far.as_fd()).unwrap();
    let mut seed = 42;
    let (mut faults, mut bytes) = (0, 0);
    let mut room = vec![0; 70_000];
    for round in 0..1_000_000_u32 {
        let value = match random(&mut seed) % 4 {
            0 => random(&mut seed),
            1 => random(&mut seed) % (4 * RING as u64),
            2 => u64::MAX - random(&mut seed) % 3,
            _ => 0,
        };
        let at = match random(&mut seed) % 3 {
            0 => (random(&mut seed) as usize % LEN as usize) & !7,
            _ => (random(&mut seed) as usize % (2 * CONTROL)) & !7,
        };
        client.memory.position(at).store(value, Ordering::Relaxed);
        let size = (random(&mut seed) as usize % room.len()) >> (random(&mut seed) % 17);
        let outcome = match round % 4 {
            0 => server.write(&room[..size]),
            1 => server.read(&mut room[..size]),
            2 => Ok(usize::from(server.has_more() | server.ask_to_be_woken())),
            _ => server.wait_for_room(std::time::Duration::from_nanos(1)).map(usize::from),
        };
        match outcome {
            Ok(n) => bytes += n,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidData);
                faults += 1;
            }
        }
        assert!(server.taken() <= bytes as u64 + 1_000_000_000);
    }
    assert!(faults > 1000 && bytes > 1000, "{faults} faults, {bytes} bytes");
}

/// The same by two processes' threads at once.
#[test]
fn a_side_that_writes_anywhere_at_the_same_time_harms_only_itself() {
    let (client, server) = greeted(true);
    let over = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_millis(700);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut seed = 7;
            let memory = client.shared_rings();
            while !over.load(Ordering::Relaxed) {
                let at = (random(&mut seed) as usize % (2 * CONTROL)) & !7;
                memory.position(at).store(random(&mut seed) % (2 * RING as u64), Ordering::Relaxed);
            }
        });
        let mut room = vec![0; 100_000];
        while Instant::now() < until {
            let _ = server.try_recv(&mut room);
            let _ = server.try_send(&room);
        }
        over.store(true, Ordering::Relaxed);
    });
}
