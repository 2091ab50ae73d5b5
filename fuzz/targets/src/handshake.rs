//! TLS handshakes at the server: garbage, and a real client whose bytes are damaged on their way.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use ropeway_generate::{Entropy, damage};
use ropeway_transport::tls::{
    self, Accepting, CertificateFiles, ClientAuth, Credentials, Door, Identity, LeaseCertificate, PublicKey,
    issue_lease,
};

use crate::records::both_ways;

/// Who takes part: a server, the one client that it knows, and somebody else.
struct Cast {
    door: Door,
    server: PublicKey,
    client: Identity,
    stranger: Identity,
    /// The same server where it has a certificate and a broker, too; certificates of a client and of somebody else; a
    /// lease of a holder, and those that are of no use to it.
    open: Door,
    certificate: Credentials,
    unknown: Credentials,
    holder: Identity,
    lease: LeaseCertificate,
    useless: [LeaseCertificate; 3],
}

/// How a client says who it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Key,
    Certificate,
    Lease,
}

/// What the leases say.
const LENT: &str = "all";

/// The name that the certificates of `certificates/` are for.
const HOST: &str = "fuzz.invalid";

#[derive(Debug)]
struct Known(PublicKey);

impl ClientAuth for Known {
    fn knows(&self, key: &PublicKey) -> bool {
        *key == self.0
    }
}

fn cast() -> &'static Cast {
    static CAST: OnceLock<Cast> = OnceLock::new();
    CAST.get_or_init(|| {
        let identity = |seed| Identity::from_seed([seed; 32]).expect("any seed makes a key");
        let (server, client) = (identity(1), identity(2));
        let door = tls::accept(&server, Arc::new(Known(client.public()))).expect("a door");
        let (stranger, broker, holder) = (identity(3), identity(4), identity(5));
        let open = door.clone().with_certificates(&SERVER()).expect("the same door");
        let open = open.with_lease_authority(broker.public()).expect("the same door");
        let (now, year) = (SystemTime::now(), Duration::from_secs(365 * 86400));
        let lease = |authority, begin, end| {
            let der = issue_lease(authority, holder.public(), LENT, begin, end).expect("a lease");
            LeaseCertificate::from_der(&der).expect("a lease")
        };
        let useless = [
            lease(&stranger, now - year, now + year),
            lease(&broker, now - 2 * year, now - year),
            lease(&broker, now + year, now + 2 * year),
        ];
        let lease = lease(&broker, now - year, now + year);
        let (server, certificate, unknown) = (server.public(), CLIENT(), OTHER());
        Cast { door, server, client, stranger, open, certificate, unknown, holder, lease, useless }
    })
}

/// The credentials of one of `certificates/`. Nobody uses their keys for anything else.
macro_rules! credentials {
    ($name:literal) => {
        || {
            let files = CertificateFiles {
                certificate: $name.into(),
                key: $name.into(),
                authorities: "ca".into(),
                revoked: None,
            };
            let own = include_bytes!(concat!("../certificates/", $name, ".pem"));
            let key = include_bytes!(concat!("../certificates/", $name, ".key"));
            let read = Credentials::from_pem(own, key, include_bytes!("../certificates/ca.pem"), &files);
            read.expect("certificates of use")
        }
    };
}

const SERVER: fn() -> Credentials = credentials!("server");
const CLIENT: fn() -> Credentials = credentials!("client");
const OTHER: fn() -> Credentials = credentials!("other");

/// Bytes that come in pieces, at times none; what is written is taken in pieces, too.
struct Pieces<'a> {
    coming: &'a mut VecDeque<u8>,
    written: &'a mut VecDeque<u8>,
    entropy: &'a mut Entropy<'static>,
}

