//! The measurements: how often each is taken, and the figure that it has to reach.

use crate::devices;
use crate::encrypted;
use crate::floor::Floor;
use crate::lending;
use crate::median::median;
use crate::memory::{Memory, only_worker_of};
use crate::pool;
use crate::process::{Probe, Side};
use crate::server::{BETWEEN_CLIENTS, Server};
use crate::servers;
use crate::setup::Bench;
use crate::ssh;
use crate::table::{Reach, Row};
use crate::wide;

const MIB: usize = 1 << 20;
const MB: f64 = 1e6;

/// The meaning of a measurement's third column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Raw {
    None,
    RoundTrip,
    Up,
    Down,
}

/// Medians over the rounds of one measurement.
struct Figures {
    native: f64,
    ropeway: Result<f64, String>,
    floor: Option<f64>,
}

impl Bench {
    /// Measures everything, and reports progress to `say`. Returns the device's name as well.
    ///
    /// # Errors
    /// When native OpenCL or the raw network cannot be measured. What Ropeway cannot do is an error of its row.
    pub fn run(&mut self, say: &dyn Fn(&str)) -> Result<(String, Vec<Row>), String> {
        // Warms the program caches and the page cache before anything is measured.
        say("warming up");
        self.native.run("objects", "1", false)?;
        let mut native = self.native.spawn("work", "", false)?;
        let (has, device) = device_of(&native.answer()?);
        let mut rows = Vec::new();
        if self.wanted("process start") {
            rows.extend(self.start_up(say)?);
        }
        let mut pair = Pair { remote: self.remote.begin(), side: self.remote.clone(), native, floor: self.floor()? };
        for measure in measures(&|what| has.split(',').any(|it| it == what)) {
            if self.wanted(measure.figure) {
                if !measure.offered {
                    rows.push(measure.not_offered());
                    continue;
                }
                say(measure.figure);
                let figures = pair.rounds(&measure, self.rounds(measure.rounds))?;
                rows.push(measure.row(figures));
            }
        }
        drop(pair);
        for (name, rows_of) in
            [("round trips", Self::counts as fn(&Self) -> Vec<Row>), ("memory", Self::memory as fn(&Self) -> Vec<Row>)]
        {
            say(name);
            rows.extend(rows_of(self).into_iter().filter(|row| row.figure.contains(&self.only)));
        }
        rows.extend(wide::rows(self, say));
        rows.extend(self.many_and_each(say)?);
        rows.extend(encrypted::rows(self, say));
        rows.extend(ssh::rows(self, say));
        rows.extend(lending::rows(self, say));
        rows.extend(servers::rows(self, say));
        rows.extend(devices::rows(self, say));
        rows.extend(pool::rows(self, say));
        Ok((device, rows))
    }

    /// The raw link that the figures are held against.
    fn floor(&self) -> Result<Floor, String> {
        let started = match &self.far {
            Some(far) => Floor::at(far),
            None => Floor::start(&self.url),
        };
        started.map_err(|e| format!("the raw network cannot be measured: {e}"))
    }

    fn wanted(&self, figure: &str) -> bool {
        figure.contains(&self.only)
    }

