use std::io::IoSlice;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::Sender as _;

/// Connected sockets: the system's buffers of the one kind hold some hundred KiB, of the other some MiB.
fn sockets(of_network: bool) -> [Link; 2] {
    if !of_network {
        let (near, far) = UnixStream::pair().unwrap();
        return [near.into(), far.into()].map(|fd: OwnedFd| Link::from_fd(fd).unwrap());
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    [near.into(), far.into()].map(|fd: OwnedFd| Link::from_fd(fd).unwrap())
}

/// Two ends of a link with so many lanes, and threads that help at each end.
fn ends(count: usize, of_network: bool, threads: usize) -> [Link; 2] {
    let (near, far): (Vec<_>, Vec<_>) = (0..count).map(|_| sockets(of_network).into()).unzip();
    let mut lanes = [near, far].into_iter();
    sockets(false).map(|mut link| {
        let crew = Crew::new(threads).map(Arc::new);
        let lanes = Lanes::new(lanes.next().unwrap(), link.fd.as_fd(), crew).unwrap();
        link.use_medium(Box::new(lanes));
        link
    })
}

/// What is sent.
static STREAM: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..16 * 5 * BLOCK).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 11) as u8).collect());

/// Sends the stream in pieces of these sizes, by turns whole and as far as there is room.
fn send(link: &Link, sizes: &[usize]) {
    let mut at = 0;
    for (number, size) in sizes.iter().enumerate() {
        let bytes = &STREAM[at..at + size];
        let sent = if number % 3 == 0 { link.try_send(bytes).unwrap() } else { 0 };
        let (head, tail) = bytes[sent..].split_at((size - sent).min(40));
        link.send_all(&mut [IoSlice::new(head), IoSlice::new(tail)]).unwrap();
        at += size;
    }
}

/// Receives it in pieces of other sizes, whole or as much as has come, and pauses where a size says so.
fn receive(link: &Link, sizes: &[usize], total: usize) {
    let (mut at, mut sizes) = (0, sizes.iter().cycle());
    while at < total {
        let size = *sizes.next().unwrap();
        let mut into = vec![0; size.min(total - at)];
        let got = match size % 3 {
            0 => link.recv(&mut into).unwrap(),
            _ => link.recv_exact(&mut into).map(|()| into.len()).unwrap(),
        };
        assert!(got > 0, "it has ended at {at}");
        assert!(into[..got] == STREAM[at..at + got], "near {at}");
        at += got;
        if size > 10_000 && size % 5 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is sent and received at once, and whoever helps, the bytes arrive in order, in both directions.
    #[test]
    fn bytes_stay_in_order(
        count in 2..=8_usize,
        of_network: bool,
        threads in 0..3_usize,
        sent in prop::collection::vec(prop_oneof![1..200_usize, 1..BLOCK, BLOCK..5 * BLOCK], 1..16),
        received in prop::collection::vec(prop_oneof![1..200_usize, 1..BLOCK, BLOCK..5 * BLOCK], 1..16),
    ) {
        let ends = ends(count, of_network, threads);
        let total = sent.iter().sum();
        thread::scope(|scope| {
            for (one, other) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
                scope.spawn(|| send(one, &sent));
                scope.spawn(|| receive(other, &received, total));
            }
        });
        let total = total as u64;
        prop_assert_eq!(ends.each_ref().map(Link::traffic), [(total, total); 2]);
        // The system acknowledges the last ones some time later.
        let until = Instant::now() + Duration::from_secs(10);
        while ends.iter().any(|end| end.taken().unwrap() != total) {
            prop_assert!(Instant::now() < until);
            thread::sleep(Duration::from_millis(1));
        }
        prop_assert!(ends.iter().all(|end| end.sharing.medium.as_ref().is_some_and(|medium| !medium.has_more())));
    }
}

