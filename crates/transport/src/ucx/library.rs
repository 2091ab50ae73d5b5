//! The part of UCX's protocol layer (libucp) that a link needs: types, numbers and functions as its public interface has
//! them from version 1.13 on. The library is loaded when a link over it is wanted.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io::{self, ErrorKind};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The version of the interface that this file describes.
pub(super) const API: (c_uint, c_uint) = (1, 13);

/// How an operation went (`ucs_status_t`, an enumeration of one byte).
pub(super) type Status = i8;

pub(super) const OK: Status = 0;
pub(super) const IN_PROGRESS: Status = 1;
pub(super) const UNREACHABLE: Status = -6;
pub(super) const BUSY: Status = -15;
/// The last of the failures: a pointer from here on is one of them.
const LAST: Status = -100;

/// What an operation returns: null when it is done, a failure, or what is to be asked for its state.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct StatusPointer(pub(super) *mut c_void);

/// What has become of an operation.
pub(super) enum Begun {
    Done,
    Failed(Status),
    Request(*mut c_void),
}

impl StatusPointer {
    pub(super) fn begun(self) -> Begun {
        let number = self.0 as isize;
        match number {
            0 => Begun::Done,
            _ if number < 0 && number >= LAST as isize => Begun::Failed(number as Status),
            _ => Begun::Request(self.0),
        }
    }
}

pub(super) const FEATURE_TAG: u64 = 1;
pub(super) const FEATURE_WAKEUP: u64 = 1 << 4;
pub(super) const THREADS_ONE_AT_A_TIME: c_int = 1;
pub(super) const FAILURE_OF_NOBODY: c_int = 0;
pub(super) const FAILURE_OF_PEER: c_int = 1;
pub(super) const MAP_ALLOCATE: c_uint = 1 << 1;
pub(super) const CLOSE_BY_FORCE: u32 = 1;
/// `ucp_dt_make_contig(1)`: bytes. What a request's datatype is where it says nothing.
pub(super) const OP_FLAGS: u32 = 1 << 4;
pub(super) const OP_MEMORY: u32 = 1 << 8;

/// `ucp_params_t`, as far as fields are used; which are, `field_mask` says.
#[repr(C)]
pub(super) struct Params {
    pub(super) field_mask: u64,
    pub(super) features: u64,
    pub(super) rest: [u64; 8],
}

impl Params {
    pub(super) const FEATURES: u64 = 1;
}

/// `ucp_worker_params_t`.
#[repr(C)]
pub(super) struct WorkerParams {
    pub(super) field_mask: u64,
    pub(super) thread_mode: c_int,
    pub(super) rest: [u64; 23],
}

impl WorkerParams {
    pub(super) const THREAD_MODE: u64 = 1;
}

/// `ucp_ep_params_t`.
#[repr(C)]
pub(super) struct EndpointParams {
    pub(super) field_mask: u64,
    pub(super) address: *const c_void,
    pub(super) failure_mode: c_int,
    pub(super) on_failure: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, Status)>,
    pub(super) failure_argument: *mut c_void,
    pub(super) rest: [u64; 8],
}

impl EndpointParams {
    pub(super) const ADDRESS: u64 = 1;
    pub(super) const FAILURE_MODE: u64 = 1 << 1;
    pub(super) const ON_FAILURE: u64 = 1 << 2;
}

/// `ucp_request_param_t`.
#[repr(C)]
pub(super) struct RequestParams {
    pub(super) op_attr_mask: u32,
    pub(super) flags: u32,
    pub(super) request: *mut c_void,
    pub(super) callback: *mut c_void,
    pub(super) datatype: u64,
    pub(super) user_data: *mut c_void,
    pub(super) reply_buffer: *mut c_void,
    pub(super) memory_type: c_int,
    pub(super) receive_info: *mut c_void,
    pub(super) memory: *mut c_void,
}

impl RequestParams {
    /// With neither callback nor wishes.
    pub(super) fn plain() -> Self {
        let none = std::ptr::null_mut();
        Self {
            op_attr_mask: 0,
            flags: 0,
            request: none,
            callback: none,
            datatype: 0,
            user_data: none,
            reply_buffer: none,
            memory_type: 0,
            receive_info: none,
            memory: none,
        }
    }
}

/// `ucp_mem_map_params_t`.
#[repr(C)]
pub(super) struct MapParams {
    pub(super) field_mask: u64,
    pub(super) address: *mut c_void,
    pub(super) length: usize,
    pub(super) flags: c_uint,
    pub(super) rest: [u32; 3],
}

impl MapParams {
    pub(super) const LENGTH: u64 = 1 << 1;
    pub(super) const FLAGS: u64 = 1 << 2;
}

/// `ucp_mem_attr_t`.
#[repr(C)]
pub(super) struct MapAttributes {
    pub(super) field_mask: u64,
    pub(super) address: *mut c_void,
    pub(super) rest: [u64; 2],
}

impl MapAttributes {
    pub(super) const ADDRESS: u64 = 1;
}

