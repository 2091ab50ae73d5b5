/* Command buffers (cl_khr_command_buffer). "check" uses them in every way, "replays N" replays 100 recorded kernels N times,
 * "launches N" launches the same kernels N times one by one. */
#include "common.h"
#include <CL/cl_ext.h>

#ifndef CL_INVALID_COMMAND_BUFFER_KHR
#define CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR 0x12A9
#define CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR 0x12AA
#define CL_COMMAND_BUFFER_FLAGS_KHR 0x1293
#define CL_COMMAND_BUFFER_QUEUES_KHR 0x1294
#define CL_COMMAND_BUFFER_NUM_QUEUES_KHR 0x1295
#define CL_COMMAND_BUFFER_REFERENCE_COUNT_KHR 0x1296
#define CL_COMMAND_BUFFER_STATE_KHR 0x1297
#define CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR 0x1298
#endif

/* The types of version 0.9.8, whatever the header's version is. */
typedef void *commands_t;
typedef commands_t (*create_fn)(cl_uint, const cl_command_queue *, const cl_ulong *, cl_int *);
typedef cl_int (*one_fn)(commands_t);
typedef cl_int (*enqueue_fn)(cl_uint, cl_command_queue *, commands_t, cl_uint, const cl_event *, cl_event *);
typedef cl_int (*barrier_fn)(commands_t, cl_command_queue, const cl_ulong *, cl_uint, const cl_uint *, cl_uint *, void **);
typedef cl_int (*kernel_fn)(commands_t, cl_command_queue, const cl_ulong *, cl_kernel, cl_uint, const size_t *,
                            const size_t *, const size_t *, cl_uint, const cl_uint *, cl_uint *, void **);
typedef cl_int (*copy_fn)(commands_t, cl_command_queue, const cl_ulong *, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint,
                          const cl_uint *, cl_uint *, void **);
typedef cl_int (*fill_fn)(commands_t, cl_command_queue, const cl_ulong *, cl_mem, const void *, size_t, size_t, size_t,
                          cl_uint, const cl_uint *, cl_uint *, void **);
typedef cl_int (*info_fn)(commands_t, cl_uint, size_t, void *, size_t *);

static create_fn create;
static one_fn finalize, retain, release;
static enqueue_fn enqueue;
static barrier_fn barrier;
static kernel_fn record_kernel;
static copy_fn record_copy;
static fill_fn record_fill;
static info_fn info;

static const char *SOURCE = "__kernel void add(__global int *x, int n) { x[get_global_id(0)] += n; }\n"
                            "__kernel void scale(__global int *x, int n) { x[get_global_id(0)] *= n; }\n"
                            "__kernel void say(int n) { printf(\"kernel says %d\\n\", n); }\n";

static cl_program program;
static cl_kernel add, scale;

static void *find(const char *name)
{
    void *function = clGetExtensionFunctionAddressForPlatform(platform, name);
    REQUIRE(function != NULL);
    return function;
}

static void find_functions(void)
{
    char extensions[16384];
    CHECK(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL));
    REQUIRE(strstr(extensions, "cl_khr_command_buffer") != NULL);
    create = (create_fn)find("clCreateCommandBufferKHR");
    finalize = (one_fn)find("clFinalizeCommandBufferKHR");
    retain = (one_fn)find("clRetainCommandBufferKHR");
    release = (one_fn)find("clReleaseCommandBufferKHR");
    enqueue = (enqueue_fn)find("clEnqueueCommandBufferKHR");
    barrier = (barrier_fn)find("clCommandBarrierWithWaitListKHR");
    record_kernel = (kernel_fn)find("clCommandNDRangeKernelKHR");
    record_copy = (copy_fn)find("clCommandCopyBufferKHR");
    record_fill = (fill_fn)find("clCommandFillBufferKHR");
    info = (info_fn)find("clGetCommandBufferInfoKHR");
}

static commands_t commands_for(cl_command_queue queue)
{
    commands_t commands;
    MAKE(commands, create(1, &queue, NULL, &status));
    return commands;
}

static void record(commands_t commands, cl_kernel kernel, cl_mem memory, int n, cl_uint waits, const cl_uint *wait_for,
                   cl_uint *point)
{
    size_t items = 4;
    set_arg(kernel, 0, sizeof memory, &memory);
    set_arg(kernel, 1, sizeof n, &n);
    CHECK(record_kernel(commands, NULL, NULL, kernel, 1, NULL, &items, NULL, waits, wait_for, point, NULL));
}

