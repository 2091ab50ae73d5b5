//! Capabilities: the part of a native device that Ropeway offers.
//!
//! Most properties are passed on as they are. This is the one place that says which are not: what needs functions of
//! the host API that Ropeway does not have yet is reported as absent, in every query that could name it.

use ropeway_abi::*;

use crate::objects::text_of;

/// The answer to a query of a device, in place of the native one.
pub enum Answer {
    /// A cl_uint or cl_bool.
    Uint(cl_uint),
    /// A bit-field: the native bits that are among these.
    Masked(cl_ulong),
    /// A list of extension names: the native one, filtered.
    Extensions,
    /// The same as cl_name_version structures.
    ExtensionsWithVersion,
    /// An array of pointers to strings: the native ones, which come one after the other.
    Strings,
    /// CL_INVALID_VALUE: the extension that has this query is not offered.
    Refused,
}

/// The answer to a query of a device, where the native one does not hold through Ropeway.
pub fn device_info(name: cl_device_info) -> Option<Answer> {
    use Answer::*;
    Some(match name {
        // The host's memory is another machine's.
        CL_DEVICE_HOST_UNIFIED_MEMORY => Uint(CL_FALSE),
        CL_DEVICE_SVM_CAPABILITIES => Masked(CL_DEVICE_SVM_COARSE_GRAIN_BUFFER),

        CL_DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS_KHR | CL_DEVICE_SPIRV_EXTENSIONS_KHR => Strings,

        // Lists of names.
        CL_DEVICE_EXTENSIONS => Extensions,
        CL_DEVICE_EXTENSIONS_WITH_VERSION => ExtensionsWithVersion,

        // Queries of extensions that are not offered.
        CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR
        | CL_DEVICE_COMMAND_BUFFER_SUPPORTED_QUEUE_PROPERTIES_KHR
        | CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR
        | CL_DEVICE_COMMAND_BUFFER_NUM_SYNC_DEVICES_KHR
        | CL_DEVICE_COMMAND_BUFFER_SYNC_DEVICES_KHR
        | CL_DEVICE_MUTABLE_DISPATCH_CAPABILITIES_KHR
        | CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR
        | CL_DEVICE_SEMAPHORE_IMPORT_HANDLE_TYPES_KHR
        | CL_DEVICE_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR
        | CL_DEVICE_SVM_TYPE_CAPABILITIES_KHR
        | CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL
        | CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL
        | CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL
        | CL_DEVICE_CROSS_DEVICE_SHARED_MEM_CAPABILITIES_INTEL
        | CL_DEVICE_SHARED_SYSTEM_MEM_CAPABILITIES_INTEL => Refused,
        _ => return None,
    })
}

