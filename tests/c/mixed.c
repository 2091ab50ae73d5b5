/* One context of devices of different types and of different versions of OpenCL.
 *
 * mixed SIZE N   a buffer of SIZE bytes in which each device in turn adds 1 to all elements, N times, measured */
#include "stages.h"

enum { MOST = 16 };

static const char *name_of(cl_device_type type)
{
    return type & CL_DEVICE_TYPE_CPU ? "CPU" : type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator" : type & CL_DEVICE_TYPE_GPU ? "GPU" : "?";
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 2);
    size_t size = strtoull(argv[1], NULL, 10), items = size / 4;
    cl_uint rounds = (cl_uint)strtoul(argv[2], NULL, 10), count, accelerators, others;
    cl_device_id devices[MOST];
    cl_command_queue queues[MOST];
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, devices, &count));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ACCELERATOR, 0, NULL, &accelerators));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 0, NULL, &others));
    printf("%u devices, %u CPUs, %u accelerators\n", count, others, accelerators);
    cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    MAKE(context, clCreateContextFromType(properties, CL_DEVICE_TYPE_ACCELERATOR, NULL, NULL, &status));
    CHECK(clGetContextInfo(context, CL_CONTEXT_NUM_DEVICES, sizeof accelerators, &accelerators, NULL));
    printf("by type: %u\n", accelerators);
    CHECK(clReleaseContext(context));
    MAKE(context, clCreateContext(NULL, count, devices, NULL, NULL, &status));
    for (cl_uint i = 0; i < count; i++) {
        cl_device_type type;
        char version[256];
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_TYPE, sizeof type, &type, NULL));
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_VERSION, sizeof version, version, NULL));
        printf("%s, %.10s\n", name_of(type), version);
        MAKE(queues[i], clCreateCommandQueue(context, devices[i], 0, &status));
    }
    const char *source = "__kernel void inc(__global int *p) { p[get_global_id(0)] += 1; }\n";
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    cl_kernel kernel = kernel_of(program, "inc");
    cl_int *x = malloc(size);
    for (size_t i = 0; i < items; i++)
        x[i] = (cl_int)i;
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    CHECK(clEnqueueWriteBuffer(queues[count - 1], buffer, CL_TRUE, 0, size, x, 0, NULL, NULL));
    begin_stage("in turn");
    cl_event last = NULL;
    for (cl_uint turn = 0; turn < rounds; turn++) {
        cl_event next;
        launch(queues[turn % count], kernel, items, last ? 1 : 0, last ? &last : NULL, &next);
        if (last)
            CHECK(clReleaseEvent(last));
        last = next;
    }
    CHECK(clWaitForEvents(1, &last));
    end_stage();
    for (cl_uint i = 0; i < count; i++) {
        memset(x, 0, size);
        CHECK(clEnqueueReadBuffer(queues[i], buffer, CL_TRUE, 0, size, x, 1, &last, NULL));
        for (size_t at = 0; at < items; at++)
            REQUIRE(x[at] == (cl_int)(at + rounds));
    }
    printf("all have added\n");
    CHECK(clReleaseEvent(last));
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseCommandQueue(queues[i]));
    CHECK(clReleaseContext(context));
    free(x);
    return 0;
}
