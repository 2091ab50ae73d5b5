//! The library's threads are no place for the program's signals.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// Signals that a thread causes itself: if they were blocked, they would end the process without calling the program's
/// handler.
const OWN: [Signal; 6] =
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP, Signal::SIGSYS];

/// The calling thread's signal mask as it was.
struct Restored(SigSet);

impl Drop for Restored {
    fn drop(&mut self) {
        // Fails only for an invalid signal set.
        let _ = self.0.thread_set_mask();
    }
}

/// Starts threads, in `spawn`: from their first instruction on, they block all signals except those that a thread
/// causes itself.
///
/// All of the library's threads are started in here. A program may block signals in all of *its* threads, to take them
/// with `sigwait` or a `signalfd`; a library thread that did not block them would receive them instead, and the process
/// would end.
pub fn start<T>(spawn: impl FnOnce() -> T) -> T {
    let mut blocked = SigSet::all();
    OWN.into_iter().for_each(|signal| blocked.remove(signal));
    let _restored = blocked.thread_swap_mask(SigmaskHow::SIG_SETMASK).map(Restored);
    spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_started_inside_blocks_signals() {
        let blocks = || SigSet::thread_get_mask().unwrap();
        let own = blocks();
        let of_thread = start(|| std::thread::spawn(blocks)).join().unwrap();
        assert!(of_thread.contains(Signal::SIGTERM) && !of_thread.contains(Signal::SIGSEGV));
        assert_eq!(blocks(), own);
    }
}
