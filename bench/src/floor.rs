//! The floor of the network itself: a round trip of 4 bytes and a stream each way, over a plain TCP connection to a
//! process of its own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Bytes of one send or receive of a stream.
const PIECE: usize = 1 << 20;

/// The orders to the far end: an operation, then a number.
const ECHO: u8 = 0;
const SWALLOW: u8 = 1;
const SEND: u8 = 2;

/// A connection to the far end.
pub struct Floor {
    far: Child,
    link: TcpStream,
    piece: Vec<u8>,
}

/// The far end: serves one connection, then ends.
///
/// # Errors
/// The socket's error.
pub fn far_end() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    let (mut link, _) = listener.accept()?;
    link.set_nodelay(true)?;
    let mut piece = piece();
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

fn swallow(link: &mut TcpStream, mut left: usize, piece: &mut [u8]) -> io::Result<()> {
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
    /// Starts a far end and connects to it.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn start() -> io::Result<Self> {
        let mut far = Command::new(std::env::current_exe()?).args(["child", "floor"]).stdout(Stdio::piped()).spawn()?;
        let mut port = String::new();
        if let Some(out) = far.stdout.take() {
            BufReader::new(out).read_line(&mut port)?;
        }
        let port: u16 = port.trim().parse().map_err(|_| io::Error::other("the floor's far end did not start"))?;
        let link = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        link.set_nodelay(true)?;
        Ok(Self { far, link, piece: piece() })
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

impl Drop for Floor {
    fn drop(&mut self) {
        // The far end stops when the connection does; nothing is lost if it has gone already.
        let _ = self.link.shutdown(std::net::Shutdown::Both);
        let _ = self.far.wait();
    }
}
