//! Measurements with several servers in one context.
//!
//! The servers are processes of this machine, on its loopback address; where a link's rate matters, client and servers
//! are in network namespaces. Where the machine's processors must not influence the result, the devices are stubs that
//! only take their time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ropeway_tests::net::{Host, Net};
use ropeway_tests::proxy::{Fault, Proxy};

use crate::copies::Copies;
use crate::floor::Floor;
use crate::handed::Handed;
use crate::median::median;
use crate::process::{Probe, Side};
use crate::server::Server;
use crate::setup::Bench;
use crate::table::{Reach, Row};

const MIB: usize = 1 << 20;

/// The speed of each stub device, in 10^9 operations a second: that of a few cores of a CPU.
const STUB_GFLOPS: f64 = 10.0;

/// The number of rows and columns of the matrix product on stub devices, and on real ones.
const STUB_SIDE: usize = 4096;
const REAL_SIDE: usize = 8192;

/// The maximum number of servers in one context.
const MANY: usize = 64;

/// The number of frames in a pipeline, and the bytes of each; a result is 1/256 of a frame.
const FRAMES: usize = 20;
const FRAME: usize = 4 * MIB;

/// Servers, and the side whose programs have all devices of these servers in one platform.
pub struct Fleet {
    // Kept alive for as long as the servers are needed.
    servers: Vec<Server>,
    /// The side of these programs.
    pub side: Side,
}

impl Fleet {
    /// Starts `count` servers of the devices that `native` has; `further` gives each server additional variables by its
    /// number.
    pub fn start(
        bench: &Bench,
        native: &Side,
        count: usize,
        further: &dyn Fn(usize) -> Vec<(&'static str, OsString)>,
        args: &[&str],
    ) -> Result<Self, String> {
        let mut servers = Vec::new();
        for number in 0..count {
            let mut side = native.clone();
            side.environment.extend(further(number));
            servers.push(Server::start_with(&bench.ropeway, &side, args)?);
        }
        let urls: Vec<_> = servers.iter().map(Server::url).collect();
        Ok(Self { servers, side: client(bench, &urls) })
    }

    /// Adds 10 ms per round trip between the programs and each server, so that the figure shows how often programs wait
    /// for a server and not how fast one machine can run all of them.
    fn move_away(&mut self, bench: &Bench) {
        let links = self.servers.iter().map(|server| {
            let address = format!("127.0.0.1:{}", server.port);
            Proxy::to(&address, Fault::Delay(Duration::from_millis(5))).url().to_owned()
        });
        self.side = client(bench, &links.collect::<Vec<_>>());
    }

    /// Starts a program with all of the devices.
    pub fn spread(&self) -> Result<Probe, String> {
        self.side.ready("spread")
    }

    /// Where clients find one of the servers.
    pub fn url(&self, server: usize) -> String {
        self.servers[server].url()
    }
}

/// Returns the side whose programs have all devices of these servers in one platform.
pub fn client(bench: &Bench, urls: &[String]) -> Side {
    let mut side = bench.remote.clone();
    side.environment.retain(|(name, _)| *name != "ROPEWAY_PLATFORMS");
    side.filter = String::new();
    side.use_server(&urls.join(","));
    side
}

/// One count of those that `ROPEWAY_STATS` prints.
fn count(said: &str, key: &str) -> Result<f64, String> {
    let value = said.split_whitespace().rev().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let value = value.and_then(|value| value.parse().ok());
    value.ok_or_else(|| format!("ROPEWAY_STATS printed no {key}"))
}

fn row(figure: &str, unit: &'static str, ropeway: Result<f64, String>, reach: Reach, rule: &str) -> Row {
    Row { figure: figure.into(), unit, native: None, ropeway, floor: None, reach, rule: rule.into() }
}

/// A group of rows: their names, and the function that measures them.
type Group = (&'static [&'static str], fn(&Bench) -> Result<Vec<Row>, String>);

const GROUPS: [Group; 6] = [
    (&[HOP, BOUNCE, BOUNCE_SOCKETS, AFTER], two),
    (&[CLIENTS_LINK, MESSAGES], counts),
    (&[PRODUCT_TWO, PRODUCT_FOUR], product),
    (&[PRODUCT_REAL], product_real),
    (&[PIPELINE, PIPELINE_RATE], pipeline),
    (&[MANY_TIME, MANY_FAR, MANY_MEMORY], many),
];

