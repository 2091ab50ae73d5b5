//! The work that is timed: plain OpenCL, the same for native and for Ropeway.

use std::time::Instant;

use crate::median;
use crate::opencl::{Buffer, Context, Device, Error, Kernel, OpenCl, Program, Queue, Result};

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

fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

/// From nothing to the first queue.
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

    /// The device's name, and whether it is a GPU.
    pub fn describe(&self) -> Result<(String, bool)> {
        Ok((self.device.name()?, self.device.is_gpu()?))
    }

    /// Does `count` of what `name` says, on `size` bytes where that has a meaning. Returns the median, or the average
    /// where single ones cannot be told apart, in the unit that the table gives for it.
    pub fn measure(&mut self, name: &str, count: usize, size: usize) -> Result<f64> {
        match name {
            "finish" => self.kernel_and_finish(count),
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
            // The value changes, so that no copy kept anywhere will do.
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
        // First use takes memory at both ends, which is not what is measured.
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
        // Whoever returns early pays for the rest here.
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
}

/// A whole program that adds two vectors. `mark` goes into its source, so that a new one has not been built before.
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
