//! Kernels that are asked for their times, and events that are polled.

use std::ptr;

use opencl_sys::*;

use super::{Context, Device, Error, Event, Kernel, Queue, Result, call, check};

impl Context {
    /// A queue on `device` whose events have times.
    pub fn profiling_queue(&self, device: &Device) -> Result<Queue> {
        let mut status = 0;
        // SAFETY: context and device are alive.
        let id = unsafe {
            call!(self.api, clCreateCommandQueue(self.id, device.id, CL_QUEUE_PROFILING_ENABLE, &mut status))
        };
        check(status, "clCreateCommandQueue")?;
        Ok(Queue { api: self.api, id })
    }
}

impl Queue {
    /// Launches `kernel` over `items` work-items in groups of `group`, with an event.
    pub fn launch_in_groups(&self, kernel: &Kernel, items: usize, group: usize) -> Result<Event> {
        let mut id = ptr::null_mut();
        let none = ptr::null();
        // SAFETY: one dimension, as announced; no wait list; `id` is a place for an event.
        let status = unsafe {
            call!(
                self.api,
                clEnqueueNDRangeKernel(self.id, kernel.id, 1, none, &items, &group, 0, ptr::null(), &mut id)
            )
        };
        check(status, "clEnqueueNDRangeKernel")?;
        Ok(Event { api: self.api, id })
    }
}

impl Event {
    /// Whether its command has ended, as the implementation says at once.
    pub fn has_ended(&self) -> Result<bool> {
        let mut now: cl_int = 0;
        // SAFETY: `now` has the size that is announced.
        let status = unsafe {
            let (what, size, into) = (CL_EVENT_COMMAND_EXECUTION_STATUS, size_of_val(&now), (&raw mut now).cast());
            call!(self.api, clGetEventInfo(self.id, what, size, into, ptr::null_mut()))
        };
        check(status, "clGetEventInfo")?;
        check(now.min(0), "a command")?;
        Ok(now == CL_COMPLETE)
    }

    /// How long its command ran on the device, in microseconds.
    pub fn ran(&self) -> Result<f64> {
        let time = |what| {
            let mut time: cl_ulong = 0;
            // SAFETY: `time` has the size that is announced.
            let status = unsafe {
                let (size, into) = (size_of_val(&time), (&raw mut time).cast());
                call!(self.api, clGetEventProfilingInfo(self.id, what, size, into, ptr::null_mut()))
            };
            check(status, "clGetEventProfilingInfo").map(|()| time)
        };
        Ok(time(CL_PROFILING_COMMAND_END)?.saturating_sub(time(CL_PROFILING_COMMAND_START)?) as f64 / 1e3)
    }
}