const HOP: &str = "4 bytes changed on two servers in turn, a hop";
const BOUNCE: &str = "64 MB to and fro between two servers";
const BOUNCE_SOCKETS: &str = "64 MB to and fro between two servers, through sockets";
const AFTER: &str = "kernel on one server after one on another, added";
const CLIENTS_LINK: &str = "client's link while two servers exchange 1 GB";
const MESSAGES: &str = "messages to the client for a kernel after another server's";
const PRODUCT_TWO: &str = "matrix product on 2 servers of a fixed rate";
const PRODUCT_FOUR: &str = "matrix product on 4 servers of a fixed rate";
const PRODUCT_REAL: &str = "matrix product on all devices, a server each";
const PIPELINE: &str = "pipeline over two servers, client at 100 Mbit/s: its link";
const PIPELINE_RATE: &str = "pipeline over two servers, client at 100 Mbit/s";
const MANY_TIME: &str = "context and first kernel on each of 64 servers";
const MANY_FAR: &str = "context and first kernel on each of 64 servers, 10 ms away";
const MANY_MEMORY: &str = "memory of a client for each of 64 servers";

/// Measures the wanted rows, and reports progress to `say`. A failed measurement becomes the error of its rows.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    let mut rows = Vec::new();
    for (figures, measure) in GROUPS {
        let wanted: Vec<_> = figures.iter().filter(|figure| figure.contains(&bench.only)).collect();
        let Some(first) = wanted.first() else { continue };
        say(first);
        match measure(bench) {
            Ok(measured) => rows.extend(measured.into_iter().filter(|row| row.figure.contains(&bench.only))),
            Err(why) => {
                // A row is not offered, rather than failed, if this machine lacks a capability.
                let missing = why.strip_prefix(MISSING).map(str::to_owned);
                let reach = || if missing.is_some() { Reach::NotOffered } else { Reach::Stated };
                rows.extend(wanted.iter().map(|figure| row(figure, "", Err(why.clone()), reach(), "")));
            }
        }
    }
    rows
}

/// The prefix of errors that only say what this machine lacks.
pub const MISSING: &str = "not here: ";

/// Returns variables that give each server one of the machine's devices, if there are several.
fn a_device_each(devices: usize) -> impl Fn(usize) -> Vec<(&'static str, OsString)> {
    move |number| {
        if devices < 2 {
            return Vec::new();
        }
        let device = (number % devices).to_string();
        vec![("CUDA_VISIBLE_DEVICES", device.into()), ("POCL_DEVICES", "pthread".into())]
    }
}

/// Opens the machine's own devices in one context, if there are several; returns their number too.
fn native_spread(bench: &Bench) -> Result<(Option<Probe>, usize), String> {
    let mut probe = bench.native.spawn("spread", "", false)?;
    let said = probe.answer()?;
    let devices = said.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(1);
    Ok(((devices > 1).then_some(probe), devices))
}

