/* Functions of the program in the order of a queue. */
#include "common.h"
#include <stdatomic.h>

enum { N = 200000 };

static const char *SOURCE = "__kernel void twice(__global int *x) { x[get_global_id(0)] *= 2; }\n";

typedef struct {
    int n;
    int *x;
    char pad[3];
    const int *y;
    long *sum;
} arguments;

static void CL_CALLBACK add(void *raw)
{
    arguments *a = raw;
    for (int i = 0; i < a->n; i++)
        a->x[i] += a->y[i];
    *a->sum += a->n;
}

static atomic_int steps;

static void CL_CALLBACK step(void *raw)
{
    int *expected = raw;
    if (atomic_load(&steps) == *expected)
        atomic_fetch_add(&steps, 1);
    /* It takes long enough for the next one to come too early. */
    usleep(2000);
}

static void CL_CALLBACK nothing(void *raw)
{
    if (raw == NULL)
        atomic_fetch_add(&steps, 100);
}

static void with_buffers(cl_command_queue queue, int out_of_order)
{
    static int x[N], y[N], back[N];
    long sum = 0;
    for (int i = 0; i < N; i++)
        x[i] = i, y[i] = 5 * i;
    cl_mem bx = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, x);
    cl_mem by = buffer_of(CL_MEM_COPY_HOST_PTR | CL_MEM_READ_ONLY, sizeof y, y);
    cl_program program = build(SOURCE, NULL);
    cl_kernel twice = kernel_of(program, "twice");
    set_arg(twice, 0, sizeof bx, &bx);
    cl_event before, native, after;
    size_t items = N;
    CHECK(clEnqueueNDRangeKernel(queue, twice, 1, NULL, &items, NULL, 0, NULL, &before));
    arguments a = {N, (int *)bx, "", (const int *)by, &sum};
    cl_mem list[2] = {bx, by};
    const void *places[2] = {&a.x, &a.y};
    CHECK(clEnqueueNativeKernel(queue, add, &a, sizeof a, 2, list, places, out_of_order, out_of_order ? &before : NULL,
                                &native));
    /* The arguments were copied. */
    memset(&a, 0, sizeof a);
    CHECK(clEnqueueNDRangeKernel(queue, twice, 1, NULL, &items, NULL, 1, &native, &after));
    CHECK(clEnqueueReadBuffer(queue, bx, CL_TRUE, 0, sizeof back, back, 1, &after, NULL));
    for (int i = 0; i < N; i++)
        REQUIRE(back[i] == 14 * i);
    REQUIRE(sum == N);
    cl_command_type type;
    CHECK(clGetEventInfo(native, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    REQUIRE(type == CL_COMMAND_NATIVE_KERNEL);
    clReleaseEvent(before), clReleaseEvent(native), clReleaseEvent(after);
    clReleaseMemObject(bx), clReleaseMemObject(by), clReleaseKernel(twice), clReleaseProgram(program);
    puts("a function adds what kernels have made");
}

static void in_order(cl_command_queue queue)
{
    atomic_store(&steps, 0);
    for (int i = 0; i < 10; i++)
        CHECK(clEnqueueNativeKernel(queue, step, &i, sizeof i, 0, NULL, NULL, 0, NULL, NULL));
    CHECK(clFinish(queue));
    printf("%d steps in order\n", atomic_load(&steps));
    cl_event gate, native;
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clEnqueueNativeKernel(queue, nothing, NULL, 0, 0, NULL, NULL, 1, &gate, &native));
    CHECK(clFlush(queue));
    leave_time();
    REQUIRE(atomic_load(&steps) == 10);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &native));
    REQUIRE(atomic_load(&steps) == 110);
    clReleaseEvent(gate), clReleaseEvent(native);
}

#define WRONG(expected, call)                                                                                          \
    do {                                                                                                               \
        cl_int got = (call);                                                                                           \
        if (got != (expected))                                                                                         \
            printf("line %d: %d, not %d: %s\n", __LINE__, got, (int)(expected), #call);                                \
    } while (0)

static void wrong(cl_command_queue queue)
{
    int value = 0;
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, 64, NULL), none = NULL;
    void *args[2] = {buffer, NULL};
    const void *place = args;
    WRONG(CL_INVALID_COMMAND_QUEUE, clEnqueueNativeKernel(NULL, step, &value, 4, 0, NULL, NULL, 0, NULL, NULL));
    WRONG(CL_INVALID_VALUE, clEnqueueNativeKernel(queue, NULL, &value, 4, 0, NULL, NULL, 0, NULL, NULL));
    WRONG(CL_INVALID_VALUE, clEnqueueNativeKernel(queue, step, NULL, 4, 0, NULL, NULL, 0, NULL, NULL));
    WRONG(CL_INVALID_VALUE, clEnqueueNativeKernel(queue, step, &value, 0, 0, NULL, NULL, 0, NULL, NULL));
    WRONG(CL_INVALID_VALUE, clEnqueueNativeKernel(queue, step, NULL, 0, 1, &buffer, &place, 0, NULL, NULL));
    WRONG(CL_INVALID_VALUE, clEnqueueNativeKernel(queue, step, args, 16, 1, NULL, &place, 0, NULL, NULL));
    WRONG(CL_INVALID_VALUE, clEnqueueNativeKernel(queue, step, args, 16, 1, &buffer, NULL, 0, NULL, NULL));
    WRONG(CL_INVALID_VALUE, clEnqueueNativeKernel(queue, step, args, 16, 0, &buffer, NULL, 0, NULL, NULL));
    WRONG(CL_INVALID_VALUE, clEnqueueNativeKernel(queue, step, args, 16, 0, NULL, &place, 0, NULL, NULL));
    WRONG(CL_INVALID_MEM_OBJECT, clEnqueueNativeKernel(queue, step, args, 16, 1, &none, &place, 0, NULL, NULL));
    WRONG(CL_INVALID_EVENT_WAIT_LIST, clEnqueueNativeKernel(queue, step, &value, 4, 0, NULL, NULL, 1, NULL, NULL));
    clReleaseMemObject(buffer);
}

int main(void)
{
    open_device();
    cl_device_exec_capabilities can;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, NULL));
    cl_command_queue queue = open_queue(0), unordered = open_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    if (!(can & CL_EXEC_NATIVE_KERNEL)) {
        int value = 0;
        WRONG(CL_INVALID_OPERATION, clEnqueueNativeKernel(queue, step, &value, 4, 0, NULL, NULL, 0, NULL, NULL));
        puts("the device runs no native kernels");
        return 0;
    }
    with_buffers(queue, 0);
    with_buffers(unordered, 1);
    in_order(queue);
    wrong(queue);
    puts("done");
    return 0;
}
