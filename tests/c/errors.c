/* Calls that are wrong in one way each. Prints each one's name and error code; errors.expected holds what OpenCL 1.2
 * says they are. */
#include "common.h"
#include <stdatomic.h>

/* A call that returns its status. */
#define RETURNS(name, call) printf("%s: %d\n", name, (call))

/* A call that makes an object, which it must not. */
#define MAKES(name, call)                                                                                              \
    do {                                                                                                               \
        status = 1;                                                                                                    \
        void *made = (void *)(call);                                                                                   \
        printf("%s: %d%s\n", name, status, made ? " and an object" : "");                                              \
    } while (0)

static const char *SOURCE = "__kernel void f(__global int *x, int n, __local int *l) { x[0] = n + l[0]; }\n"
                            "__attribute__((reqd_work_group_size(4, 1, 1))) __kernel void four(__global int *x) { x[0] = 4; }\n";

static atomic_int failed_callback;

static void CL_CALLBACK on_failure(cl_event event, cl_int execution_status, void *data)
{
    (void)event;
    (void)data;
    failed_callback = execution_status;
}

static void platforms_and_devices(void)
{
    char text[16];
    cl_uint count;
    cl_device_id two[2];
    RETURNS("platforms: neither", clGetPlatformIDs(0, NULL, NULL));
    RETURNS("platform info: unknown", clGetPlatformInfo(platform, 0x7fff, 0, NULL, NULL));
    RETURNS("platform info: too small", clGetPlatformInfo(platform, CL_PLATFORM_NAME, 1, text, NULL));
    RETURNS("devices: no such type", clGetDeviceIDs(platform, 0, 1, two, &count));
    RETURNS("devices: none of the type", clGetDeviceIDs(platform, CL_DEVICE_TYPE_ACCELERATOR, 1, two, &count));
    RETURNS("devices: zero entries", clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, two, &count));
    RETURNS("device info: unknown", clGetDeviceInfo(device, 0x7fff, 0, NULL, NULL));
    RETURNS("device info: too small", clGetDeviceInfo(device, CL_DEVICE_NAME, 1, text, NULL));
}

static void contexts_and_queues(void)
{
    cl_context_properties unknown[] = {0x7fff, 1, 0}, twice[] = {CL_CONTEXT_PLATFORM, (intptr_t)platform, CL_CONTEXT_PLATFORM,
                                                                 (intptr_t)platform, 0};
    cl_queue_properties odd[] = {0x7fff, 1, 0};
    MAKES("context: no devices", clCreateContext(NULL, 0, NULL, NULL, NULL, &status));
    MAKES("context: null device", clCreateContext(NULL, 1, &(cl_device_id){NULL}, NULL, NULL, &status));
    MAKES("context: unknown property", clCreateContext(unknown, 1, &device, NULL, NULL, &status));
    MAKES("context: property twice", clCreateContext(twice, 1, &device, NULL, NULL, &status));
    MAKES("context: data without callback", clCreateContext(NULL, 1, &device, NULL, &status, &status));
    MAKES("context from type: none", clCreateContextFromType(NULL, CL_DEVICE_TYPE_ACCELERATOR, NULL, NULL, &status));
    RETURNS("context info: unknown", clGetContextInfo(context, 0x7fff, 0, NULL, NULL));
    MAKES("queue: null context", clCreateCommandQueue(NULL, device, 0, &status));
    MAKES("queue: null device", clCreateCommandQueue(context, NULL, 0, &status));
    MAKES("queue: unknown bits", clCreateCommandQueue(context, device, (cl_command_queue_properties)1 << 40, &status));
    MAKES("queue: unknown property", clCreateCommandQueueWithProperties(context, device, odd, &status));
    RETURNS("flush: null", clFlush(NULL));
    RETURNS("finish: null", clFinish(NULL));
    RETURNS("retain context: null", clRetainContext(NULL));
    RETURNS("release queue: null", clReleaseCommandQueue(NULL));
}