static void print(const char *what, cl_command_queue queue, cl_mem memory)
{
    int values[4];
    CHECK(clFinish(queue));
    CHECK(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL));
    printf("%s: %d %d %d %d\n", what, values[0], values[1], values[2], values[3]);
}

/* Arguments are those of the time of recording; everything that is recorded stays alive. */
static void in_order(void)
{
    cl_command_queue queue = open_queue(CL_QUEUE_PROFILING_ENABLE), other = open_queue(0);
    int start[4] = {1, 2, 3, 4}, zero = 0, unused = 99;
    cl_mem x = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof start, start), y = buffer_of(CL_MEM_READ_WRITE, sizeof start, NULL);
    cl_kernel mine = kernel_of(program, "add");
    commands_t commands = commands_for(queue);
    CHECK(record_fill(commands, NULL, NULL, y, &zero, sizeof zero, 0, sizeof start, 0, NULL, NULL, NULL));
    record(commands, mine, x, 10, 0, NULL, NULL);
    record(commands, scale, x, 3, 0, NULL, NULL);
    CHECK(barrier(commands, NULL, NULL, 0, NULL, NULL, NULL));
    CHECK(record_copy(commands, NULL, NULL, x, y, 4, 0, 8, 0, NULL, NULL, NULL));
    CHECK(finalize(commands));
    set_arg(mine, 1, sizeof unused, &unused);
    CHECK(clReleaseKernel(mine));
    cl_event gate, event;
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(enqueue(0, NULL, commands, 1, &gate, &event));
    CHECK(clFlush(queue));
    cl_int now;
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now, NULL));
    printf("held: %d\n", now > CL_COMPLETE);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &event));
    cl_ulong at[4];
    for (cl_uint k = 0; k < 4; k++)
        CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + k, sizeof at[k], &at[k], NULL));
    printf("times: %d\n", at[0] > 0 && at[0] <= at[1] && at[1] <= at[2] && at[2] < at[3]);
    cl_command_type type;
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    printf("type %x\n", type);
    print("x", queue, x);
    print("y", queue, y);
    CHECK(enqueue(1, &other, commands, 0, NULL, NULL));
    CHECK(enqueue(0, NULL, commands, 0, NULL, NULL));
    print("x after two more", queue, x);
    CHECK(release(commands));
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseMemObject(y));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseCommandQueue(other));
}

/* Sync points and barriers give the only order there is. */
static void out_of_order(void)
{
    cl_command_queue queue = open_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    int start[4] = {1, 2, 3, 4};
    cl_mem x = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof start, start), y = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof start, start);
    cl_mem z = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof start, start);
    commands_t commands = commands_for(queue);
    cl_uint point[40];
    for (int i = 0; i < 20; i++) {
        record(commands, i % 2 ? scale : add, x, i % 2 ? 2 : 1, i > 0, i > 0 ? &point[i - 1] : NULL, &point[i]);
        record(commands, add, y, 1, i > 0, i > 0 ? &point[20 + i - 1] : NULL, &point[20 + i]);
    }
    CHECK(barrier(commands, NULL, NULL, 2, (cl_uint[]){point[19], point[39]}, NULL, NULL));
    CHECK(record_copy(commands, NULL, NULL, x, z, 0, 0, 8, 0, NULL, NULL, NULL));
    CHECK(record_copy(commands, NULL, NULL, y, z, 0, 8, 8, 0, NULL, NULL, NULL));
    CHECK(barrier(commands, NULL, NULL, 0, NULL, NULL, NULL));
    record(commands, add, z, 1000, 0, NULL, NULL);
    CHECK(finalize(commands));
    for (int i = 0; i < 3; i++)
        CHECK(enqueue(0, NULL, commands, 0, NULL, NULL));
    print("out of order x", queue, x);
    print("out of order y", queue, y);
    print("out of order z", queue, z);
    cl_command_queue in_order = open_queue(0);
    CHECK(enqueue(1, &in_order, commands, 0, NULL, NULL));
    print("in order", in_order, z);
    CHECK(release(commands));
    /* Recorded for a queue in order, it keeps that order. */
    commands = commands_for(in_order);
    for (int i = 0; i < 20; i++)
        record(commands, i % 2 ? scale : add, y, i % 2 ? -1 : 5, 0, NULL, NULL);
    CHECK(finalize(commands));
    CHECK(enqueue(1, &queue, commands, 0, NULL, NULL));
    CHECK(enqueue(0, NULL, commands, 0, NULL, NULL));
    print("in order, out of order", in_order, y);
    CHECK(release(commands));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseMemObject(y));
    CHECK(clReleaseMemObject(z));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseCommandQueue(in_order));
}

