//! A link between client and server that delays, cuts or garbles.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What the link does to the bytes from the server to the client.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// Each piece comes this much later (both ways).
    Delay(Duration),
    /// The connection ends after so many bytes.
    CutAfter(u64),
    /// From this byte on, all are wrong.
    GarbleFrom(u64),
}

/// A listening proxy.
pub struct Proxy {
    url: String,
    frozen: Arc<AtomicBool>,
}

impl Proxy {
    /// A link to the server at `address` (`host:port`).
    pub fn to(address: &str, fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let url = format!("tcp://{}", listener.local_addr().expect("it is bound"));
        let frozen = Arc::new(AtomicBool::new(false));
        let (address, stop) = (address.to_owned(), Arc::clone(&frozen));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&address) else { continue };
                for stream in [&client, &server] {
                    let _ = stream.set_nodelay(true);
                }
                let up = (client.try_clone(), server.try_clone());
                let (Ok(from), Ok(to)) = up else { continue };
                let up = if let Fault::Delay(_) = fault { fault } else { Fault::None };
                let (stop_up, stop_down) = (Arc::clone(&stop), Arc::clone(&stop));
                thread::spawn(move || pump(from, to, up, &stop_up));
                thread::spawn(move || pump(server, client, fault, &stop_down));
            }
        });
        Self { url, frozen }
    }

    /// Where clients find it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on nothing passes, and nobody is told: as if the cable were pulled.
    pub fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, fault: Fault, frozen: &AtomicBool) {
    let mut passed = 0;
    let mut piece = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut piece) {
        while frozen.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        let before = passed;
        passed += n as u64;
        let mut bytes = &mut piece[..n];
        match fault {
            Fault::None => {}
            Fault::Delay(time) => thread::sleep(time),
            Fault::CutAfter(limit) => {
                let rest = usize::try_from(limit.saturating_sub(before)).unwrap_or(usize::MAX);
                let len = bytes.len().min(rest);
                bytes = &mut bytes[..len];
            }
            Fault::GarbleFrom(start) => {
                let right = usize::try_from(start.saturating_sub(before)).unwrap_or(usize::MAX);
                bytes.iter_mut().skip(right).for_each(|byte| *byte = !*byte);
            }
        }
        if to.write_all(bytes).is_err() {
            break;
        }
        if let Fault::CutAfter(limit) = fault
            && passed >= limit
        {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
