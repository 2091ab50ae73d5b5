//! The arguments that all enqueued commands have in common: queue, wait list, event.

use ropeway_abi::{
    CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CL_INVALID_CONTEXT, CL_INVALID_EVENT_WAIT_LIST,
    CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE, CL_MISALIGNED_SUB_BUFFER_OFFSET, cl_event, cl_int, cl_uint,
};
use ropeway_client::command::{Enqueued, Order};
use ropeway_client::event;
use smallvec::SmallVec;

use crate::handle::Handle;
use crate::objects::{Device, Event, Memory, Queue};

/// The events that a command waits for, kept alive while it is enqueued.
pub struct Waits(SmallVec<[Handle<Event>; 4]>);

/// The `event_wait_list` and `event` arguments.
pub struct Request {
    waits: Waits,
    event: *mut cl_event,
}

impl Waits {
    /// # Errors
    /// `invalid` for what is not an event; CL_INVALID_CONTEXT for one of another context than `queue`'s.
    ///
    /// # Safety
    /// `list` is valid for reads of `count` handles.
    pub unsafe fn read(queue: &Queue, count: cl_uint, list: *const cl_event, invalid: cl_int) -> Result<Self, cl_int> {
        let mut waits = SmallVec::new();
        for index in 0..count as usize {
            // SAFETY: below `count`, by the caller's promise.
            let event = Handle::<Event>::find(unsafe { list.add(index).read() }).map_err(|_| invalid)?;
            if event.context != queue.context {
                return Err(CL_INVALID_CONTEXT);
            }
            waits.push(event);
        }
        Ok(Self(waits))
    }

    pub fn events(&self) -> SmallVec<[&event::Event; 4]> {
        self.0.iter().map(|event| &*event.client).collect()
    }
}

impl Request {
    /// # Errors
    /// CL_INVALID_EVENT_WAIT_LIST if event_wait_list is NULL and num_events_in_wait_list is not 0, or the other way
    /// round, or if an event in it is not valid; CL_INVALID_CONTEXT if the context of the queue and of an event are not
    /// the same.
    ///
    /// # Safety
    /// As the specification says of these arguments, until [`Self::run`].
    #[inline]
    pub unsafe fn read(
        queue: &Queue,
        count: cl_uint,
        list: *const cl_event,
        event: *mut cl_event,
    ) -> Result<Self, cl_int> {
        if (count == 0) != list.is_null() {
            return Err(CL_INVALID_EVENT_WAIT_LIST);
        }
        // SAFETY: the caller's promise.
        let waits = unsafe { Waits::read(queue, count, list, CL_INVALID_EVENT_WAIT_LIST)? };
        Ok(Self { waits, event })
    }

    /// Whether an event of the wait list is known to have ended with an error.
    pub fn has_failed(&self) -> bool {
        self.waits.events().iter().any(|event| event.has_failed())
    }

    /// Enqueues a command and hands its event to the application, if the application wants one. `run` may return
    /// another result beside the event.
    ///
    /// # Errors
    /// Those of `enqueue`.
    #[inline]
    pub fn run_with<R>(
        self,
        queue: &Handle<Queue>,
        enqueue: impl FnOnce(Order<'_>) -> Result<(R, Enqueued), cl_int>,
    ) -> Result<R, cl_int> {
        let wants_event = !self.event.is_null();
        let waits = self.waits.events();
        // CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST if the command is blocking and the execution status of any of
        // the events in event_wait_list is a negative integer value.
        let (result, enqueued) = enqueue(Order { waits: &waits, wants_event }).map_err(|error| {
            let failed = waits.iter().any(|event| event.has_failed());
            if failed { CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST } else { error }
        })?;
        if let Some(client) = enqueued.filter(|_| wants_event) {
            let event = Event { client, context: queue.context.clone(), queue: Some(queue.clone()) };
            let handle = Handle::new(queue, event)?.give();
            // SAFETY: not null, and valid for a write by the promise of `read`.
            unsafe { self.event.write(handle) };
        }
        Ok(result)
    }

    /// As [`Self::run_with`], for a command whose only result is its event.
    ///
    /// # Errors
    /// Those of `enqueue`.
    #[inline]
    pub fn run(
        self,
        queue: &Handle<Queue>,
        enqueue: impl FnOnce(Order<'_>) -> Result<Enqueued, cl_int>,
    ) -> Result<(), cl_int> {
        self.run_with(queue, |order| Ok(((), enqueue(order)?)))
    }
}

/// A buffer, for functions that take no other memory objects.
///
/// # Errors
/// CL_INVALID_MEM_OBJECT if it is not a valid buffer object.
pub fn find_buffer(handle: *mut std::ffi::c_void) -> Result<Handle<Memory>, cl_int> {
    let buffer = Handle::<Memory>::find(handle)?;
    if buffer.client.is_buffer() { Ok(buffer) } else { Err(CL_INVALID_MEM_OBJECT) }
}

/// The memory object, of whatever kind, that a command on `queue` is about.
///
/// # Errors
/// CL_INVALID_MEM_OBJECT if it is not a valid memory object; CL_INVALID_CONTEXT if the context associated with the
/// queue and with the object are not the same.
pub fn memory_for(queue: &Queue, handle: *mut std::ffi::c_void) -> Result<Handle<Memory>, cl_int> {
    let memory = Handle::<Memory>::find(handle)?;
    if memory.context == queue.context { Ok(memory) } else { Err(CL_INVALID_CONTEXT) }
}

/// The buffer that a command on `queue` is about.
///
/// # Errors
/// CL_INVALID_MEM_OBJECT if it is not a valid buffer object; CL_INVALID_CONTEXT if the context associated with the
/// queue and with the buffer are not the same; those of [`check_alignment`].
pub fn buffer_for(queue: &Queue, handle: *mut std::ffi::c_void) -> Result<Handle<Memory>, cl_int> {
    let buffer = find_buffer(handle)?;
    if buffer.context != queue.context {
        return Err(CL_INVALID_CONTEXT);
    }
    check_alignment(&queue.device, &buffer)?;
    Ok(buffer)
}

/// # Errors
/// CL_MISALIGNED_SUB_BUFFER_OFFSET if the buffer is a sub-buffer object and the offset specified when it was created is
/// not aligned to CL_DEVICE_MEM_BASE_ADDR_ALIGN for the device.
pub fn check_alignment(device: &Device, memory: &Memory) -> Result<(), cl_int> {
    let aligned = (memory.client.offset() as u64).is_multiple_of(device.limits.base_alignment);
    if aligned { Ok(()) } else { Err(CL_MISALIGNED_SUB_BUFFER_OFFSET) }
}

/// # Errors
/// CL_INVALID_VALUE if the region (offset, size) is out of bounds.
pub fn check_region(buffer: &Memory, offset: usize, size: usize) -> Result<(), cl_int> {
    let end = offset.checked_add(size).ok_or(CL_INVALID_VALUE)?;
    // Commands on no bytes at all are errors too, as up to OpenCL 2.0 the specification says and implementations do.
    if size == 0 || end > buffer.client.size() { Err(CL_INVALID_VALUE) } else { Ok(()) }
}
