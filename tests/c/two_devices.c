/* Computes on the first two devices of the first platform at once, in a context each; then asks for one context of both. */
#include "common.h"

enum { N = 100000 };

static const char *SOURCE = "__kernel void scale(__global int *x, int by) { x[get_global_id(0)] *= by; }\n";

int main(void)
{
    cl_device_id devices[2];
    cl_command_queue queues[2];
    cl_mem buffers[2];
    static int x[2][N];
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 2, devices, NULL));
    for (int i = 0; i < 2; i++) {
        device = devices[i];
        MAKE(context, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
        for (int at = 0; at < N; at++)
            x[i][at] = at;
        int by = i + 2;
        queues[i] = open_queue(0);
        buffers[i] = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x[i], x[i]);
        cl_kernel kernel = kernel_of(build(SOURCE, NULL), "scale");
        set_arg(kernel, 0, sizeof buffers[i], &buffers[i]);
        set_arg(kernel, 1, sizeof by, &by);
        launch(queues[i], kernel, N, 0, NULL, NULL);
        CHECK(clEnqueueReadBuffer(queues[i], buffers[i], CL_FALSE, 0, sizeof x[i], x[i], 0, NULL, NULL));
        CHECK(clFlush(queues[i]));
    }
    for (int i = 0; i < 2; i++) {
        CHECK(clFinish(queues[i]));
        REQUIRE(x[i][N - 1] == (N - 1) * (i + 2));
    }
    printf("both are right\n");
    clCreateContext(NULL, 2, devices, NULL, NULL, &status);
    printf("one context of both: %d\n", status);
    return 0;
}
