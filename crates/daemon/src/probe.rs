//! Facts about this machine's drivers that no query tells. One separate process finds them out for all workers, since a
//! driver may hang it for ever.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use ropeway_worker::handoff::{self, DriverFact, ToWorker};
use tracing::{debug, warn};

use crate::options::WorkerCommand;
use crate::process::{Word, Worker};
use crate::rooms::Rooms;

/// How long the trial of a driver may take. A driver that takes longer is assumed to lack the property under test,
/// which is always safe.
const LIMIT: Duration = Duration::from_secs(5);

/// The argument that makes a worker process try drivers.
const ARGUMENT: &str = "--probe";

/// The prober, which tries drivers one after the other.
pub(crate) struct Prober {
    command: WorkerCommand,
    /// What worker processes have for themselves.
    rooms: Rooms,
    process: Option<Worker>,
    state: State,
    /// The results so far.
    facts: Vec<DriverFact>,
    /// The driver being tried, and the time by which it must have answered.
    trying: Option<(String, Instant)>,
    /// Whether custom devices can do what they were declared to do, or one sentence; `None` before that is known.
    proof: Option<Result<(), String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing has been started.
    New,
    /// A process is trying drivers.
    Running,
    /// No more facts will come.
    Done,
}

impl Prober {
    /// Creates a prober that is not started; `command` starts workers, each with one of these folders and groups.
    /// With `needs_proof`, custom devices are tried, too.
    pub(crate) fn new(command: &WorkerCommand, rooms: Rooms, needs_proof: bool) -> Self {
        let mut command = command.clone();
        command.args.push(ARGUMENT.into());
        let proof = if needs_proof { None } else { Some(Ok(())) };
        Self { command, rooms, process: None, state: State::New, facts: Vec::new(), trying: None, proof }
    }

    /// Starts the prober, unless it was started before.
    pub(crate) fn start(&mut self, now: Instant) {
        if self.state == State::New {
            self.start_process(now);
        }
    }

    /// Returns whether no more facts will come.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns the facts known so far.
    pub(crate) fn facts(&self) -> &[DriverFact] {
        &self.facts
    }

    /// Why custom devices cannot be had, if they cannot: one sentence.
    pub(crate) fn refutation(&self) -> Option<&str> {
        self.proof.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// Takes it for a refutation that no proof has come.
    fn lacks_proof(&mut self, why: &str) {
        self.proof
            .get_or_insert_with(|| Err(format!("custom devices with hardware of their own cannot be had: {why}")));
    }

    fn start_process(&mut self, now: Instant) {
        self.state = State::Running;
        let started = Worker::spawn(&self.command, &self.rooms, now).and_then(|process| {
            handoff::say(process.control(), &ToWorker::Drivers(self.facts.clone()), None, false)?;
            Ok(process)
        });
        match started {
            Ok(process) => self.process = Some(process),
            Err(error) => self.give_up(&error),
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        warn!(%error, "drivers cannot be tried: none is relied on for what it need not do");
        self.lacks_proof(&format!("the process that tries them does not start: {error}"));
        self.state = State::Done;
    }

    /// Returns the descriptors that become readable when the process sends a message, and when it ends.
    pub(crate) fn sockets(&self) -> Option<(Option<BorrowedFd<'_>>, BorrowedFd<'_>)> {
        let process = self.process.as_ref()?;
        Some((process.is_heard().then(|| process.control()), process.exit()))
    }

    /// Reads all that the process has sent; returns whether there is a new fact.
    pub(crate) fn hear(&mut self, now: Instant) -> bool {
        let before = self.facts.len();
        while let Some(process) = &mut self.process {
            match process.listen() {
                Word::Step(what) => process.takes_step(what, LIMIT * 2),
                Word::Probing(driver) => self.trying = Some((driver, now + LIMIT)),
                Word::Probed(takes_bytes_late) => {
                    let Some((driver, _)) = self.trying.take() else { continue };
                    debug!(driver, takes_bytes_late, "a driver was tried");
                    self.facts.push(DriverFact { driver, takes_bytes_late });
                }
                Word::Proved(proof) => self.proof = Some(proof),
                Word::Device(..) | Word::Source(..) => {}
                Word::Ready(_)
                | Word::Dial(_)
                | Word::Feed(_)
                | Word::Account(_)
                | Word::Limit(_)
                | Word::Gone
                | Word::Nothing => {
                    break;
                }
            }
        }
        self.facts.len() > before
    }

    /// Returns when the time of the current trial is up.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let process = self.process.as_ref()?;
        self.trying.as_ref().map(|(_, at)| *at).or(process.kill_at)
    }

    /// Kills a process that has exceeded its time; `reap` then handles its end.
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.deadline().is_none_or(|at| now < at) {
            return;
        }
        let Some(process) = &mut self.process else { return };
        let step = process.step.as_ref().map_or("its start", |step| &step.what);
        match &mut self.trying {
            Some((driver, at)) => {
                warn!(
                    driver,
                    "a trial of this driver has been in {step} for {} s: it is taken not to have what it was tried for",
                    LIMIT.as_secs()
                );
                *at = now + LIMIT;
            }
            None => warn!("the process that tries drivers has been in {step} for too long"),
        }
        process.kill_at = Some(now + LIMIT);
        process.kill();
    }

