//! What must happen while no thread of the program is in the library.
//!
//! One thread for each connection: it sends what was gathered and nobody flushed, and reads (and sends asked-for bytes) when
//! something is outstanding that nobody waits for. While commands are flowing it looks around every [`TICK`]; then it
//! sleeps until the link is used again, so that an idle program costs nothing and a busy one no wake-ups.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::connection::{Connection, SILENCE};

/// Nothing stays unsent longer than this.
const TICK: Duration = Duration::from_micros(250);

/// Ticks without anything to do after which the link counts as quiet: of a single server. With more, all of them together look about as often.
const QUIET_AFTER: usize = 40;

/// However many servers there are.
const QUIET_AFTER_AT_LEAST: usize = 4;

/// Helpers that there are.
static HELPERS: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
pub(super) struct Helper {
    /// Nothing was sent for a while, and the helper sleeps.
    quiet: AtomicBool,
    /// Readable when the helper should wake.
    wake: OwnedFd,
    /// Things that will come over the link and that nobody may be waiting for.
    outstanding: AtomicUsize,
}

impl Helper {
    pub(super) fn new() -> std::io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { quiet: AtomicBool::new(true), wake, outstanding: AtomicUsize::new(0) })
    }

    /// Something is about to be sent. Returns whether the link was quiet until now.
    #[inline]
    pub(super) fn note_activity(&self) -> bool {
        if !self.quiet.load(Ordering::Relaxed) || !self.quiet.swap(false, Ordering::AcqRel) {
            return false;
        }
        self.rouse();
        true
    }

    /// Whether it sleeps.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// Something will come that nobody may wait for.
    pub(super) fn expect(&self) {
        if self.outstanding.fetch_add(1, Ordering::AcqRel) == 0 && self.quiet.load(Ordering::Acquire) {
            self.rouse();
        }
    }

    /// It came.
    pub(super) fn settled(&self) {
        self.outstanding.fetch_sub(1, Ordering::AcqRel);
    }

    /// No thread waits any more: what is still to come is the helper's again.
    pub(super) fn left_alone(&self) {
        if self.outstanding.load(Ordering::SeqCst) > 0 && self.quiet.load(Ordering::SeqCst) {
            self.rouse();
        }
    }

    pub(super) fn rouse(&self) {
        // Fails only when the counter is full, and then the helper wakes anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// Starts the thread; it lives as long as the connection is not lost.
pub(super) fn start(connection: &Arc<Connection>) -> std::io::Result<()> {
    let connection = Arc::clone(connection);
    std::thread::Builder::new().name("ropeway-helper".into()).stack_size(256 << 10).spawn(move || run(&connection))?;
    Ok(())
}

fn run(connection: &Connection) {
    let helper = &connection.helper;
    let mut idle = 0;
    // When something came last, or nothing was expected.
    let mut heard = Instant::now();
    HELPERS.fetch_add(1, Ordering::Relaxed);
    while !connection.is_lost() {
        // Threads that wait read and send by themselves; two at it would only be in each other's way.
        let is_left_alone = connection.waiting.load(Ordering::SeqCst) == 0;
        let expecting = is_left_alone && helper.outstanding.load(Ordering::Acquire) > 0;
        let quiet_after = (QUIET_AFTER / HELPERS.load(Ordering::Relaxed).max(1)).max(QUIET_AFTER_AT_LEAST);
        let readable = if idle < quiet_after {
            if expecting {
                connection.link.wait_readable(Some(TICK)).unwrap_or(true)
            } else {
                std::thread::sleep(TICK);
                false
            }
        } else {
            helper.quiet.store(true, Ordering::SeqCst);
            // A post that still saw the link busy left its message to this thread.
            if connection.outbox.is_empty() { sleep_until_roused(connection, expecting) } else { false }
        };
        let mut busy = readable || connection.transfers.looks_elsewhere();
        if readable && connection.waiting.load(Ordering::SeqCst) == 0 {
            connection.read_arrived();
        }
        if readable || !expecting {
            heard = Instant::now();
        } else if heard.elapsed() >= SILENCE {
            connection.look_for_life();
        }
        while connection.waiting.load(Ordering::SeqCst) == 0 && connection.send_chunk() {
            busy = true;
        }
        if !connection.outbox.is_empty() {
            busy = true;
            // A failure marks the connection as lost.
            let _ = connection.flush();
        }
        idle = if busy || !helper.quiet.load(Ordering::Acquire) && idle >= quiet_after { 0 } else { idle + 1 };
    }
    HELPERS.fetch_sub(1, Ordering::Relaxed);
}

/// Sleeps until the link is used again or, when something is expected, until something arrives (then true), or should have.
fn sleep_until_roused(connection: &Connection, expecting: bool) -> bool {
    let wake = connection.helper.wake.as_fd();
    let mut fds = [PollFd::from_borrowed_fd(wake, PollFlags::IN), PollFd::new(&connection.link, PollFlags::IN)];
    let watched = if expecting { &mut fds[..] } else { &mut fds[..1] };
    // An interrupted poll is as good as a wake-up.
    let silence = Timespec { tv_sec: SILENCE.as_secs().cast_signed(), tv_nsec: 0 };
    let _ = poll(watched, expecting.then_some(&silence));
    let mut counter = [0; 8];
    let _ = rustix::io::read(wake, &mut counter);
    expecting && !fds[1].revents().is_empty()
}
