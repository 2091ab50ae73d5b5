//! What must happen while no thread of the program is in the library.
//!
//! One thread for each connection: it sends what was gathered and nobody flushed, and reads (and sends asked-for bytes) when
//! something is outstanding that nobody waits for. While commands are flowing it looks around every [`TICK`]; then it
//! sleeps until the link is used again, so that an idle program costs nothing and a busy one no wake-ups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::Connection;
use super::waiting::SILENCE;

/// Nothing stays unsent longer than this.
const TICK: Duration = Duration::from_micros(250);

/// Ticks without anything to do after which the link counts as quiet: of a single server. With more, all of them together look about as often.
const QUIET_AFTER: usize = 40;

/// However many servers there are.
const QUIET_AFTER_AT_LEAST: usize = 4;

/// Helpers that there are.
static HELPERS: AtomicUsize = AtomicUsize::new(0);

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
        let expecting = is_left_alone && helper.is_expecting();
        let quiet_after = (QUIET_AFTER / HELPERS.load(Ordering::Relaxed).max(1)).max(QUIET_AFTER_AT_LEAST);
        let readable = if idle < quiet_after {
            if expecting {
                connection.channel.wait_readable(Some(TICK)).unwrap_or(true)
            } else {
                std::thread::sleep(TICK);
                false
            }
        } else {
            helper.fall_quiet();
            // A post that still saw the link busy left its message to this thread.
            if connection.channel.is_flushed() { sleep_until_roused(connection, expecting) } else { false }
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
        if !connection.channel.is_flushed() {
            busy = true;
            // A failure marks the connection as lost.
            let _ = connection.flush();
        }
        idle = if busy || !helper.is_quiet() && idle >= quiet_after { 0 } else { idle + 1 };
    }
    HELPERS.fetch_sub(1, Ordering::Relaxed);
}

/// Sleeps until the link is used again or, when something is expected, until something arrives (then true), or should have.
fn sleep_until_roused(connection: &Connection, expecting: bool) -> bool {
    let wake = connection.helper.wake();
    let mut fds = [PollFd::from_borrowed_fd(wake, PollFlags::IN), PollFd::new(&connection.channel, PollFlags::IN)];
    let watched = if expecting { &mut fds[..] } else { &mut fds[..1] };
    // An interrupted poll is as good as a wake-up.
    let silence = Timespec { tv_sec: SILENCE.as_secs().cast_signed(), tv_nsec: 0 };
    let _ = poll(watched, expecting.then_some(&silence));
    let mut counter = [0; 8];
    let _ = rustix::io::read(wake, &mut counter);
    expecting && !fds[1].revents().is_empty()
}
