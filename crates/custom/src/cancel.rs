//! Calling off commands that wait for something outside, such as a camera.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Says whether whatever waits should give up, and wakes it. Copies are the same.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Default)]
struct Inner {
    cancelled: AtomicBool,
    wakers: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl std::fmt::Debug for Cancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

impl Cancel {
    /// Whether it was called off.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Has `wake` called when it is called off, or at once if it was: on any thread, more than once perhaps.
    pub fn on_cancel(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(wake));
        if self.is_cancelled() {
            self.wake();
        }
    }

    /// Calls it off, for good.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        for wake in self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn who_comes_late_is_woken_as_well() {
        let (cancel, woken) = (Cancel::default(), Arc::new(AtomicU32::new(0)));
        let count = |woken: &Arc<AtomicU32>| {
            let woken = woken.clone();
            move || {
                woken.fetch_add(1, Ordering::SeqCst);
            }
        };
        cancel.on_cancel(count(&woken));
        assert_eq!((cancel.is_cancelled(), woken.load(Ordering::SeqCst)), (false, 0));
        cancel.clone().cancel();
        assert_eq!((cancel.is_cancelled(), woken.load(Ordering::SeqCst)), (true, 1));
        let late = Arc::new(AtomicU32::new(0));
        cancel.on_cancel(count(&late));
        assert_eq!(late.load(Ordering::SeqCst), 1);
    }
}
