/* Contents that a custom device makes smaller, for the ordinary device of another server: custom_content SIZE N R
 *
 * R times: server 0's ordinary device fills a buffer of SIZE bytes, of which N count; its custom device makes another of that, half as long; server 1's
 * ordinary device adds that up. The client reads 8 bytes each time. */
#include "stages.h"

typedef cl_int(CL_API_CALL *set_content_size_fn)(cl_mem buffer, cl_mem content_size_buffer);

int main(int argc, char **argv)
{
    static const char *source =
        "kernel void produce(global uint *x, global ulong *size, ulong n, uint round) {\n"
        "    size_t i = get_global_id(0); x[i] = i * 7 + round; if (i == 0) *size = n; }\n"
        "kernel void add_up(global const uint *x, global const ulong *size, global ulong *sum) {\n"
        "    ulong all = 0; for (ulong i = 0; i < *size / 4; i++) all += x[i]; sum[0] = all; sum[1] = *size; }\n";
    REQUIRE(argc == 4);
    size_t size = strtoull(argv[1], NULL, 10), one = 1;
    cl_ulong n = strtoull(argv[2], NULL, 10);
    cl_uint rounds = (cl_uint)strtoul(argv[3], NULL, 10), factor = 3, count;
    cl_device_id devices[4];
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 2, devices, &count));
    REQUIRE(count == 2);
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, 2, devices + 2, &count));
    MAKE(context, clCreateContext(NULL, 3, devices, NULL, NULL, &status));
    set_content_size_fn set_content_size =
        (set_content_size_fn)clGetExtensionFunctionAddressForPlatform(platform, "clSetContentSizeBufferPoCL");
    REQUIRE(set_content_size != NULL);
    cl_command_queue queues[3];
    for (cl_uint i = 0; i < 3; i++)
        MAKE(queues[i], clCreateCommandQueue(context, devices[i], 0, &status));
    cl_program program, built_in;
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    CHECK(clBuildProgram(program, 2, devices, "", NULL, NULL));
    MAKE(built_in, clCreateProgramWithBuiltInKernels(context, 1, &devices[2], "lab.transform", &status));
    cl_kernel produce = kernel_of(program, "produce"), add_up = kernel_of(program, "add_up"), transform = kernel_of(built_in, "lab.transform");
    cl_mem from = buffer_of(CL_MEM_READ_WRITE, size, NULL), to = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    cl_mem length = buffer_of(CL_MEM_READ_WRITE, 8, NULL), sum = buffer_of(CL_MEM_READ_WRITE, 16, NULL);
    CHECK(set_content_size(from, length));
    CHECK(set_content_size(to, length));
    set_arg(produce, 0, sizeof from, &from);
    set_arg(produce, 1, sizeof length, &length);
    set_arg(produce, 2, sizeof n, &n);
    set_arg(transform, 0, sizeof from, &from);
    set_arg(transform, 1, sizeof to, &to);
    set_arg(transform, 2, sizeof length, &length);
    set_arg(transform, 3, sizeof factor, &factor);
    set_arg(add_up, 0, sizeof to, &to);
    set_arg(add_up, 1, sizeof length, &length);
    set_arg(add_up, 2, sizeof sum, &sum);
    for (cl_uint round = 0; round <= rounds; round++) {
        cl_event produced, transformed, added;
        cl_ulong got[2], expected = 0;
        /* The first time, whatever is made once is made. */
        if (round == 1)
            begin_stage("rounds");
        set_arg(produce, 3, sizeof round, &round);
        launch(queues[0], produce, size / 4, 0, NULL, &produced);
        CHECK(clEnqueueNDRangeKernel(queues[2], transform, 1, NULL, &one, NULL, 1, &produced, &transformed));
        launch(queues[1], add_up, 1, 1, &transformed, &added);
        CHECK(clEnqueueReadBuffer(queues[1], sum, CL_TRUE, 0, sizeof got, got, 1, &added, NULL));
        for (cl_ulong i = 0; i < n / 8; i++)
            expected += (cl_uint)((i * 7 + round) * factor);
        if (got[1] != n / 2 || got[0] != expected) {
            printf("round %u: %llu bytes, sum %llu for %llu\n", round, (unsigned long long)got[1], (unsigned long long)got[0],
                   (unsigned long long)expected);
            return 1;
        }
    }
    end_stage();
    printf("contents are right\n");
    return 0;
}
