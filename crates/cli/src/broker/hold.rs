//! Running a program with a lease, which is held as long as the program runs.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_client::servers::Notice;
use ropeway_lease::connection::{BrokerError, Connection};
use ropeway_lease::host_file;
use ropeway_lease::messages::{Ask, Lease, Tell};
use ropeway_transport::Endpoint;
use ropeway_transport::tls::Identity;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::ask::{ANSWER, brokers, obtain, wanted};
use crate::args::{AskArgs, WantArgs};
use crate::failure::Failure;
use crate::private_folder;

/// The environment variable that names the host file.
const HOST_FILE: &str = "ROPEWAY_HOSTFILE";

/// How long to wait before the next attempt to reach a broker that is lost.
const PAUSE: Duration = Duration::from_millis(200);

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(2);

/// What whoever holds the lease is told.
pub(super) struct Over;

/// Gets a lease, runs `command` with it, and gives it back; returns the program's exit code.
///
/// # Errors
/// There is no lease to be had, or the program cannot be run.
pub fn run_with_lease(mut command: Command, args: (&AskArgs, &WantArgs)) -> Result<ExitCode, Failure> {
    let identity = Identity::generate()?;
    let ask = wanted(args.1, None, &identity)?;
    let brokers = brokers(args.0)?;
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (connection, lease) = obtain(&brokers, &program, ask)?;
    let holder = Holder::new(brokers, &program, lease, identity)?;
    // Signals that the program is to have must not end this process before the lease is given back.
    let signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])?;
    let child = command.env(HOST_FILE, holder.file()).env_remove("ROPEWAY_SERVERS").spawn();
    let child = child.map_err(|error| Failure::new(format!("cannot run {program}: {error}")))?;
    pass_on(signals, &child);
    let (over, told) = mpsc::channel();
    let held = thread::Builder::new().name("lease".to_owned()).spawn(move || holder.hold(connection, &told))?;
    let status = wait(child, &over)?;
    // A panic there is reported by itself.
    let _ = held.join();
    Ok(exit_code(status))
}

/// Waits for the program's end, and says then that it is over.
fn wait(mut child: Child, over: &Sender<Over>) -> std::io::Result<ExitStatus> {
    let status = child.wait();
    // The thread may have ended already.
    let _ = over.send(Over);
    status
}

/// The exit code by which shells know how a program has ended.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(code as u8)
}

/// Passes signals on that are sent to this process alone. Those of the terminal's keys reach the program by themselves.
fn pass_on(mut signals: Signals, child: &Child) {
    let Some(child) = Pid::from_raw(child.id().cast_signed()) else { return };
    let pass = move || {
        for signal in signals.forever() {
            let signal = match signal {
                SIGTERM => Signal::TERM,
                SIGHUP => Signal::HUP,
                _ => continue,
            };
            // It may have ended.
            let _ = kill_process(child, signal);
        }
    };
    // Without the thread, the program does not hear of signals; it can be killed by its own number.
    let _ = thread::Builder::new().name("signals".to_owned()).spawn(pass);
}

/// Who holds a lease, and the host file with its servers, which goes with this.
pub(super) struct Holder {
    brokers: Vec<Endpoint>,
    program: String,
    lease: Lease,
    identity: Identity,
    /// The folder of the host file.
    folder: PathBuf,
}

impl Holder {
    /// Writes the host file of this lease, for the program with this name.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn new(
        brokers: Vec<Endpoint>,
        program: &str,
        lease: Lease,
        identity: Identity,
    ) -> Result<Self, Failure> {
        let folder = private_folder::make("ropeway-lease")?;
        let holder = Self { brokers, program: program.to_owned(), lease, identity, folder };
        holder.renew(&holder.lease.certificate)?;
        Ok(holder)
    }

    /// The host file.
    pub(super) fn file(&self) -> PathBuf {
        self.folder.join("servers")
    }

    /// Holds the lease until the program is over, and gives it back then.
    pub(super) fn hold(self, connection: Connection, told: &mpsc::Receiver<Over>) {
        let mut connection = Some(connection);
        loop {
            let wait = if connection.is_some() { Duration::ZERO } else { PAUSE };
            match told.recv_timeout(wait) {
                Ok(Over) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            connection = match connection.take() {
                Some(alive) => self.listen(alive),
                None => self.come_back(),
            };
        }
        if let Some(mut connection) = connection {
            // Where it cannot be said, the broker sees that the connection has ended.
            let _ = connection.ask(&Ask::Release { lease: self.lease.lease }, ANSWER);
        }
    }

    /// Hears what the broker says of the lease for a while; `None` once it is lost.
    fn listen(&self, mut connection: Connection) -> Option<Connection> {
        match connection.next_by(Instant::now() + Duration::from_millis(20)) {
            Ok(Some(tell)) => self.take(tell),
            Ok(None) => {}
            Err(error) => {
                say(format_args!(
                    "{error}; the program goes on, and the lease is taken up again when the broker is back"
                ));
                return None;
            }
        }
        Some(connection)
    }

    /// Connects again, and says whose lease it is.
    fn come_back(&self) -> Option<Connection> {
        let mut connection = Connection::open(&self.brokers, &self.program, ATTEMPT).ok()?;
        match connection.ask(&Ask::Attach { lease: self.lease.lease }, ANSWER) {
            Ok(tell) => self.take(tell),
            Err(BrokerError::Refused(why)) => say(format_args!("{why}")),
            Err(BrokerError::Unreachable(_)) => return None,
        }
        Some(connection)
    }

    /// Takes in what the broker says of the lease.
    fn take(&self, tell: Tell) {
        match tell {
            Tell::Renewed { certificate, .. } => {
                if let Err(why) = self.renew(&certificate) {
                    say(format_args!("the lease was renewed, and new connections cannot use that: {why}"));
                }
            }
            Tell::Notice { in_ms, why, .. } => {
                say(format_args!("the devices are taken back in {} s: {why}", in_ms.div_ceil(1000)));
                if let Err(error) = Notice::after(Duration::from_millis(in_ms)).write(&self.file()) {
                    say(format_args!("the program cannot be told of that by cl_ropeway_servers: {error}"));
                }
            }
            Tell::Ended { why, .. } => say(format_args!("the lease is over: {why}")),
            _ => {}
        }
    }

    /// Writes the host file with this proof.
    fn renew(&self, certificate: &str) -> Result<(), Failure> {
        Ok(host_file::write_for_now(
            &self.file(),
            &host_file::endpoints(&self.lease.servers, certificate, &self.identity)?,
        )?)
    }
}

/// Tells the person in front of the program, in one write: the program may say something at the same time.
fn say(what: std::fmt::Arguments<'_>) {
    // An error means that nobody is there.
    let _ = std::io::stderr().write_all(format!("ropeway: {what}\n").as_bytes());
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Whoever removes the folder meanwhile is welcome.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
