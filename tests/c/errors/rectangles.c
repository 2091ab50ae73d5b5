/* Rectangles of buffers (OpenCL 3.0 API, section 5.2.2 and 5.2.3). */
#include "errors.h"

enum { SIZE = 1024 };
static char data[SIZE];
static const size_t AT[3] = {0, 0, 0}, REGION[3] = {4, 2, 2};

/* A rectangle that is wrong in one way: pitches and origins of the buffer's side. */
static const struct {
    const char *what;
    size_t at[3], region[3], row, slice;
} WRONG[] = {
    {"the region has no width", {0, 0, 0}, {0, 2, 2}, 0, 0},
    {"the region has no height", {0, 0, 0}, {4, 0, 2}, 0, 0},
    {"the region has no depth", {0, 0, 0}, {4, 2, 0}, 0, 0},
    {"the row pitch is less than a row", {0, 0, 0}, {4, 2, 2}, 3, 0},
    {"the slice pitch is less than a slice", {0, 0, 0}, {4, 2, 2}, 4, 7},
    {"the slice pitch is less than the height's rows", {0, 0, 0}, {4, 4, 1}, 8, 16},
    {"the slice pitch is no multiple of the row pitch", {0, 0, 0}, {4, 2, 2}, 4, 9},
    {"the region ends outside in x", {1020, 0, 0}, {8, 1, 1}, 1024, 0},
    {"the region ends outside in y", {0, 31, 0}, {4, 2, 1}, 32, 0},
    {"the region ends outside in z", {0, 0, 15}, {4, 2, 2}, 4, 64},
    {"the origin wraps in x", {SIZE_MAX - 1, 0, 0}, {4, 1, 1}, 0, 0},
    {"the origin wraps in y", {0, SIZE_MAX / 4, 0}, {4, 2, 1}, 8, 0},
    {"the origin wraps in z", {0, 0, SIZE_MAX / 8}, {4, 2, 2}, 4, 16},
    {"the region wraps in x", {8, 0, 0}, {SIZE_MAX - 3, 1, 1}, 0, 0},
    {"the region wraps in y", {0, 0, 0}, {4, SIZE_MAX / 4 + 2, 1}, 0, 0},
    {"the region wraps in z", {0, 0, 0}, {4, 2, SIZE_MAX / 8 + 2}, 0, 0},
    {"the pitches wrap", {0, 0, 0}, {4, 2, 2}, SIZE_MAX / 2 + 1, 0},
};

#define BOTH_WAYS(function, refused, ...)                                                                                  \
    do {                                                                                                               \
        COMMAND(RETURNS, function(Q, buffer, CL_TRUE, AT, AT, REGION, 0, 0, 0, 0, data, N, LIST, NULL));               \
        WRONG_HANDLES_FOR(RETURNS,                                                                                     \
                          function(queue, X, CL_TRUE, AT, AT, REGION, 0, 0, 0, 0, data, 0, NULL, NULL),                \
                          "buffer", CL_INVALID_MEM_OBJECT);                                                            \
        RETURNS(function(queue, foreign, CL_TRUE, AT, AT, REGION, 0, 0, 0, 0, data, 0, NULL, NULL),                    \
                "buffer is of another context", CL_INVALID_CONTEXT);                                                   \
        RETURNS(function(queue, buffer, CL_TRUE, AT, AT, REGION, 0, 0, 0, 0, NULL, 0, NULL, NULL), "ptr is NULL",      \
                CL_INVALID_VALUE);                                                                                     \
        REMOTE                                                                                                         \
        {                                                                                                              \
            RETURNS(function(queue, buffer, CL_TRUE, NULL, AT, REGION, 0, 0, 0, 0, data, 0, NULL, NULL),               \
                    "buffer_origin is NULL", CL_INVALID_VALUE);                                                        \
            RETURNS(function(queue, buffer, CL_TRUE, AT, NULL, REGION, 0, 0, 0, 0, data, 0, NULL, NULL),               \
                    "host_origin is NULL", CL_INVALID_VALUE);                                                          \
            RETURNS(function(queue, buffer, CL_TRUE, AT, AT, NULL, 0, 0, 0, 0, data, 0, NULL, NULL),                   \
                    "region is NULL", CL_INVALID_VALUE);                                                               \
        }                                                                                                              \
        for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)                                                      \
            RETURNS(function(queue, buffer, CL_TRUE, WRONG[i].at, AT, WRONG[i].region, WRONG[i].row, WRONG[i].slice,   \
                         0, 0, data, 0, NULL, NULL),                                                                   \
                WRONG[i].what, CL_INVALID_VALUE);                                                                      \
        RETURNS(function(queue, buffer, CL_TRUE, AT, AT, REGION, 0, 0, 3, 0, data, 0, NULL, NULL),                     \
                "the host's row pitch is less than a row", CL_INVALID_VALUE);                                          \
        RETURNS(function(queue, buffer, CL_TRUE, AT, AT, REGION, 0, 0, 4, 7, data, 0, NULL, NULL),                     \
                "the host's slice pitch is less than a slice", CL_INVALID_VALUE);                                      \
        RETURNS(function(queue, buffer, CL_TRUE, AT, AT, REGION, 0, 0, 4, 9, data, 0, NULL, NULL),                     \
                "the host's slice pitch is no multiple of its row pitch", CL_INVALID_VALUE);                           \
        RETURNS(function(queue, hidden, CL_TRUE, AT, AT, REGION, 0, 0, 0, 0, data, 0, NULL, NULL),                     \
                "CL_MEM_HOST_NO_ACCESS", CL_INVALID_OPERATION);                                                        \
        RETURNS(function(queue, refused, CL_TRUE, AT, AT, REGION, 0, 0, 0, 0, data, 0, NULL, NULL),                    \
                "the host's access is the other one", CL_INVALID_OPERATION);                                           \
        FAILED_EVENT(RETURNS, function(queue, buffer, CL_TRUE, AT, AT, REGION, 0, 0, 0, 0, data, N, LIST, MADE), ##__VA_ARGS__);   \
    } while (0)