/* What fails before takes the whole of it along. */
static void failing(cl_command_queue_properties properties)
{
    cl_command_queue queue = open_queue(properties);
    int start[4] = {0, 0, 0, 0};
    cl_mem x = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof start, start);
    commands_t commands = commands_for(queue);
    for (int i = 0; i < 5; i++)
        record(commands, add, x, 1, 0, NULL, NULL);
    CHECK(finalize(commands));
    cl_event gate, event, next;
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(enqueue(0, NULL, commands, 1, &gate, &event));
    CHECK(clEnqueueMarkerWithWaitList(queue, 1, &event, &next));
    CHECK(clSetUserEventStatus(gate, -3));
    printf("failing: %d", clWaitForEvents(1, &event));
    printf(" %d\n", clWaitForEvents(1, &next));
    CHECK(enqueue(0, NULL, commands, 0, NULL, NULL));
    print("failed once, done once", queue, x);
    CHECK(release(commands));
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseEvent(next));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseCommandQueue(queue));
}

/* Rectangles and images, there and back. */
static void regions(void)
{
    typedef cl_int (*rect_fn)(commands_t, cl_command_queue, const cl_ulong *, cl_mem, cl_mem, const size_t *,
                              const size_t *, const size_t *, size_t, size_t, size_t, size_t, cl_uint, const cl_uint *,
                              cl_uint *, void **);
    typedef cl_int (*image_fn)(commands_t, cl_command_queue, const cl_ulong *, cl_mem, cl_mem, const size_t *,
                               const size_t *, const size_t *, cl_uint, const cl_uint *, cl_uint *, void **);
    typedef cl_int (*to_buffer_fn)(commands_t, cl_command_queue, const cl_ulong *, cl_mem, cl_mem, const size_t *,
                                   const size_t *, size_t, cl_uint, const cl_uint *, cl_uint *, void **);
    typedef cl_int (*to_image_fn)(commands_t, cl_command_queue, const cl_ulong *, cl_mem, cl_mem, size_t, const size_t *,
                                  const size_t *, cl_uint, const cl_uint *, cl_uint *, void **);
    typedef cl_int (*color_fn)(commands_t, cl_command_queue, const cl_ulong *, cl_mem, const void *, const size_t *,
                               const size_t *, cl_uint, const cl_uint *, cl_uint *, void **);
    rect_fn copy_rect = (rect_fn)find("clCommandCopyBufferRectKHR");
    image_fn copy_image = (image_fn)find("clCommandCopyImageKHR");
    to_buffer_fn to_buffer = (to_buffer_fn)find("clCommandCopyImageToBufferKHR");
    to_image_fn to_image = (to_image_fn)find("clCommandCopyBufferToImageKHR");
    color_fn fill_image = (color_fn)find("clCommandFillImageKHR");
    cl_command_queue queue = open_queue(0);
    unsigned char from[64], to[64];
    for (int i = 0; i < 64; i++)
        from[i] = (unsigned char)i, to[i] = 255;
    cl_mem x = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof from, from), y = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof to, to);
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc like = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 4, .image_height = 4};
    cl_mem a, b;
    MAKE(a, clCreateImage(context, CL_MEM_READ_WRITE, &format, &like, NULL, &status));
    MAKE(b, clCreateImage(context, CL_MEM_READ_WRITE, &format, &like, NULL, &status));
    size_t origin[] = {0, 0, 0}, inner[] = {1, 1, 0}, all[] = {4, 4, 1}, two[] = {2, 2, 1}, bytes[] = {4, 2, 1}, at[] = {8, 2, 0};
    cl_uint color[] = {100, 101, 102, 103};
    commands_t commands = commands_for(queue);
    CHECK(to_image(commands, NULL, NULL, x, a, 0, origin, all, 0, NULL, NULL, NULL));
    CHECK(fill_image(commands, NULL, NULL, a, color, inner, two, 0, NULL, NULL, NULL));
    CHECK(copy_image(commands, NULL, NULL, a, b, origin, origin, all, 0, NULL, NULL, NULL));
    CHECK(to_buffer(commands, NULL, NULL, b, y, origin, all, 0, 0, NULL, NULL, NULL));
    CHECK(copy_rect(commands, NULL, NULL, x, y, origin, at, bytes, 16, 0, 16, 0, 0, NULL, NULL, NULL));
    CHECK(finalize(commands));
    CHECK(enqueue(0, NULL, commands, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, y, CL_TRUE, 0, sizeof to, to, 0, NULL, NULL));
    for (int i = 0; i < 64; i++)
        printf(i % 16 == 15 ? "%d\n" : "%d ", to[i]);
    CHECK(release(commands));
    CHECK(clReleaseMemObject(a));
    CHECK(clReleaseMemObject(b));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseMemObject(y));
    CHECK(clReleaseCommandQueue(queue));
}

