//! Many programs at once, and what each program loads.

use crate::median::median;
use crate::orders::monotonic;
use crate::process::{Probe, Side};
use crate::server::Server;
use crate::setup::Bench;
use crate::table::{Reach, Row};

/// Clients of a burst: as many as a server serves at one time.
const CLIENTS: usize = 256;

const BURST: &str = "256 programs at once, the last one's first queue";
const LOADING: &str = "loader and first clGetPlatformIDs of a process";
const SIZE: &str = "size of the client library, with its symbols";

fn stated(figure: &str, unit: &'static str, native: Option<f64>, ropeway: Result<f64, String>) -> Row {
    Row { figure: figure.into(), unit, native, ropeway, floor: None, reach: Reach::Stated, rule: String::new() }
}

impl Bench {
    /// Measures the rows of this file.
    ///
    /// # Errors
    /// When native OpenCL cannot be measured.
    pub fn many_and_each(&mut self, say: &dyn Fn(&str)) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        if LOADING.contains(&self.only) {
            say(LOADING);
            let mut natively = Vec::new();
            let mut remotely = Ok(Vec::new());
            for _ in 0..self.rounds(15) {
                natively.push(self.native.loading()?);
                remotely = remotely.and_then(|mut times: Vec<f64>| {
                    times.push(self.remote.loading()?);
                    Ok(times)
                });
            }
            let remotely = remotely.map(|mut times| median(&mut times));
            rows.push(stated(LOADING, "ms", Some(median(&mut natively)), remotely));
        }
        if SIZE.contains(&self.only) {
            let size = std::fs::metadata(&self.library).map(|file| file.len() as f64 / 1e6).map_err(|e| e.to_string());
            rows.push(stated(SIZE, "MB", None, size));
        }
        if BURST.contains(&self.only) {
            say(BURST);
            // On a GPU, so many native processes may not fit into its memory.
            let native = self.native.burst().map_err(|why| say(&format!("natively: {why}"))).ok();
            if let Some(server) = &mut self.server {
                // A fresh server has no sessions of earlier clients.
                *server = Server::start(&self.ropeway, &self.native)?;
                self.remote.use_server(&server.url());
            }
            rows.push(stated(BURST, "s", native, self.remote.burst()));
        }
        Ok(rows)
    }
}

impl Side {
    /// Milliseconds that a new process needs to load OpenCL and to have its platforms.
    fn loading(&self) -> Result<f64, String> {
        let mut probe = self.spawn("load", "", false)?;
        let figure = probe.number()?;
        probe.end()?;
        Ok(figure)
    }

    /// Starts many processes at once and returns the longest time, in seconds, from just before a process is made until
    /// it has its first queue.
    fn burst(&self) -> Result<f64, String> {
        let started = (0..CLIENTS).map(|_| self.spawn("start", &monotonic().to_string(), false));
        let mut started: Vec<Probe> = started.collect::<Result<_, _>>()?;
        let times = started.iter_mut().map(Probe::number).collect::<Result<Vec<f64>, _>>()?;
        for mut probe in started {
            probe.end()?;
        }
        Ok(times.into_iter().fold(0.0, f64::max) / 1e3)
    }
}
