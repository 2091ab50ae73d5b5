//! Clients with weights on one device: how exactly its time is shared, and what that costs who is alone.

use std::time::{Duration, Instant};

use super::served::Encrypted;
use crate::median::median;
use crate::opencl::{Buffer, Error, Event, Kernel, Queue, Result};
use crate::orders::{answer, follow};
use crate::process::{Probe, Side};
use crate::setup::Bench;
use crate::table::{Reach, Row};
use crate::work::first_queue;

const WEIGHTS: [u32; 3] = [1, 2, 4];

/// For how long all of them want the device, in milliseconds.
const SHARED_MS: u32 = 10_000;

const SHARES: &str = "device time by weights 1:2:4, furthest from its share";

/// What a client alone is asked for, with a weight and without: figure, unit, order.
const ALONE: [(&str, &str, &str); 2] = [
    ("alone with a weight: empty kernel and clFinish", "us", "finish 400"),
    ("alone with a weight: empty kernels, pipelined", "1/s", "rate 5000"),
];

const SPIN: &str = "
kernel void spin(global uint *p, int rounds) {
    uint v = p[0] + (uint)get_global_id(0);
    for (int i = 0; i < rounds; i++) v = v * 1664525u + (v >> 7 ^ (uint)i);
    if (v == 12345u) p[0] = v;
}
";

/// The items of a kernel.
const ITEMS: usize = 4096;

/// The kernels of a batch, two of which are on their way at any time.
const BATCH: usize = 8;

/// A program that wants more of the device than it can have.
struct Greedy {
    queue: Queue,
    spin: Kernel,
    _buffer: Buffer,
}

impl Greedy {
    fn open(filter: &str) -> Result<Self> {
        let (device, context, queue) = first_queue(filter)?;
        let spin = context.program(&device, SPIN)?.kernel("spin")?;
        let buffer = context.buffer(4)?;
        spin.set_buffer(0, &buffer)?;
        queue.write(&buffer, &[0; 4])?;
        Ok(Self { queue, spin, _buffer: buffer })
    }

    fn measure(&self, order: &str, count: usize, size: usize) -> Result<f64> {
        match order {
            "rounds" => self.rounds(),
            "share" => self.share(Duration::from_millis(count as u64), size as i32),
            _ => Err(Error::wrong(format!("nothing is called '{order}'"))),
        }
    }

    /// So many rounds take about a millisecond, by the fastest of some runs: others may use the machine.
    fn rounds(&self) -> Result<f64> {
        let mut rounds = 64;
        loop {
            self.spin.set_int(1, rounds)?;
            let mut took = f64::INFINITY;
            for _ in 0..7 {
                let begun = Instant::now();
                self.queue.launch(&self.spin, ITEMS)?;
                self.queue.finish()?;
                took = took.min(begun.elapsed().as_secs_f64());
            }
            if took > 4e-3 || rounds > i32::MAX / 4 {
                return Ok((f64::from(rounds) * 1e-3 / took).ceil());
            }
            rounds *= 2;
        }
    }

    /// How many kernels it gets in that time.
    fn share(&self, time: Duration, rounds: i32) -> Result<f64> {
        self.spin.set_int(1, rounds)?;
        let mut ends: [Option<Event>; 2] = [None, None];
        let (begun, mut done) = (Instant::now(), 0);
        for batch in 0.. {
            if let Some(end) = ends[batch % 2].take() {
                end.wait()?;
                if begun.elapsed() >= time {
                    break;
                }
                done += BATCH;
            }
            for _ in 1..BATCH {
                self.queue.launch(&self.spin, ITEMS)?;
            }
            ends[batch % 2] = Some(self.queue.launch_with_event(&self.spin, ITEMS, None)?);
            self.queue.flush()?;
        }
        self.queue.finish()?;
        Ok(done as f64)
    }
}

/// Carries out the parent's orders.
pub fn obey(filter: &str) -> Result<()> {
    let greedy = Greedy::open(filter)?;
    answer("ready");
    follow(|name, count, size| greedy.measure(name, count, size));
    Ok(())
}

fn begin(side: &Side) -> std::result::Result<Probe, String> {
    let mut probe = side.spawn("greedy", "", false)?;
    probe.answer()?;
    Ok(probe)
}

/// Measures the wanted rows; a failure becomes the error of its row.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    let wants = |figure: &str| figure.contains(&bench.only);
    if !wants(SHARES) && !ALONE.iter().any(|(figure, ..)| wants(figure)) {
        return Vec::new();
    }
    let encrypted = Encrypted::start(bench, "weights");
    let mut rows = Vec::new();
    if wants(SHARES) {
        say(SHARES);
        let furthest = encrypted.as_ref().map_err(Clone::clone).and_then(|encrypted| shares(bench, encrypted));
        rows.push(Row::without_floor(SHARES, "%", furthest, None, Reach::AtMost(5.0), ""));
    }
    for (figure, unit, order) in ALONE.into_iter().filter(|(figure, ..)| wants(figure)) {
        say(figure);
        let figures = encrypted.as_ref().map_err(Clone::clone).and_then(|encrypted| alone(bench, encrypted, order));
        let reach = match &figures {
            Err(_) => Reach::Stated,
            Ok((_, without)) if unit == "us" => Reach::AtMost(without * 1.02),
            Ok((_, without)) => Reach::AtLeast(without * 0.98),
        };
        let without = figures.as_ref().ok().map(|(_, without)| *without);
        let rule = "within 2 % of no weight; \"native\" is without";
        rows.push(Row::without_floor(figure, unit, figures.map(|(with, _)| with), without, reach, rule));
    }
    rows
}

/// By how many percent of its share the one who is furthest from that has more or less.
fn shares(bench: &Bench, encrypted: &Encrypted) -> std::result::Result<f64, String> {
    let sides = WEIGHTS.map(|weight| encrypted.with_weight(bench, &format!("shares-{weight}"), weight));
    let mut clients = sides.into_iter().map(|side| begin(&side?)).collect::<std::result::Result<Vec<_>, _>>()?;
    let rounds = clients[0].ask("rounds")?;
    clients.iter_mut().for_each(|client| client.order(&format!("share {SHARED_MS} {rounds}")));
    let counts = clients.iter_mut().map(Probe::number).collect::<std::result::Result<Vec<_>, _>>()?;
    let (all, weights) = (counts.iter().sum::<f64>(), f64::from(WEIGHTS.iter().sum::<u32>()));
    let off = counts.iter().zip(WEIGHTS).map(|(count, weight)| count / all * weights / f64::from(weight) - 1.0);
    Ok(off.map(|off| off.abs() * 100.0).fold(0.0, f64::max))
}

/// Medians with a weight and without one, by turns.
fn alone(bench: &Bench, encrypted: &Encrypted, order: &str) -> std::result::Result<(f64, f64), String> {
    let mut with = encrypted.with_weight(bench, &format!("alone-{}", order.len()), 3)?.begin()?;
    let mut without = encrypted.side.begin()?;
    let [mut in_turns, mut free] = [const { Vec::new() }; 2];
    for _ in 0..bench.rounds(21) {
        in_turns.push(with.ask(order)?);
        free.push(without.ask(order)?);
    }
    Ok((median(&mut in_turns), median(&mut free)))
}
