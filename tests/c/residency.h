/* What the programs about contents on several devices share: a queue for each device of one context, and kernels. */
#ifndef RESIDENCY_H
#define RESIDENCY_H
#include "common.h"

static const char *SOURCE =
    "__kernel void add(__global uint *x, uint a) { x[get_global_id(0)] += a; }\n"
    "__kernel void put(__global uint *x, uint a) { x[get_global_id(0)] = (uint)get_global_id(0) * a + 1; }\n"
    "__kernel void sum(__global const uint *x, __global uint *out, uint n) {\n"
    "    uint s = 0; for (uint i = get_global_id(0); i < n; i += get_global_size(0)) s += x[i]; out[get_global_id(0)] = s; }\n"
    "__kernel void turn(__read_only image2d_t from, __write_only image2d_t to) {\n"
    "    int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "    uint4 p = read_imageui(from, CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST, at);\n"
    "    write_imageui(to, at, p.yzwx + (uint4)(1, 2, 3, 4)); }\n";

enum { MOST = 16 };

static cl_device_id devices[MOST];
static cl_command_queue queues[MOST];
static cl_uint count;
static cl_program program;
static cl_kernel add, put, sum, turn;

static inline void open_all(void)
{
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, devices, &count));
    MAKE(context, clCreateContext(NULL, count, devices, NULL, NULL, &status));
    for (cl_uint i = 0; i < count; i++)
        MAKE(queues[i], clCreateCommandQueue(context, devices[i], 0, &status));
    MAKE(program, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, "-cl-kernel-arg-info", NULL, NULL));
    add = kernel_of(program, "add");
    put = kernel_of(program, "put");
    sum = kernel_of(program, "sum");
    turn = kernel_of(program, "turn");
}

static inline cl_event run(cl_uint on, cl_kernel kernel, cl_mem x, cl_uint a, size_t items, cl_uint waits, const cl_event *list)
{
    cl_event event;
    set_arg(kernel, 0, sizeof x, &x);
    set_arg(kernel, 1, sizeof a, &a);
    launch(queues[on % count], kernel, items, waits, list, &event);
    return event;
}

static inline void read_back(cl_uint on, cl_mem x, void *to, size_t size)
{
    CHECK(clEnqueueReadBuffer(queues[on % count], x, CL_TRUE, 0, size, to, 0, NULL, NULL));
}

static inline cl_mem part_of(cl_mem whole, size_t origin, size_t size)
{
    cl_buffer_region region = {origin, size};
    cl_mem part;
    MAKE(part, clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
    return part;
}

static inline void finish_all(void)
{
    for (cl_uint i = 0; i < count; i++)
        CHECK(clFinish(queues[i]));
}

static inline void close_all(void)
{
    clReleaseKernel(add);
    clReleaseKernel(put);
    clReleaseKernel(sum);
    clReleaseKernel(turn);
    clReleaseProgram(program);
    for (cl_uint i = 0; i < count; i++)
        clReleaseCommandQueue(queues[i]);
    clReleaseContext(context);
}
#endif
