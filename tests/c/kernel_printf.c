/* What a kernel prints comes out of this program, wherever the kernel runs. */
#include "common.h"

int main(void)
{
    open_device();
    cl_command_queue queue = open_queue(0);
    cl_program program = build("__kernel void speak(int x) { printf(\"kernel says %d and %s\\n\", x, \"a text\"); }\n", NULL);
    cl_kernel kernel = kernel_of(program, "speak");
    int x = 42;
    set_arg(kernel, 0, sizeof x, &x);
    launch(queue, kernel, 1, 0, NULL, NULL);
    CHECK(clFinish(queue));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return 0;
}
