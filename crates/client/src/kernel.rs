//! Kernels.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_abi::{
    CL_INVALID_ARG_INDEX, CL_INVALID_ARG_SIZE, CL_INVALID_ARG_VALUE, CL_INVALID_KERNEL_NAME,
    CL_INVALID_PROGRAM_EXECUTABLE,
};
use ropeway_protocol::ids::{KernelId, MemoryId, SamplerId};
use ropeway_protocol::messages::{
    CloneKernel, CreateKernel, KernelSubGroupInfo, ReleaseKernel, SetKernelArg, SetKernelSvmPointers,
};
use ropeway_protocol::types::{ArgKind, ArgValue, KernelInfo, WorkGroupInfo};
use smallvec::SmallVec;

use crate::Result;
use crate::connection::{Connection, lock};
use crate::memory::Memory;
use crate::program::{Build, Program};
use crate::sampler::Sampler;
use crate::svm::Region;
use crate::system::Device;

/// A kernel.
pub struct Kernel {
    id: KernelId,
    program: Arc<Program>,
    /// The build that it was made of; the program may have been built again since.
    build: Arc<Build>,
    index: usize,
    /// What the server has for each argument.
    args: Mutex<Vec<Option<Sent>>>,
    unset: AtomicUsize,
    /// The offsets of all sub-buffers among the arguments, or'ed.
    offsets: AtomicUsize,
    /// The most work-items of a group that a launch was taken with, beyond what the device says of the kernel.
    taken: AtomicU64,
    /// Answers to queries about sub-groups.
    sub_groups: Mutex<HashMap<SubGroupQuery, Result<Vec<u64>>>>,
}

/// A query of clGetKernelSubGroupInfo: device, name, input and room for how many values.
type SubGroupQuery = (u32, u32, Vec<u64>, u32);

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.id, self.info().name)
    }
}

