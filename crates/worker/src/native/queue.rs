//! Command queues and what is enqueued on them.
//!
//! Every enqueue takes the events to wait for and says whether its own event is wanted; without, the native
//! implementation is given none to make.

use ropeway_abi as cl;
use ropeway_protocol::types::{BufferRect, NdRange, Status};
use smallvec::SmallVec;

use super::api::api;
use super::memory::NativeRect;
use super::{Context, Device, Event, Kernel, Memory, Part, check, kept, svm};

/// The events that a command waits for. They must outlive the call that it is passed to.
#[derive(Default)]
pub struct Waits<'a> {
    handles: SmallVec<[cl::cl_event; 8]>,
    held: std::marker::PhantomData<&'a Event>,
}

impl<'a> Waits<'a> {
    /// None.
    pub fn none() -> Self {
        Self::default()
    }

    /// Just one.
    pub fn one(event: &'a Event) -> Self {
        let mut waits = Self::default();
        waits.push(event);
        waits
    }

    /// One more.
    pub fn push(&mut self, event: &'a Event) {
        self.handles.push(event.raw());
    }

    /// Those of another list too.
    pub fn push_all(&mut self, others: &Waits<'a>) {
        self.handles.extend_from_slice(&others.handles);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Blocks until all have ended; they must be of one context.
    ///
    /// # Errors
    /// What clWaitForEvents returned.
    pub fn wait(&self) -> Result<(), Status> {
        super::event::wait_all(&self.handles)
    }

    pub(super) fn parts(&self) -> (u32, *const cl::cl_event) {
        let list = if self.handles.is_empty() { std::ptr::null() } else { self.handles.as_ptr() };
        (self.handles.len() as u32, list)
    }
}

/// A native command queue.
#[derive(Debug)]
pub struct Queue(cl::cl_command_queue);

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

/// A list of memory objects that a command may still read. It is not freed when dropped.
struct Handles(std::mem::ManuallyDrop<Vec<cl::cl_mem>>);

// SAFETY: nothing is done with the handles.
unsafe impl Send for Handles {}

impl Handles {
    fn free(self) {
        drop(std::mem::ManuallyDrop::into_inner(self.0));
    }
}

/// Calls an enqueue function, with a place for its event where one is wanted.
pub(super) fn enqueue(wanted: bool, call: impl FnOnce(*mut cl::cl_event) -> i32) -> Result<Option<Event>, Status> {
    let mut event = std::ptr::null_mut();
    let keeping = kept::keeping();
    check(call(if wanted || keeping { &raw mut event } else { std::ptr::null_mut() }))?;
    let event = (!event.is_null()).then(|| Event::owned(event));
    if let Some(event) = event.as_ref().filter(|_| keeping) {
        kept::keep(event.clone());
    }
    Ok(event.filter(|_| wanted))
}

impl Queue {
    /// clCreateCommandQueue.
    ///
    /// # Errors
    /// What the native call returned.
    pub fn new(context: &Context, device: Device, properties: u64) -> Result<Self, Status> {
        let mut status = 0;
        // SAFETY: context and device are alive.
        let queue = unsafe { (api().clCreateCommandQueue)(context.0, device.0, properties, &raw mut status) };
        check(status)?;
        Ok(Self(queue))
    }

    /// clCreateCommandQueueWithProperties with hints of cl_khr_priority_hints and cl_khr_throttle_hints, 0 for none.
    ///
    /// # Errors
    /// What the native call returned.
    pub fn with_hints(
        context: &Context,
        device: Device,
        properties: u64,
        priority: u32,
        throttle: u32,
    ) -> Result<Self, Status> {
        let create = api().clCreateCommandQueueWithProperties.filter(|_| priority != 0 || throttle != 0);
        // A driver that has these hints has the function, but older ones may not: most queues are made without it.
        let Some(create) = create.filter(|_| device.is_at_least(2, 0)) else {
            return Self::new(context, device, properties);
        };
        let mut list = vec![u64::from(cl::CL_QUEUE_PROPERTIES), properties];
        if priority != 0 {
            list.extend([cl::CL_QUEUE_PRIORITY_KHR, u64::from(priority)]);
        }
        if throttle != 0 {
            list.extend([cl::CL_QUEUE_THROTTLE_KHR, u64::from(throttle)]);
        }
        list.push(0);
        let mut status = 0;
        // SAFETY: context and device are alive, the list ends with 0.
        let queue = unsafe { create(context.0, device.0, list.as_ptr(), &raw mut status) };
        check(status)?;
        Ok(Self(queue))
    }

