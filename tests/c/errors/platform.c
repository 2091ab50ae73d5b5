/* Platforms and devices (OpenCL 3.0 API, chapter 4). */
#include "errors.h"

static void platforms(void)
{
    cl_platform_id one;
    cl_uint count;
    RETURNS(clGetPlatformIDs(0, NULL, NULL), "platforms and num_platforms are NULL", CL_INVALID_VALUE);
    RETURNS(clGetPlatformIDs(0, &one, &count), "num_entries is 0, platforms is not NULL", CL_INVALID_VALUE);
    RETURNS(clGetPlatformIDs(0, NULL, &count), "the number alone", CL_SUCCESS);
    REMOTE WRONG_HANDLES_FOR(RETURNS, clGetPlatformInfo(X ? X : (void *)context, CL_PLATFORM_NAME, 0, NULL, NULL),
                             "platform, which", CL_INVALID_PLATFORM);
    NO_INFO(clGetPlatformInfo, platform);
    INFO(clGetPlatformInfo, CL_PLATFORM_PROFILE, platform);
    INFO(clGetPlatformInfo, CL_PLATFORM_VERSION, platform);
    INFO(clGetPlatformInfo, CL_PLATFORM_NUMERIC_VERSION, platform);
    INFO(clGetPlatformInfo, CL_PLATFORM_NAME, platform);
    INFO(clGetPlatformInfo, CL_PLATFORM_VENDOR, platform);
    INFO(clGetPlatformInfo, CL_PLATFORM_EXTENSIONS, platform);
    INFO(clGetPlatformInfo, CL_PLATFORM_EXTENSIONS_WITH_VERSION, platform);
    INFO(clGetPlatformInfo, CL_PLATFORM_HOST_TIMER_RESOLUTION, platform);
    INFO(clGetPlatformInfo, CL_PLATFORM_ICD_SUFFIX_KHR, platform);
    /* A loader takes NULL for its own default platform, here and below. */
    REMOTE WRONG_HANDLES_FOR(RETURNS, clUnloadPlatformCompiler(X ? X : (void *)context), "platform, which",
                             CL_INVALID_PLATFORM);
    RETURNS(clUnloadPlatformCompiler(platform), "nothing", CL_SUCCESS);
    RETURNS(clUnloadCompiler(), "nothing", CL_SUCCESS);
}

static void functions(void)
{
    /* They have no codes: NULL is their answer to what there is not. */
    RETURNS(clGetExtensionFunctionAddressForPlatform(platform, "clNoSuchFunction") ? CL_SUCCESS : CL_INVALID_VALUE,
            "no such function", CL_INVALID_VALUE);
    RETURNS(clGetExtensionFunctionAddress("clNoSuchFunction") ? CL_SUCCESS : CL_INVALID_VALUE, "no such function",
            CL_INVALID_VALUE);
    REMOTE RETURNS(clGetExtensionFunctionAddressForPlatform(platform, NULL) ? CL_SUCCESS : CL_INVALID_VALUE,
                   "func_name is NULL", CL_INVALID_VALUE);
    REMOTE WRONG_HANDLES_FOR(
        RETURNS,
        clGetExtensionFunctionAddressForPlatform(X ? X : (void *)context, "clFinish") ? CL_SUCCESS : CL_INVALID_PLATFORM,
        "platform, which", CL_INVALID_PLATFORM);
}

