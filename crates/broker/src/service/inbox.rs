//! What comes to the heart.

use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::Ask;

use crate::core::Peer;

/// What comes to the heart.
pub(super) enum Input {
    /// A connection says something.
    Said(Peer, Ask),
    /// A connection is gone.
    Gone(Peer),
    /// A lease was granted to a connection that is gone.
    Undelivered(LeaseId),
    /// Nothing can be written down: why.
    CannotWrite(String),
    /// What could not be written down is.
    CanWrite,
}
