//! The work that is timed on several devices in one context: plain OpenCL, wherever the devices are.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::opencl::{Buffer, Context, Device, Error, Event, Kernel, OpenCl, Program, Queue, Result};
use crate::orders::{answer, parse};

/// Edge of the squares that the matrix product goes by.
const TILE: usize = 16;

/// By how much the elements of the left and of the right operand grow from row to row.
const LEFT: usize = 3;
const RIGHT: usize = 5;

/// A program of its own: NVIDIA 580 does not compile a program that has a kernel without arguments if it must report
/// how arguments are declared, and the kernels then count as writing all of their arguments.
const NOOP: &str = "kernel void noop(void) {}";

const SOURCE: &str = "
kernel void inc(global int *p) { p[get_global_id(0)] += 1; }
kernel void number(global uint *p, uint by) { p[get_global_id(0)] = (uint)get_global_id(0) * by; }
kernel void fold(global const uint *p, global uint *sums, uint each) {
    size_t i = get_global_id(0);
    uint sum = 0;
    for (uint k = 0; k < each; k++) sum += p[i * each + k];
    sums[i] = sum;
}
kernel void fill(global float *p, int n, int by) {
    int j = get_global_id(0), i = get_global_id(1);
    p[i * n + j] = (float)((i * by + j * 7) % 23) - 11;
}
kernel void product(global const float *a, global const float *b, global float *c, int n) {
    local float left[16][16], right[16][16];
    int j = get_global_id(0), i = get_global_id(1), x = get_local_id(0), y = get_local_id(1);
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[y][x] = a[i * n + k + x];
        right[y][x] = b[(k + y) * n + j];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int t = 0; t < 16; t++) sum += left[y][t] * right[t][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[i * n + j] = sum;
}
";

/// All devices of a platform in one context, with a queue on each.
pub struct Spread {
    devices: Vec<Device>,
    queues: Vec<Queue>,
    context: Context,
    program: Program,
    /// The two devices between which data goes to and fro.
    pair: Cell<[usize; 2]>,
}

fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::wrong(what))
}

fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

impl Spread {
    /// Opens all devices of the first platform that matches `filter`.
    pub fn open(filter: &str) -> Result<Self> {
        Self::on(OpenCl::open()?.devices(filter)?)
    }

    fn on(devices: Vec<Device>) -> Result<Self> {
        let context = Context::of(&devices)?;
        let queues = devices.iter().map(|device| context.queue(device, false)).collect::<Result<_>>()?;
        let program = context.program_everywhere(SOURCE)?;
        Ok(Self { devices, queues, context, program, pair: Cell::new([0, 1]) })
    }

    /// How many devices there are, and the first one's name.
    pub fn describe(&self) -> Result<String> {
        let first = self.devices.first().ok_or_else(|| Error::wrong("there is no device"))?;
        Ok(format!("{} {}", self.devices.len(), first.name()?))
    }

    /// Carries out the order `name` `count` times, on `size` bytes, or with `size` as the number that the order takes.
    pub fn measure(&self, name: &str, count: usize, size: usize) -> Result<f64> {
        match name {
            "pair" => {
                self.pair.set([count, size]);
                Ok(0.0)
            }
            "hops" => self.hops(count, 4, 1),
            "bounce" => self.bounce(count, size),
            "signals" => self.signals(count, size.clamp(1, self.queues.len())),
            "product" => self.product(count, size.clamp(1, self.queues.len())),
            "products" => self.products(count, size),
            "pipeline" => self.pipeline(count, size),
            "nothing" => Ok(0.0),
            _ => wrong(format!("nothing is called '{name}'")),
        }
    }

    fn queue(&self, index: usize) -> &Queue {
        &self.queues[index % self.queues.len()]
    }

    /// Lets the two devices of the pair change a buffer in turn, `items` numbers of it each time; returns the microseconds
    /// for each turn.
    fn hops(&self, count: usize, size: usize, items: usize) -> Result<f64> {
        let buffer = self.context.buffer(size)?;
        let kernel = self.program.kernel("inc")?;
        kernel.set_buffer(0, &buffer)?;
        // Bytes that were never written do not move.
        let pair = self.pair.get();
        let zero = self.program.kernel("number")?;
        zero.set_buffer(0, &buffer)?;
        zero.set_int(1, 0)?;
        self.queue(pair[0]).launch(&zero, size / 4)?;
        self.queue(pair[0]).finish()?;
        let both = self.queues.len().min(2);
        // The first turns make the connections between servers, before anything is measured.
        let warm = 2 * both;
        let mut last = None;
        let mut begin = Instant::now();
        for turn in 0..count + warm {
            if turn == warm {
                last.as_ref().map_or(Ok(()), Event::wait)?;
                begin = Instant::now();
            }
            let queue = self.queue(pair[turn % both]);
            let next = queue.launch_with_event(&kernel, items, last.as_ref())?;
            queue.flush()?;
            last = Some(next);
        }
        last.as_ref().map_or(Ok(()), Event::wait)?;
        let time = micros(begin) / count as f64;
        let mut have = [0; 4];
        self.queue(pair[(count + warm) % both]).read(&buffer, &mut have)?;
        if i32::from_ne_bytes(have) as usize != count + warm {
            return wrong(format!("{} increments came to {}", count + warm, i32::from_ne_bytes(have)));
        }
        Ok(time)
    }

