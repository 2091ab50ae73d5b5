/* Parts of devices: counts, queries, references, contexts, queues and programs on them. */
#include "common.h"

static const char *SOURCE = "__kernel void put(__global int *x, int value) { x[get_global_id(0)] = value + (int)get_global_id(0); }\n";

/* Runs a kernel on a device of a context; whether it did what it should. */
static int runs(cl_context in, cl_device_id on, cl_program program, int value)
{
    enum { N = 256 };
    int x[N];
    cl_command_queue queue;
    cl_kernel kernel = kernel_of(program, "put");
    cl_mem buffer;
    size_t items = N;
    MAKE(queue, clCreateCommandQueue(in, on, 0, &status));
    MAKE(buffer, clCreateBuffer(in, CL_MEM_READ_WRITE, sizeof x, NULL, &status));
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof value, &value);
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
    int right = 1;
    for (int i = 0; i < N; i++)
        right &= x[i] == value + i;
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseCommandQueue(queue));
    return right;
}

static void describe(const char *name, cl_device_id part, cl_device_id whole)
{
    cl_uint units, references;
    cl_device_id parent;
    cl_device_partition_property type[8] = {0};
    size_t size;
    cl_platform_id of;
    CHECK(clGetDeviceInfo(part, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
    CHECK(clGetDeviceInfo(part, CL_DEVICE_REFERENCE_COUNT, sizeof references, &references, NULL));
    CHECK(clGetDeviceInfo(part, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, NULL));
    CHECK(clGetDeviceInfo(part, CL_DEVICE_PLATFORM, sizeof of, &of, NULL));
    CHECK(clGetDeviceInfo(part, CL_DEVICE_PARTITION_TYPE, sizeof type, type, &size));
    printf("%s: %u units, %u references, parent %s, platform %s, type", name, units, references,
           parent == whole ? "right" : "WRONG", of == platform ? "right" : "WRONG");
    for (size_t i = 0; i < size / sizeof type[0]; i++)
        printf(" %lx", (long)type[i]);
    printf("\n");
}

static cl_uint divide(cl_device_partition_property kind, cl_device_id *parts)
{
    cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    cl_device_partition_property counts[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1, CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    cl_uint count = 0, made = 0;
    const cl_device_partition_property *list = kind == CL_DEVICE_PARTITION_EQUALLY ? equally : counts;
    CHECK(clCreateSubDevices(device, list, 0, NULL, &count));
    REQUIRE(count > 0 && count <= 64);
    CHECK(clCreateSubDevices(device, list, 64, parts, &made));
    REQUIRE(made == count);
    return count;
}

/* With `early` the application lets go of the devices before their context, which keeps them. PoCL does not. */
static void parts_compute(int early)
{
    cl_device_id parts[64];
    cl_uint count = divide(CL_DEVICE_PARTITION_EQUALLY, parts), references;
    printf("equally: as many as units %d\n", count > 1);
    describe("first", parts[0], device);
    describe("last", parts[count - 1], device);
    CHECK(clRetainDevice(parts[0]));
    CHECK(clGetDeviceInfo(parts[0], CL_DEVICE_REFERENCE_COUNT, sizeof references, &references, NULL));
    printf("retained: %u\n", references);
    CHECK(clReleaseDevice(parts[0]));

    /* A context of parts alone, and a program for one of them, then for all. */
    cl_context of_parts;
    cl_program program;
    cl_build_status built;
    MAKE(of_parts, clCreateContext(NULL, 2, parts, NULL, NULL, &status));
    MAKE(program, clCreateProgramWithSource(of_parts, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    CHECK(clGetProgramBuildInfo(program, parts[1], CL_PROGRAM_BUILD_STATUS, sizeof built, &built, NULL));
    printf("parts: built %d, run %d %d\n", built, runs(of_parts, parts[0], program, 5), runs(of_parts, parts[1], program, 7));

    if (early)
        for (cl_uint i = 0; i < count; i++)
            CHECK(clReleaseDevice(parts[i]));
    printf("still: run %d\n", runs(of_parts, parts[1], program, 9));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseContext(of_parts));
    for (cl_uint i = 0; i < count && !early; i++)
        CHECK(clReleaseDevice(parts[i]));
}

/* What is built for a device runs on its parts. */
static void whole_and_parts(void)
{
    cl_device_id all[65];
    cl_uint count = divide(CL_DEVICE_PARTITION_BY_COUNTS, all);
    describe("by counts", all[0], device);
    all[count] = device;
    cl_context both;
    cl_program program;
    MAKE(both, clCreateContext(NULL, count + 1, all, NULL, NULL, &status));
    MAKE(program, clCreateProgramWithSource(both, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(program, 1, &device, "", NULL, NULL));
    printf("both: run %d %d\n", runs(both, all[0], program, 11), runs(both, device, program, 13));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseContext(both));
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseDevice(all[i]));
}

static void wrong(void)
{
    cl_device_partition_property none[] = {CL_DEVICE_PARTITION_EQUALLY, 0, 0}, many[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1000000, 0, 0},
                                 unknown[] = {0x7fff, 1, 0}, one[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    cl_device_id parts[64];
    cl_uint references;
    printf("no units: %d\n", clCreateSubDevices(device, none, 64, parts, NULL));
    printf("too many units: %d\n", clCreateSubDevices(device, many, 64, parts, NULL));
    printf("no such kind: %d\n", clCreateSubDevices(device, unknown, 64, parts, NULL));
    printf("no room: %d\n", clCreateSubDevices(device, one, 1, parts, NULL));
    /* A whole device is not counted. */
    CHECK(clRetainDevice(device));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_REFERENCE_COUNT, sizeof references, &references, NULL));
    CHECK(clReleaseDevice(device));
    CHECK(clReleaseDevice(device));
    printf("whole: %u\n", references);
}

/* Properties that are asked for rarely. */
static void queries(void)
{
    char text[4096];
    size_t size;
    cl_device_partition_property kinds[8];
    cl_uint number;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_BUILT_IN_KERNELS, sizeof text, text, NULL));
    printf("built in: %s\n", text);
    CHECK(clGetDeviceInfo(device, CL_DEVICE_PARTITION_PROPERTIES, sizeof kinds, kinds, &size));
    printf("kinds:");
    for (size_t i = 0; i < size / sizeof kinds[0]; i++)
        printf(" %lx", (long)kinds[i]);
    CHECK(clGetDeviceInfo(device, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof number, &number, NULL));
    printf(", most %u\n", number);
    for (cl_uint name = 0x6ff0; name < 0x6ff4; name++)
        printf("unknown: %d %d\n", clGetDeviceInfo(device, name, sizeof text, text, NULL),
               clGetDeviceInfo(device, name, 0, NULL, &size));
}

int main(int argc, char **argv)
{
    open_device();
    queries();
    parts_compute(argc > 1 && strcmp(argv[1], "early") == 0);
    whole_and_parts();
    wrong();
    CHECK(clReleaseContext(context));
    return 0;
}
