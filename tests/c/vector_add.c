/* Vector addition, as every OpenCL tutorial has it: the program whose round trips are counted. */
#include "common.h"

enum { N = 1024 };

int main(void)
{
    static float a[N], b[N], c[N];
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = 2.0f * (float)i;
    }
    open_device();
    cl_command_queue queue = open_queue(0);
    cl_program program = build("__kernel void add(__global const float *a, __global const float *b, __global float *c) {\n"
                               "    size_t i = get_global_id(0);\n"
                               "    c[i] = a[i] + b[i];\n"
                               "}\n",
                               "");
    cl_kernel kernel = kernel_of(program, "add");
    cl_mem da = buffer_of(CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof a, a);
    cl_mem db = buffer_of(CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof b, b);
    cl_mem dc = buffer_of(CL_MEM_WRITE_ONLY, sizeof c, NULL);
    set_arg(kernel, 0, sizeof da, &da);
    set_arg(kernel, 1, sizeof db, &db);
    set_arg(kernel, 2, sizeof dc, &dc);
    launch(queue, kernel, N, 0, NULL, NULL);
    CHECK(clEnqueueReadBuffer(queue, dc, CL_TRUE, 0, sizeof c, c, 0, NULL, NULL));
    for (int i = 0; i < N; i++)
        REQUIRE(c[i] == 3.0f * (float)i);
    CHECK(clReleaseMemObject(da));
    CHECK(clReleaseMemObject(db));
    CHECK(clReleaseMemObject(dc));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    printf("%d sums are right\n", N);
    return 0;
}
