//! Workers that end, and what is written down of their sessions.

use std::time::{Duration, Instant};

use tracing::{debug, error, info, warn};

use super::{FIRST_PAUSE, Pool};
use crate::audit::Event;
use crate::groups::Group;
use crate::process::{End, Session, State, Word, Worker};

/// Why a session has ended that did not end before its server.
const STOPPED: &str = "the server was stopped";

impl Pool {
    /// Handles a worker that has ended.
    pub(crate) fn reap(&mut self, pid: u32, now: Instant) {
        let Some((worker, end)) = self.take_ended(pid) else { return };
        match &worker.state {
            State::Session(session) => {
                let (session, seconds) = (session, session.since.elapsed().as_secs_f64());
                if end.is_clean() {
                    info!(session = session.about.session, worker = pid, program = %session.about.program, seconds, "session ends");
                } else {
                    error!(
                        session = session.about.session, worker = pid, program = %session.about.program, seconds, %end,
                        "session ends: its worker failed; other sessions go on"
                    );
                }
            }
            State::Warm => {
                warn!(worker = pid, %end, "a warm worker ended by itself");
                // This worker was able to start, so the next one should be too; the pause avoids a tight loop.
                self.not_before = self.not_before.max(now + FIRST_PAUSE);
            }
            State::Retired => debug!(worker = pid, %end, "a worker that is no longer needed ends"),
            State::Starting | State::Failing => {
                error!(
                    worker = pid, %end,
                    "a worker ended before it had a client; its own lines above say why (does clinfo work on this machine?)"
                );
                self.failed(now);
            }
        }
    }

    /// Takes a worker out if it has ended, and says how; how its session ended is written down.
    fn take_ended(&mut self, pid: u32) -> Option<(Worker, End)> {
        let end = self.workers.get_mut(&pid)?.ended()?;
        self.audit_end(pid, Some(&end));
        Some((self.workers.remove(&pid)?, end))
    }

    /// Writes down how a worker's session ended, if it had one; `end` is the worker's end, unless it is only about to.
    fn audit_end(&mut self, pid: u32, end: Option<&End>) {
        let Some(worker) = self.workers.get_mut(&pid) else { return };
        // It may have said something right before it ended.
        while let word @ (Word::Account(_) | Word::Limit(_)) = worker.listen() {
            last_words(worker, word);
        }
        let device_seconds = worker.device_seconds();
        let was_over = worker.group.as_ref().is_some_and(Group::was_over);
        let State::Session(session) = &mut worker.state else { return };
        if was_over && session.ended_for.is_none() {
            let reason = session.memory_limit(self.session_memory).sentence(0);
            error!(session = session.about.session, worker = pid, program = %session.about.program, "{reason}; the system ended it");
            session.ended_for = Some(reason);
        }
        let Session { about, since, ended_for, account, .. } = &**session;
        let failed = end.filter(|end| !end.is_clean());
        let by_itself = || failed.map_or_else(|| "ended".to_owned(), |end| format!("its worker failed: {end}"));
        let outcome = ended_for.clone().unwrap_or_else(by_itself);
        let (seconds, account) = (since.elapsed().as_secs_f64(), account.as_ref());
        self.audit.write(&Event::End { about, seconds, outcome: &outcome, device_seconds, account });
    }

    /// Asks all workers to end, waits up to `limit`, and kills the rest. Stops waiting early when `hurry` returns true.
    pub(crate) fn stop(&mut self, limit: Duration, mut hurry: impl FnMut() -> bool) {
        let deadline = Instant::now() + limit;
        for worker in self.workers.values_mut() {
            match &mut worker.state {
                State::Session(session) => {
                    session.ended_for.get_or_insert_with(|| STOPPED.to_owned());
                    worker.stop();
                }
                State::Warm | State::Starting | State::Failing | State::Retired => worker.kill(),
            }
        }
        while !self.workers.is_empty() && Instant::now() < deadline && !hurry() {
            for pid in self.workers.keys().copied().collect::<Vec<_>>() {
                self.end_quietly(pid);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for pid in self.workers.keys().copied().collect::<Vec<_>>() {
            warn!(worker = pid, "worker did not end in time; killing it");
            if let Some(worker) = self.workers.get(&pid) {
                worker.kill();
            }
            self.audit_end(pid, None);
        }
        self.workers.clear();
    }

    /// Takes a worker out once it has ended, as was asked of it.
    fn end_quietly(&mut self, pid: u32) {
        if let Some((worker, end)) = self.take_ended(pid)
            && let State::Session(session) = &worker.state
        {
            info!(session = session.about.session, worker = pid, %end, "session ends with the server");
        }
    }
}

/// Takes in what a worker says when its session ends.
pub(super) fn last_words(worker: &mut Worker, word: Word) {
    match word {
        Word::Account(account) => worker.has_taken(account),
        Word::Limit(reason) => {
            if let State::Session(session) = &worker.state {
                warn!(session = session.about.session, worker = worker.pid(), program = %session.about.program, "{reason}; other sessions go on");
            }
            worker.ends_over(reason);
        }
        _ => {}
    }
}
