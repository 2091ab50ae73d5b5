/* Forks after it has used a device. The child never uses OpenCL, and outlives its parent. */
#include "common.h"

int main(void)
{
    open_device();
    cl_command_queue queue = open_queue(0);
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, 4096, NULL);
    int x = 7;
    CHECK(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL));
    CHECK(clFinish(queue));
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        sleep(120);
        _exit(0);
    }
    printf("%d\n", (int)child);
    fflush(stdout);
    getchar();
    /* The parent's own connection is untouched. */
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL));
    REQUIRE(x == 7);
    printf("right\n");
    fflush(stdout);
    getchar();
    return 0;
}
