//! Programs that ask for the times of each of their kernels: solvers that report them, tuners that choose by them.

use std::time::Instant;

use crate::median::median;
use crate::opencl::{Context, Device, Error, Kernel, Result};

/// Groups that a tuner tries.
const GROUPS: [usize; 4] = [16, 32, 64, 128];

/// Runs of each, after one that is not timed.
const RUNS: usize = 5;

/// A kernel that takes a while for each number that it writes.
const WORK: &str = "
kernel void work(global uint *to, int rounds) {
    uint n = (uint)get_global_id(0);
    for (int i = 0; i < rounds; i++) n = n * 1664525u + 1013904223u;
    to[get_global_id(0)] = n;
}
";

/// Microseconds from the launch of an empty kernel until its times are known, the median; polls its event's status
/// instead of waiting if `polls`, and gives the average, in which those show that the scheduler made wait.
pub fn asked(context: &Context, device: &Device, kernel: &Kernel, count: usize, polls: bool) -> Result<f64> {
    let queue = context.profiling_queue(device)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        let event = queue.launch_with_event(kernel, 1, None)?;
        if polls {
            queue.flush()?;
            while !event.has_ended()? {}
        } else {
            event.wait()?;
        }
        event.ran()?;
        drop(event);
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(if polls { times.iter().sum::<f64>() / count as f64 } else { median(&mut times) })
}

/// What a tuner reads: the median over its configurations of the mean microseconds that a kernel says it ran. Each run has
/// arguments set, and writes `size` bytes of a buffer that is new.
pub fn tuner(context: &Context, device: &Device, size: usize) -> Result<f64> {
    let queue = context.profiling_queue(device)?;
    let items = size / 4;
    let mut read = Vec::new();
    for group in GROUPS {
        let kernel = context.program(device, WORK)?.kernel("work")?;
        let mut sum = 0.0;
        for run in 0..=RUNS {
            let buffer = context.buffer(size)?;
            kernel.set_buffer(0, &buffer)?;
            kernel.set_int(1, 1)?;
            let event = queue.launch_in_groups(&kernel, items, group)?;
            event.wait()?;
            sum += if run > 0 { event.ran()? } else { 0.0 };
            let mut first = [0; 8];
            queue.read(&buffer, &mut first)?;
            let second = i32::from_ne_bytes([first[4], first[5], first[6], first[7]]);
            if second != 1_664_525 + 1_013_904_223 {
                return Err(Error::wrong(format!("the tuned kernel wrote {second}")));
            }
        }
        read.push(sum / RUNS as f64);
    }
    Ok(median(&mut read))
}
