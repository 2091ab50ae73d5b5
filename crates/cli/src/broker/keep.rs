//! `ropeway hold`: a lease for a program whose library has started this, as long as the program runs.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use nix::sys::signal::SigSet;
use ropeway_transport::tls::Identity;

use super::ask::{brokers, obtain, wanted};
use super::hold::{Holder, Over};
use crate::args::HoldArgs;
use crate::failure::Failure;

/// Starts the holder as a child of this process, which then ends: it must not be a child of the program, which may wait
/// for its children. Or is the holder.
pub fn hold(args: &HoldArgs) -> Result<(), Failure> {
    if args.keep {
        return keep(args);
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ropeway").args(std::env::args_os().skip(1)).arg("--keep");
    // Signals that the terminal sends to the program are not meant for the holder.
    command.process_group(0);
    // The client library's threads block all signals, and this process may have been started by one of them.
    let _ = SigSet::empty().thread_set_mask();
    Ok(command.spawn().map(drop)?)
}

/// Gets the lease, says in which host file its servers are, and holds it until standard input ends.
fn keep(args: &HoldArgs) -> Result<(), Failure> {
    let identity = Identity::generate()?;
    let ask = wanted(&args.want, None, &identity)?;
    let brokers = brokers(&args.broker)?;
    let (over, told) = mpsc::channel();
    let is_leased = Arc::new(AtomicBool::new(false));
    let was_leased = is_leased.clone();
    thread::Builder::new().name("input".to_owned()).spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        if !was_leased.load(Ordering::Acquire) {
            // A program that ends while its request waits wants nothing any more; the broker sees the connection's end.
            std::process::exit(1);
        }
        // The lease may be given back already.
        let _ = over.send(Over);
    })?;
    let (connection, lease) = obtain(&brokers, &args.program, ask)?;
    is_leased.store(true, Ordering::Release);
    let holder = Holder::new(brokers, &args.program, lease, identity)?;
    // Nobody may read it any more, which the end of standard input says, too.
    let _ = writeln!(io::stdout(), "leased {}", holder.file().display());
    holder.hold(connection, &told);
    Ok(())
}