static void devices(void)
{
    cl_device_id some[4];
    cl_uint count;
    cl_ulong time;
    REMOTE WRONG_HANDLES_FOR(RETURNS, clGetDeviceIDs(X ? X : (void *)context, CL_DEVICE_TYPE_ALL, 1, some, NULL),
                             "platform, which", CL_INVALID_PLATFORM);
    RETURNS(clGetDeviceIDs(platform, 0, 1, some, &count), "device_type is 0", CL_INVALID_DEVICE_TYPE);
    RETURNS(clGetDeviceIDs(platform, (cl_device_type)1 << 40, 1, some, &count), "device_type has unknown bits",
            CL_INVALID_DEVICE_TYPE);
    RETURNS(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, some, &count), "num_entries is 0, devices is not NULL",
            CL_INVALID_VALUE);
    RETURNS(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, NULL), "devices and num_devices are NULL",
            CL_INVALID_VALUE);
    RETURNS(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ACCELERATOR, 1, some, &count), "no device of the type",
            CL_DEVICE_NOT_FOUND);
    RETURNS(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, 1, some, &count), "no custom device", CL_DEVICE_NOT_FOUND);
    RETURNS(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 4, some, NULL), "num_devices NULL is allowed", CL_SUCCESS);
    REMOTE WRONG_HANDLES_FOR(RETURNS, clGetDeviceInfo(X == device ? (void *)context : X, CL_DEVICE_NAME, 0, NULL, NULL),
                             "device", CL_INVALID_DEVICE);
    NO_INFO(clGetDeviceInfo, device);
    REMOTE WRONG_HANDLES_FOR(RETURNS, clRetainDevice(X == device ? (void *)context : X), "device", CL_INVALID_DEVICE);
    REMOTE WRONG_HANDLES_FOR(RETURNS, clReleaseDevice(X == device ? (void *)context : X), "device", CL_INVALID_DEVICE);
    RETURNS(clRetainDevice(device), "a root device", CL_SUCCESS);
    RETURNS(clReleaseDevice(device), "a root device", CL_SUCCESS);
    /* The older names (cl_ext_device_fission) are found by name. */
    cl_int(CL_API_CALL * retain)(cl_device_id) = clGetExtensionFunctionAddressForPlatform(platform, "clRetainDeviceEXT");
    cl_int(CL_API_CALL * give_up)(cl_device_id) =
        clGetExtensionFunctionAddressForPlatform(platform, "clReleaseDeviceEXT");
    REMOTE
    {
        WRONG_HANDLES_FOR(RETURNS, retain(X == device ? (void *)context : X), "device", CL_INVALID_DEVICE);
        WRONG_HANDLES_FOR(RETURNS, give_up(X == device ? (void *)context : X), "device", CL_INVALID_DEVICE);
    }
    cl_ulong resolution = 0;
    clGetPlatformInfo(platform, CL_PLATFORM_HOST_TIMER_RESOLUTION, sizeof resolution, &resolution, NULL);
    if (resolution == 0) {
        skipped("clGetDeviceAndHostTimer, clGetHostTimer", "the platform has no host timer");
        return;
    }
    cl_ulong other;
    WRONG_HANDLES_FOR(RETURNS, clGetHostTimer(X == device ? (void *)context : X, &time), "device", CL_INVALID_DEVICE);
    WRONG_HANDLES_FOR(RETURNS, clGetDeviceAndHostTimer(X == device ? (void *)context : X, &time, &other), "device",
                      CL_INVALID_DEVICE);
    RETURNS(clGetHostTimer(device, NULL), "host_timestamp is NULL", CL_INVALID_VALUE);
    RETURNS(clGetDeviceAndHostTimer(device, NULL, &other), "device_timestamp is NULL", CL_INVALID_VALUE);
    RETURNS(clGetDeviceAndHostTimer(device, &time, NULL), "host_timestamp is NULL", CL_INVALID_VALUE);
}

static void device_queries(void)
{
    INFO(clGetDeviceInfo, CL_DEVICE_TYPE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_VENDOR_ID, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_COMPUTE_UNITS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_WORK_GROUP_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_WORK_ITEM_SIZES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR, device);
    INFO(clGetDeviceInfo, CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_CLOCK_FREQUENCY, device);
    INFO(clGetDeviceInfo, CL_DEVICE_ADDRESS_BITS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_MEM_ALLOC_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_IMAGE_SUPPORT, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_READ_IMAGE_ARGS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_WRITE_IMAGE_ARGS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_IL_VERSION, device);
    INFO(clGetDeviceInfo, CL_DEVICE_ILS_WITH_VERSION, device);
    INFO(clGetDeviceInfo, CL_DEVICE_IMAGE2D_MAX_WIDTH, device);
    INFO(clGetDeviceInfo, CL_DEVICE_IMAGE2D_MAX_HEIGHT, device);
    INFO(clGetDeviceInfo, CL_DEVICE_IMAGE3D_MAX_DEPTH, device);
    INFO(clGetDeviceInfo, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_SAMPLERS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_IMAGE_PITCH_ALIGNMENT, device);
    INFO(clGetDeviceInfo, CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_PIPE_ARGS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PIPE_MAX_PACKET_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_PARAMETER_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MEM_BASE_ADDR_ALIGN, device);
    INFO(clGetDeviceInfo, CL_DEVICE_SINGLE_FP_CONFIG, device);
    INFO(clGetDeviceInfo, CL_DEVICE_DOUBLE_FP_CONFIG, device);
    INFO(clGetDeviceInfo, CL_DEVICE_GLOBAL_MEM_CACHE_TYPE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_GLOBAL_MEM_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_LOCAL_MEM_TYPE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_LOCAL_MEM_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_ERROR_CORRECTION_SUPPORT, device);
    INFO(clGetDeviceInfo, CL_DEVICE_HOST_UNIFIED_MEMORY, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PROFILING_TIMER_RESOLUTION, device);
    INFO(clGetDeviceInfo, CL_DEVICE_ENDIAN_LITTLE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_AVAILABLE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_COMPILER_AVAILABLE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_LINKER_AVAILABLE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_EXECUTION_CAPABILITIES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_ON_DEVICE_QUEUES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_ON_DEVICE_EVENTS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_BUILT_IN_KERNELS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PLATFORM, device);
    INFO(clGetDeviceInfo, CL_DEVICE_NAME, device);
    INFO(clGetDeviceInfo, CL_DEVICE_VENDOR, device);
    INFO(clGetDeviceInfo, CL_DRIVER_VERSION, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PROFILE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_VERSION, device);
    INFO(clGetDeviceInfo, CL_DEVICE_NUMERIC_VERSION, device);
    INFO(clGetDeviceInfo, CL_DEVICE_OPENCL_C_VERSION, device);
    INFO(clGetDeviceInfo, CL_DEVICE_OPENCL_C_ALL_VERSIONS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_OPENCL_C_FEATURES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_EXTENSIONS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_EXTENSIONS_WITH_VERSION, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PRINTF_BUFFER_SIZE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PREFERRED_INTEROP_USER_SYNC, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PARENT_DEVICE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PARTITION_PROPERTIES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PARTITION_AFFINITY_DOMAIN, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PARTITION_TYPE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_REFERENCE_COUNT, device);
    INFO(clGetDeviceInfo, CL_DEVICE_SVM_CAPABILITIES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT, device);
    INFO(clGetDeviceInfo, CL_DEVICE_MAX_NUM_SUB_GROUPS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS, device);
    INFO(clGetDeviceInfo, CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_ATOMIC_FENCE_CAPABILITIES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, device);
    INFO(clGetDeviceInfo, CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT, device);
    INFO(clGetDeviceInfo, CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT, device);
    INFO(clGetDeviceInfo, CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PIPE_SUPPORT, device);
    INFO(clGetDeviceInfo, CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, device);
    INFO(clGetDeviceInfo, CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED, device);
}