    /// Lets two devices in turn change four bytes of a buffer of `size` bytes; returns MB/s.
    fn bounce(&self, count: usize, size: usize) -> Result<f64> {
        Ok(size as f64 / self.hops(count, size, 1)?)
    }

    /// Launches kernels on one device after the other, each waiting for the previous one; returns the microseconds for
    /// each.
    fn signals(&self, count: usize, over: usize) -> Result<f64> {
        let kernel = self.context.program_everywhere(NOOP)?.kernel("noop")?;
        let mut last: Option<Event> = None;
        let mut begin = Instant::now();
        for turn in 0..count + 2 * over {
            if turn == 2 * over {
                last.as_ref().map_or(Ok(()), Event::wait)?;
                begin = Instant::now();
            }
            let queue = &self.queues[turn % over];
            let next = queue.launch_after(&kernel, last.as_ref())?;
            queue.flush()?;
            last = Some(next);
        }
        last.map_or(Ok(()), |last| last.wait())?;
        Ok(micros(begin) / count as f64)
    }

    /// Two operands of n x n floats, made on the queue's device, and room for their product.
    fn matrices(&self, queue: &Queue, n: usize) -> Result<[Buffer; 3]> {
        let fill = self.program.kernel("fill")?;
        let all = [self.context.buffer(n * n * 4)?, self.context.buffer(n * n * 4)?, self.context.buffer(n * n * 4)?];
        for (matrix, by) in all.iter().zip([LEFT, RIGHT]) {
            fill.set_buffer(0, matrix)?;
            fill.set_int(1, n as i32)?;
            fill.set_int(2, by as i32)?;
            queue.launch_plane(&fill, [n, n], None, &[])?;
        }
        queue.finish()?;
        Ok(all)
    }

    /// Computes a matrix product of n x n floats whose rows are split over some devices; returns the seconds from the
    /// operands on the first device to the whole product there.
    fn product(&self, n: usize, over: usize) -> Result<f64> {
        let rows = n / over;
        if !n.is_multiple_of(over * TILE) {
            return wrong(format!("{n} rows cannot be split over {over} devices"));
        }
        let [a, b, c] = self.matrices(&self.queues[0], n)?;
        let blocks = |whole: &Buffer| -> Result<Vec<Buffer>> {
            (0..over).map(|block| whole.part(block * rows * n * 4, rows * n * 4)).collect()
        };
        let (a_blocks, c_blocks) = (blocks(&a)?, blocks(&c)?);
        let kernels: Vec<Kernel> = (0..over).map(|_| self.program.kernel("product")).collect::<Result<_>>()?;
        self.queues.iter().try_for_each(Queue::finish)?;
        let begin = Instant::now();
        let mut done = Vec::new();
        // The first device begins last, so that the transfers to the other devices are already under way.
        for block in (0..over).rev() {
            let kernel = &kernels[block];
            kernel.set_buffer(0, &a_blocks[block])?;
            kernel.set_buffer(1, &b)?;
            kernel.set_buffer(2, &c_blocks[block])?;
            kernel.set_int(3, n as i32)?;
            done.push(self.queues[block].launch_plane(kernel, [n, rows], Some([TILE, TILE]), &[])?);
            self.queues[block].flush()?;
        }
        let gathered =
            self.queues[0].migrate(&c_blocks.iter().collect::<Vec<_>>(), &done.iter().collect::<Vec<_>>())?;
        gathered.wait()?;
        // NVIDIA's driver calls a migration to where the memory is complete at once, whatever it was to wait for.
        done.iter().try_for_each(Event::wait)?;
        let time = begin.elapsed().as_secs_f64();
        let mut out = vec![0; n * n * 4];
        self.queues[0].read(&c, &mut out)?;
        let stub = self.describe()?.ends_with(", stub");
        for (i, j) in (0..4 * over).map(|at| (at * n / (4 * over) + at % 7, (at * 7919) % n)) {
            let at = (i * n + j) * 4;
            let have = f32::from_ne_bytes([out[at], out[at + 1], out[at + 2], out[at + 3]]);
            let in_block = i % rows;
            let want: f32 = if stub {
                element(i, j, LEFT) + element((4 * in_block + j % 4) % n, j, RIGHT)
            } else {
                (0..n).map(|k| element(i, k, LEFT) * element(k, j, RIGHT)).sum()
            };
            if (have - want).abs() > 1e-3 * want.abs().max(1.0) {
                return wrong(format!("element ({i}, {j}) of the product is {have} and should be {want}"));
            }
        }
        Ok(time)
    }

