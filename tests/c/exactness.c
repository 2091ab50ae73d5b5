/* What a program sees of its events: statuses and callbacks on the way, failures that spread, counts, clocks. */
#include "common.h"
#include <stdatomic.h>

static const char *SOURCE = "__kernel void add(__global int *x, int n) { x[0] += n; }\n"
                            "__kernel void spin(__global int *x, int n) { for (int i = 0; i < n; i++) x[1] = x[1] * 3 + i; }\n";

static cl_kernel add, spin;
static cl_mem memory;

static int contents(cl_command_queue queue)
{
    int value = -1;
    CHECK(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL));
    return value;
}

/* The callbacks of one event, in the order in which they came. */
static struct {
    atomic_int calls;
    int argument[16], seen[16];
} heard;

static void CL_CALLBACK hear(cl_event event, cl_int execution_status, void *argument)
{
    /* A callback may ask about its event. */
    cl_int now = 99;
    if (clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now, NULL) != CL_SUCCESS ||
        now > execution_status)
        execution_status = 1000;
    int at = atomic_load(&heard.calls);
    if (at < 16) {
        heard.argument[at] = (int)(intptr_t)argument;
        heard.seen[at] = execution_status < 0 ? -1 : execution_status;
    }
    atomic_fetch_add(&heard.calls, 1);
}

static void listen_to(cl_event event, int from)
{
    static const cl_int LEVELS[] = {CL_COMPLETE, CL_RUNNING, CL_SUBMITTED};
    for (int i = 0; i < 3; i++)
        CHECK(clSetEventCallback(event, LEVELS[i], hear, (void *)(intptr_t)(from + i)));
}

static void print_heard(const char *what, int count)
{
    AWAIT(atomic_load(&heard.calls) >= count);
    /* For those that should not come. */
    leave_time();
    int in_order = 1;
    for (int i = 1; i < count; i++)
        in_order &= heard.seen[i] <= heard.seen[i - 1];
    int once = 0;
    for (int i = 0; i < count; i++)
        once |= 1 << heard.argument[i];
    printf("%s: %d callbacks, statuses in order %d, each once %d, from %d to %d\n", what, heard.calls, in_order,
           once == (1 << count) - 1, heard.seen[0], heard.seen[count - 1]);
    atomic_store(&heard.calls, 0);
}

/* Statuses only fall; callbacks follow them. */
static void on_the_way(void)
{
    cl_command_queue queue = open_queue(0);
    cl_event gate, event;
    MAKE(gate, clCreateUserEvent(context, &status));
    int n = 50000000;
    set_arg(spin, 1, sizeof n, &n);
    launch(queue, spin, 1, 1, &gate, &event);
    listen_to(event, 0);
    CHECK(clFlush(queue));
    leave_time();
    printf("held: %d\n", status_of(event) > CL_RUNNING);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    int before = CL_QUEUED, falls = 1, ran = 0, now;
    do {
        now = status_of(event);
        falls &= now <= before;
        ran |= now == CL_RUNNING;
        before = now;
        usleep(500);
    } while (now > CL_COMPLETE);
    printf("statuses fall %d, seen running %d, end %d\n", falls, ran, now);
    print_heard("a kernel", 3);
    listen_to(event, 0);
    print_heard("one that has ended", 3);
    listen_to(gate, 0);
    print_heard("a user event", 3);
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseCommandQueue(queue));
}

/* What waits for a user event that fails is not carried out, ends with an error, and takes along what waits for it. */
static void failing(cl_command_queue_properties properties)
{
    cl_command_queue queue = open_queue(properties), other = open_queue(0);
    cl_event gate, event[6];
    int one = 1, value = 0;
    set_arg(add, 1, sizeof one, &one);
    CHECK(clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL));
    MAKE(gate, clCreateUserEvent(context, &status));
    launch(queue, add, 1, 1, &gate, &event[0]);
    launch(queue, add, 1, 1, &event[0], &event[1]);
    launch(other, add, 1, 1, &event[1], &event[2]);
    CHECK(clEnqueueMarkerWithWaitList(other, 1, &gate, &event[3]));
    CHECK(clEnqueueBarrierWithWaitList(other, 1, &event[0], &event[4]));
    CHECK(clEnqueueReadBuffer(other, memory, CL_FALSE, 0, sizeof value, &value, 1, &event[1], &event[5]));
    CHECK(clSetEventCallback(event[2], CL_COMPLETE, hear, (void *)0));
    CHECK(clFlush(queue));
    CHECK(clFlush(other));
    CHECK(clSetUserEventStatus(gate, -5));
    printf("failing: the user event %d, again %d, wait %d\n", status_of(gate), clSetUserEventStatus(gate, CL_COMPLETE),
           clWaitForEvents(1, &gate));
    for (int i = 0; i < 6; i++) {
        cl_int waited = clWaitForEvents(1, &event[i]);
        printf("  %d: wait %d, failed %d\n", i, waited, status_of(event[i]) < 0);
        CHECK(clReleaseEvent(event[i]));
    }
    print_heard("  a dependent", 1);
    printf("  finish %d %d, contents %d\n", clFinish(queue), clFinish(other), contents(queue));
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseCommandQueue(other));
}

