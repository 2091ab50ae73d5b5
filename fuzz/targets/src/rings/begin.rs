//! How such a link begins: what is passed as memory, and what is said of it.

use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use ropeway_generate::Entropy;
use ropeway_transport::nearby::{Inbox, TOKEN};
use ropeway_transport::{Link, Room, SharedFiles, Side};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, sendmsg,
    sendmsg_addr, socket,
};

use super::memory::{ARENA, Bell, Hostile, IN_USE, LEN, RINGS};

/// What a client says first, and what a server answers.
const HELLO: &[u8] = b"hello";
const ANSWER: &[u8] = b"welcome";

/// The seals that such memory must have.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A link and the other end, which does not know of any more bytes than there are.
type Begun = Option<(Link, Hostile)>;

fn memory(len: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memory");
    ftruncate(&file, len).expect("a size");
    fcntl_add_seals(&file, seals).expect("seals");
    file
}

/// What a client passes; where it is what was agreed on, with how many bytes for bulk data.
fn passed(entropy: &mut Entropy<'_>) -> (OwnedFd, Option<u64>) {
    let pick = entropy.byte();
    let open = |path: &str| OwnedFd::from(File::open(path).expect("it is there"));
    let other = match pick {
        // In most cases things begin as they should.
        0..128 => return (memory(LEN, SEALS), Some(0)),
        128..160 => {
            let arena = ARENA * u64::from(pick % 4);
            return (memory(LEN + arena, SEALS), Some(arena));
        }
        160..184 => {
            let seals = SealFlags::from_bits_truncate(u32::from(pick) % 8);
            return (memory(LEN, seals), (seals == SEALS).then_some(0));
        }
        184..208 => {
            let sizes = [0, ARENA, 4096, LEN - 1, LEN + 1, LEN + ARENA - 4096, LEN + 4096, 1 << 40];
            memory(sizes[usize::from(pick % 8)], SEALS)
        }
        // Nobody may write there any more, this side included.
        208..216 => memory(LEN, SEALS | SealFlags::WRITE),
        216..224 => memory(LEN, SEALS | SealFlags::FUTURE_WRITE),
        224..232 => {
            let file = memory(LEN, SEALS);
            open(&format!("/proc/self/fd/{}", file.as_raw_fd()))
        }
        232..238 => memfd_create("unsealable", MemfdFlags::CLOEXEC).expect("memory"),
        238..242 => open("/dev/null"),
        242..246 => open("/"),
        246..250 => UnixStream::pair().expect("sockets").0.into(),
        _ => io::pipe().expect("a pipe").0.into(),
    };
    (other, None)
}

/// Whether an end that wants no more than this takes memory with so many bytes for bulk data.
fn wants(room: Room, arena: u64) -> bool {
    arena == 0 || arena == ARENA || room == Room::WithArena
}

fn pair() -> (Link, UnixStream) {
    let (near, far) = UnixStream::pair().expect("sockets");
    far.set_nonblocking(true).expect("a socket");
    (Link::from_fd(near.into()).expect("a link"), far)
}

/// Sends `bytes` with files, if there are some.
fn send(socket: &UnixStream, bytes: &[u8], files: Option<&SharedFiles>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SharedFiles::COUNT))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = files.map(SharedFiles::as_fds);
    if let Some(files) = &files {
        ancillary.push(SendAncillaryMessage::ScmRights(files));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).expect("there is room");
}

fn copy(file: BorrowedFd<'_>) -> OwnedFd {
    file.try_clone_to_owned().expect("a descriptor")
}

/// The same link in another process, as the daemon hands it on.
fn hand_on(link: Link) -> io::Result<Link> {
    let memory = link.memory().map(|(files, side)| (files.into_iter().map(copy).collect::<Vec<_>>(), side));
    let other = Link::from_fd(copy(link.as_fd()))?;
    match memory {
        Some((files, side)) => other.with_memory(files, side),
        None => Ok(other),
    }
}

/// A server's end: a client says hello, and passes something with it, or does not.
///
/// # Panics
/// When it takes what is no such memory, or does not take what is.
pub fn at_server(entropy: &mut Entropy<'_>) -> Begun {
    let (mut link, client) = pair();
    let pick = entropy.byte();
    let (first, second) = HELLO.split_at(usize::from(pick % 5));
    let with_bells = |(file, arena)| (SharedFiles::around(file).expect("bells"), arena);
    let files: Vec<_> = (0..pick / 8 % 4).map(|_| with_bells(passed(entropy))).collect();
    // None, one, or two, of which the last counts; the third stays where it is.
    let with = |at: usize| files.get(at).map(|(files, _)| files);
    if !first.is_empty() {
        send(&client, first, with(1));
    }
    send(&client, second, with(0));
    let mut hello = [0; HELLO.len()];
    let mut got = 0;
    while got < hello.len() {
        let to = if pick >= 128 { got + 1 } else { hello.len() };
        got += link.try_recv_hello(&mut hello[got..to]).expect("it is there");
    }
    assert_eq!(hello, *HELLO);
    if pick.is_multiple_of(3) {
        link = hand_on(link).expect("what is passed is looked at when it is used");
    }
    let room = if entropy.byte() < 128 { Room::WithArena } else { Room::ForPeers };
    // With nothing before it, there was only one place for a file.
    let passed = files.first().map(|(files, arena)| (files, arena.filter(|arena| wants(room, *arena))));
    match (passed, link.answer_hello(ANSWER, room)) {
        (Some((files, Some(_))), Ok(link)) => {
            assert!(link.shares_memory());
            let memory = File::from(copy(files.memory.as_fd()));
            let bell = Bell::new(&files.bells[1]);
            let hostile = Hostile { memory, bell, socket: Some(client), read: RINGS[0], written: RINGS[1] };
            assert_eq!(hostile.flag(IN_USE), 1, "it says that it uses it");
            Some((link, ready(hostile, ANSWER)))
        }
        (None, Ok(link)) => {
            assert!(!link.shares_memory());
            None
        }
        (Some((_, None)), Err(_)) => None,
        (_, answered) => panic!("{answered:?} with {files:?}"),
    }
}

