/* Forks while it uses a device: the child gets errors at once, the parent does not notice. */
#include "common.h"
#include <sys/wait.h>

static void compute(cl_command_queue queue, cl_kernel kernel, cl_mem buffer, int expected)
{
    int x;
    launch(queue, kernel, 1, 0, NULL, NULL);
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL));
    REQUIRE(x == expected);
}

int main(void)
{
    int x = 0, result = -1;
    open_device();
    cl_command_queue queue = open_queue(0);
    cl_program program = build("__kernel void next(__global int *x) { x[0] += 1; }\n", NULL);
    cl_kernel kernel = kernel_of(program, "next");
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, &x);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    compute(queue, kernel, buffer, 1);
    fflush(stdout);

    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        size_t one = 1;
        double begin = seconds();
        cl_int errors[4];
        errors[0] = clFinish(queue);
        errors[1] = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL);
        errors[2] = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
        if (errors[2] == CL_SUCCESS)
            errors[2] = clFinish(queue);
        clCreateContext(NULL, 1, &device, NULL, NULL, &errors[3]);
        clReleaseMemObject(buffer);
        clReleaseCommandQueue(queue);
        printf("child: finish %d, read %d, launch %d, context %d, in time %d\n", errors[0] < 0, errors[1] < 0, errors[2] < 0,
               errors[3] < 0, seconds() - begin < 2);
        fflush(stdout);
        _exit(0);
    }
    for (int i = 2; i < 50; i++)
        compute(queue, kernel, buffer, i);
    REQUIRE(waitpid(child, &result, 0) == child);
    compute(queue, kernel, buffer, 50);
    printf("parent: right, child ended with %d\n", result);
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return 0;
}
