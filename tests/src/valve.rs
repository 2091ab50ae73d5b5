//! A way to a TCP port that can be shut for a while: what is sent meanwhile arrives late.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// A listening one. Its threads end with the connections that pass through them.
pub struct Valve {
    address: String,
    is_shut: Arc<(Mutex<bool>, Condvar)>,
}

impl Valve {
    /// One before this address (`host:port`).
    pub fn to(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let own = listener.local_addr().expect("it is bound").to_string();
        let is_shut = Arc::new((Mutex::new(false), Condvar::new()));
        let (gate, to) = (Arc::clone(&is_shut), address.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&to)) else { continue };
                let pairs = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
                for (from, into) in pairs {
                    let (Ok(from), Ok(into)) = (from, into) else { continue };
                    let gate = Arc::clone(&gate);
                    // The end of a connection is no fault here.
                    thread::spawn(move || drop(pass(from, into, &gate)));
                }
            }
        });
        Self { address: own, is_shut }
    }

    /// Where it is entered: `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Lets nothing pass from now on.
    pub fn shut(&self) {
        *self.is_shut.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Lets everything pass, what has been waiting first.
    pub fn open(&self) {
        *self.is_shut.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.is_shut.1.notify_all();
    }
}

impl Drop for Valve {
    fn drop(&mut self) {
        self.open();
    }
}

fn pass(mut from: TcpStream, mut into: TcpStream, (is_shut, changed): &(Mutex<bool>, Condvar)) -> io::Result<()> {
    let mut bytes = [0; 1 << 16];
    loop {
        let read = from.read(&mut bytes).unwrap_or(0);
        let shut = is_shut.lock().unwrap_or_else(PoisonError::into_inner);
        drop(changed.wait_while(shut, |shut| *shut).unwrap_or_else(PoisonError::into_inner));
        if read == 0 {
            return into.shutdown(Shutdown::Write);
        }
        into.write_all(&bytes[..read])?;
    }
}
