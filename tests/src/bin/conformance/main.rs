//! Runs the conformance programs of OpenCL natively and through Ropeway, and prints what differs.
//!
//! The programs are built elsewhere; this needs only their folder, `ropeway` and `libropeway.so`.
#![forbid(unsafe_code)]

mod catalogue;
mod drive;
mod output;
mod results;
mod server;
mod table;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::drive::Setting;
use crate::output::Verdict;
use crate::results::{Mode, Results};

/// The arguments of programs that take too long without.
const ARGUMENTS: &str = include_str!("../../../conformance.txt");

/// Run the conformance programs of OpenCL natively and through Ropeway, and print what differs.
///
/// Each program runs on this machine's own OpenCL (the one that OCL_ICD_VENDORS names), then through a `ropeway serve`
/// of its own on loopback. A program that crashes or hangs goes on with its next sub-test. The folder --out gets
/// results.tsv (each sub-test as soon as it has ended), table.md, and what the programs and servers print in logs/.
///
/// Ends with 1 if a sub-test passes or skips natively and does not through Ropeway.
#[derive(Parser)]
#[command(name = "conformance", args_override_self = true)]
struct Options {
    /// Folder with built test programs (test_*), at any depth.
    #[arg(long, value_name = "DIR")]
    cts: PathBuf,
    /// The program ropeway [default: beside this one].
    #[arg(long, value_name = "FILE")]
    ropeway: Option<PathBuf>,
    /// The client library [default: libropeway.so beside this program].
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Where results are kept.
    #[arg(long, value_name = "DIR", default_value = "target/conformance")]
    out: PathBuf,
    /// Which programs: their names, or paths or folders in --cts, with commas between them [default: all].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Programs to leave out, named in the same way.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    without: Vec<String>,
    /// Arguments of programs that would take too long without: lines of a name and arguments [default: built in].
    #[arg(long, value_name = "FILE")]
    arguments: Option<PathBuf>,
    /// Programs that run at the same time. More than one makes times doubtful.
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Sub-tests that run one after the other: programs with more are run in several pieces, as many at a time as
    /// --jobs says.
    #[arg(long, value_name = "N", default_value_t = usize::MAX)]
    split: usize,
    /// Seconds that a sub-test may take; one that takes longer is hung.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    limit: u64,
    /// Seconds that a program may take in each mode; what it has not come to by then is not run.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    program_limit: u64,
    /// Seconds that this whole run may take; --go-on goes on from there.
    #[arg(long, value_name = "SECONDS", default_value_t = 7 * 86400)]
    within: u64,
    /// Pass -w to every program: much smaller tests.
    #[arg(long)]
    wimpy: bool,
    /// Keep all results of earlier runs and run only what has none, or had no time.
    #[arg(long)]
    go_on: bool,
    /// Keep native results of earlier runs.
    #[arg(long)]
    reuse: bool,
    /// Do not try differing sub-tests a second time.
    #[arg(long)]
    once: bool,
    /// Run nothing; print the table of what is known.
    #[arg(long)]
    table: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }
    }
}

/// An existing file or folder, by its full path.
fn existing(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
}

fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().unwrap_or(Path::new(".")).join(name)
}

/// Runs what is asked for. Returns whether nothing differs.
fn run(options: &Options) -> Result<bool, String> {
    let arguments = match &options.arguments {
        Some(file) => fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?,
        None => ARGUMENTS.to_owned(),
    };
    let mut rows = catalogue::rows(&existing(&options.cts)?, &arguments, &options.only, &options.without)?;
    if rows.is_empty() {
        return Err(format!("no such test program in {}", options.cts.display()));
    }
    if options.wimpy {
        for row in rows.iter_mut().filter(|row| !row.args.iter().any(|arg| arg == "-w")) {
            row.args.push("-w".to_owned());
            row.key.push_str(" -w");
        }
    }
    for folder in ["logs", "work"] {
        let folder = options.out.join(folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let out = existing(&options.out)?;
    let results = Results::open(&out.join("results.tsv"), |line| {
        let asked = rows.iter().any(|row| row.key == line.key);
        let known = line.sub_test.verdict != Verdict::NotRun;
        !asked || (options.go_on && known) || options.table || (options.reuse && line.mode == Mode::Native)
    })?;
    let now = Instant::now();
    let setting = Setting {
        ropeway: existing(&options.ropeway.clone().unwrap_or_else(|| beside("ropeway")))?,
        library: existing(&options.library.clone().unwrap_or_else(|| beside("libropeway.so")))?,
        out: out.clone(),
        limit: Duration::from_secs(options.limit),
        program_limit: Duration::from_secs(options.program_limit),
        end: now + Duration::from_secs(options.within),
        results: Mutex::new(results),
    };
    if !options.table {
        // Programs that crash are expected, and their memory is of no use to anybody.
        let core = getrlimit(Resource::Core);
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), ..core });
        work(&setting, &rows, options);
    }
    let results = setting.results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (table, differences) = table::markdown(&results, &rows);
    fs::write(out.join("table.md"), &table).map_err(|error| format!("{}: {error}", out.display()))?;
    println!("{table}");
    Ok(differences == 0)
}

/// Runs all rows, as many of their pieces at a time as is asked for.
fn work(setting: &Setting, rows: &[catalogue::Row], options: &Options) {
    let found = Mutex::new(Vec::new());
    each(rows, options.jobs, |row| match setting.pieces(row, options.split) {
        Ok(pieces) => lock(&found).extend(pieces),
        Err(error) => eprintln!("{}: {error}", row.key),
    });
    let pieces = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    each(&pieces, options.jobs, |piece| {
        if setting.end <= Instant::now() {
            return;
        }
        let begin = Instant::now();
        let said = setting.piece(piece, !options.once);
        eprintln!("{} ({:.0} s)", table::short(&lock(&setting.results), piece.row), begin.elapsed().as_secs_f64());
        if let Err(error) = said {
            eprintln!("  {error}");
        }
    });
}

/// Does something with each of `list`, with `jobs` of them at a time.
fn each<'a, T: Sync>(list: &'a [T], jobs: usize, work: impl Fn(&'a T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(list.len()).max(1) {
            scope.spawn(|| {
                while let Some(one) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(one);
                }
            });
        }
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
