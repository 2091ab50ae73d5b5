//! The functions of the API, as C calls them.
//!
//! Each is one `unsafe extern "C" fn` whose safety contract is the specification's: pointers are null or valid as it
//! says of them. "The caller's promise" in the comments below is that contract. Bodies run inside [`crate::guard`].

/// The functions of an extension, which are found by name only.
macro_rules! functions {
    ($($module:ident::$name:ident,)*) => {
        /// The names of the extension's functions.
        #[cfg(test)]
        pub const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];

        /// The extension's function of this name.
        pub fn by_name(name: &[u8]) -> Option<*mut std::ffi::c_void> {
            $(
                if name == stringify!($name).as_bytes() {
                    return Some($module::$name as *mut std::ffi::c_void);
                }
            )*
            None
        }
    };
}
use functions;

pub mod build;
pub mod collectives;
pub mod command;
pub mod command_buffer;
pub mod content_size;
pub mod context;
pub mod copies;
pub mod device;
pub mod device_queue;
pub mod device_types;
pub mod event;
pub mod image;
pub mod image_part;
pub mod image_transfer;
pub mod kernel;
pub mod kernel_extra;
pub mod loader;
pub mod mapping;
pub mod memory;
pub mod native_kernel;
pub mod order;
pub mod pipe;
pub mod platform;
pub mod program;
pub mod queue;
pub mod rect;
pub mod sampler;
pub mod semaphore;
pub mod servers;
pub mod sub_buffer;
pub mod subdevice;
pub mod svm;
pub mod timer;
pub mod transfer;
pub mod unsupported;

use std::ffi::{CStr, c_char, c_void};

use ropeway_abi::{CL_INVALID_VALUE, cl_int, cl_uint};

/// `count` things behind `list`.
///
/// # Errors
/// CL_INVALID_VALUE unless both are there or neither is.
///
/// # Safety
/// `list` is null or valid for reads of `count` things, for as long as the call lasts.
pub(crate) unsafe fn both_or_neither<'a, T>(count: cl_uint, list: *const T) -> Result<&'a [T], cl_int> {
    match (count, list.is_null()) {
        (0, true) => Ok(&[]),
        (0, false) | (_, true) => Err(CL_INVALID_VALUE),
        // SAFETY: the caller's promise; not null.
        _ => Ok(unsafe { std::slice::from_raw_parts(list, count as usize) }),
    }
}

/// An origin or a region: three sizes.
///
/// # Errors
/// CL_INVALID_VALUE if `list` is NULL.
///
/// # Safety
/// `list` is null or has three entries.
pub(crate) unsafe fn three(list: *const usize) -> Result<[usize; 3], cl_int> {
    if list.is_null() {
        return Err(CL_INVALID_VALUE);
    }
    // SAFETY: the caller's promise; not null.
    Ok(unsafe { list.cast::<[usize; 3]>().read() })
}

/// Writes through a pointer that may be null.
///
/// # Safety
/// `target` is null or valid for a write.
pub(crate) unsafe fn put<T>(target: *mut T, value: T) {
    if !target.is_null() {
        // SAFETY: the caller's promise; not null.
        unsafe { target.write(value) };
    }
}

/// Checks the arguments of an enumeration (`num_entries`, `list`, `num_ret`).
///
/// # Errors
/// CL_INVALID_VALUE if num_entries is 0 and the list is not NULL, or if both num_ret and the list are NULL.
pub(crate) fn check_enumeration(
    room: cl_uint,
    list: *const *mut c_void,
    num_ret: *const cl_uint,
) -> Result<(), cl_int> {
    let wrong = if list.is_null() { num_ret.is_null() } else { room == 0 };
    if wrong { Err(CL_INVALID_VALUE) } else { Ok(()) }
}

/// Answers an enumeration (`num_entries`, `list`, `num_ret`): as many of `all` as fit, and their number.
///
/// # Safety
/// `list` is null or valid for writes of `room` handles, `num_ret` null or valid for a write.
pub(crate) unsafe fn enumerate(all: &[*mut c_void], room: cl_uint, list: *mut *mut c_void, num_ret: *mut cl_uint) {
    if !list.is_null() {
        for (index, &one) in all.iter().take(room as usize).enumerate() {
            // SAFETY: below `room`, by the caller's promise.
            unsafe { list.add(index).write(one) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { put(num_ret, all.len() as cl_uint) };
}

/// A Rust function pointer of the application, with the argument that goes with it, on its way to another thread.
#[derive(Clone, Copy)]
pub(crate) struct Callback<F: Copy> {
    function: F,
    user_data: *mut c_void,
}

// SAFETY: the application hands both over to be used on a thread of the implementation's choice.
unsafe impl<F: Copy> Send for Callback<F> {}
// SAFETY: as above.
unsafe impl<F: Copy> Sync for Callback<F> {}

impl<F: Copy> Callback<F> {
    pub(crate) fn new(function: F, user_data: *mut c_void) -> Self {
        Self { function, user_data }
    }

    /// Both, to be called. (A method, so that a closure takes hold of the whole pair.)
    pub(crate) fn parts(self) -> (F, *mut c_void) {
        (self.function, self.user_data)
    }
}

/// A handle on its way to another thread.
#[derive(Clone, Copy)]
pub(crate) struct Raw(*mut c_void);

// SAFETY: handles are looked up, never followed; any thread may hold one.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl Raw {
    pub(crate) fn new(handle: *mut c_void) -> Self {
        Self(handle)
    }

    pub(crate) fn get(self) -> *mut c_void {
        self.0
    }
}

/// A C string, unless it is null.
///
/// # Safety
/// `string` is null or a C string, for as long as the call lasts.
pub unsafe fn text<'a>(string: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise; not null.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_bytes())
}
