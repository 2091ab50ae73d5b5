//! Handling of the messages about kernels.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::CallId;
use ropeway_protocol::messages::{
    CloneKernel, CreateKernel, EnqueueKernel, KernelSubGroupInfo, LaunchKernel, ReleaseKernel, SetKernelArg,
    SuggestedLocalSize,
};
use ropeway_protocol::types::{ArgKind, ArgValue, NdRange, Status};

use crate::base::error::End;
use crate::base::error::unknown;
use crate::base::lock::lock;
use crate::native::{self, Waits};
use crate::objects::{Held, Kernel};
use crate::queue_states::{QueueState, claim};
use crate::session::Session;
use crate::turns::Launch;

impl Kernel {
    /// Returns a copy of this kernel with its current arguments.
    pub(super) fn copy(&self) -> Self {
        self.copy_if(Ok(()))
    }

    /// As [`Kernel::copy`], if there may be one; otherwise one that cannot be used.
    fn copy_if(&self, allowed: Result<(), Status>) -> Self {
        Self {
            native: allowed.and(self.usable()).and_then(|native| native.try_clone(self.device()?)),
            context: self.context.clone(),
            kinds: self.kinds.clone(),
            held: self.held.clone(),
            unusable: self.unusable.clone(),
        }
    }
}

impl Session {
    pub(super) fn create_kernel(&mut self, m: CreateKernel<'_>) -> Result<(), End> {
        let total = self.objects();
        let program = self.programs.get(&m.program).ok_or_else(|| unknown(m.program))?;
        let state = lock(&program.state);
        let native = match (&state.native, self.allow_object()) {
            (_, Err(status)) => Err(status),
            (Some(Ok(native)), Ok(())) => native.kernel(m.name),
            (Some(Err(status)), Ok(())) => Err(*status),
            (None, Ok(())) => Err(cl::CL_INVALID_PROGRAM_EXECUTABLE),
        };
        let kinds: Arc<[ArgKind]> = state.kernels.get(m.name).cloned().unwrap_or_default();
        drop(state);
        let held = vec![None; kinds.len()];
        let context = program.context.clone();
        let kernel = Kernel { native, context, kinds, held, unusable: Default::default() };
        claim(total, &mut self.kernels, m.kernel, kernel)
    }

    pub(super) fn set_kernel_arg(&mut self, m: SetKernelArg<'_>) -> Result<(), End> {
        let kernel = self.kernels.get_mut(&m.kernel).ok_or_else(|| unknown(m.kernel))?;
        let held = match m.value {
            ArgValue::Memory(Some(id)) | ArgValue::Svm(Some((id, _))) => {
                Some(Held::Memory(self.memory.get(&id).ok_or_else(|| unknown(id))?.clone()))
            }
            ArgValue::Queue(id) => Some(Held::Queue(self.device_queues.get(&id).ok_or_else(|| unknown(id))?.clone())),
            ArgValue::Sampler(id) => Some(Held::Sampler(self.samplers.get(&id).ok_or_else(|| unknown(id))?.clone())),
            _ => None,
        };
        kernel.set(m.index, m.value, held);
        Ok(())
    }

    pub(super) fn release_kernel(&mut self, m: ReleaseKernel) -> Result<(), End> {
        self.kernels.remove(&m.kernel).map(drop).ok_or_else(|| unknown(m.kernel))
    }

    pub(super) fn clone_kernel(&mut self, m: CloneKernel) -> Result<(), End> {
        let total = self.objects();
        let source = self.kernels.get(&m.source).ok_or_else(|| unknown(m.source))?;
        let kernel = source.copy_if(self.allow_object());
        claim(total, &mut self.kernels, m.kernel, kernel)
    }

    pub(super) fn kernel_sub_group_info(&mut self, m: KernelSubGroupInfo, call: CallId<Vec<u64>>) -> Result<(), End> {
        let kernel = self.kernels.get(&m.kernel).ok_or_else(|| unknown(m.kernel))?;
        let device = kernel.context.device(m.device)?;
        let reply = kernel.usable().and_then(|native| native.sub_group_info(device, m.name, &m.input, m.room as usize));
        self.answer(call, reply);
        Ok(())
    }

    pub(super) fn suggested_local_size(&mut self, m: SuggestedLocalSize, call: CallId<[u64; 3]>) -> Result<(), End> {
        let kernel = self.kernels.get(&m.kernel).ok_or_else(|| unknown(m.kernel))?;
        let queue = &self.queue_states.queues.get(&m.queue).ok_or_else(|| unknown(m.queue))?.queue;
        let native = queue.native.as_ref().map_err(|status| *status);
        let reply = native.and_then(|native| native.suggested_local_size(queue.device, kernel.usable()?, &m.range));
        self.answer(call, reply);
        Ok(())
    }

    pub(super) fn enqueue_kernel(&mut self, m: EnqueueKernel) -> Result<(), End> {
        let total = self.objects();
        let kernel = self.kernels.get(&m.kernel).ok_or_else(|| unknown(m.kernel))?;
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            Ok(launch(queue_state, kernel, &m.range, waits, event))
        })
    }

    pub(super) fn launch_kernel(&mut self, m: LaunchKernel, call: CallId<()>) -> Result<(), End> {
        let total = self.objects();
        let kernel = self.kernels.get(&m.kernel).ok_or_else(|| unknown(m.kernel))?;
        let mut reply = Ok(());
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            let outcome = launch(queue_state, kernel, &m.range, waits, event);
            reply = outcome.as_ref().map(drop).map_err(|status| *status);
            // The reply carries the error; a command without an event need not report it a second time.
            Ok(if event { outcome } else { Ok(outcome.unwrap_or_default()) })
        })?;
        self.answer(call, reply);
        Ok(())
    }
}

/// Launches a kernel, where devices are shared by weight in a turn of the session.
fn launch(
    queue_state: &QueueState,
    kernel: &Kernel,
    range: &NdRange,
    waits: &Waits<'_>,
    event: bool,
) -> Result<Option<native::Event>, Status> {
    let (queue, kernel) = (queue_state.native()?, kernel.launchable()?);
    let Some((turns, context)) = queue_state.queue.in_turns()? else {
        return queue.kernel(kernel, range, waits, event);
    };
    let items = range.global.iter().fold(1_u64, |all, items| all.wrapping_mul(*items));
    let kind = Launch { kind: items.rotate_left(32) ^ kernel.address() as u64, ..queue_state.queue.launch() };
    let end = turns.launch(context, kind, |gate| {
        let mut all = Waits::none();
        all.push_all(waits);
        gate.into_iter().for_each(|gate| all.push(gate));
        queue.kernel(kernel, range, &all, true)
    })?;
    Ok(end.filter(|_| event))
}

impl Kernel {
    /// The native kernel, if all of its arguments could be set.
    pub(crate) fn launchable(&self) -> Result<&native::Kernel, Status> {
        match self.unusable.first() {
            Some((_, status)) => Err(*status),
            None => self.native.as_ref().map_err(|status| *status),
        }
    }

    /// The native kernel, whatever its arguments.
    fn usable(&self) -> Result<&native::Kernel, Status> {
        self.native.as_ref().map_err(|status| *status)
    }

    /// One of the devices that it may run on.
    fn device(&self) -> Result<native::Device, Status> {
        self.context.devices.first().map(|(_, device)| *device).ok_or(cl::CL_INVALID_KERNEL)
    }
}
