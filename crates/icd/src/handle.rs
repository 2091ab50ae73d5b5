//! Handles: what the application holds as `cl_context`, `cl_mem` and so on.
//!
//! A handle is the address of a [`Slot`] in one arena that is reserved once and never given back. Whatever bits an
//! application passes as a handle, looking them up is sound: they are a slot of the arena or they are not, a slot's tag
//! is that of a living object of the right type or it is not. A released handle is therefore told apart from a living
//! one, also while another thread releases it; only when its slot is in use again, [`arena::REST`] releases later, does
//! it mean another object.
//!
//! A slot counts two things. *References* keep the object alive: each [`Handle`] is one, so is each of the
//! application's. *The application's references* alone are what clRetain and clRelease change and what queries report;
//! objects that need one another (a queue its context) stay alive without being counted there.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;

use ropeway_abi::{CL_OUT_OF_HOST_MEMORY, cl_int, cl_uint};

use self::arena::{Arena, Slot};
use crate::dispatch;
use crate::sync::atomic::Ordering;

mod arena;
#[cfg(all(test, feature = "model"))]
mod model;
#[cfg(all(test, not(feature = "model")))]
mod tests;

/// A type of OpenCL object.
pub trait Object: Send + Sync + 'static {
    /// Tells its handles from those of other types; not 0.
    const TAG: u32;
    /// The error for what is not one of its handles.
    const INVALID: cl_int;
}

/// # Safety
/// `object` must come from `Box::<T>::into_raw` and not be used again.
unsafe fn drop_object<T: Object>(object: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(object.cast::<T>()) });
}

/// A reference to a living object.
pub struct Handle<T: Object> {
    slot: &'static Slot,
    object: PhantomData<T>,
}

impl<T: Object> Handle<T> {
    /// A platform: an object that belongs to no other.
    ///
    /// # Errors
    /// CL_OUT_OF_HOST_MEMORY.
    pub fn root(object: T) -> Result<Self, cl_int> {
        Self::root_with(|_| object, None)
    }

    /// The same of an object that knows its own handle, with the loader's word of another one.
    ///
    /// # Errors
    /// CL_OUT_OF_HOST_MEMORY.
    pub fn root_with(make: impl FnOnce(*mut c_void) -> T, like: Option<&Self>) -> Result<Self, cl_int> {
        let dispatch_data = like.map_or(ptr::null_mut(), |like| like.slot.dispatch_data.load(Ordering::Relaxed));
        Self::with_dispatch_data(make, dispatch_data)
    }

    /// An object of the same platform as `parent`.
    ///
    /// # Errors
    /// CL_OUT_OF_HOST_MEMORY.
    pub fn new<P: Object>(parent: &Handle<P>, object: T) -> Result<Self, cl_int> {
        Self::with_dispatch_data(|_| object, parent.slot.dispatch_data.load(Ordering::Relaxed))
    }

    fn with_dispatch_data(make: impl FnOnce(*mut c_void) -> T, dispatch_data: *mut c_void) -> Result<Self, cl_int> {
        let slot = Arena::get().and_then(Arena::take).ok_or(CL_OUT_OF_HOST_MEMORY)?;
        let object = make(slot.address());
        slot.dispatch.store(dispatch::table().cast_mut(), Ordering::Relaxed);
        slot.dispatch_data.store(dispatch_data, Ordering::Relaxed);
        slot.object.store(Box::into_raw(Box::new(object)).cast(), Ordering::Relaxed);
        slot.drop.store(drop_object::<T> as *mut c_void, Ordering::Relaxed);
        slot.application.store(0, Ordering::Relaxed);
        slot.tag.store(T::TAG, Ordering::Relaxed);
        // Publishes all of the above to the threads that acquire a reference.
        slot.references.store(1, Ordering::Release);
        Ok(Self { slot, object: PhantomData })
    }

    /// The object that the application means by `handle`.
    ///
    /// # Errors
    /// [`Object::INVALID`] where it is not a living object of this type.
    #[inline]
    pub fn find(handle: *mut c_void) -> Result<Self, cl_int> {
        let slot = Arena::get().and_then(|arena| arena.find(handle)).ok_or(T::INVALID)?;
        if slot.tag.load(Ordering::Relaxed) != T::TAG || !slot.acquire() {
            return Err(T::INVALID);
        }
        // With a reference in hand the tag cannot change any more; it may have, before.
        if slot.tag.load(Ordering::Relaxed) != T::TAG {
            slot.release();
            return Err(T::INVALID);
        }
        Ok(Self { slot, object: PhantomData })
    }

    /// The handle as the application knows it; no reference goes with it.
    pub fn raw(&self) -> *mut c_void {
        self.slot.address()
    }

    /// Makes this reference the application's, and its handle.
    pub fn give(self) -> *mut c_void {
        self.slot.application.fetch_add(1, Ordering::Relaxed);
        let raw = self.raw();
        std::mem::forget(self);
        raw
    }

    /// The application's references, for queries; the object being asked about, there is at least one.
    pub fn reference_count(&self) -> cl_uint {
        self.slot.application.load(Ordering::Relaxed).max(1)
    }

    /// Sets the loader's word.
    pub fn set_dispatch_data(&self, data: *mut c_void) {
        self.slot.dispatch_data.store(data, Ordering::Relaxed);
    }
}

impl<T: Object> Clone for Handle<T> {
    fn clone(&self) -> Self {
        self.slot.references.fetch_add(1, Ordering::Relaxed);
        Self { slot: self.slot, object: PhantomData }
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        self.slot.release();
    }
}

impl<T: Object> Deref for Handle<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the tag was T's when the reference was taken, and as long as there is one the object stays.
        unsafe { &*self.slot.object.load(Ordering::Relaxed).cast::<T>() }
    }
}

impl<T: Object> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.slot, other.slot)
    }
}

/// clRetain: one more reference of the application's.
///
/// # Errors
/// [`Object::INVALID`].
pub fn retain<T: Object>(handle: *mut c_void) -> Result<(), cl_int> {
    Handle::<T>::find(handle)?.give();
    Ok(())
}

/// clRelease: one reference of the application's less.
///
/// # Errors
/// [`Object::INVALID`], also where the application has no reference left.
pub fn release<T: Object>(handle: *mut c_void) -> Result<(), cl_int> {
    release_last::<T>(handle).map(drop)
}

/// The same; returns the object if that was the application's last reference.
///
/// # Errors
/// As [`release`].
pub fn release_last<T: Object>(handle: *mut c_void) -> Result<Option<Handle<T>>, cl_int> {
    let found = Handle::<T>::find(handle)?;
    let minus_one = |count: u32| count.checked_sub(1);
    let before = found.slot.application.fetch_update(Ordering::Relaxed, Ordering::Relaxed, minus_one);
    let before = before.map_err(|_| T::INVALID)?;
    // The application's reference; `found` is another one, so the object goes only when that is dropped.
    found.slot.release();
    Ok((before == 1).then_some(found))
}
