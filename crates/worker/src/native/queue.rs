//! Command queues, and what orders the commands on them; [`super::commands`] has the commands.
//!
//! Every enqueue takes the events to wait for and says whether its own event is wanted; without, the native
//! implementation is given none to make.

use std::sync::RwLockReadGuard;

use ropeway_abi as cl;
use ropeway_protocol::types::Status;
use smallvec::SmallVec;

use super::api::api;
use super::outstanding::Outstanding;
use super::running::{self, Command, Launching, Stage};
use super::{Context, Device, Event, check, failing, kept, waiting};

/// The events that a command waits for. They must outlive the call that it is passed to.
#[derive(Default)]
pub struct Waits<'a> {
    handles: SmallVec<[cl::cl_event; 8]>,
    held: std::marker::PhantomData<&'a Event>,
    /// Keeps the events from failing until the command is enqueued, where one of them could.
    _none_fails: Option<RwLockReadGuard<'static, ()>>,
}

impl<'a> Waits<'a> {
    /// None.
    pub fn none() -> Self {
        Self::default()
    }

    /// None yet. As long as the value lives, no event fails: what is looked up of events meanwhile still holds when the
    /// command is enqueued.
    pub fn while_none_fails() -> Self {
        Self { _none_fails: failing::none_fails(), ..Self::default() }
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

    /// Adds the events of another list.
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
    /// The status of clWaitForEvents.
    pub fn wait(&self) -> Result<(), Status> {
        waiting::for_events(&self.handles)
    }

    pub(super) fn parts(&self) -> (u32, *const cl::cl_event) {
        let list = if self.handles.is_empty() { std::ptr::null() } else { self.handles.as_ptr() };
        (self.handles.len() as u32, list)
    }
}

/// A native command queue.
#[derive(Debug)]
pub struct Queue {
    handle: cl::cl_command_queue,
    /// Whether it runs its commands in order.
    in_order: bool,
    /// Tells of the ends of its commands, where only one thread is to wait for them in the driver.
    outstanding: Option<Outstanding>,
}

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    /// clCreateCommandQueue.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn new(context: &Context, device: Device, properties: u64) -> Result<Self, Status> {
        let mut status = 0;
        // SAFETY: context and device are alive.
        let queue = unsafe { (api().clCreateCommandQueue)(context.0, device.0, properties, &raw mut status) };
        check(status)?;
        Ok(Self::owned(queue, properties))
    }

    /// A queue in order, for whose commands one thread waits in the driver, and nobody else does.
    ///
    /// # Errors
    /// The status of the native call; CL_OUT_OF_HOST_MEMORY where the thread cannot be started.
    pub fn with_a_waiter(context: &Context, device: Device) -> Result<Self, Status> {
        let mut queue = Self::new(context, device, 0)?;
        queue.outstanding = Some(Outstanding::start().map_err(|_| cl::CL_OUT_OF_HOST_MEMORY)?);
        Ok(queue)
    }

    fn owned(handle: cl::cl_command_queue, properties: u64) -> Self {
        let in_order = properties & cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0;
        Self { handle, in_order, outstanding: None }
    }

    /// clCreateCommandQueueWithProperties with hints of cl_khr_priority_hints and cl_khr_throttle_hints, 0 for none.
    ///
    /// # Errors
    /// The status of the native call.
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
        Ok(Self::owned(queue, properties))
    }

    /// Calls an enqueue function, with a place for its event where one is wanted; `waits` is its wait list.
    pub(super) fn enqueue(
        &self,
        waits: &Waits<'_>,
        wanted: bool,
        call: impl FnOnce(*mut cl::cl_event) -> i32,
    ) -> Result<Option<Event>, Status> {
        self.enqueue_one(waits, wanted, false, call)
    }

    /// As [`Queue::enqueue`], for the launch of a kernel.
    pub(super) fn enqueue_kernel(
        &self,
        waits: &Waits<'_>,
        wanted: bool,
        call: impl FnOnce(*mut cl::cl_event) -> i32,
    ) -> Result<Option<Event>, Status> {
        let _launching = Launching::begin();
        self.enqueue_one(waits, wanted, true, call)
    }

    fn enqueue_one(
        &self,
        waits: &Waits<'_>,
        wanted: bool,
        is_kernel: bool,
        call: impl FnOnce(*mut cl::cl_event) -> i32,
    ) -> Result<Option<Event>, Status> {
        let mut event = std::ptr::null_mut();
        let (keeping, watching) = (failing::any_unset(), running::is_watching());
        check(call(if wanted || keeping || watching { &raw mut event } else { std::ptr::null_mut() }))?;
        let event = (!event.is_null()).then(|| Event::owned(event));
        if let Some(event) = event.as_ref().filter(|_| keeping) {
            kept::keep(event.clone());
        }
        if let Some(event) = event.as_ref().filter(|_| watching) {
            let (queue, in_order, event) = (self.handle.addr(), self.in_order, event.clone());
            // The caller holds the events of the wait list.
            let waits = waits.handles.iter().map(|&handle| Event::retained(handle)).collect();
            running::note(Command { queue, in_order, is_kernel, event, waits, stage: Stage::Waits, since: None });
        }
        let told = |event: Event| match &self.outstanding {
            Some(outstanding) => event.clone().told_by(outstanding.add(event)),
            None => event,
        };
        Ok(event.filter(|_| wanted).map(told))
    }

    /// clFlush.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn flush(&self) -> Result<(), Status> {
        // SAFETY: the queue is alive.
        check(unsafe { (api().clFlush)(self.handle) })
    }

    /// clFinish.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn finish(&self) -> Result<(), Status> {
        waiting::for_queue(self.handle)
    }

    /// clEnqueueMarkerWithWaitList.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn marker(&self, waits: &Waits<'_>, event: bool) -> Result<Option<Event>, Status> {
        let (count, list) = waits.parts();
        // SAFETY: the wait list has the announced length.
        self.enqueue(waits, event, |out| unsafe { (api().clEnqueueMarkerWithWaitList)(self.handle, count, list, out) })
    }

    /// clEnqueueBarrierWithWaitList.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn barrier(&self, waits: &Waits<'_>, event: bool) -> Result<Option<Event>, Status> {
        let (count, list) = waits.parts();
        // SAFETY: the wait list has the announced length.
        self.enqueue(waits, event, |out| unsafe { (api().clEnqueueBarrierWithWaitList)(self.handle, count, list, out) })
    }

    /// What identifies it in this process.
    pub fn address(&self) -> usize {
        self.handle.addr()
    }

    /// The handle, for [`super::Mapping`].
    pub(super) fn raw(&self) -> cl::cl_command_queue {
        self.handle
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that the value owns.
        unsafe { (api().clReleaseCommandQueue)(self.handle) };
    }
}
