/* Reads and writes that do not block, in the orders that go wrong first; large ones; copies and fills. */
#include "common.h"

enum { SMALL = 1 << 10, LARGE = 64 << 20 };

static unsigned char *memory_of(size_t size, unsigned seed)
{
    unsigned char *bytes = malloc(size);
    REQUIRE(bytes != NULL);
    uint64_t x = seed;
    for (size_t i = 0; i < size; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (unsigned char)(x >> 56);
    }
    return bytes;
}

/* The memory of a write that does not block is read when the command runs, not when it is enqueued. */
static void gated_write(cl_command_queue queue, size_t size)
{
    unsigned char *from = memory_of(size, 1), *expected = memory_of(size, 2), *back = malloc(size);
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    cl_event gate, written;
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, size, from, 1, &gate, &written));
    CHECK(clFlush(queue));
    leave_time();
    memcpy(from, expected, size);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &written));
    memset(from, 0, size);
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, size, back, 0, NULL, NULL));
    printf("gated write of %zu: %s\n", size, memcmp(back, expected, size) == 0 ? "what was there when it ran" : "WRONG");
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseEvent(written));
    CHECK(clReleaseMemObject(buffer));
    free(from);
    free(expected);
    free(back);
}

/* In an in-order queue: read into P, then write from P, neither blocking. */
static void read_then_write(cl_command_queue queue, size_t size)
{
    unsigned char *source = memory_of(size, 3), *p = calloc(size, 1), *back = malloc(size);
    cl_mem a = buffer_of(CL_MEM_COPY_HOST_PTR, size, source), b = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    CHECK(clEnqueueReadBuffer(queue, a, CL_FALSE, 0, size, p, 0, NULL, NULL));
    CHECK(clEnqueueWriteBuffer(queue, b, CL_FALSE, 0, size, p, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, b, CL_TRUE, 0, size, back, 0, NULL, NULL));
    printf("read then write of %zu: %s\n", size, memcmp(back, source, size) == 0 ? "right" : "WRONG");
    CHECK(clReleaseMemObject(a));
    CHECK(clReleaseMemObject(b));
    free(source);
    free(p);
    free(back);
}

/* Many small writes and reads at different offsets, waited for once. */
static void scattered(cl_command_queue queue)
{
    enum { PIECES = 500, PIECE = 97 };
    unsigned char *from = memory_of(PIECES * PIECE, 4), *back = calloc(PIECES, PIECE);
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, PIECES * PIECE, NULL);
    for (size_t i = 0; i < PIECES; i++) {
        size_t at = (i * 211 % PIECES) * PIECE;
        CHECK(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, at, PIECE, from + at, 0, NULL, NULL));
    }
    for (size_t i = 0; i < PIECES; i++)
        CHECK(clEnqueueReadBuffer(queue, buffer, CL_FALSE, i * PIECE, PIECE, back + i * PIECE, 0, NULL, NULL));
    CHECK(clFinish(queue));
    printf("scattered: %s\n", memcmp(from, back, PIECES * PIECE) == 0 ? "right" : "WRONG");
    CHECK(clReleaseMemObject(buffer));
    free(from);
    free(back);
}

static void large(cl_command_queue queue)
{
    unsigned char *from = memory_of(LARGE, 5), *back = calloc(LARGE, 1);
    cl_mem a = buffer_of(CL_MEM_READ_WRITE, LARGE, NULL), b = buffer_of(CL_MEM_READ_WRITE, LARGE, NULL);
    cl_event copied;
    CHECK(clEnqueueWriteBuffer(queue, a, CL_TRUE, 0, LARGE, from, 0, NULL, NULL));
    uint64_t expected = hash_of(from, LARGE);
    memset(from, 0, LARGE);
    CHECK(clEnqueueCopyBuffer(queue, a, b, 0, 0, LARGE, 0, NULL, &copied));
    CHECK(clEnqueueReadBuffer(queue, b, CL_FALSE, 0, LARGE, back, 1, &copied, NULL));
    CHECK(clFinish(queue));
    printf("64 MB there and back: %s\n", hash_of(back, LARGE) == expected ? "right" : "WRONG");
    cl_mem c = buffer_of(CL_MEM_COPY_HOST_PTR, LARGE, back);
    memset(back, 0, LARGE);
    CHECK(clEnqueueReadBuffer(queue, c, CL_TRUE, 0, LARGE, back, 0, NULL, NULL));
    printf("64 MB with the buffer: %s\n", hash_of(back, LARGE) == expected ? "right" : "WRONG");
    CHECK(clEnqueueReadBuffer(queue, c, CL_TRUE, 12345, LARGE - 54321, from, 0, NULL, NULL));
    printf("its middle: %s\n", memcmp(from, back + 12345, LARGE - 54321) == 0 ? "right" : "WRONG");
    CHECK(clReleaseEvent(copied));
    CHECK(clReleaseMemObject(a));
    CHECK(clReleaseMemObject(b));
    CHECK(clReleaseMemObject(c));
    free(from);
    free(back);
}

/* Patterns of every size that is allowed; a copy inside one buffer. */
static void fills(cl_command_queue queue)
{
    unsigned char pattern[128], back[1024];
    for (int i = 0; i < 128; i++)
        pattern[i] = (unsigned char)(i * 7 + 1);
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, sizeof back, NULL);
    for (size_t size = 1; size <= 128; size *= 2) {
        memset(back, 0, sizeof back);
        CHECK(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, sizeof back, back, 0, NULL, NULL));
        CHECK(clEnqueueFillBuffer(queue, buffer, pattern, size, 128, 512, 0, NULL, NULL));
        CHECK(clEnqueueCopyBuffer(queue, buffer, buffer, 128, 768, 256, 0, NULL, NULL));
        CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof back, back, 0, NULL, NULL));
        printf("pattern of %zu: %016llx\n", size, (unsigned long long)hash_of(back, sizeof back));
    }
    CHECK(clReleaseMemObject(buffer));
}

int main(void)
{
    open_device();
    cl_command_queue queue = open_queue(0);
    gated_write(queue, SMALL);
    gated_write(queue, 1 << 20);
    read_then_write(queue, SMALL);
    read_then_write(queue, 3 << 20);
    scattered(queue);
    large(queue);
    fills(queue);
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return 0;
}