#[test]
fn blocks_go_round_the_lanes() {
    let of = |at| turn(at, 3);
    let block = BLOCK as u64;
    assert_eq!([of(0), of(1), of(block - 1), of(block)], [(0, BLOCK), (0, BLOCK - 1), (0, 1), (1, BLOCK)]);
    assert_eq!([of(3 * block), of(u64::MAX)], [(0, BLOCK), ((u64::MAX / block % 3) as usize, 1)]);
    let [near, far] = ends(3, true, 0);
    send(&near, &[4 * BLOCK]);
    receive(&far, &[4 * BLOCK], 4 * BLOCK);
}

#[test]
fn a_number_of_lanes_that_nobody_has_is_refused() {
    for count in [0, 1, 9] {
        let lanes = (0..count).map(|_| sockets(false).into_iter().next().unwrap()).collect();
        let refused = sockets(false).into_iter().next().unwrap().go_on_over(lanes).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{count}");
    }
}

/// A reader that sleeps is woken by the lane that has its turn, and by no other.
#[test]
fn only_the_lane_whose_turn_it_is_wakes() {
    let [near, far] = ends(2, true, 0);
    let is_ready = |link: &Link| link.wait_readable(Some(Duration::from_millis(30))).unwrap();
    assert!(!is_ready(&far));
    send(&near, &[2 * BLOCK]);
    let second = BLOCK - 1;
    receive(&far, &[second], second);
    assert!(is_ready(&far));
    far.recv_exact(&mut [0]).unwrap();
    // The second one's block has come.
    assert!(is_ready(&far));
    far.recv_exact(&mut vec![0; BLOCK]).unwrap();
    assert!(!is_ready(&far));
    let sleeper = thread::spawn(move || far.recv_exact(&mut [0; 3]));
    thread::sleep(Duration::from_millis(20));
    near.send_all(&mut [IoSlice::new(&[1; 3])]).unwrap();
    sleeper.join().unwrap().unwrap();
}

/// What was written before an end is read before it.
#[test]
fn the_end_comes_behind_all_bytes() {
    for (of_network, closes) in [(true, true), (true, false), (false, true), (false, false)] {
        let [near, far] = ends(4, of_network, 1);
        let total = 3 * BLOCK + 17;
        thread::scope(|scope| {
            scope.spawn(|| {
                receive(&far, &[BLOCK / 2 + 1], total);
                assert_eq!(far.recv(&mut [0; 10]).unwrap(), 0);
                assert_eq!(far.recv_exact(&mut [0; 10]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
            });
            send(&near, &[total]);
            if closes {
                drop(near);
            } else {
                near.end_sending();
                // It stays open meanwhile.
                thread::sleep(Duration::from_millis(300));
            }
        });
    }
}

#[test]
fn a_lane_that_breaks_breaks_the_link() {
    for waits in [false, true] {
        let (near, mut far): (Vec<_>, Vec<_>) = (0..3).map(|_| sockets(true).into()).unzip();
        let [one, other] = sockets(false);
        let near = one.go_on_over(near).unwrap();
        far[0].send_all(&mut [IoSlice::new(b"first")]).unwrap();
        drop(far.remove(0));
        let mut first = [0; 5];
        near.recv_exact(&mut first).unwrap();
        assert_eq!(&first, b"first");
        let broken = if waits { near.recv_exact(&mut [0; 10]) } else { near.recv(&mut [0; 10]).map(drop) };
        let broken = broken.unwrap_err();
        assert_eq!(broken.kind(), ErrorKind::ConnectionReset);
        assert!(broken.to_string().contains("one of its sockets was closed"), "{broken}");
        drop(other);
    }
}

/// Who ends the link wakes whoever sleeps there, at both ends.
#[test]
fn whoever_sleeps_is_woken_by_the_end() {
    let [near, far] = ends(2, true, 0);
    thread::scope(|scope| {
        let readers = [&near, &far].map(|end| scope.spawn(|| end.recv(&mut [0; 10])));
        thread::sleep(Duration::from_millis(20));
        near.shutdown();
        let said = readers.map(|reader| reader.join().unwrap().unwrap_or(0));
        assert_eq!(said, [0, 0]);
    });
    assert!(near.send_all(&mut [IoSlice::new(&[0; 10])]).is_err());
}