static void buffers(cl_command_queue queue)
{
    char data[64];
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, 64, NULL);
    cl_mem unreadable = buffer_of(CL_MEM_HOST_NO_ACCESS, 64, NULL), readable = buffer_of(CL_MEM_HOST_READ_ONLY, 64, NULL);
    cl_event gone;
    MAKES("buffer: null context", clCreateBuffer(NULL, 0, 64, NULL, &status));
    MAKES("buffer: zero", clCreateBuffer(context, 0, 0, NULL, &status));
    MAKES("buffer: too large", clCreateBuffer(context, 0, (size_t)1 << 60, NULL, &status));
    MAKES("buffer: two ways", clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 64, NULL, &status));
    MAKES("buffer: unknown bits", clCreateBuffer(context, (cl_mem_flags)1 << 40, 64, NULL, &status));
    MAKES("buffer: needless pointer", clCreateBuffer(context, 0, 64, data, &status));
    MAKES("buffer: missing pointer", clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, 64, NULL, &status));
    MAKES("buffer: use and copy", clCreateBuffer(context, CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR, 64, data, &status));
    RETURNS("read: outside", clEnqueueReadBuffer(queue, buffer, CL_TRUE, 32, 64, data, 0, NULL, NULL));
    RETURNS("read: wraps", clEnqueueReadBuffer(queue, buffer, CL_TRUE, SIZE_MAX - 1, 8, data, 0, NULL, NULL));
    RETURNS("read: null pointer", clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 8, NULL, 0, NULL, NULL));
    RETURNS("read: null buffer", clEnqueueReadBuffer(queue, NULL, CL_TRUE, 0, 8, data, 0, NULL, NULL));
    RETURNS("read: null queue", clEnqueueReadBuffer(NULL, buffer, CL_TRUE, 0, 8, data, 0, NULL, NULL));
    RETURNS("read: list without length", clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 8, data, 0, &gone, NULL));
    RETURNS("read: length without list", clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 8, data, 1, NULL, NULL));
    RETURNS("read: null event in list",
            clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 8, data, 1, &(cl_event){NULL}, NULL));
    RETURNS("read: not for the host", clEnqueueReadBuffer(queue, unreadable, CL_TRUE, 0, 8, data, 0, NULL, NULL));
    RETURNS("write: outside", clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 60, 8, data, 0, NULL, NULL));
    RETURNS("write: not for the host", clEnqueueWriteBuffer(queue, readable, CL_TRUE, 0, 8, data, 0, NULL, NULL));
    RETURNS("copy: outside", clEnqueueCopyBuffer(queue, buffer, readable, 0, 60, 8, 0, NULL, NULL));
    RETURNS("copy: overlaps", clEnqueueCopyBuffer(queue, buffer, buffer, 0, 4, 8, 0, NULL, NULL));
    RETURNS("fill: odd pattern", clEnqueueFillBuffer(queue, buffer, data, 3, 0, 6, 0, NULL, NULL));
    RETURNS("fill: odd size", clEnqueueFillBuffer(queue, buffer, data, 4, 0, 6, 0, NULL, NULL));
    RETURNS("fill: odd offset", clEnqueueFillBuffer(queue, buffer, data, 4, 2, 8, 0, NULL, NULL));
    RETURNS("fill: no pattern", clEnqueueFillBuffer(queue, buffer, NULL, 4, 0, 8, 0, NULL, NULL));
    MAKES("map: outside", clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 60, 8, 0, NULL, NULL, &status));
    MAKES("map: two ways", clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, 0, 8, 0,
                                              NULL, NULL, &status));
    MAKES("map: not for the host", clEnqueueMapBuffer(queue, unreadable, CL_TRUE, CL_MAP_READ, 0, 8, 0, NULL, NULL, &status));
    RETURNS("unmap: never mapped", clEnqueueUnmapMemObject(queue, buffer, data, 0, NULL, NULL));
    RETURNS("memory info: unknown", clGetMemObjectInfo(buffer, 0x7fff, 0, NULL, NULL));
    RETURNS("memory info: too small", clGetMemObjectInfo(buffer, CL_MEM_SIZE, 2, data, NULL));
    RETURNS("destructor: null", clSetMemObjectDestructorCallback(buffer, NULL, NULL));
    RETURNS("release memory: null", clReleaseMemObject(NULL));
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseMemObject(unreadable));
    CHECK(clReleaseMemObject(readable));
}

