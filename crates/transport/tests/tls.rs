//! Encrypted links: handshakes, records in pieces of every size, and what strangers send.

use std::io::{self, ErrorKind, IoSlice, Read, Write};

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use ropeway_transport::tls::{self, Identity, PublicKey, Secrets};
use ropeway_transport::{Link, Sender};

use common::{door, serve};

mod common;

fn server(mut stream: UnixStream, identity: &Identity, known: Vec<PublicKey>) -> io::Result<(PublicKey, Secrets)> {
    stream.set_nonblocking(true)?;
    serve(&mut stream, &door(identity, known)).map(|(client, secrets)| (client.key, secrets))
}

/// Both ends of an encrypted link, the client's first.
fn pair() -> (Link, Link) {
    let (near, far) = UnixStream::pair().unwrap();
    let (ours, theirs) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (known, pinned) = (vec![ours.public()], theirs.public());
    let at = far.try_clone().unwrap();
    let serving = thread::spawn(move || server(at, &theirs, known));
    let secrets = tls::connect(&mut near.try_clone().unwrap(), &ours, pinned).unwrap();
    let (key, others) = serving.join().unwrap().unwrap();
    assert_eq!(key, ours.public());
    let link = |stream: UnixStream, secrets| Link::from_fd(OwnedFd::from(stream)).unwrap().encrypt(secrets).unwrap();
    (link(near, secrets), link(far, others))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn bytes_arrive_in_whatever_pieces_they_are_sent_and_read() {
    let (near, far) = pair();
    let lens = [1, 17, 16383, 16384, 16385, 100_000, 1, 3_000_001, 40];
    let sent: Vec<Vec<u8>> = lens.iter().map(|len| pattern(*len)).collect();
    let all: Vec<u8> = sent.concat();
    let sending = thread::spawn(move || {
        for parts in sent.chunks(3) {
            let mut parts: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
            near.send_all(&mut parts).unwrap();
        }
        near
    });
    let mut got = Vec::new();
    let mut piece = 1;
    while got.len() < all.len() {
        let mut into = vec![0; piece.min(all.len() - got.len())];
        if piece % 2 == 0 {
            far.recv_exact(&mut into).unwrap();
            got.extend(into);
        } else {
            let n = far.recv(&mut into).unwrap();
            got.extend(&into[..n]);
        }
        piece = piece * 3 % 300_007;
    }
    assert!(got == all);
    let near = sending.join().unwrap();
    assert!(!far.has_more());
    drop(near);
    assert_eq!(far.recv(&mut [0; 10]).unwrap(), 0);
}

#[test]
fn what_does_not_fit_is_sent_later_and_once() {
    let (near, far) = pair();
    let all = pattern(2_000_000);
    let mut sent = near.try_send(&all).unwrap();
    assert!(sent < all.len());
    let mut got = vec![0; 0];
    let mut into = vec![0; 50_000];
    while got.len() < all.len() {
        let n = far.recv(&mut into).unwrap();
        got.extend(&into[..n]);
        if got.len() < 1_000_000 {
            sent += near.try_send(&all[sent..]).unwrap();
        } else if sent < all.len() {
            // The rest, by another way, in parts.
            let rest: Vec<u8> = all[sent..].to_vec();
            sent = all.len();
            let (first, second) = rest.split_at(rest.len() / 3);
            thread::scope(|scope| {
                scope.spawn(|| near.send_all(&mut [IoSlice::new(first), IoSlice::new(second)]).unwrap());
                while got.len() < all.len() {
                    let n = far.recv(&mut into).unwrap();
                    got.extend(&into[..n]);
                }
            });
        }
    }
    assert!(got == all);
}

#[test]
fn another_process_goes_on_where_this_one_stopped() {
    let (near, far) = pair();
    near.send_all(&mut [IoSlice::new(b"hello")]).unwrap();
    let mut into = [0; 5];
    far.recv_exact(&mut into).unwrap();
    let secrets = far.secrets().unwrap();
    let far = Link::from_fd(far.into_fd()).unwrap().encrypt(secrets.unwrap()).unwrap();
    far.send_all(&mut [IoSlice::new(b"there")]).unwrap();
    near.recv_exact(&mut into).unwrap();
    assert_eq!(&into, b"there");
}

#[test]
fn strangers_and_impostors_are_told_so() {
    let (ours, theirs, other) =
        (Identity::generate().unwrap(), Identity::generate().unwrap(), Identity::generate().unwrap());
    // The server does not know the client.
    let (mut near, far) = UnixStream::pair().unwrap();
    let (at, known) = (theirs.clone(), vec![other.public()]);
    let serving = thread::spawn(move || server(far, &at, known));
    let outcome = tls::connect(&mut near, &ours, theirs.public()).and_then(|secrets| {
        // In TLS 1.3 the client is done before the server has looked at its key.
        Link::from_fd(OwnedFd::from(near))?.encrypt(secrets)?.recv(&mut [0; 1])
    });
    assert!(serving.join().unwrap().is_err());
    assert!(outcome.is_err());
    // The server has another key.
    let (mut near, far) = UnixStream::pair().unwrap();
    let known = vec![ours.public()];
    let serving = thread::spawn(move || server(far, &other, known));
    let error = tls::connect(&mut near, &ours, theirs.public()).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::PermissionDenied, "it has another key than the ticket says")
    );
    assert!(serving.join().unwrap().is_err());
}

