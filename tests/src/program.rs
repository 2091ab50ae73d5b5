//! Running programs, natively or through Ropeway.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::natives::Native;
use crate::net::Host;
use crate::{notes, places, process, wait_for};

/// How long a program that is killed may take to end.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// How often a program may crash natively before that is taken for the test's failure.
const NATIVE_ATTEMPTS: u32 = 3;

/// A program to be run with a home of its own.
pub struct Program {
    command: Command,
    limit: Duration,
    home: TempDir,
    /// It runs without Ropeway, and a crash is not ours.
    is_native: bool,
    /// It runs without Ropeway, and may hang: it is killed then, which is its outcome.
    may_hang: bool,
}

/// The outcome of a program.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
    /// It was killed, because it did not end.
    has_hung: bool,
    /// Its home.
    home: TempDir,
}

impl Outcome {
    /// How it has failed all by itself, if it has: the signal of its own doing that it died of, or that it hung.
    fn crash(&self) -> Option<String> {
        let own = [Signal::SEGV, Signal::ABORT, Signal::BUS, Signal::ILL, Signal::FPE];
        let signal = self.status.signal().filter(|signal| own.iter().any(|own| own.as_raw() == *signal));
        let hung = self.has_hung.then(|| format!("no end after {:?}", self.elapsed));
        signal.map(|signal| format!("signal {signal}")).or(hung)
    }

    /// The outcome, if the program says that it succeeded.
    ///
    /// # Panics
    /// With all that it printed, if not.
    pub fn success(self) -> Self {
        assert!(self.status.success(), "{}\n{}\n{}", self.status, self.stdout, self.stderr);
        self
    }

    /// How many devices `clinfo -l` listed.
    pub fn listed(&self) -> usize {
        self.stdout.lines().filter(|line| line.contains("Device #")).count()
    }

    /// The text of a file that it left in its home.
    ///
    /// # Panics
    /// With all that it printed, if there is none.
    pub fn file(&self, name: &str) -> String {
        let path = self.home.path().join(name);
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}\n{}\n{}", self.stdout, self.stderr))
    }
}

impl Program {
    /// `program` with only this machine's PoCL.
    pub fn native(program: impl AsRef<OsStr>) -> Self {
        Self::on_native(&Native::pocl(), program)
    }

    /// `program` with only this native implementation.
    pub fn on_native(native: &Native, program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(&program);
        let is_native = Path::new(&program).file_name().is_none_or(|name| name != "ropeway");
        let home = tempfile::Builder::new().prefix("ropeway-").tempdir().expect("a temporary folder can be made");
        let names = std::env::vars_os().map(|(name, _)| name);
        for name in names.filter(|name| name.to_string_lossy().starts_with("ROPEWAY_")) {
            command.env_remove(name);
        }
        command
            .envs(native.env())
            .env("HOME", home.path())
            .env("XDG_CACHE_HOME", home.path().join("cache"))
            .env("XDG_CONFIG_HOME", home.path().join("config"))
            .env("XDG_DATA_HOME", home.path().join("data"))
            .env("POCL_CACHE_DIR", places::pocl_cache());
        for folder in ["cache", "config", "data"] {
            fs::create_dir(home.path().join(folder)).expect("a folder can be made");
        }
        Self { command, limit: Duration::from_secs(120), home, is_native, may_hang: is_native }
    }

