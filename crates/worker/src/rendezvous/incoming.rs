//! Transfers from the client whose bytes have not all come, and those in either direction whose bytes it copies itself.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use ropeway_protocol::Tail;
use ropeway_protocol::ids::{MemoryId, TransferId};
use rustc_hash::FxHashMap;

use super::transfer::Rendezvous;
use crate::base::error::{End, unknown};
use crate::link::client::Client;
use crate::queue_states::claim;

/// A transfer from the client that is not over.
pub struct Incoming {
    /// Where the bytes go.
    pub rendezvous: Arc<Rendezvous>,
    /// The buffer whose first contents they are; no command is about them then.
    pub initial: Option<MemoryId>,
    /// How many have come.
    received: u64,
}

/// Makes the services of a session.
#[derive(Default)]
pub struct Incomings(FxHashMap<TransferId, Incoming>);

impl Incomings {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Expects the bytes of `rendezvous`; `initial` is the object whose first contents they are. The session has
    /// `total` objects.
    ///
    /// # Errors
    /// The transfer's name is taken, or the session has too many objects.
    pub fn expect(&mut self, total: usize, rendezvous: Arc<Rendezvous>, initial: Option<MemoryId>) -> Result<(), End> {
        // Drop here what is over: no bytes come for them any more, so nothing else would remove them.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|_, incoming| !incoming.rendezvous.is_over());
        }
        claim(total + self.0.len(), &mut self.0, rendezvous.transfer, Incoming { rendezvous, initial, received: 0 })
    }

    /// Takes bytes of a transfer; gives the transfer once they were the last.
    ///
    /// # Errors
    /// The transfer does not exist, the bytes are not its next ones, or the link broke.
    pub fn receive(&mut self, transfer: TransferId, offset: u64, tail: &mut dyn Tail) -> Result<Option<Incoming>, End> {
        let incoming = self.0.get_mut(&transfer).ok_or_else(|| unknown(transfer))?;
        let len = tail.remaining() as u64;
        if offset != incoming.received || len == 0 || len > incoming.rendezvous.size - offset {
            return Err(End::refused(format_args!("{len} bytes at {offset} are not what comes next of {transfer}")));
        }
        incoming.rendezvous.receive(offset, tail)?;
        incoming.received += len;
        Ok(if incoming.received < incoming.rendezvous.size { None } else { self.0.remove(&transfer) })
    }

    /// Gives a transfer of which the client has copied what it was lent, or the oldest piece of that.
    ///
    /// # Errors
    /// The transfer does not exist, or the client has been lent nothing of it.
    pub fn copied(&mut self, transfer: TransferId, client: &Client) -> Result<Incoming, End> {
        let Entry::Occupied(entry) = self.0.entry(transfer) else { return Err(unknown(transfer)) };
        let Incoming { rendezvous, initial, received } = entry.get();
        // First contents come either way, as the client likes.
        let is_last = match initial {
            Some(_) => rendezvous.place(client).map(|_| true),
            None => rendezvous.lending.copied(),
        };
        match is_last {
            Some(true) => Ok(entry.remove()),
            Some(false) => Ok(Incoming { rendezvous: rendezvous.clone(), initial: *initial, received: *received }),
            None => Err(End::refused(format_args!("that it has copied {transfer}, which it was not to do"))),
        }
    }
}
