/* What custom devices answer, as OpenCL 3.0 has it for them.
 *
 * custom_queries devices    every query of clGetDeviceInfo, who finds the devices
 * custom_queries calls      the codes of calls that they do not support
 * custom_queries buffers    what they do support: each transfer, queues of both kinds, user events; checked word by word */
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#include "common.h"

static cl_command_queue queue;

static void show(const char *what, cl_int code)
{
    printf("%s: %d\n", what, code);
}

static cl_uint found(cl_device_type types)
{
    cl_device_id devices[16];
    cl_uint count = 0, custom = 0;
    cl_device_type type;
    cl_int code = clGetDeviceIDs(platform, types, 16, devices, &count);
    if (code == CL_DEVICE_NOT_FOUND)
        return 0;
    CHECK(code);
    for (cl_uint i = 0; i < count; i++) {
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_TYPE, sizeof type, &type, NULL));
        custom += type == CL_DEVICE_TYPE_CUSTOM;
    }
    return custom;
}

static void uint_of(const char *name, cl_device_info query)
{
    cl_uint value = 99;
    CHECK(clGetDeviceInfo(device, query, sizeof value, &value, NULL));
    printf("%s: %u\n", name, value);
}

static void ulong_of(const char *name, cl_device_info query)
{
    cl_ulong value = 99;
    CHECK(clGetDeviceInfo(device, query, sizeof value, &value, NULL));
    printf("%s: %llu\n", name, (unsigned long long)value);
}

static void text_of(const char *name, cl_device_info query)
{
    char text[4096];
    CHECK(clGetDeviceInfo(device, query, sizeof text, text, NULL));
    printf("%s: \"%s\"\n", name, text);
}

#define UINT(query) uint_of(#query, CL_DEVICE_##query)
#define ULONG(query) ulong_of(#query, CL_DEVICE_##query)
#define TEXT(query) text_of(#query, CL_DEVICE_##query)

static int devices(void)
{
    printf("all: %u, default: %u, cpu and gpu: %u, custom: %u, custom and cpu: %u\n", found(CL_DEVICE_TYPE_ALL),
           found(CL_DEVICE_TYPE_DEFAULT), found(CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU), found(CL_DEVICE_TYPE_CUSTOM),
           found(CL_DEVICE_TYPE_CUSTOM | CL_DEVICE_TYPE_CPU));
    TEXT(NAME), TEXT(PROFILE), TEXT(BUILT_IN_KERNELS), TEXT(IL_VERSION), TEXT(OPENCL_C_VERSION), TEXT(LATEST_CONFORMANCE_VERSION_PASSED);
    ULONG(TYPE), ULONG(EXECUTION_CAPABILITIES), ULONG(SINGLE_FP_CONFIG), ULONG(QUEUE_ON_HOST_PROPERTIES), ULONG(QUEUE_ON_DEVICE_PROPERTIES);
    ULONG(SVM_CAPABILITIES), ULONG(ATOMIC_MEMORY_CAPABILITIES), ULONG(ATOMIC_FENCE_CAPABILITIES), ULONG(DEVICE_ENQUEUE_CAPABILITIES);
    ULONG(LOCAL_MEM_SIZE), ULONG(MAX_CONSTANT_BUFFER_SIZE), ULONG(PARTITION_AFFINITY_DOMAIN);
    UINT(AVAILABLE), UINT(COMPILER_AVAILABLE), UINT(LINKER_AVAILABLE), UINT(IMAGE_SUPPORT), UINT(PIPE_SUPPORT), UINT(HOST_UNIFIED_MEMORY);
    UINT(MAX_COMPUTE_UNITS), UINT(MAX_WORK_ITEM_DIMENSIONS), UINT(ADDRESS_BITS), UINT(PARTITION_MAX_SUB_DEVICES), UINT(ENDIAN_LITTLE);
    UINT(NON_UNIFORM_WORK_GROUP_SUPPORT), UINT(WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT), UINT(GENERIC_ADDRESS_SPACE_SUPPORT);
    UINT(MAX_NUM_SUB_GROUPS), UINT(SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS), UINT(MAX_ON_DEVICE_QUEUES), UINT(NUMERIC_VERSION);
    /* Each query of OpenCL 3.0 has an answer, and says the same size each time. */
    static const cl_device_info gaps[] = {0x102E - 1, 0x1032, 0x1033, 0x105F};
    cl_uint answers = 0;
    for (cl_device_info query = 0x1000; query <= 0x1072; query++) {
        size_t size = 0, again = 0;
        char bytes[65536];
        if ((query >= 0x106A && query <= 0x106F) || query == gaps[1] || query == gaps[2] || query == gaps[3])
            continue;
        cl_int code = clGetDeviceInfo(device, query, 0, NULL, &size);
        if (code != CL_SUCCESS || size > sizeof bytes) {
            printf("query 0x%x: %d, %zu bytes\n", query, code, size);
            continue;
        }
        CHECK(clGetDeviceInfo(device, query, sizeof bytes, bytes, &again));
        REQUIRE(size == again);
        if (size > 0)
            REQUIRE(clGetDeviceInfo(device, query, size - 1, bytes, NULL) == CL_INVALID_VALUE);
        answers++;
    }
    cl_name_version names[64];
    size_t size;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION, sizeof names, names, &size));
    printf("queries with answers: %u\n", answers);
    for (size_t i = 0; i < size / sizeof *names; i++)
        printf("%s %u.%u.%u\n", names[i].name, CL_VERSION_MAJOR(names[i].version), CL_VERSION_MINOR(names[i].version),
               CL_VERSION_PATCH(names[i].version));
    show("no such query", clGetDeviceInfo(device, 0x10FF, 0, NULL, &size));
    return 0;
}

