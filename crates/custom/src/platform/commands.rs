//! Commands other than transfers.

use std::sync::Arc;

use ropeway_abi as cl;

use super::event::{hand_out, wait_list};
use super::handle::{Object, get};
use super::kernel::{Kernel, largest};
use super::queue::Queue;
use crate::engine::queue::{Action, Work};
use crate::kind::Call;

/// The queue and the wait list of a command: what all enqueue functions begin with.
pub(super) struct Command {
    pub(super) queue: Arc<Object<Queue>>,
    waits: Vec<Arc<crate::engine::event::Event>>,
    wanted: *mut cl::cl_event,
}

impl Command {
    /// Takes them in.
    ///
    /// # Errors
    /// CL_INVALID_COMMAND_QUEUE, CL_INVALID_EVENT_WAIT_LIST.
    ///
    /// # Safety
    /// The queue's handle, the list and the place for the event are as OpenCL has them.
    pub(super) unsafe fn new(
        queue: cl::cl_command_queue,
        (count, list, wanted): (cl::cl_uint, *const cl::cl_event, *mut cl::cl_event),
    ) -> Result<Self, cl::cl_int> {
        // SAFETY: by the promise of the caller.
        unsafe {
            let queue = get::<Queue, _>(queue).ok_or(cl::CL_INVALID_COMMAND_QUEUE)?;
            Ok(Self { queue, waits: wait_list(count, list)?, wanted })
        }
    }

    /// Enqueues it, and waits for its end if it is `blocking`.
    pub(super) fn enqueue(
        self,
        command: cl::cl_command_type,
        action: Action,
        blocking: bool,
    ) -> Result<(), cl::cl_int> {
        let event = self.queue.commands.enqueue(command, &self.waits, action);
        // SAFETY: as `new` was promised.
        unsafe { hand_out(&self.queue, &event, self.wanted) };
        if blocking && event.wait() < 0 {
            return Err(cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        }
        Ok(())
    }

    fn mark(self, command: cl::cl_command_type) {
        let event = self.queue.commands.mark(command, &self.waits);
        // SAFETY: as `new` was promised.
        unsafe { hand_out(&self.queue, &event, self.wanted) };
    }
}

/// CL_SUCCESS, or the error.
pub(super) fn code(done: Result<(), cl::cl_int>) -> cl::cl_int {
    done.err().unwrap_or(cl::CL_SUCCESS)
}

/// clEnqueueNDRangeKernel.
pub(super) unsafe extern "C" fn clEnqueueNDRangeKernel(
    queue: cl::cl_command_queue,
    kernel: cl::cl_kernel,
    dimensions: cl::cl_uint,
    _: *const usize,
    global: *const usize,
    _: *const usize,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    let launch = || {
        // SAFETY: as the worker calls it.
        let command = unsafe { Command::new(queue, (count, list, event)) }?;
        // SAFETY: the worker's own handle.
        let kernel = unsafe { get::<Kernel, _>(kernel) }.ok_or(cl::CL_INVALID_KERNEL)?;
        if !(1..=3).contains(&dimensions) {
            return Err(cl::CL_INVALID_WORK_DIMENSION);
        }
        let mut size = [1; 3];
        if !global.is_null() {
            for (at, size) in size.iter_mut().enumerate().take(dimensions as usize) {
                // SAFETY: one for each dimension.
                *size = unsafe { *global.add(at) };
            }
        }
        if size.iter().any(|size| *size > largest(&kernel.signature)) {
            return Err(cl::CL_INVALID_GLOBAL_WORK_SIZE);
        }
        let device = command.queue.device.clone();
        let place = device.kernels.iter().position(|known| known.name == kernel.signature.name);
        let place = place.ok_or(cl::CL_INVALID_PROGRAM_EXECUTABLE)?;
        let arguments = kernel.arguments().ok_or(cl::CL_INVALID_KERNEL_ARGS)?;
        let context = command.queue.context.clone();
        let run: Work = Box::new(move || {
            let call = Call::new((place, &device.kernels[place]), size, arguments);
            match call.and_then(|mut call| context.instance(&device).run(&mut call)) {
                Ok(()) => cl::CL_COMPLETE,
                Err(failure) => {
                    context.report(&failure.text);
                    // Whatever the kind says, the command has not ended well.
                    failure.status.min(-1)
                }
            }
        });
        command.enqueue(cl::CL_COMMAND_NDRANGE_KERNEL, Action::Long(run), false)
    };
    code(launch())
}

/// clEnqueueMarkerWithWaitList.
pub(super) unsafe extern "C" fn clEnqueueMarkerWithWaitList(
    queue: cl::cl_command_queue,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    // SAFETY: as the worker calls it.
    code(unsafe { Command::new(queue, (count, list, event)) }.map(|command| command.mark(cl::CL_COMMAND_MARKER)))
}

/// clEnqueueBarrierWithWaitList.
pub(super) unsafe extern "C" fn clEnqueueBarrierWithWaitList(
    queue: cl::cl_command_queue,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    // SAFETY: as the worker calls it.
    code(unsafe { Command::new(queue, (count, list, event)) }.map(|command| command.mark(cl::CL_COMMAND_BARRIER)))
}

/// clEnqueueMigrateMemObjects: there is nowhere to migrate to.
pub(super) unsafe extern "C" fn clEnqueueMigrateMemObjects(
    queue: cl::cl_command_queue,
    _: cl::cl_uint,
    _: *const cl::cl_mem,
    _: cl::cl_mem_migration_flags,
    count: cl::cl_uint,
    list: *const cl::cl_event,
    event: *mut cl::cl_event,
) -> cl::cl_int {
    // SAFETY: as the worker calls it.
    code(unsafe { Command::new(queue, (count, list, event)) }.and_then(|command| {
        command.enqueue(cl::CL_COMMAND_MIGRATE_MEM_OBJECTS, Action::Quick(Box::new(|| cl::CL_COMPLETE)), false)
    }))
}
