//! Kernels, their arguments, and what can be learned about both.

use std::ffi::c_void;

use ropeway_abi as cl;
use ropeway_protocol::types::{ArgDeclaration, ArgKind, KernelArgInfo, KernelInfo, Status, WorkGroupInfo};

use super::api::api;
use super::{Device, DeviceQueue, Memory, Sampler, check, info};

/// Most arguments of one kernel that are looked at: far above what any compiler takes.
const MAX_ARGS: u32 = 4096;

/// The largest size that is tried for an argument passed by value.
const MAX_VALUE: usize = 4096;

/// Memory to probe argument values with: all zero, so that a driver that takes it for a handle sees a null one.
static ZEROS: [u64; MAX_VALUE / 8] = [0; MAX_VALUE / 8];

/// A native kernel. Arguments must not be set by two threads at once.
#[derive(Debug)]
pub struct Kernel(pub(super) cl::cl_kernel);

// SAFETY: OpenCL's handles may be used from any thread but for clSetKernelArg (OpenCL 3.0 API, appendix A.2), which
// takes `&mut self` here.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// What identifies it in this process.
    pub fn address(&self) -> usize {
        self.0.addr()
    }

    fn set(&mut self, index: u32, size: usize, value: *const c_void) -> i32 {
        // SAFETY: callers pass null or a pointer to `size` readable bytes.
        unsafe { (api().clSetKernelArg)(self.0, index, size, value) }
    }

    /// Sets an argument to these bytes. The caller has made sure that the argument does not take a handle: a driver
    /// would follow whatever the bytes say.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn set_bytes(&mut self, index: u32, bytes: &[u8]) -> Result<(), Status> {
        check(self.set(index, bytes.len(), bytes.as_ptr().cast()))
    }

    /// Sets an argument to a memory object, or to none.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn set_memory(&mut self, index: u32, memory: Option<&Memory>) -> Result<(), Status> {
        // Shared virtual memory has no handle, and a null one means something else.
        if memory.is_some_and(|memory| memory.as_svm().is_some()) {
            return Err(cl::CL_INVALID_MEM_OBJECT);
        }
        let handle = memory.map_or(std::ptr::null_mut(), |m| m.mem);
        check(self.set(index, size_of::<cl::cl_mem>(), (&raw const handle).cast()))
    }

    /// Sets an argument to an address in shared virtual memory, or to the null pointer (clSetKernelArgSVMPointer).
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_ARG_VALUE for what is no such memory or behind its end.
    pub fn set_svm(&mut self, index: u32, place: Option<(&Memory, u64)>) -> Result<(), Status> {
        let pointer = match place {
            None => std::ptr::null_mut(),
            Some((memory, offset)) => {
                let (offset, _) = memory.range(offset, 0).map_err(|_| cl::CL_INVALID_ARG_VALUE)?;
                memory.as_svm().ok_or(cl::CL_INVALID_ARG_VALUE)?.at(offset)
            }
        };
        let set = api().clSetKernelArgSVMPointer.ok_or(cl::CL_INVALID_OPERATION)?;
        // SAFETY: the kernel is alive; the address is null or one of the application's own memory.
        check(unsafe { set(self.0, index, pointer.cast_const().cast()) })
    }

    /// Tells which shared virtual memory it uses beside that of its arguments (CL_KERNEL_EXEC_INFO_SVM_PTRS).
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_VALUE for what is no such memory or behind its end.
    pub fn set_svm_pointers(&mut self, places: &[(&Memory, u64)]) -> Result<(), Status> {
        let pointer = |(memory, offset): &(&Memory, u64)| {
            let (offset, _) = memory.range(*offset, 0)?;
            Ok(memory.as_svm().ok_or(cl::CL_INVALID_VALUE)?.at(offset))
        };
        let pointers = places.iter().map(pointer).collect::<Result<Vec<*mut u8>, Status>>()?;
        let set = api().clSetKernelExecInfo.ok_or(cl::CL_INVALID_OPERATION)?;
        let size = size_of_val(pointers.as_slice());
        let list = if pointers.is_empty() { std::ptr::null() } else { pointers.as_ptr().cast() };
        // SAFETY: the kernel is alive; the list has the announced size.
        check(unsafe { set(self.0, cl::CL_KERNEL_EXEC_INFO_SVM_PTRS, size, list) })
    }

    /// Sets an argument to a sampler.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn set_sampler(&mut self, index: u32, sampler: &Sampler) -> Result<(), Status> {
        check(self.set(index, size_of::<cl::cl_sampler>(), (&raw const sampler.0).cast()))
    }

    /// Sets an argument to a queue on the device.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn set_queue(&mut self, index: u32, queue: &DeviceQueue) -> Result<(), Status> {
        let handle = queue.raw();
        check(self.set(index, size_of::<cl::cl_command_queue>(), (&raw const handle).cast()))
    }

    /// Gives an argument so many bytes of local memory.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn set_local(&mut self, index: u32, size: u64) -> Result<(), Status> {
        check(self.set(index, size as usize, std::ptr::null()))
    }

    /// Answers all queries about the kernel. This sets the kernel's arguments, so use a separate kernel for it.
    pub fn describe(mut self, devices: &[(u32, Device)]) -> KernelInfo {
        let ask = |kernel: cl::cl_kernel, name: u32| {
            // SAFETY: the callers pass memory of the size they announce.
            move |size: usize, value: *mut c_void, ret: *mut usize| unsafe {
                (api().clGetKernelInfo)(kernel, name, size, value, ret)
            }
        };
        let count: u32 = info::value(ask(self.0, cl::CL_KERNEL_NUM_ARGS)).unwrap_or_default();
        KernelInfo {
            name: info::text(ask(self.0, cl::CL_KERNEL_FUNCTION_NAME)).unwrap_or_default(),
            attributes: info::text(ask(self.0, cl::CL_KERNEL_ATTRIBUTES)).unwrap_or_default(),
            work_group: devices.iter().map(|(index, device)| self.work_group(*index, *device)).collect(),
            args: (0..count.min(MAX_ARGS)).map(|index| self.argument(index)).collect(),
        }
    }

    fn work_group(&self, index: u32, device: Device) -> WorkGroupInfo {
        let ask = |name: u32| {
            // SAFETY: the callers pass memory of the size they announce.
            move |size: usize, value: *mut c_void, ret: *mut usize| unsafe {
                (api().clGetKernelWorkGroupInfo)(self.0, device.0, name, size, value, ret)
            }
        };
        let size = |name| info::value::<usize>(ask(name)).unwrap_or_default() as u64;
        WorkGroupInfo {
            device: index,
            work_group_size: size(cl::CL_KERNEL_WORK_GROUP_SIZE),
            compile_work_group_size: info::value::<[usize; 3]>(ask(cl::CL_KERNEL_COMPILE_WORK_GROUP_SIZE))
                .unwrap_or_default()
                .map(|n| n as u64),
            local_mem_size: info::value(ask(cl::CL_KERNEL_LOCAL_MEM_SIZE)).unwrap_or_default(),
            preferred_multiple: size(cl::CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE),
            private_mem_size: info::value(ask(cl::CL_KERNEL_PRIVATE_MEM_SIZE)).unwrap_or_default(),
            // This query fails for all kernels except built-in ones and those on custom devices.
            global_work_size: info::value::<[usize; 3]>(ask(cl::CL_KERNEL_GLOBAL_WORK_SIZE))
                .ok()
                .map(|sizes| sizes.map(|n| n as u64)),
        }
    }

    fn argument(&mut self, index: u32) -> KernelArgInfo {
        let declared = self.declaration(index);
        let kind = match &declared {
            Some(declared) => self.kind_as_declared(index, declared),
            None => self.kind_by_trial(index),
        };
        KernelArgInfo { kind, declared }
    }

    fn declaration(&self, index: u32) -> Option<ArgDeclaration> {
        let ask = |name: u32| {
            // SAFETY: the callers pass memory of the size they announce.
            move |size: usize, value: *mut c_void, ret: *mut usize| unsafe {
                (api().clGetKernelArgInfo)(self.0, index, name, size, value, ret)
            }
        };
        Some(ArgDeclaration {
            address: info::value(ask(cl::CL_KERNEL_ARG_ADDRESS_QUALIFIER)).ok()?,
            access: info::value(ask(cl::CL_KERNEL_ARG_ACCESS_QUALIFIER)).ok()?,
            type_qualifier: info::value(ask(cl::CL_KERNEL_ARG_TYPE_QUALIFIER)).ok()?,
            type_name: info::text(ask(cl::CL_KERNEL_ARG_TYPE_NAME)).ok()?,
            name: info::text(ask(cl::CL_KERNEL_ARG_NAME)).ok()?,
        })
    }

    fn kind_as_declared(&mut self, index: u32, declared: &ArgDeclaration) -> ArgKind {
        let is = |name: &str| declared.type_name.starts_with(name) && !declared.type_name.ends_with('*');
        if declared.type_qualifier & u64::from(cl::CL_KERNEL_ARG_TYPE_PIPE) != 0 || is("pipe") {
            return ArgKind::Pipe;
        }
        if is("queue_t") {
            return ArgKind::Queue;
        }
        if is("sampler_t") {
            return ArgKind::Sampler;
        }
        if is("image") || declared.access != cl::CL_KERNEL_ARG_ACCESS_NONE {
            return ArgKind::Image;
        }
        match declared.address {
            cl::CL_KERNEL_ARG_ADDRESS_LOCAL => ArgKind::Local,
            cl::CL_KERNEL_ARG_ADDRESS_GLOBAL | cl::CL_KERNEL_ARG_ADDRESS_CONSTANT => ArgKind::Buffer,
            _ => self.value_size(index),
        }
    }

    /// Learns what an argument takes from what clSetKernelArg accepts. Only null and zero values are tried.
    ///
    /// Seen on PoCL 3.1 and NVIDIA 580: no value at all is taken for memory objects (NVIDIA: of whatever size) and for
    /// local memory; a null memory object is taken for memory objects alone.
    fn kind_by_trial(&mut self, index: u32) -> ArgKind {
        let handle = size_of::<cl::cl_mem>();
        // Try this first: Intel's CPU runtime of 2026 crashes when a queue argument is set with no value at all.
        if self.set(index, handle, ZEROS.as_ptr().cast()) == cl::CL_INVALID_DEVICE_QUEUE {
            return ArgKind::Queue;
        }
        if self.set(index, handle, std::ptr::null()) != cl::CL_SUCCESS {
            return self.value_size(index);
        }
        if self.set(index, handle, ZEROS.as_ptr().cast()) == cl::CL_SUCCESS { ArgKind::Buffer } else { ArgKind::Local }
    }

    /// Finds the size of an argument that is passed by value. PoCL accepts a structure of any size, so the size of a
    /// structure is unknown; an argument that accepts no value at all must be a handle of some kind.
    fn value_size(&mut self, index: u32) -> ArgKind {
        let likely = [4usize, 8, 1, 2, 16, 32, 64, 128];
        let mut found = None;
        for size in likely.into_iter().chain((1..=MAX_VALUE).filter(|n| !likely.contains(n))) {
            if found.is_some() && !likely.contains(&size) {
                break;
            }
            match self.set(index, size, ZEROS.as_ptr().cast()) {
                cl::CL_SUCCESS if found.is_some() => return ArgKind::Unknown,
                cl::CL_SUCCESS => found = Some(size),
                cl::CL_INVALID_SAMPLER => return ArgKind::Sampler,
                cl::CL_INVALID_MEM_OBJECT => return ArgKind::Image,
                cl::CL_INVALID_DEVICE_QUEUE => return ArgKind::Queue,
                _ => {}
            }
        }
        found.map_or(ArgKind::Other, |size| ArgKind::Value(size as u32))
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that the value owns.
        unsafe { (api().clReleaseKernel)(self.0) };
    }
}
