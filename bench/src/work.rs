//! The work that is timed: plain OpenCL, the same for native and for Ropeway.

use std::time::Instant;

use opencl_sys::{CL_MAP_READ, CL_MAP_WRITE};

use crate::median::median;
use crate::opencl::{Buffer, Context, Device, Error, Kernel, OpenCl, Program, Queue, Result};
use crate::timed;

/// Kernels whose results show whether what was timed was also done.
const SOURCE: &str = "
kernel void noop(void) {}
kernel void inc(global int *p) { p[get_global_id(0)] += 1; }
kernel void acc(global uint *p, int v) { p[0] = p[0] * 31u + (uint)v; }
kernel void chain(global int *p, int i) { if (p[0] == i) p[0] = i + 1; }
";

const ADD: &str = "
kernel void add(global const float *a, global const float *b, global float *c) {
    size_t i = get_global_id(0);
    c[i] = a[i] + b[i];
}
";

/// A list in shared virtual memory: each node is the next one's address and a number.
const CHASE: &str = "
kernel void chase(global const ulong *node, global uint *sum) {
    uint total = 0;
    for (; node; node = (global const ulong *)(size_t)node[0]) total += (uint)node[1];
    sum[0] = total;
}
";

/// A program that has OpenCL open, ready to do any of the work.
pub struct Work {
    device: Device,
    context: Context,
    queue: Queue,
    program: Program,
    noop: Kernel,
    bulk: Option<Bulk>,
}

/// A buffer with the host memory that goes with it.
struct Bulk {
    buffer: Buffer,
    source: Vec<u8>,
    back: Vec<u8>,
}

fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::wrong(what))
}

/// Takes what the device has put into the first word in this turn, and leaves the turn in the last one. Returns whether both
/// were as they should be.
fn exchange<T: From<u32> + PartialEq>(words: &mut [T], turn: u32) -> bool {
    let first = words.first_mut().map(|first| std::mem::replace(first, 0.into()));
    let last = words.last_mut().map(|last| std::mem::replace(last, turn.into()));
    (first, last) == (Some(turn.into()), Some((turn - 1).into()))
}

fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

/// Does all that comes before the first queue, and returns it with its device and context.
pub fn first_queue(filter: &str) -> Result<(Device, Context, Queue)> {
    let device = OpenCl::open()?.device(filter)?;
    let context = device.context()?;
    let queue = context.queue(&device, false)?;
    Ok((device, context, queue))
}

impl Work {
    /// Opens OpenCL on the first platform that matches `filter`.
    pub fn open(filter: &str) -> Result<Self> {
        let (device, context, queue) = first_queue(filter)?;
        let program = context.program(&device, SOURCE)?;
        let noop = program.kernel("noop")?;
        Ok(Self { device, context, queue, program, noop, bulk: None })
    }

    /// The device's name, and what it is or has: `gpu`, `recording` (command buffers), `svm`.
    pub fn describe(&self) -> Result<(String, Vec<&'static str>)> {
        let device = &self.device;
        let known = [("gpu", device.is_gpu()?), ("recording", device.records()?), ("svm", device.has_svm()?)];
        Ok((device.name()?, known.into_iter().filter_map(|(what, has)| has.then_some(what)).collect()))
    }

