//! One, two, four and eight devices of this machine, with a server for each: a matrix product, data between each two of
//! them, collective operations, and eight programs at once. Beside each, the machine's own context of the same devices.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::median::median;
use crate::orders::{ANSWER, FAILED};
use crate::process::{Probe, Side};
use crate::servers::{Fleet, MISSING, client};
use crate::setup::Bench;
use crate::table::{Reach, Row};

const MIB: usize = 1 << 20;

/// Over how many devices the work goes.
const COUNTS: [usize; 4] = [1, 2, 4, 8];

/// The rows and columns of the matrix products, and the speed-up that each is to reach with a number of devices.
const PRODUCTS: [(usize, usize, f64); 2] = [(8192, 4, 2.5), (16384, 8, 5.0)];

/// The sizes that go to and fro between two devices, in MiB, and how often.
const BOUNCES: [(usize, usize); 2] = [(64, 12), (1024, 4)];

/// What each device gives to a collective operation, in bytes.
const GIVEN: usize = 64 * MIB;

const COLLECTIVES: [&str; 2] = ["all-reduce", "all-to-all"];

/// The programs that compute at once, the products that each computes, and their rows and columns.
const CLIENTS: usize = 8;
const PRODUCTS_EACH: usize = 64;
const CLIENTS_SIDE: usize = 2048;

/// The devices and servers of a run.
struct Machine {
    /// Devices that the machine has.
    devices: usize,
    /// Servers, which are more than the devices if some share one.
    servers: usize,
}

impl Machine {
    fn of(bench: &Bench) -> Result<Self, String> {
        let said = bench.native.spawn("spread", "", false)?.answer()?;
        let devices = said.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(1);
        let servers = bench.servers.unwrap_or(devices);
        if servers < 2 {
            return Err(format!("{MISSING}there is one device; --servers 8 has eight servers of it"));
        }
        Ok(Self { devices, servers })
    }

    /// The variables that give a process the device of a server.
    fn device(&self, server: usize) -> Vec<(&'static str, OsString)> {
        match self.devices {
            0 | 1 => Vec::new(),
            devices => vec![("CUDA_VISIBLE_DEVICES", (server % devices).to_string().into())],
        }
    }

    fn counts(&self) -> impl Iterator<Item = usize> {
        let most = self.servers;
        COUNTS.into_iter().filter(move |count| *count <= most)
    }

    /// The rule of a row: that devices are shared, if they are.
    fn rule(&self, over: usize, rule: &str) -> String {
        if over <= self.devices {
            return rule.to_owned();
        }
        let shared = format!("{over} servers of {} device{}", self.devices, if self.devices == 1 { "" } else { "s" });
        if rule.is_empty() { shared } else { format!("{rule}; {shared}") }
    }
}

fn name(over: usize, what: &str) -> String {
    match over {
        1 => format!("across 1 device: {what}"),
        _ => format!("across {over} devices: {what}"),
    }
}

/// A group of figures, and the function that measures those of them that are wanted.
type Group<'a> = (&'static str, fn(&Across<'a>) -> Result<Vec<Row>, String>);

fn groups<'a>() -> [Group<'a>; 4] {
    [
        ("devices: matrix product", Across::products),
        ("devices: to and fro", Across::pairs),
        ("devices: collectives", Across::collectives),
        ("devices: programs at once", Across::clients),
    ]
}

/// Measures the rows if the group is wanted, and reports progress to `say`. A failed measurement becomes an error.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    let wanted: Vec<_> = groups().into_iter().filter(|(group, _)| group.contains(&bench.only)).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let failed = |group: &str, why: String| {
        let reach = if why.starts_with(MISSING) { Reach::NotOffered } else { Reach::Stated };
        Row::without_floor(group, "", Err(why), None, reach, "")
    };
    let across = match Across::start(bench) {
        Ok(across) => across,
        Err(why) => return wanted.into_iter().map(|(group, _)| failed(group, why.clone())).collect(),
    };
    let measured = wanted.into_iter().flat_map(|(group, measure)| {
        say(group);
        measure(&across).unwrap_or_else(|why| vec![failed(group, why)])
    });
    measured.collect()
}

/// A server for each device, and the side of programs that have all of them in one platform.
struct Across<'a> {
    bench: &'a Bench,
    machine: Machine,
    fleet: Fleet,
}

impl<'a> Across<'a> {
    fn start(bench: &'a Bench) -> Result<Self, String> {
        let machine = Machine::of(bench)?;
        let fleet = Fleet::start(bench, &bench.native, machine.servers, &|server| machine.device(server), &[])?;
        Ok(Self { bench, machine, fleet })
    }

    /// The probe of this machine's own context of all its devices, if it has several.
    fn native(&self) -> Result<Option<Probe>, String> {
        (self.machine.devices > 1).then(|| self.bench.native.ready("spread")).transpose()
    }

    fn row(&self, over: usize, what: &str, unit: &'static str, ropeway: f64, native: Option<f64>) -> Row {
        let rule = self.machine.rule(over, "");
        Row::without_floor(&name(over, what), unit, Ok(ropeway), native, Reach::Stated, &rule)
    }