    /// `program` with the home of whoever runs the tests, for tools that live there.
    pub fn here(program: impl AsRef<OsStr>) -> Self {
        let mut this = Self::native(program);
        for name in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            match std::env::var_os(name) {
                Some(value) => this.command.env(name, value),
                None => this.command.env_remove(name),
            };
        }
        this
    }

    /// `program` with only the devices of these servers (URLs with commas between them).
    pub fn remote(program: impl AsRef<OsStr>, servers: &str) -> Self {
        // A busy machine may keep a server from answering for longer than a program usually waits.
        let this = Self::beside_local(program, servers).env("ROPEWAY_CONNECT_TIMEOUT", "20");
        fs::remove_file(this.vendors().join("pocl.icd")).expect("it was just made");
        this
    }

    /// `program` with the devices of these servers beside this machine's own.
    pub fn beside_local(program: impl AsRef<OsStr>, servers: &str) -> Self {
        let mut this = Self::native(program);
        let vendors = this.vendors();
        fs::create_dir(&vendors).expect("a folder can be made");
        fs::write(vendors.join("ropeway.icd"), format!("{}\n", places::library().display()))
            .expect("a file can be made");
        fs::copy(Native::pocl().vendors().join("native.icd"), vendors.join("pocl.icd")).expect("a file can be copied");
        this.command.env("OCL_ICD_VENDORS", vendors).env("ROPEWAY_SERVERS", servers);
        (this.is_native, this.may_hang) = (false, false);
        this
    }

    fn vendors(&self) -> std::path::PathBuf {
        self.home.path().join("vendors")
    }

    /// The folder that is its home.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        // A program with servers runs through Ropeway.
        self.is_native &= name != "ROPEWAY_SERVERS";
        self.may_hang &= name != "ROPEWAY_SERVERS";
        self.command.env(name, value);
        self
    }

    /// Takes a variable away.
    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Runs it on a machine of a test's network.
    pub fn on(mut self, host: &Host) -> Self {
        let mut command = host.command(self.command.get_program());
        copy_settings(&self.command, &mut command);
        self.command = command;
        self
    }

    /// Runs it in this folder.
    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Runs it in its home.
    pub fn within_home(mut self) -> Self {
        self.command.current_dir(self.home.path());
        self
    }

    /// How long it may take.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// That it crashes or hangs natively is what is looked at, and no accident.
    pub fn may_crash(mut self) -> Self {
        self.is_native = false;
        self
    }

    /// Runs it to its end. A crash without Ropeway, or that it hangs, is the native implementation's doing: it is noted
    /// for the summary, and the program is run again.
    ///
    /// # Panics
    /// When it takes longer than it may, or crashes natively each time.
    pub fn run(mut self) -> Outcome {
        let attempts = if self.is_native { NATIVE_ATTEMPTS } else { 1 };
        for _ in 1..attempts {
            let mut again = Command::new(self.command.get_program());
            copy_settings(&self.command, &mut again);
            let limit = self.limit;
            let outcome = self.start().finish();
            let Some(crash) = outcome.crash() else { return outcome };
            let program = again.get_program().to_string_lossy().into_owned();
            notes::native_crash(&format!("{program} {:?}: {crash}", again.get_args().collect::<Vec<_>>()));
            self = Self { command: again, limit, home: outcome.home, is_native: true, may_hang: true };
        }
        let is_native = self.is_native;
        let outcome = self.start().finish();
        assert!(!is_native || outcome.crash().is_none(), "it crashes natively, {attempts} times: {outcome:?}");
        outcome
    }

    /// Starts it, to talk with it while it runs.
    pub fn start(mut self) -> Running {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let begin = Instant::now();
        let mut child =
            self.command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", self.command.get_program()));
        let stdout = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut stderr = child.stderr.take().expect("it was asked for");
        let stderr = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let (over, is_over) = mpsc::channel();
        let (pid, limit) = (child.id(), self.limit);
        // Whoever reads what it prints must not wait for ever.
        thread::spawn(move || {
            if is_over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("a program runs for longer than {limit:?}, and is killed");
                process::kill(pid);
            }
        });
        let (stdout, stderr, home, over) = (Some(stdout), Some(stderr), Some(self.home), Some(over));
        Running { child, stdout, stderr, begin, limit, home, over, may_hang: self.may_hang }
    }
}

/// A program that runs; killed when dropped.
pub struct Running {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<JoinHandle<String>>,
    begin: Instant,
    limit: Duration,
    home: Option<TempDir>,
    /// Whoever watches that it ends in time knows by this that it has.
    over: Option<Sender<()>>,
    may_hang: bool,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it prints; empty at its end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().expect("it has not been finished");
        stdout.read_line(&mut line).expect("it prints text");
        line.trim_end().to_owned()
    }

    /// Writes a line to its standard input.
    pub fn say(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("it was asked for");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("it listens");
    }

    /// Kills it.
    pub fn kill(mut self) {
        process::kill(self.pid());
        let _ = self.child.wait();
    }

    /// Closes its standard input and waits for its end.
    ///
    /// # Panics
    /// When it takes longer than it may.
    pub fn finish(mut self) -> Outcome {
        drop(self.child.stdin.take());
        let mut stdout = self.stdout.take().expect("it is finished once");
        let stdout = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stdout.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let left = self.limit.saturating_sub(self.begin.elapsed());
        // Whoever watches kills it when its time is over.
        let patience = left + if self.may_hang { KILLED_WITHIN } else { Duration::ZERO };
        let status = wait_for("end of the program", patience, || self.child.try_wait().expect("it is our child"));
        self.over = None;
        let elapsed = self.begin.elapsed();
        let has_hung = status.signal() == Some(Signal::KILL.as_raw()) && elapsed >= self.limit;
        let stderr = self.stderr.take().expect("it is finished once");
        let home = self.home.take().expect("it is finished once");
        Outcome { status, stdout: joined(stdout), stderr: joined(stderr), elapsed, has_hung, home }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            process::kill(self.pid());
            let _ = self.child.wait();
        }
    }
}

/// Gives a command the arguments, variables and folder of another one.
pub(crate) fn copy_settings(from: &Command, to: &mut Command) {
    to.args(from.get_args());
    copy_variables(from, to);
}

/// Gives a command the variables and the folder of another one.
pub(crate) fn copy_variables(from: &Command, to: &mut Command) {
    for (name, value) in from.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
    if let Some(folder) = from.get_current_dir() {
        to.current_dir(folder);
    }
}

fn joined(text: JoinHandle<String>) -> String {
    text.join().expect("reading text does not panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_without_ropeway_is_killed_and_said_to_have() {
        let outcome = Program::native("sleep").args(["100"]).limit(Duration::from_millis(300)).may_crash().run();
        assert!(outcome.has_hung && outcome.crash().is_some_and(|crash| crash.starts_with("no end after")));
    }
}
