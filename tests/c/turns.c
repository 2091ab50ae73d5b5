/* Wants more of a device than it can have: multiplies matrices, with two batches on their way at any time, once it is told
 * to by a line on standard input; so many products, or as many as it gets in so many milliseconds. Prints how many.
 * turns PRODUCTS|MILLISECONDSms ROWS */
#include "common.h"

static const char *SOURCE =
    "__kernel void product(__global const float *a, __global const float *b, __global float *c, int n) {\n"
    "    int i = get_global_id(1), j = get_global_id(0);\n"
    "    float sum = 0;\n"
    "    for (int k = 0; k < n; k++)\n"
    "        sum += a[i * n + k] * b[k * n + j];\n"
    "    c[i * n + j] = sum;\n"
    "}\n";

enum { SIDE = 100, BATCH = 8 };

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    char *unit;
    double most = strtod(argv[1], &unit);
    int timed = strcmp(unit, "ms") == 0;
    size_t size[2] = {SIDE, (size_t)atoi(argv[2])};
    REQUIRE(size[1] > 0 && size[1] <= 100000);
    open_device();
    cl_command_queue queue = open_queue(0);
    cl_kernel kernel = kernel_of(build(SOURCE, NULL), "product");
    cl_mem matrices[3];
    for (cl_uint i = 0; i < 3; i++) {
        matrices[i] = buffer_of(CL_MEM_READ_WRITE, sizeof(float) * SIDE * (size[1] > SIDE ? size[1] : SIDE), NULL);
        set_arg(kernel, i, sizeof matrices[i], &matrices[i]);
    }
    cl_int side = SIDE;
    set_arg(kernel, 3, sizeof side, &side);
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, size, NULL, 0, NULL, NULL));
    CHECK(clFinish(queue));
    printf("ready\n");
    fflush(stdout);
    char line[16];
    REQUIRE(fgets(line, sizeof line, stdin) != NULL);

    cl_event ends[2] = {NULL, NULL};
    double began = seconds();
    unsigned done = 0;
    for (unsigned batch = 0; timed ? (seconds() - began) * 1e3 < most : done < most; batch++) {
        cl_event *end = &ends[batch % 2];
        if (*end != NULL) {
            CHECK(clWaitForEvents(1, end));
            CHECK(clReleaseEvent(*end));
            done += !timed || (seconds() - began) * 1e3 < most ? BATCH : 0;
        }
        for (int i = 1; i <= BATCH; i++)
            CHECK(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, size, NULL, 0, NULL, i == BATCH ? end : NULL));
        CHECK(clFlush(queue));
    }
    printf("%u\n", done);
    fflush(stdout);
    return 0;
}
