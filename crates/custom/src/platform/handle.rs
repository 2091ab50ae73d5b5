//! Objects as OpenCL's handles: reference-counted, with a dispatch table in front.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use ropeway_abi::icd::DispatchTable;

/// The dispatch table of all objects, known before there is one.
static TABLE: OnceLock<&'static DispatchTable> = OnceLock::new();

/// Names the dispatch table of all objects: the same each time.
pub(super) fn dispatch_through(table: &'static DispatchTable) {
    TABLE.get_or_init(|| table);
}

/// An object behind a handle. Its first word is what an ICD loader calls it through.
#[repr(C)]
pub(super) struct Object<T> {
    dispatch: *const DispatchTable,
    value: T,
}

// SAFETY: the table is a constant; all else is the value's.
unsafe impl<T: Send> Send for Object<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Object<T> {}

impl<T> Object<T> {
    /// A new object.
    ///
    /// # Panics
    /// If [`dispatch_through`] was not called.
    pub(super) fn new(value: T) -> Arc<Self> {
        let dispatch: *const DispatchTable = *TABLE.get().expect("the table is known before there are objects");
        Arc::new(Self { dispatch, value })
    }

    /// A handle that owns the reference.
    pub(super) fn into_handle<H>(self: Arc<Self>) -> *mut H {
        Arc::into_raw(self).cast_mut().cast()
    }

    /// The handle of an object, which owns nothing.
    pub(super) fn handle<H>(self: &Arc<Self>) -> *mut H {
        Arc::as_ptr(self).cast_mut().cast()
    }
}

impl<T> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The object of a handle; `None` for a null one.
///
/// # Safety
/// The handle is null or one that `Object<T>` has given out and that is still referred to.
pub(super) unsafe fn get<T, H>(handle: *mut H) -> Option<Arc<Object<T>>> {
    if handle.is_null() {
        return None;
    }
    let object: *const Object<T> = handle.cast();
    // SAFETY: by the promise of the caller; the reference made here is the result's.
    unsafe {
        Arc::increment_strong_count(object);
        Some(Arc::from_raw(object))
    }
}

/// Takes one more reference; false for a null handle.
///
/// # Safety
/// As [`get`].
pub(super) unsafe fn retain<T, H>(handle: *mut H) -> bool {
    // SAFETY: as `get`.
    let object = unsafe { get::<T, H>(handle) };
    object.map(Object::into_handle::<H>).is_some()
}

/// Gives a reference back, and returns the object, which may have been its last; `None` for a null handle.
///
/// # Safety
/// As [`get`]; the handle owns a reference.
pub(super) unsafe fn release<T, H>(handle: *mut H) -> Option<Arc<Object<T>>> {
    // SAFETY: by the promise of the caller, the reference is the handle's to give.
    (!handle.is_null()).then(|| unsafe { Arc::from_raw(handle.cast_const().cast::<Object<T>>()) })
}
