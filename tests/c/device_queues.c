/* Queues on the device: kernels that enqueue kernels, on queues that they are given and on the default one. A device without them makes the
   program say so and end with 77. */
#include "common.h"

enum { ITEMS = 256, DEPTH = 12, HAS_NONE = 77, LARGE = 1 << 20 };

static const char *SOURCE =
    "void down(int depth, __global int *x, queue_t q)\n"
    "{\n"
    "    atomic_inc(x);\n"
    "    if (depth > 0)\n"
    "        enqueue_kernel(q, CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(1), ^{ down(depth - 1, x, q); });\n"
    "}\n"
    "__kernel void nested(int depth, __global int *x, queue_t q) { down(depth, x, q); }\n"
    "__kernel void spread(queue_t q, __global int *x, int n, int add)\n"
    "{\n"
    "    enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(n), ^{ x[get_global_id(0)] += add; });\n"
    "}\n"
    "__kernel void by_default(__global int *x, int n)\n"
    "{\n"
    "    enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(n), ^{ x[get_global_id(0)] *= 2; });\n"
    "}\n"
    "__kernel void in_order(queue_t q, __global int *x, int n, __global int *failed)\n"
    "{\n"
    "    clk_event_t first, second;\n"
    "    *failed = enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(n), 0, NULL, &first, ^{ x[get_global_id(0)] = 5; });\n"
    "    *failed |= enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(n), 1, &first, &second,\n"
    "                              ^{ x[get_global_id(0)] = x[get_global_id(0)] * 7 + (int)get_global_id(0); });\n"
    "    *failed |= enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), 1, &second, NULL,\n"
    "                              ^(__local void *l) { __local int *sum = l; *sum = 0; for (int i = 0; i < n; i++) *sum += x[i]; x[0] = *sum; },\n"
    "                              (uint)sizeof(int));\n"
    "    release_event(first);\n"
    "    release_event(second);\n"
    "}\n"
    "__kernel void sizes(__global uint *out, int n)\n"
    "{\n"
    "    void (^block)(void) = ^{ out[get_global_id(0) + 4] = 1; };\n"
    "    out[0] = get_kernel_work_group_size(block) > 0;\n"
    "    out[1] = get_kernel_preferred_work_group_size_multiple(block) > 0;\n"
    "}\n";

static cl_program program;
static cl_command_queue host;

static cl_command_queue on_device(cl_command_queue_properties more, cl_uint size)
{
    cl_command_queue queue;
    cl_queue_properties list[] = {CL_QUEUE_PROPERTIES,
                                  CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | more,
                                  size ? CL_QUEUE_SIZE : 0, size, 0};
    MAKE(queue, clCreateCommandQueueWithProperties(context, device, list, &status));
    return queue;
}

static cl_uint number_of(cl_command_queue queue, cl_command_queue_info name)
{
    cl_uint value;
    CHECK(clGetCommandQueueInfo(queue, name, sizeof value, &value, NULL));
    return value;
}

/* NULL where there is none, which some take for an error of the query. */
static cl_command_queue default_of(cl_command_queue queue)
{
    cl_command_queue found = NULL;
    cl_int asked = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE_DEFAULT, sizeof found, &found, NULL);
    return asked == CL_SUCCESS ? found : NULL;
}

static cl_mem numbers(int first, int step)
{
    static int values[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        values[i] = first + i * step;
    return buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof values, values);
}

static int value_at(cl_mem buffer, size_t index)
{
    int value;
    CHECK(clEnqueueReadBuffer(host, buffer, CL_TRUE, index * sizeof value, sizeof value, &value, 0, NULL, NULL));
    return value;
}

static void queries(void)
{
    cl_uint preferred, most;
    cl_command_queue_properties able, properties;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE, sizeof preferred, &preferred, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE, sizeof most, &most, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES, sizeof able, &able, NULL));
    printf("device: preferred size %u, most %u, properties %llx\n", preferred, most, (unsigned long long)able);
    cl_command_queue plain = on_device(0, 0), sized = on_device(0, 16384);
    printf("sizes: preferred %d, given %u\n", number_of(plain, CL_QUEUE_SIZE) == preferred, number_of(sized, CL_QUEUE_SIZE));
    cl_queue_properties list[8];
    size_t bytes;
    CHECK(clGetCommandQueueInfo(sized, CL_QUEUE_PROPERTIES_ARRAY, sizeof list, list, &bytes));
    CHECK(clGetCommandQueueInfo(sized, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL));
    printf("list of %zu: size %llu, properties %llx\n", bytes / sizeof *list, (unsigned long long)list[3],
           (unsigned long long)properties);
    cl_context of;
    cl_device_id on;
    CHECK(clGetCommandQueueInfo(sized, CL_QUEUE_CONTEXT, sizeof of, &of, NULL));
    CHECK(clGetCommandQueueInfo(sized, CL_QUEUE_DEVICE, sizeof on, &on, NULL));
    CHECK(clRetainCommandQueue(sized));
    printf("belongs %d, references %u", of == context && on == device, number_of(sized, CL_QUEUE_REFERENCE_COUNT));
    CHECK(clReleaseCommandQueue(sized));
    printf(" and %u\n", number_of(sized, CL_QUEUE_REFERENCE_COUNT));
    printf("finish %d, marker %d\n", clFinish(sized), clEnqueueMarkerWithWaitList(sized, 0, NULL, NULL));
    CHECK(clReleaseCommandQueue(sized));
    CHECK(clReleaseCommandQueue(plain));
}

