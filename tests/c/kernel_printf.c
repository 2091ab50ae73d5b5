/* What a kernel prints comes out of this program, wherever the kernel runs. */
#include "common.h"

/* More than travels with a message. */
enum { BYTES = 1 << 20 };

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
    /* What is read back behind a kernel comes after what that has printed; nobody waits for it in another way. */
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, BYTES, NULL);
    static char bytes[BYTES];
    for (size_t size = 4; size <= BYTES; size *= BYTES / 4) {
        x++;
        set_arg(kernel, 0, sizeof x, &x);
        launch(queue, kernel, 1, 0, NULL, NULL);
        CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, size, bytes, 0, NULL, NULL));
        if (write(STDOUT_FILENO, "read\n", 5) != 5)
            return 1;
    }
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return 0;
}
