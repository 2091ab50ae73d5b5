//! Where a buffer's memory is mapped: what tells a right address from a wrong one.
//!
//! PoCL 3.1 frees the record of a mapping while another thread's map of the same address still reads its answer from it, and so returns wild
//! addresses where two threads map and unmap one buffer at the same time. So no two threads do, and no address is used that does not fit what a
//! map has returned while nothing else of the object was mapped.

use std::sync::{Mutex, PoisonError};

use ropeway_protocol::types::Status;

/// The mappings of a buffer and of all its sub-buffers.
#[derive(Debug, Default)]
pub(super) struct Addresses(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The address of the buffer's first byte; `None` before the first mapping.
    base: Option<usize>,
    /// Whether mappings of the same bytes had different addresses. That is legal, but of two mappings at the same time neither can be checked then.
    moves: bool,
    /// How many mappings there are now.
    live: usize,
}

impl Addresses {
    /// Those of a buffer whose first byte is at an address that is known.
    pub fn known(base: usize) -> Self {
        Self(Mutex::new(State { base: Some(base), ..State::default() }))
    }

    /// Maps the byte at `offset` and what follows it by means of `map`, while no other thread maps or unmaps anything of the buffer. The address, of
    /// which it is known that it is right; `None` where that cannot be known, and the mapping was given back by means of `unmap`.
    ///
    /// # Errors
    /// What `map` returned.
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
        // With nothing else mapped, the address is as good as the implementation, which nobody disturbs.
        state.base = Some(base);
        state.live += 1;
        Ok(Some(at))
    }

    /// Gives a mapping back by means of `unmap`, which waits for the end of that, while no other thread maps or unmaps anything of the buffer.
    ///
    /// # Errors
    /// What `unmap` returned. The mapping is then taken to be there still.
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
        // From now on there is one mapping at a time.
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
