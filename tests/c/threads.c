/* Several threads, some with a queue of their own, the others with one, on shared objects. Each also writes and waits for that: what the
 * others enqueue meanwhile must not name a write that has just ended. */
#include "common.h"
#include <pthread.h>

enum { THREADS = 6, ROUNDS = 150, N = 256 };

static cl_program program;
static cl_command_queue shared;

static void *work(void *which)
{
    int me = (int)(intptr_t)which, x[N];
    cl_command_queue queue = me % 2 ? open_queue(0) : shared;
    cl_kernel kernel = kernel_of(program, "add");
    for (int i = 0; i < N; i++)
        x[i] = i;
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, x);
    cl_mem scratch = buffer_of(0, sizeof me, NULL);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    for (int round = 0; round < ROUNDS; round++) {
        set_arg(kernel, 1, sizeof me, &me);
        CHECK(clEnqueueWriteBuffer(queue, scratch, CL_TRUE, 0, sizeof me, &me, 0, NULL, NULL));
        launch(queue, kernel, N, 0, NULL, NULL);
        if (round % 10 == 0) {
            int value;
            size_t at = (size_t)round % N;
            CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, at * sizeof(int), sizeof value, &value, 0, NULL, NULL));
            REQUIRE(value == (int)at + (round + 1) * me);
        }
        if (round % 7 == 0) {
            cl_mem brief = buffer_of(0, 4096, NULL);
            cl_event event;
            CHECK(clEnqueueWriteBuffer(queue, brief, CL_FALSE, 0, sizeof x, x, 0, NULL, &event));
            CHECK(clWaitForEvents(1, &event));
            CHECK(clReleaseEvent(event));
            CHECK(clReleaseMemObject(brief));
        }
    }
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
    for (int i = 0; i < N; i++)
        REQUIRE(x[i] == i + ROUNDS * me);
    CHECK(clReleaseMemObject(scratch));
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    if (queue != shared)
        CHECK(clReleaseCommandQueue(queue));
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    open_device();
    shared = open_queue(0);
    program = build("__kernel void add(__global int *x, int n) { x[get_global_id(0)] += n; }\n", NULL);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(shared));
    CHECK(clReleaseContext(context));
    printf("%d threads, %d launches each: right\n", THREADS, ROUNDS);
    return 0;
}
