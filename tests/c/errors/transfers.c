/* Reading, writing, copying, filling, mapping and migrating buffers (OpenCL 3.0 API, sections 5.2.2 to 5.2.4, 5.5). */
#include "errors.h"

enum { SIZE = 1024 };
static char data[SIZE];
static cl_mem buffer, second, foreign, hidden, host_reads, host_writes;

static void open_buffers(void)
{
    buffer = buffer_of(0, SIZE, NULL);
    second = buffer_of(0, SIZE, NULL);
    hidden = buffer_of(CL_MEM_HOST_NO_ACCESS, SIZE, NULL);
    host_reads = buffer_of(CL_MEM_HOST_READ_ONLY, SIZE, NULL);
    host_writes = buffer_of(CL_MEM_HOST_WRITE_ONLY, SIZE, NULL);
    MAKE(foreign, clCreateBuffer(other_context, 0, SIZE, NULL, &status));
}

static void close_buffers(void)
{
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseMemObject(second));
    CHECK(clReleaseMemObject(foreign));
    CHECK(clReleaseMemObject(hidden));
    CHECK(clReleaseMemObject(host_reads));
    CHECK(clReleaseMemObject(host_writes));
}

/* What reads and writes have in common: `B` is the buffer. */
#define BOTH_WAYS(function, refused, ...)                                                                                  \
    do {                                                                                                               \
        COMMAND(RETURNS, function(Q, buffer, CL_TRUE, 0, 8, data, N, LIST, NULL));                                     \
        WRONG_HANDLES_FOR(RETURNS, function(queue, X, CL_TRUE, 0, 8, data, 0, NULL, NULL), "buffer",                   \
                          CL_INVALID_MEM_OBJECT);                                                                      \
        RETURNS(function(queue, foreign, CL_TRUE, 0, 8, data, 0, NULL, NULL), "buffer is of another context",          \
                CL_INVALID_CONTEXT);                                                                                   \
        RETURNS(function(queue, buffer, CL_TRUE, SIZE - 4, 8, data, 0, NULL, NULL), "the region ends outside",         \
                CL_INVALID_VALUE);                                                                                     \
        RETURNS(function(queue, buffer, CL_TRUE, SIZE, 1, data, 0, NULL, NULL), "the region begins at the end",        \
                CL_INVALID_VALUE);                                                                                     \
        RETURNS(function(queue, buffer, CL_TRUE, SIZE_MAX - 3, 8, data, 0, NULL, NULL), "offset and size wrap",        \
                CL_INVALID_VALUE);                                                                                     \
        RETURNS(function(queue, buffer, CL_TRUE, 8, SIZE_MAX - 3, data, 0, NULL, NULL), "size and offset wrap",        \
                CL_INVALID_VALUE);                                                                                     \
        RETURNS(function(queue, buffer, CL_TRUE, 0, 8, NULL, 0, NULL, NULL), "ptr is NULL", CL_INVALID_VALUE);         \
        RETURNS(function(queue, hidden, CL_TRUE, 0, 8, data, 0, NULL, NULL), "CL_MEM_HOST_NO_ACCESS",                  \
                CL_INVALID_OPERATION);                                                                                 \
        RETURNS(function(queue, refused, CL_TRUE, 0, 8, data, 0, NULL, NULL), "the host's access is the other one",    \
                CL_INVALID_OPERATION);                                                                                 \
        FAILED_EVENT(RETURNS, function(queue, buffer, CL_TRUE, 0, 8, data, N, LIST, MADE), ##__VA_ARGS__);   \
    } while (0)

static void reads_and_writes(void)
{
    BOTH_WAYS(clEnqueueReadBuffer, host_writes);
    /* What is written has been taken before the event fails. */
    BOTH_WAYS(clEnqueueWriteBuffer, host_reads, CL_SUCCESS);
}

static void copies(void)
{
#define COPY(from, to, at, to_at, size) clEnqueueCopyBuffer(queue, from, to, at, to_at, size, 0, NULL, NULL)
    COMMAND(RETURNS, clEnqueueCopyBuffer(Q, buffer, second, 0, 0, 8, N, LIST, NULL));
    WRONG_HANDLES_FOR(RETURNS, COPY(X, buffer, 0, 0, 8), "src_buffer", CL_INVALID_MEM_OBJECT);
    WRONG_HANDLES_FOR(RETURNS, COPY(buffer, X, 0, 0, 8), "dst_buffer", CL_INVALID_MEM_OBJECT);
    RETURNS(COPY(foreign, buffer, 0, 0, 8), "src_buffer is of another context", CL_INVALID_CONTEXT);
    RETURNS(COPY(buffer, foreign, 0, 0, 8), "dst_buffer is of another context", CL_INVALID_CONTEXT);
    RETURNS(COPY(buffer, second, SIZE - 4, 0, 8), "the source ends outside", CL_INVALID_VALUE);
    RETURNS(COPY(buffer, second, 0, SIZE - 4, 8), "the target ends outside", CL_INVALID_VALUE);
    RETURNS(COPY(buffer, second, SIZE_MAX - 3, 0, 8), "the source wraps", CL_INVALID_VALUE);
    RETURNS(COPY(buffer, second, 0, SIZE_MAX - 3, 8), "the target wraps", CL_INVALID_VALUE);
    RETURNS(COPY(buffer, second, 8, 8, SIZE_MAX), "size is SIZE_MAX", CL_INVALID_VALUE);
    RETURNS(COPY(buffer, buffer, 0, 4, 8), "the regions overlap", CL_MEM_COPY_OVERLAP);
    RETURNS(COPY(buffer, buffer, 4, 0, 8), "the regions overlap, backwards", CL_MEM_COPY_OVERLAP);
    RETURNS(COPY(buffer, buffer, 0, 8, 8), "the regions touch", CL_SUCCESS);
#undef COPY
}

static void fills(void)
{
    const cl_ulong pattern[32] = {0};
#define FILL(to, pattern, pattern_size, at, size)                                                                      \
    clEnqueueFillBuffer(queue, to, pattern, pattern_size, at, size, 0, NULL, NULL)
    COMMAND(RETURNS, clEnqueueFillBuffer(Q, buffer, pattern, 4, 0, 8, N, LIST, NULL));
    WRONG_HANDLES_FOR(RETURNS, FILL(X, pattern, 4, 0, 8), "buffer", CL_INVALID_MEM_OBJECT);
    RETURNS(FILL(foreign, pattern, 4, 0, 8), "buffer is of another context", CL_INVALID_CONTEXT);
    RETURNS(FILL(buffer, pattern, 4, SIZE - 4, 8), "the region ends outside", CL_INVALID_VALUE);
    RETURNS(FILL(buffer, pattern, 4, SIZE_MAX - 3, 8), "offset and size wrap", CL_INVALID_VALUE);
    RETURNS(FILL(buffer, NULL, 4, 0, 8), "pattern is NULL", CL_INVALID_VALUE);
    RETURNS(FILL(buffer, pattern, 0, 0, 8), "pattern_size is 0", CL_INVALID_VALUE);
    RETURNS(FILL(buffer, pattern, 3, 0, 6), "pattern_size is no power of two", CL_INVALID_VALUE);
    RETURNS(FILL(buffer, pattern, 256, 0, 256), "pattern_size is beyond the largest type's", CL_INVALID_VALUE);
    RETURNS(FILL(buffer, pattern, 4, 0, 6), "size is no multiple of pattern_size", CL_INVALID_VALUE);
    RETURNS(FILL(buffer, pattern, 4, 2, 8), "offset is no multiple of pattern_size", CL_INVALID_VALUE);
#undef FILL
}

static void maps(void)
{
#define MAP(of, flags, at, size) clEnqueueMapBuffer(queue, of, CL_TRUE, flags, at, size, 0, NULL, NULL, &status)
    COMMAND(MAKES, clEnqueueMapBuffer(Q, buffer, CL_TRUE, CL_MAP_READ, 0, 8, N, LIST, NULL, &status));
    WRONG_HANDLES_FOR(MAKES, MAP(X, CL_MAP_READ, 0, 8), "buffer", CL_INVALID_MEM_OBJECT);
    MAKES(MAP(foreign, CL_MAP_READ, 0, 8), "buffer is of another context", CL_INVALID_CONTEXT);
    MAKES(MAP(buffer, CL_MAP_READ, SIZE - 4, 8), "the region ends outside", CL_INVALID_VALUE);
    MAKES(MAP(buffer, CL_MAP_READ, SIZE_MAX - 3, 8), "offset and size wrap", CL_INVALID_VALUE);
    MAKES(MAP(buffer, CL_MAP_READ, 0, 0), "size is 0", CL_INVALID_VALUE);
    MAKES(MAP(buffer, CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, 0, 8), "CL_MAP_READ of what is invalidated",
          CL_INVALID_VALUE);
    MAKES(MAP(buffer, CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION, 0, 8), "CL_MAP_WRITE of what is invalidated",
          CL_INVALID_VALUE);
    MAKES(MAP(buffer, (cl_map_flags)1 << 40, 0, 8), "map_flags has unknown bits", CL_INVALID_VALUE);
    MAKES(MAP(hidden, CL_MAP_READ, 0, 8), "CL_MAP_READ of CL_MEM_HOST_NO_ACCESS", CL_INVALID_OPERATION);
    MAKES(MAP(hidden, CL_MAP_WRITE, 0, 8), "CL_MAP_WRITE of CL_MEM_HOST_NO_ACCESS", CL_INVALID_OPERATION);
    MAKES(MAP(host_writes, CL_MAP_READ, 0, 8), "CL_MAP_READ of CL_MEM_HOST_WRITE_ONLY", CL_INVALID_OPERATION);
    MAKES(MAP(host_reads, CL_MAP_WRITE, 0, 8), "CL_MAP_WRITE of CL_MEM_HOST_READ_ONLY", CL_INVALID_OPERATION);
    MAKES(MAP(host_reads, CL_MAP_WRITE_INVALIDATE_REGION, 0, 8),
          "CL_MAP_WRITE_INVALIDATE_REGION of CL_MEM_HOST_READ_ONLY", CL_INVALID_OPERATION);
    FAILED_EVENT(MAKES, clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, 8, N, LIST, MADE, &status));
#undef MAP
    char *mapped;
    MAKE(mapped, clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, 64, 0, NULL, NULL, &status));
    COMMAND(RETURNS, clEnqueueUnmapMemObject(Q, buffer, mapped, N, LIST, NULL));
    WRONG_HANDLES_FOR(RETURNS, clEnqueueUnmapMemObject(queue, X, mapped, 0, NULL, NULL), "memobj",
                      CL_INVALID_MEM_OBJECT);
    RETURNS(clEnqueueUnmapMemObject(other_queue, buffer, mapped, 0, NULL, NULL), "the queue is of another context",
            CL_INVALID_CONTEXT);
    RETURNS(clEnqueueUnmapMemObject(queue, buffer, data, 0, NULL, NULL), "mapped_ptr is none", CL_INVALID_VALUE);
    RETURNS(clEnqueueUnmapMemObject(queue, buffer, NULL, 0, NULL, NULL), "mapped_ptr is NULL", CL_INVALID_VALUE);
    RETURNS(clEnqueueUnmapMemObject(queue, second, mapped, 0, NULL, NULL), "mapped_ptr is another buffer's",
            CL_INVALID_VALUE);
    RETURNS(clEnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL), "nothing", CL_SUCCESS);
    CHECK(clFinish(queue));
    RETURNS(clEnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL), "it was unmapped before", CL_INVALID_VALUE);
}

static void migrations(void)
{
#define MIGRATE(count, list, flags) clEnqueueMigrateMemObjects(queue, count, list, flags, 0, NULL, NULL)
    COMMAND(RETURNS, clEnqueueMigrateMemObjects(Q, 1, &buffer, 0, N, LIST, NULL));
    RETURNS(MIGRATE(0, &buffer, 0), "num_mem_objects is 0", CL_INVALID_VALUE);
    RETURNS(MIGRATE(1, NULL, 0), "mem_objects is NULL", CL_INVALID_VALUE);
    RETURNS(MIGRATE(1, &buffer, (cl_mem_migration_flags)1 << 40), "flags has unknown bits", CL_INVALID_VALUE);
    RETURNS(MIGRATE(1, &foreign, 0), "an object is of another context", CL_INVALID_CONTEXT);
    WRONG_HANDLES_FOR(RETURNS, MIGRATE(2, ((cl_mem[]){buffer, X}), 0), "an object", CL_INVALID_MEM_OBJECT);
#undef MIGRATE
}

int main(int argc, char **argv)
{
    open_all(argc, argv);
    open_buffers();
    reads_and_writes();
    copies();
    fills();
    maps();
    migrations();
    close_buffers();
    return close_all();
}
