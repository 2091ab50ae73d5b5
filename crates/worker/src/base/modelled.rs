//! What the files that are tested in models (`make model`) synchronise threads with: the standard library's locks and
//! threads or, in those tests, shuttle's. Shuttle runs one thread at a time, and draws at each of their operations
//! which one goes on.

#[cfg(all(test, feature = "model"))]
pub use ropeway_model::shuttle::sync::{Condvar, Mutex};
#[cfg(not(all(test, feature = "model")))]
pub use std::sync::{Condvar, Mutex};

#[cfg(not(all(test, feature = "model")))]
pub use super::lock::lock;

/// As [`super::lock::lock`].
#[cfg(all(test, feature = "model"))]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> ropeway_model::shuttle::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Starts a thread that nobody waits for.
///
/// # Errors
/// The system's.
#[cfg(not(all(test, feature = "model")))]
pub fn start(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(run).map(drop)
}

/// As the ordinary one. Of what shuttle runs, only futures may be left when a test ends.
#[cfg(all(test, feature = "model"))]
pub fn start(_name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    drop(ropeway_model::shuttle::future::spawn(async move { run() }));
    Ok(())
}
