//! What the handle arena synchronises threads with: the standard library's mutex and atomics or, in the tests that go
//! through all interleavings (`make model`), loom's, which have the same interface.

#[cfg(all(test, feature = "model"))]
pub(crate) use loom::sync::{Mutex, atomic};
#[cfg(not(all(test, feature = "model")))]
pub(crate) use std::sync::{Mutex, atomic};
