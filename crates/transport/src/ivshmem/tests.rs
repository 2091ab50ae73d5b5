use std::fs;
use std::io::IoSlice;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::{Link, Sender as _};

/// Bytes of the memory.
const SIZE: u64 = 16 << 20;

/// A folder that lists a device with a memory beside it.
fn device() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::File::create_new(folder.path().join("memory")).unwrap().set_len(SIZE).unwrap();
    let entry = folder.path().join("devices/0000:00:03.0");
    fs::create_dir_all(&entry).unwrap();
    for (name, text) in [("vendor", "0x1af4\n"), ("device", "0x1110\n")] {
        fs::write(entry.join(name), text).unwrap();
    }
    symlink("../../memory", entry.join("resource2")).unwrap();
    folder
}

fn seen(folder: &Path) -> Vec<Device> {
    Device::listed(&folder.join("devices"))
}

/// Both ends of a connection.
fn connected() -> (Link, Link) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    (Link::from_fd(near.into()).unwrap(), Link::from_fd(far.into()).unwrap())
}

/// The ends of a link through a part of this memory, once the hello is answered.
fn through(folder: &Path, part: &GuestPart, (mut client, mut server): (Link, Link)) -> (Link, Link) {
    client.sharing.devices = seen(folder);
    server.give_part(part).unwrap();
    client.take_part(&part.device(), part.place()).unwrap();
    let server = server.answer_hello(b"welcome", crate::Room::WithArena).unwrap();
    client.recv_exact(&mut [0; 7]).unwrap();
    (client.take_up_memory().unwrap(), server)
}

#[test]
fn a_link_goes_through_a_part_of_it() {
    let (folder, mut memory) = (device(), GuestMemory::default());
    assert!(seen(folder.path()).is_empty(), "no server uses it");
    memory.add(&folder.path().join("memory"), 2).unwrap();
    let names: Vec<_> = seen(folder.path()).iter().map(|device| device.name).collect();
    let ends = connected();
    assert!(memory.take(&[[7; NAME]], &ends.1).is_none() && names.len() == 1);
    let part = memory.take(&names, &ends.1).unwrap();
    let (client, server) = through(folder.path(), &part, ends);
    assert_eq!((client.medium(), server.medium()), ("ivshmem", "ivshmem"));
    // More than a ring holds, so that the writer waits for room.
    let bytes: Vec<u8> = (0..9_000_001).map(|at| (at % 251) as u8).collect();
    let before = (client.taken().unwrap(), server.taken().unwrap());
    std::thread::scope(|scope| {
        for (from, to) in [(&client, &server), (&server, &client)] {
            scope.spawn(|| from.send_all(&mut [IoSlice::new(&bytes)]).unwrap());
            scope.spawn(|| {
                let mut got = vec![0; bytes.len()];
                to.recv_exact(&mut got).unwrap();
                assert!(got == bytes);
            });
        }
    });
    let after = (client.taken().unwrap(), server.taken().unwrap());
    assert_eq!((after.0 - before.0, after.1 - before.1), (9_000_001, 9_000_001));
    let (ours, theirs) = (client.arena().unwrap(), server.arena().unwrap());
    assert_eq!((ours.size_in_bytes(), theirs.size_in_bytes()), (theirs.size_in_bytes(), ours.size_in_bytes()));
    let last = ours.size_in_bytes() as u64 - 5;
    let mut got = [0; 5];
    assert!(ours.copy_in(last, b"bytes") && theirs.copy_out(last, &mut got) && &got == b"bytes");
    assert!(!ours.copy_in(last + 1, b"bytes"), "beyond it is another's");
    assert!(!ours.can_be_mapped_again() && theirs.can_be_mapped_again());
}

#[test]
fn a_part_is_another_ones_when_both_are_gone() {
    let (folder, mut memory) = (device(), GuestMemory::default());
    memory.add(&folder.path().join("memory"), 1).unwrap();
    let name = seen(folder.path())[0].name;
    let ends = connected();
    let part = memory.take(&[name], &ends.1).unwrap();
    let (client, server) = through(folder.path(), &part, ends);
    let (_other_client, other) = connected();
    let next = || memory.take(&[name], &other);
    assert!(next().is_none());
    let kept = client.arena().unwrap().clone();
    assert!(kept.copy_in(0, b"old"));
    drop(server);
    drop(part);
    assert!(next().is_none(), "the client may write there");
    assert_eq!(client.recv(&mut [0]).unwrap(), 0, "it hears that it is over");
    client.shutdown();
    let part = next().unwrap();
    // What it still has of the memory is its own.
    assert!(kept.copy_in(0, b"new"));
    let (client, _server) = through(folder.path(), &part, connected());
    let mut got = [0; 3];
    assert!(client.arena().unwrap().copy_out(0, &mut got) && &got == b"old");
}

#[test]
fn memory_that_is_not_the_servers_is_found_out() {
    let (folder, copy, mut memory) = (device(), device(), GuestMemory::default());
    memory.add(&folder.path().join("memory"), 1).unwrap();
    fs::copy(folder.path().join("memory"), copy.path().join("memory")).unwrap();
    let (mut client, mut server) = connected();
    client.sharing.devices = seen(copy.path());
    let part = memory.take(&[client.sharing.devices[0].name], &server).unwrap();
    server.give_part(&part).unwrap();
    client.take_part(&part.device(), part.place()).unwrap();
    let _server = server.answer_hello(b"welcome", crate::Room::WithArena).unwrap();
    client.recv_exact(&mut [0; 7]).unwrap();
    let error = client.take_up_memory().unwrap_err().to_string();
    assert!(error.contains("writes to other memory") && error.contains("shm:off"), "{error}");
}

#[test]
fn parts_that_cannot_be_are_no_parts() {
    let (folder, mut memory) = (device(), GuestMemory::default());
    memory.add(&folder.path().join("memory"), 1).unwrap();
    let (devices, mut client) = (seen(folder.path()), connected().0);
    let place = |at, len| PartPlace { at, len, mark: 1 };
    for (at, len) in [(1, 4 << 20), (0, 4096), (0, (4 << 20) + 1), (u64::MAX - 4095, 4 << 20), (1 << 62, 1 << 62)] {
        assert!(devices[0].rings(place(at, len), client.as_fd()).is_err(), "{at} {len}");
    }
    assert!(client.take_part(&[1; NAME], place(0, 4 << 20)).is_err(), "it has told of none");
}
