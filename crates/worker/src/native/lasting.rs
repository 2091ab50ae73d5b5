//! Lists of memory objects that stay readable until the process ends.
//!
//! NVIDIA's driver (580) reads the list of clEnqueueMigrateMemObjects again when the command is executed, and sometimes
//! even after it has reported the command's end; if the list is gone by then, a thread of the driver crashes the
//! process. So a list is never freed. Each distinct list is held once: a program that migrates the same objects again
//! and again uses no further memory.

use std::sync::{Mutex, PoisonError};

use ropeway_abi as cl;
use rustc_hash::FxHashSet;

/// The lists, as addresses. There is one session in a process, and its limit on host memory bounds them.
static LISTS: Mutex<Option<FxHashSet<&'static [usize]>>> = Mutex::new(None);

/// A copy of `handles` that is valid until the process ends.
pub(super) fn list(handles: &[cl::cl_mem]) -> *const cl::cl_mem {
    let addresses: Vec<usize> = handles.iter().map(|handle| handle.expose_provenance()).collect();
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    let lists = lists.get_or_insert_default();
    let list = match lists.get(addresses.as_slice()) {
        Some(list) => *list,
        None => {
            let list: &'static [usize] = addresses.leak();
            lists.insert(list);
            list
        }
    };
    list.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_held_once_and_never_moves() {
        let handles = |from: usize, count: usize| -> Vec<cl::cl_mem> {
            (from..from + count).map(|at| std::ptr::without_provenance_mut(at * 64)).collect()
        };
        let first = list(&handles(7, 2));
        let others: Vec<_> = (100..1100).map(|from| list(&handles(from, 1))).collect();
        assert_eq!(list(&handles(7, 2)), first, "the same list again");
        assert_ne!(list(&handles(7, 1)), first, "a list is not the beginning of another");
        for (from, at) in (100..).zip(others) {
            // SAFETY: the list has one handle, and is never freed.
            assert_eq!(unsafe { *at }, handles(from, 1)[0]);
        }
    }
}