    fn products(&self) -> Result<Vec<Row>, String> {
        let (mut ours, mut native, mut rows) = (self.fleet.spread()?, self.native()?, Vec::new());
        for (side, reached_with, speed_up) in PRODUCTS {
            let mut one = None;
            for over in self.machine.counts() {
                let with = |probe: &mut Probe, size: usize| probe.ask(&format!("product {size} {over}"));
                // A small product first makes the connections between servers, before anything is measured.
                with(&mut ours, 256)?;
                let (mut times, mut natively) = (Vec::new(), Vec::new());
                for _ in 0..self.bench.rounds(5) {
                    times.push(with(&mut ours, side)?);
                    if let Some(native) = native.as_mut().filter(|_| over <= self.machine.devices) {
                        natively.push(with(native, side)?);
                    }
                }
                let time = median(&mut times);
                let alone = *one.get_or_insert(time);
                let natively = (!natively.is_empty()).then(|| median(&mut natively));
                let mut row = self.row(over, &format!("matrix product of {side}"), "s", time, natively);
                row.rule = self.machine.rule(over, &format!("{:.2} times as fast as across one", alone / time));
                if over == reached_with && over <= self.machine.devices {
                    row.reach = Reach::AtMost(alone / speed_up);
                }
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// What goes to and fro between each two devices: the slowest two and those in the middle.
    fn pairs(&self) -> Result<Vec<Row>, String> {
        let (mut ours, mut native, mut rows) = (self.fleet.spread()?, self.native()?, Vec::new());
        let over = self.machine.servers;
        let pairs: Vec<_> = (0..over).flat_map(|a| (a + 1..over).map(move |b| (a, b))).collect();
        for (size, count) in BOUNCES {
            let measure = |probe: &mut Probe, (a, b): (usize, usize)| -> Result<f64, String> {
                probe.ask(&format!("pair {a} {b}"))?;
                probe.ask(&format!("bounce {count} {}", size * MIB))
            };
            let (mut figures, mut natively) = (Vec::new(), Vec::new());
            for pair in &pairs {
                figures.push(measure(&mut ours, *pair)?);
                if let Some(native) = native.as_mut().filter(|_| pair.0.max(pair.1) < self.machine.devices) {
                    natively.push(measure(native, *pair)?);
                }
            }
            let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
            let what = |which: &str| format!("{size} MB to and fro, {which} of {} pairs", pairs.len());
            let has = !natively.is_empty();
            let (slowest, native_slowest) = (least(&figures), has.then(|| least(&natively)));
            rows.push(self.row(over, &what("slowest"), "MB/s", slowest, native_slowest));
            let native_middle = has.then(|| median(&mut natively));
            rows.push(self.row(over, &what("median"), "MB/s", median(&mut figures), native_middle));
        }
        Ok(rows)
    }

    fn collectives(&self) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        for operation in COLLECTIVES {
            for over in self.machine.counts().filter(|over| *over > 1) {
                let ours = self.collective(&self.fleet.side, operation, over)?;
                let natively = (over <= self.machine.devices)
                    .then(|| self.collective(&self.bench.native, operation, over))
                    .transpose()?;
                let what = format!("{operation} of {} MB each", GIVEN / MIB);
                rows.push(self.row(over, &what, "ms", ours, natively));
            }
        }
        Ok(rows)
    }

    /// The median of the milliseconds that the operation takes, by a program of its own.
    fn collective(&self, side: &Side, operation: &str, over: usize) -> Result<f64, String> {
        let itself = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
        let program: PathBuf = itself.with_file_name("ropeway-bench-collectives");
        if !program.exists() {
            return Err(format!("{MISSING}{} has not been built", program.display()));
        }
        let mut command: Command = side.command(&program);
        let rounds = self.bench.rounds(9);
        command.args([operation, &GIVEN.to_string(), &over.to_string(), &rounds.to_string(), &side.filter]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|e| e.to_string())?;
        let mut said = String::new();
        if let Some(mut out) = child.stdout.take() {
            out.read_to_string(&mut said).map_err(|e| e.to_string())?;
        }
        let ended = child.wait().map_err(|e| e.to_string())?;
        if let Some(why) = said.lines().find_map(|line| line.strip_prefix(FAILED)) {
            return Err(format!("{}: {why}", side.name));
        }
        let times = said.lines().filter_map(|line| line.strip_prefix(ANSWER)?.parse().ok());
        let mut times: Vec<f64> = times.collect();
        if !ended.success() || times.len() != rounds {
            return Err(format!("{}: {operation} ended with {ended}", side.name));
        }
        Ok(median(&mut times))
    }

    /// How many products a second eight programs compute together, each on one of the devices.
    fn clients(&self) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        for over in self.machine.counts() {
            let urls: Vec<_> = (0..over).map(|server| self.fleet.url(server)).collect();
            let ours = self.rate((0..CLIENTS).map(|number| client(self.bench, &[urls[number % over].clone()])))?;
            let natively = self.rate((0..CLIENTS).map(|number| {
                let mut side = self.bench.native.clone();
                side.environment.extend(self.machine.device(number % over));
                side
            }))?;
            let what = format!("{CLIENTS} programs, matrix products of {CLIENTS_SIDE}");
            rows.push(self.row(over, &what, "1/s", ours, Some(natively)));
        }
        Ok(rows)
    }

    fn rate(&self, sides: impl Iterator<Item = Side>) -> Result<f64, String> {
        let mut probes: Vec<Probe> = sides.map(|side| side.ready("spread")).collect::<Result<_, _>>()?;
        let mut rates = Vec::new();
        for _ in 0..self.bench.rounds(5) {
            let begun = Instant::now();
            probes.iter_mut().for_each(|probe| probe.order(&format!("products {PRODUCTS_EACH} {CLIENTS_SIDE}")));
            probes.iter_mut().try_for_each(|probe| probe.number().map(drop))?;
            rates.push((CLIENTS * PRODUCTS_EACH) as f64 / begun.elapsed().as_secs_f64());
        }
        Ok(median(&mut rates))
    }
}
