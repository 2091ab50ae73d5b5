//! Reports to the client about commands that have ended.
//!
//! Whenever the client is told something that it may have waited for, it is told of everything that had ended by then,
//! on all queues: a command must not look unfinished to a program that has seen the end of a later one.

use std::sync::{Arc, Mutex, Weak};

use ropeway_abi as cl;
use ropeway_protocol::messages::{Completed, Progressed, ReadData, SlotRead, TransferFailed};
use ropeway_protocol::types::{Completions, EventDone, Status};

use crate::base::budget::Budget;
use crate::base::error::End;
use crate::base::lock::lock;
use crate::link::client::Client;
use crate::link::outgoing::Sending;
use crate::objects::{Cell, Cells, OwedRead, Queue};

/// Most entries of an out-of-order queue that one pass looks at.
const SCAN: usize = 1024;

/// A queue that was to be finished.
pub struct Finished {
    /// Which.
    pub queue: Arc<Queue>,
    /// How many commands had been enqueued when the client asked.
    pub commands: u64,
}

/// Commands that are known to have ended, whatever the native implementation says of their events, as that may lag
/// behind.
#[derive(Clone, Copy)]
pub enum Ended<'a> {
    /// Commands that may have ended.
    Perhaps(&'a [Arc<Cell>]),
    /// These commands, and those before them in queues that run their commands in order.
    Cells(&'a [Arc<Cell>]),
    /// Commands that were enqueued before the client asked to finish this queue.
    Queue(&'a Finished),
}

impl<'a> Ended<'a> {
    fn cells(self) -> &'a [Arc<Cell>] {
        match self {
            Self::Perhaps(cells) | Self::Cells(cells) => cells,
            Self::Queue(_) => &[],
        }
    }

    /// Whether a command of `queue` is among these.
    fn includes(self, queue: &Queue, cell: &Cell) -> bool {
        match self {
            Self::Perhaps(_) => false,
            Self::Cells(cells) => queue.in_order && cells.iter().any(|ended| cell.comes_before(ended)),
            Self::Queue(finished) => std::ptr::eq(&*finished.queue, queue) && cell.is_of_first(finished.commands),
        }
    }
}

/// Tells the client of commands that have ended.
pub struct Reporter {
    /// Whom.
    pub client: Arc<Client>,
    /// The session's queues.
    queues: Mutex<Vec<Weak<Queue>>>,
    /// The budget of host memory held for unfinished work: small reads and writes, program contents.
    pub staged: Arc<Budget>,
}

impl Reporter {
    /// One that knows no queues yet.
    pub fn new(client: Arc<Client>, staged: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { client, queues: Mutex::default(), staged })
    }

    /// Reports the commands of `queue`, too.
    pub fn add(&self, queue: &Arc<Queue>) {
        lock(&self.queues).push(Arc::downgrade(queue));
    }

    /// Gathers all that has ended and has not been reported yet, in particular what `ended` names.
    ///
    /// Each completion is in one report only, so the holder of the right to send, shown here by `_sending`, must send
    /// the report.
    fn gather(&self, ended: Ended<'_>, _sending: &Sending<'_>) -> Report<'_> {
        let (done, data, sent, passed) = Default::default();
        let mut report = Report { done, data, sent, passed, lagging: None, staged: &self.staged };
        lock(&self.queues).retain(|queue| {
            let Some(queue) = queue.upgrade() else { return false };
            report.look_through(&queue, ended);
            true
        });
        // Commands that the passes over the queues did not reach.
        for cell in ended.cells().iter().filter(|cell| !cell.settled()) {
            let status = cell.status();
            if status <= cl::CL_COMPLETE {
                report.add(cell, status);
            } else if let Ended::Cells(_) = ended {
                report.lagging = Some(cell.clone());
            }
        }
        report
    }

    /// Gathers all that has ended and has not been reported yet, including all of what `ended` names, with the right to
    /// send it. What native code has said is sent first.
    ///
    /// # Errors
    /// The session is over.
    pub fn gather_all(&self, ended: Ended<'_>) -> Result<(Sending<'_>, Report<'_>), End> {
        let mut known = ended;
        loop {
            let mut sending = self.client.outgoing.lock();
            self.client.forward_said(&mut sending)?;
            let mut report = self.gather(known, &sending);
            let Some(lagging) = report.lagging.take() else { return Ok((sending, report)) };
            // Sent now, as this report must reach the client before anything that other threads send.
            report.note(&mut sending)?;
            sending.send()?;
            drop(sending);
            lagging.end();
            if lagging.status() > cl::CL_COMPLETE {
                // The wait for the native event did not help, so the client goes on without this command.
                known = Ended::Perhaps(ended.cells());
            }
        }
    }

    /// Tells of all that has ended, `waited` in particular.
    ///
    /// # Errors
    /// The session is over.
    pub fn tell_of(&self, waited: &[Arc<Cell>]) -> Result<(), End> {
        let (mut sending, mut report) = self.gather_all(Ended::Cells(waited))?;
        report.note(&mut sending)?;
        Ok(sending.send()?)
    }

    /// Reports that a command was submitted, or started to run.
    ///
    /// # Errors
    /// The session is over.
    pub fn tell_progress(&self, cell: &Cell) -> Result<(), End> {
        let mut sending = self.client.outgoing.lock();
        // Whoever waits for the end reports the end.
        if let (Some(event), status) = (cell.id, cell.status())
            && status > cl::CL_COMPLETE
            && !cell.settled()
        {
            sending.note(&Progressed { event, status });
        }
        Ok(sending.send()?)
    }
}

