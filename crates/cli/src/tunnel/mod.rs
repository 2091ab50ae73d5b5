//! `ropeway tunnel`: the way to a server that ssh starts (`ssh://`), kept for the programs that come next.
//!
//! | where | what |
//! |---|---|
//! | `place` | the folder of a tunnel, which is also the lock that there is one only |
//! | `ssh` | the processes `ssh`, and what their failures mean |
//! | `keeper` | the loop: programs that use the tunnel, ssh, and when to end |

mod keeper;
mod place;
mod ssh;

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::SigSet;
use ropeway_client::ssh::PATIENCE;
use ropeway_transport::{Endpoint, SshHost};

use crate::args::TunnelArgs;
use crate::failure::Failure;
use crate::tunnel::keeper::Keeper;
use crate::tunnel::place::Place;

/// The variable that says for how many seconds a tunnel is kept that no program uses.
const KEEP_VARIABLE: &str = "ROPEWAY_SSH_KEEP";

/// For how long it is kept if that is not set.
const KEEP: Duration = Duration::from_secs(300);

/// The longest time that is accepted, in seconds: a day.
const MAX_KEEP: f64 = 86_400.0;

/// Starts a tunnel, and does not wait for its end; or, with `--keep`, is that tunnel. On standard output comes one
/// line: `listening`, `busy` where another process is this tunnel, or `failed: ` and a sentence.
pub fn tunnel(args: &TunnelArgs) -> Result<(), Failure> {
    let Endpoint::Ssh(host) = &args.host else {
        return Err(Failure::new(format!("{} is not reached by ssh", args.host)));
    };
    let timeout = Duration::from_millis(args.timeout);
    let done = if args.keep { keep(host, timeout) } else { start(host, timeout) };
    done.map_err(|why| {
        println!("failed: {why}");
        Failure::new(why)
    })
}

/// Starts the tunnel as a child of this process, which then ends: the tunnel must not be a child of the program, which
/// may wait for its children.
fn start(host: &SshHost, timeout: Duration) -> Result<(), String> {
    let cannot = |error: io::Error| format!("cannot start the tunnel: {error}");
    close_inherited().map_err(cannot)?;
    // The client library's threads block all signals, and this process may have been started by one of them.
    let _ = SigSet::empty().thread_set_mask();
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ropeway").args(["tunnel", "--keep", "--timeout"]).arg(timeout.as_millis().to_string());
    command.arg(host.to_string()).spawn().map(drop).map_err(cannot)
}

/// Closes what the program left open for its children: as long as the tunnel had it, whoever reads the other end of a
/// pipe would wait for its end.
fn close_inherited() -> io::Result<()> {
    let entries = std::fs::read_dir("/proc/self/fd")?.flatten();
    let open: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // The one that listed the others is closed already.
        let _ = nix::unistd::close(fd);
    }
    Ok(())
}

fn keep(host: &SshHost, timeout: Duration) -> Result<(), String> {
    let keep = keep_time()?;
    // A terminal that is closed, or sends signals to its programs, is not meant for the tunnel.
    rustix::process::setsid().map_err(|error| format!("cannot leave the terminal: {error}"))?;
    let place = Place::take(host).map_err(|error| format!("cannot use the folder of the tunnel: {error}"))?;
    let Some(place) = place else {
        println!("busy");
        return Ok(());
    };
    let keeper = Keeper::start(host, place, timeout, timeout.max(PATIENCE), keep);
    let keeper = keeper.map_err(|error| format!("cannot open the tunnel: {error}"))?;
    println!("listening");
    leave_output().map_err(|error| error.to_string())?;
    keeper.run().map_err(|error| error.to_string())
}

/// How long a tunnel is kept that no program uses.
fn keep_time() -> Result<Duration, String> {
    let Some(text) = std::env::var_os(KEEP_VARIABLE).filter(|text| !text.is_empty()) else { return Ok(KEEP) };
    let seconds = text.to_str().and_then(|text| text.trim().parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| (0.0..=MAX_KEEP).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{KEEP_VARIABLE} is not a number of seconds up to {MAX_KEEP}"))
}

/// Lets go of standard output and standard error, whose readers wait for their end.
fn leave_output() -> io::Result<()> {
    let nothing = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}