    /// Computes a matrix product of n x n floats `count` times in a row on the first device, with operands that are made
    /// there; returns the seconds for all of them.
    fn products(&self, count: usize, n: usize) -> Result<f64> {
        let queue = self.queue(0);
        let [a, b, c] = self.matrices(queue, n)?;
        let kernel = self.program.kernel("product")?;
        kernel.set_buffer(0, &a)?;
        kernel.set_buffer(1, &b)?;
        kernel.set_buffer(2, &c)?;
        kernel.set_int(3, n as i32)?;
        let begin = Instant::now();
        for _ in 0..count {
            queue.launch_plane(&kernel, [n, n], Some([TILE, TILE]), &[])?;
        }
        queue.finish()?;
        let time = begin.elapsed().as_secs_f64();
        let mut have = [0; 4];
        queue.read(&c, &mut have)?;
        let have = f32::from_ne_bytes(have);
        let want: f32 = (0..n).map(|k| element(0, k, LEFT) * element(k, 0, RIGHT)).sum();
        if (have - want).abs() > 1e-3 * want.abs().max(1.0) && !self.describe()?.ends_with(", stub") {
            return wrong(format!("the first element of a product is {have} and should be {want}"));
        }
        Ok(time)
    }

    /// Makes `frames` of `size` bytes on the first device, reduces them to 1/256 on the second and reads the results;
    /// returns the frames for each second.
    fn pipeline(&self, frames: usize, size: usize) -> Result<f64> {
        let (items, results) = (size / 4, size / 1024);
        let (number, fold) = (self.program.kernel("number")?, self.program.kernel("fold")?);
        let frame = [self.context.buffer(size)?, self.context.buffer(size)?];
        let result = [self.context.buffer(results * 4)?, self.context.buffer(results * 4)?];
        let (first, second) = (self.queue(0), self.queue(1));
        let mut filtered: [Option<Event>; 2] = [None, None];
        let mut back = vec![0; results * 4];
        let mut check = |n: usize, queue: &Queue| -> Result<()> {
            queue.read(&result[n % 2], &mut back)?;
            let have = u32::from_ne_bytes([back[0], back[1], back[2], back[3]]);
            let want = (0..256_u32).sum::<u32>() * (n as u32 + 1);
            if have == want { Ok(()) } else { wrong(format!("frame {n} came to {have}, not {want}")) }
        };
        let begin = Instant::now();
        for n in 0..frames {
            let slot = n % 2;
            number.set_buffer(0, &frame[slot])?;
            number.set_int(1, n as i32 + 1)?;
            let made = first.launch_with_event(&number, items, filtered[slot].as_ref())?;
            first.flush()?;
            fold.set_buffer(0, &frame[slot])?;
            fold.set_buffer(1, &result[slot])?;
            fold.set_int(2, 256)?;
            filtered[slot] = Some(second.launch_with_event(&fold, results, Some(&made))?);
            second.flush()?;
            // The results are read one frame late, so that both devices stay busy.
            if n > 0 {
                check(n - 1, second)?;
            }
        }
        check(frames - 1, second)?;
        Ok(frames as f64 / begin.elapsed().as_secs_f64())
    }
}

/// Row `i`, column `j` of an operand, as the kernel `fill` makes it.
fn element(i: usize, j: usize, by: usize) -> f32 {
    ((i * by + j * 7) % 23) as f32 - 11.0
}

/// Measures, in milliseconds, the time from the listed devices to a context of all of them and the end of a first
/// kernel on each. Excludes listing the devices, and thus connecting.
pub fn everywhere(filter: &str) -> Result<()> {
    let devices = OpenCl::open()?.devices(filter)?;
    // Each server now warms a replacement for the worker that serves this client. All servers share this machine, so
    // without a pause that work would be measured.
    std::thread::sleep(Duration::from_millis(30 * devices.len() as u64 + 200));
    let begin = Instant::now();
    let spread = Spread::on(devices)?;
    let kernel = spread.program.kernel("inc")?;
    let buffers: Vec<Buffer> = spread.queues.iter().map(|_| spread.context.buffer(64)).collect::<Result<_>>()?;
    let mut ends = Vec::new();
    for (queue, buffer) in spread.queues.iter().zip(&buffers) {
        queue.write(buffer, &[0; 64])?;
        kernel.set_buffer(0, buffer)?;
        ends.push(queue.launch_with_event(&kernel, 16, None)?);
        queue.flush()?;
    }
    Event::wait_for(&ends)?;
    let time = micros(begin) / 1e3;
    for (queue, buffer) in spread.queues.iter().zip(&buffers) {
        let mut back = [0; 64];
        queue.read(buffer, &mut back)?;
        if back.chunks_exact(4).any(|item| item != 1_i32.to_ne_bytes()) {
            return wrong("a first kernel gave wrong data");
        }
    }
    answer(&format!("{time}"));
    let memory = crate::memory::Memory::of(std::process::id()).map_err(Error::wrong)?;
    answer(&format!("{}", memory.resident));
    Ok(())
}

/// Carries out a single order, so that `ROPEWAY_STATS` counts only that order.
pub fn once(filter: &str, order: &str) -> Result<()> {
    let spread = Spread::open(filter)?;
    let (name, count, size) = parse(order);
    answer(&format!("{}", spread.measure(name, count, size)?));
    Ok(())
}