int main(int argc, char **argv)
{
    open_all(argc, argv);
    cl_mem buffer = buffer_of(0, SIZE, NULL), second = buffer_of(0, SIZE, NULL),
           hidden = buffer_of(CL_MEM_HOST_NO_ACCESS, SIZE, NULL), foreign,
           host_reads = buffer_of(CL_MEM_HOST_READ_ONLY, SIZE, NULL),
           host_writes = buffer_of(CL_MEM_HOST_WRITE_ONLY, SIZE, NULL);
    MAKE(foreign, clCreateBuffer(other_context, 0, SIZE, NULL, &status));
    BOTH_WAYS(clEnqueueReadBufferRect, host_writes);
    /* What is written has been taken before the event fails. */
    BOTH_WAYS(clEnqueueWriteBufferRect, host_reads, CL_SUCCESS);

#define COPY(from, to, at, to_at, region, row, slice, to_row, to_slice)                                                \
    clEnqueueCopyBufferRect(queue, from, to, at, to_at, region, row, slice, to_row, to_slice, 0, NULL, NULL)
    COMMAND(RETURNS, clEnqueueCopyBufferRect(Q, buffer, second, AT, AT, REGION, 0, 0, 0, 0, N, LIST, NULL));
    WRONG_HANDLES_FOR(RETURNS, COPY(X, buffer, AT, AT, REGION, 0, 0, 0, 0), "src_buffer", CL_INVALID_MEM_OBJECT);
    WRONG_HANDLES_FOR(RETURNS, COPY(buffer, X, AT, AT, REGION, 0, 0, 0, 0), "dst_buffer", CL_INVALID_MEM_OBJECT);
    RETURNS(COPY(foreign, buffer, AT, AT, REGION, 0, 0, 0, 0), "src_buffer is of another context", CL_INVALID_CONTEXT);
    RETURNS(COPY(buffer, foreign, AT, AT, REGION, 0, 0, 0, 0), "dst_buffer is of another context", CL_INVALID_CONTEXT);
    REMOTE
    {
        RETURNS(COPY(buffer, second, NULL, AT, REGION, 0, 0, 0, 0), "src_origin is NULL", CL_INVALID_VALUE);
        RETURNS(COPY(buffer, second, AT, NULL, REGION, 0, 0, 0, 0), "dst_origin is NULL", CL_INVALID_VALUE);
        RETURNS(COPY(buffer, second, AT, AT, NULL, 0, 0, 0, 0), "region is NULL", CL_INVALID_VALUE);
    }
    char condition[128];
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        snprintf(condition, sizeof condition, "source: %s", WRONG[i].what);
        RETURNS(COPY(buffer, second, WRONG[i].at, AT, WRONG[i].region, WRONG[i].row, WRONG[i].slice, 0, 0), condition,
                CL_INVALID_VALUE);
        snprintf(condition, sizeof condition, "target: %s", WRONG[i].what);
        RETURNS(COPY(buffer, second, AT, WRONG[i].at, WRONG[i].region, 0, 0, WRONG[i].row, WRONG[i].slice), condition,
                CL_INVALID_VALUE);
    }
    RETURNS(COPY(buffer, buffer, AT, AT, REGION, 64, 256, 32, 256), "one buffer with two row pitches", CL_INVALID_VALUE);
    RETURNS(COPY(buffer, buffer, AT, AT, REGION, 64, 256, 64, 128), "one buffer with two slice pitches",
            CL_INVALID_VALUE);
    RETURNS(COPY(buffer, buffer, AT, ((size_t[3]){2, 1, 1}), REGION, 64, 256, 64, 256), "the rectangles overlap",
            CL_MEM_COPY_OVERLAP);
    RETURNS(COPY(buffer, buffer, AT, ((size_t[3]){4, 0, 0}), REGION, 64, 256, 64, 256), "the rectangles touch",
            CL_SUCCESS);
    cl_mem all[] = {buffer, second, hidden, foreign, host_reads, host_writes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(clReleaseMemObject(all[i]));
    return close_all();
}