static void sub_devices(void)
{
    const cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    const cl_device_partition_property unknown[] = {0x7fff, 1, 0};
    const cl_device_partition_property none[] = {0};
    cl_device_id some[64];
    cl_uint count, most = 0, units = 0;
    cl_device_partition_property kinds[8] = {0};
    clGetDeviceInfo(device, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof most, &most, NULL);
    clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    clGetDeviceInfo(device, CL_DEVICE_PARTITION_PROPERTIES, sizeof kinds, kinds, NULL);
    WRONG_HANDLES_FOR(RETURNS, clCreateSubDevices(X == device ? (void *)context : X, equally, 64, some, &count),
                      "in_device", CL_INVALID_DEVICE);
    /* cl_ext_device_fission has it under another name, with other properties. */
    const cl_ulong nothing[] = {0};
    cl_int(CL_API_CALL * older)(cl_device_id, const cl_ulong *, cl_uint, cl_device_id *, cl_uint *) =
        clGetExtensionFunctionAddressForPlatform(platform, "clCreateSubDevicesEXT");
    REMOTE
    {
        WRONG_HANDLES_FOR(RETURNS, older(X == device ? (void *)context : X, nothing, 64, some, &count), "in_device",
                          CL_INVALID_DEVICE);
        RETURNS(older(device, NULL, 64, some, &count), "properties is NULL", CL_INVALID_VALUE);
    }
    RETURNS(clCreateSubDevices(device, NULL, 64, some, &count), "properties is NULL", CL_INVALID_VALUE);
    RETURNS(clCreateSubDevices(device, none, 64, some, &count), "properties is empty", CL_INVALID_VALUE);
    RETURNS(clCreateSubDevices(device, unknown, 64, some, &count), "an unknown kind of partition", CL_INVALID_VALUE);
    int has_equally = 0, has_counts = 0;
    for (int i = 0; i < 8; i++) {
        has_equally |= kinds[i] == CL_DEVICE_PARTITION_EQUALLY;
        has_counts |= kinds[i] == CL_DEVICE_PARTITION_BY_COUNTS;
    }
    if (!has_equally || most < 2 || units < 2) {
        skipped("clCreateSubDevices", "the device cannot be divided equally");
    } else {
        const cl_device_partition_property too_large[] = {CL_DEVICE_PARTITION_EQUALLY, units + 1, 0};
        const cl_device_partition_property zero[] = {CL_DEVICE_PARTITION_EQUALLY, 0, 0};
        RETURNS(clCreateSubDevices(device, equally, 1, some, &count), "num_devices is too small", CL_INVALID_VALUE);
        RETURNS(clCreateSubDevices(device, too_large, 64, some, &count), "more units than there are",
                CL_DEVICE_PARTITION_FAILED, CL_INVALID_VALUE);
        RETURNS(clCreateSubDevices(device, zero, 64, some, &count), "sub-devices of no units", CL_INVALID_VALUE,
                CL_DEVICE_PARTITION_FAILED);
    }
    if (!has_counts || most < 2 || units < 2) {
        skipped("clCreateSubDevices by counts", "the device cannot be divided by counts");
        return;
    }
    const cl_device_partition_property too_many[] = {
        CL_DEVICE_PARTITION_BY_COUNTS, units, 1, CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    RETURNS(clCreateSubDevices(device, too_many, 64, some, &count), "the counts are more than there are",
            CL_INVALID_DEVICE_PARTITION_COUNT);
}

int main(int argc, char **argv)
{
    open_all(argc, argv);
    platforms();
    functions();
    devices();
    device_queries();
    sub_devices();
    return close_all();
}