impl Pieces<'_> {
    /// How many of `len` bytes pass now; 0 for none, but never for ever.
    fn portion(&mut self, len: usize) -> usize {
        match self.entropy.byte() {
            0..200 => len,
            200..220 => 0,
            pick => len.min(usize::from(pick - 219)),
        }
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.portion(into.len().min(self.coming.len()));
        if len == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        into.iter_mut().zip(self.coming.drain(..len)).for_each(|(to, from)| *to = from);
        Ok(len)
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.portion(bytes.len()) {
            0 => Err(ErrorKind::WouldBlock.into()),
            len => {
                self.written.extend(&bytes[..len]);
                Ok(len)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What of the client's bytes, or the server's, is changed on its way.
struct Harm {
    /// At which of the pieces that are sent.
    at: u8,
    how: u8,
    with: Vec<u8>,
    seen: u8,
    held: Vec<u8>,
    is_done: bool,
}

impl Harm {
    fn new(entropy: &mut Entropy<'_>) -> Self {
        let (at, how, with) = (entropy.byte() % 4, entropy.byte(), entropy.slice(24).to_vec());
        Self { at, how, with, seen: 0, held: Vec::new(), is_done: false }
    }

    /// Passes a piece on to `wire`.
    fn pass(&mut self, piece: &[u8], wire: &mut VecDeque<u8>) {
        let mut piece = piece.to_vec();
        if self.seen == self.at {
            let before = piece.clone();
            match self.how % 8 {
                // It comes after the next one, or never.
                0 => self.held = std::mem::take(&mut piece),
                // It comes twice.
                1 => piece.extend_from_slice(&before),
                // It is followed, preceded or replaced by something else.
                2 => piece.extend_from_slice(&self.with),
                3 => piece = [&self.with[..], &before].concat(),
                4 => {
                    let kept = usize::from(self.how) * piece.len() / 256;
                    piece.truncate(kept);
                    piece.extend_from_slice(&self.with);
                }
                _ => damage(&mut piece, &mut Entropy::new(&self.with)),
            }
            self.is_done |= piece != before;
        }
        self.seen = self.seen.saturating_add(1);
        wire.extend(&piece);
        if self.seen > self.at + 1 {
            wire.extend(std::mem::take(&mut self.held));
        }
    }
}

/// The client's end of a wire whose other end is a server. It drives the server where it waits for it.
struct Wire {
    accepting: Accepting,
    /// How the server's handshake ended, if it has.
    outcome: Option<io::Result<()>>,
    to_server: VecDeque<u8>,
    /// What the server has written, and what of it has reached the client's end.
    written: VecDeque<u8>,
    to_client: VecDeque<u8>,
    entropy: Entropy<'static>,
    harm: Option<Harm>,
    /// Whether the server's bytes are harmed, and not the client's.
    is_server_harmed: bool,
}

impl Wire {
    /// Lets the server go on as far as it can.
    fn drive(&mut self) {
        while self.outcome.is_none() {
            let there = self.to_server.len();
            let (coming, written) = (&mut self.to_server, &mut self.written);
            let mut pieces = Pieces { coming, written, entropy: &mut self.entropy };
            match self.accepting.advance(&mut pieces) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // Each turn uses up some of the choices.
                    if there == 0 && self.entropy.is_empty() {
                        break;
                    }
                }
                outcome => self.outcome = Some(outcome),
            }
        }
        let bytes: Vec<u8> = self.written.drain(..).collect();
        match &mut self.harm {
            Some(harm) if self.is_server_harmed && !bytes.is_empty() => harm.pass(&bytes, &mut self.to_client),
            _ => self.to_client.extend(bytes),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.to_client.is_empty() {
            self.drive();
        }
        let len = into.len().min(self.to_client.len());
        into.iter_mut().zip(self.to_client.drain(..len)).for_each(|(to, from)| *to = from);
        Ok(len)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.harm {
            Some(harm) if !self.is_server_harmed => harm.pass(bytes, &mut self.to_server),
            _ => self.to_server.extend(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What comes is no client at all.
///
/// # Panics
/// When it is let in.
pub fn garbage(entropy: &mut Entropy<'_>) {
    let shape = entropy.byte();
    let door = if shape & 128 == 0 { &cast().door } else { &cast().open };
    let mut accepting = door.open().expect("a handshake begins");
    let rest = entropy.slice(usize::MAX);
    let mut bytes = VecDeque::from(rest.to_vec());
    let mut put = |header: &[u8]| header.iter().rev().for_each(|byte| bytes.push_front(*byte));
    let [.., high, low] = (rest.len() as u32).to_be_bytes();
    match shape % 4 {
        0 => {}
        // Records of their real length, with a ClientHello or anything else in them.
        1 => put(&[22, 3, 1, high, low]),
        _ => {
            let [.., inner_high, inner_low] = (rest.len() as u32 + 4).to_be_bytes();
            put(&[22, 3, 1, inner_high, inner_low, shape / 8 % 16, 0, high, low]);
        }
    }
    let (mut written, mut entropy) = (VecDeque::new(), Entropy::new(&[]));
    let mut pieces = Pieces { coming: &mut bytes, written: &mut written, entropy: &mut entropy };
    assert!(accepting.advance(&mut pieces).is_err(), "garbage is let in");
}

/// A client, known or not, with its key, a certificate or a lease, does its
/// handshake; something happens to its bytes or to the server's on their way.
///
/// # Panics
/// When a stranger is let in, a known client whose bytes arrive is not, or both ends are content with different
/// secrets.
pub fn handshake(entropy: &mut Entropy<'_>) {
    let Cast { door, server, client, stranger, open, certificate, unknown, holder, lease, useless } = cast();
    let (who, how, kind) = (entropy.byte(), entropy.byte(), entropy.byte());
    let (door, shown) = match kind {
        0..96 => (door, Shown::Key),
        96..144 => (open, Shown::Key),
        144..192 => (open, Shown::Certificate),
        192.. => (open, Shown::Lease),
    };
    let harm = (how >= 40).then(|| Harm::new(entropy));
    // The wire's own: it is used while the client's handshake has the rest.
    let pieces: &'static [u8] = if who & 64 == 0 { &[] } else { &PORTIONS[usize::from(who >> 2 & 15) * 16..] };
    let mut wire = Wire {
        accepting: door.open().expect("a handshake begins"),
        outcome: None,
        to_server: VecDeque::new(),
        written: VecDeque::new(),
        to_client: VecDeque::new(),
        entropy: Entropy::new(pieces),
        harm,
        is_server_harmed: how >= 220,
    };
    let is_known = who % 4 != 0;
    let pinned = if who % 32 == 1 && shown != Shown::Certificate { stranger.public() } else { *server };
    let at_client = match shown {
        Shown::Key => tls::connect(&mut wire, if is_known { client } else { stranger }, pinned),
        Shown::Certificate => tls::connect_certified(&mut wire, if is_known { certificate } else { unknown }, HOST),
        Shown::Lease => {
            let lease = if is_known { lease } else { &useless[usize::from(who / 4) % useless.len()] };
            tls::connect_with_lease(&mut wire, holder, lease, pinned)
        }
    };
    wire.drive();
    let is_harmed = wire.harm.as_ref().is_some_and(|harm| harm.is_done);
    match wire.outcome {
        Some(Ok(())) => {
            let (found, at_server) = wire.accepting.finish().expect("a handshake that is over has secrets");
            let expected = match shown {
                Shown::Key => client.public(),
                Shown::Certificate => PublicKey::of_certificate("client"),
                Shown::Lease => holder.public(),
            };
            assert!(is_known && found.key == expected && pinned == *server, "a stranger is let in");
            assert_eq!(found.name.as_deref(), (shown == Shown::Certificate).then_some("client"));
            assert_eq!(found.lease.as_ref(), (shown == Shown::Lease).then_some(lease.lease()));
            match at_client {
                Ok(at_client) => {
                    assert_eq!(at_client.sealing, at_server.opening, "the two ends do not agree");
                    assert_eq!(at_client.opening, at_server.sealing, "the two ends do not agree");
                    both_ways(entropy, at_client, at_server);
                }
                Err(error) => assert!(is_harmed, "the client gives up after it was let in: {error}"),
            }
        }
        other => {
            let is_welcome = is_known && pinned == *server && !is_harmed;
            assert!(!is_welcome, "a client is not let in: {other:?} {at_client:?}");
        }
    }
}

/// Choices for [`Pieces`], all different.
static PORTIONS: [u8; 512] = portions();

const fn portions() -> [u8; 512] {
    let (mut all, mut at, mut state) = ([0; 512], 0, 0x9E37_79B9_u32);
    while at < all.len() {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        all[at] = state as u8;
        at += 1;
    }
    all
}
