//! Log lines on standard error.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

/// Logs from now on, as much as `ROPEWAY_LOG` says (off, error, warn, info, debug; else `info`).
///
/// A worker captures what drivers print on standard output and error, for its client. The log keeps a descriptor of its
/// own, so that its lines stay at the server.
pub fn start() -> io::Result<()> {
    let filter = EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::INFO.into())
        .with_env_var("ROPEWAY_LOG")
        .from_env_lossy();
    let output = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let terminal = io::IsTerminal::is_terminal(&output);
    // systemd's journal has its own clock.
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_ansi(terminal);
    // Who read the log may be gone before this process: that must not end it with a panic.
    let log = log.log_internal_errors(false);
    if journal {
        log.without_time().with_writer(Mutex::new(output)).init();
    } else {
        log.with_writer(Mutex::new(output)).init();
    }
    Ok(())
}
