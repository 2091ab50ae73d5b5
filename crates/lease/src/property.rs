//! What a device says of itself: the answers to clGetDeviceInfo, by the names that the specification gives them, in
//! small letters and without their prefix: `global_mem_size` for CL_DEVICE_GLOBAL_MEM_SIZE (OpenCL 3.0, table 5).

use std::collections::BTreeMap;
use std::fmt;

use opencl_sys as cl;
use serde::{Deserialize, Serialize};

/// One answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `cl_bool`.
    Truth(bool),
    /// Any whole number; sizes are in bytes.
    Number(u64),
    /// A text.
    Text(String),
    /// Several of these: extensions, types, sizes in each dimension.
    List(Vec<Value>),
}

/// All answers of a device, by name.
pub type Properties = BTreeMap<String, Value>;

/// How the bytes of an answer are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// `cl_bool`.
    Truth,
    /// A number of 4 or 8 bytes, little-endian.
    Number,
    /// `size_t[]`.
    Numbers,
    /// `char[]`.
    Text,
    /// `char[]` with spaces between words.
    Words,
    /// `cl_device_type`.
    Type,
}

/// The queries that have a name here.
macro_rules! queries {
    ($($name:literal = $query:ident: $kind:ident,)*) => {
        &[$(($name, cl::$query, Kind::$kind),)*]
    };
}

