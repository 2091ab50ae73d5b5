/*
 * Times a collective operation on the first devices of a platform, through CL/cl_ropeway_collectives.h: the extension where the platform
 * has it, ordinary calls where it has not.
 *
 *     ropeway-bench-collectives all-reduce|all-to-all BYTES DEVICES ROUNDS [part of the platform's name]
 *
 * BYTES are what each device gives. Prints a line "= MILLISECONDS" for each round: from the call, with all queues idle, until all devices
 * are done. What the devices give is new in each round, so that nothing of it is where it goes already; what they got is checked
 * after the last one.
 */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_ROPEWAY_COLLECTIVES_ANYWHERE
#include "../include/CL/cl_ropeway_collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64 };

static void fail(const char *what, cl_int status)
{
    printf("! %s returned %d\n", what, status);
    exit(1);
}

static void check(cl_int status, const char *what)
{
    if (status != CL_SUCCESS)
        fail(what, status);
}

/* What rank `rank` gives as number `at` in `round`. */
static cl_uint given(cl_uint rank, cl_uint at, cl_uint round)
{
    return (at * 7 + rank * 1000003) ^ round;
}

static const char *source = "kernel void give(global uint *p, uint rank, uint round) {"
                            "    uint at = get_global_id(0); p[at] = (at * 7 + rank * 1000003) ^ round; }";

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static cl_platform_id platform(const char *part)
{
    cl_platform_id all[MOST];
    cl_uint count = 0;
    char name[256];
    check(clGetPlatformIDs(MOST, all, &count), "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < MOST; i++)
        if (clGetPlatformInfo(all[i], CL_PLATFORM_NAME, sizeof name, name, NULL) == CL_SUCCESS && strstr(name, part))
            return all[i];
    printf("! no platform is called '%s'\n", part);
    exit(1);
}

int main(int argc, char **argv)
{
    cl_device_id devices[MOST];
    cl_command_queue queues[MOST];
    cl_kernel kernels[MOST];
    cl_mem from[MOST], to[MOST];
    cl_uint ranks = argc > 3 ? (cl_uint)atoi(argv[3]) : 0, rounds = argc > 4 ? (cl_uint)atoi(argv[4]) : 0, found = 0;
    size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    int reduce = argc > 1 && strcmp(argv[1], "all-reduce") == 0, exchange = argc > 1 && strcmp(argv[1], "all-to-all") == 0;
    if ((!reduce && !exchange) || ranks < 1 || ranks > MOST || rounds < 1 || bytes == 0 || bytes % (4 * ranks) != 0) {
        printf("! all-reduce|all-to-all BYTES DEVICES ROUNDS, with bytes for whole numbers for each device\n");
        return 1;
    }
    cl_uint count = (cl_uint)(bytes / 4), block = count / ranks;
    check(clGetDeviceIDs(platform(argc > 5 ? argv[5] : ""), CL_DEVICE_TYPE_ALL, MOST, devices, &found), "clGetDeviceIDs");
    if (found < ranks) {
        printf("! there are %u devices\n", found);
        return 1;
    }
    cl_int status;
    cl_context context = clCreateContext(NULL, ranks, devices, NULL, NULL, &status);
    check(status, "clCreateContext");
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    check(status, "clCreateProgramWithSource");
    check(clBuildProgram(program, 0, NULL, "", NULL, NULL), "clBuildProgram");
    for (cl_uint r = 0; r < ranks; r++) {
        queues[r] = clCreateCommandQueue(context, devices[r], 0, &status);
        check(status, "clCreateCommandQueue");
        from[r] = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &status);
        check(status, "clCreateBuffer");
        to[r] = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &status);
        check(status, "clCreateBuffer");
        kernels[r] = clCreateKernel(program, "give", &status);
        check(status, "clCreateKernel");
        check(clSetKernelArg(kernels[r], 0, sizeof from[r], &from[r]), "clSetKernelArg");
        check(clSetKernelArg(kernels[r], 1, sizeof r, &r), "clSetKernelArg");
    }
    cl_reduction_ropeway sum = {CL_REDUCTION_SUM_ROPEWAY, CL_REDUCTION_UINT_ROPEWAY, NULL, 0, 0};
    /* The round before the first one makes connections and builds kernels. */
    for (cl_uint round = 0; round <= rounds; round++) {
        size_t items = count;
        for (cl_uint r = 0; r < ranks; r++) {
            check(clSetKernelArg(kernels[r], 2, sizeof round, &round), "clSetKernelArg");
            check(clEnqueueNDRangeKernel(queues[r], kernels[r], 1, NULL, &items, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
        }
        for (cl_uint r = 0; r < ranks; r++)
            check(clFinish(queues[r]), "clFinish");
        double begin = milliseconds();
        if (reduce)
            check(clEnqueueAllReduceBuffer(ranks, queues, from, NULL, to, NULL, count, &sum, 0, NULL, NULL), "the all-reduce");
        else
            check(clEnqueueAllToAllBuffer(ranks, queues, from, NULL, to, NULL, bytes / ranks, 0, NULL, NULL), "the all-to-all");
        for (cl_uint r = 0; r < ranks; r++)
            check(clFlush(queues[r]), "clFlush");
        for (cl_uint r = 0; r < ranks; r++)
            check(clFinish(queues[r]), "clFinish");
        if (round > 0)
            printf("= %f\n", milliseconds() - begin);
    }
    cl_uint *have = malloc(bytes);
    if (!have)
        fail("malloc", 0);
    for (cl_uint r = 0; r < ranks; r++) {
        check(clEnqueueReadBuffer(queues[r], to[r], CL_TRUE, 0, bytes, have, 0, NULL, NULL), "clEnqueueReadBuffer");
        for (cl_uint at = 0; at < count; at++) {
            cl_uint want = 0;
            if (exchange)
                want = given(at / block, r * block + at % block, rounds);
            else
                for (cl_uint other = 0; other < ranks; other++)
                    want += given(other, at, rounds);
            if (have[at] != want) {
                printf("! rank %u got %u as number %u, and should have got %u\n", r, have[at], at, want);
                return 1;
            }
        }
    }
    free(have);
    for (cl_uint r = 0; r < ranks; r++) {
        clReleaseKernel(kernels[r]);
        clReleaseMemObject(from[r]);
        clReleaseMemObject(to[r]);
        clReleaseCommandQueue(queues[r]);
    }
    clReleaseCollectives(context);
    clReleaseProgram(program);
    clReleaseContext(context);
    return 0;
}
