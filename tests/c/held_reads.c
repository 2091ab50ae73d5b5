/* More reads and writes that wait for the application than a server has threads for, enqueued one by one. */
#include "common.h"

enum { READS = 100, N = 16 };

int main(void)
{
    open_device();
    cl_command_queue queue = open_queue(0);
    static int x[N], got[READS][N], large[1 << 17];
    for (int i = 0; i < N; i++)
        x[i] = i;
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, x), target = buffer_of(0, sizeof large, NULL);
    for (int kind = 0; kind < 2; kind++) {
        cl_event gate, last;
        MAKE(gate, clCreateUserEvent(context, &status));
        for (int i = 0; i < READS; i++) {
            cl_event *event = i == READS - 1 ? &last : NULL;
            if (kind == 0)
                CHECK(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, sizeof x, got[i], 1, &gate, event));
            else
                CHECK(clEnqueueWriteBuffer(queue, target, CL_FALSE, 0, sizeof large, large, 1, &gate, event));
            CHECK(clFlush(queue));
            /* Each comes as a message of its own. */
            usleep(2000);
        }
        CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
        CHECK(clWaitForEvents(1, &last));
        CHECK(clFinish(queue));
        CHECK(clReleaseEvent(gate));
        CHECK(clReleaseEvent(last));
    }
    int right = 0;
    for (int i = 0; i < READS; i++)
        right += memcmp(got[i], x, sizeof x) == 0;
    printf("right: %d of %d\n", right, READS);
    return 0;
}
