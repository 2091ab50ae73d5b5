//! Captures all packets that machines of a test's network send and receive, and looks for known bytes in them.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use socket2::{Domain, Protocol, Socket, Type};

use crate::net::Host;

/// All protocols of a link (`ETH_P_ALL`), as a packet socket takes it: in network byte order.
const ALL_PROTOCOLS: u16 = 3_u16.to_be();

/// What the kernel keeps of packets that have not been taken yet: more than a test sends, so that it drops none.
const KEPT: usize = 256 << 20;

/// The largest packet on a link, with room: several segments of TCP may come as one.
const PACKET: usize = 128 << 10;

/// How long a packet is waited for before it is seen whether the capture is over.
const PAUSE: Duration = Duration::from_millis(50);

/// Bytes that must be the same one after the other until something counts as found.
const WINDOW: usize = 16;

/// Packets of machines' links, `lo` among them, from [`Capture::of`] on.
pub struct Capture {
    over: Arc<AtomicBool>,
    machines: Vec<JoinHandle<Vec<Vec<u8>>>>,
}

/// What was captured.
pub struct Captured {
    machines: Vec<Vec<Vec<u8>>>,
}

impl Capture {
    /// Begins to capture at these machines.
    ///
    /// # Panics
    /// Where packet sockets are not allowed; who may make network namespaces may make these in them.
    pub fn of<'a>(hosts: impl IntoIterator<Item = &'a Host>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let machines = hosts.into_iter().map(|host| {
            let (socket, over) = (host.inside(packet_socket), Arc::clone(&over));
            thread::spawn(move || packets(&socket, &over))
        });
        Self { machines: machines.collect(), over }
    }

    /// Ends it once everything that was sent before has been taken.
    pub fn end(mut self) -> Captured {
        self.over.store(true, Ordering::Release);
        let machines = self.machines.drain(..).map(|machine| machine.join().expect("packets can be captured"));
        Captured { machines: machines.collect() }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Of a test that has failed: the threads end by themselves.
        self.over.store(true, Ordering::Release);
    }
}

fn packet_socket() -> Socket {
    let protocol = Some(Protocol::from(i32::from(ALL_PROTOCOLS)));
    let socket = Socket::new(Domain::PACKET, Type::RAW, protocol).expect("root of a network can capture there");
    set_socket_recv_buffer_size_force(socket.as_fd(), KEPT).expect("root can have large buffers");
    socket.set_read_timeout(Some(PAUSE)).expect("a socket has a time-out");
    socket
}

/// All packets until nothing comes any more after the capture is over.
fn packets(mut socket: &Socket, over: &AtomicBool) -> Vec<Vec<u8>> {
    let (mut packets, mut packet) = (Vec::new(), vec![0; PACKET]);
    loop {
        let is_over = over.load(Ordering::Acquire);
        match socket.read(&mut packet) {
            Ok(len) => {
                assert!(len < PACKET, "a packet that may have been longer");
                packets.push(packet[..len].to_vec());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && is_over => return packets,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => panic!("packets cannot be captured: {error}"),
        }
    }
}

impl Captured {
    /// Bytes of all packets at each machine.
    pub fn bytes(&self) -> Vec<usize> {
        self.machines.iter().map(|packets| packets.iter().map(Vec::len).sum()).collect()
    }

    /// For each of `secrets`, how often any 16 successive bytes of it occur in a packet.
    pub fn found<const N: usize>(&self, secrets: [&[u8]; N]) -> [usize; N] {
        let windows = secrets.iter().enumerate().flat_map(|(number, secret)| {
            assert!(secret.len() >= WINDOW, "too short to be told from others");
            secret.windows(WINDOW).map(move |window| (window, number))
        });
        let windows: HashMap<_, _> = windows.collect();
        // Looked at first, as nearly all bytes are none of them.
        let mut begins = vec![false; 1 << 16];
        let begin = |window: &[u8]| usize::from(window[0]) << 8 | usize::from(window[1]);
        windows.keys().for_each(|window| begins[begin(window)] = true);
        let mut found = [0; N];
        for window in self.machines.iter().flatten().flat_map(|packet| packet.windows(WINDOW)) {
            if begins[begin(window)]
                && let Some(number) = windows.get(window)
            {
                found[*number] += 1;
            }
        }
        found
    }
}