/* What is enqueued to wait for an event that has failed already ends as well. (PoCL 3.1 lets it hang.) */
static void failed_before(void)
{
    enum { LARGE = 4 << 20 };
    static char bytes[LARGE];
    cl_command_queue queue = open_queue(0);
    cl_event gate, event;
    cl_mem large = buffer_of(CL_MEM_READ_WRITE, LARGE, NULL);
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clSetUserEventStatus(gate, -5));
    for (int kind = 0; kind < 7; kind++) {
        cl_int code = 99;
        switch (kind) {
        case 0: launch(queue, add, 1, 1, &gate, &event); break;
        case 1: CHECK(clEnqueueMarkerWithWaitList(queue, 1, &gate, &event)); break;
        case 2: CHECK(clEnqueueBarrierWithWaitList(queue, 1, &gate, &event)); break;
        case 3: CHECK(clEnqueueReadBuffer(queue, large, CL_FALSE, 0, 4, bytes, 1, &gate, &event)); break;
        case 4: CHECK(clEnqueueReadBuffer(queue, large, CL_FALSE, 0, LARGE, bytes, 1, &gate, &event)); break;
        case 5: CHECK(clEnqueueWriteBuffer(queue, large, CL_FALSE, 0, 4, bytes, 1, &gate, &event)); break;
        case 6: CHECK(clEnqueueWriteBuffer(queue, large, CL_FALSE, 0, LARGE, bytes, 1, &gate, &event)); break;
        }
        code = clWaitForEvents(1, &event);
        printf("failed before %d: wait %d, failed %d\n", kind, code, status_of(event) < 0);
        CHECK(clReleaseEvent(event));
    }
    printf("blocking: %d %d %d %d\n", clEnqueueReadBuffer(queue, large, CL_TRUE, 0, 4, bytes, 1, &gate, NULL),
           clEnqueueReadBuffer(queue, large, CL_TRUE, 0, LARGE, bytes, 1, &gate, NULL),
           clEnqueueWriteBuffer(queue, large, CL_TRUE, 0, 4, bytes, 1, &gate, NULL),
           clEnqueueWriteBuffer(queue, large, CL_TRUE, 0, LARGE, bytes, 1, &gate, NULL));
    printf("finish %d, contents %d\n", clFinish(queue), contents(queue));
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseMemObject(large));
    CHECK(clReleaseCommandQueue(queue));
}

static void times(void)
{
    cl_command_queue queue = open_queue(CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    cl_command_queue plain = open_queue(0);
    cl_event gate, event[4], other;
    cl_ulong at[5], before_end = 0;
    MAKE(gate, clCreateUserEvent(context, &status));
    launch(queue, add, 1, 1, &gate, &event[0]);
    CHECK(clEnqueueBarrierWithWaitList(queue, 0, NULL, &event[1]));
    launch(queue, add, 1, 0, NULL, &event[2]);
    CHECK(clEnqueueMarkerWithWaitList(queue, 1, &event[2], &event[3]));
    launch(plain, add, 1, 1, &gate, &other);
    printf("before the end: %d\n", clGetEventProfilingInfo(event[0], CL_PROFILING_COMMAND_END, sizeof at[0], at, NULL));
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(4, event));
    CHECK(clFinish(plain));
    for (int i = 0; i < 4; i++) {
        for (cl_uint k = 0; k < 4; k++)
            CHECK(clGetEventProfilingInfo(event[i], CL_PROFILING_COMMAND_QUEUED + k, sizeof at[k], &at[k], NULL));
        printf("times %d: %d\n", i, at[0] > 0 && at[0] <= at[1] && at[1] <= at[2] && at[2] <= at[3]);
        if (i == 2)
            printf("not before the barrier: %d\n", at[2] >= before_end);
        before_end = at[3];
        CHECK(clReleaseEvent(event[i]));
    }
    printf("without profiling %d, of a user event %d\n",
           clGetEventProfilingInfo(other, CL_PROFILING_COMMAND_END, sizeof at[0], at, NULL),
           clGetEventProfilingInfo(gate, CL_PROFILING_COMMAND_END, sizeof at[0], at, NULL));
    CHECK(clReleaseEvent(other));
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseCommandQueue(plain));
}

static void CL_CALLBACK finish_in_it(cl_event event, cl_int execution_status, void *queue)
{
    (void)event;
    int more = 10;
    if (execution_status == CL_COMPLETE && clSetKernelArg(add, 1, sizeof more, &more) == CL_SUCCESS) {
        size_t items = 1;
        clEnqueueNDRangeKernel(queue, add, 1, NULL, &items, NULL, 0, NULL, NULL);
        clFlush(queue);
    }
    atomic_fetch_add(&heard.calls, 1);
}

/* A callback may enqueue. */
static void callbacks_that_call(void)
{
    cl_command_queue queue = open_queue(0);
    cl_event event;
    int one = 1;
    set_arg(add, 1, sizeof one, &one);
    int before = contents(queue);
    launch(queue, add, 1, 0, NULL, &event);
    CHECK(clSetEventCallback(event, CL_COMPLETE, finish_in_it, queue));
    CHECK(clFinish(queue));
    AWAIT(atomic_load(&heard.calls) >= 1);
    printf("from a callback: %d\n", contents(queue) - before);
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseCommandQueue(queue));
}

int main(void)
{
    open_device();
    cl_program program = build(SOURCE, NULL);
    int zeros[2] = {0, 0};
    add = kernel_of(program, "add");
    spin = kernel_of(program, "spin");
    memory = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof zeros, zeros);
    set_arg(add, 0, sizeof memory, &memory);
    set_arg(spin, 0, sizeof memory, &memory);
    on_the_way();
    failing(0);
    failing(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    failed_before();
    times();
    callbacks_that_call();
    CHECK(clReleaseMemObject(memory));
    CHECK(clReleaseKernel(add));
    CHECK(clReleaseKernel(spin));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseContext(context));
    return 0;
}
