//! Memory that one thread has released is found again by another. A program of its own: the test harness's threads would
//! have heaps of their own already.

use std::sync::mpsc::channel;
use std::thread;

/// More than the allocator asks the kernel for anew each time, once as much was released before.
const SIZE: usize = 20 << 20;

/// The address of memory that was allocated, and is released again.
fn allocated() -> usize {
    let memory = Vec::<u8>::with_capacity(SIZE);
    memory.as_ptr().addr()
}

fn main() {
    ropeway_worker::use_one_heap();
    // Both threads live until both have allocated: the heap of a thread that has ended is the next thread's.
    let (released, go_on) = channel();
    let (end, ended) = channel::<()>();
    let first = thread::spawn(move || {
        allocated();
        released.send(allocated()).expect("the main thread waits");
        ended.recv().expect("the main thread says so");
    });
    let address = go_on.recv().expect("it allocates");
    let later = thread::spawn(allocated).join().expect("it allocates");
    end.send(()).expect("the first thread waits");
    first.join().expect("it ends");
    // A few small allocations came in between; another heap is 64 MiB away at least.
    assert!(later.abs_diff(address) < SIZE, "the second thread got other memory than the first had released");
    println!("one heap: the second thread got the memory that the first had released");
}
