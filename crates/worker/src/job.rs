//! What may wait: for the device, or for the client to read.
//!
//! A job runs on the thread that read the command asking for it, after it has given up the reader's role; so the answer
//! needs no other thread, and a long wait keeps nobody from reading on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropeway_abi as cl;
use ropeway_protocol::CallId;
use ropeway_protocol::messages::{Completed, ContextError, ReadData, TransferFailed};
use ropeway_protocol::types::{BinaryFor, BinaryReply, BuildReply, Completions, EventDone, Status, Waited};
use smallvec::SmallVec;

use crate::build;
use crate::common::{Common, News};
use crate::error::End;
use crate::native;
use crate::objects::{Cell, Cells, Program, Queue, lock};
use crate::outgoing::Sending;
use crate::transfer::Gate;

/// Entries of an out-of-order queue that one answer looks at.
const SCAN: usize = 1024;

/// Something that may wait.
pub enum Job {
    /// clFinish.
    Finish(Arc<Queue>, CallId<Waited>),
    /// clWaitForEvents.
    Wait(Cells, CallId<Waited>),
    /// Delivers a small read that nobody but the client waits for.
    Deliver(Arc<Cell>),
    /// Waits until a gated transfer may begin, and begins it.
    Begin(Arc<Gate>),
    /// All bytes of a transfer have come: sees that they are in the buffer.
    Land(Arc<Gate>),
    /// Builds a program.
    Build(Arc<Program>, Vec<(u32, native::Device)>, build::Step, String, CallId<BuildReply>),
    /// Makes the first program of the others.
    Link(Arc<Program>, Vec<(u32, native::Device)>, Vec<Arc<Program>>, String, CallId<BuildReply>),
    /// Makes a program of binaries.
    Load(Arc<Program>, Vec<(BinaryFor, native::Device)>, CallId<BinaryReply>),
    /// Sends a program's binary.
    Binary(Arc<Program>, native::Device, ropeway_protocol::ids::TransferId, CallId<u64>),
    /// Answers a ping with so many bytes.
    Ping(usize, CallId<()>),
    /// Sends the notes that handlers left.
    SendNotes,
}

impl Job {
    /// Does it.
    ///
    /// # Errors
    /// The session is over.
    pub fn run(self, common: &Common) -> Result<(), End> {
        match self {
            Self::Finish(queue, call) => finish(common, &queue, &call)?,
            Self::Wait(cells, call) => wait(common, &cells, &call)?,
            Self::Deliver(cell) => deliver(common, &cell)?,
            Self::Begin(gate) => gate.begin(common)?,
            Self::Land(gate) => gate.land(common)?,
            Self::Build(program, devices, step, options, call) => {
                let reply = build::build(common, &program, &devices, step, &options);
                answer_build(common, &reply, &call)?;
            }
            Self::Link(program, devices, inputs, options, call) => {
                let reply = build::link(&program, &devices, &inputs, &options);
                answer_build(common, &reply, &call)?;
            }
            Self::Load(program, binaries, call) => {
                let reply = build::load(common, &program, &binaries);
                let mut sending = common.outgoing.lock();
                sending.reply(&call, &reply);
                sending.send()?;
            }
            Self::Binary(program, device, transfer, call) => {
                build::send_binary(common, &program, device, transfer, &call)?;
            }
            Self::Ping(answer, call) => {
                let mut sending = common.outgoing.lock();
                sending.reply_with_tail(&call, &Ok(()), &vec![0; answer])?;
                sending.send()?;
            }
            Self::SendNotes => common.outgoing.lock().send()?,
        }
        Ok(())
    }
}

/// What compilers print comes before the answer.
fn answer_build(common: &Common, reply: &Result<BuildReply, Status>, call: &CallId<BuildReply>) -> Result<(), End> {
    let mut sending = common.outgoing.lock();
    common.printed.forward(&mut sending)?;
    sending.reply(call, reply);
    Ok(sending.send()?)
}

fn finish(common: &Common, queue: &Arc<Queue>, call: &CallId<Waited>) -> Result<(), End> {
    let mut status = match &queue.native {
        Ok(native) => native.finish().err().unwrap_or(cl::CL_SUCCESS),
        Err(status) => *status,
    };
    let mut done = Vec::new();
    let mut sending = common.outgoing.lock();
    common.printed.forward(&mut sending)?;
    harvest(common, queue, &mut sending, &mut done)?;
    let first = queue.first_error.swap(0, Ordering::AcqRel);
    if status == cl::CL_SUCCESS {
        status = first;
    }
    sending.reply(call, &Ok(Waited { status, completions: Completions { done } }));
    Ok(sending.send()?)
}

fn wait(common: &Common, cells: &Cells, call: &CallId<Waited>) -> Result<(), End> {
    let mut status = wait_natively(cells);
    let mut done = Vec::new();
    let mut sending = common.outgoing.lock();
    common.printed.forward(&mut sending)?;
    let mut queues: SmallVec<[&Arc<Queue>; 4]> = SmallVec::new();
    for queue in cells.iter().filter_map(|cell| cell.queue.as_ref()) {
        if !queues.iter().any(|known| Arc::ptr_eq(known, queue)) {
            queues.push(queue);
        }
    }
    for queue in queues {
        harvest(common, queue, &mut sending, &mut done)?;
        let first = queue.first_error.swap(0, Ordering::AcqRel);
        if status == cl::CL_SUCCESS {
            status = first;
        }
    }
    // What the look through the queues did not come to.
    for cell in cells {
        report(common, cell, &mut sending, &mut done)?;
    }
    sending.reply(call, &Ok(Waited { status, completions: Completions { done } }));
    Ok(sending.send()?)
}

