//! Small reads and writes for peers, enqueued before the events that they wait for have ended, so that a device goes
//! from one kernel to the next without waking any thread in between.
//!
//! A waiting command must not hold up commands on its queue that could run before it. Devices that share the host's
//! memory therefore have one out-of-order queue for all of these reads and writes. Other devices may run such a queue
//! in order all the same, so each in-order queue of the application has two beside it: one for reads behind its
//! commands, one for writes before them. Both run in the order of the commands.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;

use super::arrival::SMALL;
use crate::base::drivers;
use crate::base::lock::lock;
use crate::base::order::{Sequence, Turn};
use crate::native::{self, AwaitedWrite, Part, Place, StagedRead, Waits};
use crate::objects::semaphore;
use crate::objects::{Beside, Cell, Context, Memory, Queue};

/// Enqueues a read of at most [`SMALL`] bytes behind the commands `after`, whose native events are `waits`; returns the
/// read and its place in the order, if it has one. `None` if it might hold others up, or can be carried out at once,
/// which is left to others.
pub fn read(
    (memory, part): (&Memory, &Part),
    after: &[Arc<Cell>],
    waits: &Waits<'_>,
) -> Option<(StagedRead, Option<Turn>)> {
    let (native, context) = (memory.native.as_ref().ok()?, &memory.context);
    if context.maps {
        let queue = context.small_push_queue().ok()?;
        let read = StagedRead::enqueue(queue, (native, part), waits, Place::ordinary(part).ok()?).ok()?;
        queue.flush().ok()?;
        return Some((read, None));
    }
    let (queue, behind) = last_of(after)?;
    let beside = queue.pre_enqueue.reads.get_or_init(|| Beside::new(queue)).as_ref()?;
    let mut last = lock(&beside.last);
    // Behind an earlier command than the previous read's, this read would come late; and that command may be what the
    // previous read waits for.
    if last.as_ref().is_some_and(|(before, end)| *before > behind && !end.ended()) {
        return None;
    }
    let place = Place::pinned(part, context.pool()?)?;
    let read = StagedRead::enqueue(&beside.native, (native, part), waits, place).ok()?;
    beside.native.flush().ok()?;
    *last = Some((behind, read.event().clone()));
    Some((read, Some(beside.line.turn())))
}

/// The last of the commands that have not ended, if all of them are on one in-order queue.
fn last_of(cells: &[Arc<Cell>]) -> Option<(&Arc<Queue>, Turn)> {
    let mut running = cells.iter().filter(|cell| cell.status() > cl::CL_COMPLETE);
    let first = running.next()?;
    let queue = first.queue.as_ref()?;
    let turns = running.map(|cell| cell.turn.filter(|_| cell.queue.as_ref().is_some_and(|of| Arc::ptr_eq(of, queue))));
    turns.fold(first.turn, |last, turn| last.max(turn).filter(|_| turn.is_some())).map(|last| (queue, last))
}

/// Enqueues a write of at most [`SMALL`] bytes, which are still to come; returns the write and its place in the order, if it
/// has one. `queue` is the one whose next command needs them, if the client knows that nothing before it waits for what
/// comes after. `None` if the write might hold others up.
pub fn write((memory, part): (&Memory, &Part), queue: Option<&Arc<Queue>>) -> Option<(AwaitedWrite, Option<Turn>)> {
    let (native, context) = (memory.native.as_ref().ok()?, &memory.context);
    if !takes_bytes_late(context) {
        return None;
    }
    let (queue, line, place) = if context.maps {
        (&**context.small_push_queue().ok()?, None, Place::ordinary(part).ok()?)
    } else {
        let queue = queue.filter(|queue| queue.in_order && Arc::ptr_eq(&queue.context, context))?;
        let beside = queue.pre_enqueue.writes.get_or_init(|| Beside::new(queue)).as_ref()?;
        (&beside.native, Some(&beside.line), Place::pinned(part, context.pool()?)?)
    };
    let write = awaited(queue, (native, part), context.native.as_ref().ok()?, place).ok()?;
    Some((write, line.map(Sequence::turn)))
}

fn awaited(
    queue: &native::Queue,
    target: (&native::Memory, &Part),
    context: &native::Context,
    place: Place,
) -> Result<AwaitedWrite, Status> {
    let trigger = semaphore::hold(context)?;
    AwaitedWrite::enqueue(queue, target, trigger.clone(), place)
        .inspect_err(|_| semaphore::set(&trigger, cl::CL_COMPLETE))
}

/// Whether writes take their bytes when they are carried out, and not when they are enqueued; OpenCL allows either. As
/// long as this is not known, the answer is false.
fn takes_bytes_late(context: &Context) -> bool {
    let ask = || {
        context
            .devices
            .iter()
            .map(|(_, device)| drivers::takes_bytes_late(&device.driver()))
            .collect::<Option<Vec<_>>>()
    };
    match context.takes_bytes_late.get() {
        Some(known) => *known,
        None => ask().is_some_and(|answers| *context.takes_bytes_late.get_or_init(|| answers.iter().all(|late| *late))),
    }
}

/// Finds out whether writes take their bytes late. The driver may never return from this: `step` is called before each
/// call that may be the last.
///
/// # Errors
/// The status of the native call that failed.
pub fn probe(context: &Context, step: &dyn Fn(&str)) -> Result<bool, Status> {
    let native = context.native.as_ref().map_err(|status| *status)?;
    let (_, device) = *context.devices.first().ok_or(cl::CL_INVALID_CONTEXT)?;
    let queue = native::Queue::new(native, device, 0)?;
    let memory = native::Memory::buffer(native, cl::CL_MEM_READ_WRITE, SMALL, None)?;
    for size in [4, SMALL] {
        let part = Part::Bytes { offset: 0, size };
        step("clEnqueueWriteBuffer and clFlush of a write that waits for a user event");
        let mut write = awaited(&queue, (&memory, &part), native, Place::of(&part, context.pool())?)?;
        if let Some(bytes) = write.bytes_mut() {
            bytes.fill(size as u8 | 1);
        }
        if let Some(trigger) = write.open() {
            semaphore::set(&trigger, cl::CL_COMPLETE);
        }
        step("clWaitForEvents for a write whose user event is set");
        let read = StagedRead::enqueue(&queue, (&memory, &part), &Waits::none(), Place::of(&part, context.pool())?)?;
        queue.flush()?;
        if read.bytes()?.iter().any(|byte| *byte != size as u8 | 1) {
            return Ok(false);
        }
    }
    Ok(true)
}
