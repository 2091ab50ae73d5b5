//! The floor of the link itself: a round trip of 4 bytes and a stream each way, over a plain connection to a process of
//! its own. The connection is TCP over loopback, or of the kind that the server under test is reached by.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::ToSocketAddrs as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use ropeway_transport::{Endpoint, VsockAddress};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::orders::{ANSWER, answer};

/// Bytes of one send or receive of a stream.
const PIECE: usize = 1 << 20;

/// The orders to the far end: an operation, then a number.
const ECHO: u8 = 0;
const SWALLOW: u8 = 1;
const SEND: u8 = 2;
/// Into, and out of, memory of which each byte is used once.
const SWALLOW_COLD: u8 = 3;
const SEND_COLD: u8 = 4;

/// A connection to the far end.
pub struct Floor {
    /// Where this program has started it.
    far: Option<Child>,
    link: Socket,
    piece: Vec<u8>,
}

/// A socket of the kind that an endpoint asks for, and its address.
fn socket(endpoint: &Endpoint) -> io::Result<(Socket, SockAddr)> {
    let (domain, address) = match endpoint {
        Endpoint::Tcp { host, port } => {
            let address = (host.as_str(), *port).to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
            (Domain::for_address(address), address.into())
        }
        Endpoint::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
        Endpoint::Vsock(VsockAddress { cid, port }) => {
            (Domain::VSOCK, SockAddr::vsock(*cid, if *port == 0 { u32::MAX } else { *port }))
        }
        other => return Err(io::Error::other(format!("there is no plain stream to {other}"))),
    };
    let socket = Socket::new(domain, Type::STREAM, None)?;
    if matches!(endpoint, Endpoint::Tcp { .. }) {
        socket.set_tcp_nodelay(true)?;
    }
    Ok((socket, address))
}

/// The far end: listens at this address, prints its port where it has one, serves one connection, then ends.
///
/// # Errors
/// The socket's error.
pub fn far_end(endpoint: &Endpoint) -> io::Result<()> {
    let (listener, address) = socket(endpoint)?;
    listener.bind(&address)?;
    listener.listen(1)?;
    let address = listener.local_addr()?;
    let port = address.as_socket().map(|address| address.port().into());
    answer(&port.or(address.as_vsock_address().map(|(_, port)| port)).unwrap_or(0).to_string());
    let (mut link, _) = listener.accept()?;
    if matches!(endpoint, Endpoint::Tcp { .. }) {
        link.set_tcp_nodelay(true)?;
    }
    let mut piece = piece();
    let mut cold = Vec::new();
    let mut order = [0; 9];
    while link.read_exact(&mut order).is_ok() {
        let [op, count @ ..] = order;
        let mut left = u64::from_le_bytes(count) as usize;
        match op {
            ECHO => {
                for _ in 0..left {
                    let mut bytes = [0; 4];
                    link.read_exact(&mut bytes)?;
                    link.write_all(&bytes)?;
                }
            }
            SWALLOW => {
                swallow(&mut link, left, &mut piece)?;
                link.write_all(&[0; 4])?;
            }
            SWALLOW_COLD => {
                cold.resize(left, 1);
                swallow_cold(&mut link, &mut cold)?;
                link.write_all(&[0; 4])?;
            }
            SEND_COLD => {
                cold.resize(left, 1);
                link.write_all(&cold)?;
            }
            _ => {
                while left > 0 {
                    let len = left.min(PIECE);
                    link.write_all(&piece[..len])?;
                    left -= len;
                }
            }
        }
    }
    Ok(())
}

/// Receives as many bytes as there are places.
fn swallow_cold(link: &mut Socket, places: &mut [u8]) -> io::Result<()> {
    for piece in places.chunks_mut(PIECE) {
        link.read_exact(piece)?;
    }
    Ok(())
}

fn swallow(link: &mut Socket, mut left: usize, piece: &mut [u8]) -> io::Result<()> {
    while left > 0 {
        let limit = left.min(PIECE);
        match link.read(&mut piece[..limit])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => left -= len,
        }
    }
    Ok(())
}