/// Each property: its name, its query and its kind.
const QUERIES: &[(&str, u32, Kind)] = queries! {
    "type" = CL_DEVICE_TYPE: Type,
    "vendor_id" = CL_DEVICE_VENDOR_ID: Number,
    "max_compute_units" = CL_DEVICE_MAX_COMPUTE_UNITS: Number,
    "max_work_item_dimensions" = CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS: Number,
    "max_work_group_size" = CL_DEVICE_MAX_WORK_GROUP_SIZE: Number,
    "max_work_item_sizes" = CL_DEVICE_MAX_WORK_ITEM_SIZES: Numbers,
    "preferred_vector_width_char" = CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR: Number,
    "preferred_vector_width_short" = CL_DEVICE_PREFERRED_VECTOR_WIDTH_SHORT: Number,
    "preferred_vector_width_int" = CL_DEVICE_PREFERRED_VECTOR_WIDTH_INT: Number,
    "preferred_vector_width_long" = CL_DEVICE_PREFERRED_VECTOR_WIDTH_LONG: Number,
    "preferred_vector_width_float" = CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT: Number,
    "preferred_vector_width_double" = CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE: Number,
    "preferred_vector_width_half" = CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF: Number,
    "native_vector_width_char" = CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR: Number,
    "native_vector_width_short" = CL_DEVICE_NATIVE_VECTOR_WIDTH_SHORT: Number,
    "native_vector_width_int" = CL_DEVICE_NATIVE_VECTOR_WIDTH_INT: Number,
    "native_vector_width_long" = CL_DEVICE_NATIVE_VECTOR_WIDTH_LONG: Number,
    "native_vector_width_float" = CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT: Number,
    "native_vector_width_double" = CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE: Number,
    "native_vector_width_half" = CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF: Number,
    "max_clock_frequency" = CL_DEVICE_MAX_CLOCK_FREQUENCY: Number,
    "address_bits" = CL_DEVICE_ADDRESS_BITS: Number,
    "max_read_image_args" = CL_DEVICE_MAX_READ_IMAGE_ARGS: Number,
    "max_write_image_args" = CL_DEVICE_MAX_WRITE_IMAGE_ARGS: Number,
    "max_read_write_image_args" = CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS: Number,
    "max_mem_alloc_size" = CL_DEVICE_MAX_MEM_ALLOC_SIZE: Number,
    "image2d_max_width" = CL_DEVICE_IMAGE2D_MAX_WIDTH: Number,
    "image2d_max_height" = CL_DEVICE_IMAGE2D_MAX_HEIGHT: Number,
    "image3d_max_width" = CL_DEVICE_IMAGE3D_MAX_WIDTH: Number,
    "image3d_max_height" = CL_DEVICE_IMAGE3D_MAX_HEIGHT: Number,
    "image3d_max_depth" = CL_DEVICE_IMAGE3D_MAX_DEPTH: Number,
    "image_max_buffer_size" = CL_DEVICE_IMAGE_MAX_BUFFER_SIZE: Number,
    "image_max_array_size" = CL_DEVICE_IMAGE_MAX_ARRAY_SIZE: Number,
    "image_support" = CL_DEVICE_IMAGE_SUPPORT: Truth,
    "max_parameter_size" = CL_DEVICE_MAX_PARAMETER_SIZE: Number,
    "max_samplers" = CL_DEVICE_MAX_SAMPLERS: Number,
    "mem_base_addr_align" = CL_DEVICE_MEM_BASE_ADDR_ALIGN: Number,
    "single_fp_config" = CL_DEVICE_SINGLE_FP_CONFIG: Number,
    "double_fp_config" = CL_DEVICE_DOUBLE_FP_CONFIG: Number,
    "half_fp_config" = CL_DEVICE_HALF_FP_CONFIG: Number,
    "global_mem_cache_type" = CL_DEVICE_GLOBAL_MEM_CACHE_TYPE: Number,
    "global_mem_cacheline_size" = CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE: Number,
    "global_mem_cache_size" = CL_DEVICE_GLOBAL_MEM_CACHE_SIZE: Number,
    "global_mem_size" = CL_DEVICE_GLOBAL_MEM_SIZE: Number,
    "max_constant_buffer_size" = CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE: Number,
    "max_constant_args" = CL_DEVICE_MAX_CONSTANT_ARGS: Number,
    "max_global_variable_size" = CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE: Number,
    "local_mem_type" = CL_DEVICE_LOCAL_MEM_TYPE: Number,
    "local_mem_size" = CL_DEVICE_LOCAL_MEM_SIZE: Number,
    "error_correction_support" = CL_DEVICE_ERROR_CORRECTION_SUPPORT: Truth,
    "host_unified_memory" = CL_DEVICE_HOST_UNIFIED_MEMORY: Truth,
    "profiling_timer_resolution" = CL_DEVICE_PROFILING_TIMER_RESOLUTION: Number,
    "endian_little" = CL_DEVICE_ENDIAN_LITTLE: Truth,
    "available" = CL_DEVICE_AVAILABLE: Truth,
    "compiler_available" = CL_DEVICE_COMPILER_AVAILABLE: Truth,
    "linker_available" = CL_DEVICE_LINKER_AVAILABLE: Truth,
    "execution_capabilities" = CL_DEVICE_EXECUTION_CAPABILITIES: Number,
    "queue_on_host_properties" = CL_DEVICE_QUEUE_ON_HOST_PROPERTIES: Number,
    "queue_on_device_properties" = CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES: Number,
    "max_on_device_queues" = CL_DEVICE_MAX_ON_DEVICE_QUEUES: Number,
    "built_in_kernels" = CL_DEVICE_BUILT_IN_KERNELS: Text,
    "name" = CL_DEVICE_NAME: Text,
    "vendor" = CL_DEVICE_VENDOR: Text,
    "driver_version" = CL_DRIVER_VERSION: Text,
    "profile" = CL_DEVICE_PROFILE: Text,
    "version" = CL_DEVICE_VERSION: Text,
    "opencl_c_version" = CL_DEVICE_OPENCL_C_VERSION: Text,
    "il_version" = CL_DEVICE_IL_VERSION: Text,
    "extensions" = CL_DEVICE_EXTENSIONS: Words,
    "printf_buffer_size" = CL_DEVICE_PRINTF_BUFFER_SIZE: Number,
    "partition_max_sub_devices" = CL_DEVICE_PARTITION_MAX_SUB_DEVICES: Number,
    "svm_capabilities" = CL_DEVICE_SVM_CAPABILITIES: Number,
    "max_num_sub_groups" = CL_DEVICE_MAX_NUM_SUB_GROUPS: Number,
    "max_pipe_args" = CL_DEVICE_MAX_PIPE_ARGS: Number,
    "pipe_support" = CL_DEVICE_PIPE_SUPPORT: Truth,
    "generic_address_space_support" = CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT: Truth,
    "work_group_collective_functions_support" = CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT: Truth,
    "non_uniform_work_group_support" = CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT: Truth,
};

