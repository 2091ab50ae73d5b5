//! Kernels.

mod arguments;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_abi::{
    CL_INVALID_ARG_INDEX, CL_INVALID_ARG_SIZE, CL_INVALID_ARG_VALUE, CL_INVALID_KERNEL_NAME,
    CL_INVALID_PROGRAM_EXECUTABLE, CL_KERNEL_ARG_ACCESS_READ_ONLY, CL_KERNEL_ARG_ADDRESS_CONSTANT,
    CL_KERNEL_ARG_TYPE_CONST, CL_MEM_READ_ONLY,
};
use ropeway_protocol::ids::KernelId;
use ropeway_protocol::messages::{
    CloneKernel, CreateKernel, KernelSubGroupInfo, ReleaseKernel, SetKernelArg, SetKernelSvmPointers,
};
use ropeway_protocol::types::{ArgKind, KernelInfo, WorkGroupInfo};
use smallvec::SmallVec;

use crate::base::ids::new_id;
use crate::base::status::Result;
use crate::base::sync::lock;
use crate::objects::access::{Access, Span, Use};
use crate::objects::at_client::Written;
use crate::objects::device::Device;
use crate::objects::device_queue::DeviceQueue;
use crate::objects::home::{CreatedIn, Home};
use crate::objects::memory::Memory;
use crate::objects::program::{Build, Program};
use crate::objects::sampler::Sampler;
use crate::objects::svm::Region;
use arguments::{Arguments, Value};

/// A kernel.
pub struct Kernel {
    id: u64,
    made: CreatedIn,
    program: Arc<Program>,
    /// The build that it was made of; the program may have been built again since.
    build: Arc<Build>,
    index: usize,
    args: Mutex<Arguments>,
    unset: AtomicUsize,
    /// The offsets of all sub-buffers among the arguments, or'ed.
    offsets: AtomicUsize,
    /// The most work-items per group with which a launch was accepted, beyond what the device says of the kernel.
    taken: AtomicU64,
    /// Answers to queries about sub-groups.
    sub_groups: Mutex<HashMap<SubGroupQuery, Result<Vec<u64>>>>,
}

/// A query of clGetKernelSubGroupInfo: home, device, name, input and room for how many values.
type SubGroupQuery = (usize, u32, u32, Vec<u64>, u32);

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", KernelId(self.id), self.info().name)
    }
}