    /// Carries out the work `name` `count` times, on `size` bytes where that has a meaning. Returns the median, or the
    /// average where single runs cannot be told apart, in the unit that the table gives for it.
    pub fn measure(&mut self, name: &str, count: usize, size: usize) -> Result<f64> {
        match name {
            "finish" => self.kernel_and_finish(count),
            "asked" => timed::asked(&self.context, &self.device, &self.noop, count, false),
            "polled" => timed::asked(&self.context, &self.device, &self.noop, count, true),
            "tuner" => timed::tuner(&self.context, &self.device, size),
            "setarg" => self.set_and_enqueue(count),
            "rate" => self.kernels_per_second(count),
            "chain" => self.event_chain(count),
            "write-small" => self.small_writes(count),
            "read-small" => self.small_reads(count),
            "write" => self.write_bandwidth(count, size),
            "read" => self.read_bandwidth(count, size),
            "buffer" => self.create_buffers(count),
            "kernel" => self.create_kernels(count),
            "build" => self.build_again(count),
            "replay" => self.replays(count, size),
            "one-by-one" => self.launches(count, size),
            "map" => self.buffer_maps(count, size),
            "svm-map" => self.svm_maps(count, size),
            "svm-change" => self.svm_changing_maps(count, size),
            "svm-list" => self.svm_list(count, size),
            _ => wrong(format!("nothing is called '{name}'")),
        }
    }

    fn kernel_and_finish(&self, count: usize) -> Result<f64> {
        let mut times = Vec::with_capacity(count);
        for i in 0..count + count / 10 {
            let start = Instant::now();
            self.queue.launch(&self.noop, 1)?;
            self.queue.finish()?;
            if i >= count / 10 {
                times.push(micros(start));
            }
        }
        Ok(median(&mut times))
    }

    fn set_and_enqueue(&self, count: usize) -> Result<f64> {
        let kernel = self.program.kernel("acc")?;
        let buffer = self.context.buffer(4)?;
        kernel.set_buffer(0, &buffer)?;
        self.queue.write(&buffer, &[0; 4])?;
        self.queue.finish()?;
        let start = Instant::now();
        for i in 0..count {
            kernel.set_int(1, i as i32)?;
            self.queue.launch(&kernel, 1)?;
        }
        let time = micros(start) / count as f64;
        self.queue.finish()?;
        let mut have = [0; 4];
        self.queue.read(&buffer, &mut have)?;
        let want = (0..count).fold(0_u32, |n, i| n.wrapping_mul(31).wrapping_add(i as u32));
        if u32::from_ne_bytes(have) != want {
            return wrong("the kernels saw other arguments than were set");
        }
        Ok(time)
    }

