//! Semaphores.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::CallId;
use ropeway_protocol::ids::SemaphoreId;
use ropeway_protocol::messages::{
    CreateSemaphore, ReleaseSemaphore, SemaphorePayload, SignalSemaphores, WaitSemaphores,
};
use ropeway_protocol::types::Status;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::base::error::End;
use crate::base::error::unknown;
use crate::native::{Event, UserEvent, Waits};
use crate::objects::semaphore::{Semaphore, hold, pass_signal_on, set};
use crate::queue_states::{QueueState, claim};
use crate::session::Session;
use crate::session::job::Job;

type Semaphores = FxHashMap<SemaphoreId, Semaphore>;

/// Returns the named semaphores without duplicates.
fn named(semaphores: &Semaphores, ids: &[SemaphoreId]) -> Result<SmallVec<[SemaphoreId; 4]>, End> {
    let mut all: SmallVec<[_; 4]> = ids.into();
    all.sort_unstable();
    all.dedup();
    match all.iter().find(|id| !semaphores.contains_key(id)) {
        Some(id) => Err(unknown(id)),
        None => Ok(all),
    }
}

/// Checks that all these semaphores can be used, and belong to the queue's context.
fn check(queue_state: &QueueState, semaphores: &Semaphores, ids: &[SemaphoreId]) -> Result<(), Status> {
    ids.iter().filter_map(|id| semaphores.get(id)).try_for_each(|semaphore| semaphore.usable)?;
    let of_queue =
        |id| semaphores.get(id).is_some_and(|s: &Semaphore| Arc::ptr_eq(&s.context, &queue_state.queue.context));
    if ids.iter().all(of_queue) { Ok(()) } else { Err(cl::CL_INVALID_CONTEXT) }
}

/// Enqueues an empty command behind `waits`; on an in-order queue, later commands wait for it.
fn enqueue(queue_state: &QueueState, waits: &Waits<'_>) -> Result<Event, Status> {
    let native = queue_state.native()?;
    if queue_state.queue.in_order {
        return native.barrier(waits, true)?.ok_or(cl::CL_OUT_OF_RESOURCES);
    }
    let mut all = Waits::none();
    all.push_all(waits);
    // A marker with a wait list does not wait for an earlier barrier. A barrier that has ended may have failed.
    let barrier = queue_state.barrier.as_ref().filter(|barrier| !barrier.ended());
    barrier.into_iter().for_each(|barrier| all.push(barrier));
    let nothing = match all.is_empty() {
        true => Some(UserEvent::new(queue_state.queue.context.native.as_ref().map_err(|status| *status)?)?),
        false => None,
    };
    if let Some(nothing) = &nothing {
        nothing.set(cl::CL_COMPLETE)?;
        // A marker without a wait list would wait for all commands before it; on PoCL 3.1, one with a wait list does so
        // too. But only a command has profiling times.
        if !queue_state.queue.profiling {
            return Ok(nothing.event().clone());
        }
        all.push(nothing.event());
    }
    native.marker(&all, true)?.ok_or(cl::CL_OUT_OF_RESOURCES)
}

impl Session {
    /// Makes a semaphore.
    ///
    /// # Errors
    /// There is no such context, or the name is taken.
    pub fn create_semaphore(&mut self, m: CreateSemaphore) -> Result<(), End> {
        let total = self.objects();
        let context = self.context(m.context)?.clone();
        let semaphore = Semaphore::new(context, self.allow_object());
        claim(total, &mut self.semaphores, m.semaphore, semaphore)
    }

