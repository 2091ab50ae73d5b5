//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex even if a panicking thread has poisoned it: the session is ending then anyway.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
