//! One to four programs that each want half of a pool, as in dOpenCL's experiment with its device manager: how long each
//! computes once it has begun, with a broker and without.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ropeway_tests::wait_for;

use super::house::{House, devices};
use crate::median::median;
use crate::orders::ANSWER;
use crate::process::Side;
use crate::server::{BETWEEN_CLIENTS, Server};
use crate::servers::{MISSING, client, stub};
use crate::setup::Bench;
use crate::table::{Reach, Row};

const FIGURES: [&str; 4] = [
    "lending: 1 program that wants half of a pool computes for",
    "lending: 2 programs that want half of a pool each compute for",
    "lending: 3 programs that want half of a pool each compute for",
    "lending: 4 programs that want half of a pool each compute for",
];

/// The servers, with one device each, and how many of them a program wants.
const SERVERS: usize = 4;
const HALF: usize = 2;

/// The number of rows and columns of the matrix product that each program computes.
const SIDE: usize = 2048;

/// Measures the wanted rows; a failure becomes the error of its row.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    let wanted: Vec<_> = (1..).zip(FIGURES).filter(|(_, figure)| figure.contains(&bench.only)).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let row = |figure, native, ropeway, reach, rule| Row::without_floor(figure, "s", ropeway, native, reach, rule);
    let pool = Pool::start(bench);
    let alone = pool.as_ref().map_err(Clone::clone).and_then(|pool| pool.compute(bench, 1, true));
    let measure = |(programs, figure): (usize, &'static str)| {
        say(figure);
        let both = || -> Result<_, String> {
            let (pool, alone) = (pool.as_ref().map_err(Clone::clone)?, alone.clone()?);
            let with = if programs == 1 { alone } else { pool.compute(bench, programs, true)? };
            Ok((pool.compute(bench, programs, false)?, with, alone))
        };
        match both() {
            Ok((without, with, alone)) => {
                let rule = "1.1 x one program; \"native\" is without a broker";
                row(figure, Some(without), Ok(with), Reach::AtMost(1.1 * alone), rule)
            }
            Err(why) => {
                let reach = if why.starts_with(MISSING) { Reach::NotOffered } else { Reach::Stated };
                row(figure, None, Err(why), reach, "")
            }
        }
    };
    wanted.into_iter().map(measure).collect()
}

/// Devices that only take their time, each at one server that a broker lends, and at another that everybody can use.
struct Pool {
    // Kept for as long as programs run.
    _house: House,
    _servers: Vec<Server>,
    broker: String,
    everybody: Side,
}

impl Pool {
    fn start(bench: &Bench) -> Result<Self, String> {
        let stub = stub(bench)?;
        let house = House::start(bench, "many")?;
        let registers = house.ticket("servers", &["--registers"])?;
        let folder = bench.folder.path();
        let (mut servers, mut urls) = (Vec::new(), Vec::new());
        for number in 0..SERVERS {
            // One device, also for two servers: whoever computes on it has it locked. Workers may read this folder.
            let device = folder.join("stub").join(format!("device{number}"));
            std::fs::write(&device, "").map_err(|error| format!("{}: {error}", device.display()))?;
            let mut side = stub.clone();
            side.environment.push(("STUB_DEVICE", device.into()));
            let state = folder.join(format!("many-{number}")).to_string_lossy().into_owned();
            let lends = ["--listen", "tls://127.0.0.1:0", "--state", &state, "--broker", &registers, "--warm", "4"];
            servers.push(Server::start_just(&bench.ropeway, &side, &lends)?);
            let open = Server::start_with(&bench.ropeway, &side, &["--warm", "4"])?;
            urls.push(open.url());
            servers.push(open);
        }
        let broker = house.ticket("client", &[])?;
        let mut watcher = house.connect(&broker)?;
        wait_for("the servers at the broker", Duration::from_secs(30), || {
            Some(devices(&mut watcher)).filter(|listed| listed.as_ref().is_ok_and(|listed| listed.len() == SERVERS))
        })?;
        Ok(Self { _house: house, _servers: servers, broker, everybody: client(bench, &urls) })
    }

    /// The time for which the slowest of so many programs computes, in seconds: the median over some rounds.
    fn compute(&self, bench: &Bench, programs: usize, leased: bool) -> Result<f64, String> {
        let mut times = Vec::new();
        for _ in 0..bench.rounds(3) {
            std::thread::sleep(BETWEEN_CLIENTS);
            let running: Vec<_> =
                (0..programs).map(|_| self.command(bench, leased)?.spawn().map_err(|why| why.to_string())).collect();
            let mut slowest: f64 = 0.0;
            let mut failed = None;
            for program in running {
                match program.and_then(|program| program.wait_with_output().map_err(|why| why.to_string())) {
                    Ok(output) => {
                        let said = String::from_utf8_lossy(&output.stdout);
                        match said.lines().find_map(|line| line.strip_prefix(ANSWER)?.parse().ok()) {
                            Some(time) => slowest = slowest.max(time),
                            None => failed = Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
                        }
                    }
                    Err(why) => failed = Some(why),
                }
            }
            if let Some(why) = failed {
                return Err(format!("a program does not compute: {why}"));
            }
            times.push(slowest);
        }
        Ok(median(&mut times))
    }

    /// A program that computes on half of the pool: on what a broker lends it, or on the first devices, as all others do
    /// that do not know of each other.
    fn command(&self, bench: &Bench, leased: bool) -> Result<Command, String> {
        let itself: PathBuf = std::env::current_exe().map_err(|why| format!("this program cannot be found: {why}"))?;
        let mut command = if leased {
            let mut command = bench.native.command(&bench.ropeway);
            let want = format!("{HALF} devices");
            command.args(["run", "--broker", &self.broker, "--want", &want, "--only", "--"]).arg(&itself);
            command
        } else {
            self.everybody.command(&itself)
        };
        let order = OsString::from(format!("product {SIDE} {HALF}"));
        command.args(["child", "once", ""]).arg(order);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }
}
