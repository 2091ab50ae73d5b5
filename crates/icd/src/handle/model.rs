//! The arena under every interleaving of a few threads, and every outcome that the memory orderings allow: loom runs
//! each test once for each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::cell::UnsafeCell;
use loom::thread;

use super::*;

/// The contents of an object that was dropped; those of a living one are its type's tag.
const DROPPED: u32 = 0;

/// An object that loom watches: no thread may look at it before it was made whole or after it began to be dropped.
struct Watched {
    tag: u32,
    contents: UnsafeCell<u32>,
    /// Counts objects that were dropped.
    drops: Arc<AtomicUsize>,
}

// SAFETY: loom itself checks that nobody looks at `contents` while another thread changes it.
unsafe impl Sync for Watched {}

impl Watched {
    fn new<T: Object>(drops: &Arc<AtomicUsize>) -> Self {
        Self { tag: T::TAG, contents: UnsafeCell::new(T::TAG), drops: Arc::clone(drops) }
    }

    /// Looks at what was found as an object of type `T`.
    fn look<T: Object>(&self) {
        // SAFETY: only `drop` changes the contents, and loom fails the test where that may happen meanwhile.
        self.contents.with(|contents| assert_eq!(unsafe { *contents }, T::TAG, "alive while it is held"));
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.contents.with_mut(|contents| {
            // SAFETY: as above.
            let was = unsafe { contents.replace(DROPPED) };
            assert_eq!(was, self.tag, "dropped once");
        });
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

struct Thing(Watched);
struct Other(Watched);

impl Object for Thing {
    const TAG: u32 = 0x7468_696e;
    const INVALID: cl_int = -1;
}

impl Object for Other {
    const TAG: u32 = 0x6f74_6865;
    const INVALID: cl_int = -2;
}

/// A handle as the application passes it from thread to thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Raw(*mut c_void);

// SAFETY: nothing is read through the pointer, it is only looked up.
unsafe impl Send for Raw {}

impl Raw {
    fn thing(drops: &Arc<AtomicUsize>) -> Self {
        Self(Handle::root(Thing(Watched::new::<Thing>(drops))).expect("there is a slot").give())
    }

    fn other(drops: &Arc<AtomicUsize>) -> Self {
        Self(Handle::root(Other(Watched::new::<Other>(drops))).expect("there is a slot").give())
    }

    fn find(self) -> Result<Handle<Thing>, cl_int> {
        Handle::find(self.0)
    }

    fn find_other(self) -> Result<Handle<Other>, cl_int> {
        Handle::find(self.0)
    }

    fn retain(self) -> Result<(), cl_int> {
        retain::<Thing>(self.0)
    }

    fn release(self) -> Result<(), cl_int> {
        release::<Thing>(self.0)
    }

    fn release_other(self) -> Result<(), cl_int> {
        release::<Other>(self.0)
    }
}

/// Runs a test in all executions with at most so many switches away from a thread that could go on: the model's own
/// advice is that two or three find nearly all there is to find.
fn check(preemptions: usize, test: impl Fn(&Arc<AtomicUsize>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || test(&Arc::default()));
}

#[test]
fn a_lookup_beside_the_last_release_finds_a_living_object_or_none() {
    check(4, |drops| {
        let raw = Raw::thing(drops);
        let finder = thread::spawn(move || match raw.find() {
            Ok(found) => found.0.look::<Thing>(),
            Err(status) => assert_eq!(status, -1),
        });
        assert_eq!(raw.release(), Ok(()));
        finder.join().expect("finds it or not");
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        assert_eq!(raw.find().err(), Some(-1), "released");
    });
}

#[test]
fn what_is_retained_lives_until_its_last_release() {
    check(3, |drops| {
        let raw = Raw::thing(drops);
        let other = thread::spawn(move || {
            // The other thread may have released the only reference already.
            raw.retain().map(|()| {
                raw.find().expect("retained").0.look::<Thing>();
                assert_eq!(raw.release(), Ok(()));
            })
        });
        assert_eq!(raw.release(), Ok(()));
        assert!(matches!(other.join().expect("retains it or not"), Ok(()) | Err(-1)));
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        assert_eq!(raw.release(), Err(-1), "released");
    });
}

#[test]
fn one_reference_is_released_once() {
    check(3, |drops| {
        let raw = Raw::thing(drops);
        let other = thread::spawn(move || raw.release());
        let results = [raw.release(), other.join().expect("releases it or not")];
        assert!(matches!(results, [Ok(()), Err(-1)] | [Err(-1), Ok(())]), "{results:?}");
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn the_last_reference_drops_after_all_that_others_did_with_theirs() {
    check(3, |drops| {
        let handle = Handle::root(Thing(Watched::new::<Thing>(drops))).expect("there is a slot");
        let others: Vec<_> = (0..2)
            .map(|_| {
                let handle = handle.clone();
                thread::spawn(move || handle.0.look::<Thing>())
            })
            .collect();
        drop(handle);
        others.into_iter().for_each(|other| other.join().expect("alive"));
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_lookup_beside_the_slots_next_object_finds_one_of_the_two_whole() {
    check(3, |drops| {
        let raw = Raw::thing(drops);
        let finder = thread::spawn(move || raw.find().map(|found| found.0.look::<Thing>()));
        assert_eq!(raw.release(), Ok(()));
        let next = Raw::thing(drops);
        let _ = finder.join().expect("finds one or none");
        // A lookup that held the first object may have kept its slot.
        assert_eq!(next.release(), Ok(()));
        assert_eq!(drops.load(Ordering::Relaxed), 2);
        assert_eq!([raw.find().err(), next.find().err()], [Some(-1); 2]);
    });
}

#[test]
fn a_lookup_beside_the_slots_next_object_of_another_type_never_finds_that() {
    check(3, |drops| {
        let raw = Raw::thing(drops);
        let finder = thread::spawn(move || raw.find().map(|found| found.0.look::<Thing>()));
        assert_eq!(raw.release(), Ok(()));
        let next = Raw::other(drops);
        // What the lookup takes hold of for a moment does not keep the next object from being found.
        next.find_other().expect("alive").0.look::<Other>();
        assert_eq!(next.release_other(), Ok(()));
        let _ = finder.join().expect("finds the first or none");
        assert_eq!(drops.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn two_threads_never_get_one_slot() {
    for is_one_free in [false, true] {
        check(3, move |drops| {
            let freed = usize::from(is_one_free);
            if is_one_free {
                assert_eq!(Raw::thing(drops).release(), Ok(()));
            }
            let other = {
                let drops = Arc::clone(drops);
                thread::spawn(move || Raw::thing(&drops))
            };
            let (one, other) = (Raw::thing(drops), other.join().expect("there is a slot"));
            assert_ne!(one, other);
            assert_eq!([one.release(), other.release()], [Ok(()); 2]);
            assert_eq!(drops.load(Ordering::Relaxed), 2 + freed);
        });
    }
}