static int calls(void)
{
    static const char *source = "kernel void k(global int *x) { x[0] = 1; }";
    static const unsigned char bytes[64] = {3, 2, 35, 7};
    cl_program program, built_in;
    cl_kernel kernel;
    cl_int code;
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    show("clBuildProgram", clBuildProgram(program, 1, &device, "", NULL, NULL));
    show("clBuildProgram for all", clBuildProgram(program, 0, NULL, "", NULL, NULL));
    show("clCompileProgram", clCompileProgram(program, 1, &device, "", 0, NULL, NULL, NULL, NULL));
    clLinkProgram(context, 1, &device, "", 1, &program, NULL, NULL, &code);
    show("clLinkProgram", code);
    clCreateKernel(program, "k", &code);
    show("clCreateKernel of it", code);
    const unsigned char *binary = bytes;
    size_t length = sizeof bytes;
    clCreateProgramWithBinary(context, 1, &device, &length, &binary, NULL, &code);
    show("clCreateProgramWithBinary", code);
    clCreateProgramWithIL(context, bytes, length, &code);
    show("clCreateProgramWithIL", code);
    MAKE(built_in, clCreateProgramWithBuiltInKernels(context, 1, &device, "lab.sort_u32;lab.fails", &status));
    show("clBuildProgram of built-in kernels", clBuildProgram(built_in, 1, &device, "", NULL, NULL));
    clCreateKernel(built_in, "lab.saxpy", &code);
    show("clCreateKernel of a name that was not asked for", code);
    cl_kernel both[2];
    cl_uint count;
    CHECK(clCreateKernelsInProgram(built_in, 2, both, &count));
    printf("kernels: %u\n", count);
    MAKE(kernel, clCreateKernel(built_in, "lab.sort_u32", &status));
    char text[64];
    cl_kernel_arg_address_qualifier address;
    cl_kernel_arg_type_qualifier type;
    for (cl_uint i = 0; i < 2; i++) {
        CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof text, text, NULL));
        printf("argument %u: %s ", i, text);
        CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_NAME, sizeof text, text, NULL));
        CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof address, &address, NULL));
        CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof type, &type, NULL));
        printf("%s, 0x%x, %llu\n", text, address, (unsigned long long)type);
    }
    size_t sizes[3], two[3] = {2, 1, 1};
    CHECK(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_GLOBAL_WORK_SIZE, sizeof sizes, sizes, NULL));
    printf("largest global size is unlimited: %d\n", sizes[0] == SIZE_MAX && sizes[2] == SIZE_MAX);
    cl_mem buffer;
    MAKE(buffer, clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &status));
    CHECK(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
    CHECK(clSetKernelArg(kernel, 1, sizeof count, &count));
    show("a work-group of two", clEnqueueNDRangeKernel(queue, kernel, 1, NULL, two, two, 0, NULL, NULL));
    const cl_image_format format = {CL_RGBA, CL_UNORM_INT8};
    const cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 4, .image_height = 4};
    clCreateImage(context, CL_MEM_READ_WRITE, &format, &desc, NULL, &code);
    show("clCreateImage", code);
    CHECK(clGetSupportedImageFormats(context, CL_MEM_READ_WRITE, CL_MEM_OBJECT_IMAGE2D, 0, NULL, &count));
    printf("image formats: %u\n", count);
    clCreateSampler(context, CL_TRUE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &code);
    show("clCreateSampler", code);
    clCreatePipe(context, CL_MEM_READ_WRITE, 4, 4, NULL, &code);
    show("clCreatePipe", code);
    printf("clSVMAlloc: %s\n", clSVMAlloc(context, CL_MEM_READ_WRITE, 64, 0) ? "memory" : "null");
    show("clSetKernelArgSVMPointer", clSetKernelArgSVMPointer(kernel, 0, NULL));
    const cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    show("clCreateSubDevices", clCreateSubDevices(device, equally, 0, NULL, &count));
    const cl_queue_properties on_device[] = {
        CL_QUEUE_PROPERTIES, CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    clCreateCommandQueueWithProperties(context, device, on_device, &code);
    show("a queue on the device", code);
    show("clEnqueueNativeKernel",
         clEnqueueNativeKernel(queue, (void(CL_CALLBACK *)(void *))(uintptr_t)show, NULL, 0, 0, NULL, NULL, 0, NULL, NULL));
    show("clGetKernelSubGroupInfo", clGetKernelSubGroupInfo(kernel, device, CL_KERNEL_MAX_NUM_SUB_GROUPS, 0, NULL, sizeof length, &length, NULL));
    return 0;
}