    /// clFlush.
    ///
    /// # Errors
    /// What the native call returned.
    pub fn flush(&self) -> Result<(), Status> {
        // SAFETY: the queue is alive.
        check(unsafe { (api().clFlush)(self.0) })
    }

    /// clFinish.
    ///
    /// # Errors
    /// What the native call returned.
    pub fn finish(&self) -> Result<(), Status> {
        // SAFETY: the queue is alive.
        check(unsafe { (api().clFinish)(self.0) })
    }

    /// clEnqueueNDRangeKernel.
    ///
    /// # Errors
    /// What the native call returned.
    pub fn kernel(
        &self,
        kernel: &Kernel,
        range: &NdRange,
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        if !(1..=3).contains(&range.dims) {
            return Err(cl::CL_INVALID_WORK_DIMENSION);
        }
        let sizes = |from: &[u64; 3]| from.map(|n| n as usize);
        let (offset, global, local) =
            (range.offset.as_ref().map(sizes), sizes(&range.global), range.local.as_ref().map(sizes));
        let pointer = |of: &Option<[usize; 3]>| of.as_ref().map_or(std::ptr::null(), |a| a.as_ptr());
        let (count, list) = waits.parts();
        // SAFETY: the arrays have three entries, as many as `dims` can ask for; buffers bound to the kernel are kept
        // alive by the session's kernel object.
        enqueue(event, |out| unsafe {
            (api().clEnqueueNDRangeKernel)(
                self.0,
                kernel.0,
                u32::from(range.dims),
                pointer(&offset),
                global.as_ptr(),
                pointer(&local),
                count,
                list,
                out,
            )
        })
    }

    /// Writes packed bytes into part of a memory object, not blocking.
    ///
    /// # Errors
    /// What the native call returned; CL_INVALID_VALUE when the part leaves the object.
    ///
    /// # Safety
    /// `from` must be readable for as many bytes as the part has until the command has ended.
    pub unsafe fn write(
        &self,
        memory: &Memory,
        part: &Part,
        from: *const u8,
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        let mem = memory.mem;
        let (count, list) = waits.parts();
        match part {
            Part::Bytes { offset, size } => {
                let (offset, size) = memory.range(*offset, *size)?;
                if let Some(svm) = memory.as_svm() {
                    // SAFETY: as below.
                    return enqueue(event, |out| unsafe {
                        svm::copy(self, svm.at(offset), from, size, waits.parts(), out)
                    });
                }
                // SAFETY: the range is within the buffer; the caller answers for `from`.
                enqueue(event, |out| unsafe {
                    (api().clEnqueueWriteBuffer)(self.0, mem, cl::CL_FALSE, offset, size, from.cast(), count, list, out)
                })
            }
            // SAFETY: the caller's promise.
            Part::Image { part, size } => unsafe {
                self.write_image(memory, part, (from, *size as usize), waits, event)
            },
            Part::Rect(rect) => {
                let NativeRect { origin, region, row_pitch, slice_pitch } = memory.rect(rect)?;
                // SAFETY: the region is within the buffer; on the host, pitches of 0 mean packed bytes, for which the caller
                // answers.
                enqueue(event, |out| unsafe {
                    (api().clEnqueueWriteBufferRect)(
                        self.0,
                        mem,
                        cl::CL_FALSE,
                        origin.as_ptr(),
                        [0; 3].as_ptr(),
                        region.as_ptr(),
                        row_pitch,
                        slice_pitch,
                        0,
                        0,
                        from.cast(),
                        count,
                        list,
                        out,
                    )
                })
            }
        }
    }

