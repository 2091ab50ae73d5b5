/* What the test programs share: one device, checked calls, and kernels from source. */
#ifndef COMMON_H
#define COMMON_H
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Ends the program with the call and its error code unless it returns CL_SUCCESS. */
#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cl_int check_status = (call);                                                                                  \
        if (check_status != CL_SUCCESS) {                                                                              \
            printf("%s:%d: %s returned %d\n", __FILE__, __LINE__, #call, check_status);                                \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Ends the program unless the condition holds. */
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The status of the last call that returns an object. */
static _Thread_local cl_int status;

/* The object that `call` (with `&status` as its last argument) makes. */
#define MAKE(variable, call)                                                                                           \
    do {                                                                                                               \
        status = CL_SUCCESS;                                                                                           \
        variable = (call);                                                                                             \
        if (status != CL_SUCCESS || variable == NULL) {                                                                \
            printf("%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, status);                                          \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static cl_platform_id platform;
static cl_device_id device;
static cl_context context;

/* The first platform's first device, with a context of it. */
static inline void open_device(void)
{
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    MAKE(context, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
}

static inline cl_command_queue open_queue(cl_command_queue_properties properties)
{
    cl_command_queue queue;
    MAKE(queue, clCreateCommandQueue(context, device, properties, &status));
    return queue;
}

/* A program of `source`, built; its log is printed when that fails. */
static inline cl_program build(const char *source, const char *options)
{
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    cl_int built = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (built != CL_SUCCESS) {
        static char log[65536];
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        printf("build returned %d:\n%s\n", built, log);
        exit(1);
    }
    return program;
}

static inline cl_kernel kernel_of(cl_program program, const char *name)
{
    cl_kernel kernel;
    MAKE(kernel, clCreateKernel(program, name, &status));
    return kernel;
}

static inline cl_mem buffer_of(cl_mem_flags flags, size_t size, void *host)
{
    cl_mem buffer;
    MAKE(buffer, clCreateBuffer(context, flags, size, host, &status));
    return buffer;
}

static inline cl_int status_of(cl_event event)
{
    cl_int now;
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now, NULL));
    return now;
}

static inline void set_arg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    CHECK(clSetKernelArg(kernel, index, size, value));
}

/* Launches `kernel` over `items` work items. */
static inline void launch(cl_command_queue queue, cl_kernel kernel, size_t items, cl_uint waits, const cl_event *wait_for,
                          cl_event *event)
{
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, waits, wait_for, event));
}

/* Seconds on a clock that only goes forward. */
static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Polls until the condition holds, for a minute at most: what is not so then shows in what the program prints. */
#define AWAIT(condition)                                                                                               \
    do {                                                                                                               \
        double await_end = seconds() + 60;                                                                             \
        while (!(condition) && seconds() < await_end)                                                                  \
            usleep(1000);                                                                                              \
    } while (0)

/* Leaves time for what must not happen: there is no condition that could be waited for. */
static inline void leave_time(void)
{
    usleep(20000);
}

/* FNV-1a, to compare large contents in one printed line. */
static inline uint64_t hash_of(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}
#endif
