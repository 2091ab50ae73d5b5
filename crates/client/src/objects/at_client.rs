//! Which contents of memory objects are at the client: in the memory where a map has put them, and the same as at the
//! servers. A map for reading of those moves nothing.
//!
//! A map brings them, or a region that was mapped for writing and unmapped. A command that may write them takes them
//! away, in the moment in which it is enqueued. What a map brings counts only if all commands enqueued before it that
//! may write there come before it: they are on its queue, if that runs its commands in order, or are known to have
//! ended.
//!
//! Until something is mapped in a context for the first time, its commands take no note of what they write.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::base::sync::lock;
use crate::objects::progress::{Enqueuing, Progress};

/// Most queues of a context whose progress is kept after the application has released them; with more, nothing counts.
const MOST_QUEUES: usize = 256;

/// What is at the client, for all memory objects of a context, which are named by the objects whose storage they use.
#[derive(Default)]
pub(crate) struct AtClient {
    /// Whether anything was ever mapped.
    is_used: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    storages: HashMap<u64, Storage>,
    /// The context's queues, among them released ones whose commands are not known to have ended.
    queues: Vec<Arc<Progress>>,
}

/// One object's storage.
#[derive(Default)]
struct Storage {
    /// The bytes that are at the client: sorted, and apart from each other.
    here: Vec<Range<u64>>,
    /// How often anything may have made the two sides differ.
    changes: u64,
    /// The last command on each queue that may have written, where that is not known to have ended.
    writers: Vec<(Arc<Progress>, u64)>,
}

/// What a command may write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Written<'a> {
    /// What its uses say.
    AsUsed,
    /// All of these storages.
    Storages(&'a [u64]),
    /// Anything.
    Anything,
}

/// Bytes that are about to come to the client.
#[derive(Clone, Debug)]
pub(crate) struct Coming {
    storage: u64,
    range: Range<u64>,
    changes: u64,
}

impl Coming {
    /// The same, where the command that is about to be enqueued writes those bytes itself.
    pub(crate) fn after_own_write(self) -> Self {
        Self { changes: self.changes + 1, ..self }
    }
}

impl AtClient {
    /// A queue was made.
    pub(crate) fn add_queue(&self, progress: &Arc<Progress>) {
        let queues = &mut lock(&self.state).queues;
        if queues.len() >= queues.capacity() {
            queues.retain(|progress| Arc::strong_count(progress) > 1 || !progress.is_over());
        }
        queues.push(Arc::clone(progress));
    }

    /// Whether all commands of all queues are known to have ended.
    pub(crate) fn is_quiet(&self) -> bool {
        let queues = &lock(&self.state).queues;
        queues.len() <= MOST_QUEUES && queues.iter().all(|progress| progress.is_over())
    }

    /// Whether commands are to say what they write.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::SeqCst)
    }

    /// A command that is being enqueued may write these ranges.
    pub(crate) fn written(&self, writes: impl IntoIterator<Item = (u64, Range<u64>)>, by: &Enqueuing) {
        let mut state = lock(&self.state);
        for (storage, range) in writes {
            if let Some(storage) = state.storages.get_mut(&storage) {
                storage.written(&range, by);
            }
        }
    }

    /// A command that is being enqueued may write anything.
    pub(crate) fn all_written(&self, by: &Enqueuing) {
        lock(&self.state).storages.values_mut().for_each(|storage| storage.written(&(0..u64::MAX), by));
    }

    /// The application may write to a range from now on: it is mapped for that.
    pub(crate) fn changed_here(&self, storage: u64, range: &Range<u64>) {
        if let Some(storage) = lock(&self.state).storages.get_mut(&storage) {
            storage.take(range);
        }
    }

    /// Whether a range is at the client.
    pub(crate) fn has(&self, storage: u64, range: &Range<u64>) -> bool {
        let state = lock(&self.state);
        let here = state.storages.get(&storage).map_or(&[][..], |storage| &storage.here);
        here.iter().any(|one| one.start <= range.start && range.end <= one.end)
    }

    /// A range is about to be brought by a command on the queue with this progress, which is not enqueued yet. `None`
    /// if it need not be what all commands before it have left.
    pub(crate) fn coming(
        &self,
        storage: u64,
        range: Range<u64>,
        queue: &Arc<Progress>,
        is_in_order: bool,
    ) -> Option<Coming> {
        // In this order: a command that does not see this has begun, and is found below.
        self.is_used.store(true, Ordering::SeqCst);
        let mut state = lock(&self.state);
        let State { storages, queues } = &mut *state;
        let kept = storages.entry(storage).or_insert_with(|| Storage {
            writers: queues.iter().map(|progress| (Arc::clone(progress), progress.begun())).collect(),
            ..Storage::default()
        });
        kept.writers.retain(|(progress, number)| !progress.has_ended(*number));
        let is_before = |(progress, _): &(Arc<Progress>, u64)| is_in_order && Arc::ptr_eq(progress, queue);
        // A command that another thread is just enqueuing may come before or after this one.
        let counts = kept.writers.iter().all(is_before) && queue.posted().is_some() && queues.len() <= MOST_QUEUES;
        counts.then_some(Coming { storage, range, changes: kept.changes })
    }

    /// Those bytes have come.
    pub(crate) fn came(&self, coming: &Coming) {
        if let Some(storage) = lock(&self.state).storages.get_mut(&coming.storage)
            && storage.changes == coming.changes
        {
            storage.put(&coming.range);
        }
    }

    /// An object is gone, and so is its copy.
    pub(crate) fn forget(&self, storage: u64) {
        if self.is_used() {
            lock(&self.state).storages.remove(&storage);
        }
    }
}