/* What kernels enqueue has ended when the host's queue is finished, an event of the parent's says so, or a read comes behind. */
static void children(cl_command_queue queue)
{
    cl_kernel nested = kernel_of(program, "nested"), spread = kernel_of(program, "spread");
    cl_mem x = numbers(0, 0), y = numbers(3, 1);
    int depth = DEPTH, n = ITEMS, add = 100;
    set_arg(nested, 0, sizeof depth, &depth);
    set_arg(nested, 1, sizeof x, &x);
    set_arg(nested, 2, sizeof queue, &queue);
    launch(host, nested, 1, 0, NULL, NULL);
    CHECK(clFinish(host));
    printf("nested: %d\n", value_at(x, 0));
    set_arg(spread, 0, sizeof queue, &queue);
    set_arg(spread, 1, sizeof y, &y);
    set_arg(spread, 2, sizeof n, &n);
    set_arg(spread, 3, sizeof add, &add);
    cl_event event;
    launch(host, spread, 1, 0, NULL, &event);
    CHECK(clWaitForEvents(1, &event));
    printf("spread: %d %d %d", value_at(y, 0), value_at(y, 1), value_at(y, ITEMS - 1));
    /* Three in a row, without waiting, then one in another queue. */
    for (int i = 0; i < 3; i++)
        launch(host, spread, 1, 0, NULL, NULL);
    cl_command_queue other = open_queue(0);
    CHECK(clReleaseEvent(event));
    launch(host, spread, 1, 0, NULL, &event);
    launch(other, spread, 1, 1, &event, NULL);
    CHECK(clFinish(other));
    printf(", then %d\n", value_at(y, ITEMS - 1));
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseCommandQueue(other));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseMemObject(y));
    CHECK(clReleaseKernel(nested));
    CHECK(clReleaseKernel(spread));
}

/* The default queue: there is one, which is given again; another can take its place. */
static void defaults(cl_command_queue other)
{
    cl_kernel kernel = kernel_of(program, "by_default");
    cl_mem x = numbers(1, 1);
    int n = ITEMS;
    printf("default before: %d\n", default_of(other) != NULL);
    cl_command_queue first = on_device(CL_QUEUE_ON_DEVICE_DEFAULT, 0);
    cl_command_queue again = on_device(CL_QUEUE_ON_DEVICE_DEFAULT, 0);
    printf("the same again: %d, references %u, known %d %d\n", first == again, number_of(first, CL_QUEUE_REFERENCE_COUNT),
           default_of(host) == first, default_of(other) == first);
    CHECK(clReleaseCommandQueue(again));
    set_arg(kernel, 0, sizeof x, &x);
    set_arg(kernel, 1, sizeof n, &n);
    launch(host, kernel, 1, 0, NULL, NULL);
    printf("by default: %d %d", value_at(x, 0), value_at(x, ITEMS - 1));
    CHECK(clSetDefaultDeviceCommandQueue(context, device, other));
    launch(host, kernel, 1, 0, NULL, NULL);
    printf(", by another: %d %d, known %d\n", value_at(x, 0), value_at(x, ITEMS - 1), default_of(host) == other);
    CHECK(clReleaseCommandQueue(first));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseKernel(kernel));
}