/* Shared virtual memory. */
static void shared(void)
{
    typedef cl_int (*memcpy_fn)(commands_t, cl_command_queue, const cl_ulong *, void *, const void *, size_t, cl_uint,
                                const cl_uint *, cl_uint *, void **);
    typedef cl_int (*memfill_fn)(commands_t, cl_command_queue, const cl_ulong *, void *, const void *, size_t, size_t,
                                 cl_uint, const cl_uint *, cl_uint *, void **);
    memcpy_fn copy = (memcpy_fn)find("clCommandSVMMemcpyKHR");
    memfill_fn fill = (memfill_fn)find("clCommandSVMMemFillKHR");
    cl_command_queue queue = open_queue(0);
    int *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, 64, 0), outside[4] = {0}, pattern[2] = {5, 6}, found[8];
    REQUIRE(memory != NULL);
    commands_t commands = commands_for(queue);
    CHECK(fill(commands, NULL, NULL, memory, pattern, sizeof pattern, 32, 0, NULL, NULL, NULL));
    CHECK(copy(commands, NULL, NULL, memory + 8, memory + 1, 16, 0, NULL, NULL, NULL));
    printf("shared: %d", copy(commands, NULL, NULL, memory, outside, 16, 0, NULL, NULL, NULL));
    printf(" %d", copy(commands, NULL, NULL, memory, NULL, 16, 0, NULL, NULL, NULL));
    printf(" %d", copy(commands, NULL, NULL, memory, memory + 2, 16, 0, NULL, NULL, NULL));
    printf(" %d", fill(commands, NULL, NULL, memory, pattern, 3, 9, 0, NULL, NULL, NULL));
    printf(" %d\n", fill(commands, NULL, NULL, memory, pattern, 4, 128, 0, NULL, NULL, NULL));
    CHECK(finalize(commands));
    CHECK(enqueue(0, NULL, commands, 0, NULL, NULL));
    CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, found, memory + 6, 24, 0, NULL, NULL));
    printf("%d %d, %d %d %d %d\n", found[0], found[1], found[2], found[3], found[4], found[5]);
    CHECK(release(commands));
    clSVMFree(context, memory);
    CHECK(clReleaseCommandQueue(queue));
}

static void printing(void)
{
    cl_command_queue queue = open_queue(0);
    cl_kernel say = kernel_of(program, "say");
    commands_t commands = commands_for(queue);
    size_t items = 1;
    for (int i = 1; i < 3; i++) {
        set_arg(say, 0, sizeof i, &i);
        CHECK(record_kernel(commands, NULL, NULL, say, 1, NULL, &items, NULL, 0, NULL, NULL, NULL));
    }
    CHECK(finalize(commands));
    fflush(stdout);
    CHECK(enqueue(0, NULL, commands, 0, NULL, NULL));
    CHECK(clFinish(queue));
    CHECK(release(commands));
    CHECK(clReleaseKernel(say));
    CHECK(clReleaseCommandQueue(queue));
}