/// Extensions that are offered where the device has them: those of the language, and those of queries that are passed
/// on. Extensions that are not listed may need host functions that Ropeway lacks.
pub const EXTENSIONS: &[&str] = &[
    "cl_amd_device_attribute_query",
    "cl_amd_fp64",
    "cl_amd_media_ops",
    "cl_amd_media_ops2",
    "cl_amd_popcnt",
    "cl_amd_printf",
    "cl_amd_vec3",
    "cl_arm_core_id",
    "cl_arm_integer_dot_product_accumulate_int16",
    "cl_arm_integer_dot_product_accumulate_int8",
    "cl_arm_integer_dot_product_accumulate_saturate_int8",
    "cl_arm_integer_dot_product_int8",
    "cl_arm_matrix_multiply",
    "cl_clang_storage_class_specifiers",
    "cl_ext_cxx_for_opencl",
    "cl_ext_device_fission",
    "cl_ext_float_atomics",
    "cl_ext_image_raw10_raw12",
    "cl_ext_image_unorm_int_2_101010",
    "cl_intel_bfloat16_conversions",
    "cl_intel_bit_instructions",
    "cl_intel_device_attribute_query",
    "cl_intel_global_float_atomics",
    "cl_intel_media_block_io",
    "cl_intel_required_subgroup_size",
    "cl_intel_spirv_subgroups",
    "cl_intel_split_work_group_barrier",
    "cl_intel_subgroup_2d_block_io",
    "cl_intel_subgroup_buffer_prefetch",
    "cl_intel_subgroup_extended_block_read",
    "cl_intel_subgroup_local_block_io",
    "cl_intel_subgroup_matrix_multiply_accumulate",
    "cl_intel_subgroup_split_matrix_multiply_accumulate",
    "cl_intel_subgroups",
    "cl_intel_subgroups_char",
    "cl_intel_subgroups_long",
    "cl_intel_subgroups_short",
    "cl_khr_3d_image_writes",
    "cl_khr_async_work_group_copy_fence",
    "cl_khr_byte_addressable_store",
    "cl_khr_create_command_queue",
    "cl_khr_depth_images",
    "cl_khr_device_uuid",
    "cl_khr_expect_assume",
    "cl_khr_extended_async_copies",
    "cl_khr_extended_bit_ops",
    "cl_khr_extended_versioning",
    "cl_khr_fp16",
    "cl_khr_fp64",
    "cl_khr_global_int32_base_atomics",
    "cl_khr_global_int32_extended_atomics",
    "cl_khr_icd",
    "cl_khr_il_program",
    "cl_khr_image2d_from_buffer",
    "cl_khr_int64_base_atomics",
    "cl_khr_int64_extended_atomics",
    "cl_khr_integer_dot_product",
    "cl_khr_kernel_clock",
    "cl_khr_local_int32_base_atomics",
    "cl_khr_local_int32_extended_atomics",
    "cl_khr_pci_bus_info",
    "cl_khr_priority_hints",
    "cl_khr_select_fprounding_mode",
    "cl_khr_spir",
    "cl_khr_spirv_extended_debug_info",
    "cl_khr_spirv_linkonce_odr",
    "cl_khr_spirv_no_integer_wrap_decoration",
    "cl_khr_spirv_queries",
    "cl_khr_srgb_image_writes",
    "cl_khr_subgroup_ballot",
    "cl_khr_subgroup_clustered_reduce",
    "cl_khr_subgroup_extended_types",
    "cl_khr_subgroup_named_barrier",
    "cl_khr_subgroup_non_uniform_arithmetic",
    "cl_khr_subgroup_non_uniform_vote",
    "cl_khr_subgroup_rotate",
    "cl_khr_subgroup_shuffle",
    "cl_khr_subgroup_shuffle_relative",
    "cl_khr_subgroups",
    "cl_khr_suggested_local_work_size",
    "cl_khr_throttle_hints",
    "cl_khr_work_group_uniform_arithmetic",
    "cl_nv_compiler_options",
    "cl_nv_device_attribute_query",
    "cl_nv_kernel_attribute",
    "cl_nv_pragma_unroll",
    "cl_qcom_reqd_sub_group_size",
    "cl_qcom_subgroup_shuffle",
];

/// The offered extensions among the native ones, with single blanks between them.
pub fn extensions(native: &[u8]) -> String {
    let names = text_of(native).unwrap_or_default().split_ascii_whitespace();
    names.filter(|name| EXTENSIONS.contains(name)).collect::<Vec<_>>().join(" ")
}

/// The offered extensions among the native cl_name_version structures.
pub fn extensions_with_version(native: &[u8]) -> Vec<u8> {
    filter_name_versions(native, |name| EXTENSIONS.contains(&name))
}

/// Bytes of a cl_name_version: a cl_version, then the name in 64 bytes with at least one NUL.
const NAME_VERSION_LEN: usize = 4 + CL_NAME_VERSION_MAX_NAME_SIZE;

fn filter_name_versions(native: &[u8], keep: impl Fn(&str) -> bool) -> Vec<u8> {
    let name = |entry: &[u8]| {
        let name = entry[4..].split(|&byte| byte == 0).next().unwrap_or_default();
        std::str::from_utf8(name).is_ok_and(&keep)
    };
    native.chunks_exact(NAME_VERSION_LEN).filter(|entry| name(entry)).flatten().copied().collect()
}

/// CL_MAKE_VERSION.
pub const fn version(major: cl_uint, minor: cl_uint, patch: cl_uint) -> cl_version {
    major << 22 | minor << 12 | patch
}

/// A cl_name_version; the name is shorter than 64 bytes.
pub fn name_version(name: &str, version: cl_version) -> [u8; NAME_VERSION_LEN] {
    let mut entry = [0; NAME_VERSION_LEN];
    entry[..4].copy_from_slice(&version.to_ne_bytes());
    entry[4..4 + name.len()].copy_from_slice(name.as_bytes());
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_filtered_in_both_forms() {
        let native = b"cl_khr_fp64  cl_khr_gl_sharing cl_khr_mipmap_image cl_nv_pragma_unroll \0";
        assert_eq!(extensions(native), "cl_khr_fp64 cl_nv_pragma_unroll");
        let (kept, dropped) = (name_version("cl_khr_fp64", version(1, 0, 0)), name_version("cl_khr_gl_sharing", 1));
        assert_eq!(extensions_with_version(&[dropped, kept, dropped].concat()), kept);
        assert_eq!(extensions_with_version(&kept[..10]), [], "half an entry is none");
    }

    #[test]
    fn the_list_of_extensions_is_in_order() {
        assert!(EXTENSIONS.is_sorted());
    }
}
