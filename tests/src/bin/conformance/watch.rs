//! One run of one program, watched: it is cut into sub-tests while it prints, and ended when one takes too long.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::output::{self, Output, SubTest, Verdict};

/// The program to run.
pub struct Run<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: Vec<String>,
    /// Names of the sub-tests that it will run.
    pub names: &'a [String],
    /// Where it runs, and where it leaves its results.
    pub folder: &'a Path,
    /// Its variables.
    pub env: Vec<(String, OsString)>,
    /// How long a sub-test may take.
    pub limit: Duration,
    /// When the program has to have ended.
    pub program_end: Instant,
    /// When the whole run of all programs has to have ended.
    pub run_end: Instant,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself and with results.
    Finished,
    /// By a signal, before it had results, or of a worker that did.
    Crashed,
    /// A sub-test took too long.
    Hung,
    /// The program took too long.
    TooLong,
    /// The whole run's time is over: nothing is said of what was open.
    Interrupted,
}

/// The most of a program's output that is kept, in bytes.
const LOG: usize = 8 << 20;

/// How long a program may take to end after it has closed its output.
const END: Duration = Duration::from_secs(10);

/// Variables that give a program a home of its own in `folder`, so that no cache of an earlier run makes it faster.
pub fn home(folder: &Path) -> Vec<(String, OsString)> {
    let pair = |name: &str, path: PathBuf| (name.to_owned(), path.into_os_string());
    vec![
        pair("HOME", folder.to_owned()),
        pair("XDG_CACHE_HOME", folder.join("cache")),
        pair("XDG_CONFIG_HOME", folder.join("config")),
        pair("XDG_DATA_HOME", folder.join("data")),
        pair("POCL_CACHE_DIR", folder.join("pocl")),
        pair("CUDA_CACHE_PATH", folder.join("cuda")),
    ]
}

/// The sub-tests that a program lists.
pub fn list(program: &Path, args: &[String], folder: &Path) -> Vec<String> {
    let mut command = Command::new(program);
    command.args(args).arg("--list").current_dir(folder).stdin(Stdio::null()).stderr(Stdio::null());
    let text = command.output().map(|output| output.stdout).unwrap_or_default();
    output::listed(&String::from_utf8_lossy(&text))
}

/// Ends what a program has started, and with `all` the program too.
fn kill(child: &mut Child, all: bool) {
    if !all {
        // It has closed its output: give it the time to end as it wants to.
        let begin = Instant::now();
        while begin.elapsed() < END && !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            thread::sleep(Duration::from_millis(1));
        }
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
}

impl Run<'_> {
    /// Runs it. Each sub-test goes to `each` as soon as it has ended, and all that is printed to `log`.
    pub fn go(self, log: &mut File, mut each: impl FnMut(SubTest)) -> Result<End, String> {
        let complaint = |error| format!("cannot run {}: {error}", self.program.display());
        let json = self.folder.join("results.json");
        let _ = fs::remove_file(&json);
        let (reader, writer) = std::io::pipe().map_err(complaint)?;
        let mut command = Command::new(self.program);
        command.args(&self.args).current_dir(self.folder).process_group(0);
        command.env("CL_CONFORMANCE_RESULTS_FILENAME", &json).envs(self.env.iter().cloned());
        command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(complaint)?).stderr(writer);
        let begin = Instant::now();
        let mut child = command.spawn().map_err(complaint)?;
        // The command holds the other ends of the pipe, which must be closed for its end to be seen.
        drop(command);
        let (sender, lines) = sync_channel(1024);
        let reading = thread::spawn(move || forward(reader, &sender));
        let mut output = Output::new(self.names);
        let cut = self.follow(&lines, begin, &mut output, log, &mut each);
        kill(&mut child, cut.is_some());
        let status = child.wait().map_err(complaint)?;
        drop(lines);
        let _ = reading.join();
        let _ = writeln!(log, "[{status} after {:.3} s]", begin.elapsed().as_secs_f64());
        let end = cut.unwrap_or_else(|| how(status, json.exists()));
        let now = begin.elapsed();
        let last = match end {
            End::Interrupted => None,
            End::Hung => output.close(Some(Verdict::Hung), now),
            End::TooLong => output.close(Some(Verdict::NotRun), now),
            End::Crashed if json.exists() => output.close(None, now),
            End::Crashed => output.close(Some(Verdict::Crash), now),
            End::Finished => output.close(None, now),
        };
        if let Some(ended) = last {
            each(ended);
        }
        // The program's own list of results is right, where it came to write it.
        for (name, verdict) in output::results(&fs::read_to_string(&json).unwrap_or_default()) {
            if output.verdict(&name) != Some(verdict) {
                each(SubTest { name, verdict, seconds: 0.0, note: String::new() });
            }
        }
        Ok(end)
    }

    /// Reads until the program closes its output, or until it has to be ended.
    fn follow(
        &self,
        lines: &Receiver<Vec<u8>>,
        begin: Instant,
        output: &mut Output,
        log: &mut File,
        each: &mut impl FnMut(SubTest),
    ) -> Option<End> {
        let mut logged = 0;
        loop {
            let since = begin + output.open_since().unwrap_or_default();
            let limits =
                [(since + self.limit, End::Hung), (self.program_end, End::TooLong), (self.run_end, End::Interrupted)];
            let (until, end) = limits.into_iter().min_by_key(|(until, _)| *until)?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(end);
            }
            match lines.recv_timeout(left) {
                Ok(line) => {
                    if logged < LOG {
                        logged += line.len();
                        // A log that cannot be written costs nothing but the log.
                        let _ = log.write_all(&line);
                    }
                    let line = String::from_utf8_lossy(&line);
                    if let Some(ended) = output.line(&line, begin.elapsed()) {
                        each(ended);
                    }
                    if output::is_lost(&line) {
                        return Some(End::Crashed);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Some(end),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

/// Sends lines on until there are no more, or until nobody wants them.
fn forward(reader: PipeReader, lines: &SyncSender<Vec<u8>>) {
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        // A program that never ends its line must not fill the memory.
        match reader.by_ref().take(1 << 16).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 => {}
            _ => return,
        }
        if lines.send(line).is_err() {
            return;
        }
    }
}

/// How a program ended that nobody ended.
fn how(status: ExitStatus, has_results: bool) -> End {
    if status.signal().is_some() || !has_results { End::Crashed } else { End::Finished }
}
