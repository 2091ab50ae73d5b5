/* A matrix product whose rows are split over all devices of a platform, in one context. The left matrix smears, the right one is a
 * picture of rings, so the product is that picture smeared, more towards the bottom:
 * matrix_product PICTURE.png [N [DEVICES]] */
#include <math.h>

#include "common.h"

enum { TILE = 16 };

static const char *SOURCE =
    "__kernel void product(__global const float *a, __global const float *b, __global float *c, int n) {\n"
    "    __local float left[16][16], right[16][16];\n"
    "    int j = get_global_id(0), i = get_global_id(1), x = get_local_id(0), y = get_local_id(1);\n"
    "    float sum = 0;\n"
    "    for (int k = 0; k < n; k += 16) {\n"
    "        left[y][x] = a[i * n + k + x];\n"
    "        right[y][x] = b[(k + y) * n + j];\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        for (int t = 0; t < 16; t++) sum += left[y][t] * right[t][x];\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    c[i * n + j] = sum;\n"
    "}\n";

static cl_mem part_of(cl_mem whole, size_t origin, size_t size)
{
    cl_int error;
    cl_buffer_region region = {origin, size};
    cl_mem part = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    CHECK(error);
    return part;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s PICTURE.png [N [DEVICES]]\n", argv[0]);
        return 2;
    }
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 0) : 1024;
    open_devices(argc > 3 ? (cl_uint)atoi(argv[3]) : 0);
    REQUIRE(n > 0 && n % TILE == 0);
    /* As many devices as can have whole tiles each. */
    cl_uint parts = device_count;
    while (n / TILE % parts != 0)
        parts--;
    size_t rows = n / parts;
    float *a = malloc(n * n * sizeof *a), *b = malloc(n * n * sizeof *b), *c = malloc(n * n * sizeof *c);
    for (size_t i = 0; i < n; i++) {
        double width = 0.5 + 0.02 * (double)i, total = 0;
        for (size_t k = 0; k < n; k++)
            total += exp(-0.5 * pow(((double)i - (double)k) / width, 2));
        for (size_t k = 0; k < n; k++) {
            double x = (double)k / (double)n - 0.5, y = (double)i / (double)n - 0.5;
            a[i * n + k] = (float)(exp(-0.5 * pow(((double)i - (double)k) / width, 2)) / total);
            b[i * n + k] = (float)(0.5 + 0.5 * cos(300 * (x * x + y * y)));
        }
    }
    cl_program program = build(SOURCE);
    cl_mem left = buffer_of(CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, n * n * sizeof *a, a);
    cl_mem right = buffer_of(CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, n * n * sizeof *b, b);
    cl_mem out = buffer_of(CL_MEM_READ_WRITE, n * n * sizeof *c, NULL);
    cl_event done[MOST_DEVICES];
    double begin = seconds();
    for (cl_uint part = 0; part < parts; part++) {
        size_t origin = part * rows * n * sizeof *a, size = rows * n * sizeof *a;
        size_t items[2] = {n, rows}, local[2] = {TILE, TILE};
        cl_kernel kernel = kernel_of(program, "product");
        cl_mem left_part = part_of(left, origin, size), out_part = part_of(out, origin, size);
        set_buffer(kernel, 0, left_part);
        set_buffer(kernel, 1, right);
        set_buffer(kernel, 2, out_part);
        set_int(kernel, 3, (cl_int)n);
        CHECK(clEnqueueNDRangeKernel(queues[part], kernel, 2, NULL, items, local, 0, NULL, &done[part]));
        CHECK(clFlush(queues[part]));
        CHECK(clReleaseKernel(kernel));
        CHECK(clReleaseMemObject(left_part));
        CHECK(clReleaseMemObject(out_part));
    }
    /* The whole product comes through the first device. */
    CHECK(clEnqueueReadBuffer(queues[0], out, CL_TRUE, 0, n * n * sizeof *c, c, parts, done, NULL));
    double took = seconds() - begin, worst = 0;
    for (size_t at = 0; at < n * n; at += n * n / 997 + 1) {
        double want = 0;
        for (size_t k = 0; k < n; k++)
            want += (double)a[at / n * n + k] * b[k * n + at % n];
        worst = fmax(worst, fabs(want - c[at]));
    }
    REQUIRE(worst < 1e-4);
    unsigned char *pixels = malloc(n * n * 3);
    for (size_t at = 0; at < n * n * 3; at++)
        pixels[at] = (unsigned char)(fmin(fmax(c[at / 3], 0), 1) * 255);
    write_picture(argv[1], pixels, n, n);
    printf("%zux%zu on %u devices: right\n", n, n, parts);
    fprintf(stderr, "%.3f s, %.2f GFLOP/s\n", took, 2e-9 * (double)n * (double)n * (double)n / took);
    return 0;
}
