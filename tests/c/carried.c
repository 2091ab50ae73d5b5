/* Memory whose contents are easily recognized, carried from the host over all devices of one context and back.
 *
 * carried PATTERN SOURCE SIZE   files with 64 bytes, which the buffer repeats, and with a kernel `pass`; bytes of the buffer */
#include "common.h"

enum { PATTERN = 64, MOST = 16 };

static size_t contents(const char *path, char *into, size_t most)
{
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL);
    size_t size = fread(into, 1, most, file);
    fclose(file);
    return size;
}

/* The platform of this name: a program that finds others as well is to use no other. */
static void find_platform(const char *name)
{
    cl_platform_id all[MOST];
    cl_uint count;
    char known[64];
    CHECK(clGetPlatformIDs(MOST, all, &count));
    for (cl_uint i = 0; i < count && i < MOST; i++) {
        CHECK(clGetPlatformInfo(all[i], CL_PLATFORM_NAME, sizeof known, known, NULL));
        if (strcmp(known, name) == 0)
            platform = all[i];
    }
    REQUIRE(platform != NULL);
}

int main(int argc, char **argv)
{
    static char pattern[PATTERN], source[4096];
    REQUIRE(argc == 4);
    REQUIRE(contents(argv[1], pattern, sizeof pattern) == PATTERN);
    REQUIRE(contents(argv[2], source, sizeof source - 1) > 0);
    size_t size = strtoul(argv[3], NULL, 10);
    REQUIRE(size >= PATTERN && size % PATTERN == 0);
    char *bytes = malloc(size), *back = malloc(size);
    REQUIRE(bytes != NULL && back != NULL);
    for (size_t at = 0; at < size; at += PATTERN)
        memcpy(bytes + at, pattern, PATTERN);

    cl_device_id devices[MOST];
    cl_uint count, zero = 0;
    find_platform("Ropeway");
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, devices, &count));
    MAKE(context, clCreateContext(NULL, count, devices, NULL, NULL, &status));
    const char *text = source;
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &text, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    cl_kernel kernel = kernel_of(program, "pass");
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof zero, &zero);
    cl_event before = NULL;
    for (cl_uint i = 0; i < count; i++) {
        cl_command_queue queue;
        cl_event done;
        MAKE(queue, clCreateCommandQueue(context, devices[i], 0, &status));
        if (i == 0)
            CHECK(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, size, bytes, 0, NULL, NULL));
        launch(queue, kernel, size / sizeof(cl_uint), before != NULL, before != NULL ? &before : NULL, &done);
        CHECK(clFlush(queue));
        if (before != NULL)
            CHECK(clReleaseEvent(before));
        before = done;
        if (i == count - 1)
            CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, size, back, 0, NULL, NULL));
        CHECK(clReleaseCommandQueue(queue));
    }
    CHECK(clReleaseEvent(before));
    REQUIRE(memcmp(bytes, back, size) == 0);
    printf("carried over %u devices\n", count);
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseContext(context));
    free(bytes);
    free(back);
    return 0;
}