/// Commands that have ended: their ends and their data. Whoever sends it drops it behind that, so that the client does not
/// wait for the release of native events.
pub struct Report<'a> {
    /// The statuses that they ended with.
    done: Vec<EventDone>,
    data: Vec<OwedRead>,
    /// Data that are sent, or about to be.
    sent: Vec<OwedRead>,
    /// The commands that queues had until now.
    passed: Cells,
    /// A command that is known to have ended, but whose native event does not say so yet.
    lagging: Option<Arc<Cell>>,
    staged: &'a Budget,
}

impl Report<'_> {
    fn look_through(&mut self, queue: &Queue, ended: Ended<'_>) {
        let mut pending = lock(&queue.pending);
        let mut at = 0;
        while at < pending.len().min(SCAN) {
            let cell = &pending[at];
            let status = if cell.settled() { cl::CL_COMPLETE } else { cell.status() };
            if status <= cl::CL_COMPLETE {
                let Some(cell) = pending.remove(at) else { return };
                if let Some(turn) = cell.turn {
                    queue.usage.ended(turn.number + 1);
                }
                if !cell.settled() {
                    self.add(&cell, status);
                }
                self.passed.push(cell);
                continue;
            }
            if ended.includes(queue, cell) {
                self.lagging = Some(cell.clone());
            }
            if queue.in_order {
                return;
            }
            at += 1;
        }
    }

    fn add(&mut self, cell: &Cell, status: Status) {
        self.data.extend(cell.take_owed());
        self.done.extend(cell.tell(status));
    }

    /// Adds the data to what is about to be sent; returns the ends, which the caller still has to report.
    ///
    /// # Errors
    /// The socket's error.
    pub fn send_data(&mut self, sending: &mut Sending<'_>) -> Result<Vec<EventDone>, End> {
        let data = std::mem::take(&mut self.data);
        for &OwedRead { transfer, ref read } in &data {
            self.staged.give_back(read.size());
            match read.bytes() {
                Ok(_) if read.is_in_slot() => sending.note(&SlotRead { transfer }),
                Ok(bytes) => sending.note_with_tail(&ReadData { transfer, offset: 0 }, bytes)?,
                Err(status) => sending.note(&TransferFailed { transfer, status }),
            }
        }
        self.sent = data;
        Ok(std::mem::take(&mut self.done))
    }

    /// Adds the whole report as notes: ends first, as a thread of the program that waits for data may look at the ends
    /// next.
    ///
    /// # Errors
    /// The socket's error.
    fn note(&mut self, sending: &mut Sending<'_>) -> Result<(), End> {
        if !self.done.is_empty() {
            let done = std::mem::take(&mut self.done);
            sending.note(&Completed { completions: Completions { done } });
        }
        self.send_data(sending).map(drop)
    }
}
