//! The server under test.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::process::Side;

/// A server's time to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a server needs, once it listens, to have its workers warm.
const WARM_UP: Duration = Duration::from_secs(2);

/// A `ropeway serve` of our own, ended when dropped.
pub struct Server {
    process: Child,
    /// Its port on the loopback address.
    pub port: u16,
}

impl Server {
    /// Starts `ropeway serve` on a free port of the loopback address and waits until its workers are warm.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub fn start(ropeway: &Path, side: &Side) -> Result<Self, String> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = free.map_err(|e| format!("there is no free port: {e}"))?.port();
        let mut command = side.command(ropeway);
        command.args(["serve", "--listen", &format!("tcp://127.0.0.1:{port}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if std::env::var_os("ROPEWAY_BENCH_LOG").is_none() {
            command.stderr(Stdio::null());
        }
        let process = command.spawn().map_err(|e| format!("{} cannot be started: {e}", ropeway.display()))?;
        let mut server = Self { process, port };
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Ok(Some(status)) = server.process.try_wait() {
                return Err(format!("the server ended ({status}); ROPEWAY_BENCH_LOG=1 shows what it says"));
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the server does not listen on port {port} after {} s", PATIENCE.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(WARM_UP);
        Ok(server)
    }

    /// Its address as clients write it.
    pub fn url(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // It may have ended already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let asked = Instant::now();
        while let Ok(None) = self.process.try_wait() {
            if asked.elapsed() > Duration::from_secs(5) {
                let _ = self.process.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