/// An argument's value as the application gives it.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// Bytes of a value.
    Bytes(&'a [u8]),
    /// A memory object, or the null one.
    Memory(Option<&'a Arc<Memory>>),
    /// A sampler.
    Sampler(&'a Arc<Sampler>),
    /// A queue on the device.
    Queue(&'a Arc<DeviceQueue>),
    /// No value: so many bytes of local memory.
    Local(usize),
    /// An address in shared virtual memory, or the null pointer.
    Svm(Option<&'a Region>),
}

/// The memory objects that a launch uses, and how.
#[derive(Default)]
pub(crate) struct Used {
    /// Empty in contexts with one home, where they need not be known.
    memory: SmallVec<[(Arc<Memory>, Access); 4]>,
    /// The storages that it may write, in contexts with one home where anything was ever mapped.
    written: Option<SmallVec<[u64; 4]>>,
}

impl Used {
    pub(crate) fn uses(&self) -> SmallVec<[Use<'_>; 4]> {
        self.memory.iter().map(|(memory, access)| Use { memory, access: *access, span: Span::Whole }).collect()
    }

    /// What it may write.
    pub(crate) fn written(&self) -> Written<'_> {
        self.written.as_deref().map_or(Written::AsUsed, Written::Storages)
    }
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
        let kernel = Self::of(program, build, index, Arguments::none(args));
        if let Some(home) = program.context().only_home() {
            kernel.ensure(home)?;
        }
        Ok(kernel)
    }

    /// Returns a kernel that has been made in no home yet.
    fn of(program: &Arc<Program>, build: Arc<Build>, index: usize, args: Arguments) -> Arc<Self> {
        let unset = args.unset();
        let offsets = AtomicUsize::new(args.offsets());
        program.attach_kernel();
        Arc::new(Self {
            id: new_id(),
            made: CreatedIn::default(),
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
        // Under the lock, so that the server copies the same values that are copied here.
        let args = lock(&self.args);
        let copy = Self::of(&self.program, Arc::clone(&self.build), self.index, args.copy());
        if let Some(home) = self.program.context().only_home() {
            let clone = CloneKernel { kernel: copy.id(home), source: self.id(home) };
            copy.made.ensure(home, || home.connection().post(&clone))?;
        }
        Ok(copy)
    }

    /// Makes the kernel in a home where its program exists and the kernel does not yet.
    fn ensure(&self, home: &Home) -> Result<()> {
        if !self.program.is_in(home) {
            return Err(CL_INVALID_PROGRAM_EXECUTABLE);
        }
        let create =
            CreateKernel { kernel: self.id(home), program: self.program.id(home), name: self.info().name.as_str() };
        self.made.ensure(home, || home.connection().post(&create))
    }

    /// Makes it in a home, with its current arguments. Returns what a launch uses.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`]; CL_INVALID_OPERATION for an argument that can only be used in another home.
    pub(crate) fn ready_in(&self, home: &Home) -> Result<Used> {
        if !self.program.context().spans_homes() {
            let is_mapped = self.program.context().at_client().is_used();
            return Ok(Used { memory: SmallVec::new(), written: is_mapped.then(|| self.written()) });
        }
        self.ensure(home)?;
        let mut args = lock(&self.args);
        args.send(self.id(home), home)?;
        let used = args.values.iter().enumerate().filter_map(|(index, value)| match value {
            Some(Value::Memory(Some(memory))) => {
                let held = Arc::clone(memory.held.as_ref()?);
                let access = if held.flags() & CL_MEM_READ_ONLY != 0 { Access::Read } else { self.access(index) };
                Some((held, access))
            }
            _ => None,
        });
        Ok(Used { memory: used.collect(), written: None })
    }

    /// The storages that a launch may write.
    fn written(&self) -> SmallVec<[u64; 4]> {
        let args = lock(&self.args);
        let written = args.values.iter().enumerate().filter_map(|(index, value)| match value {
            Some(Value::Memory(Some(memory))) => (self.access(index) != Access::Read).then_some(memory.storage),
            _ => None,
        });
        written.collect()
    }

    /// How the kernel may use the memory of an argument, by the argument's declaration.
    fn access(&self, index: usize) -> Access {
        let declared = self.info().args.get(index).and_then(|arg| arg.declared.as_ref());
        let only_reads = declared.is_some_and(|declared| {
            declared.access == CL_KERNEL_ARG_ACCESS_READ_ONLY
                || declared.address == CL_KERNEL_ARG_ADDRESS_CONSTANT
                || declared.type_qualifier & u64::from(CL_KERNEL_ARG_TYPE_CONST) != 0
        });
        if only_reads { Access::Read } else { Access::ReadWrite }
    }

    /// The kernel's properties on a device, from the build.
    pub fn work_group(&self, device: &Arc<Device>) -> Option<WorkGroupInfo> {
        self.build.work_group(self.info(), device)
    }

    /// Whether a launch with groups of `items` work-items is known to be accepted, though the device reports a lower
    /// limit for the kernel.
    pub fn takes(&self, items: u64) -> bool {
        items <= self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn note_taken(&self, items: u64) {
        self.taken.fetch_max(items, Ordering::Relaxed);
    }

    /// clGetKernelSubGroupInfo on one of its program's devices: `room` values at most. Asked once.
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn sub_group_info(&self, device: &Device, name: u32, input: &[u64], room: u32) -> Result<Vec<u64>> {
        let home = self.program.context().home_of(device)?;
        let query = (home.number(), device.index(), name, input.to_vec(), room);
        if let Some(known) = lock(&self.sub_groups).get(&query) {
            return known.clone();
        }
        self.ensure(home)?;
        let ask = KernelSubGroupInfo { kernel: self.id(home), device: query.1, name, input: input.to_vec(), room };
        let answer = home.connection().call(&ask);
        if !home.is_lost() {
            lock(&self.sub_groups).insert(query, answer.clone());
        }
        answer
    }

    /// Its program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// All that can be asked about it; its `work_group` is as the native implementation said, local arguments not
    /// counted in.
    pub fn info(&self) -> &KernelInfo {
        &self.build.kernels()[self.index]
    }

    /// The build that it was made of.
    pub fn build(&self) -> &Build {
        &self.build
    }

    /// Bytes of local memory that its arguments take.
    pub fn local_arg_bytes(&self) -> u64 {
        lock(&self.args).local_bytes()
    }

    /// Whether every argument has a value.
    pub fn all_args_set(&self) -> bool {
        self.unset.load(Ordering::Acquire) == 0
    }

    /// Whether every argument from this one on has a value.
    pub fn all_args_set_from(&self, first: usize) -> bool {
        lock(&self.args).values.iter().skip(first).all(Option::is_some)
    }

    /// How an argument was declared, or `None` where there is no such argument.
    pub fn arg_kind(&self, index: u32) -> Option<ArgKind> {
        Some(self.info().args.get(index as usize)?.kind)
    }

    /// Its name in a home.
    pub(crate) fn id(&self, home: &Home) -> KernelId {
        KernelId(home.name(self.id))
    }

    /// Tells which shared virtual memory it uses beside that of its arguments (CL_KERNEL_EXEC_INFO_SVM_PTRS).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn set_svm_pointers(&self, regions: &[Region]) -> Result<()> {
        let pointers = regions.iter().map(Region::place).collect();
        let home = self.program.context().needs_one_home("shared virtual memory")?;
        home.connection().post(&SetKernelSvmPointers { kernel: self.id(home), pointers })
    }

    /// Sets an argument (clSetKernelArg); goes over the link only when the value is another than before.
    ///
    /// # Errors
    /// CL_INVALID_ARG_INDEX, CL_INVALID_ARG_SIZE, CL_INVALID_ARG_VALUE, [`crate::SERVER_LOST`].
    pub fn set_arg(&self, index: u32, value: Arg<'_>) -> Result<()> {
        let kind = self.arg_kind(index).ok_or(CL_INVALID_ARG_INDEX)?;
        check(kind, value)?;
        let mut args = lock(&self.args);
        if args.has(index as usize, value) {
            return Ok(());
        }
        let only_home = self.program.context().only_home();
        if let Some(home) = only_home {
            // Under the lock, so that the server sees values in the order in which they are kept here.
            let value = Arguments::wire(value, home);
            home.connection().post(&SetKernelArg { kernel: self.id(home), index, value })?;
        }
        if args.set(index as usize, value, only_home.is_none()) {
            self.unset.fetch_sub(1, Ordering::AcqRel);
        }
        self.offsets.store(args.offsets(), Ordering::Release);
        Ok(())
    }

    /// Whether all sub-buffers among its arguments begin at multiples of `alignment`, a power of two.
    pub fn sub_buffers_are_aligned(&self, alignment: usize) -> bool {
        self.offsets.load(Ordering::Acquire).is_multiple_of(alignment)
    }
}

/// Checks a value against what the argument accepts.
fn check(kind: ArgKind, value: Arg<'_>) -> Result<()> {
    match (kind, value) {
        (ArgKind::Value(size), Arg::Bytes(bytes)) if bytes.len() != size as usize => Err(CL_INVALID_ARG_SIZE),
        (ArgKind::Value(_) | ArgKind::Unknown | ArgKind::Local | ArgKind::Other, Arg::Svm(_)) => {
            Err(CL_INVALID_ARG_VALUE)
        }
        (ArgKind::Queue, Arg::Queue(_)) => Ok(()),
        (ArgKind::Queue, Arg::Bytes(_) | Arg::Local(_)) => Err(CL_INVALID_ARG_SIZE),
        (ArgKind::Queue, _) | (_, Arg::Queue(_)) => Err(CL_INVALID_ARG_VALUE),
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
        for home in self.made.among(self.program.context().homes()) {
            // A lost server has dropped it already.
            let _ = home.connection().post(&ReleaseKernel { kernel: self.id(home) });
        }
    }
}
