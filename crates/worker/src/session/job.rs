//! Jobs: the work that may wait for the device, or for the client to read.
//!
//! A job runs on the thread that read the command asking for it, after that thread has given up the reader's role; so
//! the answer needs no other thread, and a long wait does not stop the reading of commands. If there is no thread for a
//! job that waits for the device, the job waits without one: the notifier reports the end of the wait, and the thread
//! that takes the notification answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropeway_abi as cl;
use ropeway_protocol::CallId;
use ropeway_protocol::image::ImageFormat;
use ropeway_protocol::types::{BinaryFor, BinaryReply, BuildReply, Completions, Status, Waited};

use super::common::Common;
use crate::base::error::End;
use crate::native;
use crate::notify::report::{Ended, Finished};
use crate::objects::{Cell, Cells, Context, Program, Queue};
use crate::programs::build;
use crate::rendezvous::transfer::Rendezvous;

/// Whatever may wait, for once.
pub type Work = Box<dyn FnOnce(&Common) -> Result<(), End> + Send>;

/// Something that may wait.
pub enum Job {
    /// clFinish.
    Finish(Finished, CallId<Waited>),
    /// clWaitForEvents.
    Wait(Cells, CallId<Waited>),
    /// Delivers a small read that nobody but the client waits for.
    Deliver(Arc<Cell>),
    /// Waits until a rendezvous transfer may begin, and begins it.
    Begin(Arc<Rendezvous>),
    /// All bytes of a transfer have come: sees that they are in the buffer.
    Land(Arc<Rendezvous>),
    /// The client has copied what it was lent of a transfer, or a piece of it: goes on with the next.
    Copied(Arc<Rendezvous>),
    /// Builds a program.
    Build(Arc<Program>, (Vec<(u32, native::Device)>, usize), build::Step, String, CallId<BuildReply>),
    /// Links the first program from the others.
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
    /// Answers a call with its success or its error.
    Done(Result<(), Status>, CallId<()>),
    /// Answers a ping with so many bytes.
    Ping(usize, CallId<()>),
    /// Answers with a number.
    Answer(Result<u64, Status>, CallId<u64>),
    /// Sends the notes that handlers left.
    SendNotes,
}

/// Most calls that wait without a thread: more than a program has threads to make them. One more is answered with an
/// error.
pub const MAX_LEFT: usize = 1 << 16;

impl Job {
    /// Whether it waits for the device, which may take as long as the client wants.
    pub fn awaits_device(&self) -> bool {
        matches!(self, Self::Finish(..) | Self::Wait(..) | Self::Deliver(..) | Self::Begin(..))
    }

    /// Has the job done without a thread that waits for the device; a job that does not wait for the device is done
    /// here.
    ///
    /// # Errors
    /// The session is over.
    pub fn leave(self, common: &Arc<Common>) -> Result<(), End> {
        match self {
            Self::Finish(_, call) | Self::Wait(_, call) if !common.left.take(1) => {
                // Not from the thread that carries out commands: the client may not be reading.
                let client = common.client.clone();
                let refuse = move || client.answer(&call, &Err(cl::CL_OUT_OF_HOST_MEMORY));
                common.notifier.post.notify(Box::new(refuse));
            }
            Self::Finish(asked, call) => leave_finish(common, asked, call),
            Self::Wait(cells, call) => leave_wait(common, cells, call),
            Self::Deliver(cell) => {
                common.unasked.fetch_sub(1, Ordering::AcqRel);
                let (event, turn, reporter) = (cell.native.clone(), cell.turn, common.reporter.clone());
                common.notifier.watch(event, turn, Box::new(move || reporter.tell_of(&[cell])));
            }
            Self::Begin(rendezvous) => {
                common.unasked.fetch_sub(1, Ordering::AcqRel);
                let reporter = common.reporter.clone();
                common.notifier.watch(
                    rendezvous.may_begin.clone(),
                    None,
                    Box::new(move || rendezvous.begin(&reporter)),
                );
            }
            other => return other.run(common),
        }
        Ok(())
    }

