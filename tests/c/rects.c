/* Rectangular regions of buffers: all shapes, sizes on both sides of what travels with the command, events. */
#include "common.h"

static uint32_t seed = 1;

static uint32_t random_below(uint32_t most)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % most;
}

/* A region in memory of some size. */
typedef struct {
    size_t origin[3], row_pitch, slice_pitch;
} place;

static size_t end_of(const place *p, const size_t *region)
{
    size_t row = p->row_pitch ? p->row_pitch : region[0], slice = p->slice_pitch ? p->slice_pitch : region[1] * row;
    return (p->origin[2] + region[2] - 1) * slice + (p->origin[1] + region[1] - 1) * row + p->origin[0] + region[0];
}

static size_t at(const place *p, const size_t *region, size_t x, size_t y, size_t z)
{
    size_t row = p->row_pitch ? p->row_pitch : region[0], slice = p->slice_pitch ? p->slice_pitch : region[1] * row;
    return (p->origin[2] + z) * slice + (p->origin[1] + y) * row + p->origin[0] + x;
}

static void copy(unsigned char *to, const place *t, const unsigned char *from, const place *f, const size_t *region)
{
    for (size_t z = 0; z < region[2]; z++)
        for (size_t y = 0; y < region[1]; y++)
            memcpy(to + at(t, region, 0, y, z), from + at(f, region, 0, y, z), region[0]);
}

static place random_place(const size_t *region)
{
    place p = {{random_below(5), random_below(4), random_below(3)}, 0, 0};
    if (random_below(3))
        p.row_pitch = region[0] + random_below(9);
    size_t row = p.row_pitch ? p.row_pitch : region[0];
    if (random_below(3))
        p.slice_pitch = row * (region[1] + random_below(4));
    return p;
}

static unsigned char *filled(size_t size, unsigned char salt)
{
    unsigned char *bytes = malloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251 + salt);
    return bytes;
}

/* Writes, copies and reads one region, and compares every byte of everything with what the processor makes of it. */
static void round_trip(cl_command_queue queue, const size_t *region, int blocking)
{
    place p[6];
    size_t size = 0;
    for (int i = 0; i < 6; i++) {
        p[i] = random_place(region);
        size_t end = end_of(&p[i], region);
        size = end > size ? end : size;
    }
    unsigned char *host = filled(size, 1), *back = filled(size, 2), *expected_back = filled(size, 2);
    unsigned char *first = filled(size, 3), *second = filled(size, 4), *whole = malloc(size);
    cl_mem a = buffer_of(CL_MEM_COPY_HOST_PTR, size, first), b = buffer_of(CL_MEM_COPY_HOST_PTR, size, second);
    cl_event events[3];
    CHECK(clEnqueueWriteBufferRect(queue, a, blocking, p[0].origin, p[1].origin, region, p[0].row_pitch,
                                   p[0].slice_pitch, p[1].row_pitch, p[1].slice_pitch, host, 0, NULL, &events[0]));
    CHECK(clEnqueueCopyBufferRect(queue, a, b, p[2].origin, p[3].origin, region, p[2].row_pitch, p[2].slice_pitch,
                                  p[3].row_pitch, p[3].slice_pitch, 1, &events[0], &events[1]));
    CHECK(clEnqueueReadBufferRect(queue, b, blocking, p[4].origin, p[5].origin, region, p[4].row_pitch,
                                  p[4].slice_pitch, p[5].row_pitch, p[5].slice_pitch, back, 1, &events[1], &events[2]));
    CHECK(clWaitForEvents(1, &events[2]));
    copy(first, &p[0], host, &p[1], region);
    copy(second, &p[3], first, &p[2], region);
    copy(expected_back, &p[5], second, &p[4], region);
    REQUIRE(memcmp(back, expected_back, size) == 0);
    CHECK(clEnqueueReadBuffer(queue, a, CL_TRUE, 0, size, whole, 0, NULL, NULL));
    REQUIRE(memcmp(whole, first, size) == 0);
    CHECK(clEnqueueReadBuffer(queue, b, CL_TRUE, 0, size, whole, 0, NULL, NULL));
    REQUIRE(memcmp(whole, second, size) == 0);
    cl_command_type types[3];
    for (int i = 0; i < 3; i++) {
        CHECK(clGetEventInfo(events[i], CL_EVENT_COMMAND_TYPE, sizeof types[i], &types[i], NULL));
        clReleaseEvent(events[i]);
    }
    REQUIRE(types[0] == CL_COMMAND_WRITE_BUFFER_RECT && types[1] == CL_COMMAND_COPY_BUFFER_RECT &&
            types[2] == CL_COMMAND_READ_BUFFER_RECT);
    clReleaseMemObject(a), clReleaseMemObject(b);
    free(host), free(back), free(expected_back), free(first), free(second), free(whole);
}