fn two(bench: &Bench) -> Result<Vec<Row>, String> {
    let (mut several, devices) = native_spread(bench)?;
    let mut native = bench.native.spawn("work", "", false)?;
    let described = native.answer()?;
    let has_gpu = described.split(' ').next().is_some_and(|has| has.split(',').any(|what| what == "gpu"));
    let fleet = Fleet::start(bench, &bench.native, 2, &a_device_each(devices), &[])?;
    let mut probe = fleet.spread()?;
    let mut apart = fleet.side.through_sockets().ready("spread")?;
    let mut copies = Copies::of(64 * MIB);
    let mut handed = Handed::start([0, 1].map(|number| {
        let mut side = bench.native.clone();
        side.environment.extend(a_device_each(devices)(number));
        side
    }))?;
    let mut floor = Floor::start("").map_err(|e| format!("the raw network cannot be measured: {e}"))?;
    let raw = |e: std::io::Error| format!("the raw network: {e}");
    let mut figures: [Vec<f64>; 11] = Default::default();
    let [kernels, trips, streams, hops, alone, across, least, bounces, natives, copied, sockets] = &mut figures;
    for _ in 0..bench.rounds(7) {
        kernels.push(native.ask("finish 400")?);
        trips.push(floor.round_trip(400).map_err(raw)?);
        hops.push(probe.ask("hops 400")?);
        alone.push(probe.ask("signals 400 1")?);
        across.push(probe.ask("signals 400 2")?);
        least.push(handed.measure(200)?);
        streams.push(floor.stream_up(512 * MIB).map_err(raw)?);
        copied.push(copies.measure(12));
        bounces.push(probe.ask(&format!("bounce 12 {}", 64 * MIB))?);
        sockets.push(apart.ask(&format!("bounce 12 {}", 64 * MIB))?);
        if let Some(several) = &mut several {
            natives.push(several.ask(&format!("bounce 12 {}", 64 * MIB))?);
        }
    }
    let [kernel, trip, stream, hop, alone, across, plain, bounce, natively, copy, socket] =
        figures.map(|mut values| median(&mut values));
    let (most, least) = (kernel + 2.5 * trip, 0.8 * stream);
    let mut rows = vec![
        row(HOP, "us", Ok(hop), Reach::AtMost(most), "native kernel + 2.5 round trips"),
        match has_gpu {
            true => row(BOUNCE, "MB/s", Ok(bounce), Reach::AtLeast(3.0 * socket), "3 times through sockets"),
            false => row(BOUNCE, "MB/s", Ok(bounce), Reach::AtLeast(0.5 * copy), "0.5 memcpy, the floor"),
        },
        row(BOUNCE_SOCKETS, "MB/s", Ok(socket), Reach::AtLeast(least), "0.8 stream"),
        row(AFTER, "us", Ok(across - alone), Reach::AtMost(1.5 * trip), "1.5 round trips"),
    ];
    (rows[0].native, rows[0].floor) = (Some(kernel), Some(trip));
    (rows[1].native, rows[1].floor) = (several.is_some().then_some(natively), Some(copy));
    (rows[2].native, rows[2].floor) = (rows[1].native, Some(stream));
    // The figure of two programs without Ropeway shows the native implementation's share of the time.
    (rows[3].native, rows[3].floor) = (Some(alone), Some(plain - alone));
    Ok(rows)
}

fn counts(bench: &Bench) -> Result<Vec<Row>, String> {
    let (_, devices) = native_spread(bench)?;
    let fleet = Fleet::start(bench, &bench.native, 2, &a_device_each(devices), &[])?;
    let said = fleet.side.run("once", &format!("bounce 16 {}", 64 * MIB), true)?;
    let bytes = count(&said, "bytes_sent")? + count(&said, "bytes_received")?;
    let received = |kernels: usize| {
        fleet.side.run("once", &format!("signals {kernels} 2"), true).and_then(|said| count(&said, "messages_received"))
    };
    // The difference cancels the messages for connecting and for the end, whose number does not depend on the kernels.
    let messages = received(2010)? - received(10)?;
    Ok(vec![
        row(CLIENTS_LINK, "bytes", Ok(bytes), Reach::AtMost(100_000.0), "with connecting"),
        row(MESSAGES, "messages", Ok((messages / 2000.0 * 100.0).round() / 100.0), Reach::AtMost(0.0), ""),
    ])
}

/// Returns a side whose programs and servers find only the stub.
pub fn stub(bench: &Bench) -> Result<Side, String> {
    let itself = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
    let library: PathBuf = itself.with_file_name("libstub-opencl.so");
    if !library.exists() {
        return Err(format!("{MISSING}{} has not been built", library.display()));
    }
    // The stub is copied because workers may read the folder of the .icd files and little else.
    let copy = bench.folder.path().join("stub").join("libstub-opencl.so");
    let vendors = bench.folder.vendors("stub", &[("stub.icd".to_owned(), format!("{}\n", copy.display()))])?;
    std::fs::copy(&library, &copy).map_err(|e| format!("{} cannot be made: {e}", copy.display()))?;
    let mut side = Side { name: "stub", environment: bench.native.environment.clone(), filter: String::new() };
    side.environment.retain(|(name, _)| *name != "OCL_ICD_VENDORS");
    side.environment.push(("OCL_ICD_VENDORS", vendors));
    side.environment.push(("STUB_GFLOPS", STUB_GFLOPS.to_string().into()));
    Ok(side)
}

fn product(bench: &Bench) -> Result<Vec<Row>, String> {
    let stub = stub(bench)?;
    let fleet = Fleet::start(bench, &stub, 4, &|_| Vec::new(), &["--warm", "1"])?;
    let mut probe = fleet.spread()?;
    // A small product first makes the connections between servers, before anything is measured.
    probe.ask("product 256 4")?;
    let mut time = |over: usize| {
        let times: Result<Vec<_>, _> =
            (0..bench.rounds(3)).map(|_| probe.ask(&format!("product {STUB_SIDE} {over}"))).collect();
        times.map(|mut times| median(&mut times))
    };
    let one = time(1)?;
    let mut efficiency = |figure: &str, over: usize, least: f64| -> Result<Row, String> {
        let mut row = row(figure, "efficiency", Ok(one / (over as f64 * time(over)?)), Reach::AtLeast(least), "");
        row.rule = format!("{STUB_SIDE} x {STUB_SIDE}, {STUB_GFLOPS} GFLOP/s each");
        Ok(row)
    };
    Ok(vec![efficiency(PRODUCT_TWO, 2, 0.9)?, efficiency(PRODUCT_FOUR, 4, 0.9)?])
}

