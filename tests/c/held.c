/* Holds a device and memory on it until its standard input ends; prints "ready" when it does.
 * A line on standard input makes it compute once more and print the result. */
#include "common.h"

int main(void)
{
    open_device();
    cl_command_queue queue = open_queue(0);
    cl_program program = build("__kernel void next(__global int *x) { x[0] += 1; }\n", NULL);
    cl_kernel kernel = kernel_of(program, "next");
    enum { SIZE = 64 << 20 };
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL);
    int x = 0;
    CHECK(clEnqueueFillBuffer(queue, buffer, &x, sizeof x, 0, SIZE, 0, NULL, NULL));
    set_arg(kernel, 0, sizeof buffer, &buffer);
    CHECK(clFinish(queue));
    printf("ready\n");
    fflush(stdout);
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        launch(queue, kernel, 1, 0, NULL, NULL);
        CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL));
        printf("%d\n", x);
        fflush(stdout);
    }
    return 0;
}