/// The names of types of devices.
const TYPES: [(&str, u64); 4] = [
    ("cpu", cl::CL_DEVICE_TYPE_CPU),
    ("gpu", cl::CL_DEVICE_TYPE_GPU),
    ("accelerator", cl::CL_DEVICE_TYPE_ACCELERATOR),
    ("custom", cl::CL_DEVICE_TYPE_CUSTOM),
];

/// The properties of a device that gives these answers: each the number of a query, and the bytes.
pub fn properties<'a>(answers: impl IntoIterator<Item = (u32, &'a [u8])>) -> Properties {
    let named = answers.into_iter().filter_map(|(query, bytes)| {
        let (name, _, kind) = QUERIES.iter().find(|(_, named, _)| *named == query)?;
        Some(((*name).to_owned(), kind.read(bytes)?))
    });
    named.collect()
}

/// Properties as JSON.
pub fn to_text(properties: &Properties) -> String {
    serde_json::to_string(properties).expect("properties are made of texts and numbers")
}

/// Reads those; `None` for what are none.
pub fn from_text(text: &str) -> Option<Properties> {
    serde_json::from_str(text).ok()
}

/// Whether clGetDeviceInfo has a property of this name.
pub fn is_known(name: &str) -> bool {
    QUERIES.iter().any(|(known, _, _)| *known == name)
}

impl Kind {
    fn read(self, bytes: &[u8]) -> Option<Value> {
        match self {
            Self::Truth => Some(Value::Truth(number(bytes)? != 0)),
            Self::Number => number(bytes).map(Value::Number),
            Self::Numbers => {
                let words = bytes.chunks_exact(size_of::<u64>());
                words.map(|word| number(word).map(Value::Number)).collect::<Option<_>>().map(Value::List)
            }
            Self::Text => text(bytes).map(Value::Text),
            Self::Words => {
                let words = text(bytes)?;
                Some(Value::List(words.split_whitespace().map(|word| Value::Text(word.to_owned())).collect()))
            }
            Self::Type => {
                let bits = number(bytes)?;
                let names = TYPES.iter().filter(|(_, bit)| bits & bit != 0);
                Some(Value::List(names.map(|(name, _)| Value::Text((*name).to_owned())).collect()))
            }
        }
    }
}

/// A number of 4 or 8 bytes.
fn number(bytes: &[u8]) -> Option<u64> {
    match bytes.len() {
        4 => Some(u32::from_le_bytes(bytes.try_into().ok()?).into()),
        8 => Some(u64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// A text up to its terminating zero.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Some(std::str::from_utf8(&bytes[..end]).ok()?.trim().to_owned())
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::List(values) => {
                let texts: Vec<_> = values.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_by_their_kinds() {
        let kind = (cl::CL_DEVICE_TYPE_GPU | cl::CL_DEVICE_TYPE_DEFAULT).to_le_bytes();
        let memory = (150u64 << 30).to_le_bytes();
        let sizes = [1024u64, 1024, 64].map(u64::to_le_bytes).concat();
        let read = properties([
            (cl::CL_DEVICE_TYPE, &kind[..]),
            (cl::CL_DEVICE_GLOBAL_MEM_SIZE, &memory[..]),
            (cl::CL_DEVICE_EXTENSIONS, &b"cl_khr_fp64 cl_khr_icd \0"[..]),
            (cl::CL_DEVICE_NAME, &b"NVIDIA H200\0"[..]),
            (cl::CL_DEVICE_IMAGE_SUPPORT, &[1, 0, 0, 0][..]),
            (cl::CL_DEVICE_MAX_WORK_ITEM_SIZES, &sizes[..]),
            (cl::CL_DEVICE_MAX_COMPUTE_UNITS, &[1][..]),
            (0xffff_fffe, &[1][..]),
        ]);
        let expected = r#"{"extensions":["cl_khr_fp64","cl_khr_icd"],"global_mem_size":161061273600,"image_support":true,"max_work_item_sizes":[1024,1024,64],"name":"NVIDIA H200","type":["gpu"]}"#;
        assert_eq!(serde_json::to_string(&read).unwrap(), expected);
        assert_eq!(serde_json::from_str::<Properties>(expected).unwrap(), read);
    }
}
