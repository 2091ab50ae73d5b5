use std::io::{ErrorKind, IoSlice};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::choice::Choice;
use super::port::{MESSAGE, WINDOW};
use crate::patience::timespec;
use crate::{Link, Sender as _};

/// What UCX has on any machine.
const TRANSPORTS: [&str; 2] = ["tcp,self", "shm,self"];

const SOON: Duration = Duration::from_secs(10);

fn sockets() -> [Link; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    [near, far].map(|socket| Link::from_fd(socket.into()).unwrap())
}

/// Both ends of a link over UCX.
fn pair(transports: &str) -> [Link; 2] {
    let ends = sockets().map(|link| {
        let choice = Choice::among(transports);
        thread::spawn(move || link.go_over_by(&choice, Instant::now() + SOON).unwrap())
    });
    ends.map(|end| end.join().unwrap())
}

/// The byte at this place of a stream.
fn byte(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8
}

fn send(link: &Link, from: usize, len: usize) {
    let bytes: Vec<u8> = (from..from + len).map(byte).collect();
    // In two parts, as a command and its data.
    let (head, tail) = bytes.split_at(len.min(40));
    link.send_all(&mut [IoSlice::new(head), IoSlice::new(tail)]).unwrap();
}

fn expect(link: &Link, from: usize, len: usize) {
    let mut bytes = vec![0; len];
    link.recv_exact(&mut bytes).unwrap();
    let wrong = (0..len).find(|at| bytes[*at] != byte(from + at));
    assert_eq!(wrong, None, "of {len} bytes from {from} on");
}

#[test]
fn bytes_of_all_lengths_go_both_ways_at_once() {
    for transports in TRANSPORTS {
        let [near, far] = pair(transports);
        assert_eq!((near.medium(), far.medium()), ("UCX", "UCX"));
        let lens = [1, 7, 40, 41, 4096, 70_000, MESSAGE - 1, MESSAGE, MESSAGE + 1, 3 * MESSAGE + 5, 5 << 20];
        let total: usize = lens.iter().sum();
        thread::scope(|scope| {
            for (one, other) in [(&near, &far), (&far, &near)] {
                scope.spawn(move || {
                    let mut at = 0;
                    for len in lens {
                        send(one, at, len);
                        at += len;
                    }
                });
                scope.spawn(move || {
                    // Cut in other places than it was sent.
                    let (mut at, mut len) = (0, 1);
                    while at < total {
                        let n = len.min(total - at);
                        expect(other, at, n);
                        at += n;
                        len = len * 3 + 1;
                    }
                });
            }
        });
        assert_eq!((near.traffic(), far.traffic().0 as usize), (far.traffic(), near.traffic().1 as usize));
    }
}

#[test]
fn who_sleeps_is_woken_by_what_it_polls() {
    for transports in TRANSPORTS {
        let [near, far] = pair(transports);
        for round in 0..20 {
            assert!(!far.is_readable_or_will_tell());
            assert_eq!(far.try_recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(5));
                    send(&near, round, 1);
                });
                let begun = Instant::now();
                while !far.is_readable_or_will_tell() {
                    let most = timespec(Duration::from_secs(10));
                    poll(&mut [PollFd::new(&far, PollFlags::IN)], Some(&most)).unwrap();
                    assert!(begun.elapsed() < SOON, "it was not woken");
                }
                expect(&far, round, 1);
            });
            assert!(!far.wait_readable(Some(Duration::ZERO)).unwrap());
        }
    }
}

