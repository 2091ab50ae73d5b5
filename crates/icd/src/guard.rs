//! Around every entry of the library: panics end here, a forked child is turned away, calls are traced.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use ropeway_abi::{CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES, CL_SUCCESS, cl_int};
use ropeway_client::{debug, error};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// Runs an entry that returns an error code.
#[inline]
pub fn status<T>(name: &'static str, body: impl FnOnce() -> Result<T, cl_int>) -> cl_int {
    match run(name, body) {
        Ok(_) => CL_SUCCESS,
        Err(code) => code,
    }
}

/// Runs an entry that returns an object (or a pointer) and its error code through `errcode_ret`.
///
/// # Safety
/// `errcode_ret` is null or valid for a write.
#[inline]
pub unsafe fn create(
    name: &'static str,
    errcode_ret: *mut cl_int,
    body: impl FnOnce() -> Result<*mut c_void, cl_int>,
) -> *mut c_void {
    let (made, code) = match run(name, body) {
        Ok(made) => (made, CL_SUCCESS),
        Err(code) => (ptr::null_mut(), code),
    };
    if !errcode_ret.is_null() {
        // SAFETY: the caller's promise.
        unsafe { errcode_ret.write(code) };
    }
    made
}

#[inline]
fn run<T>(name: &'static str, body: impl FnOnce() -> Result<T, cl_int>) -> Result<T, cl_int> {
    if forked() {
        return Err(refuse_child());
    }
    // State that a panic leaves half done is either dropped with the closure or behind a lock of the client's, which
    // ignores poisoning.
    let outcome = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(outcome) => outcome,
        Err(panic) => Err(report_panic(name, panic.as_ref())),
    };
    match &outcome {
        Ok(_) => debug!("{name}: done"),
        Err(code) => debug!("{name}: error {code}"),
    }
    outcome
}

#[cold]
fn report_panic(name: &str, panic: &(dyn Any + Send)) -> cl_int {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    error!("{name} failed inside Ropeway: {text}. The call returns CL_OUT_OF_HOST_MEMORY; please report this");
    CL_OUT_OF_HOST_MEMORY
}

/// One byte that is 1 in the process that armed the guard, and that the kernel sets to 0 in every child of it.
static MARK: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());

/// From now on a child of this process is turned away: sockets and locks are the parent's.
pub fn arm() {
    const PAGE: usize = 4096;
    if !MARK.load(Ordering::Acquire).is_null() {
        return;
    }
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let mapped =
        unsafe { mmap_anonymous(ptr::null_mut(), PAGE, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
    let Ok(page) = mapped else { return };
    // SAFETY: exactly the mapping made above; a parent's own view of it does not change.
    if unsafe { madvise(page, PAGE, Advice::LinuxWipeOnFork) }.is_err() {
        return;
    }
    let mark = page.cast::<AtomicU8>();
    // SAFETY: the page is mapped for ever, and zero is a valid AtomicU8.
    unsafe { &*mark }.store(1, Ordering::Relaxed);
    // Where two threads arm at once, one page too many is mapped; nothing else comes of it.
    MARK.store(mark, Ordering::Release);
}

/// Whether this process was forked from one that had already used Ropeway.
#[inline]
pub fn forked() -> bool {
    let mark = MARK.load(Ordering::Acquire);
    // SAFETY: null or the page made by `arm`.
    !mark.is_null() && unsafe { &*mark }.load(Ordering::Relaxed) == 0
}

#[cold]
fn refuse_child() -> cl_int {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        error!(
            "this process was forked from one that uses OpenCL through Ropeway and cannot use its objects; \
             start OpenCL after the fork, or in a new program"
        );
    }
    CL_OUT_OF_RESOURCES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(status("clTest", || -> Result<(), cl_int> { panic!("oh") }), CL_OUT_OF_HOST_MEMORY);
        let mut code = 1;
        // SAFETY: a valid place.
        let made = unsafe { create("clTest", &mut code, || panic!("oh")) };
        assert_eq!((made, code), (ptr::null_mut(), CL_OUT_OF_HOST_MEMORY));
    }

    #[test]
    fn this_process_is_no_child() {
        arm();
        assert!(!forked());
    }
}
