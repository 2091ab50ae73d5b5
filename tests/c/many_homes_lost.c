/* One context of all devices; the first one's server is lost in the middle. Says "ready" and goes on when it reads a line, by when that has happened. */
#include "common.h"
#include <pthread.h>

enum { N = 4096, MOST = 64 };

static const char *SOURCE = "__kernel void plus(__global int *x, int by) { x[get_global_id(0)] += by; }\n";

static cl_device_id devices[MOST];
static cl_command_queue queues[MOST];
static cl_uint count;

static void CL_CALLBACK note(cl_event event, cl_int now, void *place)
{
    (void)event;
    __atomic_store_n((cl_int *)place, now + 100, __ATOMIC_SEQ_CST);
}

static void *finish_first(void *result)
{
    *(cl_int *)result = clFinish(queues[0]);
    return NULL;
}

static void *wait_for_two(void *arguments)
{
    cl_event *events = arguments;
    return (void *)(intptr_t)clWaitForEvents(2, events);
}

static int run_on(cl_kernel kernel, cl_command_queue queue, int start, int by)
{
    int x[16], y[16];
    for (int i = 0; i < 16; i++)
        x[i] = start;
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, x);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof by, &by);
    launch(queue, kernel, 16, 0, NULL, NULL);
    cl_int read = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL);
    CHECK(clReleaseMemObject(buffer));
    return read == CL_SUCCESS ? y[15] : read;
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, devices, &count));
    REQUIRE(count >= 2);
    MAKE(context, clCreateContext(NULL, count, devices, NULL, NULL, &status));
    for (cl_uint i = 0; i < count; i++)
        MAKE(queues[i], clCreateCommandQueue(context, devices[i], 0, &status));
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    cl_kernel kernel = kernel_of(program, "plus");
    for (cl_uint i = 0; i < count; i++)
        REQUIRE(run_on(kernel, queues[i], 1, (int)i) == 1 + (int)i);

    /* Held up on the first; what depends on it, and what does not, on the others. */
    cl_event gate, other_gate, first, dependent, further, independent;
    MAKE(gate, clCreateUserEvent(context, &status));
    MAKE(other_gate, clCreateUserEvent(context, &status));
    CHECK(clEnqueueMarkerWithWaitList(queues[0], 1, &gate, &first));
    CHECK(clEnqueueMarkerWithWaitList(queues[1], 1, &other_gate, &independent));
    cl_command_queue others;
    MAKE(others, clCreateCommandQueue(context, devices[1], 0, &status));
    CHECK(clEnqueueMarkerWithWaitList(others, 1, &first, &dependent));
    CHECK(clEnqueueMarkerWithWaitList(others, 1, &dependent, &further));
    static cl_int noted;
    CHECK(clSetEventCallback(further, CL_COMPLETE, note, &noted));
    cl_int finished = 1;
    pthread_t finisher, waiter;
    REQUIRE(pthread_create(&finisher, NULL, finish_first, &finished) == 0);
    cl_event two[] = {further, first};
    REQUIRE(pthread_create(&waiter, NULL, wait_for_two, two) == 0);
    /* The thread is to be inside its wait, which nothing tells; before it, the wait fails as well. */
    leave_time();
    printf("ready\n");
    char line[16];
    REQUIRE(fgets(line, sizeof line, stdin) != NULL);

    void *waited;
    REQUIRE(pthread_join(finisher, NULL) == 0);
    REQUIRE(pthread_join(waiter, &waited) == 0);
    printf("finish: %d, wait: %d\n", finished < 0, (int)(intptr_t)waited < 0);
    AWAIT(__atomic_load_n(&noted, __ATOMIC_SEQ_CST) != 0);
    printf("first %d, dependent %d, further %d, called %d\n", status_of(first) < 0, status_of(dependent) < 0,
           status_of(further) < 0, noted - 100 < 0);
    cl_bool available[MOST];
    for (cl_uint i = 0; i < 2; i++)
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_AVAILABLE, sizeof *available, &available[i], NULL));
    printf("available: %u %u\n", available[0], available[1]);

    /* The rest goes on. */
    printf("independent: %d\n", status_of(independent) > 0);
    CHECK(clSetUserEventStatus(other_gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &independent));
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clFinish(queues[1]));
    for (cl_uint i = 1; i < count; i++)
        REQUIRE(run_on(kernel, queues[i], 1, (int)i) == 1 + (int)i);
    cl_kernel made_later = kernel_of(program, "plus");
    printf("a kernel made later: %d\n", run_on(made_later, queues[1], 5, 6));
    cl_program later;
    MAKE(later, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(later, 0, NULL, "-DLATER", NULL, NULL));
    cl_build_status built[2];
    for (cl_uint i = 0; i < 2; i++)
        CHECK(clGetProgramBuildInfo(later, devices[i], CL_PROGRAM_BUILD_STATUS, sizeof *built, &built[i], NULL));
    printf("built later: %d %d, for the lost one alone %d\n", built[0], built[1],
           clBuildProgram(later, 1, devices, NULL, NULL, NULL) < 0);
    cl_kernel of_later = kernel_of(later, "plus");
    printf("a kernel of a program made later: %d\n", run_on(of_later, queues[1], 7, 8));
    cl_event after;
    CHECK(clEnqueueMarkerWithWaitList(queues[1], 1, &first, &after));
    printf("waits for what is lost: %d\n", clWaitForEvents(1, &after));
    MAKE(gate, clCreateUserEvent(context, &status));
    cl_event held;
    CHECK(clEnqueueMarkerWithWaitList(queues[1], 1, &gate, &held));
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &held));

    /* The lost one says so. */
    size_t one = 1;
    printf("launch there: %d\n", clEnqueueNDRangeKernel(queues[0], kernel, 1, NULL, &one, NULL, 0, NULL, NULL) < 0);
    clCreateCommandQueue(context, devices[0], 0, &status);
    printf("queue there: %d\n", status < 0);
    clCreateContext(NULL, count, devices, NULL, NULL, &status);
    printf("context of all: %d\n", status);
    cl_context rest;
    MAKE(rest, clCreateContextFromType(NULL, CL_DEVICE_TYPE_ALL, NULL, NULL, &status));
    cl_uint left;
    CHECK(clGetContextInfo(rest, CL_CONTEXT_NUM_DEVICES, sizeof left, &left, NULL));
    printf("context of the rest: %d\n", left == count - 1);
    CHECK(clReleaseContext(rest));
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseCommandQueue(queues[i]));
    CHECK(clReleaseContext(context));
    printf("done\n");
    return 0;
}
