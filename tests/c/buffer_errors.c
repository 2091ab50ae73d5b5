/* Wrong arguments of functions on buffers: what differs from the specification is printed. */
#include "common.h"

static size_t alignment;

#define WRONG(expected, call)                                                                                          \
    do {                                                                                                               \
        cl_int got = (call);                                                                                           \
        if (got != (expected))                                                                                         \
            printf("line %d: %d, not %d: %s\n", __LINE__, got, (int)(expected), #call);                                \
    } while (0)

static cl_mem part_of(cl_mem parent, cl_mem_flags flags, size_t origin, size_t size)
{
    cl_buffer_region region = {origin, size};
    cl_mem part;
    MAKE(part, clCreateSubBuffer(parent, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
    return part;
}

static void rectangles(cl_command_queue queue)
{
    enum { SIZE = 4096 };
    static char host[SIZE];
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL), other = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL);
    cl_mem write_only = buffer_of(CL_MEM_HOST_WRITE_ONLY, SIZE, NULL);
    cl_mem read_only = buffer_of(CL_MEM_HOST_READ_ONLY, SIZE, NULL);
    cl_mem closed = buffer_of(CL_MEM_HOST_NO_ACCESS, SIZE, NULL);
    size_t zero[3] = {0, 0, 0}, region[3] = {16, 4, 2}, one[3] = {1, 1, 1};
    size_t far[3] = {SIZE, 0, 0}, wrapping[3] = {0, SIZE_MAX / 16, 0}, no_rows[3] = {16, 0, 2}, no_bytes[3] = {0, 1, 1};
    cl_event not_an_event = NULL;
    const cl_int value = CL_INVALID_VALUE;
#define READ(b, bo, ho, r, brp, bsp, hrp, hsp, p)                                                                      \
    clEnqueueReadBufferRect(queue, b, CL_TRUE, bo, ho, r, brp, bsp, hrp, hsp, p, 0, NULL, NULL)
#define WRITE(b, bo, ho, r, brp, bsp, hrp, hsp, p)                                                                     \
    clEnqueueWriteBufferRect(queue, b, CL_TRUE, bo, ho, r, brp, bsp, hrp, hsp, p, 0, NULL, NULL)
#define COPY(a, b, so, to, r, srp, ssp, trp, tsp)                                                                      \
    clEnqueueCopyBufferRect(queue, a, b, so, to, r, srp, ssp, trp, tsp, 0, NULL, NULL)
    WRONG(CL_SUCCESS, READ(buffer, zero, zero, region, 16, 64, 0, 0, host));
    WRONG(CL_INVALID_MEM_OBJECT, READ(NULL, zero, zero, region, 0, 0, 0, 0, host));
    WRONG(CL_INVALID_COMMAND_QUEUE, clEnqueueReadBufferRect(NULL, buffer, CL_TRUE, zero, zero, region, 0, 0, 0, 0, host,
                                                            0, NULL, NULL));
    WRONG(value, READ(buffer, zero, zero, region, 0, 0, 0, 0, NULL));
    WRONG(value, READ(buffer, NULL, zero, region, 0, 0, 0, 0, host));
    WRONG(value, READ(buffer, zero, NULL, region, 0, 0, 0, 0, host));
    WRONG(value, READ(buffer, zero, zero, NULL, 0, 0, 0, 0, host));
    WRONG(value, READ(buffer, far, zero, region, 0, 0, 0, 0, host));
    WRONG(value, READ(buffer, far, zero, one, 0, 0, 0, 0, host));
    WRONG(value, READ(buffer, wrapping, zero, one, 16, 0, 0, 0, host));
    WRONG(value, READ(buffer, zero, zero, no_rows, 0, 0, 0, 0, host));
    WRONG(value, READ(buffer, zero, zero, no_bytes, 0, 0, 0, 0, host));
    WRONG(value, READ(buffer, zero, zero, region, 15, 0, 0, 0, host));
    WRONG(value, READ(buffer, zero, zero, region, 0, 0, 15, 0, host));
    WRONG(value, READ(buffer, zero, zero, region, 16, 48, 0, 0, host));
    WRONG(value, READ(buffer, zero, zero, region, 0, 0, 16, 48, host));
    WRONG(value, READ(buffer, zero, zero, region, 16, SIZE, 0, 0, host));
    WRONG(CL_INVALID_EVENT_WAIT_LIST, clEnqueueReadBufferRect(queue, buffer, CL_TRUE, zero, zero, region, 0, 0, 0, 0,
                                                              host, 1, &not_an_event, NULL));
    WRONG(CL_INVALID_OPERATION, READ(write_only, zero, zero, region, 0, 0, 0, 0, host));
    WRONG(CL_INVALID_OPERATION, READ(closed, zero, zero, region, 0, 0, 0, 0, host));
    WRONG(CL_SUCCESS, READ(read_only, zero, zero, region, 0, 0, 0, 0, host));
    WRONG(CL_INVALID_MEM_OBJECT, WRITE(NULL, zero, zero, region, 0, 0, 0, 0, host));
    WRONG(value, WRITE(buffer, zero, zero, region, 0, 0, 0, 0, NULL));
    WRONG(value, WRITE(buffer, far, zero, region, 0, 0, 0, 0, host));
    WRONG(value, WRITE(buffer, zero, zero, no_rows, 0, 0, 0, 0, host));
    WRONG(value, WRITE(buffer, zero, zero, region, 15, 0, 0, 0, host));
    WRONG(value, WRITE(buffer, zero, zero, region, 0, 0, 16, 48, host));
    WRONG(CL_INVALID_OPERATION, WRITE(read_only, zero, zero, region, 0, 0, 0, 0, host));
    WRONG(CL_INVALID_OPERATION, WRITE(closed, zero, zero, region, 0, 0, 0, 0, host));
    WRONG(CL_SUCCESS, WRITE(write_only, zero, zero, region, 0, 0, 0, 0, host));
    size_t little[3] = {8, 1, 0};
    WRONG(CL_INVALID_MEM_OBJECT, COPY(NULL, other, zero, zero, region, 0, 0, 0, 0));
    WRONG(CL_INVALID_MEM_OBJECT, COPY(buffer, NULL, zero, zero, region, 0, 0, 0, 0));
    WRONG(value, COPY(buffer, other, NULL, zero, region, 0, 0, 0, 0));
    WRONG(value, COPY(buffer, other, zero, NULL, region, 0, 0, 0, 0));
    WRONG(value, COPY(buffer, other, zero, zero, NULL, 0, 0, 0, 0));
    WRONG(value, COPY(buffer, other, far, zero, region, 0, 0, 0, 0));
    WRONG(value, COPY(buffer, other, zero, far, region, 0, 0, 0, 0));
    WRONG(value, COPY(buffer, other, zero, zero, no_rows, 0, 0, 0, 0));
    WRONG(value, COPY(buffer, other, zero, zero, region, 15, 0, 0, 0));
    WRONG(value, COPY(buffer, other, zero, zero, region, 0, 0, 15, 0));
    WRONG(value, COPY(buffer, buffer, zero, far, one, 16, 64, 32, 64));
    WRONG(CL_MEM_COPY_OVERLAP, COPY(buffer, buffer, zero, zero, region, 64, 256, 64, 256));
    WRONG(CL_MEM_COPY_OVERLAP, COPY(buffer, buffer, zero, little, region, 64, 256, 64, 256));
    cl_context elsewhere;
    MAKE(elsewhere, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
    cl_mem foreign;
    MAKE(foreign, clCreateBuffer(elsewhere, 0, SIZE, NULL, &status));
    WRONG(CL_INVALID_CONTEXT, READ(foreign, zero, zero, region, 0, 0, 0, 0, host));
    WRONG(CL_INVALID_CONTEXT, WRITE(foreign, zero, zero, region, 0, 0, 0, 0, host));
    WRONG(CL_INVALID_CONTEXT, COPY(foreign, buffer, zero, zero, region, 0, 0, 0, 0));
    CHECK(clReleaseMemObject(foreign));
    CHECK(clReleaseContext(elsewhere));
    WRONG(CL_INVALID_MEM_OBJECT, READ(foreign, zero, zero, region, 0, 0, 0, 0, host));
}

static cl_int try(cl_mem parent, cl_mem_flags flags, size_t origin, size_t size)
{
    cl_buffer_region region = {origin, size};
    cl_int code = 1;
    cl_mem part = clCreateSubBuffer(parent, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    REQUIRE((part == NULL) == (code != CL_SUCCESS));
    if (part != NULL)
        CHECK(clReleaseMemObject(part));
    return code;
}

static void sub_buffers(cl_command_queue queue)
{
    static char host[64];
    size_t size = 16 * alignment;
    cl_mem whole = buffer_of(CL_MEM_READ_WRITE, size, NULL), part = part_of(whole, 0, 0, size);
    cl_mem write_only = buffer_of(CL_MEM_WRITE_ONLY, size, NULL), read_only = buffer_of(CL_MEM_READ_ONLY, size, NULL);
    cl_mem host_write = buffer_of(CL_MEM_HOST_WRITE_ONLY, size, NULL);
    cl_mem host_read = buffer_of(CL_MEM_HOST_READ_ONLY, size, NULL);
    cl_mem host_none = buffer_of(CL_MEM_HOST_NO_ACCESS, size, NULL);
    cl_buffer_region region = {0, alignment};
    cl_int code;
    WRONG(CL_SUCCESS, try(whole, 0, size - alignment, alignment));
    WRONG(CL_INVALID_MEM_OBJECT, try(NULL, 0, 0, 16));
    WRONG(CL_INVALID_MEM_OBJECT, try(part, 0, 0, 16));
    WRONG(CL_INVALID_BUFFER_SIZE, try(whole, 0, 0, 0));
    WRONG(CL_INVALID_VALUE, try(whole, 0, size, 16));
    WRONG(CL_INVALID_VALUE, try(whole, 0, 0, size + 1));
    WRONG(CL_INVALID_VALUE, try(whole, 0, alignment, SIZE_MAX - alignment + 1));
    WRONG(CL_MISALIGNED_SUB_BUFFER_OFFSET, try(whole, 0, 1, 16));
    WRONG(CL_MISALIGNED_SUB_BUFFER_OFFSET, try(whole, 0, alignment / 2, 16));
    WRONG(CL_INVALID_VALUE, try(whole, CL_MEM_USE_HOST_PTR, 0, 16));
    WRONG(CL_INVALID_VALUE, try(whole, CL_MEM_COPY_HOST_PTR, 0, 16));
    WRONG(CL_INVALID_VALUE, try(whole, CL_MEM_ALLOC_HOST_PTR, 0, 16));
    WRONG(CL_INVALID_VALUE, try(whole, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 0, 16));
    WRONG(CL_INVALID_VALUE, try(write_only, CL_MEM_READ_ONLY, 0, 16));
    WRONG(CL_INVALID_VALUE, try(write_only, CL_MEM_READ_WRITE, 0, 16));
    WRONG(CL_INVALID_VALUE, try(read_only, CL_MEM_WRITE_ONLY, 0, 16));
    WRONG(CL_INVALID_VALUE, try(read_only, CL_MEM_READ_WRITE, 0, 16));
    WRONG(CL_INVALID_VALUE, try(host_write, CL_MEM_HOST_READ_ONLY, 0, 16));
    WRONG(CL_INVALID_VALUE, try(host_read, CL_MEM_HOST_WRITE_ONLY, 0, 16));
    WRONG(CL_INVALID_VALUE, try(host_none, CL_MEM_HOST_READ_ONLY, 0, 16));
    WRONG(CL_INVALID_VALUE, try(host_none, CL_MEM_HOST_WRITE_ONLY, 0, 16));
    REQUIRE(clCreateSubBuffer(whole, 0, 0x1234, &region, &code) == NULL);
    WRONG(CL_INVALID_VALUE, code);
    REQUIRE(clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, NULL, &code) == NULL);
    WRONG(CL_INVALID_VALUE, code);
    /* Host access is inherited. */
    cl_mem inherits = part_of(host_read, 0, 0, alignment);
    WRONG(CL_INVALID_OPERATION, clEnqueueWriteBuffer(queue, inherits, CL_TRUE, 0, 16, host, 0, NULL, NULL));
    WRONG(CL_SUCCESS, clEnqueueReadBuffer(queue, inherits, CL_TRUE, 0, 16, host, 0, NULL, NULL));
    /* Ranges are those of the part. */
    cl_mem little = part_of(whole, 0, alignment, 32);
    WRONG(CL_INVALID_VALUE, clEnqueueReadBuffer(queue, little, CL_TRUE, 0, 33, host, 0, NULL, NULL));
    WRONG(CL_INVALID_VALUE, clEnqueueWriteBuffer(queue, little, CL_TRUE, 32, 1, host, 0, NULL, NULL));
    WRONG(CL_INVALID_VALUE, clEnqueueCopyBuffer(queue, little, whole, 16, 0, 17, 0, NULL, NULL));
    /* Overlaps are those of the memory. */
    cl_mem twin = part_of(whole, 0, alignment, 64), other = part_of(whole, 0, 2 * alignment, 64);
    WRONG(CL_MEM_COPY_OVERLAP, clEnqueueCopyBuffer(queue, twin, twin, 0, 8, 16, 0, NULL, NULL));
    WRONG(CL_MEM_COPY_OVERLAP, clEnqueueCopyBuffer(queue, twin, little, 0, 8, 16, 0, NULL, NULL));
    WRONG(CL_SUCCESS, clEnqueueCopyBuffer(queue, twin, other, 0, 8, 16, 0, NULL, NULL));
    CHECK(clFinish(queue));
}

int main(void)
{
    open_device();
    cl_uint bits;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL));
    alignment = bits / 8;
    cl_command_queue queue = open_queue(0);
    rectangles(queue);
    sub_buffers(queue);
    puts("done");
    return 0;
}