/// Bytes that are all touched and not all the same.
fn piece() -> Vec<u8> {
    (0..PIECE).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

impl Floor {
    /// Starts a far end and connects to it: over vsock within this machine if the server at this URL is reached so, else
    /// over loopback.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn start(server: &str) -> io::Result<Self> {
        let (listen, connect) = match server.parse() {
            Ok(Endpoint::Vsock(_)) => ("vsock://:0", "vsock://1:"),
            _ => ("tcp://127.0.0.1:0", "tcp://127.0.0.1:"),
        };
        let mut far = Command::new(std::env::current_exe()?);
        let mut far = far.args(["child", "floor", listen]).stdout(Stdio::piped()).spawn()?;
        let mut port = String::new();
        if let Some(out) = far.stdout.take() {
            BufReader::new(out).read_line(&mut port)?;
        }
        let connect = format!("{connect}{}", port.trim().trim_start_matches(ANSWER)).parse();
        let connect = connect.map_err(|_| io::Error::other("the floor's far end did not start"))?;
        let mut floor = Self::at(&connect)?;
        floor.far = Some(far);
        Ok(floor)
    }

    /// Connects to a far end that runs elsewhere: `ropeway-bench child floor URL`.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn at(far: &Endpoint) -> io::Result<Self> {
        let (link, address) = socket(far)?;
        link.connect(&address)?;
        Ok(Self { far: None, link, piece: piece() })
    }

    fn order(&mut self, op: u8, count: usize) -> io::Result<()> {
        let mut order = [op; 9];
        order[1..].copy_from_slice(&(count as u64).to_le_bytes());
        self.link.write_all(&order)
    }

    /// The median of `count` round trips of 4 bytes, in microseconds.
    ///
    /// # Errors
    /// The socket's error.
    pub fn round_trip(&mut self, count: usize) -> io::Result<f64> {
        let warm = count / 10;
        self.order(ECHO, count + warm)?;
        let mut times = Vec::with_capacity(count);
        let mut bytes = [0; 4];
        for i in 0..count + warm {
            let start = Instant::now();
            self.link.write_all(&bytes)?;
            self.link.read_exact(&mut bytes)?;
            if i >= warm {
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        Ok(crate::median::median(&mut times))
    }

    /// A stream of `size` bytes to the far end, in MB/s (10^6 bytes).
    ///
    /// # Errors
    /// The socket's error.
    pub fn stream_up(&mut self, size: usize) -> io::Result<f64> {
        let start = Instant::now();
        self.order(SWALLOW, size)?;
        let mut left = size;
        while left > 0 {
            let len = left.min(PIECE);
            self.link.write_all(&self.piece[..len])?;
            left -= len;
        }
        self.link.read_exact(&mut [0; 4])?;
        Ok(size as f64 / start.elapsed().as_secs_f64() / 1e6)
    }

    /// A stream of `size` bytes from the far end, in MB/s (10^6 bytes).
    ///
    /// # Errors
    /// The socket's error.
    pub fn stream_down(&mut self, size: usize) -> io::Result<f64> {
        let start = Instant::now();
        self.order(SEND, size)?;
        swallow(&mut self.link, size, &mut self.piece)?;
        Ok(size as f64 / start.elapsed().as_secs_f64() / 1e6)
    }
}

/// The ends of a stream that reads and writes memory as a program's transfers do: all of it, each byte once.
pub struct Cold {
    floor: Floor,
    source: Vec<u8>,
    back: Vec<u8>,
}

impl Cold {
    /// Connects to a far end.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn at(far: &Endpoint) -> io::Result<Self> {
        Ok(Self { floor: Floor::at(far)?, source: Vec::new(), back: Vec::new() })
    }

    /// Carries out an order as [`crate::work::Work::measure`] does, without OpenCL: `write` or `read`, in MB/s.
    ///
    /// # Errors
    /// The socket's error.
    pub fn measure(&mut self, name: &str, count: usize, size: usize) -> io::Result<f64> {
        if self.source.len() != size {
            (self.source, self.back) = (vec![1; size], vec![1; size]);
            // The first use gets the far end its memory.
            self.up(1)?;
        }
        if name == "write" { self.up(count) } else { self.down(count) }
    }

    fn up(&mut self, count: usize) -> io::Result<f64> {
        let start = Instant::now();
        for _ in 0..count {
            self.floor.order(SWALLOW_COLD, self.source.len())?;
            self.floor.link.write_all(&self.source)?;
        }
        self.floor.link.read_exact(&mut vec![0; 4 * count])?;
        Ok((count * self.source.len()) as f64 / start.elapsed().as_secs_f64() / 1e6)
    }

    fn down(&mut self, count: usize) -> io::Result<f64> {
        let mut rates = Vec::new();
        for _ in 0..count {
            let start = Instant::now();
            self.floor.order(SEND_COLD, self.back.len())?;
            swallow_cold(&mut self.floor.link, &mut self.back)?;
            rates.push(self.back.len() as f64 / start.elapsed().as_secs_f64() / 1e6);
            // The caches are then as after a transfer whose bytes are checked.
            if self.back != self.source {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(crate::median::median(&mut rates))
    }
}

/// Prints what a link to a far end elsewhere gives by itself, for machines on which nothing else can be measured.
///
/// # Errors
/// The socket's error.
pub fn by_itself(far: &Endpoint) -> io::Result<()> {
    const ROUNDS: usize = 7;
    const SIZE: usize = 64 << 20;
    let mut floor = Floor::at(far)?;
    let mut figures = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        figures[0].push(floor.round_trip(400)?);
        figures[1].push(floor.stream_up(SIZE)?);
        figures[2].push(floor.stream_down(SIZE)?);
    }
    let [trip, up, down] = figures.each_mut().map(|figures| crate::median::median(figures));
    println!("{trip:.1} us a round trip, {up:.0} MB/s there, {down:.0} MB/s back");
    Ok(())
}

impl Drop for Floor {
    fn drop(&mut self) {
        // The far end stops when the connection does; nothing is lost if it has gone already.
        let _ = self.link.shutdown(std::net::Shutdown::Both);
        if let Some(far) = &mut self.far {
            let _ = far.wait();
        }
    }
}
