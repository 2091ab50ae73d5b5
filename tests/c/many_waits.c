/* As many threads as a large program has, all waiting at the same time: each for its own queue, for an event, or for a blocking read. */
#include "common.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 1000, N = 16 };

enum how { FINISH, WAIT, READ, KINDS };

static const char *const names[] = { "clFinish", "clWaitForEvents", "clEnqueueReadBuffer" };

static enum how how;
static cl_event gate;
static cl_mem buffer;
static int expected[N];
static atomic_int about_to_wait, right;

static void *work(void *none)
{
    int got[N] = { 0 };
    cl_event event;
    cl_command_queue queue = open_queue(0);
    CHECK(clEnqueueMarkerWithWaitList(queue, 1, &gate, &event));
    CHECK(clFlush(queue));
    atomic_fetch_add(&about_to_wait, 1);
    switch (how) {
    case FINISH:
        CHECK(clFinish(queue));
        break;
    case WAIT:
        CHECK(clWaitForEvents(1, &event));
        break;
    default:
        CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
        REQUIRE(memcmp(got, expected, sizeof got) == 0);
    }
    atomic_fetch_add(&right, status_of(event) == CL_COMPLETE);
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseCommandQueue(queue));
    return none;
}

int main(void)
{
    static pthread_t threads[THREADS];
    pthread_attr_t small;
    REQUIRE(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 256 << 10) == 0);
    open_device();
    for (int i = 0; i < N; i++)
        expected[i] = i;
    buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof expected, expected);
    for (how = FINISH; how < KINDS; how++) {
        MAKE(gate, clCreateUserEvent(context, &status));
        about_to_wait = right = 0;
        for (int i = 0; i < THREADS; i++)
            REQUIRE(pthread_create(&threads[i], &small, work, NULL) == 0);
        AWAIT(about_to_wait >= THREADS);
        REQUIRE(right == 0);
        CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
        for (int i = 0; i < THREADS; i++)
            REQUIRE(pthread_join(threads[i], NULL) == 0);
        CHECK(clReleaseEvent(gate));
        printf("%s: %d of %d threads\n", names[how], right, THREADS);
    }
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseContext(context));
    return 0;
}