/// Measures the product on the machine's own devices, natively in one context and with a server for each device.
fn product_real(bench: &Bench) -> Result<Vec<Row>, String> {
    let (several, devices) = native_spread(bench)?;
    let Some(mut native) = several else {
        return Err(format!("{MISSING}there is one device"));
    };
    let fleet = Fleet::start(bench, &bench.native, devices, &a_device_each(devices), &[])?;
    let mut probe = fleet.spread()?;
    let order = format!("product {REAL_SIDE} {devices}");
    probe.ask(&format!("product 256 {devices}"))?;
    native.ask(&format!("product 256 {devices}"))?;
    let (mut natively, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds(3) {
        natively.push(native.ask(&order)?);
        ours.push(probe.ask(&order)?);
    }
    let mut row = row(PRODUCT_REAL, "s", Ok(median(&mut ours)), Reach::Stated, "");
    row.native = Some(median(&mut natively));
    row.rule = format!("{REAL_SIDE} x {REAL_SIDE} over {devices}");
    Ok(vec![row])
}

fn pipeline(bench: &Bench) -> Result<Vec<Row>, String> {
    let net = Net::new(3).map_err(|why| format!("{MISSING}{why}"))?;
    let start = |host: &Host| Server::start_at(&bench.ropeway, &bench.native, host);
    let servers = [start(net.host(1))?, start(net.host(2))?];
    let side = client(bench, &servers.each_ref().map(Server::url));
    let mut probe = side.spawn_at(Some(net.host(0)), "spread", "", false)?;
    probe.answer()?;
    // A first short run builds the programs and connects the servers to each other.
    probe.ask(&format!("pipeline 2 {FRAME}"))?;
    net.host(0).limit("100mbit");
    let before = net.host(0).traffic();
    let rate = probe.ask(&format!("pipeline {FRAMES} {FRAME}"))?;
    let bytes = (net.host(0).traffic() - before).bytes() as f64;
    let results = (FRAMES * FRAME / 256) as f64;
    // The frame rate if only the frames went through the client's link, once each.
    let through_client = 100e6 / 8.0 / FRAME as f64;
    Ok(vec![
        row(
            PIPELINE,
            "bytes",
            Ok(bytes),
            Reach::AtMost(results * 1.25 + 20_000.0),
            "results, a quarter of them for frames",
        ),
        row(PIPELINE_RATE, "frames/s", Ok(rate), Reach::AtLeast(2.0 * through_client), "twice what its link carries"),
    ])
}

fn many(bench: &Bench) -> Result<Vec<Row>, String> {
    let stub = stub(bench)?;
    let measure = |servers: usize, far: bool| -> Result<(f64, f64), String> {
        let mut fleet = Fleet::start(bench, &stub, servers, &|_| Vec::new(), &["--warm", "2"])?;
        if far {
            fleet.move_away(bench);
        }
        let (mut times, mut memory) = (Vec::new(), 0.0);
        for _ in 0..bench.rounds(5) {
            let mut probe = fleet.side.spawn("everywhere", "", false)?;
            times.push(probe.number()?);
            memory = probe.number()?;
            probe.end()?;
        }
        Ok((median(&mut times), memory))
    };
    let ((one, alone), (one_far, _)) = (measure(1, false)?, measure(1, true)?);
    let ((all, together), (all_far, _)) = (measure(MANY, false)?, measure(MANY, true)?);
    let each = (together - alone) / (MANY - 1) as f64 / 1e6;
    Ok(vec![
        row(MANY_TIME, "ms", Ok(all), Reach::AtMost(2.0 * one), "twice that of one"),
        row(MANY_FAR, "ms", Ok(all_far), Reach::AtMost(2.0 * one_far), "twice that of one, 10 ms away too"),
        row(MANY_MEMORY, "MB", Ok(each), Reach::AtMost(1.0), ""),
    ])
}
