//! What the client is told of commands that have ended.
//!
//! Whenever it is told something that it may have waited for, it is told of everything that had ended by then, on all
//! queues: a command that comes before another must not look unfinished to a program that has seen the other one's end.

use std::sync::{Arc, Mutex, Weak};

use ropeway_abi as cl;
use ropeway_protocol::messages::{Completed, Progressed, ReadData, TransferFailed};
use ropeway_protocol::types::{Completions, EventDone, Status};

use crate::base::budget::Budget;
use crate::base::error::End;
use crate::base::lock::lock;
use crate::link::client::Client;
use crate::link::outgoing::Sending;
use crate::objects::{Cell, OwedRead, Queue};

/// Entries of an out-of-order queue that are looked at.
const SCAN: usize = 1024;

/// A queue that was to be finished.
pub struct Finished {
    /// Which.
    pub queue: Arc<Queue>,
    /// How many commands had been enqueued by then.
    pub commands: u64,
}

/// Commands of which it is known that they have ended, whatever the native implementation says of their events: that may lag behind.
#[derive(Clone, Copy)]
pub enum Ended<'a> {
    /// Perhaps these.
    Perhaps(&'a [Arc<Cell>]),
    /// These, and what comes before them in queues that run their commands in order.
    Cells(&'a [Arc<Cell>]),
    /// What was enqueued before this queue was to be finished.
    Queue(&'a Finished),
}

impl<'a> Ended<'a> {
    fn cells(self) -> &'a [Arc<Cell>] {
        match self {
            Self::Perhaps(cells) | Self::Cells(cells) => cells,
            Self::Queue(_) => &[],
        }
    }

    /// Whether a command of `queue` is one of them.
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
    /// Bytes of the host's memory that are held for what is not finished: small reads and writes, program contents.
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

    /// All that has ended and that the client was not told of yet, what `ended` names in particular.
    ///
    /// What is in the report is in no other: it must be sent by who holds the right to send, here shown by `_sending`.
    fn gather(&self, ended: Ended<'_>, _sending: &Sending<'_>) -> Report<'_> {
        let mut report = Report { done: Vec::new(), data: Vec::new(), lagging: None, staged: &self.staged };
        lock(&self.queues).retain(|queue| {
            let Some(queue) = queue.upgrade() else { return false };
            report.look_through(&queue, ended);
            true
        });
        // What the looks through the queues did not come to.
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

    /// All that has ended and that the client was not told of yet, all of what `ended` names, and the right to send it. What was printed is told first.
    ///
    /// # Errors
    /// The session is over.
    pub fn gather_all(&self, ended: Ended<'_>) -> Result<(Sending<'_>, Report<'_>), End> {
        let mut known = ended;
        loop {
            let mut sending = self.client.outgoing.lock();
            self.client.forward_printed(&mut sending)?;
            let mut report = self.gather(known, &sending);
            let Some(lagging) = report.lagging.take() else { return Ok((sending, report)) };
            // What is in this report must not come later than what others will send.
            report.note(&mut sending)?;
            sending.send()?;
            drop(sending);
            lagging.end();
            if lagging.status() > cl::CL_COMPLETE {
                // It has had its time. The client goes on without it.
                known = Ended::Perhaps(ended.cells());
            }
        }
    }

    /// Tells of all that has ended, `waited` in particular.
    ///
    /// # Errors
    /// The session is over.
    pub fn tell_of(&self, waited: &[Arc<Cell>]) -> Result<(), End> {
        let (mut sending, report) = self.gather_all(Ended::Cells(waited))?;
        report.note(&mut sending)?;
        Ok(sending.send()?)
    }

    /// Tells that a command has come to be submitted, or to run.
    ///
    /// # Errors
    /// The session is over.
    pub fn tell_progress(&self, cell: &Cell) -> Result<(), End> {
        let mut sending = self.client.outgoing.lock();
        // Its end is told by those who wait for it.
        if let (Some(event), status) = (cell.id, cell.status())
            && status > cl::CL_COMPLETE
            && !cell.settled()
        {
            sending.note(&Progressed { event, status });
        }
        Ok(sending.send()?)
    }
}

/// Commands that have ended: their ends and their data.
pub struct Report<'a> {
    /// How they ended.
    done: Vec<EventDone>,
    data: Vec<OwedRead>,
    /// One that has ended, of which the native implementation does not say so yet.
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
                if let Some(cell) = pending.remove(at)
                    && !cell.settled()
                {
                    self.add(&cell, status);
                }
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

    /// Adds the data; gives the ends, which are still to be told.
    ///
    /// # Errors
    /// What the socket said.
    pub fn send_data(self, sending: &mut Sending<'_>) -> Result<Vec<EventDone>, End> {
        for OwedRead { transfer, read } in self.data {
            self.staged.give_back(read.size());
            match read.bytes() {
                Ok(bytes) => sending.note_with_tail(&ReadData { transfer, offset: 0 }, bytes)?,
                Err(status) => sending.note(&TransferFailed { transfer, status }),
            }
        }
        Ok(self.done)
    }

    /// Adds all of it as notes: ends first, as data may be what a thread of the program waits for, and it may look at
    /// the ends next.
    ///
    /// # Errors
    /// What the socket said.
    fn note(mut self, sending: &mut Sending<'_>) -> Result<(), End> {
        if !self.done.is_empty() {
            let done = std::mem::take(&mut self.done);
            sending.note(&Completed { completions: Completions { done } });
        }
        self.send_data(sending).map(drop)
    }
}
