//! What may wait: for the device, or for the client to read.
//!
//! A job runs on the thread that read the command asking for it, after it has given up the reader's role; so the answer
//! needs no other thread, and a long wait keeps nobody from reading on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropeway_abi as cl;
use ropeway_protocol::CallId;
use ropeway_protocol::image::ImageFormat;
use ropeway_protocol::types::{BinaryFor, BinaryReply, BuildReply, Completions, Status, Waited};

use super::common::Common;
use crate::base::error::End;
use crate::native;
use crate::objects::{Cell, Cells, Context, Program, Queue};
use crate::programs::build;
use crate::rendezvous::transfer::Gate;

/// Whatever may wait, for once.
pub type Work = Box<dyn FnOnce(&Common) -> Result<(), End> + Send>;

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
    Build(Arc<Program>, (Vec<(u32, native::Device)>, usize), build::Step, String, CallId<BuildReply>),
    /// Makes the first program of the others.
    Link(Arc<Program>, (Vec<(u32, native::Device)>, usize), Vec<Arc<Program>>, String, CallId<BuildReply>),
    /// Makes a program of binaries.
    Load(Arc<Program>, Vec<(BinaryFor, native::Device)>, CallId<BinaryReply>),
    /// Sends a program's binary.
    Binary(Arc<Program>, native::Device, ropeway_protocol::ids::TransferId, CallId<u64>),
    /// Answers with a device's time.
    Timer(native::Device, CallId<u64>),
    /// Whatever this does.
    Run(Work),
    /// Lists the image formats of a context, for flags and a type.
    ImageFormats(Arc<Context>, u64, u32, CallId<Vec<ImageFormat>>),
    /// Answers whether something could be done.
    Done(Result<(), Status>, CallId<()>),
    /// Answers a ping with so many bytes.
    Ping(usize, CallId<()>),
    /// Answers with a number.
    Answer(Result<u64, Status>, CallId<u64>),
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
            Self::Deliver(cell) => unasked(common, deliver(common, &cell))?,
            Self::Begin(gate) => unasked(common, gate.begin(&common.reporter))?,
            Self::Land(gate) => gate.land(&common.reporter)?,
            Self::Build(program, (devices, named), step, options, call) => {
                let with = (&*common.client, &common.cache);
                let reply = build::build(with, &program, (&devices, named), step, &options);
                build::answer(&common.client, &reply, &call)?;
            }
            Self::Link(program, (devices, named), inputs, options, call) => {
                let reply = build::link(&common.cache, &program, (&devices, named), &inputs, &options);
                build::answer(&common.client, &reply, &call)?;
            }
            Self::Load(program, binaries, call) => {
                let reply = build::load((&common.client, &common.cache), &program, &binaries);
                common.client.answer(&call, &reply)?;
            }
            Self::Binary(program, device, transfer, call) => {
                build::send_binary(&common.client, &program, device, transfer, &call)?;
            }
            Self::Timer(device, call) => common.client.answer(&call, &device.timer())?,
            Self::Run(work) => work(common)?,
            Self::ImageFormats(context, flags, image_type, call) => {
                let native = context.native.as_ref().map_err(|status| *status);
                let formats = native.and_then(|native| native.image_formats(flags, image_type));
                common.client.answer(&call, &formats)?;
            }
            Self::Done(answer, call) => common.client.answer(&call, &answer)?,
            Self::Ping(answer, call) => {
                let mut sending = common.client.outgoing.lock();
                sending.reply_with_tail(&call, &Ok(()), &vec![0; answer])?;
                sending.send()?;
            }
            Self::Answer(answer, call) => common.client.answer(&call, &answer)?,
            Self::SendNotes => common.client.outgoing.lock().send()?,
        }
        Ok(())
    }
}

/// A thread has done what no call waited for.
fn unasked(common: &Common, outcome: Result<(), End>) -> Result<(), End> {
    common.unasked.fetch_sub(1, Ordering::AcqRel);
    outcome
}

fn finish(common: &Common, queue: &Arc<Queue>, call: &CallId<Waited>) -> Result<(), End> {
    let status = match &queue.native {
        Ok(native) => native.finish().err().unwrap_or(cl::CL_SUCCESS),
        Err(status) => *status,
    };
    answer_wait(common, status, std::iter::once(queue), &[], call)
}

fn wait(common: &Common, cells: &Cells, call: &CallId<Waited>) -> Result<(), End> {
    let status = wait_natively(cells);
    answer_wait(common, status, cells.iter().filter_map(|cell| cell.queue.as_ref()), cells, call)
}

/// What was printed and read comes before the answer, which tells of the ends, and of the first error on `queues` that has no event to
/// tell of it.
fn answer_wait<'a>(
    common: &Common,
    mut status: Status,
    queues: impl Iterator<Item = &'a Arc<Queue>>,
    waited: &[Arc<Cell>],
    call: &CallId<Waited>,
) -> Result<(), End> {
    let mut sending = common.client.outgoing.lock();
    common.client.forward_printed(&mut sending)?;
    let mut report = common.reporter.gather(waited, &sending);
    report.send_data(&mut sending)?;
    for queue in queues {
        let first = queue.first_error.swap(0, Ordering::AcqRel);
        if status == cl::CL_SUCCESS {
            status = first;
        }
    }
    sending.reply(call, &Ok(Waited { status, completions: Completions { done: report.done } }));
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
    common.reporter.tell_of(std::slice::from_ref(cell))
}
