//! Starting the measured processes and talking with them.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ropeway_tests::net::Host;

use crate::orders::{ANSWER, FAILED, monotonic};

/// How long a process may stay silent before it is given up.
const PATIENCE: Duration = Duration::from_secs(180);

/// The environment variables that make OpenCL native, or remote, or absent, for a process.
#[derive(Clone, Debug)]
pub struct Side {
    /// Its name for a person.
    pub name: &'static str,
    /// The variables set for each process of this side.
    pub environment: Vec<(&'static str, OsString)>,
    /// The platform to use: part of its name.
    pub filter: String,
}

/// A folder for what one run needs, removed afterwards.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one.
    pub fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("ropeway-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| format!("{} cannot be made: {e}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A folder in it called `name` in which the OpenCL loader finds just `icds` (name and contents of .icd files).
    pub fn vendors(&self, name: &str, icds: &[(String, String)]) -> Result<OsString, String> {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).map_err(|e| format!("{} cannot be made: {e}", path.display()))?;
        for (file, contents) in icds {
            let file = path.join(file);
            std::fs::write(&file, contents).map_err(|e| format!("{} cannot be written: {e}", file.display()))?;
        }
        Ok(path.into())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // An error only leaves files in the temporary folder, which does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running child.
pub struct Probe {
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    side: &'static str,
}

impl Side {
    /// Makes processes of this side use the server at `url` from now on.
    pub fn use_server(&mut self, url: &str) {
        self.environment.retain(|(name, _)| *name != "ROPEWAY_SERVERS");
        self.environment.push(("ROPEWAY_SERVERS", url.into()));
    }

    /// The same side, whose programs and servers of this machine share no memory.
    pub fn through_sockets(&self) -> Self {
        let mut side = self.clone();
        for (_, value) in side.environment.iter_mut().filter(|(name, _)| *name == "ROPEWAY_SERVERS") {
            *value = [OsStr::new("shm:off,"), value].into_iter().collect();
        }
        side
    }

    /// A command with this side's environment.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Returns the same command, to run on a machine of a network.
    pub fn command_at(&self, host: &Host, program: &Path) -> Command {
        let mut command = host.command(program);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts this program again as a child of the kind `what`.
    pub fn spawn(&self, what: &str, extra: &str, statistics: bool) -> Result<Probe, String> {
        self.spawn_at(None, what, extra, statistics)
    }

    /// Starts the child as `spawn` does, on a machine of a network if one is given.
    pub fn spawn_at(&self, host: Option<&Host>, what: &str, extra: &str, statistics: bool) -> Result<Probe, String> {
        let itself = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
        let mut command = match host {
            Some(host) => self.command_at(host, &itself),
            None => self.command(&itself),
        };
        command.args(["child", what, &self.filter, extra]);
        if statistics {
            command.env("ROPEWAY_STATS", "1");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("{} cannot be started: {e}", itself.display()))?;
        let (send, answers) = channel();
        let out = child.stdout.take();
        std::thread::spawn(move || {
            for line in BufReader::new(out.into_iter().next()?).lines() {
                send.send(line.ok()?).ok()?;
            }
            Some(())
        });
        let err = child.stderr.take();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(mut err) = err {
                // An error only means that the remaining output cannot be shown.
                let _ = err.read_to_string(&mut text);
            }
            text
        });
        Ok(Probe { orders: child.stdin.take(), child, answers, errors: Some(errors), side: self.name })
    }

    /// Starts a child and waits until it is ready for orders.
    pub fn begin(&self) -> Result<Probe, String> {
        self.ready("work")
    }

    /// The same of the kind `what`.
    pub fn ready(&self, what: &str) -> Result<Probe, String> {
        let mut probe = self.spawn(what, "", false)?;
        probe.answer()?;
        Ok(probe)
    }

    /// Milliseconds from just before a process is made until it has its first queue.
    pub fn start_up(&self) -> Result<f64, String> {
        let mut probe = self.spawn("start", &monotonic().to_string(), false)?;
        let figure = probe.number()?;
        probe.end()?;
        Ok(figure)
    }

    /// Runs a child to its end and gives what it printed on standard error.
    pub fn run(&self, what: &str, extra: &str, statistics: bool) -> Result<String, String> {
        self.spawn(what, extra, statistics)?.end()
    }
}

impl Probe {
    /// The child's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives an order and waits for its figure.
    pub fn ask(&mut self, order: &str) -> Result<f64, String> {
        self.order(order);
        self.number()
    }

    /// Gives an order; its figure is the next answer.
    pub fn order(&mut self, order: &str) {
        if let Some(orders) = &mut self.orders {
            // A failed write is ignored: a child that has gone is noticed by its missing answer.
            let _ = writeln!(orders, "{order}");
        }
    }

    /// The next answer, a number.
    pub fn number(&mut self) -> Result<f64, String> {
        let text = self.answer()?;
        text.parse().map_err(|_| format!("{} answered '{text}', not a number", self.side))
    }

    /// The next answer.
    pub fn answer(&mut self) -> Result<String, String> {
        loop {
            match self.answers.recv_timeout(PATIENCE) {
                Ok(line) => {
                    if let Some(answer) = line.strip_prefix(ANSWER) {
                        return Ok(answer.to_owned());
                    }
                    if let Some(why) = line.strip_prefix(FAILED) {
                        return Err(format!("{}: {why}", self.side));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.kill();
                    return Err(format!("{}: no answer within {} s", self.side, PATIENCE.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.kill();
                    let said = self.said();
                    let last = said.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it ended");
                    return Err(format!("{}: {last}", self.side));
                }
            }
        }
    }

    /// Lets the child end; gives what it printed on standard error.
    pub fn end(&mut self) -> Result<String, String> {
        self.orders = None;
        let status = self.child.wait().map_err(|e| format!("{}: {e}", self.side))?;
        let said = self.said();
        if status.success() {
            Ok(said)
        } else {
            Err(format!("{}: {}", self.side, said.lines().last().unwrap_or("it failed without a word")))
        }
    }

    fn said(&mut self) -> String {
        self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default()
    }

    fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.orders = None;
        self.kill();
    }
}
