//! Who speaks to the broker.

/// A connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer(pub u64);

/// Whose connection it is, as the handshake has proved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// The name of the ticket.
    pub name: String,
    /// Whether it may register servers.
    pub registers: bool,
}
