//! What a codec's device remembers from one command to the next: the states of a context's streams, by the numbers that the program has
//! given them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ropeway_abi as cl;

use crate::kind::Failure;

/// A kernel's place among those of its device, and the program's number for a stream.
pub type Key = (usize, u32);

/// The streams of one context.
pub struct States<S> {
    most: u32,
    all: Mutex<HashMap<Key, Arc<Mutex<S>>>>,
}

impl<S> States<S> {
    /// None yet, and no more than `most`.
    pub fn new(most: u32) -> Self {
        Self { most, all: Mutex::default() }
    }

    /// A stream's state, made by its first command. Where there are too many, one that `is_over` makes room.
    ///
    /// # Errors
    /// What `make` fails with; or there are too many.
    pub fn get(
        &self,
        key: Key,
        is_over: impl Fn(&S) -> bool,
        make: impl FnOnce() -> Result<S, Failure>,
    ) -> Result<Arc<Mutex<S>>, Failure> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = all.get(&key) {
            return Ok(stream.clone());
        }
        if all.len() >= self.most as usize {
            // One that is locked has a command.
            all.retain(|_, stream| stream.try_lock().map_or(true, |state| !is_over(&state)));
        }
        if all.len() >= self.most as usize {
            let text =
                format!("this context has {} streams at the device already, and may have no more; end some", all.len());
            return Err(Failure::new(cl::CL_OUT_OF_RESOURCES, text));
        }
        let stream = Arc::new(Mutex::new(make()?));
        all.insert(key, stream.clone());
        Ok(stream)
    }

    /// A stream's state, if it has had a command.
    pub fn find(&self, key: Key) -> Option<Arc<Mutex<S>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Forgets a stream.
    pub fn forget(&self, key: Key) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_are_over_make_room() {
        let streams = States::new(2);
        let get =
            |number, over| streams.get((0, number), |state| *state, || Ok(over)).map(|stream| *stream.lock().unwrap());
        assert_eq!((get(1, false), get(2, true), get(1, true)), (Ok(false), Ok(true), Ok(false)));
        assert_eq!(get(3, false), Ok(false), "in the place of the second");
        assert_eq!(get(4, false).unwrap_err().status, cl::CL_OUT_OF_RESOURCES);
        streams.forget((0, 1));
        assert_eq!(get(4, false), Ok(false));
    }
}