impl Storage {
    fn written(&mut self, range: &Range<u64>, by: &Enqueuing) {
        self.take(range);
        match self.writers.iter_mut().find(|(progress, _)| Arc::ptr_eq(progress, by.progress())) {
            Some((_, number)) => *number = (*number).max(by.place()),
            None => self.writers.push((Arc::clone(by.progress()), by.place())),
        }
    }

    /// The two sides may differ in this range.
    fn take(&mut self, range: &Range<u64>) {
        self.changes += 1;
        let cut = |one: Range<u64>| [one.start..one.end.min(range.start), one.start.max(range.end)..one.end];
        self.here = self.here.drain(..).flat_map(cut).filter(|one| !one.is_empty()).collect();
    }

    /// The two sides are the same in this range.
    fn put(&mut self, range: &Range<u64>) {
        let first = self.here.partition_point(|one| one.end < range.start);
        let end = self.here.partition_point(|one| one.start <= range.end);
        let mut whole = range.clone();
        for one in self.here.drain(first..end) {
            whole = whole.start.min(one.start)..whole.end.max(one.end);
        }
        self.here.insert(first, whole);
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::*;

    const OBJECT: u64 = 7;

    fn queue_of(at_client: &AtClient) -> Arc<Progress> {
        let progress = Arc::<Progress>::default();
        at_client.add_queue(&progress);
        progress
    }

    fn bring(at_client: &AtClient, range: Range<u64>, queue: &Arc<Progress>) {
        at_client.coming(OBJECT, range, queue, true).iter().for_each(|coming| at_client.came(coming));
    }

    fn write(at_client: &AtClient, range: Range<u64>, queue: &Arc<Progress>) {
        at_client.written([(OBJECT, range)], &queue.begin());
    }

    #[test]
    fn what_came_is_there_until_it_may_be_written() {
        let at_client = AtClient::default();
        let queue = queue_of(&at_client);
        bring(&at_client, 0..10, &queue);
        bring(&at_client, 20..30, &queue);
        assert!(at_client.has(OBJECT, &(2..10)) && !at_client.has(OBJECT, &(5..25)));
        bring(&at_client, 10..20, &queue);
        assert!(at_client.has(OBJECT, &(0..30)));
        write(&at_client, 12..14, &queue);
        assert!(at_client.has(OBJECT, &(0..12)) && at_client.has(OBJECT, &(14..30)));
        assert!(!at_client.has(OBJECT, &(11..13)) && !at_client.has(OBJECT, &(13..14)));
        at_client.changed_here(OBJECT, &(0..1));
        assert!(!at_client.has(OBJECT, &(0..2)) && at_client.has(OBJECT, &(1..12)));
        at_client.all_written(&queue.begin());
        assert!(!at_client.has(OBJECT, &(1..2)));
        at_client.forget(OBJECT);
        assert!(lock(&at_client.state).storages.is_empty());
    }

    #[test]
    fn what_was_written_while_it_came_does_not_count() {
        let at_client = AtClient::default();
        let queue = queue_of(&at_client);
        let coming = at_client.coming(OBJECT, 0..10, &queue, true).unwrap();
        write(&at_client, 9..10, &queue);
        at_client.came(&coming);
        assert!(!at_client.has(OBJECT, &(0..1)));
        let coming = at_client.coming(OBJECT, 0..10, &queue, true).unwrap().after_own_write();
        write(&at_client, 0..10, &queue);
        at_client.came(&coming);
        assert!(at_client.has(OBJECT, &(0..10)));
    }

    #[test]
    fn writers_elsewhere_must_have_ended() {
        let at_client = AtClient::default();
        let (queue, other) = (queue_of(&at_client), queue_of(&at_client));
        // Before anything is mapped, nobody says what he writes.
        drop(other.begin());
        assert!(at_client.coming(OBJECT, 0..10, &queue, true).is_none());
        other.note_ended(1);
        assert!(at_client.coming(OBJECT, 0..10, &queue, true).is_some());
        write(&at_client, 0..1, &other);
        assert!(at_client.coming(OBJECT, 0..10, &queue, true).is_none());
        assert!(at_client.coming(OBJECT, 0..10, &other, true).is_some(), "it comes after that");
        assert!(at_client.coming(OBJECT, 0..10, &other, false).is_none(), "it need not");
        other.note_ended(2);
        let being_enqueued = queue.begin();
        assert!(at_client.coming(OBJECT, 0..10, &queue, true).is_none(), "which comes first?");
        drop(being_enqueued);
        assert!(at_client.coming(OBJECT, 0..10, &queue, true).is_some());
    }
}