    /// Measures the time from making a process to its first queue: for the first client of a server, the second right
    /// behind it, the clients of a burst that gives the server no time to warm new workers, and the hundredth client,
    /// after the burst.
    fn start_up(&mut self, say: &dyn Fn(&str)) -> Result<Vec<Row>, String> {
        let (mut native, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
        let (mut burst, mut hundredth) = (Vec::new(), Vec::new());
        let mut failed = None;
        let servers = if self.server.is_some() { self.rounds(5) } else { 1 };
        let client = |remote: &Side, failed: &mut Option<String>| match remote.start_up() {
            Ok(time) => time,
            Err(why) => {
                failed.get_or_insert(why);
                f64::NAN
            }
        };
        for round in 0..servers {
            say(&format!("process start to first queue, server {} of {servers}", round + 1));
            for _ in 0..3 {
                native.push(self.native.start_up()?);
            }
            if let Some(server) = &mut self.server {
                *server = Server::start(&self.ropeway, &self.native)?;
                self.remote.use_server(&server.url());
            }
            first.push(client(&self.remote, &mut failed));
            second.push(client(&self.remote, &mut failed));
            if failed.is_some() {
                break;
            }
        }
        for _ in 2..95 {
            if failed.is_none() {
                burst.push(client(&self.remote, &mut failed));
            }
        }
        for _ in 95..106 {
            if failed.is_none() {
                std::thread::sleep(BETWEEN_CLIENTS);
                hundredth.push(client(&self.remote, &mut failed));
            }
        }
        let native = median(&mut native);
        let row = |which: &str, times: &mut Vec<f64>, limit: f64, rule: &str| Row {
            figure: format!("process start to first queue, {which}"),
            unit: "ms",
            native: Some(native),
            ropeway: failed.clone().map_or_else(|| Ok(median(times)), Err),
            floor: None,
            reach: Reach::AtMost(limit),
            rule: rule.into(),
        };
        Ok(vec![
            row("first client", &mut first, 5.0, ""),
            row("second client", &mut second, 5.0, ""),
            row("hundredth client", &mut hundredth, 5.0, ""),
            row("of 93 without a pause", &mut burst, native, "native"),
        ])
    }

    /// The traffic of whole programs, as `ROPEWAY_STATS` counts it.
    fn counts(&self) -> Vec<Row> {
        let count = |what: &str, extra: &str, key: &str| {
            let said = self.remote.run(what, extra, true)?;
            let value = said.split_whitespace().rev().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            let value = value.and_then(|value| value.parse::<f64>().ok());
            value.ok_or_else(|| format!("ROPEWAY_STATS printed no {key}"))
        };
        let row = |figure, unit, ropeway, limit, rule| {
            Row::without_floor(figure, unit, ropeway, None, Reach::AtMost(limit), rule)
        };
        // The native compiler and the server see this program for the first time.
        let new = format!("{} {:?}", std::process::id(), std::time::SystemTime::now());
        let long = format!("{new} {}", "long ".repeat(20_000));
        // A program may end before it says goodbye, but each replay sends a whole number of messages.
        let replays = count("replays", "210", "messages_sent")
            .and_then(|many| Ok(many - count("replays", "10", "messages_sent")?));
        let replay = replays.map(|messages| (messages / 200.0).round());
        let created =
            count("objects", "1000", "round_trips").and_then(|many| Ok(many - count("objects", "0", "round_trips")?));
        let resent = count("add", &long, "bytes_sent").and_then(|_| count("add", &long, "bytes_sent"));
        vec![
            row(
                "vector addition, new source",
                "round trips",
                count("add", &new, "round_trips"),
                5.0,
                "with connecting",
            ),
            row(
                "vector addition, known source",
                "round trips",
                count("add", &new, "round_trips"),
                5.0,
                "with connecting",
            ),
            row("1000 buffers and kernels created and released", "round trips", created, 0.0, ""),
            row("a replay of 100 recorded kernels", "messages", replay, 1.0, ""),
            row("vector addition, known source of 100 kB", "bytes sent", resent, 20_000.0, "source not resent"),
        ]
    }

    fn memory(&self) -> Vec<Row> {
        let worker = self.worker_memory();
        let client = self.client_memory();
        let row = |figure: &str, rule: &str, allowed: f64, figures: Result<(f64, f64), String>| {
            let native = figures.as_ref().ok().map(|(native, _)| *native);
            Row {
                figure: figure.into(),
                unit: "MB",
                native,
                ropeway: figures.map(|(_, have)| have),
                floor: None,
                reach: Reach::AtMost(native.unwrap_or(0.0) + allowed),
                rule: rule.into(),
            }
        };
        vec![
            row("memory of a worker; of a native process", "native + 10", 10.0, worker),
            row("memory of a client; of one without OpenCL", "without + 5", 5.0, client),
        ]
    }

    /// Proportional sizes of a native process and of the worker that does the same for a client, both alive, in MB.
    fn worker_memory(&self) -> Result<(f64, f64), String> {
        let server = self.server.as_ref().ok_or("the server is not of this run")?;
        let mut native = self.native.spawn("idle", "", false)?;
        native.number()?;
        let mut remote = self.remote.spawn("idle", "", false)?;
        remote.number()?;
        let worker = only_worker_of(server.pid(), server.port)?;
        let (native, worker) = (Memory::of(native.pid())?, Memory::of(worker)?);
        Ok((native.proportional as f64 / MB, worker.proportional as f64 / MB))
    }

    /// Resident sizes of a process whose loader finds nothing, and of one that uses Ropeway, in MB.
    fn client_memory(&self) -> Result<(f64, f64), String> {
        let without = self.without.spawn("without", "", false)?.number()?;
        let with = self.remote.spawn("idle", "", false)?.number()?;
        Ok((without / MB, with / MB))
    }
}

/// The two measured processes and the raw network, taking turns.
struct Pair {
    native: Probe,
    remote: Result<Probe, String>,
    side: Side,
    floor: Floor,
}

/// Splits a child's answer into the device's capabilities and its name.
fn device_of(answer: &str) -> (String, String) {
    let (has, name) = answer.split_once(' ').unwrap_or((answer, ""));
    (has.to_owned(), name.to_owned())
}

impl Pair {
    fn rounds(&mut self, measure: &Measure, rounds: usize) -> Result<Figures, String> {
        let (mut native, mut ropeway, mut floor) = (Vec::new(), Vec::new(), Vec::new());
        let natively = measure.natively.as_ref().unwrap_or(&measure.order);
        let mut failed = None;
        for round in 0..rounds {
            // The order changes, so that no side always follows the same neighbour.
            if round % 2 == 0 {
                native.push(self.native.ask(natively)?);
            }
            if failed.is_none() {
                let asked = match &mut self.remote {
                    Ok(probe) => probe.ask(&measure.order),
                    Err(why) => Err(why.clone()),
                };
                match asked {
                    Ok(figure) => ropeway.push(figure),
                    Err(why) => failed = Some(why),
                }
            }
            if round % 2 == 1 {
                native.push(self.native.ask(natively)?);
            }
            let raw = match measure.raw {
                Raw::None => continue,
                Raw::RoundTrip => self.floor.round_trip(400),
                Raw::Up => self.floor.stream_up(256 * MIB),
                Raw::Down => self.floor.stream_down(256 * MIB),
            };
            floor.push(raw.map_err(|e| format!("the raw network: {e}"))?);
        }
        if failed.is_some() {
            // The state of the remote child is unknown after a failure.
            self.remote = self.side.begin();
        }
        Ok(Figures {
            native: median(&mut native),
            ropeway: failed.map_or_else(|| Ok(median(&mut ropeway)), Err),
            floor: (!floor.is_empty()).then(|| median(&mut floor)),
        })
    }
}

/// One measurement by the pair.
struct Measure {
    figure: &'static str,
    unit: &'static str,
    /// The order to the children.
    order: String,
    /// The order to the native child, where it is another one.
    natively: Option<String>,
    /// Whether the native device has what is measured.
    offered: bool,
    rounds: usize,
    raw: Raw,
    /// The bound, from the native figure and the floor.
    reach: fn(native: f64, floor: f64) -> Reach,
    rule: &'static str,
}

impl Measure {
    fn row(&self, figures: Figures) -> Row {
        Row {
            figure: self.figure.into(),
            unit: self.unit,
            native: Some(figures.native),
            ropeway: figures.ropeway,
            floor: figures.floor,
            reach: (self.reach)(figures.native, figures.floor.unwrap_or(0.0)),
            rule: self.rule.into(),
        }
    }