    fn kernels_per_second(&self, count: usize) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..count {
            self.queue.launch(&self.noop, 1)?;
        }
        self.queue.finish()?;
        Ok(count as f64 / start.elapsed().as_secs_f64())
    }

    fn event_chain(&self, count: usize) -> Result<f64> {
        let queue = self.context.queue(&self.device, true)?;
        let kernel = self.program.kernel("chain")?;
        let buffer = self.context.buffer(4)?;
        kernel.set_buffer(0, &buffer)?;
        self.queue.write(&buffer, &[0; 4])?;
        self.queue.finish()?;
        let mut events = Vec::with_capacity(count);
        let start = Instant::now();
        for i in 0..count {
            kernel.set_int(1, i as i32)?;
            events.push(queue.launch_after(&kernel, events.last())?);
        }
        queue.flush()?;
        events.last().map_or(Ok(()), |last| last.wait())?;
        let time = micros(start) / count as f64;
        let mut have = [0; 4];
        self.queue.read(&buffer, &mut have)?;
        if i32::from_ne_bytes(have) != count as i32 {
            return wrong("the chain ran out of order");
        }
        Ok(time)
    }

    fn small_writes(&self, count: usize) -> Result<f64> {
        let buffer = self.context.buffer(4)?;
        let mut times = Vec::with_capacity(count);
        for i in 0..count + count / 10 {
            let bytes = (i as u32).to_ne_bytes();
            let start = Instant::now();
            self.queue.write(&buffer, &bytes)?;
            let time = micros(start);
            if i >= count / 10 {
                times.push(time);
            }
            if i % 64 == 0 {
                let mut have = [0; 4];
                self.queue.read(&buffer, &mut have)?;
                if have != bytes {
                    return wrong("a small write does not read back");
                }
            }
        }
        self.queue.finish()?;
        Ok(median(&mut times))
    }

    fn small_reads(&self, count: usize) -> Result<f64> {
        let buffer = self.context.buffer(4)?;
        let kernel = self.program.kernel("inc")?;
        kernel.set_buffer(0, &buffer)?;
        self.queue.write(&buffer, &[0; 4])?;
        let mut times = Vec::with_capacity(count);
        for i in 0..count + count / 10 {
            // The value changes, so that no cached copy can serve the read.
            self.queue.launch(&kernel, 1)?;
            self.queue.finish()?;
            let mut have = [0; 4];
            let start = Instant::now();
            self.queue.read(&buffer, &mut have)?;
            let time = micros(start);
            if i >= count / 10 {
                times.push(time);
            }
            if i32::from_ne_bytes(have) != i as i32 + 1 {
                return wrong("a small read gave an old value");
            }
        }
        Ok(median(&mut times))
    }

    /// The buffer for bulk transfers of `size` bytes.
    fn bulk(&mut self, size: usize) -> Result<()> {
        if self.bulk.as_ref().is_some_and(|bulk| bulk.source.len() == size) {
            return Ok(());
        }
        self.bulk = None;
        let source: Vec<u8> = (0..size).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let bulk = Bulk { buffer: self.context.buffer(size)?, back: vec![1; size], source };
        // The first use allocates memory at both ends, which is not to be measured.
        self.queue.write(&bulk.buffer, &bulk.source)?;
        self.queue.finish()?;
        self.bulk = Some(bulk);
        Ok(())
    }

    fn write_bandwidth(&mut self, count: usize, size: usize) -> Result<f64> {
        self.bulk(size)?;
        let Some(bulk) = &mut self.bulk else { return wrong("no buffer") };
        let start = Instant::now();
        for _ in 0..count {
            bulk.source[0] = bulk.source[0].wrapping_add(1);
            self.queue.write(&bulk.buffer, &bulk.source)?;
        }
        // An implementation whose writes return early pays for the rest here.
        self.queue.finish()?;
        let time = start.elapsed().as_secs_f64();
        self.queue.read(&bulk.buffer, &mut bulk.back)?;
        if bulk.back != bulk.source {
            return wrong("what was written does not read back");
        }
        Ok((size * count) as f64 / time / 1e6)
    }

    fn read_bandwidth(&mut self, count: usize, size: usize) -> Result<f64> {
        self.bulk(size)?;
        let Some(bulk) = &mut self.bulk else { return wrong("no buffer") };
        let kernel = self.program.kernel("inc")?;
        kernel.set_buffer(0, &bulk.buffer)?;
        self.queue.write(&bulk.buffer, &bulk.source)?;
        let mut rates = Vec::with_capacity(count);
        for _ in 0..count {
            self.queue.launch(&kernel, 1)?;
            self.queue.finish()?;
            let start = Instant::now();
            self.queue.read(&bulk.buffer, &mut bulk.back)?;
            rates.push(size as f64 / start.elapsed().as_secs_f64() / 1e6);
            if let Some(first) = bulk.source.first_chunk_mut::<4>() {
                *first = i32::from_ne_bytes(*first).wrapping_add(1).to_ne_bytes();
            }
            if bulk.back != bulk.source {
                return wrong("a read gave wrong data");
            }
        }
        Ok(median(&mut rates))
    }

    fn create_buffers(&self, count: usize) -> Result<f64> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            drop(self.context.buffer(4096)?);
            times.push(micros(start));
        }
        self.queue.finish()?;
        Ok(median(&mut times))
    }

    fn create_kernels(&self, count: usize) -> Result<f64> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            drop(self.program.kernel("inc")?);
            times.push(micros(start));
        }
        self.queue.finish()?;
        Ok(median(&mut times))
    }

    fn build_again(&self, count: usize) -> Result<f64> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            let program = self.context.program(&self.device, SOURCE)?;
            drop(program.kernel("noop")?);
            times.push(micros(start) / 1e3);
        }
        Ok(median(&mut times))
    }

    /// Records `kernels` launches and replays them, each time with a clFinish.
    fn replays(&self, count: usize, kernels: usize) -> Result<f64> {
        let (kernel, buffer) = self.counter()?;
        let recorded = self.device.record(&self.queue, &kernel, kernels)?;
        self.repeat(count, kernels, &buffer, || recorded.replay())
    }

    /// Does the same with single launches, where nothing can be recorded.
    fn launches(&self, count: usize, kernels: usize) -> Result<f64> {
        let (kernel, buffer) = self.counter()?;
        self.repeat(count, kernels, &buffer, || (0..kernels).try_for_each(|_| self.queue.launch(&kernel, 1)))
    }

    /// A kernel that adds one to a buffer that holds 0.
    fn counter(&self) -> Result<(Kernel, Buffer)> {
        let (kernel, buffer) = (self.program.kernel("inc")?, self.context.buffer(4)?);
        kernel.set_buffer(0, &buffer)?;
        self.queue.write(&buffer, &[0; 4])?;
        self.queue.finish()?;
        Ok((kernel, buffer))
    }

    fn repeat(&self, count: usize, kernels: usize, buffer: &Buffer, run: impl Fn() -> Result<()>) -> Result<f64> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            run()?;
            self.queue.finish()?;
            times.push(micros(start));
        }
        let mut have = [0; 4];
        self.queue.read(buffer, &mut have)?;
        if i32::from_ne_bytes(have) != (count * kernels) as i32 {
            return wrong("not every kernel ran once for each time");
        }
        // The first run is left out: implementations may still prepare something in it.
        Ok(median(times.get_mut(1..).unwrap_or_default()))
    }

    fn buffer_maps(&self, count: usize, size: usize) -> Result<f64> {
        let kernel = self.program.kernel("acc")?;
        let mut buffer = self.context.buffer_to_map(size)?;
        kernel.set_buffer(0, &buffer)?;
        self.queue.map_buffer(&mut buffer, size, |words| words.fill(0))?;
        self.changing_maps(count, &kernel, |turn| {
            self.queue.map_buffer(&mut buffer, size, |words| exchange(words, turn))
        })
    }

    fn svm_changing_maps(&self, count: usize, size: usize) -> Result<f64> {
        let kernel = self.program.kernel("acc")?;
        let mut memory = self.context.svm(size)?;
        kernel.set_svm(0, &memory)?;
        self.queue.map(&mut memory, CL_MAP_WRITE, |words| words.fill(0))?;
        let both = CL_MAP_READ | CL_MAP_WRITE;
        self.changing_maps(count, &kernel, |turn| self.queue.map(&mut memory, both, |words| exchange(words, turn)))
    }

    /// The time of a map and unmap in which `exchange` takes place. `kernel` changes the same memory.
    fn changing_maps(
        &self,
        count: usize,
        kernel: &Kernel,
        mut exchange: impl FnMut(u32) -> Result<bool>,
    ) -> Result<f64> {
        let mut times = Vec::with_capacity(count);
        for turn in 1..=count as u32 {
            // The contents change at both sides, so that no copy of them can serve the map.
            kernel.set_int(1, turn.cast_signed())?;
            self.queue.launch(kernel, 1)?;
            self.queue.finish()?;
            let start = Instant::now();
            let is_right = exchange(turn)?;
            times.push(micros(start));
            if !is_right {
                return wrong("mapped memory has old values");
            }
        }
        self.queue.finish()?;
        Ok(median(&mut times))
    }

    fn svm_maps(&self, count: usize, size: usize) -> Result<f64> {
        let kernel = self.program.kernel("inc")?;
        let mut memory = self.context.svm(size)?;
        kernel.set_svm(0, &memory)?;
        self.queue.map(&mut memory, CL_MAP_WRITE, |words| words.fill(0))?;
        let mut times = Vec::with_capacity(count);
        for i in 1..=count as u64 {
            // The contents change, so that no cached copy can serve the map.
            self.queue.launch(&kernel, size / 4)?;
            self.queue.finish()?;
            let start = Instant::now();
            let last = self.queue.map(&mut memory, CL_MAP_READ, |words| words.last().copied())?;
            times.push(micros(start));
            if last != Some(i << 32 | i) {
                return wrong("mapped memory has old values");
            }
        }
        self.queue.finish()?;
        Ok(median(&mut times))
    }

    fn svm_list(&self, count: usize, nodes: usize) -> Result<f64> {
        let kernel = self.context.program(&self.device, CHASE)?.kernel("chase")?;
        let sum = self.context.buffer(4)?;
        let mut memory = self.context.svm(nodes * 16)?;
        self.queue.map(&mut memory, CL_MAP_WRITE, |words| {
            let start = words.as_ptr() as u64;
            // Every node is visited once, in an order that defeats sequential prefetching.
            let place = |at: usize| at * 7919 % nodes;
            for at in 0..nodes {
                let next = if at + 1 < nodes { start + place(at + 1) as u64 * 16 } else { 0 };
                if let Some(node) = words.chunks_exact_mut(2).nth(place(at)) {
                    node.copy_from_slice(&[next, at as u64]);
                }
            }
        })?;
        kernel.set_svm(0, &memory)?;
        kernel.set_buffer(1, &sum)?;
        let mut times = Vec::with_capacity(count);
        for i in 0..=count {
            let start = Instant::now();
            self.queue.launch(&kernel, 1)?;
            self.queue.finish()?;
            if i > 0 {
                times.push(micros(start));
            }
        }
        let mut have = [0; 4];
        self.queue.read(&sum, &mut have)?;
        if u32::from_ne_bytes(have) != (0..nodes).fold(0_u32, |sum, at| sum.wrapping_add(at as u32)) {
            return wrong("the device lost its way in the list");
        }
        Ok(median(&mut times))
    }
}

