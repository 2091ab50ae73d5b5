//! A client's side of a session, strung together of frames.

use ropeway_protocol::content::ContentHash;
use ropeway_protocol::ids::{ContextId, KernelId, MemoryId, ProgramId, QueueId, TransferId};
use ropeway_protocol::messages::*;
use ropeway_protocol::types::{ArgValue, Command, EventList, InitialContents, NdRange};
use ropeway_protocol::{Post as _, encode_call, encode_post};

use crate::{Entropy, MESSAGES};

/// A program with every kind of argument. Whatever a kernel is given, it stays within its buffers, or a native
/// implementation without memory protection would be what is tested.
pub const SOURCE: &str = "
    kernel void empty(void) {}
    kernel void add(global const float *a, global const float *b, global float *c) {
        if (!a || !b || !c || get_global_size(0) != 256) return;
        size_t i = get_global_id(0) - get_global_offset(0); c[i] = a[i] + b[i];
    }
    kernel void scale(global float *a, float by, local float *tmp) {
        if (by == 12345.0f) { tmp[0] = by; a[0] = tmp[0]; }
    }";

/// Bytes of each of the buffers that [`opening`] makes.
pub const BUFFER: u64 = 4096;

/// The number of the call at the end of [`opening`], which builds.
pub const BUILD: u32 = 1;

/// The opening of a well-behaved client: a context, an in-order (1) and an out-of-order (2) queue, buffers 1 to 3, and
/// a program of [`SOURCE`]. Frames made at random afterwards name these by their small ids.
pub fn opening() -> Vec<u8> {
    let mut out = Vec::new();
    let context = ContextId(1);
    let program = ProgramId(1);
    let hash = ContentHash::of(SOURCE.as_bytes());
    let total = SOURCE.len() as u64;
    encode_post(&mut out, &CreateContext { context, platform: 0, devices: vec![0] }, 0);
    for (queue, properties) in [(QueueId(1), 0), (QueueId(2), 1)] {
        encode_post(&mut out, &CreateQueue { queue, context, device: 0, properties, priority: 0, throttle: 0 }, 0);
    }
    for buffer in 1..=3 {
        let initial = InitialContents::Undefined;
        encode_post(&mut out, &CreateBuffer { buffer: MemoryId(buffer), context, flags: 1, size: BUFFER, initial }, 0);
    }
    encode_post(&mut out, &CreateProgramWithSource { program, context, source: hash }, 0);
    encode_post(&mut out, &PutContent { hash, total, offset: 0 }, SOURCE.len());
    out.extend_from_slice(SOURCE.as_bytes());
    encode_call(&mut out, BUILD, &BuildProgram { program, devices: vec![0], named: 1, options: "" }, 0);
    out
}

/// The messages after the build: kernels 1 to 3.
pub fn kernels() -> Vec<u8> {
    let (mut out, program) = (Vec::new(), ProgramId(1));
    for (kernel, name) in [(1, "empty"), (2, "add"), (3, "scale")] {
        encode_post(&mut out, &CreateKernel { kernel: KernelId(kernel), program, name }, 0);
    }
    out
}

/// A vector addition with all that belongs to it, right after [`kernels`]: its last call is a `Finish` with number 2.
pub fn vector_addition() -> Vec<u8> {
    let mut out = Vec::new();
    let command = || Command { queue: QueueId(1), event: None, waits: EventList::default() };
    for buffer in 1..=2 {
        let bytes = vec![buffer as u8; 1024];
        encode_post(&mut out, &WriteBuffer { command: command(), buffer: MemoryId(buffer), offset: 0 }, bytes.len());
        out.extend_from_slice(&bytes);
    }
    for index in 0..3 {
        let value = ArgValue::Memory(Some(MemoryId(u64::from(index) + 1)));
        encode_post(&mut out, &SetKernelArg { kernel: KernelId(2), index, value }, 0);
    }
    let range = NdRange { dims: 1, offset: None, global: [256, 0, 0], local: None };
    encode_post(&mut out, &EnqueueKernel { command: command(), kernel: KernelId(2), range }, 0);
    let transfer = TransferId(1);
    let read = ReadBuffer { command: command(), buffer: MemoryId(3), offset: 0, size: 1024, transfer };
    encode_post(&mut out, &read, 0);
    encode_call(&mut out, 2, &Finish { queue: QueueId(1) }, 0);
    out
}

/// Frames of messages that `entropy` picks, until it is used up.
pub fn random(entropy: &mut Entropy<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    while !entropy.is_empty() {
        let pick = usize::from(entropy.byte()) % MESSAGES.len();
        // An early end is only seldom of interest.
        if MESSAGES[pick].opcode == Goodbye::OPCODE && entropy.byte() > 8 {
            continue;
        }
        MESSAGES[pick].frame(entropy, &mut out);
    }
    out
}