    /// Drops a semaphore. Waits for which no signal was enqueued fail: there cannot be one any more.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn release_semaphore(&mut self, m: ReleaseSemaphore) -> Result<(), End> {
        let dropped = self.semaphores.remove(&m.semaphore).ok_or_else(|| unknown(m.semaphore))?;
        for user in dropped.into_waiting() {
            self.queue_states.failures.store(true, std::sync::atomic::Ordering::Relaxed);
            set(&user, cl::CL_INVALID_SEMAPHORE_KHR);
        }
        Ok(())
    }

    /// Enqueues a signal.
    ///
    /// # Errors
    /// Something named does not exist.
    pub fn signal_semaphores(&mut self, m: SignalSemaphores) -> Result<(), End> {
        let total = self.objects();
        let semaphores = &mut self.semaphores;
        let ids = named(semaphores, &m.semaphores)?;
        let mut passed_on = None;
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, _| {
            let signal = check(queue_state, semaphores, &ids).and_then(|()| enqueue(queue_state, waits));
            if let Ok(signal) = &signal {
                let taken = ids.iter().filter_map(|id| semaphores.get_mut(id)?.signal(signal.clone()));
                passed_on = Some((signal.clone(), taken.collect::<Vec<_>>()));
            }
            Ok(signal.map(Some))
        })?;
        if let Some((signal, waits)) = passed_on.filter(|(_, waits)| !waits.is_empty()) {
            let end = signal.clone();
            let notification = move || {
                pass_signal_on(&signal, &waits);
                Ok(())
            };
            self.common.notifier.watch(Some(end), None, Box::new(notification));
        }
        Ok(())
    }

    /// Enqueues a wait.
    ///
    /// # Errors
    /// Something named does not exist.
    pub fn wait_semaphores(&mut self, m: WaitSemaphores) -> Result<(), End> {
        let total = self.objects();
        let semaphores = &mut self.semaphores;
        let ids = named(semaphores, &m.semaphores)?;
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, _| {
            if let Err(status) = check(queue_state, semaphores, &ids) {
                return Ok(Err(status));
            }
            let signals = ids.iter().map(|id| (*id, semaphores.get_mut(id).and_then(Semaphore::next_signal)));
            let signals: SmallVec<[_; 4]> = signals.collect();
            Ok(wait_for(queue_state, waits, &signals, semaphores).map(Some))
        })
    }

    /// Answers whether a semaphore is signaled.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn semaphore_payload(&mut self, m: SemaphorePayload, call: CallId<u64>) -> Result<(), End> {
        let payload = self.semaphores.get_mut(&m.semaphore).ok_or_else(|| unknown(m.semaphore))?.payload();
        self.start(Job::Answer(Ok(payload), call));
        Ok(())
    }
}

/// Enqueues a wait for these signals; for each signal that is not there yet, it waits for a user event.
fn wait_for(
    queue_state: &QueueState,
    waits: &Waits<'_>,
    signals: &[(SemaphoreId, Option<Event>)],
    semaphores: &mut Semaphores,
) -> Result<Event, Status> {
    let context = queue_state.queue.context.native.as_ref().map_err(|status| *status)?;
    let mut held: SmallVec<[(SemaphoreId, UserEvent); 4]> = SmallVec::new();
    let mut enqueue_all = || {
        for (id, _) in signals.iter().filter(|(_, signal)| signal.is_none()) {
            held.push((*id, hold(context)?));
        }
        let mut all = Waits::none();
        all.push_all(waits);
        let to_come = |signal: &&Event| signal.status() != cl::CL_COMPLETE;
        signals.iter().filter_map(|(_, signal)| signal.as_ref()).filter(to_come).for_each(|signal| all.push(signal));
        held.iter().for_each(|(_, user)| all.push(user.event()));
        enqueue(queue_state, &all)
    };
    let enqueued = enqueue_all();
    let Ok(end) = &enqueued else {
        held.iter().for_each(|(_, user)| set(user, cl::CL_COMPLETE));
        return enqueued;
    };
    for (id, _) in signals.iter().filter(|(_, signal)| signal.is_some()) {
        semaphores.get_mut(id).into_iter().for_each(|semaphore| semaphore.take_signal(end.clone()));
    }
    for (id, user) in held {
        semaphores.get_mut(&id).into_iter().for_each(|semaphore| semaphore.await_signal(user.clone(), end.clone()));
    }
    enqueued
}