static void programs(void)
{
    const char *empty = NULL;
    size_t size = 0;
    cl_int of_device;
    cl_program program;
    MAKES("program: no strings", clCreateProgramWithSource(context, 0, NULL, NULL, &status));
    MAKES("program: null string", clCreateProgramWithSource(context, 1, &empty, NULL, &status));
    MAKES("program: null context", clCreateProgramWithSource(NULL, 1, &SOURCE, NULL, &status));
    MAKES("binary: empty", clCreateProgramWithBinary(context, 1, &device, &size, (const unsigned char **)&empty, &of_device,
                                                     &status));
    MAKE(program, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    MAKES("kernel: not built", clCreateKernel(program, "f", &status));
    RETURNS("kernel names: not built", clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, NULL));
    RETURNS("build: null program", clBuildProgram(NULL, 0, NULL, "", NULL, NULL));
    RETURNS("build: list without length", clBuildProgram(program, 0, &device, "", NULL, NULL));
    RETURNS("build: length without list", clBuildProgram(program, 1, NULL, "", NULL, NULL));
    RETURNS("build: data without callback", clBuildProgram(program, 1, &device, "", NULL, &status));
    RETURNS("build: unknown option", clBuildProgram(program, 1, &device, "--no-such-option", NULL, NULL));
    CHECK(clBuildProgram(program, 1, &device, "", NULL, NULL));
    MAKES("kernel: no such name", clCreateKernel(program, "g", &status));
    MAKES("kernel: null name", clCreateKernel(program, NULL, &status));
    RETURNS("program info: unknown", clGetProgramInfo(program, 0x7fff, 0, NULL, NULL));
    RETURNS("build info: unknown", clGetProgramBuildInfo(program, device, 0x7fff, 0, NULL, NULL));
    RETURNS("build info: null device", clGetProgramBuildInfo(program, NULL, CL_PROGRAM_BUILD_LOG, 0, NULL, NULL));
    cl_kernel kernel = kernel_of(program, "f");
    RETURNS("build: has kernels", clBuildProgram(program, 1, &device, "", NULL, NULL));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
}

static void kernels(cl_command_queue queue)
{
    cl_program program = build(SOURCE, "");
    cl_kernel kernel = kernel_of(program, "f"), four = kernel_of(program, "four");
    cl_mem buffer = buffer_of(0, 64, NULL);
    int n = 1;
    size_t one = 1, zero = 0, three = 3, items[3] = {1, 1, 1};
    RETURNS("launch: arguments not set", clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL));
    RETURNS("argument: no such index", clSetKernelArg(kernel, 3, sizeof n, &n));
    RETURNS("argument: wrong size", clSetKernelArg(kernel, 1, 2, &n));
    RETURNS("argument: no value", clSetKernelArg(kernel, 1, sizeof n, NULL));
    RETURNS("argument: buffer of wrong size", clSetKernelArg(kernel, 0, 4, &buffer));
    RETURNS("argument: local with value", clSetKernelArg(kernel, 2, sizeof n, &n));
    RETURNS("argument: local of zero", clSetKernelArg(kernel, 2, 0, NULL));
    RETURNS("argument: null kernel", clSetKernelArg(NULL, 0, sizeof n, &n));
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof n, &n);
    set_arg(kernel, 2, 4, NULL);
    set_arg(four, 0, sizeof buffer, &buffer);
    RETURNS("launch: no dimensions", clEnqueueNDRangeKernel(queue, kernel, 0, NULL, &one, NULL, 0, NULL, NULL));
    RETURNS("launch: four dimensions", clEnqueueNDRangeKernel(queue, kernel, 4, NULL, items, NULL, 0, NULL, NULL));
    RETURNS("launch: groups do not fit", clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &three, 0, NULL, NULL));
    RETURNS("launch: group of zero", clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &zero, 0, NULL, NULL));
    RETURNS("launch: not the required group", clEnqueueNDRangeKernel(queue, four, 1, NULL, &three, &three, 0, NULL, NULL));
    RETURNS("launch: null kernel", clEnqueueNDRangeKernel(queue, NULL, 1, NULL, &one, NULL, 0, NULL, NULL));
    RETURNS("kernel info: unknown", clGetKernelInfo(kernel, 0x7fff, 0, NULL, NULL));
    RETURNS("argument info: no such index", clGetKernelArgInfo(kernel, 3, CL_KERNEL_ARG_NAME, 0, NULL, NULL));
    RETURNS("work group info: unknown", clGetKernelWorkGroupInfo(kernel, device, 0x7fff, 0, NULL, NULL));
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseKernel(four));
    CHECK(clReleaseProgram(program));
}

