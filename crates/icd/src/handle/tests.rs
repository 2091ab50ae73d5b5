use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::arena::REST;
use super::*;

/// Knows when it is dropped.
struct Thing(Arc<AtomicBool>);

struct Other;

impl Drop for Thing {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Object for Thing {
    const TAG: u32 = 0x7468_696e;
    const INVALID: cl_int = -1;
}

impl Object for Other {
    const TAG: u32 = 0x6f74_6865;
    const INVALID: cl_int = -2;
}

fn thing() -> (*mut c_void, Arc<AtomicBool>) {
    let dropped = Arc::new(AtomicBool::new(false));
    let handle = Handle::root(Thing(Arc::clone(&dropped))).expect("there is memory");
    (handle.give(), dropped)
}

#[test]
fn the_application_counts_its_references() {
    let (raw, dropped) = thing();
    assert_eq!(retain::<Thing>(raw), Ok(()));
    assert_eq!(Handle::<Thing>::find(raw).expect("alive").reference_count(), 2);
    assert_eq!(release::<Thing>(raw), Ok(()));
    assert!(!dropped.load(Ordering::SeqCst));
    assert_eq!(release::<Thing>(raw), Ok(()));
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(release::<Thing>(raw), Err(-1), "a released handle is none");
    assert_eq!(retain::<Thing>(raw), Err(-1));
}

#[test]
fn what_is_no_handle_is_found_out() {
    let (raw, _dropped) = thing();
    let local = 0u64;
    let wrong = [
        ptr::null_mut(),
        raw.wrapping_byte_add(1),
        raw.wrapping_byte_add(8),
        raw.wrapping_byte_add(size_of::<Slot>() * 100_000),
        raw.wrapping_byte_sub(1 << 40),
        ptr::without_provenance_mut(usize::MAX),
        ptr::from_ref(&local).cast_mut().cast(),
    ];
    for handle in wrong {
        assert!(Handle::<Thing>::find(handle).is_err(), "{handle:p}");
    }
    assert_eq!(Handle::<Other>::find(raw).err(), Some(-2), "of another type");
}

#[test]
fn what_others_need_outlives_the_application() {
    let (raw, dropped) = thing();
    let needed = Handle::<Thing>::find(raw).expect("alive");
    assert_eq!(release::<Thing>(raw), Ok(()));
    assert!(!dropped.load(Ordering::SeqCst));
    assert_eq!(release::<Thing>(raw), Err(-1), "the application has no reference left");
    assert_eq!(retain::<Thing>(raw), Ok(()), "but may find it through what needs it, and retain it");
    drop(needed);
    assert!(!dropped.load(Ordering::SeqCst));
    assert_eq!(release::<Thing>(raw), Ok(()));
    assert!(dropped.load(Ordering::SeqCst));
}

#[test]
fn a_slot_rests_before_it_is_used_again() {
    let (raw, _) = thing();
    release::<Thing>(raw).expect("alive");
    for _ in 0..REST / 2 {
        let (next, _) = thing();
        assert_ne!(next, raw);
        release::<Thing>(next).expect("alive");
    }
}

#[test]
fn the_loader_finds_its_two_words() {
    let parent = Handle::root(Other).expect("there is memory");
    parent.set_dispatch_data(ptr::without_provenance_mut(0x1234));
    let child = Handle::new(&parent, Other).expect("there is memory");
    let words = child.raw().cast::<*mut c_void>();
    // SAFETY: a living slot, whose first two words are pointers.
    let (table, data) = unsafe { (words.read(), words.add(1).read()) };
    assert_eq!(table.cast_const().cast(), dispatch::table());
    assert_eq!(data.addr(), 0x1234);
}

#[test]
fn releasing_and_finding_may_race() {
    for _ in 0..20 {
        let (raw, dropped) = thing();
        let raw = raw.expose_provenance();
        let handle = move || ptr::with_exposed_provenance_mut::<c_void>(raw);
        let flag = &dropped;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    while let Ok(found) = Handle::<Thing>::find(handle()) {
                        assert!(!found.0.load(Ordering::SeqCst), "alive while it is held");
                        if !Arc::ptr_eq(&found.0, flag) {
                            break;
                        }
                    }
                });
            }
            scope.spawn(move || release::<Thing>(handle()).expect("released once"));
        });
        assert!(dropped.load(Ordering::SeqCst));
    }
}
