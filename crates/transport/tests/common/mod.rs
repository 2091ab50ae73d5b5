//! The server's end of a handshake, for tests.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ropeway_transport::tls::{self, Client, ClientAuth, Door, Identity, PublicKey, Secrets};

/// The clients that a server knows.
#[derive(Debug)]
pub struct Known(pub Vec<PublicKey>);

impl ClientAuth for Known {
    fn knows(&self, key: &PublicKey) -> bool {
        self.0.contains(key)
    }
}

/// The door of a server that knows these clients.
pub fn door(identity: &Identity, known: Vec<PublicKey>) -> Door {
    tls::accept(identity, Arc::new(Known(known))).unwrap()
}

/// Does the server's part of a handshake over `stream`, which does not wait.
pub fn serve(stream: &mut (impl Read + Write), door: &Door) -> io::Result<(Client, Secrets)> {
    let mut accepting = door.open()?;
    loop {
        match accepting.advance(stream) {
            Ok(()) => return accepting.finish(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_micros(100)),
            Err(error) => return Err(error),
        }
    }
}