/// An argument's value as the application gives it.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// Bytes of a value.
    Bytes(&'a [u8]),
    /// A memory object, or the null one.
    Memory(Option<&'a Memory>),
    /// A sampler.
    Sampler(&'a Sampler),
    /// No value: so many bytes of local memory.
    Local(usize),
    /// An address in shared virtual memory, or the null pointer.
    Svm(Option<&'a Region>),
}

/// An argument's value as the server has it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Sent {
    Bytes(SmallVec<[u8; 16]>),
    /// With the offset of a sub-buffer.
    Memory(Option<(MemoryId, usize)>),
    Sampler(SamplerId),
    Local(usize),
    Svm(Option<(MemoryId, u64)>),
}

impl Kernel {
    /// Makes the kernel `name` of a built program.
    ///
    /// # Errors
    /// CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_KERNEL_NAME, [`crate::SERVER_LOST`].
    pub fn new(program: &Arc<Program>, name: &str) -> Result<Arc<Self>> {
        let build = program.finished_build().filter(|b| b.is_executable()).ok_or(CL_INVALID_PROGRAM_EXECUTABLE)?;
        let index = build.kernels().iter().position(|k| k.name == name).ok_or(CL_INVALID_KERNEL_NAME)?;
        let args = build.kernels()[index].args.len();
        let connection = program.context().connection();
        let id = KernelId(connection.new_id());
        connection.post(&CreateKernel { kernel: id, program: program.id(), name })?;
        program.attach_kernel();
        Ok(Self::made(id, program, build, index, (0..args).map(|_| None).collect()))
    }

    fn made(
        id: KernelId,
        program: &Arc<Program>,
        build: Arc<Build>,
        index: usize,
        args: Vec<Option<Sent>>,
    ) -> Arc<Self> {
        let unset = args.iter().filter(|arg| arg.is_none()).count();
        let offsets = AtomicUsize::new(offsets_of(&args));
        Arc::new(Self {
            id,
            program: Arc::clone(program),
            build,
            index,
            args: Mutex::new(args),
            unset: AtomicUsize::new(unset),
            offsets,
            taken: AtomicU64::new(0),
            sub_groups: Mutex::default(),
        })
    }

    /// Makes a kernel like this one, with the same arguments (clCloneKernel).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn copy(&self) -> Result<Arc<Self>> {
        // Under the lock, so that the server copies what is copied here.
        let args = lock(&self.args);
        let id = KernelId(self.connection().new_id());
        self.connection().post(&CloneKernel { kernel: id, source: self.id })?;
        self.program.attach_kernel();
        Ok(Self::made(id, &self.program, Arc::clone(&self.build), self.index, args.clone()))
    }

    /// What is known of it on a device.
    pub fn work_group(&self, device: &Arc<Device>) -> Option<WorkGroupInfo> {
        self.build.work_group(self.info(), device)
    }

    /// Whether a launch with groups of so many work-items is known to be taken, though the device says less of the kernel.
    pub fn takes(&self, items: u64) -> bool {
        items <= self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn note_taken(&self, items: u64) {
        self.taken.fetch_max(items, Ordering::Relaxed);
    }

    /// clGetKernelSubGroupInfo on one of its program's devices: `room` values at most. Asked once.
    ///
    /// # Errors
    /// What the native call returned, [`crate::SERVER_LOST`].
    pub fn sub_group_info(&self, device: &Device, name: u32, input: &[u64], room: u32) -> Result<Vec<u64>> {
        let query = (device.index(), name, input.to_vec(), room);
        if let Some(known) = lock(&self.sub_groups).get(&query) {
            return known.clone();
        }
        let ask = KernelSubGroupInfo { kernel: self.id, device: query.0, name, input: input.to_vec(), room };
        let answer = self.connection().call(&ask);
        if !self.connection().is_lost() {
            lock(&self.sub_groups).insert(query, answer.clone());
        }
        answer
    }

    /// Its program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// All that can be asked about it; its `work_group` is as the native implementation said, local arguments not counted in.
    pub fn info(&self) -> &KernelInfo {
        &self.build.kernels()[self.index]
    }

    /// The build that it was made of.
    pub fn build(&self) -> &Build {
        &self.build
    }

    /// Bytes of local memory that its arguments take.
    pub fn local_arg_bytes(&self) -> u64 {
        let args = lock(&self.args);
        args.iter().map(|a| if let Some(Sent::Local(n)) = a { *n as u64 } else { 0 }).sum()
    }

    /// Whether every argument has a value.
    pub fn all_args_set(&self) -> bool {
        self.unset.load(Ordering::Acquire) == 0
    }

    /// How an argument was declared, or `None` where there is no such argument.
    pub fn arg_kind(&self, index: u32) -> Option<ArgKind> {
        Some(self.info().args.get(index as usize)?.kind)
    }

    pub(crate) fn id(&self) -> KernelId {
        self.id
    }

    fn connection(&self) -> &Arc<Connection> {
        self.program.context().connection()
    }

    /// Tells which shared virtual memory it uses beside that of its arguments (CL_KERNEL_EXEC_INFO_SVM_PTRS).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn set_svm_pointers(&self, regions: &[Region]) -> Result<()> {
        let pointers = regions.iter().map(Region::place).collect();
        self.connection().post(&SetKernelSvmPointers { kernel: self.id, pointers })
    }

    /// Sets an argument (clSetKernelArg); goes over the link only when the value is another than before.
    ///
    /// # Errors
    /// CL_INVALID_ARG_INDEX, CL_INVALID_ARG_SIZE, CL_INVALID_ARG_VALUE, [`crate::SERVER_LOST`].
    pub fn set_arg(&self, index: u32, value: Arg<'_>) -> Result<()> {
        let kind = self.arg_kind(index).ok_or(CL_INVALID_ARG_INDEX)?;
        check(kind, value)?;
        let (wire, is_known): (ArgValue<'_>, &dyn Fn(&Sent) -> bool) = match value {
            Arg::Bytes(bytes) => {
                (ArgValue::Bytes(bytes), &move |sent| matches!(sent, Sent::Bytes(b) if b.as_slice() == bytes))
            }
            Arg::Sampler(sampler) => {
                let id = sampler.id();
                (ArgValue::Sampler(id), &move |sent| *sent == Sent::Sampler(id))
            }
            Arg::Memory(memory) => {
                let place = memory.map(|memory| (memory.id(), memory.offset()));
                (ArgValue::Memory(memory.map(Memory::id)), &move |sent| *sent == Sent::Memory(place))
            }
            Arg::Local(size) => (ArgValue::Local(size as u64), &move |sent| *sent == Sent::Local(size)),
            Arg::Svm(region) => {
                let place = region.map(Region::place);
                (ArgValue::Svm(place), &move |sent| *sent == Sent::Svm(place))
            }
        };
        let mut args = lock(&self.args);
        let Some(place) = args.get_mut(index as usize) else { return Err(CL_INVALID_ARG_INDEX) };
        if place.as_ref().is_some_and(is_known) {
            return Ok(());
        }
        // Under the lock, so that the server sees values in the order in which they are kept here.
        self.connection().post(&SetKernelArg { kernel: self.id, index, value: wire })?;
        let value = match value {
            Arg::Bytes(bytes) => Sent::Bytes(SmallVec::from_slice(bytes)),
            Arg::Memory(memory) => Sent::Memory(memory.map(|memory| (memory.id(), memory.offset()))),
            Arg::Sampler(sampler) => Sent::Sampler(sampler.id()),
            Arg::Local(size) => Sent::Local(size),
            Arg::Svm(region) => Sent::Svm(region.map(Region::place)),
        };
        if place.replace(value).is_none() {
            self.unset.fetch_sub(1, Ordering::AcqRel);
        }
        self.offsets.store(offsets_of(&args), Ordering::Release);
        Ok(())
    }

    /// Whether all sub-buffers among its arguments begin at multiples of `alignment`, a power of two.
    pub fn sub_buffers_are_aligned(&self, alignment: usize) -> bool {
        self.offsets.load(Ordering::Acquire).is_multiple_of(alignment)
    }
}

/// The offsets of all sub-buffers, or'ed: a power of two divides that if it divides each of them.
fn offsets_of(args: &[Option<Sent>]) -> usize {
    let offset = |arg: &Option<Sent>| if let Some(Sent::Memory(Some((_, offset)))) = arg { *offset } else { 0 };
    args.iter().map(offset).fold(0, |all, one| all | one)
}

/// Holds a value against what the argument takes.
fn check(kind: ArgKind, value: Arg<'_>) -> Result<()> {
    match (kind, value) {
        (ArgKind::Value(size), Arg::Bytes(bytes)) if bytes.len() != size as usize => Err(CL_INVALID_ARG_SIZE),
        (ArgKind::Value(_) | ArgKind::Unknown | ArgKind::Local | ArgKind::Other, Arg::Svm(_)) => {
            Err(CL_INVALID_ARG_VALUE)
        }
        // An object may look like a value to a native implementation.
        (ArgKind::Value(_) | ArgKind::Unknown, Arg::Memory(_) | Arg::Sampler(_)) => Ok(()),
        (ArgKind::Value(_) | ArgKind::Unknown, Arg::Local(_)) => Err(CL_INVALID_ARG_VALUE),
        (ArgKind::Buffer | ArgKind::Image | ArgKind::Sampler, Arg::Bytes(_) | Arg::Local(_)) => {
            Err(CL_INVALID_ARG_SIZE)
        }
        (ArgKind::Local, Arg::Local(0)) => Err(CL_INVALID_ARG_SIZE),
        (ArgKind::Local, Arg::Bytes(_) | Arg::Memory(_) | Arg::Sampler(_)) => Err(CL_INVALID_ARG_VALUE),
        _ => Ok(()),
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.program.detach_kernel();
        // A lost server has dropped it already.
        let _ = self.connection().post(&ReleaseKernel { kernel: self.id });
    }
}
