//! A push on its way out: what it waits for, one after the other.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::messages::{PushData, PushEnds, PushFailed, Signal};
use ropeway_protocol::types::Status;

use super::arrival::{Part, SMALL};
use super::peer::{Outlet, Peer};
use super::sending::{Stop, Way as _};
use super::services::{PEER_LOST, Services, Ticket};
use crate::base::order::Turn;
use crate::native::{StagedRead, UserEvent};
use crate::objects::contents::Contents;
use crate::objects::{Cells, Memory};

/// A push.
pub struct Push {
    /// Its name.
    pub transfer: TransferId,
    /// From where.
    pub memory: Arc<Memory>,
    /// Which part.
    pub part: Part,
    /// The content size, where the buffer has one: the peer is told where the meaningful bytes end.
    pub contents: Option<Contents>,
    /// The event that ends when all is sent; made by `semaphore::hold`.
    pub event: Option<UserEvent>,
    /// To whom.
    pub peer: Arc<Peer>,
    /// The push's ticket among the pushes and signals that are not sent yet.
    #[expect(dead_code, reason = "it is given back when it is dropped")]
    pub ticket: Ticket,
}

/// Called once commands have ended, with their status.
pub type Ended = Box<dyn FnOnce(&Arc<Services>, Status) + Send>;

/// Calls `then` once all of these have ended, with 0 or the first error that was found. `at_once` is as for
/// [`crate::notify::notifier::Notifier::when_ended`].
pub fn when_all_have_ended(services: &Arc<Services>, mut cells: Cells, status: Status, at_once: bool, then: Ended) {
    let mut worst = status;
    while let Some(cell) = cells.pop() {
        let mut status = cell.status();
        if let Some(event) = cell.native.clone().filter(|_| status > cl::CL_COMPLETE) {
            let turn = cell.turn;
            let next = move |services: &Arc<Services>, status: Status| {
                // An error that the worker has found outweighs what the native event says.
                let status = if cell.failure() < 0 { cell.failure() } else { status };
                let worst = if worst == cl::CL_COMPLETE { status.min(cl::CL_COMPLETE) } else { worst };
                when_all_have_ended(services, cells, worst, at_once, then);
            };
            return services.when_ended(event, turn, at_once, next);
        }
        status = status.min(cl::CL_COMPLETE);
        worst = if worst == cl::CL_COMPLETE { status } else { worst };
    }
    then(services, worst);
}

/// Signals a peer that one of its events has ended.
pub fn signal(services: &Arc<Services>, peer: &Arc<Peer>, message: Signal, ticket: Ticket) {
    let for_later = peer.clone();
    peer.when_connected(
        services,
        Box::new(move |services, outlet| {
            match outlet {
                Ok(Outlet::Own) => {
                    if let Err(end) = for_later.take_signal_of(services, None, &message) {
                        services.end(end);
                    }
                }
                // A connection that is gone is noticed where it is read.
                Ok(Outlet::Links(links)) => drop(links.control().map(|link| link.post(&message, &[]))),
                Err(_) => {}
            }
            drop(ticket);
        }),
    );
}

/// The source of a push's bytes.
enum Source {
    /// The contents of the memory at the time of sending.
    Memory,
    /// The bytes that this read has taken.
    Read(StagedRead),
    /// No bytes, only a notification of this failure.
    Failure(Status),
}

/// How far a push has come.
enum Stage {
    /// It waits for the commands before it.
    Behind(Cells),
    /// It waits for its bytes to be read. The read waits for the commands before it.
    Reading(StagedRead, Option<Turn>),
    /// It waits until it is known whether the peer is connected.
    Connecting(Source),
    /// Its bytes are to be sent.
    Sending(Source, Outlet),
    /// Has been sent, or has failed: whoever waits for the push is to be told.
    Concluding(Outlet, Result<(), Stop>),
}

/// A push and how far it has come.
struct Progress {
    push: Push,
    stage: Stage,
}

impl Push {
    /// Sends the push once `after` have ended.
    pub fn start(self, services: &Arc<Services>, after: Cells) {
        let ready = after.iter().all(|cell| cell.status() <= cl::CL_COMPLETE);
        let progress = Progress { push: self, stage: Stage::Behind(after) };
        if ready {
            // Never send on the thread that carries out commands.
            services.in_the_pool(move |services| progress.go_on(services));
        } else {
            progress.go_on(services);
        }
    }

    /// Sends the push once `read` has ended, which is enqueued already with its wait list.
    pub fn start_with(self, services: &Arc<Services>, (read, turn): (StagedRead, Option<Turn>)) {
        Progress { push: self, stage: Stage::Reading(read, turn) }.go_on(services);
    }
}

