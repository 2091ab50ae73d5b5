//! Streams, opened for workers.
//!
//! A worker opens none by itself: it has no network, starts no programs, and of a network, a camera or a FIFO there is one
//! reader for all sessions. Files are opened here as well, so that a session reads no stream whose device it does not see.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use ropeway_stream::feed::Feeds;
use ropeway_worker::handoff::{self, Allowance, MAX_FEEDS};
use tracing::{debug, warn};

/// The streams that a worker may read.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    /// The numbers of their devices, and their names, which are those of the devices, too.
    streams: Vec<(u32, String)>,
    /// Kept by each stream that it has open.
    held: Arc<()>,
}

impl Offered {
    /// Adds one, as the worker has said before it had a client.
    pub(crate) fn add(&mut self, number: u32, stream: String) {
        self.streams.push((number, stream));
    }

    /// Leaves those whose devices a session sees.
    pub(crate) fn restrict(&mut self, allowance: &Allowance) {
        self.streams.retain(|(number, name)| allowance.has_custom(*number, name));
    }

    /// A place for one more of this name.
    ///
    /// # Errors
    /// One sentence.
    fn place(&self, stream: &str) -> Result<Arc<()>, String> {
        if !self.streams.iter().any(|(_, name)| name == stream) {
            return Err("the session sees no device of such a stream".to_owned());
        }
        let held = self.held.clone();
        if Arc::strong_count(&held) > MAX_FEEDS + 1 {
            return Err(format!("the session reads {MAX_FEEDS} streams already, and may read no more at one time"));
        }
        Ok(held)
    }
}

/// A stream that a worker wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Feed {
    /// The worker's name for the request.
    pub(crate) ticket: u64,
    /// The stream's.
    pub(crate) stream: String,
}

impl Feed {
    /// Opens it, and tells the worker `pid` the outcome. Nothing is waited for: a file may lie on another machine, and is
    /// opened in a thread of its own.
    pub(crate) fn start(self, pid: u32, control: Arc<OwnedFd>, (feeds, offered): (&Arc<Feeds>, &Offered)) {
        let (ticket, feeds) = (self.ticket, feeds.clone());
        let held = match offered.place(&self.stream) {
            Ok(held) => held,
            Err(why) => return tell(pid, &control, ticket, Err(why)),
        };
        let for_thread = control.clone();
        let spawned = thread::Builder::new().name("open".into()).spawn(move || {
            let opened = feeds.open(&self.stream, held);
            debug!(worker = pid, stream = self.stream, ok = opened.is_ok(), "a session opens a stream");
            tell(pid, &for_thread, ticket, opened);
        });
        if let Err(error) = spawned {
            tell(pid, &control, ticket, Err(format!("no thread can be started: {error}")));
        }
    }
}

fn tell(pid: u32, control: &OwnedFd, ticket: u64, opened: Result<OwnedFd, String>) {
    let outcome = match &opened {
        Ok(file) => Ok(file.as_fd()),
        Err(why) => Err(why.chars().take(1000).collect()),
    };
    if let Err(error) = handoff::say_fed(control.as_fd(), ticket, outcome) {
        warn!(worker = pid, %error, "a worker does not hear of its streams");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_reads_what_it_sees_and_no_more_than_some() {
        let offered = |devices: Option<&[&str]>| {
            let mut offered = Offered::default();
            offered.add(1, "gate".into());
            offered.add(2, "yard".into());
            let devices = devices.map(|names| names.iter().map(|name| name.parse().unwrap()).collect());
            offered.restrict(&Allowance { devices, ..Allowance::default() });
            (offered.place("gate").is_ok(), offered.place("yard").is_ok(), offered.place("moon").is_ok())
        };
        assert_eq!(offered(None), (true, true, false));
        assert_eq!(offered(Some(&["2"])), (false, true, false));
        assert_eq!(offered(Some(&["GATE"])), (true, false, false));
        assert_eq!(offered(Some(&["custom"])), (true, true, false));
        assert_eq!(offered(Some(&["gpu", "0"])), (false, false, false));
        let mut offered = Offered::default();
        offered.add(0, "gate".into());
        let places: Vec<_> = (0..MAX_FEEDS).map(|_| offered.place("gate").unwrap()).collect();
        assert!(offered.place("gate").unwrap_err().contains("64 streams already"));
        drop(places);
        assert!(offered.place("gate").is_ok());
    }
}
