//! Work that must go on while no thread of the program is in the library.
//!
//! One thread for each connection: it sends what was gathered and nobody flushed, and reads (and sends asked-for bytes)
//! when something is outstanding that nobody waits for. While commands are flowing it looks around every [`TICK`]; then
//! it sleeps until the link is used again, so that an idle program costs nothing and a busy one no wake-ups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_transport::GLANCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::Connection;
use super::deferred_flush;
use crate::base::threads;

/// Nothing stays unsent longer than this.
const TICK: Duration = Duration::from_micros(250);

/// How often the link is looked at while a thread waits for room to send.
const HELD_UP: Duration = Duration::from_millis(20);

/// Ticks without anything to do after which the link counts as quiet, for a single server. With several servers the
/// limit is divided, so that all their threads together look about as often.
const QUIET_AFTER: usize = 40;

/// The least number of such ticks, however many servers there are.
const QUIET_AFTER_AT_LEAST: usize = 4;

/// The number of background I/O threads.
static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// Starts the thread; it lives as long as the connection is not lost.
pub(super) fn start(connection: &Arc<Connection>) -> std::io::Result<()> {
    let connection = Arc::clone(connection);
    let thread = thread::Builder::new().name("ropeway-helper".into()).stack_size(256 << 10);
    threads::start(|| thread.spawn(move || run(&connection)))?;
    Ok(())
}

fn run(connection: &Connection) {
    let background_io = &connection.background_io;
    let mut idle = 0;
    background_io.begin();
    // The last time that something came, that nothing was expected, or that the server's liveness was checked.
    let mut looked = Instant::now();
    HELPERS.fetch_add(1, Ordering::Relaxed);
    while !connection.is_lost() {
        if connection.channel.is_held_up() {
            // The sending thread waits for the socket and does not read, while others may be waiting for what is to be
            // read.
            thread::sleep(HELD_UP);
            connection.read_arrived();
            let _ = connection.flush_what_fits();
            if looked.elapsed() >= GLANCE {
                connection.drain_and_look();
                looked = Instant::now();
            }
            continue;
        }
        // Threads that wait read and send by themselves; a second thread would only be in their way.
        let is_left_alone = connection.waiting.load(Ordering::SeqCst) == 0;
        let expecting = is_left_alone && background_io.is_expecting();
        let quiet_after = (QUIET_AFTER / HELPERS.load(Ordering::Relaxed).max(1)).max(QUIET_AFTER_AT_LEAST);
        let readable = if idle < quiet_after {
            if expecting {
                connection.channel.wait_for_sign(Some(TICK)).unwrap_or(true)
            } else {
                thread::sleep(TICK);
                false
            }
        } else {
            background_io.fall_quiet();
            // A post that still saw the link busy left its message to this thread.
            if connection.channel.is_flushed() { sleep_until_roused(connection, expecting) } else { false }
        };
        let mut busy = readable || connection.transfers.looks_elsewhere();
        if readable && connection.waiting.load(Ordering::SeqCst) == 0 {
            connection.read_arrived();
        }
        if readable || !expecting {
            looked = Instant::now();
        } else if looked.elapsed() >= GLANCE {
            connection.drain_and_look();
            looked = Instant::now();
        }
        while connection.waiting.load(Ordering::SeqCst) == 0 && connection.send_chunk() {
            busy = true;
        }
        if !connection.channel.is_flushed() {
            busy = true;
            // A failure marks the connection as lost.
            let _ = connection.flush();
        }
        idle = if busy || !background_io.is_quiet() && idle >= quiet_after { 0 } else { idle + 1 };
    }
    HELPERS.fetch_sub(1, Ordering::Relaxed);
    // Done here, because whichever thread lost the server may hold locks that this needs.
    deferred_flush::tell_others_of_loss(connection, connection.session());
}

/// Sleeps until the link is used again. When something is expected, also wakes when something arrives (then returns
/// true), or should have arrived.
fn sleep_until_roused(connection: &Connection, expecting: bool) -> bool {
    if expecting && connection.channel.is_readable_or_will_tell() {
        return true;
    }
    let wake = connection.background_io.wake();
    let mut fds = [PollFd::from_borrowed_fd(wake, PollFlags::IN), PollFd::new(&connection.channel, PollFlags::IN)];
    let watched = if expecting { &mut fds[..] } else { &mut fds[..1] };
    // An interrupted poll is as good as a wake-up.
    let glance = Timespec { tv_sec: GLANCE.as_secs().cast_signed(), tv_nsec: 0 };
    let _ = poll(watched, expecting.then_some(&glance));
    let mut counter = [0; 8];
    let _ = rustix::io::read(wake, &mut counter);
    expecting && !fds[1].revents().is_empty()
}
