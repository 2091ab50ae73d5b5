//! Measures Ropeway beside native OpenCL and beside the raw network, in one run.
//!
//! Native OpenCL and Ropeway are each measured by a process of their own, this program again; they and a raw TCP
//! connection take turns, so that what else happens on the machine hits all of them. See `docs/benchmarks.md`.

mod bursts;
mod child;
mod copies;
mod devices;
mod encrypted;
mod floor;
mod handed;
mod lending;
mod median;
mod memory;
mod opencl;
mod orders;
mod plan;
mod pool;
mod process;
mod server;
mod servers;
mod setup;
mod spread;
mod ssh;
mod table;
mod timed;
mod wide;
mod work;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ropeway_transport::Endpoint;

use process::{Folder, Side};
use server::Server;
use setup::Bench;

/// Measure Ropeway beside native OpenCL and the raw network
///
/// Starts a server of its own on a free port of the loopback address. Prints a table; the exit status says whether
/// everything could be measured, not how fast it was.
#[derive(Parser, Debug)]
#[command(name = "ropeway-bench", version)]
struct Options {
    /// OpenCL platform to measure: part of its name, vendor or version [default: the first]
    #[arg(long, value_name = "TEXT", default_value = "")]
    platform: String,

    /// .icd file of the native OpenCL [default: all in /etc/OpenCL/vendors but Ropeway's]
    #[arg(long, value_name = "FILE")]
    icd: Option<PathBuf>,

    /// Ropeway's client library [default: libropeway.so beside this program]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// The program ropeway [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    ropeway: Option<PathBuf>,

    /// Use this server, which is running, instead of starting one
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// The far end of the raw link that figures are held against, which is running: `ropeway-bench child floor URL`
    /// [default: one of its own, over loopback, or over vsock within this machine for a server that is reached so]
    #[arg(long, value_name = "URL")]
    floor: Option<Endpoint>,

    /// Servers for the figures across devices; where there are fewer devices, several servers share one [default: a server
    /// for each device]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=64))]
    servers: Option<u8>,

    /// Fewer rounds: a first impression
    #[arg(long)]
    quick: bool,

    /// Only figures whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Children are recognised before anything else: how long a child takes to start is measured too.
    if let Some(("child", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return report(child::run(rest).map_err(|e| e.to_string()));
    }
    report(measure(&Options::parse()))
}

fn report(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("ropeway-bench: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<(), String> {
    let beside = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
    let beside = |given: &Option<PathBuf>, name: &str| {
        let path = given.clone().unwrap_or_else(|| beside.with_file_name(name));
        path.canonicalize().map_err(|e| format!("{} cannot be used: {e}; build with `make`", path.display()))
    };
    let library = beside(&options.library, "libropeway.so")?;
    let ropeway = beside(&options.ropeway, "ropeway")?;

    let folder = Folder::new()?;
    let native = Side {
        name: "native",
        environment: environment(&folder, "native", &native_icds(options.icd.as_deref())?)?,
        filter: options.platform.clone(),
    };
    let server = match options.server {
        Some(_) => None,
        None => Some(Server::start(&ropeway, &native)?),
    };
    let url = server.as_ref().map(Server::url).or_else(|| options.server.clone()).unwrap_or_default();
    let icd = ("ropeway.icd".to_owned(), format!("{}\n", library.display()));
    let mut remote = Side {
        name: "ropeway",
        environment: environment(&folder, "remote", &[icd])?,
        filter: options.platform.clone(),
    };
    remote.use_server(&url);
    // The native platform's name must occur in Ropeway's platform name, so that the same filter finds it.
    remote.environment.push(("ROPEWAY_PLATFORMS", "per-platform".into()));
    let without =
        Side { name: "without OpenCL", environment: environment(&folder, "without", &[])?, filter: String::new() };

    let (quick, only) = (options.quick, options.only.clone());
    let servers = options.servers.map(usize::from);
    let far = options.floor.clone();
    let mut bench = Bench { native, remote, without, ropeway, library, server, url, far, folder, servers, quick, only };
    let (device, rows) = bench.run(&|what| eprintln!("... {what}"))?;
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let about = [("release", env!("CARGO_PKG_VERSION").to_owned()), ("device", device), ("cpus", cpus.to_string())];
    if options.json {
        print!("{}", table::json(&about, &rows));
    } else {
        let [(_, release), (_, device), _] = &about;
        let link = options.server.as_deref().unwrap_or("loopback TCP");
        println!("Ropeway {release} on {device}; {cpus} CPUs; {link}; medians\n");
        print!("{}", table::markdown(&rows));
    }
    match rows.iter().filter(|row| row.failed()).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} figures could not be measured")),
    }
}

/// Returns the environment of a side whose OpenCL loader finds `icds`.
fn environment(
    folder: &Folder,
    name: &str,
    icds: &[(String, String)],
) -> Result<Vec<(&'static str, OsString)>, String> {
    Ok(vec![
        ("OCL_ICD_VENDORS", folder.vendors(name, icds)?),
        // The cache of compiled programs is separate from the user's, and is the same for both sides.
        ("XDG_CACHE_HOME", folder.path().join("cache").into()),
    ])
}

/// Name and contents of the native implementation's .icd files.
fn native_icds(given: Option<&Path>) -> Result<Vec<(String, String)>, String> {
    let vendors = Path::new("/etc/OpenCL/vendors");
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, text))
    };
    if let Some(path) = given {
        return Ok(vec![read(path)?]);
    }
    let entries = std::fs::read_dir(vendors)
        .map_err(|e| format!("{} cannot be read: {e}; name the native .icd with --icd", vendors.display()))?;
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "icd"));
    let icds: Result<Vec<_>, String> = paths.map(|path| read(&path)).collect();
    let icds: Vec<_> = icds?.into_iter().filter(|(_, text)| !text.contains("ropeway")).collect();
    if icds.is_empty() {
        return Err(format!("{} holds no native OpenCL; name its .icd with --icd", vendors.display()));
    }
    Ok(icds)
}