static void errors(void)
{
    cl_command_queue queue = open_queue(0), none = NULL;
    int n = 0;
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, 16, NULL);
    cl_context elsewhere;
    MAKE(elsewhere, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
    cl_command_queue foreign;
    MAKE(foreign, clCreateCommandQueue(elsewhere, device, 0, &status));
    cl_mem far;
    MAKE(far, clCreateBuffer(elsewhere, 0, 16, NULL, &status));
    cl_event far_event;
    MAKE(far_event, clCreateUserEvent(elsewhere, &status));
    cl_int code;
    cl_ulong twice[] = {CL_COMMAND_BUFFER_FLAGS_KHR, 0, CL_COMMAND_BUFFER_FLAGS_KHR, 0, 0}, odd[] = {5, 0, 0};
    cl_ulong unsupported[] = {CL_COMMAND_BUFFER_FLAGS_KHR, 1, 0}, wrong[] = {CL_COMMAND_BUFFER_FLAGS_KHR, 1 << 20, 0};
    cl_ulong plain[] = {CL_COMMAND_BUFFER_FLAGS_KHR, 0, 0};
    printf("create:");
    create(0, &queue, NULL, &code), printf(" %d", code);
    create(2, &queue, NULL, &code), printf(" %d", code);
    create(1, NULL, NULL, &code), printf(" %d", code);
    create(1, &none, NULL, &code), printf(" %d", code);
    create(1, &queue, twice, &code), printf(" %d", code);
    create(1, &queue, odd, &code), printf(" %d", code);
    create(1, &queue, wrong, &code), printf(" %d", code);
    create(1, &queue, unsupported, &code), printf(" %d\n", code);
    commands_t commands;
    MAKE(commands, create(1, &queue, plain, &status));
    cl_uint point, zero = 0, later = 7;
    void *handle;
    size_t items = 4;
    set_arg(add, 0, sizeof x, &x);
    set_arg(add, 1, sizeof n, &n);
    cl_kernel bare = kernel_of(program, "add");
    printf("record: %d", record_kernel(NULL, NULL, NULL, add, 1, NULL, &items, NULL, 0, NULL, NULL, NULL));
    printf(" %d", record_kernel(commands, queue, NULL, add, 1, NULL, &items, NULL, 0, NULL, NULL, NULL));
    printf(" %d", record_kernel(commands, NULL, odd, add, 1, NULL, &items, NULL, 0, NULL, NULL, NULL));
    printf(" %d", record_kernel(commands, NULL, NULL, add, 1, NULL, &items, NULL, 0, NULL, NULL, &handle));
    printf(" %d", record_kernel(commands, NULL, NULL, NULL, 1, NULL, &items, NULL, 0, NULL, NULL, NULL));
    printf(" %d", record_kernel(commands, NULL, NULL, bare, 1, NULL, &items, NULL, 0, NULL, NULL, NULL));
    printf(" %d", record_kernel(commands, NULL, NULL, add, 4, NULL, &items, NULL, 0, NULL, NULL, NULL));
    printf(" %d", record_kernel(commands, NULL, NULL, add, 1, NULL, &items, NULL, 1, NULL, NULL, NULL));
    printf(" %d", record_kernel(commands, NULL, NULL, add, 1, NULL, &items, NULL, 0, &zero, NULL, NULL));
    printf(" %d", record_kernel(commands, NULL, NULL, add, 1, NULL, &items, NULL, 1, &zero, NULL, NULL));
    printf(" %d\n", record_kernel(commands, NULL, NULL, add, 1, NULL, &items, NULL, 1, &later, NULL, NULL));
    CHECK(record_kernel(commands, NULL, NULL, add, 1, NULL, &items, NULL, 0, NULL, &point, NULL));
    printf("copy: %d", record_copy(commands, NULL, NULL, x, far, 0, 0, 4, 0, NULL, NULL, NULL));
    printf(" %d", record_copy(commands, NULL, NULL, x, NULL, 0, 0, 4, 0, NULL, NULL, NULL));
    printf(" %d", record_copy(commands, NULL, NULL, x, x, 0, 2, 4, 0, NULL, NULL, NULL));
    printf(" %d", record_copy(commands, NULL, NULL, x, x, 0, 12, 8, 0, NULL, NULL, NULL));
    printf(" %d\n", record_copy(commands, NULL, NULL, x, x, 0, (size_t)-4, 8, 0, NULL, NULL, NULL));
    printf("fill: %d", record_fill(commands, NULL, NULL, far, &n, 4, 0, 4, 0, NULL, NULL, NULL));
    printf(" %d", record_fill(commands, NULL, NULL, x, NULL, 4, 0, 4, 0, NULL, NULL, NULL));
    printf(" %d", record_fill(commands, NULL, NULL, x, &n, 3, 0, 3, 0, NULL, NULL, NULL));
    printf(" %d\n", record_fill(commands, NULL, NULL, x, &n, 4, 2, 4, 0, NULL, NULL, NULL));
    printf("enqueue too early: %d\n", enqueue(0, NULL, commands, 0, NULL, NULL));
    CHECK(finalize(commands));
    printf("finalized: %d", finalize(commands));
    printf(" %d", record_kernel(commands, NULL, NULL, add, 1, NULL, &items, NULL, 0, NULL, NULL, NULL));
    printf(" %d\n", barrier(commands, NULL, NULL, 0, NULL, NULL, NULL));
    printf("enqueue: %d", enqueue(0, NULL, NULL, 0, NULL, NULL));
    printf(" %d", enqueue(1, NULL, commands, 0, NULL, NULL));
    printf(" %d", enqueue(0, &queue, commands, 0, NULL, NULL));
    printf(" %d", enqueue(2, &queue, commands, 0, NULL, NULL));
    printf(" %d", enqueue(1, &none, commands, 0, NULL, NULL));
    printf(" %d", enqueue(1, &foreign, commands, 0, NULL, NULL));
    printf(" %d", enqueue(0, NULL, commands, 1, &far_event, NULL));
    printf(" %d\n", enqueue(0, NULL, commands, 1, NULL, NULL));
    cl_uint number = 9, references, state;
    cl_command_queue its;
    size_t size;
    CHECK(info(commands, CL_COMMAND_BUFFER_NUM_QUEUES_KHR, sizeof number, &number, NULL));
    CHECK(info(commands, CL_COMMAND_BUFFER_QUEUES_KHR, sizeof its, &its, NULL));
    CHECK(info(commands, CL_COMMAND_BUFFER_STATE_KHR, sizeof state, &state, NULL));
    CHECK(info(commands, CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR, 0, NULL, &size));
    CHECK(retain(commands));
    CHECK(info(commands, CL_COMMAND_BUFFER_REFERENCE_COUNT_KHR, sizeof references, &references, NULL));
    CHECK(release(commands));
    printf("info: %u queues, the one %d, state %u, %zu bytes of properties, %u references, unknown %d\n", number,
           its == queue, state, size, references, info(commands, 1, sizeof number, &number, NULL));
    CHECK(release(commands));
    printf("released: %d %d %d\n", release(commands), retain(commands), finalize(commands));
    CHECK(clReleaseKernel(bare));
    CHECK(clReleaseEvent(far_event));
    CHECK(clReleaseMemObject(far));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseCommandQueue(foreign));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(elsewhere));
}

