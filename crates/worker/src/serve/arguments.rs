//! Arguments of kernels.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::types::{ArgKind, ArgValue, Status};

use crate::objects::{Held, Kernel};

impl Kernel {
    /// Sets an argument. If it cannot be set, launches fail until a later call sets it.
    pub(super) fn set(&mut self, index: u32, value: ArgValue<'_>, held: Option<Held>) {
        let outcome = self.try_set(index, value, held.as_ref());
        if !self.unusable.is_empty() {
            self.unusable.retain(|(bad, _)| *bad != index);
        }
        match outcome {
            Ok(()) => {
                // The application alone decides when shared virtual memory is freed, even if a kernel still holds its
                // address.
                let kept = held.filter(|_| !matches!(value, ArgValue::Svm(_)));
                if let Some(place) = self.held.get_mut(index as usize) {
                    *place = kept;
                }
            }
            Err(status) => self.unusable.push((index, status)),
        }
    }

    fn try_set(&mut self, index: u32, value: ArgValue<'_>, held: Option<&Held>) -> Result<(), Status> {
        const HANDLE: u32 = size_of::<usize>() as u32;
        let native = self.native.as_mut().map_err(|status| *status)?;
        let kind = *self.kinds.get(index as usize).ok_or(cl::CL_INVALID_ARG_INDEX)?;
        match (value, kind) {
            (ArgValue::Bytes(bytes), ArgKind::Value(size)) if bytes.len() == size as usize => {
                native.set_bytes(index, bytes)
            }
            (ArgValue::Bytes(_), ArgKind::Value(_)) => Err(cl::CL_INVALID_ARG_SIZE),
            // The argument's size is unknown, and the driver does not check it either.
            (ArgValue::Bytes(bytes), ArgKind::Unknown) => native.set_bytes(index, bytes),
            // Without argument information, PoCL accepts any eight bytes for an image or a sampler, so these arguments
            // look like values.
            (
                ArgValue::Memory(_) | ArgValue::Sampler(_),
                ArgKind::Buffer
                | ArgKind::Image
                | ArgKind::Sampler
                | ArgKind::Pipe
                | ArgKind::Unknown
                | ArgKind::Value(HANDLE),
            ) => match held {
                None => native.set_memory(index, None),
                Some(Held::Memory(memory)) => {
                    native.set_memory(index, Some(memory.native.as_deref().map_err(|status| *status)?))
                }
                Some(Held::Sampler(sampler)) => {
                    native.set_sampler(index, Result::as_ref(sampler).map_err(|status| *status)?)
                }
                Some(Held::Queue(_)) => Err(cl::CL_INVALID_ARG_VALUE),
            },
            (ArgValue::Queue(_), ArgKind::Queue) => match held {
                Some(Held::Queue(queue)) if Arc::ptr_eq(&queue.context, &self.context) => {
                    native.set_queue(index, &queue.native)
                }
                _ => Err(cl::CL_INVALID_DEVICE_QUEUE),
            },
            (ArgValue::Svm(place), ArgKind::Buffer) => {
                let memory = held.and_then(Held::memory);
                native.set_svm(index, super::svm::place(&self.context, place, memory)?)
            }
            (ArgValue::Local(size), ArgKind::Local) => native.set_local(index, size),
            _ => Err(cl::CL_INVALID_ARG_VALUE),
        }
    }
}