/// Reads what the link has said over the socket so far.
fn ready(hostile: Hostile, said: &[u8]) -> Hostile {
    let mut bytes = vec![0; said.len()];
    let mut socket = hostile.socket.as_ref().expect("it is open");
    socket.read_exact(&mut bytes).expect("it was said");
    assert_eq!(bytes, said);
    hostile
}

/// A client's end: a server gets its memory, writes there, and answers.
///
/// # Panics
/// When the client takes it for used where it is not, or the other way round.
pub fn at_client(entropy: &mut Entropy<'_>) -> Begun {
    let (mut link, server) = pair();
    let room = if entropy.byte() < 64 { Room::WithArena } else { Room::ForPeers };
    link.offer_memory(HELLO, room).expect("it can be said");
    let (files, side) = link.memory().expect("it is offered");
    assert_eq!(side, Side::Offered);
    let (memory, bell) = (File::from(copy(files[0])), Bell::new(files[1]));
    let hostile = Hostile { memory, bell, socket: Some(server), read: RINGS[1], written: RINGS[0] };
    let mut hostile = ready(hostile, HELLO);
    let pick = entropy.byte();
    let uses = if pick < 192 { 1 } else { u32::from(pick % 4) };
    hostile.write(&uses.to_le_bytes(), IN_USE);
    hostile.socket.as_mut().expect("it is open").write_all(ANSWER).expect("there is room");
    let mut answer = [0; ANSWER.len()];
    link.recv_exact(&mut answer).expect("it is there");
    if pick.is_multiple_of(3) && room == Room::ForPeers {
        let (other, arena) = passed(entropy);
        let bare = Link::from_fd(copy(link.as_fd())).expect("a link");
        let is_a_peers = arena.is_some_and(|arena| wants(room, arena));
        let other = SharedFiles::around(other).expect("bells").as_fds().map(copy);
        assert_eq!(bare.with_memory(other, Side::Offered).is_ok(), is_a_peers, "other memory");
        link = hand_on(link).expect("it is the memory that it has made");
    }
    let link = link.take_up_memory().unwrap();
    assert_eq!(link.shares_memory(), uses == 1);
    link.shares_memory().then_some((link, hostile))
}

/// A link of a server, or of a client, whose other end has begun as it should.
pub fn honestly(server: bool) -> Begun {
    if server { at_server(&mut Entropy::new(&[8])) } else { at_client(&mut Entropy::new(&[])) }
}

/// What is left at a server's inbox: the memory of a client whose connection it is, or anything else.
///
/// # Panics
/// When memory is taken for another connection, or what is left there is not passed over.
pub fn handed_in(entropy: &mut Entropy<'_>) {
    let inbox = Inbox::open().expect("an inbox");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let client = TcpStream::connect(address).expect("a connection");
    let mut link = Link::from_fd(listener.accept().expect("a connection").0.into()).expect("a link");
    let ends = format!("{} {address}", client.local_addr().expect("an address"));
    let to = SocketAddrUnix::new_abstract_name(inbox.name().as_bytes()).expect("a name");
    let from = socket(AddressFamily::UNIX, SocketType::DGRAM, None).expect("a socket");
    while !entropy.is_empty() {
        let (pick, mut message) = (entropy.byte(), vec![entropy.byte(); TOKEN]);
        message.extend_from_slice(ends.as_bytes());
        if pick & 1 != 0 {
            ropeway_generate::damage(&mut message, entropy);
        }
        message.truncate(if pick & 2 != 0 { usize::from(entropy.byte()) } else { 300 });
        let (file, arena) = passed(entropy);
        let files = SharedFiles::around(file).expect("bells");
        let files = files.as_fds();
        let files = &files[..usize::from(pick / 4 % 4)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SharedFiles::COUNT))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(files));
        }
        sendmsg_addr(&from, &to, &[IoSlice::new(&message)], &mut ancillary, SendFlags::DONTWAIT)
            .expect("there is room");
        let own = message.split_at_checked(TOKEN);
        let Some(handed_in) = inbox.take() else {
            let is_whole = message.len() <= 256
                && own.is_some_and(|(_, ends)| std::str::from_utf8(ends).is_ok())
                && files.len() == SharedFiles::COUNT;
            assert!(!is_whole, "what is whole is passed over");
            continue;
        };
        let (token, shown) = own.expect("a message without a token is passed over");
        assert!(handed_in.token == token && files.len() == SharedFiles::COUNT);
        let is_own = shown == ends.as_bytes();
        link.accept_memory(handed_in);
        assert_eq!(link.memory().is_some(), is_own, "memory for another connection");
        if is_own {
            let link = link.answer_hello(ANSWER, Room::WithArena).map(|link| link.shares_memory()).ok();
            return assert_eq!(link, arena.map(|_| true), "what is no such memory");
        }
    }
}
