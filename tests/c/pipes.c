/* Pipes: packets from one kernel to the next where the device has them, and the refusals everywhere. */
#include "common.h"

static const char *SOURCE =
    "kernel void put(write_only pipe int p) { int v = get_global_id(0) * 3; write_pipe(p, &v); }\n"
    "kernel void take(read_only pipe int p, global int *sum) { int v; if (read_pipe(p, &v) == 0) atomic_add(sum, v); }\n";

enum { PACKETS = 100 };

/* The code of a call that makes an object, which it must not. */
static cl_int refused(cl_mem made)
{
    return made ? CL_SUCCESS : status;
}

static void packets(void)
{
    cl_mem pipe, sum;
    int zero = 0, total = 0;
    cl_uint size[2];
    cl_mem_object_type type;
    cl_command_queue queue = open_queue(0);
    cl_program program = build(SOURCE, "-cl-std=CL3.0");
    cl_kernel put = kernel_of(program, "put"), take = kernel_of(program, "take");
    MAKE(pipe, clCreatePipe(context, 0, sizeof(int), PACKETS, NULL, &status));
    sum = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof zero, &zero);
    set_arg(put, 0, sizeof pipe, &pipe);
    set_arg(take, 0, sizeof pipe, &pipe);
    set_arg(take, 1, sizeof sum, &sum);
    launch(queue, put, PACKETS, 0, NULL, NULL);
    launch(queue, take, PACKETS, 0, NULL, NULL);
    CHECK(clEnqueueReadBuffer(queue, sum, CL_TRUE, 0, sizeof total, &total, 0, NULL, NULL));
    CHECK(clGetPipeInfo(pipe, CL_PIPE_PACKET_SIZE, sizeof size[0], &size[0], NULL));
    CHECK(clGetPipeInfo(pipe, CL_PIPE_MAX_PACKETS, sizeof size[1], &size[1], NULL));
    CHECK(clGetMemObjectInfo(pipe, CL_MEM_TYPE, sizeof type, &type, NULL));
    printf("packets: sum %d, %u bytes, at most %u, type %x\n", total, size[0], size[1], type);
    printf("a buffer in its place: %d\n", clSetKernelArg(put, 0, sizeof sum, &sum));
    printf("nothing in its place: %d\n", clSetKernelArg(put, 0, sizeof sum, NULL));
    printf("of nothing: %d\n", refused(clCreatePipe(context, 0, 0, PACKETS, NULL, &status)));
    printf("for nothing: %d\n", refused(clCreatePipe(context, 0, sizeof(int), 0, NULL, &status)));
    printf("flags of buffers: %d\n", refused(clCreatePipe(context, CL_MEM_READ_ONLY, 4, 4, NULL, &status)));
    CHECK(clReleaseMemObject(pipe));
    CHECK(clReleaseMemObject(sum));
    CHECK(clReleaseKernel(put));
    CHECK(clReleaseKernel(take));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
}

int main(void)
{
    open_device();
    cl_bool supported;
    cl_uint most[3], asked;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_PIPE_SUPPORT, sizeof supported, &supported, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_PIPE_ARGS, sizeof most[0], &most[0], NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS, sizeof most[1], &most[1], NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_PIPE_MAX_PACKET_SIZE, sizeof most[2], &most[2], NULL));
    printf("pipes: %u, at most %u %u %u\n", supported, most[0], most[1], most[2]);
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, 4, NULL);
    printf("information of a buffer: %d\n", clGetPipeInfo(buffer, CL_PIPE_PACKET_SIZE, sizeof asked, &asked, NULL));
    printf("a pipe: %d\n", refused(supported ? NULL : clCreatePipe(context, CL_MEM_HOST_NO_ACCESS, 4, 4, NULL, &status)));
    if (supported)
        packets();
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseContext(context));
    return 0;
}
