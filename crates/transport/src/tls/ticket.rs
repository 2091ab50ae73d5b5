//! Tickets: one line that lets a client in at one server.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::identity::KEY;
use super::{Identity, PublicKey};

/// The first byte of a ticket's secret part.
const VERSION: u8 = 1;

/// Bytes of the checksum at its end, which tells a ticket that was not copied whole from one that is refused.
const CHECK: usize = 4;

/// The key by which a client knows a server, and the key by which the server knows the client.
#[derive(Clone)]
pub struct Ticket {
    /// The server's.
    pub server: PublicKey,
    /// The client's.
    pub identity: Identity,
}

impl Ticket {
    /// The part of a ticket's line after the address. Who has it can use the server.
    pub fn secret_text(&self) -> String {
        let mut bytes = [&[VERSION][..], self.server.bytes(), self.identity.seed()].concat();
        let check = digest(&SHA256, &bytes);
        bytes.extend_from_slice(&check.as_ref()[..CHECK]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The ticket of such a text; `None` where it is not one, or is not whole.
    pub fn from_secret_text(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (rest, check) = bytes.split_last_chunk::<CHECK>()?;
        if digest(&SHA256, rest).as_ref()[..CHECK] != *check {
            return None;
        }
        let (version, keys) = rest.split_first()?;
        let (server, client) = keys.split_first_chunk::<KEY>()?;
        let identity = (*version == VERSION).then(|| Identity::from_seed(client.try_into().ok()?)).flatten()?;
        Some(Self { server: PublicKey::new(*server), identity })
    }
}

impl PartialEq for Ticket {
    fn eq(&self, other: &Self) -> bool {
        self.server == other.server && self.identity.public() == other.identity.public()
    }
}

impl Eq for Ticket {}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("server", &self.server).field("client", &self.identity.public()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_whole_or_not_at_all() {
        let ticket = Ticket { server: Identity::generate().unwrap().public(), identity: Identity::generate().unwrap() };
        let text = ticket.secret_text();
        assert_eq!(Ticket::from_secret_text(&text), Some(ticket.clone()));
        for at in 0..text.len() {
            assert_eq!(Ticket::from_secret_text(&text[..at]), None);
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(Ticket::from_secret_text(std::str::from_utf8(&changed).unwrap()), None, "{at}");
        }
        assert!(!format!("{ticket:?}").contains(&text[50..60]));
    }
}