static void many(int times, int recorded)
{
    enum { KERNELS = 100 };
    cl_command_queue queue = open_queue(0);
    int start[4] = {0, 0, 0, 0}, one = 1;
    cl_mem x = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof start, start);
    commands_t commands = NULL;
    if (recorded) {
        commands = commands_for(queue);
        for (int i = 0; i < KERNELS; i++)
            record(commands, add, x, 1, 0, NULL, NULL);
        CHECK(finalize(commands));
    }
    set_arg(add, 0, sizeof x, &x);
    set_arg(add, 1, sizeof one, &one);
    double best = 1e9;
    for (int round = 0; round < 5; round++) {
        CHECK(clFinish(queue));
        double begin = seconds();
        for (int i = 0; i < times; i++)
            if (recorded)
                CHECK(enqueue(0, NULL, commands, 0, NULL, NULL));
            else
                for (int k = 0; k < KERNELS; k++)
                    launch(queue, add, 4, 0, NULL, NULL);
        CHECK(clFinish(queue));
        double took = (seconds() - begin) / times;
        best = took < best ? took : best;
    }
    print("sum", queue, x);
    fprintf(stderr, "%.1f us for %d kernels\n", best * 1e6, KERNELS);
    /* Nothing is released: what follows the last answer is sent before the process ends, or is not. So the counts are exact. */
}

int main(int argc, char **argv)
{
    REQUIRE(argc >= 2);
    open_device();
    program = build(SOURCE, NULL);
    add = kernel_of(program, "add");
    scale = kernel_of(program, "scale");
    if (strcmp(argv[1], "launches") != 0)
        find_functions();
    if (strcmp(argv[1], "check") == 0) {
        in_order();
        out_of_order();
        failing(0);
        failing(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        regions();
        shared();
        printing();
        errors();
    } else {
        many(atoi(argv[2]), strcmp(argv[1], "replays") == 0);
        return 0;
    }
    CHECK(clReleaseKernel(add));
    CHECK(clReleaseKernel(scale));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseContext(context));
    return 0;
}