static void order(cl_command_queue queue)
{
    cl_kernel kernel = kernel_of(program, "in_order"), sizes = kernel_of(program, "sizes");
    cl_mem x = numbers(0, 1), failed = numbers(9, 0);
    int n = ITEMS;
    set_arg(kernel, 0, sizeof queue, &queue);
    set_arg(kernel, 1, sizeof x, &x);
    set_arg(kernel, 2, sizeof n, &n);
    set_arg(kernel, 3, sizeof failed, &failed);
    launch(host, kernel, 1, 0, NULL, NULL);
    printf("in order: %d, sum %d, last %d\n", value_at(failed, 0), value_at(x, 0), value_at(x, ITEMS - 1));
    set_arg(sizes, 0, sizeof failed, &failed);
    set_arg(sizes, 1, sizeof n, &n);
    launch(host, sizes, 1, 0, NULL, NULL);
    printf("sizes: %d %d\n", value_at(failed, 0), value_at(failed, 1));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseMemObject(failed));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseKernel(sizes));
}

/* A kernel's children use what a large write before it has brought, and a large read behind it has what they wrote. */
static void between_transfers(cl_command_queue queue)
{
    cl_kernel spread = kernel_of(program, "spread");
    int *values = malloc(LARGE * sizeof *values), n = LARGE, add = 1;
    REQUIRE(values != NULL);
    for (int i = 0; i < LARGE; i++)
        values[i] = i;
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, LARGE * sizeof *values, NULL);
    set_arg(spread, 0, sizeof queue, &queue);
    set_arg(spread, 1, sizeof x, &x);
    set_arg(spread, 2, sizeof n, &n);
    set_arg(spread, 3, sizeof add, &add);
    CHECK(clEnqueueWriteBuffer(host, x, CL_FALSE, 0, LARGE * sizeof *values, values, 0, NULL, NULL));
    launch(host, spread, 1, 0, NULL, NULL);
    CHECK(clEnqueueReadBuffer(host, x, CL_TRUE, 0, LARGE * sizeof *values, values, 0, NULL, NULL));
    int wrong = 0;
    for (int i = 0; i < LARGE; i++)
        wrong += values[i] != i + 1;
    printf("between large transfers: %d wrong\n", wrong);
    free(values);
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseKernel(spread));
}

/* A kernel keeps the queue that it was given, a clone has it too, and it comes back out of a binary. */
static void arguments(cl_command_queue queue)
{
    cl_kernel spread = kernel_of(program, "spread"), clone;
    cl_mem x = numbers(0, 0);
    int n = ITEMS, add = 1, number = 0;
    char type[16];
    CHECK(clGetKernelArgInfo(spread, 0, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL));
    printf("declared as %s\n", type);
    printf("too short: %d, a null handle: %d\n", clSetKernelArg(spread, 0, 4, &queue),
           clSetKernelArg(spread, 0, sizeof queue, &(cl_command_queue){NULL}));
    set_arg(spread, 0, sizeof queue, &queue);
    set_arg(spread, 1, sizeof x, &x);
    set_arg(spread, 2, sizeof n, &n);
    set_arg(spread, 3, sizeof add, &add);
    MAKE(clone, clCloneKernel(spread, &status));
    CHECK(clReleaseKernel(spread));
    launch(host, clone, 1, 0, NULL, NULL);
    number += value_at(x, ITEMS - 1);
    CHECK(clReleaseKernel(clone));
    size_t size;
    CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL));
    unsigned char *binary = malloc(size);
    REQUIRE(binary != NULL);
    CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL));
    cl_program copy;
    MAKE(copy, clCreateProgramWithBinary(context, 1, &device, &size, (const unsigned char **)&binary, NULL, &status));
    CHECK(clBuildProgram(copy, 1, &device, NULL, NULL, NULL));
    cl_kernel loaded = kernel_of(copy, "spread");
    set_arg(loaded, 0, sizeof queue, &queue);
    set_arg(loaded, 1, sizeof x, &x);
    set_arg(loaded, 2, sizeof n, &n);
    set_arg(loaded, 3, sizeof add, &add);
    launch(host, loaded, 1, 0, NULL, NULL);
    printf("of a clone: %d, of a binary: %d\n", number, value_at(x, ITEMS - 1));
    free(binary);
    CHECK(clReleaseKernel(loaded));
    CHECK(clReleaseProgram(copy));
    CHECK(clReleaseMemObject(x));
}

int main(void)
{
    open_device();
    cl_uint most = 0;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_ON_DEVICE_QUEUES, sizeof most, &most, NULL));
    if (most == 0) {
        printf("the device has no queues of its own\n");
        return HAS_NONE;
    }
    host = open_queue(0);
    program = build(SOURCE, "-cl-std=CL3.0 -cl-kernel-arg-info");
    queries();
    cl_command_queue queue = on_device(0, 0);
    children(queue);
    defaults(queue);
    order(queue);
    between_transfers(queue);
    arguments(queue);
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(host));
    CHECK(clReleaseContext(context));
    return 0;
}