static void events(cl_command_queue queue)
{
    cl_event gate, marker;
    cl_context other;
    cl_int now;
    MAKE(gate, clCreateUserEvent(context, &status));
    MAKES("user event: null context", clCreateUserEvent(NULL, &status));
    RETURNS("wait: none", clWaitForEvents(0, NULL));
    RETURNS("wait: null event", clWaitForEvents(1, &(cl_event){NULL}));
    RETURNS("user status: positive", clSetUserEventStatus(gate, 1));
    CHECK(clEnqueueMarkerWithWaitList(queue, 0, NULL, &marker));
    RETURNS("user status: not a user event", clSetUserEventStatus(marker, CL_COMPLETE));
    RETURNS("callback: null", clSetEventCallback(gate, CL_COMPLETE, NULL, NULL));
    RETURNS("callback: no such status", clSetEventCallback(gate, 77, on_failure, NULL));
    RETURNS("event info: unknown", clGetEventInfo(gate, 0x7fff, 0, NULL, NULL));
    RETURNS("profiling: of a user event", clGetEventProfilingInfo(gate, CL_PROFILING_COMMAND_END, 8, &(cl_ulong){0}, NULL));
    MAKE(other, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
    cl_event foreign;
    MAKE(foreign, clCreateUserEvent(other, &status));
    RETURNS("marker: event of another context", clEnqueueMarkerWithWaitList(queue, 1, &foreign, NULL));
    CHECK(clSetUserEventStatus(foreign, CL_COMPLETE));
    CHECK(clReleaseEvent(foreign));
    CHECK(clReleaseContext(other));
    CHECK(clReleaseEvent(marker));

    CHECK(clEnqueueMarkerWithWaitList(queue, 1, &gate, &marker));
    failed_callback = 1;
    CHECK(clSetEventCallback(marker, CL_COMPLETE, on_failure, NULL));
    CHECK(clFlush(queue));
    CHECK(clSetUserEventStatus(gate, -1234));
    RETURNS("wait: failed", clWaitForEvents(1, &marker));
    CHECK(clGetEventInfo(gate, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now, NULL));
    printf("user event: status %d\n", now);
    CHECK(clGetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now, NULL));
    printf("what waited for it: negative %d\n", now < 0);
    double end = seconds() + 1;
    while (failed_callback == 1 && seconds() < end)
        usleep(1000);
    printf("its callback: negative %d\n", failed_callback < 0);
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseEvent(marker));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_device();
    cl_command_queue queue = open_queue(0);
    platforms_and_devices();
    contexts_and_queues();
    buffers(queue);
    programs();
    kernels(queue);
    events(queue);
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return 0;
}
