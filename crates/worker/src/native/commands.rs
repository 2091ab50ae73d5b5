//! Commands: what is enqueued on queues to launch kernels, and to move bytes between buffers and the host.

use ropeway_abi as cl;
use ropeway_protocol::types::{BufferRect, NdRange, Status};

use super::api::api;
use super::memory::NativeRect;
use super::{Device, Event, Kernel, Memory, Part, Queue, Waits, lasting, svm};

impl Queue {
    /// clEnqueueNDRangeKernel.
    ///
    /// # Errors
    /// The status of the native call.
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
        self.enqueue_kernel(waits, event, |out| unsafe {
            (api().clEnqueueNDRangeKernel)(
                self.raw(),
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
    /// The status of the native call; CL_INVALID_VALUE when the part leaves the object.
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
                    return self.enqueue(waits, event, |out| unsafe {
                        svm::copy(self, svm.at(offset), from, size, waits.parts(), out)
                    });
                }
                // SAFETY: the range is within the buffer; the caller answers for `from`.
                self.enqueue(waits, event, |out| unsafe {
                    (api().clEnqueueWriteBuffer)(
                        self.raw(),
                        mem,
                        cl::CL_FALSE,
                        offset,
                        size,
                        from.cast(),
                        count,
                        list,
                        out,
                    )
                })
            }
            // SAFETY: the caller's promise.
            Part::Image { part, size } => unsafe {
                self.write_image(memory, part, (from, *size as usize), waits, event)
            },
            Part::Rect(rect) => {
                let NativeRect { origin, region, row_pitch, slice_pitch } = memory.rect(rect)?;
                // SAFETY: the region is within the buffer; on the host, pitches of 0 mean packed bytes, for which the
                // caller answers.
                self.enqueue(waits, event, |out| unsafe {
                    (api().clEnqueueWriteBufferRect)(
                        self.raw(),
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
    /// The status of the native call; CL_INVALID_VALUE when the part leaves the object.
    ///
    /// # Safety
    /// `into` must be writable for as many bytes as the part has, and nothing else may touch it, until the command has
    /// ended.
    pub unsafe fn read(&self, memory: &Memory, part: &Part, into: *mut u8, waits: &Waits<'_>) -> Result<Event, Status> {
        let mem = memory.mem;
        let (count, list) = waits.parts();
        let event = match part {
            Part::Bytes { offset, size } => {
                let (offset, size) = memory.range(*offset, *size)?;
                if let Some(svm) = memory.as_svm() {
                    // SAFETY: as below.
                    let event = self.enqueue(waits, true, |out| unsafe {
                        svm::copy(self, into, svm.at(offset), size, waits.parts(), out)
                    })?;
                    return event.ok_or(cl::CL_OUT_OF_RESOURCES);
                }
                // SAFETY: the range is within the buffer; the caller answers for `into`.
                self.enqueue(waits, true, |out| unsafe {
                    (api().clEnqueueReadBuffer)(
                        self.raw(),
                        mem,
                        cl::CL_FALSE,
                        offset,
                        size,
                        into.cast(),
                        count,
                        list,
                        out,
                    )
                })
            }
            Part::Image { part, size } => {
                // SAFETY: the caller's promise.
                return unsafe { self.read_image(memory, part, (into, *size as usize), waits) };
            }
            Part::Rect(rect) => {
                let NativeRect { origin, region, row_pitch, slice_pitch } = memory.rect(rect)?;
                // SAFETY: as in `write`.
                self.enqueue(waits, true, |out| unsafe {
                    (api().clEnqueueReadBufferRect)(
                        self.raw(),
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
    /// The status of the native call; CL_INVALID_VALUE when a region leaves its buffer, or they are not of the same
    /// size.
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
        self.enqueue(waits, event, |out| unsafe {
            (api().clEnqueueCopyBufferRect)(
                self.raw(),
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
    /// The status of the native call; CL_INVALID_VALUE when a range leaves its buffer.
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
            return self.enqueue(waits, event, |out| unsafe { svm::copy(self, into, from, bytes, waits.parts(), out) });
        }
        // SAFETY: both ranges are within their buffers.
        self.enqueue(waits, event, |out| unsafe {
            (api().clEnqueueCopyBuffer)(
                self.raw(),
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
    /// The status of the native call; CL_INVALID_VALUE when the range leaves the buffer or the pattern has no legal
    /// size.
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
            return self.enqueue(waits, event, |out| unsafe {
                svm::fill(self, memory.at(offset), pattern, size, waits.parts(), out)
            });
        }
        // SAFETY: the range is within the buffer, the pattern has the announced length.
        self.enqueue(waits, event, |out| unsafe {
            (api().clEnqueueFillBuffer)(
                self.raw(),
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

    /// clEnqueueMigrateMemObjects on a queue of `device`. Shared virtual memory, which is no object, stays where it is.
    ///
    /// Where the device's memory is the host's, the objects are at the host once they are at the device, so
    /// CL_MIGRATE_MEM_OBJECT_HOST is left out: PoCL 3.1 releases the event of a migration to the host once too often if
    /// another thread enqueues a command on the same object at that moment.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn migrate(
        &self,
        device: Device,
        memory: &[&Memory],
        mut flags: u64,
        waits: &Waits<'_>,
        event: bool,
    ) -> Result<Option<Event>, Status> {
        let handles: Vec<_> = memory.iter().map(|memory| memory.mem).filter(|mem| !mem.is_null()).collect();
        if handles.is_empty() {
            return self.marker(waits, event);
        }
        if flags & cl::CL_MIGRATE_MEM_OBJECT_HOST != 0 && device.shares_host_memory() {
            flags &= !cl::CL_MIGRATE_MEM_OBJECT_HOST;
        }
        let (count, list) = waits.parts();
        let objects = lasting::list(&handles);
        // SAFETY: both lists have the announced lengths; the first one is never freed, as drivers read it late.
        self.enqueue(waits, event, |out| unsafe {
            (api().clEnqueueMigrateMemObjects)(self.raw(), handles.len() as u32, objects, flags, count, list, out)
        })
    }
}