    /// Handles the end of the process; returns whether there is a new fact. Another process tries the drivers that are
    /// left.
    pub(crate) fn reap(&mut self, now: Instant) -> bool {
        let Some(end) = self.process.as_mut().and_then(Worker::ended) else { return false };
        let heard = self.hear(now);
        self.process = None;
        self.lacks_proof(&format!("the process that tried them has ended: {end}"));
        match self.trying.take() {
            Some((driver, _)) => {
                debug!(driver, %end, "a driver did not survive being tried");
                self.facts.push(DriverFact { driver, takes_bytes_late: false });
            }
            None => {
                debug!(%end, facts = self.facts.len(), "drivers are tried");
                self.state = State::Done;
                return heard;
            }
        }
        self.start_process(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drives a prober whose process runs `script` until the prober is done. The scripts' messages are bytes as
    /// `handoff` encodes them.
    fn probed(script: &str) -> Vec<DriverFact> {
        // Like a worker, the script first takes the message that it is sent.
        let script = format!("dd bs=4096 count=1 > /dev/null 2>&1; {script}");
        let command = WorkerCommand { program: "/bin/sh".into(), args: vec!["-c".into(), script.into()] };
        let mut prober = Prober::new(&command, Rooms::default(), false);
        let begin = Instant::now();
        prober.start(begin);
        // The test does not wait for a driver that hangs; it moves the clock on instead.
        let mut skipped = Duration::ZERO;
        while !prober.is_done() {
            assert!(begin.elapsed() < Duration::from_secs(10), "waited in vain");
            let now = Instant::now() + skipped;
            prober.hear(now);
            if prober.trying.as_ref().is_some_and(|(driver, _)| driver == "hangs") && skipped.is_zero() {
                skipped = LIMIT;
            }
            prober.expire(Instant::now() + skipped);
            prober.reap(Instant::now() + skipped);
            std::thread::sleep(Duration::from_millis(1));
        }
        prober.facts
    }

    fn fact(driver: &str, takes_bytes_late: bool) -> DriverFact {
        DriverFact { driver: driver.into(), takes_bytes_late }
    }

    /// The message that names a driver.
    const GOOD: &str = "printf '\\002\\004good\\000\\000' >&0; printf '\\003\\001\\000\\000' >&0;";

    #[test]
    fn answers_are_kept() {
        assert_eq!(probed(&format!("{GOOD} exit 0")), [fact("good", true)]);
    }

    #[test]
    fn a_driver_that_hangs_or_crashes_is_not_relied_on_and_holds_up_no_other() {
        let folder = std::env::temp_dir().join(format!("ropeway-probe-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mark = folder.join("hung");
        let mark = mark.display();
        let hang = "printf '\\002\\005hangs\\000\\000' >&0; exec sleep 100";
        let script = format!("if [ -e {mark} ]; then {GOOD} exit 0; else : > {mark}; {hang}; fi");
        assert_eq!(probed(&script), [fact("hangs", false), fact("good", true)]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_process_that_says_nothing_leaves_nothing_known() {
        assert_eq!(probed("exit 3"), []);
    }
}
