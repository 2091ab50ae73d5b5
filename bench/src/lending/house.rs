//! A real broker, and servers that only say that they have devices.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ropeway_lease::connection::Connection;
use ropeway_lease::messages::{Ask, DeviceLine, Registration, Tell};
use ropeway_lease::property::from_text;
use ropeway_transport::Endpoint;
use ropeway_transport::tls::Identity;

use crate::setup::Bench;

/// How long a broker has for an answer.
pub(super) const ANSWER: Duration = Duration::from_secs(20);

/// A broker with a state folder on the disk; ended when dropped.
pub(super) struct House {
    process: Child,
    ropeway: PathBuf,
    state: PathBuf,
    address: String,
    is_over: Arc<AtomicBool>,
    servers: Vec<JoinHandle<()>>,
}

impl House {
    /// Starts one.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn start(bench: &Bench, name: &str) -> Result<Self, String> {
        let state = bench.folder.path().join(name);
        let mut command = Command::new(&bench.ropeway);
        command.args(["broker", "--listen", "tls://127.0.0.1:0", "--state"]).arg(&state);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(|error| format!("no broker: {error}"))?;
        let mut line = String::new();
        let said = process.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        let address = line.trim().strip_prefix("listening on tls://").map(str::to_owned);
        let (is_over, servers) = (Arc::default(), Vec::new());
        let (ropeway, has_address) = (bench.ropeway.clone(), address.is_some());
        let house = Self { process, ropeway, state, address: address.unwrap_or_default(), is_over, servers };
        if has_address { Ok(house) } else { Err(format!("the broker says no address: {said:?}")) }
    }

    /// A new ticket's line.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn ticket(&self, name: &str, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.ropeway);
        command.args(["ticket", "new", name, "--host", &self.address, "--state"]).arg(&self.state).args(args);
        let made = command.output().map_err(|error| format!("no ticket: {error}"))?;
        if !made.status.success() {
            return Err(format!("no ticket: {}", String::from_utf8_lossy(&made.stderr)));
        }
        Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
    }

    /// A connection of the user of this ticket. The broker reads its clients when their file has changed, a moment later.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn connect(&self, ticket: &str) -> Result<Connection, String> {
        let endpoint: Endpoint = ticket.parse().map_err(|error| format!("{error}"))?;
        let begun = Instant::now();
        loop {
            match Connection::open(std::slice::from_ref(&endpoint), "bench", ANSWER) {
                Err(_) if begun.elapsed() < ANSWER => std::thread::sleep(Duration::from_millis(5)),
                opened => return opened.map_err(|error| error.to_string()),
            }
        }
    }

    /// Adds servers that say that they have so many devices each, and are clear of each lease as soon as it is over.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn add_servers(&mut self, servers: usize, devices: usize) -> Result<(), String> {
        let ticket = self.ticket("servers", &["--registers"])?;
        let device = r#"{"type":["gpu"],"name":"Bench","global_mem_size":85899345920}"#;
        let device = from_text(device).unwrap_or_default();
        for number in 0..servers {
            let mut connection = self.connect(&ticket)?;
            let identity = Identity::generate().map_err(|error| error.to_string())?;
            let about = Registration {
                name: format!("server{number}"),
                key: identity.public().text(),
                address: format!("tls://127.0.0.1:{}", 1 + number),
                devices: vec![device.clone(); devices],
                leases: Vec::new(),
            };
            connection.ask(&Ask::Register(about), ANSWER).map_err(|error| error.to_string())?;
            let is_over = self.is_over.clone();
            self.servers.push(std::thread::spawn(move || serve(connection, &is_over)));
        }
        Ok(())
    }
}

/// Says of each lease that is over that nothing of it is left.
fn serve(mut connection: Connection, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        match connection.next_by(Instant::now() + Duration::from_millis(100)) {
            Ok(Some(Tell::End { lease, .. })) if connection.say(&Ask::Cleared { lease }).is_err() => return,
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// The list of devices.
///
/// # Errors
/// Why there is none.
pub(super) fn devices(connection: &mut Connection) -> Result<Vec<DeviceLine>, String> {
    match connection.ask(&Ask::Devices, ANSWER).map_err(|error| error.to_string())? {
        Tell::Devices { devices, .. } => Ok(devices),
        other => Err(format!("the broker says {other:?} of its devices")),
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.process.kill();
        let _ = self.process.wait();
        for server in self.servers.drain(..) {
            let _ = server.join();
        }
    }
}