    /// Does it.
    ///
    /// # Errors
    /// The session is over.
    pub fn run(self, common: &Common) -> Result<(), End> {
        match self {
            Self::Finish(asked, call) => finish(common, &asked, &call)?,
            Self::Wait(cells, call) => wait(common, &cells, &call)?,
            Self::Deliver(cell) => unasked(common, deliver(common, &cell))?,
            Self::Begin(rendezvous) => unasked(common, rendezvous.begin(&common.reporter))?,
            Self::Land(rendezvous) => rendezvous.land(&common.reporter)?,
            Self::Copied(rendezvous) => rendezvous.copied(&common.reporter)?,
            Self::Build(program, (devices, named), step, options, call) => {
                let with = (&*common.client, &common.cache);
                let building = common.clock.building();
                let reply = build::build(with, &program, (&devices, named), step, &options);
                drop(building);
                build::answer(&common.client, &reply, &call)?;
            }
            Self::Link(program, (devices, named), inputs, options, call) => {
                let building = common.clock.building();
                let reply = build::link(&common.cache, &program, (&devices, named), &inputs, &options);
                drop(building);
                build::answer(&common.client, &reply, &call)?;
            }
            Self::Load(program, binaries, call) => {
                let building = common.clock.building();
                let reply = build::load((&common.client, &common.cache), &program, &binaries);
                drop(building);
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

/// Counts a thread as done with work that no call waited for; passes `outcome` on.
fn unasked(common: &Common, outcome: Result<(), End>) -> Result<(), End> {
    common.unasked.fetch_sub(1, Ordering::AcqRel);
    outcome
}

fn finish(common: &Common, asked: &Finished, call: &CallId<Waited>) -> Result<(), End> {
    let status = match &asked.queue.native {
        Ok(native) => native.finish().err().unwrap_or(cl::CL_SUCCESS),
        Err(status) => *status,
    };
    if status == cl::CL_SUCCESS {
        asked.queue.usage.ended(asked.commands);
    }
    let ended = if status == cl::CL_SUCCESS { Ended::Queue(asked) } else { Ended::Perhaps(&[]) };
    answer_wait(common, status, std::iter::once(&asked.queue), ended, call)
}

fn wait(common: &Common, cells: &Cells, call: &CallId<Waited>) -> Result<(), End> {
    let status = wait_natively(cells);
    let queues = cells.iter().filter_map(|cell| cell.queue.as_ref());
    // Some implementations do not wait for the others where one has failed.
    let ended = if status == cl::CL_SUCCESS { Ended::Cells(cells) } else { Ended::Perhaps(cells) };
    answer_wait(common, status, queues, ended, call)
}

/// Answers once all that is enqueued on the queue until now has ended.
fn leave_finish(common: &Arc<Common>, asked: Finished, call: CallId<Waited>) {
    let queue = &asked.queue;
    let end = queue.native.as_ref().map_err(|status| *status).and_then(|native| {
        let end = native.marker(&native::Waits::none(), true)?;
        native.flush().map(|()| end)
    });
    let turn = end.as_ref().ok().and_then(|_| queue.in_order.then(|| queue.line.turn()));
    let waiting = common.clone();
    let answer = move |end: Result<(), Status>| {
        waiting.left.give_back(1);
        let ended = if end.is_ok() { Ended::Queue(&asked) } else { Ended::Perhaps(&[]) };
        answer_wait(&waiting, end.err().unwrap_or(cl::CL_SUCCESS), std::iter::once(&asked.queue), ended, &call)
    };
    match end {
        // clFinish does not report how the commands before it ended.
        Ok(end) => common.notifier.watch(end, turn, Box::new(move || answer(Ok(())))),
        Err(status) => common.notifier.post.notify(Box::new(move || answer(Err(status)))),
    }
}

/// Answers once all of these have ended: one after the other is watched.
fn leave_wait(common: &Arc<Common>, cells: Cells, call: CallId<Waited>) {
    let is_open = |cell: &&Arc<Cell>| cell.native.as_ref().is_some_and(|event| !event.ended());
    let open = cells.iter().rev().find(is_open);
    let (event, turn) = open.map_or((None, None), |cell| (cell.native.clone(), cell.turn));
    let waiting = common.clone();
    let go_on = move || {
        if cells.iter().any(|cell| is_open(&cell)) {
            leave_wait(&waiting, cells, call);
            return Ok(());
        }
        waiting.left.give_back(1);
        wait(&waiting, &cells, &call)
    };
    common.notifier.watch(event, turn, Box::new(go_on));
}

/// Sends output and read bytes before the answer, which reports the completions and the first error on `queues` that
/// has no event to report it.
fn answer_wait<'a>(
    common: &Common,
    mut status: Status,
    queues: impl Iterator<Item = &'a Arc<Queue>>,
    ended: Ended<'_>,
    call: &CallId<Waited>,
) -> Result<(), End> {
    let (mut sending, mut report) = common.reporter.gather_all(ended)?;
    let done = report.send_data(&mut sending)?;
    for queue in queues {
        let first = queue.first_error.swap(0, Ordering::AcqRel);
        if status == cl::CL_SUCCESS {
            status = first;
        }
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
        // The data carries the status with which the command ended.
        event.end();
    }
    common.reporter.tell_of(std::slice::from_ref(cell))
}
