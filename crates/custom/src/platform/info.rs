//! Answers to queries.

use std::ffi::c_void;

use ropeway_abi as cl;

/// Where an answer goes: the last three arguments of every clGet…Info.
pub(super) struct Into {
    pub(super) size: usize,
    pub(super) value: *mut c_void,
    pub(super) size_ret: *mut usize,
}

impl Into {
    /// Gives these bytes.
    pub(super) fn bytes(self, bytes: &[u8]) -> cl::cl_int {
        if !self.value.is_null() {
            if self.size < bytes.len() {
                return cl::CL_INVALID_VALUE;
            }
            // SAFETY: the caller has `size` bytes there.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.value.cast::<u8>(), bytes.len()) };
        }
        // SAFETY: it is null or valid for a write.
        unsafe { write(self.size_ret, bytes.len()) };
        cl::CL_SUCCESS
    }

    /// Gives a number of 32 bits.
    pub(super) fn uint(self, value: u32) -> cl::cl_int {
        self.bytes(&value.to_ne_bytes())
    }

    /// Gives a truth value.
    pub(super) fn truth(self, value: bool) -> cl::cl_int {
        self.uint(value.into())
    }

    /// Gives a number of 64 bits.
    pub(super) fn ulong(self, value: u64) -> cl::cl_int {
        self.bytes(&value.to_ne_bytes())
    }

    /// Gives a size or a handle.
    pub(super) fn word(self, value: usize) -> cl::cl_int {
        self.bytes(&value.to_ne_bytes())
    }

    /// Gives several of them.
    pub(super) fn words(self, values: &[usize]) -> cl::cl_int {
        let bytes: Vec<_> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.bytes(&bytes)
    }

    /// Gives a string, with a NUL behind it.
    pub(super) fn text(self, text: &str) -> cl::cl_int {
        self.bytes(&[text.as_bytes(), b"\0"].concat())
    }
}

/// Writes `value` where the caller wants it, if at all.
///
/// # Safety
/// `at` is null or valid for a write.
pub(super) unsafe fn write<T>(at: *mut T, value: T) {
    if !at.is_null() {
        // SAFETY: by the promise of the caller.
        unsafe { at.write(value) };
    }
}

/// The handle of a new object, with CL_SUCCESS at `status`, or null with the error.
///
/// # Safety
/// As [`write`].
pub(super) unsafe fn give<H>(status: *mut cl::cl_int, made: Result<*mut H, cl::cl_int>) -> *mut H {
    let (handle, code) = match made {
        Ok(handle) => (handle, cl::CL_SUCCESS),
        Err(code) => (std::ptr::null_mut(), code),
    };
    // SAFETY: by the promise of the caller.
    unsafe { write(status, code) };
    handle
}
