//! A program of Ropeway's that runs until it is told to stop, and what it says.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::{process, wait_for};

/// A running one; killed when dropped.
pub struct Daemon {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Daemon {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let log = Arc::new(Mutex::new(String::new()));
        collect(child.stdout.take().expect("it was asked for"), Arc::clone(&log));
        collect(child.stderr.take().expect("it was asked for"), Arc::clone(&log));
        Self { child, log }
    }

    /// Waits until it has said something.
    pub fn until_it_says<T>(&mut self, what: impl Fn(&str) -> Option<T>) -> T {
        wait_for("what it says", Duration::from_secs(60), || {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("it ended with {status}:\n{}", self.log());
            }
            what(&self.log())
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Waits until its log holds `text`.
    pub fn expect_log(&self, text: &str) {
        let mut seen = String::new();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(&format!("log line with '{text}'"), Duration::from_secs(10), || {
                seen = self.log();
                seen.contains(text).then_some(())
            });
        }));
        assert!(found.is_ok(), "no '{text}' in:\n{seen}");
    }

    /// Kills it, as a crash of its machine would.
    pub fn kill(&mut self) {
        process::kill(self.pid());
        let _ = self.child.wait();
    }

    /// Asks it to stop and waits for its end.
    pub fn stop(&mut self) -> ExitStatus {
        process::terminate(self.pid());
        self.child.wait().expect("it is our child")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("--- log of process {} ---\n{}", self.pid(), self.log());
        }
    }
}

/// Reads lines into the log until the other end is closed.
fn collect(stream: impl Read + Send + 'static, log: Arc<Mutex<String>>) {
    thread::spawn(move || {
        let mut lines = BufReader::new(stream);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            log.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
}