impl Progress {
    /// Takes the push as far as it goes without waiting. If the push has to wait or needs another thread, whoever ends
    /// the wait calls this again.
    fn go_on(self, services: &Arc<Services>) {
        let Self { mut push, stage } = self;
        match stage {
            Stage::Behind(cells) => {
                let then = move |services: &Arc<Services>, status: Status| {
                    let source = match status {
                        cl::CL_COMPLETE => Source::Memory,
                        _ => Source::Failure(cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
                    };
                    Self { push, stage: Stage::Connecting(source) }.go_on(services);
                };
                when_all_have_ended(services, cells, 0, false, Box::new(then));
            }
            Stage::Reading(read, turn) => {
                let event = read.event().clone();
                // Sending to this session itself makes native calls.
                let at_once = push.memory.context.maps && push.peer.id != services.own;
                let stage = Stage::Connecting(Source::Read(read));
                services.when_ended(event, turn, at_once, move |services, _| Self { push, stage }.go_on(services));
            }
            Stage::Connecting(source) => {
                let peer = push.peer.clone();
                let then = move |services: &Arc<Services>, outlet: Result<Outlet, Status>| match outlet {
                    Ok(outlet) => Self { push, stage: Stage::Sending(source, outlet) }.send(services),
                    Err(status) => {
                        push.has_read(services, &source);
                        push.end(services, status);
                    }
                };
                peer.when_connected(services, Box::new(then));
            }
            Stage::Sending(source, outlet) => {
                let sent = push.send_from(services, &source, &outlet);
                let takes_events = sent.is_err() || push.event.is_some();
                let concluding = Self { push, stage: Stage::Concluding(outlet, sent) };
                match source {
                    // This may be one of the native implementation's own threads, and what follows sets events.
                    Source::Read(_) if takes_events => services.in_the_pool(move |services| concluding.go_on(services)),
                    Source::Read(_) => {}
                    Source::Memory | Source::Failure(_) => concluding.go_on(services),
                }
            }
            Stage::Concluding(outlet, sent) => push.conclude(services, &outlet, sent),
        }
    }

    /// Continues with sending, on the transfer pool if that may take a while: this thread may have others waiting for
    /// it.
    fn send(self, services: &Arc<Services>) {
        match &self.stage {
            Stage::Sending(Source::Memory, _) if self.push.part.size() > SMALL => {
                services.in_the_pool(move |services| self.go_on(services));
            }
            _ => self.go_on(services),
        }
    }
}

impl Push {
    /// Sends the push. After an error, the peer is still to be told of the failure.
    fn send_from(&mut self, services: &Arc<Services>, source: &Source, outlet: &Outlet) -> Result<(), Stop> {
        self.has_read(services, source);
        match source {
            Source::Failure(status) => Err(Stop::Native(*status)),
            Source::Memory => {
                if let Some(size) = self.limit()? {
                    self.tell_end(services, outlet, size);
                    if size == 0 {
                        return Ok(());
                    }
                }
                match outlet {
                    Outlet::Own => self.send(services, &[&*self.peer]),
                    Outlet::Links(links) => self.send_by(services, links),
                }
            }
            Source::Read(read) => {
                // Implementations differ in the status of a command whose wait list contains a failed one, and a read
                // cannot fail for any other reason.
                let bytes = read.bytes().map_err(|_| cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)?;
                let message = PushData { transfer: self.transfer, offset: 0 };
                match outlet {
                    Outlet::Own => self.peer.send(services, &message, &[bytes]),
                    Outlet::Links(links) => links.control().ok_or(PEER_LOST)?.send(services, &message, &[bytes]),
                }
            }
        }
    }

    /// Gives back the staging bytes that a read has taken.
    fn has_read(&self, services: &Services, source: &Source) {
        if let Source::Read(read) = source {
            services.reporter.staged.give_back(read.size());
        }
    }

    fn conclude(&self, services: &Arc<Services>, outlet: &Outlet, sent: Result<(), Stop>) {
        let status = match sent {
            Ok(()) => cl::CL_COMPLETE,
            Err(Stop::Native(status)) => {
                self.tell_failure(services, outlet, status);
                status
            }
            Err(Stop::Link(link, error)) if self.peer.forget(services, &link, &error) => {
                self.tell_failure(services, outlet, cl::CL_OUT_OF_RESOURCES);
                cl::CL_OUT_OF_RESOURCES
            }
            Err(Stop::Link(link, error)) => {
                self.peer.lose(services, Some(&link), &format!("the connection to it broke: {error}"));
                PEER_LOST
            }
            Err(Stop::Over) => return,
        };
        self.end(services, status);
    }

    fn end(&self, services: &Services, status: Status) {
        if let Some(event) = &self.event {
            services.settle(event, status);
        }
    }

    /// Cuts the part down to its meaningful bytes. Returns how many bytes are left, if any were left out.
    fn limit(&mut self) -> Result<Option<u64>, Status> {
        let (Some(contents), Part::Ranges(ranges)) = (&self.contents, &self.part) else { return Ok(None) };
        let Some(left) = contents.of(ranges)? else { return Ok(Some(0)) };
        let limited = (left.size() < ranges.size()).then_some(left.size());
        self.part = Part::Ranges(Arc::new(left));
        Ok(limited)
    }

    fn tell_end(&self, services: &Arc<Services>, outlet: &Outlet, size: u64) {
        let message = PushEnds { transfer: self.transfer, size };
        match outlet {
            Outlet::Own => {
                if let Err(end) = self.peer.take_end(services, None, &message) {
                    services.end(end);
                }
            }
            // A connection that is gone is noticed where it is read.
            Outlet::Links(links) => drop(links.control().map(|link| link.post(&message, &[]))),
        }
    }

    fn tell_failure(&self, services: &Arc<Services>, outlet: &Outlet, status: Status) {
        let message = PushFailed { transfer: self.transfer, status };
        let told = match outlet {
            Outlet::Own => self.peer.take_failure(services, None, &message).map_err(drop),
            Outlet::Links(links) => links.control().ok_or(()).and_then(|link| link.post(&message, &[]).map_err(drop)),
        };
        // A connection that is gone is noticed where it is read.
        let _ = told;
    }
}
