/* Buffers of which only the first bytes mean something (cl_pocl_content_size).
 *
 * content_size errors          what clSetContentSizeBufferPoCL refuses
 * content_size read SIZE N     N bytes written by a kernel into a buffer of SIZE bytes, which is then read whole
 * content_size turns SIZE N R  the same, R times, each on another device, which then changes them all; with "staged" behind it, measured */
#include "stages.h"

typedef cl_int(CL_API_CALL *set_content_size_fn)(cl_mem buffer, cl_mem content_size_buffer);

static const char *SOURCE =
    "__kernel void produce(__global uchar *x, __global ulong *size, ulong n) {\n"
    "    size_t i = get_global_id(0); if (i < n) x[i] = (uchar)(i * 7 + 1); if (i == 0) *size = n; }\n"
    "__kernel void change(__global uchar *x, __global const ulong *size) {\n"
    "    size_t i = get_global_id(0); if (i < *size) x[i] += 1; }\n";

enum { MOST = 16 };

static cl_device_id devices[MOST];
static cl_command_queue queues[MOST];
static cl_uint count;

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    size_t size = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    cl_ulong n = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    cl_uint turns = argc > 4 ? (cl_uint)strtoul(argv[4], NULL, 10) : 1;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, devices, &count));
    device = devices[0];
    MAKE(context, clCreateContext(NULL, count, devices, NULL, NULL, &status));
    for (cl_uint i = 0; i < count; i++)
        MAKE(queues[i], clCreateCommandQueue(context, devices[i], 0, &status));
    set_content_size_fn set_content_size =
        (set_content_size_fn)clGetExtensionFunctionAddressForPlatform(platform, "clSetContentSizeBufferPoCL");
    REQUIRE(set_content_size != NULL);

    if (strcmp(argv[1], "errors") == 0) {
        static char extensions[65536];
        CHECK(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL));
        cl_context other;
        MAKE(other, clCreateContext(NULL, 1, devices, NULL, NULL, &status));
        cl_mem foreign, buffer = buffer_of(CL_MEM_READ_WRITE, 1024, NULL), large = buffer_of(CL_MEM_READ_WRITE, 8, NULL);
        cl_mem small = buffer_of(CL_MEM_READ_WRITE, 7, NULL);
        MAKE(foreign, clCreateBuffer(other, CL_MEM_READ_WRITE, 8, NULL, &status));
        printf("no buffer: %d, no size: %d\n", set_content_size(NULL, large), set_content_size(buffer, NULL));
        printf("of another context: %d\n", set_content_size(buffer, foreign));
        /* The extension's text says CL_INVALID_VALUE, PoCL CL_INVALID_BUFFER_SIZE. */
        printf("too small is refused: %d\n", set_content_size(buffer, small) != CL_SUCCESS);
        printf("good: %d\n", set_content_size(buffer, large));
        CHECK(clReleaseMemObject(foreign));
        CHECK(clReleaseMemObject(small));
        CHECK(clReleaseMemObject(large));
        CHECK(clReleaseMemObject(buffer));
        CHECK(clReleaseContext(other));
        return 0;
    }

    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, "-cl-kernel-arg-info", NULL, NULL));
    cl_kernel produce = kernel_of(program, "produce"), change = kernel_of(program, "change");
    cl_mem data = buffer_of(CL_MEM_READ_WRITE, size, NULL), length = buffer_of(CL_MEM_READ_WRITE, 16, NULL);
    CHECK(set_content_size(data, length));
    set_arg(produce, 0, sizeof data, &data);
    set_arg(produce, 1, sizeof length, &length);
    set_arg(produce, 2, sizeof n, &n);
    cl_event last, next;
    int staged = argc > 5 && strcmp(argv[5], "staged") == 0;
    if (staged) {
        CHECK(clEnqueueFillBuffer(queues[0], data, "", 1, 0, size, 0, NULL, NULL));
        CHECK(clFinish(queues[0]));
        begin_stage("in turn");
    }
    launch(queues[0], produce, n ? n : 1, 0, NULL, &last);
    for (cl_uint i = 1; i < turns; i++) {
        set_arg(change, 0, sizeof data, &data);
        set_arg(change, 1, sizeof length, &length);
        launch(queues[i % count], change, n ? n : 1, 1, &last, &next);
        CHECK(clReleaseEvent(last));
        last = next;
    }
    unsigned char *x = malloc(size);
    if (staged) {
        CHECK(clWaitForEvents(1, &last));
        end_stage();
        begin_stage("read");
    }
    CHECK(clEnqueueReadBuffer(queues[(turns - 1) % count], data, CL_TRUE, 0, size, x, 1, &last, NULL));
    if (staged)
        end_stage();
    for (size_t i = 0; i < n; i++)
        REQUIRE(x[i] == (unsigned char)(i * 7 + turns));
    /* What lies behind the contents can be written and read as ever, once it is said that there is more. */
    cl_ulong all = size;
    cl_uchar end = 77, got = 0;
    CHECK(clEnqueueWriteBuffer(queues[0], length, CL_TRUE, 0, 8, &all, 0, NULL, NULL));
    CHECK(clEnqueueWriteBuffer(queues[0], data, CL_TRUE, size - 1, 1, &end, 0, NULL, NULL));
    CHECK(clFinish(queues[0]));
    CHECK(clEnqueueReadBuffer(queues[1 % count], data, CL_TRUE, size - 1, 1, &got, 0, NULL, NULL));
    REQUIRE(got == 77);
    memset(x, 0, size);
    CHECK(clEnqueueReadBuffer(queues[1 % count], data, CL_TRUE, 0, size, x, 0, NULL, NULL));
    for (size_t i = 0; i < n && i < size - 1; i++)
        REQUIRE(x[i] == (unsigned char)(i * 7 + turns));
    REQUIRE(x[size - 1] == 77);
    CHECK(clReleaseEvent(last));
    CHECK(clReleaseMemObject(data));
    CHECK(clReleaseMemObject(length));
    clReleaseKernel(produce);
    clReleaseKernel(change);
    clReleaseProgram(program);
    for (cl_uint i = 0; i < count; i++)
        clReleaseCommandQueue(queues[i]);
    clReleaseContext(context);
    free(x);
    printf("contents are right\n");
    return 0;
}
