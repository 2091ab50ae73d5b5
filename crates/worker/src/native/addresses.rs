//! Where a buffer's memory is mapped: what tells a right address from a wrong one.
//!
//! PoCL 3.1 frees the record of a mapping while another thread's map of the same address still reads its answer from
//! it, and so returns wild addresses when two threads map and unmap one buffer at the same time. So only one thread at
//! a time maps or unmaps a buffer, and an address is used only if it agrees with the address that a map returned while
//! nothing else of the object was mapped.

use std::sync::{Mutex, PoisonError};

use ropeway_protocol::types::Status;

/// The mappings of a buffer and of all its sub-buffers.
#[derive(Debug, Default)]
pub(super) struct Addresses(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The address of the buffer's first byte; `None` before the first mapping.
    base: Option<usize>,
    /// Whether mappings of the same bytes had different addresses. That is legal, but the addresses of two simultaneous
    /// mappings cannot be checked then.
    moves: bool,
    /// How many mappings there are now.
    live: usize,
}

impl Addresses {
    /// Makes the record of a buffer whose first byte is at a known address.
    pub fn known(base: usize) -> Self {
        Self(Mutex::new(State { base: Some(base), ..State::default() }))
    }

    /// Calls `map` for the bytes from `offset` on, while no other thread maps or unmaps anything of the buffer. Returns
    /// the address if it is known to be right; otherwise `None`, and `unmap` gives back a mapping that was made.
    ///
    /// # Errors
    /// The status of `map`.
    pub fn map(
        &self,
        offset: usize,
        map: impl FnOnce() -> Result<*mut u8, Status>,
        unmap: impl FnOnce(*mut u8),
    ) -> Result<Option<*mut u8>, Status> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.moves && state.live > 0 {
            return Ok(None);
        }
        let at = map()?;
        let base = at.addr().wrapping_sub(offset);
        let fits = state.base.is_none_or(|known| known == base);
        state.moves |= !fits;
        if !fits && state.live > 0 {
            unmap(at);
            return Ok(None);
        }
        // With nothing else mapped, no other thread can disturb the implementation, so its address is trusted.
        state.base = Some(base);
        state.live += 1;
        Ok(Some(at))
    }

    /// Calls `unmap`, which gives a mapping back and waits for that to end, while no other thread maps or unmaps
    /// anything of the buffer.
    ///
    /// # Errors
    /// The status of `unmap`. The mapping then counts as still there.
    pub fn unmap(&self, unmap: impl FnOnce() -> Result<(), Status>) -> Result<(), Status> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unmap()?;
        state.live -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn map(addresses: &Addresses, offset: usize, at: usize) -> (Option<usize>, Option<usize>) {
        let given_back = Cell::new(None);
        let address = |at: *mut u8| at.addr();
        let mapped =
            addresses.map(offset, || Ok(std::ptr::without_provenance_mut(at)), |at| given_back.set(Some(address(at))));
        (mapped.unwrap().map(address), given_back.get())
    }

    #[test]
    fn an_address_that_does_not_fit_the_others_is_not_used() {
        let addresses = Addresses::default();
        assert_eq!(map(&addresses, 100, 0x5064), (Some(0x5064), None));
        assert_eq!(map(&addresses, 0, 0x5000), (Some(0x5000), None));
        assert_eq!(map(&addresses, 8, 0x7777), (None, Some(0x7777)), "it is given back");
        // From now on, only one mapping at a time is allowed.
        assert_eq!(map(&addresses, 0, 0x5000), (None, None), "none is made");
        for _ in 0..2 {
            addresses.unmap(|| Ok(())).unwrap();
        }
        assert_eq!(map(&addresses, 0, 0x9000), (Some(0x9000), None), "nothing else is mapped");
        assert_eq!(map(&addresses, 0, 0x9000), (None, None));
    }

    #[test]
    fn a_mapping_alone_may_be_anywhere() {
        let addresses = Addresses::default();
        for at in [0x1000, 0x2000, 0x1000] {
            assert_eq!(map(&addresses, 0, at), (Some(at), None));
            addresses.unmap(|| Ok(())).unwrap();
        }
        assert_eq!(Addresses::known(0x1000).map(4, || Err(-12), |_| {}), Err(-12));
    }

    #[test]
    fn what_could_not_be_unmapped_counts_as_mapped() {
        let addresses = Addresses::known(0x1000);
        assert_eq!(map(&addresses, 4, 0x1004), (Some(0x1004), None));
        assert_eq!(addresses.unmap(|| Err(-5)), Err(-5));
        assert_eq!(map(&addresses, 4, 0x2000), (None, Some(0x2000)));
    }
}
