//! The memory that small reads and writes use for their bytes.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::Part;
use super::pinned::{PinnedPiece, PinnedPool};

/// Some bytes of the host's that do not move. Whoever enqueues a command for them ensures that nobody touches them
/// meanwhile.
#[derive(Debug)]
pub struct Place(Bytes);

#[derive(Debug)]
enum Bytes {
    Ordinary(Vec<u8>),
    Pinned(PinnedPiece),
}

impl Place {
    /// Makes an ordinary place as large as `part`.
    ///
    /// # Errors
    /// CL_INVALID_VALUE for more than a process can have.
    pub fn ordinary(part: &Part) -> Result<Self, Status> {
        let size = usize::try_from(part.size()).map_err(|_| cl::CL_INVALID_VALUE)?;
        Ok(Self(Bytes::Ordinary(vec![0; size])))
    }

    /// Makes a pinned place as large as `part`, if the pool has room.
    pub fn pinned(part: &Part, pool: &Arc<PinnedPool>) -> Option<Self> {
        pool.take(part.size().try_into().ok()?).map(|piece| Self(Bytes::Pinned(piece)))
    }

    /// Makes a pinned place if possible, otherwise an ordinary one.
    ///
    /// # Errors
    /// As [`Place::ordinary`].
    pub fn of(part: &Part, pool: Option<&Arc<PinnedPool>>) -> Result<Self, Status> {
        pool.and_then(|pool| Self::pinned(part, pool)).map_or_else(|| Self::ordinary(part), Ok)
    }

    /// Returns the address of the first byte, for a command that moves `part`.
    ///
    /// # Errors
    /// CL_INVALID_VALUE if they are not as many.
    pub(super) fn pointer_for(&mut self, part: &Part) -> Result<*mut u8, Status> {
        if part.size() != self.size() as u64 {
            return Err(cl::CL_INVALID_VALUE);
        }
        Ok(match &mut self.0 {
            Bytes::Ordinary(bytes) => bytes.as_mut_ptr(),
            Bytes::Pinned(piece) => piece.pointer(),
        })
    }

    /// How many.
    pub(super) fn size(&self) -> usize {
        match &self.0 {
            Bytes::Ordinary(bytes) => bytes.len(),
            Bytes::Pinned(piece) => piece.size(),
        }
    }

    /// The bytes, of which the caller knows that no command writes them.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Ordinary(bytes) => bytes,
            Bytes::Pinned(piece) => piece.bytes(),
        }
    }

    /// The same, to be written; the caller knows that no command takes them yet.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Bytes::Ordinary(bytes) => bytes,
            Bytes::Pinned(piece) => piece.bytes_mut(),
        }
    }
}
