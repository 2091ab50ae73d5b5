//! Tickets: one line that lets a client in at one server.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::identity::KEY;
use super::lease::MAX_CERTIFICATE;
use super::{Identity, LeaseCertificate, PublicKey};

/// The first byte of a ticket's secret part: of one with keys alone, and of one with a lease behind them.
const KEYS: u8 = 1;
const LEASED: u8 = 2;

/// Bytes of the checksum at its end, which tells a ticket that was not copied whole from one that is refused.
const CHECK: usize = 4;

/// Most bytes of a secret part, and most letters of its text.
const MAX_BYTES: usize = 1 + 2 * KEY + MAX_CERTIFICATE + CHECK;
const MAX_TEXT: usize = MAX_BYTES.div_ceil(3) * 4;

/// The key by which a client knows a server, and the key by which the server knows the client, or the lease that it
/// shows for that key.
#[derive(Clone)]
pub struct Ticket {
    /// The server's.
    pub server: PublicKey,
    /// The client's.
    pub identity: Identity,
    /// The client's lease, for its key, where it has one.
    pub lease: Option<LeaseCertificate>,
}

impl Ticket {
    /// The part of a ticket's line after the address. Who has it can use the server.
    pub fn secret_text(&self) -> String {
        let (version, lease) = self.lease.as_ref().map_or((KEYS, &[][..]), |lease| (LEASED, lease.der()));
        let mut bytes = [&[version][..], self.server.bytes(), self.identity.seed(), lease].concat();
        let check = digest(&SHA256, &bytes);
        bytes.extend_from_slice(&check.as_ref()[..CHECK]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The ticket of such a text; `None` where it is not one, or is not whole, or its lease is not for its key.
    pub fn from_secret_text(text: &str) -> Option<Self> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (rest, check) = bytes.split_last_chunk::<CHECK>()?;
        if digest(&SHA256, rest).as_ref()[..CHECK] != *check {
            return None;
        }
        let (version, keys) = rest.split_first()?;
        let (server, keys) = keys.split_first_chunk::<KEY>()?;
        let (client, lease) = keys.split_first_chunk::<KEY>()?;
        let identity = Identity::from_seed(*client)?;
        let lease = match (*version, lease) {
            (KEYS, []) => None,
            (LEASED, der) => Some(LeaseCertificate::from_der(der).filter(|lease| lease.holder() == identity.public())?),
            _ => return None,
        };
        Some(Self { server: PublicKey::new(*server), identity, lease })
    }
}

impl PartialEq for Ticket {
    fn eq(&self, other: &Self) -> bool {
        let is_same = self.server == other.server && self.identity.public() == other.identity.public();
        is_same && self.lease == other.lease
    }
}

impl Eq for Ticket {}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("server", &self.server)
            .field("client", &self.identity.public())
            .field("lease", &self.lease)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every part and every changed letter of it is none.
    fn read_whole_or_not_at_all(ticket: &Ticket) {
        let text = ticket.secret_text();
        assert_eq!(Ticket::from_secret_text(&text).as_ref(), Some(ticket));
        for at in 0..text.len() {
            assert_eq!(Ticket::from_secret_text(&text[..at]), None);
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(Ticket::from_secret_text(std::str::from_utf8(&changed).unwrap()), None, "{at}");
        }
        assert!(!format!("{ticket:?}").contains(&text[50..60]));
    }

    /// As the text of these bytes with a checksum that fits.
    fn text_of(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode([bytes, &digest(&SHA256, bytes).as_ref()[..CHECK]].concat())
    }

    #[test]
    fn a_ticket_is_read_whole_or_not_at_all() {
        let server = Identity::generate().unwrap().public();
        read_whole_or_not_at_all(&Ticket { server, identity: Identity::generate().unwrap(), lease: None });
    }

    /// Tickets are kept: those of before leases have to be read, and to be written alike.
    #[test]
    fn a_ticket_without_a_lease_is_as_it_was() {
        let (server, identity) = (PublicKey::new([7; KEY]), Identity::from_seed([9; KEY]).unwrap());
        let text = "AQcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQmb1HlJ";
        let ticket = Ticket { server, identity, lease: None };
        assert_eq!((ticket.secret_text().as_str(), Ticket::from_secret_text(text)), (text, Some(ticket)));
    }

    #[cfg(feature = "lease-authority")]
    #[test]
    fn a_ticket_with_a_lease_is_for_the_leases_key() {
        use std::time::{Duration, SystemTime};

        use crate::tls::{MAX_LEASE, issue_lease};

        let [broker, holder, other] = [(); 3].map(|()| Identity::generate().unwrap());
        let server = Identity::generate().unwrap().public();
        let now = SystemTime::now();
        let issue = |contents: &str| {
            let der = issue_lease(&broker, holder.public(), contents, now, now + Duration::from_secs(60)).unwrap();
            LeaseCertificate::from_der(&der).unwrap()
        };
        let lease = issue("{\"id\":7}");
        read_whole_or_not_at_all(&Ticket { server, identity: holder.clone(), lease: Some(lease.clone()) });
        let foreign = Ticket { server, identity: other, lease: Some(lease.clone()) };
        assert_eq!(Ticket::from_secret_text(&foreign.secret_text()), None);
        // The longest that there is.
        let longest = Ticket { server, identity: holder.clone(), lease: Some(issue(&"\n".repeat(MAX_LEASE))) };
        assert_eq!(Ticket::from_secret_text(&longest.secret_text()), Some(longest));
        // Each version has what it has, and nothing else; longer texts are not read.
        let keys = [&server.bytes()[..], holder.seed()].concat();
        for (version, rest) in [(1, lease.der()), (2, &[]), (3, &[]), (3, lease.der()), (2, &[0; MAX_BYTES])] {
            let text = text_of(&[&[version][..], &keys, rest].concat());
            assert_eq!(Ticket::from_secret_text(&text), None, "version {version}, {} bytes", rest.len());
        }
        assert!(Ticket::from_secret_text(&text_of(&[&[1][..], &keys].concat())).is_some());
        assert!(Ticket::from_secret_text(&text_of(&[&[2][..], &keys, lease.der()].concat())).is_some());
    }
}
