//! The measured child processes. Each is this program again, with the environment that makes it native or remote.

use std::io::BufRead;

use ropeway_transport::Endpoint;

use crate::encrypted;
use crate::floor;
use crate::handed;
use crate::memory::Memory;
use crate::opencl::{Error, OpenCl};
use crate::orders::{answer, follow, monotonic};
use crate::pool;
use crate::spread::{self, Spread};
use crate::work::{self, Work};

/// Runs as the child that `args` describe: its kind, the platform filter, and one further argument.
pub fn run(args: &[String]) -> Result<(), Error> {
    let filter = args.get(1).map_or("", String::as_str);
    let extra = args.get(2).map_or("", String::as_str);
    match args.first().map_or("", String::as_str) {
        "handed" => handed::run(filter, extra),
        "floor" => floor::far_end(&endpoint(filter)?).map_err(|e| Error::wrong(format!("the floor's far end: {e}"))),
        "raw" => floor::by_itself(&endpoint(filter)?).map_err(|e| Error::wrong(format!("the raw link: {e}"))),
        "cold" => cold(filter),
        "start" => start(filter, extra),
        "load" => load(),
        "add" => work::vector_addition(filter, extra),
        "objects" => work::objects(filter, extra.parse().unwrap_or(0)),
        "replays" => work::replays(filter, extra.parse().unwrap_or(0)),
        "pool" => pool::run(filter, extra),
        "idle" => idle(filter),
        "without" => without(),
        "work" => obey(filter),
        "greedy" => encrypted::obey(filter),
        "everywhere" => spread::everywhere(filter),
        "once" => spread::once(filter, extra),
        "spread" => spread_obeys(filter),
        other => Err(Error::wrong(format!("there is no child '{other}'"))),
    }
}

fn endpoint(url: &str) -> Result<Endpoint, Error> {
    url.parse().map_err(|error| Error::wrong(format!("{error}")))
}

/// Tells how many milliseconds after `started` (the parent's clock just before it made this process) the first queue is
/// there.
fn start(filter: &str, started: &str) -> Result<(), Error> {
    let (_, context, queue) = work::first_queue(filter)?;
    let now = monotonic();
    let started: i128 = started.parse().map_err(|_| Error::wrong("no starting time"))?;
    // A queue only counts once it works.
    let buffer = context.buffer(4)?;
    let mut back = [0; 4];
    queue.write(&buffer, &[1, 2, 3, 4])?;
    queue.read(&buffer, &mut back)?;
    if back != [1, 2, 3, 4] {
        return Err(Error::wrong("the first queue gave wrong data"));
    }
    answer(&format!("{}", (now - started) as f64 / 1e6));
    Ok(())
}

/// Carries out the orders of `work` for bulk transfers, as a plain stream to the far end of a floor.
fn cold(far: &str) -> Result<(), Error> {
    let raw = |error: std::io::Error| Error::wrong(format!("the raw stream: {error}"));
    let mut stream = floor::Cold::at(&endpoint(far)?).map_err(raw)?;
    answer("ready");
    follow(|name, count, size| stream.measure(name, count, size).map_err(raw));
    Ok(())
}

/// Tells how many milliseconds it takes to load OpenCL and to list its platforms.
fn load() -> Result<(), Error> {
    let before = monotonic();
    let platforms = OpenCl::open()?.platforms()?;
    let after = monotonic();
    if platforms == 0 {
        return Err(Error::wrong("there is no platform"));
    }
    answer(&format!("{}", (after - before) as f64 / 1e6));
    Ok(())
}

/// Opens OpenCL, uses it a little, reports its resident memory and waits.
fn idle(filter: &str) -> Result<(), Error> {
    let mut work = Work::open(filter)?;
    work.measure("finish", 10, 0)?;
    work.measure("read-small", 10, 0)?;
    say_size_and_wait()
}

/// Does the same as `idle` where OpenCL has no platform to find.
fn without() -> Result<(), Error> {
    if OpenCl::open()?.platforms()? != 0 {
        return Err(Error::wrong("there is a platform where there should be none"));
    }
    say_size_and_wait()
}

fn say_size_and_wait() -> Result<(), Error> {
    let memory = Memory::of(std::process::id()).map_err(Error::wrong)?;
    answer(&format!("{}", memory.resident));
    wait_for_end();
    Ok(())
}

fn wait_for_end() {
    for line in std::io::stdin().lock().lines() {
        if line.is_err() {
            break;
        }
    }
}

/// Carries out the parent's orders on one device.
fn obey(filter: &str) -> Result<(), Error> {
    let mut work = Work::open(filter)?;
    let (name, has) = work.describe()?;
    answer(&format!("{} {name}", has.join(",")));
    follow(|name, count, size| work.measure(name, count, size));
    Ok(())
}

/// Carries out the parent's orders on all devices of a platform.
fn spread_obeys(filter: &str) -> Result<(), Error> {
    let spread = Spread::open(filter)?;
    answer(&spread.describe()?);
    follow(|name, count, size| spread.measure(name, count, size));
    Ok(())
}
