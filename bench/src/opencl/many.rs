//! Several devices in one context, and commands that wait for commands of other queues.

use std::ptr;

use opencl_sys::*;

use super::{Buffer, Context, Device, Error, Event, Kernel, OpenCl, Program, Queue, Result, call, check};

/// Most devices that are used.
const MOST: usize = 256;

impl OpenCl {
    /// All devices of the first platform that matches `filter`.
    pub fn devices(self, filter: &str) -> Result<Vec<Device>> {
        let platform = self.platform(filter)?;
        let mut ids = [ptr::null_mut(); MOST];
        let mut count = 0;
        // SAFETY: there is room for as many devices as announced.
        let status = unsafe {
            call!(self.api, clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST as cl_uint, ids.as_mut_ptr(), &mut count))
        };
        check(status, "clGetDeviceIDs")?;
        let device = |id: &cl_device_id| Device { api: self.api, platform, id: *id };
        Ok(ids.iter().take(count as usize).map(device).collect())
    }
}

impl Context {
    /// A context of all these devices, which are of one platform.
    pub fn of(devices: &[Device]) -> Result<Self> {
        let first = devices.first().ok_or_else(|| Error("there is no device".into()))?;
        let ids: Vec<cl_device_id> = devices.iter().map(|device| device.id).collect();
        let properties = [CL_CONTEXT_PLATFORM, first.platform as cl_context_properties, 0];
        let mut status = 0;
        let count = ids.len() as cl_uint;
        // SAFETY: the properties end with 0, and there are as many devices as announced.
        let id = unsafe {
            call!(
                first.api,
                clCreateContext(properties.as_ptr(), count, ids.as_ptr(), None, ptr::null_mut(), &mut status)
            )
        };
        check(status, "clCreateContext")?;
        Ok(Self { api: first.api, id })
    }

    /// A program of `source`, built for all of its devices.
    pub fn program_everywhere(&self, source: &str) -> Result<Program> {
        let (mut text, len) = (source.as_ptr().cast::<std::ffi::c_char>(), source.len());
        let mut status = 0;
        // SAFETY: one text of `len` bytes.
        let id = unsafe { call!(self.api, clCreateProgramWithSource(self.id, 1, &mut text, &len, &mut status)) };
        check(status, "clCreateProgramWithSource")?;
        let program = Program { api: self.api, id };
        // SAFETY: no device means all; the options are an empty C string.
        let status =
            unsafe { call!(self.api, clBuildProgram(id, 0, ptr::null(), c"".as_ptr(), None, ptr::null_mut())) };
        check(status, "clBuildProgram")?;
        Ok(program)
    }
}

impl Buffer {
    /// A part of it.
    pub fn part(&self, origin: usize, size: usize) -> Result<Self> {
        let region = cl_buffer_region { origin, size };
        let mut status = 0;
        // SAFETY: the information is a cl_buffer_region, as its type says.
        let id = unsafe {
            call!(
                self.api,
                clCreateSubBuffer(
                    self.id,
                    CL_MEM_READ_WRITE,
                    CL_BUFFER_CREATE_TYPE_REGION,
                    ptr::from_ref(&region).cast(),
                    &mut status
                )
            )
        };
        check(status, "clCreateSubBuffer")?;
        Ok(Self { api: self.api, id })
    }
}

/// The handles of a wait list: none where nothing is waited for.
fn handles(waits: &[&Event]) -> Vec<cl_event> {
    waits.iter().map(|event| event.id).collect()
}

fn parts(list: &[cl_event]) -> (cl_uint, *const cl_event) {
    (list.len() as cl_uint, if list.is_empty() { ptr::null() } else { list.as_ptr() })
}

impl Event {
    /// Waits until all of these have ended, with one call.
    pub fn wait_for(events: &[Self]) -> Result<()> {
        let Some(first) = events.first() else { return Ok(()) };
        let list: Vec<cl_event> = events.iter().map(|event| event.id).collect();
        // SAFETY: as many events as announced.
        check(unsafe { call!(first.api, clWaitForEvents(list.len() as cl_uint, list.as_ptr())) }, "clWaitForEvents")
    }
}

impl Queue {
    /// Launches `kernel` over two dimensions after `waits`, in groups of `local` work-items if given.
    pub fn launch_plane(
        &self,
        kernel: &Kernel,
        items: [usize; 2],
        local: Option<[usize; 2]>,
        waits: &[&Event],
    ) -> Result<Event> {
        let list = handles(waits);
        let (count, list) = parts(&list);
        let local = local.as_ref().map_or(ptr::null(), |local| local.as_ptr());
        let (mut id, offset) = (ptr::null_mut(), ptr::null());
        // SAFETY: two dimensions, as announced; the wait list is as long as announced; there is a place for the event.
        let status = unsafe {
            let items = items.as_ptr();
            call!(self.api, clEnqueueNDRangeKernel(self.id, kernel.id, 2, offset, items, local, count, list, &mut id))
        };
        check(status, "clEnqueueNDRangeKernel")?;
        Ok(Event { api: self.api, id })
    }

    /// Moves buffers to this queue's device after `waits`.
    pub fn migrate(&self, buffers: &[&Buffer], waits: &[&Event]) -> Result<Event> {
        let list = handles(waits);
        let (count, list) = parts(&list);
        let buffers: Vec<cl_mem> = buffers.iter().map(|buffer| buffer.id).collect();
        let mut id = ptr::null_mut();
        // SAFETY: buffers and wait list are as many as announced; there is a place for the event.
        let status = unsafe {
            let number = buffers.len() as cl_uint;
            call!(self.api, clEnqueueMigrateMemObjects(self.id, number, buffers.as_ptr(), 0, count, list, &mut id))
        };
        check(status, "clEnqueueMigrateMemObjects")?;
        Ok(Event { api: self.api, id })
    }
}
