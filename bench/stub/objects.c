/* The platform, its device and contexts. */
#include <unistd.h>
#include "stub.h"

static cl_int CL_API_CALL platforms(cl_uint room, cl_platform_id *list, cl_uint *count)
{
    if (list != NULL && room > 0)
        list[0] = &stub_platform;
    if (count != NULL)
        *count = 1;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t room, void *value, size_t *size_ret)
{
    (void)platform;
    switch (what) {
    case CL_PLATFORM_PROFILE: return TEXT("FULL_PROFILE");
    case CL_PLATFORM_VERSION: return TEXT("OpenCL 1.2 stub");
    case CL_PLATFORM_NAME: return TEXT("Stub");
    case CL_PLATFORM_VENDOR: return TEXT("Stub");
    case CL_PLATFORM_EXTENSIONS: return TEXT("cl_khr_icd");
    case CL_PLATFORM_ICD_SUFFIX_KHR: return TEXT("STUB");
    default: return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL devices(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *list, cl_uint *count)
{
    (void)platform;
    if (type != CL_DEVICE_TYPE_ALL && !(type & (CL_DEVICE_TYPE_ACCELERATOR | CL_DEVICE_TYPE_DEFAULT)))
        return CL_DEVICE_NOT_FOUND;
    if (list != NULL && room > 0)
        list[0] = &stub_device;
    if (count != NULL)
        *count = 1;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t room, void *value, size_t *size_ret)
{
    switch (what) {
    case CL_DEVICE_TYPE: VALUE(cl_device_type, CL_DEVICE_TYPE_ACCELERATOR);
    case CL_DEVICE_VENDOR_ID: VALUE(cl_uint, 0);
    case CL_DEVICE_MAX_COMPUTE_UNITS: VALUE(cl_uint, 1);
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS: VALUE(cl_uint, 3);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES: {
        size_t sizes[3] = {1024, 1024, 1024};
        return stub_answer(sizes, sizeof sizes, room, value, size_ret);
    }
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: VALUE(size_t, 1024);
    case CL_DEVICE_MAX_CLOCK_FREQUENCY: VALUE(cl_uint, 1000);
    case CL_DEVICE_ADDRESS_BITS: VALUE(cl_uint, 64);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE: VALUE(cl_ulong, (cl_ulong)1 << 30);
    case CL_DEVICE_GLOBAL_MEM_SIZE: VALUE(cl_ulong, (cl_ulong)4 << 30);
    case CL_DEVICE_LOCAL_MEM_SIZE: VALUE(cl_ulong, 65536);
    case CL_DEVICE_LOCAL_MEM_TYPE: VALUE(cl_device_local_mem_type, CL_GLOBAL);
    case CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE: VALUE(cl_ulong, 65536);
    case CL_DEVICE_MAX_CONSTANT_ARGS: VALUE(cl_uint, 8);
    case CL_DEVICE_MAX_PARAMETER_SIZE: VALUE(size_t, 1024);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN: VALUE(cl_uint, 1024);
    case CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE: VALUE(cl_uint, 128);
    case CL_DEVICE_GLOBAL_MEM_CACHE_TYPE: VALUE(cl_device_mem_cache_type, CL_NONE);
    case CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE: VALUE(cl_uint, 64);
    case CL_DEVICE_GLOBAL_MEM_CACHE_SIZE: VALUE(cl_ulong, 0);
    case CL_DEVICE_SINGLE_FP_CONFIG: VALUE(cl_device_fp_config, CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN);
    case CL_DEVICE_DOUBLE_FP_CONFIG: VALUE(cl_device_fp_config, 0);
    case CL_DEVICE_IMAGE_SUPPORT: VALUE(cl_bool, CL_FALSE);
    case CL_DEVICE_ERROR_CORRECTION_SUPPORT: VALUE(cl_bool, CL_FALSE);
    case CL_DEVICE_HOST_UNIFIED_MEMORY: VALUE(cl_bool, CL_TRUE);
    case CL_DEVICE_ENDIAN_LITTLE: VALUE(cl_bool, CL_TRUE);
    case CL_DEVICE_AVAILABLE: VALUE(cl_bool, CL_TRUE);
    case CL_DEVICE_COMPILER_AVAILABLE: VALUE(cl_bool, CL_TRUE);
    case CL_DEVICE_LINKER_AVAILABLE: VALUE(cl_bool, CL_FALSE);
    case CL_DEVICE_PREFERRED_INTEROP_USER_SYNC: VALUE(cl_bool, CL_TRUE);
    case CL_DEVICE_PROFILING_TIMER_RESOLUTION: VALUE(size_t, 1);
    case CL_DEVICE_PRINTF_BUFFER_SIZE: VALUE(size_t, 1 << 20);
    case CL_DEVICE_EXECUTION_CAPABILITIES: VALUE(cl_device_exec_capabilities, CL_EXEC_KERNEL);
    case CL_DEVICE_QUEUE_PROPERTIES:
        VALUE(cl_command_queue_properties, CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    case CL_DEVICE_PLATFORM: VALUE(cl_platform_id, &stub_platform);
    case CL_DEVICE_PARENT_DEVICE: VALUE(cl_device_id, NULL);
    case CL_DEVICE_PARTITION_MAX_SUB_DEVICES: VALUE(cl_uint, 1);
    case CL_DEVICE_PARTITION_PROPERTIES: VALUE(cl_device_partition_property, 0);
    case CL_DEVICE_PARTITION_TYPE: return stub_answer(NULL, 0, room, NULL, size_ret);
    case CL_DEVICE_PARTITION_AFFINITY_DOMAIN: VALUE(cl_device_affinity_domain, 0);
    case CL_DEVICE_REFERENCE_COUNT: VALUE(cl_uint, (cl_uint)device->references);
    case CL_DEVICE_NAME: return TEXT("stub");
    case CL_DEVICE_VENDOR: return TEXT("Stub");
    case CL_DRIVER_VERSION: return TEXT("1.0");
    case CL_DEVICE_PROFILE: return TEXT("FULL_PROFILE");
    case CL_DEVICE_VERSION: return TEXT("OpenCL 1.2 stub");
    case CL_DEVICE_OPENCL_C_VERSION: return TEXT("OpenCL C 1.2 stub");
    case CL_DEVICE_EXTENSIONS: return TEXT("cl_khr_byte_addressable_store");
    case CL_DEVICE_BUILT_IN_KERNELS: return TEXT("");
    default: break;
    }
    /* Widths of vectors. */
    if ((what >= CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR && what <= CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE) ||
        (what >= CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF && what <= CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF &&
         what != CL_DEVICE_HOST_UNIFIED_MEMORY && what != CL_DEVICE_OPENCL_C_VERSION))
        VALUE(cl_uint, 1);
    /* Sizes of images. */
    if (what >= CL_DEVICE_MAX_READ_IMAGE_ARGS && what <= CL_DEVICE_MAX_WRITE_IMAGE_ARGS)
        VALUE(cl_uint, 0);
    if ((what >= CL_DEVICE_IMAGE2D_MAX_WIDTH && what <= CL_DEVICE_IMAGE3D_MAX_DEPTH) ||
        what == CL_DEVICE_IMAGE_MAX_BUFFER_SIZE || what == CL_DEVICE_IMAGE_MAX_ARRAY_SIZE)
        VALUE(size_t, 0);
    if (what == CL_DEVICE_MAX_SAMPLERS)
        VALUE(cl_uint, 0);
    return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL keep_device(cl_device_id device)
{
    (void)device;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL no_parts(cl_device_id device, const cl_device_partition_property *how, cl_uint room, cl_device_id *list,
                                   cl_uint *count)
{
    (void)device, (void)how, (void)room, (void)list, (void)count;
    return CL_DEVICE_PARTITION_FAILED;
}

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count, const cl_device_id *list,
                                             void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data,
                                             cl_int *error)
{
    (void)properties, (void)count, (void)list, (void)notify, (void)data;
    /* A driver that keeps its caller waiting. */
    const char *seconds = getenv("STUB_CONTEXT_SECONDS");
    if (seconds != NULL)
        sleep((unsigned)atoi(seconds));
    stub_prepare_thread();
    cl_context context = stub_new(sizeof *context);
    if (context != NULL)
        pthread_cond_init(&context->changed, NULL);
    GIVE(context, context != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY);
}

static cl_int CL_API_CALL retain_context(cl_context context)
{
    __atomic_add_fetch(&context->references, 1, __ATOMIC_RELAXED);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_context(cl_context context)
{
    /* It stays: events and queues know it for as long as they are there. */
    stub_drop(&context->references);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL context_info(cl_context context, cl_context_info what, size_t room, void *value, size_t *size_ret)
{
    switch (what) {
    case CL_CONTEXT_REFERENCE_COUNT: VALUE(cl_uint, (cl_uint)context->references);
    case CL_CONTEXT_NUM_DEVICES: VALUE(cl_uint, 1);
    case CL_CONTEXT_DEVICES: VALUE(cl_device_id, &stub_device);
    case CL_CONTEXT_PROPERTIES: return stub_answer(NULL, 0, room, NULL, size_ret);
    default: return CL_INVALID_VALUE;
    }
}

static void *CL_API_CALL own_function(cl_platform_id platform, const char *name)
{
    (void)platform, (void)name;
    return NULL;
}

void stub_objects(struct _cl_icd_dispatch *table)
{
    table->clGetPlatformIDs = platforms;
    table->clGetPlatformInfo = platform_info;
    table->clGetDeviceIDs = devices;
    table->clGetDeviceInfo = device_info;
    table->clRetainDevice = keep_device;
    table->clReleaseDevice = keep_device;
    table->clCreateSubDevices = no_parts;
    table->clCreateContext = create_context;
    table->clRetainContext = retain_context;
    table->clReleaseContext = release_context;
    table->clGetContextInfo = context_info;
    table->clGetExtensionFunctionAddressForPlatform = own_function;
}

/* What the loader looks for in the library itself. */
__attribute__((visibility("default"))) cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint room, cl_platform_id *list, cl_uint *count)
{
    return platforms(room, list, count);
}

__attribute__((visibility("default"))) cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what,
                                                                           size_t room, void *value, size_t *size_ret)
{
    return platform_info(platform, what, room, value, size_ret);
}

__attribute__((visibility("default"))) void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
        return (void *)(uintptr_t)clIcdGetPlatformIDsKHR;
    return NULL;
}
