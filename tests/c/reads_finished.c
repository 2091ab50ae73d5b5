/* What a program may rely on when clFinish has returned, or when it has waited for the last command of an in-order queue: what it has read is there. */
#include "common.h"

enum { READS = 8, SIZE = 4096, ROUNDS = 3 };

static char source[READS * SIZE], target[READS * SIZE];

/* Writes new contents and enqueues their reads, piece by piece. */
static void read_all(cl_command_queue queue, cl_mem x, int round, cl_event *events)
{
    for (int i = 0; i < READS * SIZE; i++)
        source[i] = (char)(i / SIZE + 17 * round + i);
    CHECK(clEnqueueWriteBuffer(queue, x, CL_TRUE, 0, sizeof source, source, 0, NULL, NULL));
    for (int i = 0; i < READS; i++)
        CHECK(clEnqueueReadBuffer(queue, x, CL_FALSE, (size_t)i * SIZE, SIZE, target + i * SIZE, 0, NULL, &events[i]));
}

static void finished(const char *what, cl_command_queue_properties properties, cl_mem x)
{
    int wrong = 0, late = 0;
    cl_command_queue queue = open_queue(properties);
    for (int round = 0; round < ROUNDS; round++) {
        cl_event events[READS];
        read_all(queue, x, round, events);
        CHECK(clFinish(queue));
        wrong += memcmp(source, target, sizeof source) != 0;
        for (int i = 0; i < READS; i++) {
            cl_int now;
            CHECK(clGetEventInfo(events[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now, NULL));
            late += now != CL_COMPLETE;
            clReleaseEvent(events[i]);
        }
    }
    clReleaseCommandQueue(queue);
    printf("%s: %d wrong, %d late\n", what, wrong, late);
}

int main(void)
{
    int wrong = 0;
    cl_mem x;
    cl_command_queue queue;
    open_device();
    x = buffer_of(CL_MEM_READ_WRITE, sizeof source, NULL);
    finished("in order", 0, x);
    finished("out of order", CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, x);
    queue = open_queue(0);
    for (int round = 0; round < ROUNDS; round++) {
        cl_event events[READS];
        read_all(queue, x, 5 + round, events);
        CHECK(clWaitForEvents(1, &events[READS - 1]));
        wrong += memcmp(source, target, sizeof source) != 0;
        for (int i = 0; i < READS; i++)
            clReleaseEvent(events[i]);
    }
    printf("by the last event: %d wrong\n", wrong);
    clReleaseCommandQueue(queue);
    clReleaseMemObject(x);
    clReleaseContext(context);
    return 0;
}
