//! Contexts and queues: making them, ending them, what concerns all of their commands.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::CallId;
use ropeway_protocol::messages::{
    Barrier, CallOff, CreateContext, CreateDeviceQueue, CreateQueue, Finish, Flush, Marker, ReleaseContext,
    ReleaseDeviceQueue, ReleaseQueue, SetDefaultDeviceQueue,
};
use ropeway_protocol::types::{Status, Waited};

use super::svm;
use crate::base::error::End;
use crate::base::error::unknown;
use crate::base::order::Sequence;
use crate::native;
use crate::notify::report::Finished;
use crate::objects::{DeviceQueue, Queue};
use crate::queue_states::{QueueState, claim};
use crate::session::job::Job;
use crate::session::{Deferred, Session};

impl Session {
    pub(super) fn create_context(&mut self, m: CreateContext) -> Result<(), End> {
        let total = self.objects();
        let made = match self.allow_object() {
            Ok(()) => self.warm.context(&self.common.client, m.context, m.platform, &m.devices),
            Err(status) => self.warm.no_context(m.platform, &m.devices, status),
        };
        let context = made.ok_or_else(|| unknown(format_args!("a device of {}", m.context)))?;
        claim(total, &mut self.contexts, m.context, context)
    }

    pub(super) fn release_context(&mut self, m: ReleaseContext) -> Result<(), End> {
        self.contexts.remove(&m.context).map(drop).ok_or_else(|| unknown(m.context))
    }

    pub(super) fn call_off(&mut self, m: CallOff) -> Result<(), End> {
        let context = self.context(m.context)?;
        if let (Ok(native), Some((_, device))) = (&context.native, context.devices.first()) {
            native.call_off(*device);
        }
        Ok(())
    }

    pub(super) fn create_queue(&mut self, m: CreateQueue) -> Result<(), End> {
        let total = self.objects();
        let context = self.context(m.context)?.clone();
        let device = context.device(m.device)?;
        let native = self
            .allow_object()
            .and(context.native.as_ref().map_err(|status| *status))
            .and_then(|native| native::Queue::with_hints(native, device, m.properties, m.priority, m.throttle));
        let number = self.warm.number_of(device);
        let queue = Arc::new(Queue {
            native,
            context,
            device,
            in_order: m.properties & cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0,
            profiling: m.properties & cl::CL_QUEUE_PROFILING_ENABLE != 0,
            markers_timed: Default::default(),
            pending: Default::default(),
            first_error: Default::default(),
            dirty: Default::default(),
            line: Sequence::new(),
            usage: self.common.usage.queue(number),
            turns: self.common.turns.as_ref().zip(number).and_then(|(turns, number)| turns.device(number)),
            pre_enqueue: Default::default(),
        });
        self.common.reporter.add(&queue);
        self.common.idle.add(&queue);
        let queue_state =
            QueueState { queue, staging: native::Staging::new(self.common.arenas.clone()), barrier: None };
        claim(total, &mut self.queue_states.queues, m.queue, queue_state)
    }

    pub(super) fn release_queue(&mut self, m: ReleaseQueue) -> Result<(), End> {
        let queue_state = self.queue_states.queues.remove(&m.queue).ok_or_else(|| unknown(m.queue))?;
        // Its commands still run (clReleaseCommandQueue flushes), and its events can still be waited for.
        if let Ok(native) = &queue_state.queue.native {
            svm::outlive(&queue_state);
            // If the device cannot tell when it is done with the staged writes, their memory is leaked.
            let _ = queue_state.staging.leave(native);
            let _ = native.flush();
        }
        let queue = &queue_state.queue;
        queue.usage.handed_over(queue.line.len());
        self.common.idle.outlive(queue);
        Ok(())
    }

    pub(super) fn create_device_queue(&mut self, m: CreateDeviceQueue, call: CallId<u32>) -> Result<(), End> {
        let total = self.objects();
        let context = self.context(m.context)?.clone();
        let device = context.device(m.device)?;
        let made = self.allow_object().and(context.native.as_ref().map_err(|status| *status)).and_then(|native| {
            let native = native::DeviceQueue::new(native, device, m.properties, m.size)?;
            Ok((native.size()?, native))
        });
        let size = match made {
            Ok((size, native)) => {
                let queue = Arc::new(DeviceQueue { native, context, device });
                claim(total, &mut self.device_queues, m.queue, queue)?;
                Ok(size)
            }
            Err(status) => Err(status),
        };
        self.answer(call, size);
        Ok(())
    }

    pub(super) fn release_device_queue(&mut self, m: ReleaseDeviceQueue) -> Result<(), End> {
        self.device_queues.remove(&m.queue).map(drop).ok_or_else(|| unknown(m.queue))
    }

    pub(super) fn set_default_device_queue(&mut self, m: SetDefaultDeviceQueue, call: CallId<()>) -> Result<(), End> {
        let queue = self.device_queues.get(&m.queue).ok_or_else(|| unknown(m.queue))?;
        let context = queue.context.native.as_ref().map_err(|status| *status);
        let outcome = context.and_then(|context| queue.native.make_default(context, queue.device));
        self.answer(call, outcome);
        Ok(())
    }

    pub(super) fn flush(&mut self, m: Flush) -> Result<(), End> {
        let queue = self.queue_states.queue_state(m.queue)?.queue.clone();
        match queue.native.as_ref().map_err(|status| *status).and_then(native::Queue::flush) {
            Ok(()) => {}
            Err(status) => queue.note_error(status),
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, m: Finish, call: CallId<Waited>) -> Result<(), End> {
        let queue = self.queue_states.queue_state(m.queue)?.queue.clone();
        // Finishing a queue also delivers the queue's own deferred reads.
        self.demote(|deferred| match deferred {
            Deferred::Read(cell) => cell.queue.as_ref().is_some_and(|of| Arc::ptr_eq(of, &queue)),
            Deferred::Rendezvous(_) => false,
        });
        let commands = queue.line.len();
        self.job = Some(Job::Finish(Finished { queue, commands }, call));
        Ok(())
    }

    pub(super) fn marker(&mut self, m: Marker) -> Result<(), End> {
        let total = self.objects();
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            Ok(queue_state.native().and_then(|queue| queue.marker(waits, event)))
        })
    }

    pub(super) fn barrier(&mut self, m: Barrier) -> Result<(), End> {
        let total = self.objects();
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            let in_order = queue_state.queue.in_order;
            let outcome = queue_state.native().and_then(|queue| queue.barrier(waits, event || !in_order));
            if let (false, Ok(Some(barrier))) = (in_order, &outcome) {
                // Rendezvous transfers must respect the barrier, too.
                queue_state.barrier = Some(barrier.clone());
            }
            Ok(outcome)
        })
    }
}

impl QueueState {
    /// The native queue.
    pub(super) fn native(&self) -> Result<&native::Queue, Status> {
        self.queue.native.as_ref().map_err(|status| *status)
    }
}
