//! Programs and their builds.

use std::ffi::CString;

use ropeway_abi as cl;
use ropeway_protocol::types::{DeviceBuild, Status};

use super::api::api;
use super::{Context, Device, Kernel, check, info};

/// A native program.
#[derive(Debug)]
pub struct Program(pub(super) cl::cl_program);

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Program {
    /// clCreateProgramWithSource.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn from_source(context: &Context, source: &[u8]) -> Result<Self, Status> {
        let (mut text, len) = (source.as_ptr().cast(), source.len());
        if len == 0 {
            return Err(cl::CL_INVALID_VALUE);
        }
        let mut status = 0;
        // SAFETY: one string with its length; the native call copies it.
        let program =
            unsafe { (api().clCreateProgramWithSource)(context.0, 1, &raw mut text, &raw const len, &raw mut status) };
        check(status)?;
        Ok(Self(program))
    }

    /// clCreateProgramWithBinary: takes a binary for each device, and returns the native call's status for each.
    ///
    /// # Errors
    /// The status of the native call, with the status of each binary.
    pub fn from_binaries(
        context: &Context,
        binaries: &[(Device, &[u8])],
    ) -> Result<(Self, Vec<Status>), (Status, Vec<Status>)> {
        if binaries.is_empty() {
            return Err((cl::CL_INVALID_VALUE, Vec::new()));
        }
        let devices: Vec<_> = binaries.iter().map(|(device, _)| device.0).collect();
        let lengths: Vec<_> = binaries.iter().map(|(_, bytes)| bytes.len()).collect();
        let mut pointers: Vec<_> = binaries.iter().map(|(_, bytes)| bytes.as_ptr()).collect();
        let mut each = vec![cl::CL_SUCCESS; binaries.len()];
        let mut status = 0;
        // SAFETY: all arrays have one entry for each device; the native call copies the binaries.
        let program = unsafe {
            (api().clCreateProgramWithBinary)(
                context.0,
                devices.len() as u32,
                devices.as_ptr(),
                lengths.as_ptr(),
                pointers.as_mut_ptr(),
                each.as_mut_ptr(),
                &raw mut status,
            )
        };
        match check(status) {
            Ok(()) => Ok((Self(program), each)),
            Err(status) => Err((status, each)),
        }
    }

    /// clCreateProgramWithIL.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_OPERATION where there is none.
    pub fn from_il(context: &Context, device: Device, il: &[u8]) -> Result<Self, Status> {
        let mut status = 0;
        let program = match api().clCreateProgramWithIL.filter(|_| device.is_at_least(2, 1)) {
            // SAFETY: the bytes have the announced length; the native call copies them.
            Some(create) => unsafe { create(context.0, il.as_ptr().cast(), il.len(), &raw mut status) },
            None => {
                let found = device.function(c"clCreateProgramWithILKHR").ok_or(cl::CL_INVALID_OPERATION)?;
                // SAFETY: cl_khr_il_program declares it with the core function's type; a pointer and the optional
                // function pointer have the same representation, and it is not null.
                let create = unsafe {
                    std::mem::transmute::<*mut std::ffi::c_void, cl::functions::clCreateProgramWithIL_t>(found.as_ptr())
                };
                let create = create.ok_or(cl::CL_INVALID_OPERATION)?;
                // SAFETY: as above.
                unsafe { create(context.0, il.as_ptr().cast(), il.len(), &raw mut status) }
            }
        };
        check(status)?;
        if program.is_null() { Err(cl::CL_INVALID_VALUE) } else { Ok(Self(program)) }
    }

    /// clSetProgramSpecializationConstant; `device` is one of its context's.
    ///
    /// # Errors
    /// The status of the native call; CL_INVALID_OPERATION where there is none.
    pub fn set_specialization_constant(&self, device: Device, id: u32, value: &[u8]) -> Result<(), Status> {
        let set = api().clSetProgramSpecializationConstant.filter(|_| device.is_at_least(2, 2));
        let set = set.ok_or(cl::CL_INVALID_OPERATION)?;
        // SAFETY: the value has the announced length.
        check(unsafe { set(self.0, id, value.len(), value.as_ptr().cast()) })
    }

    /// clCreateProgramWithBuiltInKernels.
    ///
    /// # Errors
    /// CL_INVALID_VALUE for a name that no device has; else the status of the native call.
    pub fn from_built_in_kernels(context: &Context, devices: &[Device], names: &str) -> Result<Self, Status> {
        // Without any such kernel a native function may be missing or take every name.
        if !names.split(';').all(|name| devices.iter().any(|device| device.has_built_in_kernel(name))) {
            return Err(cl::CL_INVALID_VALUE);
        }
        let devices: Vec<_> = devices.iter().map(|d| d.0).collect();
        let names = CString::new(names).map_err(|_| cl::CL_INVALID_VALUE)?;
        let mut status = 0;
        // SAFETY: the array has the announced length, the names end with NUL.
        let program = unsafe {
            (api().clCreateProgramWithBuiltInKernels)(
                context.0,
                devices.len() as u32,
                devices.as_ptr(),
                names.as_ptr(),
                &raw mut status,
            )
        };
        check(status)?;
        if program.is_null() { Err(cl::CL_INVALID_VALUE) } else { Ok(Self(program)) }
    }

    /// A query of clGetProgramInfo whose answer is a cl_bool; false where there is no such query.
    pub fn flag(&self, name: u32) -> bool {
        // SAFETY: `value` passes memory of the size it announces.
        let value: Result<u32, _> =
            info::value(|size, value, ret| unsafe { (api().clGetProgramInfo)(self.0, name, size, value, ret) });
        value.is_ok_and(|value| value != 0)
    }

    /// clBuildProgram with exactly these options, for all devices of the program where none is given; returns when it
    /// is built.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn build(&self, devices: &[Device], options: &str) -> Result<(), Status> {
        let devices: Vec<_> = devices.iter().map(|d| d.0).collect();
        let options = CString::new(options).map_err(|_| cl::CL_INVALID_BUILD_OPTIONS)?;
        // SAFETY: the array has the announced length, the options end with NUL; without a callback the call blocks.
        check(unsafe {
            (api().clBuildProgram)(
                self.0,
                devices.len() as u32,
                list(&devices),
                options.as_ptr(),
                None,
                std::ptr::null_mut(),
            )
        })
    }

    /// clCompileProgram with exactly these options and no headers: the client has already inlined the headers.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn compile(&self, devices: &[Device], options: &str) -> Result<(), Status> {
        let devices: Vec<_> = devices.iter().map(|d| d.0).collect();
        let options = CString::new(options).map_err(|_| cl::CL_INVALID_COMPILER_OPTIONS)?;
        // SAFETY: the array has the announced length, the options end with NUL; without a callback the call blocks.
        check(unsafe {
            (api().clCompileProgram)(
                self.0,
                devices.len() as u32,
                list(&devices),
                options.as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null_mut(),
                None,
                std::ptr::null_mut(),
            )
        })
    }

    /// clLinkProgram. A link that fails may still leave a program, for its log.
    ///
    /// # Errors
    /// The status of the native call, where that left no program.
    pub fn link(
        context: &Context,
        devices: &[Device],
        inputs: &[&Self],
        options: &str,
    ) -> Result<(Self, Status), Status> {
        let devices: Vec<_> = devices.iter().map(|d| d.0).collect();
        let inputs: Vec<_> = inputs.iter().map(|program| program.0).collect();
        let options = CString::new(options).map_err(|_| cl::CL_INVALID_LINKER_OPTIONS)?;
        let mut status = 0;
        // SAFETY: the arrays have the announced lengths, the options end with NUL; without a callback the call blocks.
        let program = unsafe {
            (api().clLinkProgram)(
                context.0,
                devices.len() as u32,
                list(&devices),
                options.as_ptr(),
                inputs.len() as u32,
                inputs.as_ptr(),
                None,
                std::ptr::null_mut(),
                &raw mut status,
            )
        };
        match (program.is_null(), status) {
            (false, status) => Ok((Self(program), status)),
            (true, cl::CL_SUCCESS) => Err(cl::CL_LINK_PROGRAM_FAILURE),
            (true, status) => Err(status),
        }
    }

    /// clGetProgramBuildInfo, all of it. An entry that a native implementation is too old to answer is 0 or empty. The
    /// status is `otherwise` if the native implementation gives none: PoCL 5 does not know sub-devices of sub-devices
    /// there.
    pub fn build_info(&self, device: Device, otherwise: cl::cl_build_status) -> DeviceBuild {
        let ask = |name: u32| {
            // SAFETY: the callers pass memory of the size they announce.
            move |size: usize, value: *mut libc::c_void, ret: *mut usize| unsafe {
                (api().clGetProgramBuildInfo)(self.0, device.0, name, size, value, ret)
            }
        };
        DeviceBuild {
            status: info::value(ask(cl::CL_PROGRAM_BUILD_STATUS)).unwrap_or(otherwise),
            log: info::text(ask(cl::CL_PROGRAM_BUILD_LOG)).unwrap_or_default(),
            binary_type: info::value(ask(cl::CL_PROGRAM_BINARY_TYPE)).unwrap_or_default(),
            global_variables: info::value::<usize>(ask(cl::CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE))
                .unwrap_or_default() as u64,
        }
    }

    /// CL_PROGRAM_BINARY_SIZES with the devices it is about.
    fn binary_sizes(&self) -> Result<Vec<(cl::cl_device_id, usize)>, Status> {
        let ask = |name: u32| {
            // SAFETY: the callers pass memory of the size they announce.
            move |size: usize, value: *mut libc::c_void, ret: *mut usize| unsafe {
                (api().clGetProgramInfo)(self.0, name, size, value, ret)
            }
        };
        let words = |bytes: Vec<u8>| -> Vec<usize> {
            bytes.as_chunks::<{ size_of::<usize>() }>().0.iter().map(|word| usize::from_ne_bytes(*word)).collect()
        };
        let devices = words(info::bytes(ask(cl::CL_PROGRAM_DEVICES))?);
        let sizes = words(info::bytes(ask(cl::CL_PROGRAM_BINARY_SIZES))?);
        Ok(devices.into_iter().map(|d| d as cl::cl_device_id).zip(sizes).collect())
    }

    /// The size of the binary for `device`; 0 where there is none.
    pub fn binary_size(&self, device: Device) -> u64 {
        let sizes = self.binary_sizes().unwrap_or_default();
        sizes.iter().find(|(d, _)| *d == device.0).map_or(0, |(_, size)| *size as u64)
    }

    /// CL_PROGRAM_BINARIES' entry for `device`.
    ///
    /// # Errors
    /// The status of the native call that failed; CL_INVALID_VALUE where there is none.
    pub fn binary(&self, device: Device) -> Result<Vec<u8>, Status> {
        let sizes = self.binary_sizes()?;
        let index = sizes.iter().position(|(d, _)| *d == device.0).ok_or(cl::CL_INVALID_DEVICE)?;
        if sizes[index].1 == 0 {
            return Err(cl::CL_INVALID_VALUE);
        }
        // A null entry should be skipped, but PoCL writes to it: give every binary room.
        let mut binaries: Vec<_> = sizes.iter().map(|(_, size)| vec![0u8; *size]).collect();
        let mut places: Vec<_> = binaries.iter_mut().map(|binary| binary.as_mut_ptr()).collect();
        // SAFETY: one pointer for each device, with room for that device's binary.
        check(unsafe {
            (api().clGetProgramInfo)(
                self.0,
                cl::CL_PROGRAM_BINARIES,
                size_of_val(places.as_slice()),
                places.as_mut_ptr().cast(),
                std::ptr::null_mut(),
            )
        })?;
        Ok(binaries.swap_remove(index))
    }

    /// CL_PROGRAM_KERNEL_NAMES.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn kernel_names(&self) -> Result<Vec<String>, Status> {
        // SAFETY: `text` passes memory of the size it announces.
        let names = info::text(|size, value, ret| unsafe {
            (api().clGetProgramInfo)(self.0, cl::CL_PROGRAM_KERNEL_NAMES, size, value, ret)
        })?;
        Ok(names.split(';').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// clCreateKernel.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Status> {
        let name = CString::new(name).map_err(|_| cl::CL_INVALID_KERNEL_NAME)?;
        let mut status = 0;
        // SAFETY: the name ends with NUL.
        let kernel = unsafe { (api().clCreateKernel)(self.0, name.as_ptr(), &raw mut status) };
        check(status)?;
        Ok(Kernel(kernel))
    }
}

/// A list of devices as the calls that build want it: null where it is empty, for all of the program's.
fn list(devices: &[cl::cl_device_id]) -> *const cl::cl_device_id {
    if devices.is_empty() { std::ptr::null() } else { devices.as_ptr() }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that the value owns.
        unsafe { (api().clReleaseProgram)(self.0) };
    }
}