/* Two threads' worth of columns of the same rows, under way at the same time, do not disturb each other. */
static void interleaved(cl_command_queue queue)
{
    enum { W = 1000, ROWS = 1500 };
    size_t zero[3] = {0, 0, 0}, right[3] = {W / 2, 0, 0}, region[3] = {W / 2, ROWS, 1};
    unsigned char *host = filled(W * ROWS, 5), *back = calloc(1, W * ROWS);
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, W * ROWS, NULL);
    cl_event e[2];
    CHECK(clEnqueueWriteBufferRect(queue, buffer, CL_FALSE, zero, zero, region, W, 0, W, 0, host, 0, NULL, NULL));
    CHECK(clEnqueueWriteBufferRect(queue, buffer, CL_FALSE, right, right, region, W, 0, W, 0, host, 0, NULL, NULL));
    CHECK(clEnqueueReadBufferRect(queue, buffer, CL_FALSE, zero, zero, region, W, 0, W, 0, back, 0, NULL, &e[0]));
    CHECK(clEnqueueReadBufferRect(queue, buffer, CL_FALSE, right, right, region, W, 0, W, 0, back, 0, NULL, &e[1]));
    CHECK(clWaitForEvents(2, e));
    REQUIRE(memcmp(host, back, W * ROWS) == 0);
    /* A read into memory that a later write takes its bytes from. */
    cl_mem other = buffer_of(CL_MEM_READ_WRITE, W * ROWS, NULL);
    memset(back, 0, W * ROWS);
    size_t all[3] = {W, ROWS, 1};
    CHECK(clEnqueueReadBufferRect(queue, buffer, CL_FALSE, zero, zero, all, 0, 0, 0, 0, back, 0, NULL, NULL));
    CHECK(clEnqueueWriteBufferRect(queue, other, CL_FALSE, zero, zero, all, 0, 0, 0, 0, back, 0, NULL, NULL));
    unsigned char *last = malloc(W * ROWS);
    CHECK(clEnqueueReadBuffer(queue, other, CL_TRUE, 0, W * ROWS, last, 0, NULL, NULL));
    REQUIRE(memcmp(host, last, W * ROWS) == 0);
    clReleaseMemObject(buffer), clReleaseMemObject(other), clReleaseEvent(e[0]), clReleaseEvent(e[1]);
    free(host), free(back), free(last);
}

/* Within one buffer: side by side and one below the other. */
static void within_one(cl_command_queue queue)
{
    enum { W = 64, ROWS = 32 };
    unsigned char *host = filled(W * ROWS, 6), *back = malloc(W * ROWS);
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, W * ROWS, host);
    size_t from[3] = {0, 0, 0}, beside[3] = {20, 0, 0}, below[3] = {5, 16, 0}, region[3] = {20, 16, 1};
    CHECK(clEnqueueCopyBufferRect(queue, buffer, buffer, from, beside, region, W, 0, W, 0, 0, NULL, NULL));
    CHECK(clEnqueueCopyBufferRect(queue, buffer, buffer, from, below, region, W, 0, W, 0, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, W * ROWS, back, 0, NULL, NULL));
    for (int y = 0; y < 16; y++) {
        memcpy(host + y * W + 20, host + y * W, 20);
        memcpy(host + (y + 16) * W + 5, host + y * W, 20);
    }
    REQUIRE(memcmp(host, back, W * ROWS) == 0);
    clReleaseMemObject(buffer);
    free(host), free(back);
}

int main(void)
{
    open_device();
    cl_command_queue queues[2] = {open_queue(0), open_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)};
    static const size_t shapes[][3] = {{1, 1, 1},     {16, 1, 1},      {1, 16, 1},     {1, 1, 16},
                                       {7, 5, 3},     {64, 64, 64},    {1024, 256, 1}, {1024, 257, 1},
                                       {3, 1000, 91}, {300000, 1, 2},  {700, 700, 3},  {2000000, 1, 1},
                                       {13, 7, 9000}, {1 << 20, 2, 2}};
    for (int q = 0; q < 2; q++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int n = 0; n < 2; n++)
                round_trip(queues[q], shapes[s], n % 2 ? CL_TRUE : CL_FALSE);
    puts("every shape comes and goes");
    interleaved(queues[0]);
    within_one(queues[0]);
    puts("done");
    return 0;
}