/// Blocks until all have ended, whatever their contexts.
fn wait_natively(cells: &Cells) -> Status {
    let mut waits = native::Waits::none();
    let mut failed = false;
    for cell in cells {
        match &cell.native {
            Some(event) => waits.push(event),
            None => failed = true,
        }
    }
    let mut status = match waits.is_empty() {
        true => cl::CL_SUCCESS,
        false => waits.wait().err().unwrap_or(cl::CL_SUCCESS),
    };
    if status == cl::CL_INVALID_CONTEXT {
        // Events of several native contexts: one after the other.
        status = cl::CL_SUCCESS;
        for event in cells.iter().filter_map(|cell| cell.native.as_ref()) {
            status = status.min(event.wait().err().unwrap_or(cl::CL_SUCCESS));
        }
    }
    failed |= cells.iter().any(|cell| cell.failure() < 0);
    if failed && status == cl::CL_SUCCESS { cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST } else { status }
}

fn deliver(common: &Common, cell: &Arc<Cell>) -> Result<(), End> {
    if let Some(event) = &cell.native {
        // How it ended is told with the data.
        let _ = event.wait();
    }
    let mut done = Vec::new();
    let mut sending = common.outgoing.lock();
    harvest_of(common, cell, &mut sending, &mut done)?;
    if !done.is_empty() {
        sending.note(&Completed { completions: Completions { done } });
    }
    Ok(sending.send()?)
}

/// Tells the client of `cell`, and of all that ended on its queue before.
fn harvest_of(
    common: &Common,
    cell: &Arc<Cell>,
    sending: &mut Sending<'_>,
    done: &mut Vec<EventDone>,
) -> Result<(), End> {
    if let Some(queue) = &cell.queue {
        harvest(common, queue, sending, done)?;
    }
    report(common, cell, sending, done)
}

/// Tells the client of all on `queue` that has ended and that it was not told of yet: data are sent, ends go to `done`.
pub fn harvest(
    common: &Common,
    queue: &Queue,
    sending: &mut Sending<'_>,
    done: &mut Vec<EventDone>,
) -> Result<(), End> {
    loop {
        // Sending may block, and handlers need the list: it is not held meanwhile.
        let mut ended: SmallVec<[(Arc<Cell>, Status); 16]> = SmallVec::new();
        let mut pending = lock(&queue.pending);
        if queue.in_order {
            while ended.len() < 16
                && let Some(cell) = pending.front()
            {
                let status = if cell.settled() { cl::CL_COMPLETE } else { cell.status() };
                if status > cl::CL_COMPLETE {
                    break;
                }
                if let Some(cell) = pending.pop_front()
                    && !cell.settled()
                {
                    ended.push((cell, status));
                }
            }
        } else {
            let mut at = 0;
            while at < pending.len().min(SCAN) && ended.len() < 16 {
                let status = if pending[at].settled() { cl::CL_COMPLETE } else { pending[at].status() };
                if status > cl::CL_COMPLETE {
                    at += 1;
                } else if let Some(cell) = pending.remove(at)
                    && !cell.settled()
                {
                    ended.push((cell, status));
                }
            }
        }
        drop(pending);
        if ended.is_empty() {
            return Ok(());
        }
        for (cell, status) in ended {
            hand_over(common, &cell, status, sending, done)?;
        }
    }
}

/// Tells the client of one command, if it has ended.
fn report(common: &Common, cell: &Cell, sending: &mut Sending<'_>, done: &mut Vec<EventDone>) -> Result<(), End> {
    if cell.settled() {
        return Ok(());
    }
    match cell.status() {
        status if status > cl::CL_COMPLETE => Ok(()),
        status => hand_over(common, cell, status, sending, done),
    }
}

/// Data first, then the end. Only who holds the right to send may do this, so nothing is told twice or half.
fn hand_over(
    common: &Common,
    cell: &Cell,
    status: Status,
    sending: &mut Sending<'_>,
    done: &mut Vec<EventDone>,
) -> Result<(), End> {
    if let Some(owed) = cell.take_owed() {
        let transfer = owed.transfer;
        match owed.read.bytes() {
            Ok(bytes) => {
                sending.note_with_tail(&ReadData { transfer, offset: 0 }, bytes)?;
                common.staged_reads.fetch_sub(bytes.len(), Ordering::Relaxed);
            }
            Err(status) => sending.note(&TransferFailed { transfer, status }),
        }
    }
    done.extend(cell.tell(status));
    Ok(())
}

/// Passes news on to the client.
///
/// # Errors
/// The session is over.
pub fn pass_on(common: &Arc<Common>, news: News) -> Result<(), End> {
    match news {
        News::Ended(cell) => {
            let mut done = Vec::new();
            let mut sending = common.outgoing.lock();
            common.printed.forward(&mut sending)?;
            harvest_of(common, &cell, &mut sending, &mut done)?;
            if !done.is_empty() {
                sending.note(&Completed { completions: Completions { done } });
            }
            Ok(sending.send()?)
        }
        News::Open(gate) => gate.begin(common),
        News::ContextError(context, text) => {
            let mut sending = common.outgoing.lock();
            sending.note(&ContextError { context, text });
            Ok(sending.send()?)
        }
        News::Look => Ok(()),
    }
}
