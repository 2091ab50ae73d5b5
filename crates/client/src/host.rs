//! The application's memory, as the client sees it.
//!
//! OpenCL lets the application hand over bare pointers, to be read or written after the call has returned. The C boundary
//! wraps them in these traits; everything here stays safe Rust.

use std::sync::Arc;

/// Memory to read from, until the object is dropped.
pub trait HostSource: Send {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

/// Memory to write into, until the object is dropped.
pub trait HostTarget: Send {
    /// The bytes.
    fn bytes(&mut self) -> &mut [u8];
}

/// A stretch of memory that lives as long as a buffer: the application's own (CL_MEM_USE_HOST_PTR), or one allocated for
/// mapping.
pub trait HostRange: Send + Sync {
    /// Its first byte's address.
    fn address(&self) -> usize;
    /// `len` bytes from `offset`, to send.
    fn source(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostSource>;
    /// `len` bytes from `offset`, to receive into.
    fn target(self: Arc<Self>, offset: usize, len: usize) -> Box<dyn HostTarget>;
}

/// The addresses from the first to behind the last byte.
pub(crate) fn addresses(bytes: &[u8]) -> std::ops::Range<usize> {
    let start = bytes.as_ptr().addr();
    start..start.saturating_add(bytes.len())
}

/// Bytes that the client itself holds.
impl HostSource for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}
