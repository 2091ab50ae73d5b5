//! Servers that are not what they should be.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Listens on a free loopback port and treats each connection with `treat`. Returns the port's URL.
///
/// The thread ends with the test's process.
pub fn server(treat: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> String {
    server_at("127.0.0.1:0", treat)
}

/// The same at `address` (`host:port`).
fn server_at(address: &str, treat: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> String {
    let listener = TcpListener::bind(address).expect("the address is free");
    let url = format!("tcp://{}", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let treat = treat.clone();
            thread::spawn(move || treat(stream));
        }
    });
    url
}

/// A port that nobody listens on.
pub fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    format!("tcp://{}", listener.local_addr().expect("it is bound"))
}

/// Accepts, reads, and never says a word.
pub fn silent() -> String {
    server(|mut stream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    })
}

/// Answers everything with these bytes, and keeps the connection open.
pub fn answering(bytes: Vec<u8>) -> String {
    answering_at("127.0.0.1:0", bytes)
}

/// The same at `address` (`host:port`).
pub fn answering_at(address: &str, bytes: Vec<u8>) -> String {
    server_at(address, move |mut stream| {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&bytes);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    })
}

/// Bytes that look random and are the same in each run.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(len).collect()
}
