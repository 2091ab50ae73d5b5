//! Looking for servers that come back.
//!
//! If the application wants to be told of them, one thread tries the addresses of lost servers as long as there are
//! any; if servers are found on the local network, the thread looks there, too.

use std::sync::PoisonError;
use std::time::Duration;

use ropeway_transport::Endpoint;

use super::System;
use super::server::{Change, State};
use super::watch::{Changes, Listener, Wanted};
use crate::base::sync::lock;
use crate::base::threads;

/// How long after a server's loss its address is first tried; the pause then doubles each time, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest time between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

impl System {
    /// Tells `listener` from now on of these changes, and of a notice that is there already; `None` stops that.
    /// Replaces the previous listener.
    pub fn watch(&self, listener: Option<Listener>, changes: Changes) {
        {
            let mut wanted = lock(&self.watch.wanted);
            if listener.is_none() {
                for connection in wanted.attended.drain(..) {
                    connection.news_came();
                }
            }
            wanted.heeding = None;
            wanted.changes = changes;
            wanted.listener = listener;
            self.watch.changed.notify_all();
            if wanted.listener.is_none() {
                return;
            }
        }
        for server in self.servers() {
            self.watch.attend(server.connection());
        }
        if changes.notice {
            let heeding = self.heed();
            lock(&self.watch.wanted).heeding = heeding;
        }
        self.seek();
    }

    /// Starts the thread that looks for servers, if one is wanted and there may be any.
    pub(crate) fn seek(&self) {
        // This check may itself find a server lost, which calls this function again: no lock is held meanwhile.
        let any = self.config.discover || !self.sought().is_empty();
        let mut wanted = lock(&self.watch.wanted);
        wanted.losses += 1;
        self.watch.changed.notify_all();
        if wanted.seeking || wanted.is_over() || !any {
            return;
        }
        let Some(system) = self.this() else { return };
        let thread = std::thread::Builder::new().name("ropeway-seeker".into()).stack_size(256 << 10);
        match threads::start(|| thread.spawn(move || system.seek_until_found())) {
            Ok(_) => wanted.seeking = true,
            Err(error) => crate::error!("no thread to look for lost servers: {error}; none will be found"),
        }
    }

    /// The addresses of lost servers.
    fn sought(&self) -> Vec<Endpoint> {
        let servers = self.servers();
        let lost = servers.iter().filter(|server| server.state() == State::Lost);
        lost.map(|server| server.connection().configured().clone()).collect()
    }

    fn seek_until_found(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let losses = lock(&self.watch.wanted).losses;
            let mut sought = self.sought();
            let mut wanted = lock(&self.watch.wanted);
            let done = sought.is_empty() && !self.config.discover && wanted.losses == losses;
            if wanted.is_over() || done {
                wanted.seeking = false;
                return;
            }
            let waiting = |wanted: &mut Wanted| !wanted.is_over() && wanted.losses == losses;
            let (wanted, _) =
                self.watch.changed.wait_timeout_while(wanted, pause, waiting).unwrap_or_else(PoisonError::into_inner);
            pause = if wanted.losses == losses { (pause * 2).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
            drop(wanted);
            if self.config.discover {
                sought.extend(self.look_around());
            }
            for address in sought {
                if let Ok((server, true)) = self.find_or_open(&address) {
                    self.changed(&server, Change::Found);
                }
            }
        }
    }
}
