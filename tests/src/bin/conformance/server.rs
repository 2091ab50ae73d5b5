//! A server of its own for each program, so that one that dies or is slow concerns no other.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A running `ropeway serve`; killed when dropped.
pub struct Server {
    child: Child,
    url: String,
}

/// How long a server may take until it is ready.
const START: Duration = Duration::from_secs(60);

impl Server {
    /// Starts one on a free loopback port, with a home in `home` and what it prints in `log`.
    pub fn start(ropeway: &Path, home: &Path, log: &Path) -> Result<Self, String> {
        let complaint = |error| format!("cannot start {}: {error}", ropeway.display());
        let file = File::create(log).map_err(complaint)?;
        let mut command = Command::new(ropeway);
        command.args(["serve", "--listen", "tcp://127.0.0.1:0"]);
        for name in ["ROPEWAY_SERVERS", "ROPEWAY_HOSTFILE", "CACHE_DIRECTORY"] {
            command.env_remove(name);
        }
        command.envs(crate::watch::home(home)).stdin(Stdio::null());
        command.stdout(file.try_clone().map_err(complaint)?).stderr(file);
        let child = command.spawn().map_err(complaint)?;
        let mut server = Self { child, url: String::new() };
        let begin = Instant::now();
        loop {
            let text = fs::read_to_string(log).unwrap_or_default();
            let url = text.lines().find_map(|line| line.strip_prefix("listening on "));
            if let (Some(url), true) = (url, text.lines().any(|line| line == "ready")) {
                server.url = url.to_owned();
                return Ok(server);
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(format!("the server ended with {status}:\n{text}"));
            }
            if begin.elapsed() > START {
                return Err(format!("the server is not ready after {START:?}:\n{text}"));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Where clients find it.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
