/* Launches that wait for the program itself, behind which others must not wait: a kernel waits for a user event, which is
 * set once a kernel of another queue, enqueued later, has ended. Prints what the kernels have counted.
 * turns_waits TIMES */
#include "common.h"

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    int times = atoi(argv[1]);
    open_device();
    cl_command_queue queues[3] = {open_queue(0), open_queue(0), open_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)};
    cl_program program = build("__kernel void inc(__global int *p) { p[get_global_id(0)] += 1; }\n", NULL);
    cl_kernel kernels[3];
    cl_mem buffers[3];
    int zero = 0, count[3];
    for (int i = 0; i < 3; i++) {
        kernels[i] = kernel_of(program, "inc");
        buffers[i] = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero, &zero);
        set_arg(kernels[i], 0, sizeof buffers[i], &buffers[i]);
    }
    printf("ready\n");
    fflush(stdout);
    char line[16];
    REQUIRE(fgets(line, sizeof line, stdin) != NULL);
    for (int i = 0; i < times; i++) {
        cl_event set;
        MAKE(set, clCreateUserEvent(context, &status));
        /* More than a session has in the driver at a time. */
        for (int k = 0; k < 10; k++)
            launch(queues[0], kernels[0], 1, k == 0, k == 0 ? &set : NULL, NULL);
        for (int k = 0; k < 10; k++)
            launch(queues[2], kernels[2], 1, k % 2, k % 2 ? &set : NULL, NULL);
        CHECK(clFlush(queues[0]));
        CHECK(clFlush(queues[2]));
        launch(queues[1], kernels[1], 1, 0, NULL, NULL);
        CHECK(clFinish(queues[1]));
        CHECK(clSetUserEventStatus(set, CL_COMPLETE));
        CHECK(clReleaseEvent(set));
    }
    for (int i = 0; i < 3; i++) {
        CHECK(clFinish(queues[i]));
        CHECK(clEnqueueReadBuffer(queues[i], buffers[i], CL_TRUE, 0, sizeof count[i], &count[i], 0, NULL, NULL));
    }
    printf("%d %d\n", count[0], count[1]);
    fflush(stdout);
    return 0;
}