    fn not_offered(&self) -> Row {
        let none = Figures { native: f64::NAN, ropeway: Err("not offered".into()), floor: None };
        Row { native: None, reach: Reach::NotOffered, ..self.row(none) }
    }
}

/// Lists all that the pair measures on a native device; `has` tells the device's kind and capabilities.
fn measures(has: &dyn Fn(&str) -> bool) -> Vec<Measure> {
    let mut list = Vec::new();
    let mut add = |figure, unit, order: String, rounds, raw, rule, reach: fn(f64, f64) -> Reach| {
        list.push(Measure { figure, unit, order, natively: None, offered: true, rounds, raw, reach, rule });
    };
    let stream: fn(f64, f64) -> Reach = |_, stream| Reach::AtLeast(0.9 * stream);
    add(
        "empty kernel and clFinish",
        "us",
        "finish 400".into(),
        11,
        Raw::RoundTrip,
        "native + 1.5 round trips",
        |n, f| Reach::AtMost(n + 1.5 * f),
    );
    for (figure, order) in [("kernel asked for its times", "asked 400"), ("kernel polled for, and asked", "polled 400")]
    {
        add(figure, "us", order.into(), 11, Raw::RoundTrip, "native + 1.5 round trips", |n, f| {
            Reach::AtMost(n + 1.5 * f)
        });
    }
    let tuner = format!("tuner 1 {}", 8 * MIB);
    add("kernel on new memory, as a tuner reads it", "us", tuner, 11, Raw::None, "1.05 native", |n, _| {
        Reach::AtMost(1.05 * n)
    });
    add("clSetKernelArg and clEnqueueNDRangeKernel", "us", "setarg 2000".into(), 11, Raw::None, "", |_, _| {
        Reach::AtMost(1.0)
    });
    if has("gpu") {
        add("empty kernels, pipelined", "1/s", "rate 5000".into(), 11, Raw::None, "0.9 native", |n, _| {
            Reach::AtLeast(0.9 * n)
        });
    } else {
        add("empty kernels, pipelined", "1/s", "rate 5000".into(), 11, Raw::None, "0.5 native", |n, _| {
            Reach::AtLeast(0.5 * n)
        });
    }
    add("event chain, a hop", "us", "chain 500".into(), 11, Raw::None, "native + 3", |n, _| Reach::AtMost(n + 3.0));
    add(
        "blocking read of 4 bytes",
        "us",
        "read-small 400".into(),
        11,
        Raw::RoundTrip,
        "native + 1.5 round trips",
        |n, f| Reach::AtMost(n + 1.5 * f),
    );
    add("blocking write of 4 bytes", "us", "write-small 400".into(), 11, Raw::RoundTrip, "", |_, _| Reach::AtMost(5.0));
    let order = |what: &str, count: usize, size: usize| format!("{what} {count} {}", size * MIB);
    // Where neither copies nor round trips alone decide.
    for (figure, what, count, size) in [
        ("write of 64 KiB", "write", 400, MIB / 16),
        ("read of 64 KiB", "read", 400, MIB / 16),
        ("write of 1 MB", "write", 64, MIB),
        ("read of 1 MB", "read", 64, MIB),
        ("write of 4 MB", "write", 16, 4 * MIB),
        ("read of 4 MB", "read", 16, 4 * MIB),
    ] {
        add(figure, "MB/s", format!("{what} {count} {size}"), 9, Raw::None, "", |_, _| Reach::Stated);
    }
    add("write of 16 MB", "MB/s", order("write", 8, 16), 9, Raw::Up, "0.9 stream", stream);
    add("read of 16 MB", "MB/s", order("read", 8, 16), 9, Raw::Down, "0.9 stream", stream);
    add("write of 256 MB", "MB/s", order("write", 1, 256), 7, Raw::Up, "0.9 stream", stream);
    add("read of 256 MB", "MB/s", order("read", 1, 256), 7, Raw::Down, "0.9 stream", stream);
    let maps = format!("map 50 {}", 16 * MIB);
    add("map of 16 MB to read and write, and unmap", "us", maps, 11, Raw::None, "native + 5", |n, _| {
        Reach::AtMost(n + 5.0)
    });
    add("create and release a buffer", "us", "buffer 500".into(), 11, Raw::None, "", |_, _| Reach::AtMost(1.0));
    add("create and release a kernel", "us", "kernel 500".into(), 11, Raw::None, "", |_, _| Reach::AtMost(1.0));
    add("build of a known source", "ms", "build 5".into(), 9, Raw::None, "native + 5", |n, _| Reach::AtMost(n + 5.0));
    let rule = if has("recording") { "1.2 native" } else { "1.2 native, one by one" };
    add("100 recorded kernels, replayed", "us", "replay 41 100".into(), 11, Raw::None, rule, |n, _| {
        Reach::AtMost(1.2 * n)
    });
    if let Some(replay) = list.last_mut().filter(|_| !has("recording")) {
        replay.natively = Some("one-by-one 41 100".into());
    }
    let svm = |figure, order: &str| Measure {
        figure,
        unit: "us",
        order: order.into(),
        natively: None,
        offered: has("svm"),
        rounds: 11,
        raw: Raw::None,
        reach: |_, _| Reach::Stated,
        rule: "",
    };
    list.push(svm("SVM: map to read and unmap 4 KiB", "svm-map 200 4096"));
    list.push(svm("SVM list of 10,000 nodes, chased on the device", "svm-list 20 10000"));
    let maps = format!("svm-change 50 {}", 16 * MIB);
    list.push(Measure {
        reach: |n, _| Reach::AtMost(n + 5.0),
        rule: "native + 5",
        ..svm("SVM: map of 16 MB to read and write, and unmap", &maps)
    });
    list
}
