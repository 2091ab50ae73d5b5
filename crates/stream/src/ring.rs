//! Chunks between a thread that reads a stream and the one who asks for the next.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;

use crate::cancel::{self, Cancel, await_any, bell};
use crate::declaration::Declaration;
use crate::queue::{Fault, Item, Offer, Queue};

/// How the wait for a chunk has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// With what came.
    Item(Item),
    /// The stream is over: it ended, or failed for this reason.
    Over(Result<(), Fault>),
    /// It was cancelled.
    Cancelled,
}

/// The ring's two ends.
///
/// # Errors
/// The operating system's error: there are too many open files.
pub fn ring(declaration: &Declaration) -> io::Result<(Writer, Reader)> {
    let state = State { queue: Queue::new(declaration), over: None, is_closed: false, is_awaited: false };
    let shared = Shared { state: Mutex::new(state), changed: Condvar::new(), filled: bell()?, closed: Cancel::new()? };
    let shared = Arc::new(shared);
    Ok((Writer { shared: shared.clone(), since: Instant::now() }, Reader { shared }))
}

struct Shared {
    state: Mutex<State>,
    /// There is room, or the reader has gone.
    changed: Condvar,
    /// Rung when something has come that the reader waits for.
    filled: OwnedFd,
    /// Whether the reader has gone, for who waits for other things as well.
    closed: Cancel,
}

struct State {
    queue: Queue,
    over: Option<Result<(), Fault>>,
    is_closed: bool,
    is_awaited: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_reader(&self, mut state: MutexGuard<'_, State>) {
        if std::mem::take(&mut state.is_awaited) {
            drop(state);
            cancel::ring(&self.filled);
        }
    }
}

/// The end of the thread that reads the stream.
pub struct Writer {
    shared: Arc<Shared>,
    since: Instant,
}

impl Writer {
    /// When the stream began.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Readable when nobody will ask any more.
    pub fn closed(&self) -> &Cancel {
        &self.shared.closed
    }

    /// Adds the next chunk, where the policy is to wait as soon as there is room for it; false if nobody will ask any
    /// more.
    pub fn put(&self, mut bytes: Bytes) -> bool {
        let mut state = self.shared.lock();
        loop {
            if state.is_closed {
                return false;
            }
            match state.queue.offer(bytes, self.since.elapsed()) {
                Offer::NoRoom(back) => bytes = back,
                Offer::Taken | Offer::Dropped => break,
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.shared.tell_reader(state);
        true
    }

    /// Waits until this time has come; false if nobody will ask any more.
    pub fn pause_until(&self, due: Instant) -> bool {
        let mut state = self.shared.lock();
        while !state.is_closed {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.is_closed
    }

    /// Says that the stream has ended, or why it failed.
    pub fn finish(self, end: Result<(), Fault>) {
        let mut state = self.shared.lock();
        state.over = Some(end);
        self.shared.tell_reader(state);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        // Nobody waits for a thread that has ended over a defect.
        state.over.get_or_insert_with(|| Err(Fault::lost("the thread that reads the stream has ended")));
        self.shared.tell_reader(state);
    }
}

/// The end of the one who asks. Dropping it ends the writer's waits.
pub struct Reader {
    shared: Arc<Shared>,
}

impl Reader {
    /// Waits for the next chunk, or for the stream's end.
    ///
    /// # Errors
    /// The operating system's error while waiting.
    pub fn next(&mut self, cancel: &Cancel) -> io::Result<Taken> {
        loop {
            let mut state = self.shared.lock();
            if let Some(item) = state.queue.take() {
                drop(state);
                self.shared.changed.notify_one();
                return Ok(Taken::Item(item));
            }
            if let Some(end) = &state.over {
                return Ok(Taken::Over(end.clone()));
            }
            state.is_awaited = true;
            drop(state);
            if let [_, true] = await_any([self.shared.filled.as_fd(), cancel.as_fd()])? {
                return Ok(Taken::Cancelled);
            }
            cancel::silence(&self.shared.filled);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.closed.cancel();
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::declaration::Full;
    use crate::queue::Chunk;
    use crate::queue::tests::declaration;

    fn sequence(taken: Taken) -> u64 {
        match taken {
            Taken::Item(Item::Chunk(Chunk { sequence, .. })) => sequence,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_chunk_comes_in_order_and_then_the_end() {
        let (writer, mut reader) = ring(&declaration(3, Full::Wait)).unwrap();
        let writes = thread::spawn(move || {
            for _ in 0..20_000 {
                assert!(writer.put(Bytes::new()));
            }
            writer.finish(Ok(()));
        });
        let cancel = Cancel::new().unwrap();
        for n in 0..20_000 {
            assert_eq!(sequence(reader.next(&cancel).unwrap()), n);
        }
        assert_eq!(reader.next(&cancel).unwrap(), Taken::Over(Ok(())));
        assert_eq!(reader.next(&cancel).unwrap(), Taken::Over(Ok(())));
        writes.join().unwrap();
    }

    #[test]
    fn a_wait_is_cancelled_and_the_stream_goes_on() {
        let (writer, mut reader) = ring(&declaration(3, Full::Wait)).unwrap();
        let cancel = Cancel::new().unwrap();
        let waits = {
            let cancel = cancel.clone();
            thread::spawn(move || (reader.next(&cancel).unwrap(), reader))
        };
        while !writer.shared.lock().is_awaited {
            thread::yield_now();
        }
        assert!(!cancel.is_cancelled());
        cancel.cancel();
        let (taken, mut reader) = waits.join().unwrap();
        assert_eq!(taken, Taken::Cancelled);
        writer.put(Bytes::from("x"));
        assert_eq!(sequence(reader.next(&Cancel::new().unwrap()).unwrap()), 0);
        // What is there is taken all the same.
        writer.put(Bytes::from("y"));
        assert_eq!(sequence(reader.next(&cancel).unwrap()), 1);
        assert_eq!(reader.next(&cancel).unwrap(), Taken::Cancelled);
    }

    #[test]
    fn a_writer_that_waits_ends_with_its_reader() {
        let (writer, reader) = ring(&declaration(1, Full::Wait)).unwrap();
        assert!(writer.put(Bytes::new()));
        let waits = thread::spawn(move || {
            (writer.put(Bytes::new()), writer.pause_until(Instant::now() + Duration::from_secs(1000)))
        });
        drop(reader);
        assert_eq!(waits.join().unwrap(), (false, false));
    }

    #[test]
    fn a_writer_that_is_gone_leaves_nobody_waiting() {
        let (writer, mut reader) = ring(&declaration(1, Full::Wait)).unwrap();
        drop(writer);
        let taken = reader.next(&Cancel::new().unwrap()).unwrap();
        assert_eq!(taken, Taken::Over(Err(Fault::lost("the thread that reads the stream has ended"))));
    }
}
