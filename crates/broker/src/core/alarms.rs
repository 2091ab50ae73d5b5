//! Times at which something is to be done, the next one first.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

/// For each key, at most one time.
#[derive(Debug)]
pub struct Alarms<K> {
    by_time: BTreeSet<(Duration, K)>,
    of: HashMap<K, Duration>,
}

impl<K> Default for Alarms<K> {
    fn default() -> Self {
        Self { by_time: BTreeSet::new(), of: HashMap::new() }
    }
}

impl<K: Copy + Ord + Hash> Alarms<K> {
    /// Sets the time of a key, or none.
    pub fn set(&mut self, key: K, at: Option<Duration>) {
        let before = match at {
            Some(at) => self.of.insert(key, at),
            None => self.of.remove(&key),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.by_time.remove(&(before, key));
        }
        if let Some(at) = at {
            self.by_time.insert((at, key));
        }
    }

    /// The next time.
    pub fn next(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes out a key whose time has come.
    pub fn due(&mut self, now: Duration) -> Option<K> {
        let (at, key) = *self.by_time.first().filter(|(at, _)| *at <= now)?;
        self.by_time.remove(&(at, key));
        self.of.remove(&key);
        Some(key)
    }
}
