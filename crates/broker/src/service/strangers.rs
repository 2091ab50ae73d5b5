//! Connections that have proved nothing yet: how many there are, in all and from each place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ropeway_transport::{Link, Origin};

/// Most of them.
const MAX: usize = 512;

/// Most of them from one place, so that one place cannot keep out the others.
const MAX_OF_ORIGIN: usize = 256;

/// Those that there are now.
#[derive(Clone, Default, Debug)]
pub(super) struct Strangers(Arc<Mutex<BTreeMap<Origin, usize>>>);

/// The place of one of them; free when it is dropped.
#[derive(Debug)]
pub(super) struct Stranger {
    all: Strangers,
    origin: Origin,
}

impl Strangers {
    /// A place for this connection; `None` if there are too many already.
    pub(super) fn admit(&self, link: &Link) -> Option<Stranger> {
        self.place(Origin::of(link))
    }

    fn place(&self, origin: Origin) -> Option<Stranger> {
        let mut all = self.lock();
        let here = all.get(&origin).copied().unwrap_or(0);
        if here >= MAX_OF_ORIGIN || all.values().sum::<usize>() >= MAX {
            return None;
        }
        all.insert(origin, here + 1);
        Some(Stranger { all: self.clone(), origin })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Origin, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        match all.get_mut(&self.origin) {
            Some(here) if *here > 1 => *here -= 1,
            _ => drop(all.remove(&self.origin)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_does_not_keep_out_the_others() {
        let strangers = Strangers::default();
        let [here, there, elsewhere] = [1, 2, 3].map(|byte| Origin::Address([byte; 4]));
        let many: Vec<_> = (0..MAX).map_while(|_| strangers.place(here)).collect();
        assert_eq!(many.len(), MAX_OF_ORIGIN);
        let more: Vec<_> = (0..MAX).map_while(|_| strangers.place(there)).collect();
        assert_eq!(more.len(), MAX - MAX_OF_ORIGIN);
        assert!(strangers.place(elsewhere).is_none());
        drop(many);
        assert!(strangers.place(elsewhere).is_some());
        drop(more);
        assert!(strangers.lock().is_empty());
    }
}