/// What has woken one reader may still be there when another one looks.
#[test]
fn who_only_looks_does_not_wait_for_what_others_have_taken() {
    for transports in TRANSPORTS {
        let [near, far] = pair(transports);
        assert!(!far.is_readable_or_will_tell());
        send(&near, 0, 1);
        let most = timespec(Duration::from_secs(10));
        assert_eq!(poll(&mut [PollFd::new(&far, PollFlags::IN)], Some(&most)).unwrap(), 1);
        let (told, looked) = channel();
        thread::spawn(move || {
            while far.try_recv(&mut [0; 8]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {}
            told.send(far.try_recv(&mut [0; 8])).unwrap();
        });
        let looked = looked.recv_timeout(SOON).expect("it waits");
        assert_eq!(looked.unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(near);
    }
}

/// As with a socket: so much and no more, however long nobody reads.
#[test]
fn nobody_sends_more_than_the_other_side_lets_it() {
    for transports in TRANSPORTS {
        let [near, far] = pair(transports);
        let bytes = vec![5; 100_000];
        let mut sent = 0;
        let mut full = 0;
        while full < 20 {
            match near.try_send(&bytes).unwrap() {
                0 => {
                    full += 1;
                    thread::sleep(Duration::from_millis(1));
                }
                n => sent += n,
            }
        }
        assert!(sent as u64 <= WINDOW && sent as u64 > WINDOW / 4, "{sent}");
        assert_eq!(near.taken().unwrap(), near.traffic().0 - sent as u64);
        let mut got = vec![0; sent];
        far.recv_exact(&mut got).unwrap();
        assert!(near.wait_readable(Some(Duration::ZERO)).is_ok_and(|readable| !readable));
        assert!(near.taken().unwrap() >= near.traffic().0 - WINDOW / 4);
        assert!(near.try_send(&bytes).unwrap() > 0);
    }
}

#[test]
fn the_end_of_either_side_ends_the_link() {
    for transports in TRANSPORTS {
        let [near, far] = pair(transports);
        // What was sent before the end is read.
        send(&near, 0, 300_000);
        near.end_sending();
        expect(&far, 0, 300_000);
        assert_eq!(far.recv(&mut [0; 8]).unwrap(), 0);
        drop(near);
        let error = (0..1000).find_map(|_| far.send_all(&mut [IoSlice::new(&[1; 10_000])]).err());
        assert!(error.is_some(), "nobody reads that");

        let [near, far] = pair(transports);
        let begun = Instant::now();
        thread::scope(|scope| {
            let waits = scope.spawn(|| near.recv(&mut [0; 8]));
            let fills = scope.spawn(|| (0..100).find_map(|_| near.send_all(&mut [IoSlice::new(&[1; 100_000])]).err()));
            thread::sleep(Duration::from_millis(50));
            near.shutdown();
            assert_eq!(waits.join().unwrap().unwrap(), 0);
            assert!(fills.join().unwrap().is_some());
        });
        assert!(begun.elapsed() < SOON);
        // What had come before is read; then comes the end, or the failure.
        let mut bytes = vec![0; 1 << 20];
        let read = (0..100).find(|_| !far.recv(&mut bytes).is_ok_and(|n| n > 0));
        assert!(read.is_some() && begun.elapsed() < SOON);
    }
}

/// What the other end may say in place of where its worker is.
#[test]
fn what_is_no_address_is_refused_with_a_sentence() {
    let head = |len: u32| [&b"ROPE-UCX"[..], &1_u64.to_le_bytes(), &2_u64.to_le_bytes(), &len.to_le_bytes()].concat();
    let refused = [
        (vec![0; 28], "does not speak of UCX"),
        (head((64 << 10) + 1), "does not speak of UCX"),
        ([head(1 << 31 | 12), b"no UCX\x1b here".to_vec()].concat(), "at the other end, no UCX here"),
    ];
    for (said, expected) in refused {
        let [near, far] = sockets();
        far.send_all(&mut [IoSlice::new(&said)]).unwrap();
        let choice = Choice::among("tcp,self");
        let error = near.go_over_by(&choice, Instant::now() + SOON).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let [near, _far] = sockets();
    let choice = Choice::among("tcp,self");
    let error = near.go_over_by(&choice, Instant::now() + Duration::from_millis(100)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

/// Who is about to sleep while another thread takes the event off the library sees what has come all the same.
#[test]
fn nobody_sleeps_beside_what_another_thread_has_taken() {
    const TURNS: usize = 20_000;
    for transports in TRANSPORTS {
        let [near, far] = pair(transports);
        let is_over = AtomicBool::new(false);
        let slept_on = thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..TURNS {
                    if near.recv_exact(&mut [0]).is_err() {
                        break;
                    }
                    send(&near, turn, 1);
                }
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    far.has_more();
                }
            });
            let slept_on = (0..TURNS).find(|turn| {
                send(&far, *turn, 1);
                let has_come = far.wait_readable(Some(SOON)).unwrap();
                if has_come {
                    expect(&far, *turn, 1);
                }
                !has_come
            });
            is_over.store(true, Ordering::Relaxed);
            far.shutdown();
            slept_on
        });
        assert_eq!(slept_on, None, "{transports}");
    }
}