    /// Reads part of a memory object as packed bytes, not blocking, always with an event.
    ///
    /// # Errors
    /// What the native call returned; CL_INVALID_VALUE when the part leaves the object.
    ///
    /// # Safety
    /// `into` must be writable for as many bytes as the part has, and nothing else may touch it, until the command has ended.
    pub unsafe fn read(&self, memory: &Memory, part: &Part, into: *mut u8, waits: &Waits<'_>) -> Result<Event, Status> {
        let mem = memory.mem;
        let (count, list) = waits.parts();
        let event = match part {
            Part::Bytes { offset, size } => {
                let (offset, size) = memory.range(*offset, *size)?;
                if let Some(svm) = memory.as_svm() {
                    // SAFETY: as below.
                    let event = enqueue(true, |out| unsafe {
                        svm::copy(self, into, svm.at(offset), size, waits.parts(), out)
                    })?;
                    return event.ok_or(cl::CL_OUT_OF_RESOURCES);
                }
                // SAFETY: the range is within the buffer; the caller answers for `into`.
                enqueue(true, |out| unsafe {
                    (api().clEnqueueReadBuffer)(self.0, mem, cl::CL_FALSE, offset, size, into.cast(), count, list, out)
                })
            }
            Part::Image { part, size } => {
                // SAFETY: the caller's promise.
                return unsafe { self.read_image(memory, part, (into, *size as usize), waits) };
            }
            Part::Rect(rect) => {
                let NativeRect { origin, region, row_pitch, slice_pitch } = memory.rect(rect)?;
                // SAFETY: as in `write`.
                enqueue(true, |out| unsafe {
                    (api().clEnqueueReadBufferRect)(
                        self.0,
                        mem,
                        cl::CL_FALSE,
                        origin.as_ptr(),
                        [0; 3].as_ptr(),
                        region.as_ptr(),
                        row_pitch,
                        slice_pitch,
                        0,
                        0,
                        into.cast(),
                        count,
                        list,
                        out,
                    )
                })
            }
        }?;
        event.ok_or(cl::CL_OUT_OF_RESOURCES)
    }

    /// clEnqueueCopyBufferRect.
    ///
    /// # Errors
    /// What the native call returned; CL_INVALID_VALUE when a region leaves its buffer, or they are not of the same size.
    pub fn copy_rect(
        &self,
        (source, source_rect): (&Memory, &BufferRect),
        (target, target_rect): (&Memory, &BufferRect),
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        let (from, to) = (source.rect(source_rect)?, target.rect(target_rect)?);
        if from.region != to.region {
            return Err(cl::CL_INVALID_VALUE);
        }
        let (count, list) = waits.parts();
        // SAFETY: both regions are within their buffers.
        enqueue(event, |out| unsafe {
            (api().clEnqueueCopyBufferRect)(
                self.0,
                source.mem,
                target.mem,
                from.origin.as_ptr(),
                to.origin.as_ptr(),
                from.region.as_ptr(),
                from.row_pitch,
                from.slice_pitch,
                to.row_pitch,
                to.slice_pitch,
                count,
                list,
                out,
            )
        })
    }

    /// clEnqueueCopyBuffer.
    ///
    /// # Errors
    /// What the native call returned; CL_INVALID_VALUE when a range leaves its buffer.
    pub fn copy(
        &self,
        (source, source_offset): (&Memory, u64),
        (target, target_offset): (&Memory, u64),
        size: u64,
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        let (source_offset, bytes) = source.range(source_offset, size)?;
        let (target_offset, _) = target.range(target_offset, size)?;
        let (count, list) = waits.parts();
        if let (Some(from), Some(into)) = (source.as_svm(), target.as_svm()) {
            let (from, into) = (from.at(source_offset), into.at(target_offset));
            // SAFETY: as below.
            return enqueue(event, |out| unsafe { svm::copy(self, into, from, bytes, waits.parts(), out) });
        }
        // SAFETY: both ranges are within their buffers.
        enqueue(event, |out| unsafe {
            (api().clEnqueueCopyBuffer)(
                self.0,
                source.mem,
                target.mem,
                source_offset,
                target_offset,
                bytes,
                count,
                list,
                out,
            )
        })
    }

