//! Threads that help with bulk data: one core alone encrypts about as fast as the kernel moves bytes, so that doing one after
//! the other halves what a link carries, and copies slower than a device takes or gives.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::threads;

/// Cores for each thread of a crew, and most threads: three cores seal and open faster than a link moves bytes, and copy as
/// fast as memory is.
const CORES_PER_THREAD: usize = 4;
const MOST_THREADS: usize = 2;

/// Most buffers that are kept for the next bulk data.
const MOST_SPARE: usize = 8;

/// Pieces of work, taken one after the other by whoever has time.
pub(crate) struct Pieces<I>(Mutex<I>);

impl<I: Iterator> Pieces<I> {
    pub(crate) fn new(pieces: I) -> Self {
        Self(Mutex::new(pieces))
    }

    pub(crate) fn take(&self) -> Option<I::Item> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

/// The process's threads for this, and buffers for those links on which bulk data are under way.
#[derive(Debug)]
pub(crate) struct Crew {
    pool: ThreadPool,
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Crew {
    /// The crew of this process, made for the first link that asks; it lives as long as any link has it. `None` where
    /// there are too few cores for it, or no threads to be had.
    pub(crate) fn of_process() -> Option<Arc<Self>> {
        // A child that was forked has the memory of its parent's threads, not the threads.
        static CREW: Mutex<(u32, Weak<Crew>)> = Mutex::new((0, Weak::new()));
        let mut crew = CREW.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if crew.0 == process
            && let Some(there) = crew.1.upgrade()
        {
            return Some(there);
        }
        let cores = rustix::thread::sched_getaffinity(None).map_or(1, |cores| cores.count()) as usize;
        let threads = (cores / CORES_PER_THREAD).min(MOST_THREADS);
        let new = Arc::new(Self::new(threads)?);
        *crew = (process, Arc::downgrade(&new));
        Some(new)
    }

    /// A crew of so many threads; `None` for none, or when they cannot be started.
    pub(crate) fn new(threads: usize) -> Option<Self> {
        if threads == 0 {
            return None;
        }
        let builder = ThreadPoolBuilder::new().num_threads(threads).spawn_handler(|thread| {
            let named = std::thread::Builder::new().name("ropeway-crew".into());
            threads::start(|| named.spawn(|| thread.run())).map(drop)
        });
        Some(Self { pool: builder.build().ok()?, spare: Mutex::default() })
    }

    /// Does `work` on all of `pieces`, in this thread too once `meanwhile` is over; returns what that returns.
    pub(crate) fn share<T: Send, I: Iterator<Item = T> + Send, R>(
        &self,
        pieces: &Pieces<I>,
        work: impl Fn(T) + Sync,
        meanwhile: impl FnOnce() -> R,
    ) -> R {
        let work = &work;
        let take_part = || {
            while let Some(piece) = pieces.take() {
                work(piece);
            }
        };
        self.pool.in_place_scope(|scope| {
            for _ in 0..self.pool.current_num_threads() {
                scope.spawn(move |_| take_part());
            }
            let outcome = meanwhile();
            take_part();
            outcome
        })
    }

    /// A buffer of so many bytes, which may be one that was given back.
    pub(crate) fn buffer(&self, len: usize) -> Vec<u8> {
        self.spare().pop().filter(|spare| spare.len() == len).unwrap_or_else(|| vec![0; len])
    }

    /// Keeps a buffer for others.
    pub(crate) fn give_back(&self, buffer: Vec<u8>) {
        let mut spare = self.spare();
        if spare.len() < MOST_SPARE {
            spare.push(buffer);
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