/// Runs a whole program that adds two vectors. `mark` goes into its source, so that a program with a new `mark` has not
/// been built before.
pub fn vector_addition(filter: &str, mark: &str) -> Result<()> {
    let (device, context, queue) = first_queue(filter)?;
    let a: Vec<f32> = (0..1024).map(|i| i as f32).collect();
    let bytes: Vec<u8> = a.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let buffers = [context.buffer(bytes.len())?, context.buffer(bytes.len())?, context.buffer(bytes.len())?];
    queue.write(&buffers[0], &bytes)?;
    queue.write(&buffers[1], &bytes)?;
    let kernel = context.program(&device, &format!("// {mark}\n{ADD}"))?.kernel("add")?;
    for (index, buffer) in buffers.iter().enumerate() {
        kernel.set_buffer(index as u32, buffer)?;
    }
    queue.launch(&kernel, a.len())?;
    let mut sum = vec![0; bytes.len()];
    queue.read(&buffers[2], &mut sum)?;
    let right = sum.chunks_exact(4).zip(&a).all(|(have, x)| have == (x + x).to_ne_bytes());
    if right { Ok(()) } else { wrong("the sum of two vectors is wrong") }
}

/// Creates and releases `count` buffers and kernels.
pub fn objects(filter: &str, count: usize) -> Result<()> {
    let work = Work::open(filter)?;
    work.create_buffers(count)?;
    work.create_kernels(count)?;
    Ok(())
}

/// Replays a recording `count` times, with one clFinish.
pub fn replays(filter: &str, count: usize) -> Result<()> {
    let work = Work::open(filter)?;
    let recorded = work.device.record(&work.queue, &work.noop, 100)?;
    (0..count).try_for_each(|_| recorded.replay())?;
    work.queue.finish()
}
