//! The slots that handles point to, and the references that they count.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

use ropeway_abi::icd::DispatchTable;

#[cfg(any(miri, all(test, feature = "model")))]
use self::heap::reserve;
#[cfg(not(any(miri, all(test, feature = "model"))))]
use self::mapped::reserve;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

#[cfg(any(miri, all(test, feature = "model")))]
mod heap;
#[cfg(not(any(miri, all(test, feature = "model"))))]
mod mapped;

/// Slots that must have come free before one of them is used again. In a model none has to: there a slot that is used
/// again is the case of interest.
pub(super) const REST: usize = if cfg!(all(test, feature = "model")) { 0 } else { 1024 };

/// The target of a handle. cl_khr_icd lays down the first two words.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Slot {
    /// For the loader: where the functions are.
    pub(super) dispatch: AtomicPtr<DispatchTable>,
    /// The loader's own, since cl_khr_icd 2.0.
    pub(super) dispatch_data: AtomicPtr<c_void>,
    /// [`super::Object::TAG`]; 0 while nothing lives here.
    pub(super) tag: AtomicU32,
    /// References, the application's included; 0 while nothing lives here.
    pub(super) references: AtomicU32,
    /// The application's references.
    pub(super) application: AtomicU32,
    /// A `Box<T>` of the type with the tag.
    pub(super) object: AtomicPtr<c_void>,
    /// `drop_object::<T>`.
    pub(super) drop: AtomicPtr<c_void>,
}

/// The memory of all slots.
pub(super) struct Arena {
    base: NonNull<Slot>,
    slots: usize,
    /// Slots that have been used at least once are those below.
    used: AtomicUsize,
    /// Those of them that are free, the longest free first.
    free: Mutex<VecDeque<u32>>,
}

// SAFETY: `base` points to memory that is never unmapped and holds nothing but atomics.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    #[cfg(not(all(test, feature = "model")))]
    pub(super) fn get() -> Option<&'static Self> {
        static ARENA: std::sync::OnceLock<Option<Arena>> = std::sync::OnceLock::new();
        ARENA.get_or_init(Self::new).as_ref()
    }

    /// Each execution of a model has an arena of its own.
    #[cfg(all(test, feature = "model"))]
    pub(super) fn get() -> Option<&'static Self> {
        loom::lazy_static! {
            static ref ARENA: Option<Arena> = Arena::new();
        }
        ARENA.as_ref()
    }

    fn new() -> Option<Self> {
        let (base, slots) = reserve()?;
        Some(Self { base, slots, used: AtomicUsize::new(0), free: Mutex::new(VecDeque::new()) })
    }

    /// The slot of this index, which is below `slots`.
    fn slot(&self, index: usize) -> &'static Slot {
        debug_assert!(index < self.slots);
        // SAFETY: `reserve` gave so many slots, which are valid for ever.
        unsafe { self.base.add(index).as_ref() }
    }

    /// The slot at this address, if it is one.
    pub(super) fn find(&self, address: *mut c_void) -> Option<&'static Slot> {
        let offset = address.addr().wrapping_sub(self.base.as_ptr().addr());
        let index = offset / size_of::<Slot>();
        (index < self.slots && offset.is_multiple_of(size_of::<Slot>())).then(|| self.slot(index))
    }

    pub(super) fn take(&self) -> Option<&'static Slot> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let has_rested = free.len() > REST;
        if !has_rested {
            // Under the lock, so a plain load and store do.
            let used = self.used.load(Ordering::Relaxed);
            if used < self.slots {
                self.used.store(used + 1, Ordering::Relaxed);
                return Some(self.slot(used));
            }
        }
        free.pop_front().map(|index| self.slot(index as usize))
    }

    fn put_back(&self, slot: &'static Slot) {
        let index = (ptr::from_ref(slot).addr() - self.base.as_ptr().addr()) / size_of::<Slot>();
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push_back(u32::try_from(index).expect("there are fewer than 2^32 slots"));
    }
}

impl Slot {
    pub(super) fn address(&'static self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// One more reference, unless there is none.
    pub(super) fn acquire(&self) -> bool {
        let mut count = self.references.load(Ordering::Relaxed);
        while count != 0 {
            match self.references.compare_exchange_weak(count, count + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// One reference less; with the last one the object goes.
    pub(super) fn release(&'static self) {
        if self.references.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let object = self.object.swap(ptr::null_mut(), Ordering::Relaxed);
        let drop = self.drop.load(Ordering::Relaxed);
        self.tag.store(0, Ordering::Relaxed);
        // SAFETY: `Handle::with_dispatch_data` stored a function of exactly this type.
        let drop = unsafe { std::mem::transmute::<*mut c_void, unsafe fn(*mut c_void)>(drop) };
        // SAFETY: the pair was stored together by `Handle::with_dispatch_data`; no reference to the object is left, and
        // none can be made.
        unsafe { drop(object) };
        if let Some(arena) = Arena::get() {
            arena.put_back(self);
        }
    }
}