    /// clEnqueueFillBuffer. The native call copies the pattern before it returns.
    ///
    /// # Errors
    /// What the native call returned; CL_INVALID_VALUE when the range leaves the buffer or the pattern has no legal size.
    pub fn fill(
        &self,
        buffer: &Memory,
        pattern: &[u8],
        (offset, size): (u64, u64),
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        let step = pattern.len() as u64;
        if !step.is_power_of_two() || step > 128 || offset % step != 0 || size % step != 0 {
            return Err(cl::CL_INVALID_VALUE);
        }
        let (offset, size) = buffer.range(offset, size)?;
        let (count, list) = waits.parts();
        if let Some(memory) = buffer.as_svm() {
            // SAFETY: as below.
            return enqueue(event, |out| unsafe {
                svm::fill(self, memory.at(offset), pattern, size, waits.parts(), out)
            });
        }
        // SAFETY: the range is within the buffer, the pattern has the announced length.
        enqueue(event, |out| unsafe {
            (api().clEnqueueFillBuffer)(
                self.0,
                buffer.mem,
                pattern.as_ptr().cast(),
                pattern.len(),
                offset,
                size,
                count,
                list,
                out,
            )
        })
    }

    /// clEnqueueMigrateMemObjects. Shared virtual memory, which is no object, stays where it is.
    ///
    /// # Errors
    /// What the native call returned.
    pub fn migrate(
        &self,
        memory: &[&Memory],
        flags: u64,
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        let handles: Vec<_> = memory.iter().map(|memory| memory.mem).filter(|mem| !mem.is_null()).collect();
        if handles.is_empty() {
            return self.marker(waits, event);
        }
        let (count, list) = waits.parts();
        // SAFETY: both lists have the announced lengths, and the first one is kept until the command has ended.
        let end = enqueue(true, |out| unsafe {
            (api().clEnqueueMigrateMemObjects)(self.0, handles.len() as u32, handles.as_ptr(), flags, count, list, out)
        })?;
        let end = end.ok_or(cl::CL_OUT_OF_RESOURCES)?;
        let handles = Handles(std::mem::ManuallyDrop::new(handles));
        // NVIDIA 580 reads the list again when the command's turn has come. Where nobody can tell when that is, it is lost rather than freed.
        let _ = end.on_end(move || handles.free());
        Ok(event.then_some(end))
    }

    /// clEnqueueMarkerWithWaitList.
    ///
    /// # Errors
    /// What the native call returned.
    pub fn marker(&self, waits: &Waits<'_>, event: bool) -> Result<Option<Event>, Status> {
        let (count, list) = waits.parts();
        // SAFETY: the wait list has the announced length.
        enqueue(event, |out| unsafe { (api().clEnqueueMarkerWithWaitList)(self.0, count, list, out) })
    }

    /// clEnqueueBarrierWithWaitList.
    ///
    /// # Errors
    /// What the native call returned.
    pub fn barrier(&self, waits: &Waits<'_>, event: bool) -> Result<Option<Event>, Status> {
        let (count, list) = waits.parts();
        // SAFETY: the wait list has the announced length.
        enqueue(event, |out| unsafe { (api().clEnqueueBarrierWithWaitList)(self.0, count, list, out) })
    }

    /// The handle, for [`super::Mapping`].
    pub(super) fn raw(&self) -> cl::cl_command_queue {
        self.0
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that the value owns.
        unsafe { (api().clReleaseCommandQueue)(self.0) };
    }
}