static int buffers(void)
{
    enum { SIZE = 300000 };
    static unsigned char bytes[SIZE], back[SIZE], model[SIZE];
    cl_mem a, b, part;
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    for (cl_command_queue_properties properties = 0; properties <= CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE; properties++) {
        MAKE(queue, clCreateCommandQueue(context, device, properties | CL_QUEUE_PROFILING_ENABLE, &status));
        MAKE(a, clCreateBuffer(context, CL_MEM_READ_WRITE, SIZE, NULL, &status));
        MAKE(b, clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, SIZE, bytes, &status));
        const cl_buffer_region region = {4096, 8192};
        MAKE(part, clCreateSubBuffer(a, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
        cl_event gate, written, copied, filled, rect, moved;
        MAKE(gate, clCreateUserEvent(context, &status));
        CHECK(clEnqueueWriteBuffer(queue, a, CL_FALSE, 0, SIZE, bytes, 1, &gate, &written));
        CHECK(clEnqueueCopyBuffer(queue, b, a, 100, 50000, 100000, 1, &written, &copied));
        CHECK(clEnqueueFillBuffer(queue, part, "abcd", 4, 16, 4000, 1, &copied, &filled));
        const size_t from[3] = {1, 2, 3}, to[3] = {5, 6, 7}, size[3] = {11, 9, 4};
        CHECK(clEnqueueCopyBufferRect(queue, b, a, from, to, size, 20, 400, 30, 600, 1, &filled, &rect));
        CHECK(clEnqueueMigrateMemObjects(queue, 1, &a, 0, 1, &rect, &moved));
        cl_int before;
        CHECK(clGetEventInfo(written, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof before, &before, NULL));
        REQUIRE(before > CL_COMPLETE);
        CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
        CHECK(clEnqueueReadBuffer(queue, a, CL_TRUE, 0, SIZE, back, 1, &moved, NULL));
        memcpy(model, bytes, SIZE);
        memcpy(model + 50000, bytes + 100, 100000);
        for (size_t i = 0; i < 4000; i++)
            model[4096 + 16 + i] = "abcd"[i % 4];
        for (size_t z = 0; z < size[2]; z++)
            for (size_t y = 0; y < size[1]; y++)
                memcpy(model + to[0] + (to[1] + y) * 30 + (to[2] + z) * 600,
                       bytes + from[0] + (from[1] + y) * 20 + (from[2] + z) * 400, size[0]);
        REQUIRE(memcmp(model, back, SIZE) == 0);
        unsigned char *mapped;
        MAKE(mapped, clEnqueueMapBuffer(queue, a, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 1000, 2000, 0, NULL, NULL, &status));
        REQUIRE(memcmp(mapped, model + 1000, 2000) == 0);
        memset(mapped + 10, 9, 100);
        memset(model + 1010, 9, 100);
        CHECK(clEnqueueUnmapMemObject(queue, a, mapped, 0, NULL, NULL));
        CHECK(clEnqueueBarrierWithWaitList(queue, 0, NULL, NULL));
        const size_t zero[3] = {0, 0, 0}, all[3] = {100, 30, 1};
        CHECK(clEnqueueReadBufferRect(queue, a, CL_TRUE, zero, zero, all, 100, 0, 100, 0, back, 0, NULL, NULL));
        REQUIRE(memcmp(model, back, 3000) == 0);
        CHECK(clFinish(queue));
        CHECK(clReleaseMemObject(part));
        CHECK(clReleaseMemObject(a));
        CHECK(clReleaseMemObject(b));
        CHECK(clReleaseCommandQueue(queue));
    }
    printf("buffers are right\n");
    return 0;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, 1, &device, NULL));
    MAKE(context, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
    MAKE(queue, clCreateCommandQueue(context, device, 0, &status));
    return strcmp(argv[1], "devices") == 0 ? devices() : strcmp(argv[1], "calls") == 0 ? calls() : buffers();
}