/// `ucp_tag_recv_info_t`.
#[repr(C)]
#[derive(Default)]
pub(super) struct TagInfo {
    pub(super) tag: u64,
    pub(super) length: usize,
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<Params>() == 80 && size_of::<WorkerParams>() == 200 && size_of::<EndpointParams>() == 104);
    assert!(size_of::<RequestParams>() == 72 && size_of::<MapParams>() == 40 && size_of::<MapAttributes>() == 32);
    assert!(offset_of!(EndpointParams, on_failure) == 24 && offset_of!(RequestParams, memory) == 64);
    assert!(offset_of!(RequestParams, callback) == 16 && offset_of!(MapParams, flags) == 24);
};

macro_rules! functions {
    ($(in $library:ident { $($name:ident($($argument:ty),*) $(-> $result:ty)?;)* })*) => {
        /// The functions.
        pub(super) struct Api {
            $($(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*)*
        }

        impl Api {
            /// Finds them; they stay valid, as a library that keeps threads and handlers is never unloaded.
            ///
            /// # Safety
            /// The libraries are UCX's.
            unsafe fn of($($library: Library),*) -> Result<Self, libloading::Error> {
                let api = Self {
                    // SAFETY: these are their types in UCX's public interface.
                    $($($name: *unsafe { $library.get(concat!(stringify!($name), "\0").as_bytes()) }?,)*)*
                };
                $(std::mem::forget($library);)*
                Ok(api)
            }
        }
    };
}

functions! {
    in ucp {
    ucp_config_read(*const c_char, *const c_char, *mut *mut c_void) -> Status;
    ucp_config_modify(*mut c_void, *const c_char, *const c_char) -> Status;
    ucp_config_release(*mut c_void);
    ucp_init_version(c_uint, c_uint, *const Params, *const c_void, *mut *mut c_void) -> Status;
    ucp_cleanup(*mut c_void);
    ucp_worker_create(*mut c_void, *const WorkerParams, *mut *mut c_void) -> Status;
    ucp_worker_destroy(*mut c_void);
    ucp_worker_get_address(*mut c_void, *mut *mut c_void, *mut usize) -> Status;
    ucp_worker_release_address(*mut c_void, *mut c_void);
    ucp_worker_progress(*mut c_void) -> c_uint;
    ucp_worker_get_efd(*mut c_void, *mut c_int) -> Status;
    ucp_worker_arm(*mut c_void) -> Status;
    ucp_ep_create(*mut c_void, *const EndpointParams, *mut *mut c_void) -> Status;
    ucp_ep_close_nbx(*mut c_void, *const RequestParams) -> StatusPointer;
    ucp_ep_flush_nbx(*mut c_void, *const RequestParams) -> StatusPointer;
    ucp_mem_map(*mut c_void, *const MapParams, *mut *mut c_void) -> Status;
    ucp_mem_unmap(*mut c_void, *mut c_void) -> Status;
    ucp_mem_query(*mut c_void, *mut MapAttributes) -> Status;
    ucp_tag_send_nbx(*mut c_void, *const c_void, usize, u64, *const RequestParams) -> StatusPointer;
    ucp_tag_probe_nb(*mut c_void, u64, u64, c_int, *mut TagInfo) -> *mut c_void;
    ucp_tag_msg_recv_nbx(*mut c_void, *mut c_void, usize, *mut c_void, *const RequestParams) -> StatusPointer;
    ucp_request_check_status(*mut c_void) -> Status;
    ucp_request_free(*mut c_void);
    }
    in ucs {
    ucs_status_string(Status) -> *const c_char;
    ucs_debug_disable_signals();
    ucs_global_opts_set_value(*const c_char, *const c_char) -> Status;
    }
}

/// Loads the library, once for the process.
///
/// # Errors
/// [`ErrorKind::Unsupported`]: a sentence that says what to install.
pub(super) fn api() -> io::Result<&'static Api> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let api = API.get_or_init(|| load().map_err(|error| error.to_string()));
    api.as_ref().map_err(|why| {
        let text = format!("ucx:// needs UCX 1.13 or newer on this machine (Debian's package libucx0): {why}");
        io::Error::new(ErrorKind::Unsupported, text)
    })
}

fn load() -> Result<Api, libloading::Error> {
    // SAFETY: the initialisers of UCX's libraries read the environment, fill tables and set handlers for signals, which
    // are taken back below.
    let open = |name: &str| unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
    // First the lower one, so that it is known whether both are there before anything else is done.
    let (ucs, ucp) = (open("libucs.so.0")?, open("libucp.so.0")?);
    // SAFETY: by their names, the libraries are UCX's.
    let api = unsafe { Api::of(ucp, ucs) }?;
    // SAFETY: the function may be called at any time; crashes are the program's own matter, as without this library.
    unsafe { (api.ucs_debug_disable_signals)() };
    if std::env::var_os("UCX_LOG_LEVEL").is_none() {
        // Its words would stand between the program's own; what fails is said as an error of the link.
        // SAFETY: both strings end with a zero; the function keeps neither.
        unsafe { (api.ucs_global_opts_set_value)(c"LOG_LEVEL".as_ptr(), c"fatal".as_ptr()) };
    }
    Ok(api)
}
