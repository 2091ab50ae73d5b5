/* Events: user events, wait lists across queues, callbacks, out-of-order chains, profiling, queries. */
#include "common.h"
#include <stdatomic.h>

static const char *SOURCE = "__kernel void advance(__global int *x, int from, int to) { if (x[0] == from) x[0] = to; }\n";

static atomic_int called[2];
static atomic_int end_status = 1;

static void CL_CALLBACK on_event(cl_event event, cl_int execution_status, void *counter)
{
    (void)event;
    if (execution_status <= 0)
        end_status = execution_status;
    atomic_fetch_add((atomic_int *)counter, 1);
}

static void wait_until(atomic_int *counter, int value)
{
    AWAIT(atomic_load(counter) >= value);
    REQUIRE(atomic_load(counter) == value);
}

/* Thirty steps in an out-of-order queue, each waiting for the one before. */
static void out_of_order_chain(cl_kernel kernel, cl_mem x)
{
    cl_command_queue queue = open_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    int zero = 0, result;
    cl_event before, event;
    CHECK(clEnqueueFillBuffer(queue, x, &zero, sizeof zero, 0, sizeof zero, 0, NULL, &before));
    for (int i = 0; i < 30; i++) {
        int next = i + 1;
        set_arg(kernel, 1, sizeof i, &i);
        set_arg(kernel, 2, sizeof next, &next);
        launch(queue, kernel, 1, 1, &before, &event);
        CHECK(clReleaseEvent(before));
        before = event;
    }
    CHECK(clEnqueueReadBuffer(queue, x, CL_TRUE, 0, sizeof result, &result, 1, &before, NULL));
    printf("out of order chain: %d\n", result);
    CHECK(clReleaseEvent(before));
    CHECK(clReleaseCommandQueue(queue));
}

/* Two queues; the second waits for the first, which waits for a user event. */
static void user_event_across_queues(cl_kernel kernel, cl_mem x)
{
    cl_command_queue first = open_queue(0), second = open_queue(0);
    cl_event gate, stepped, read;
    int start = 7, to = 8, result = 0;
    MAKE(gate, clCreateUserEvent(context, &status));
    printf("user event: %d\n", status_of(gate));
    CHECK(clEnqueueWriteBuffer(first, x, CL_TRUE, 0, sizeof start, &start, 0, NULL, NULL));
    set_arg(kernel, 1, sizeof start, &start);
    set_arg(kernel, 2, sizeof to, &to);
    launch(first, kernel, 1, 1, &gate, &stepped);
    CHECK(clSetEventCallback(stepped, CL_COMPLETE, on_event, &called[0]));
    CHECK(clEnqueueReadBuffer(second, x, CL_FALSE, 0, sizeof result, &result, 1, &stepped, &read));
    CHECK(clFlush(first));
    CHECK(clFlush(second));
    leave_time();
    printf("held back: %d\n", result == 0 && status_of(read) > CL_COMPLETE && called[0] == 0);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &read));
    wait_until(&called[0], 1);
    printf("after the gate: %d, gate %d, read %d, callback status %d\n", result, status_of(gate), status_of(read),
           end_status);
    printf("set twice: %d\n", clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseEvent(stepped));
    CHECK(clReleaseEvent(read));
    CHECK(clReleaseCommandQueue(first));
    CHECK(clReleaseCommandQueue(second));
}

/* A user event that fails takes what waits for it along. */
static void failed_user_event(cl_kernel kernel)
{
    cl_command_queue queue = open_queue(0);
    cl_event gate, stepped;
    MAKE(gate, clCreateUserEvent(context, &status));
    launch(queue, kernel, 1, 1, &gate, &stepped);
    CHECK(clFlush(queue));
    CHECK(clSetUserEventStatus(gate, -77));
    printf("wait: %d\n", clWaitForEvents(1, &stepped));
    printf("failed: %d\n", status_of(stepped) < 0);
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseEvent(stepped));
    CHECK(clReleaseCommandQueue(queue));
}

static void profiling(cl_kernel kernel)
{
    cl_command_queue queue = open_queue(CL_QUEUE_PROFILING_ENABLE), plain = open_queue(0);
    cl_event event, other;
    cl_ulong times[4];
    launch(queue, kernel, 1, 0, NULL, &event);
    CHECK(clWaitForEvents(1, &event));
    for (cl_uint i = 0; i < 4; i++)
        CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + i, sizeof times[i], &times[i], NULL));
    printf("times in order: %d\n", times[0] > 0 && times[0] <= times[1] && times[1] <= times[2] && times[2] <= times[3]);
    launch(plain, kernel, 1, 0, NULL, &other);
    CHECK(clFinish(plain));
    printf("without profiling: %d\n",
           clGetEventProfilingInfo(other, CL_PROFILING_COMMAND_END, sizeof times[0], times, NULL));
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseEvent(other));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseCommandQueue(plain));
}

static void queries(cl_kernel kernel)
{
    cl_command_queue queue = open_queue(0), its_queue;
    cl_event event, marker, barrier;
    cl_context its_context;
    cl_command_type type;
    cl_uint references;
    launch(queue, kernel, 1, 0, NULL, &event);
    CHECK(clEnqueueMarkerWithWaitList(queue, 1, &event, &marker));
    CHECK(clEnqueueBarrierWithWaitList(queue, 0, NULL, &barrier));
    CHECK(clSetEventCallback(marker, CL_SUBMITTED, on_event, &called[1]));
    CHECK(clSetEventCallback(marker, CL_RUNNING, on_event, &called[1]));
    CHECK(clSetEventCallback(marker, CL_COMPLETE, on_event, &called[1]));
    CHECK(clFinish(queue));
    wait_until(&called[1], 3);
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof its_queue, &its_queue, NULL));
    CHECK(clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof its_context, &its_context, NULL));
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    CHECK(clRetainEvent(event));
    CHECK(clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, sizeof references, &references, NULL));
    printf("queue %d, context %d, type %x, retained %d\n", its_queue == queue, its_context == context, type, references > 1);
    CHECK(clGetEventInfo(marker, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    printf("marker %x, status %d\n", type, status_of(marker));
    CHECK(clGetEventInfo(barrier, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    printf("barrier %x, status %d\n", type, status_of(barrier));
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseEvent(marker));
    CHECK(clReleaseEvent(barrier));
    CHECK(clReleaseCommandQueue(queue));
}

int main(void)
{
    open_device();
    cl_program program = build(SOURCE, NULL);
    cl_kernel kernel = kernel_of(program, "advance");
    int none = -1;
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, 4, NULL);
    set_arg(kernel, 0, sizeof x, &x);
    set_arg(kernel, 1, sizeof none, &none);
    set_arg(kernel, 2, sizeof none, &none);
    out_of_order_chain(kernel, x);
    user_event_across_queues(kernel, x);
    failed_user_event(kernel);
    profiling(kernel);
    queries(kernel);
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseContext(context));
    return 0;
}