#[test]
fn a_record_of_nothing_is_no_handshake() {
    let (mut near, mut far) = UnixStream::pair().unwrap();
    let identity = Identity::generate().unwrap();
    let mut accepting = door(&identity, Vec::new()).open().unwrap();
    far.set_nonblocking(true).unwrap();
    near.write_all(&[22, 3, 1, 0, 0]).unwrap();
    let error = accepting.advance(&mut far).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
}

#[test]
fn a_changed_byte_ends_the_connection() {
    // The client's records go through a relay that changes a byte of the 40th kilobyte.
    let (near, relay_near) = UnixStream::pair().unwrap();
    let (relay_far, far) = UnixStream::pair().unwrap();
    let (ours, theirs) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (known, pinned) = (vec![ours.public()], theirs.public());
    let at = far.try_clone().unwrap();
    let serving = thread::spawn(move || server(at, &theirs, known));
    let back = (relay_far.try_clone().unwrap(), relay_near.try_clone().unwrap());
    let returning = thread::spawn(move || io::copy(&mut &back.0, &mut &back.1));
    let relaying = thread::spawn(move || {
        let (mut total, mut bytes) = (0, [0; 4096]);
        loop {
            let n = (&relay_near).read(&mut bytes).unwrap_or(0);
            if n == 0 {
                return;
            }
            if total < 40_000 && total + n >= 40_000 {
                bytes[40_000 - total - 1] ^= 1;
            }
            total += n;
            if (&relay_far).write_all(&bytes[..n]).is_err() {
                return;
            }
        }
    });
    let secrets = tls::connect(&mut near.try_clone().unwrap(), &ours, pinned).unwrap();
    let (_, others) = serving.join().unwrap().unwrap();
    let near = Link::from_fd(OwnedFd::from(near)).unwrap().encrypt(secrets).unwrap();
    let far = Link::from_fd(OwnedFd::from(far)).unwrap().encrypt(others).unwrap();
    let sending = thread::spawn(move || {
        let _ = near.send_all(&mut [IoSlice::new(&pattern(100_000))]);
        near.shutdown();
    });
    let mut into = vec![0; 100_000];
    let error = far.recv_exact(&mut into).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    far.shutdown();
    drop(far);
    sending.join().unwrap();
    relaying.join().unwrap();
    returning.join().unwrap().ok();
}
