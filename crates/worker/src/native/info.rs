//! Queries that fill memory of the caller's.

use ropeway_protocol::types::Status;

use super::check;

/// The most that an information query may return; more is an implementation gone wrong.
const MAX_INFO: usize = 64 << 20;

/// Calls `query(size, value, size_ret)` twice: for the length, then for the bytes.
pub(super) fn bytes(mut query: impl FnMut(usize, *mut libc::c_void, *mut usize) -> i32) -> Result<Vec<u8>, Status> {
    let mut len = 0;
    check(query(0, std::ptr::null_mut(), &raw mut len))?;
    if len > MAX_INFO {
        return Err(ropeway_abi::CL_OUT_OF_HOST_MEMORY);
    }
    let mut out = vec![0u8; len];
    if len > 0 {
        let mut written = len;
        check(query(len, out.as_mut_ptr().cast(), &raw mut written))?;
        out.truncate(written.min(len));
    }
    Ok(out)
}

/// A string query's answer without its final NUL.
pub(super) fn text(query: impl FnMut(usize, *mut libc::c_void, *mut usize) -> i32) -> Result<String, Status> {
    let mut bytes = bytes(query)?;
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The strings that `pointers` points to, each with its NUL. A null pointer is left out.
///
/// # Safety
/// `pointers` are the bytes of an array of pointers, each null or to a string that ends with NUL.
pub(super) unsafe fn strings(pointers: &[u8]) -> Vec<u8> {
    let (pointers, _) = pointers.as_chunks::<{ size_of::<usize>() }>();
    let mut out = Vec::new();
    for pointer in pointers {
        let string = std::ptr::with_exposed_provenance::<libc::c_char>(usize::from_ne_bytes(*pointer));
        if !string.is_null() {
            // SAFETY: a string, by the promise of the caller.
            out.extend_from_slice(unsafe { std::ffi::CStr::from_ptr(string) }.to_bytes_with_nul());
        }
    }
    out
}

/// A query's answer of fixed size, for types that any bytes are a value of.
pub(super) fn value<T: Plain>(query: impl FnOnce(usize, *mut libc::c_void, *mut usize) -> i32) -> Result<T, Status> {
    let mut out = T::default();
    check(query(size_of::<T>(), (&raw mut out).cast(), std::ptr::null_mut()))?;
    Ok(out)
}

/// Types without padding that every bit pattern is a value of.
pub(super) trait Plain: Default {}
impl Plain for u32 {}
impl Plain for i32 {}
impl Plain for u64 {}
impl Plain for usize {}
impl Plain for [usize; 3] {}
