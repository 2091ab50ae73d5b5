//! What the files that are tested in models (`make model`) synchronise threads with: the standard library's locks,
//! atomics and threads or, in those tests, shuttle's. Shuttle runs one thread at a time, and draws at each of their
//! operations which one goes on.

#[cfg(not(all(test, feature = "model")))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, TryLockError, atomic},
    thread, thread_local,
};

#[cfg(all(test, feature = "model"))]
pub(crate) use ropeway_model::shuttle::{
    sync::{Condvar, Mutex, MutexGuard, TryLockError, atomic},
    thread, thread_local,
};

#[cfg(not(all(test, feature = "model")))]
pub(crate) use super::sync::lock;

/// As [`super::sync::lock`].
#[cfg(all(test, feature = "model"))]
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
