//! cl_ropeway_collectives: its types and numbers.

use opencl_sys::{cl_bitfield, cl_kernel, cl_uint};

/// How elements are combined.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cl_reduction_ropeway {
    /// CL_REDUCTION_SUM_ROPEWAY and so on.
    pub reduction_operator: cl_uint,
    /// CL_REDUCTION_CHAR_ROPEWAY and so on.
    pub reduction_type: cl_uint,
    /// For CL_REDUCTION_KERNEL_ROPEWAY.
    pub kernel: cl_kernel,
    /// For CL_REDUCTION_KERNEL_ROPEWAY, in bytes.
    pub element_size: usize,
    /// CL_REDUCTION_ORDERED_ROPEWAY.
    pub flags: cl_bitfield,
}

/// CL_SCAN_EXCLUSIVE_ROPEWAY.
#[allow(non_camel_case_types)]
pub type cl_scan_flags_ropeway = cl_bitfield;

/// The type of that operation's event.
pub const CL_COMMAND_BROADCAST_BUFFER_ROPEWAY: cl_uint = 0x5257_0301;
/// The type of that operation's event.
pub const CL_COMMAND_SCATTER_BUFFER_ROPEWAY: cl_uint = 0x5257_0302;
/// The type of that operation's event.
pub const CL_COMMAND_GATHER_BUFFER_ROPEWAY: cl_uint = 0x5257_0303;
/// The type of that operation's event.
pub const CL_COMMAND_ALL_GATHER_BUFFER_ROPEWAY: cl_uint = 0x5257_0304;
/// The type of that operation's event.
pub const CL_COMMAND_ALL_TO_ALL_BUFFER_ROPEWAY: cl_uint = 0x5257_0305;
/// The type of that operation's event.
pub const CL_COMMAND_REDUCE_BUFFER_ROPEWAY: cl_uint = 0x5257_0306;
/// The type of that operation's event.
pub const CL_COMMAND_ALL_REDUCE_BUFFER_ROPEWAY: cl_uint = 0x5257_0307;
/// The type of that operation's event.
pub const CL_COMMAND_REDUCE_SCATTER_BUFFER_ROPEWAY: cl_uint = 0x5257_0308;
/// The type of that operation's event.
pub const CL_COMMAND_SCAN_BUFFER_ROPEWAY: cl_uint = 0x5257_0309;
/// An operator.
pub const CL_REDUCTION_SUM_ROPEWAY: cl_uint = 0x5257_0311;
/// An operator.
pub const CL_REDUCTION_PRODUCT_ROPEWAY: cl_uint = 0x5257_0312;
/// An operator.
pub const CL_REDUCTION_MIN_ROPEWAY: cl_uint = 0x5257_0313;
/// An operator.
pub const CL_REDUCTION_MAX_ROPEWAY: cl_uint = 0x5257_0314;
/// An operator.
pub const CL_REDUCTION_KERNEL_ROPEWAY: cl_uint = 0x5257_0315;
/// A type of elements.
pub const CL_REDUCTION_CHAR_ROPEWAY: cl_uint = 0x5257_0321;
/// A type of elements.
pub const CL_REDUCTION_UCHAR_ROPEWAY: cl_uint = 0x5257_0322;
/// A type of elements.
pub const CL_REDUCTION_SHORT_ROPEWAY: cl_uint = 0x5257_0323;
/// A type of elements.
pub const CL_REDUCTION_USHORT_ROPEWAY: cl_uint = 0x5257_0324;
/// A type of elements.
pub const CL_REDUCTION_INT_ROPEWAY: cl_uint = 0x5257_0325;
/// A type of elements.
pub const CL_REDUCTION_UINT_ROPEWAY: cl_uint = 0x5257_0326;
/// A type of elements.
pub const CL_REDUCTION_LONG_ROPEWAY: cl_uint = 0x5257_0327;
/// A type of elements.
pub const CL_REDUCTION_ULONG_ROPEWAY: cl_uint = 0x5257_0328;
/// A type of elements.
pub const CL_REDUCTION_HALF_ROPEWAY: cl_uint = 0x5257_0329;
/// A type of elements.
pub const CL_REDUCTION_FLOAT_ROPEWAY: cl_uint = 0x5257_032A;
/// A type of elements.
pub const CL_REDUCTION_DOUBLE_ROPEWAY: cl_uint = 0x5257_032B;
/// The operands of a kernel are in the order of the ranks.
pub const CL_REDUCTION_ORDERED_ROPEWAY: cl_bitfield = 1;
/// Each rank gets what those before it have, without its own.
pub const CL_SCAN_EXCLUSIVE_ROPEWAY: cl_scan_flags_ropeway = 1;
