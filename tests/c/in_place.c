/* Buffers whose memory the program sees as well. "writes N", "reads N", "maps N" and "launches N" use buffers of 1 MiB and of
 * one word N times; "random SEED STEPS" reads, writes, maps, copies, fills, launches, makes and releases at random, with
 * and without waiting, on queues of all kinds over all devices of one context, and checks each word that it sees. */
#include "at_random.h"

static const char *SOURCE = "__kernel void add(__global int *x, int n) { x[get_global_id(0)] += n; }\n";

enum { WORDS = 1 << 18, BYTES = WORDS * 4 };

enum { LONGEST = 300000 };

static int words[WORDS], seen[LONGEST];

static void counted(const char *mode, int count)
{
    cl_command_queue queue = open_queue(0);
    cl_kernel kernel = kernel_of(build(SOURCE, NULL), "add");
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, BYTES, words), word = buffer_of(CL_MEM_COPY_HOST_PTR, 4, words);
    cl_buffer_region half = {BYTES / 2, BYTES / 2};
    cl_mem part;
    MAKE(part, clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &status));
    int one = 1;
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof one, &one);
    /* From here on it is known where they are. */
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, BYTES, seen, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, word, CL_TRUE, 0, 4, seen, 0, NULL, NULL));
    for (int i = 1; i <= count; i++) {
        if (strcmp(mode, "launches") == 0) {
            launch(queue, kernel, 1, 0, NULL, NULL);
            CHECK(clFinish(queue));
            CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, seen, 0, NULL, NULL));
            REQUIRE(seen[0] == i);
            continue;
        }
        words[0] = words[WORDS / 2] = words[WORDS - 1] = i;
        if (strcmp(mode, "maps") == 0) {
            int *at;
            MAKE(at, clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, BYTES, 0, NULL, NULL, &status));
            REQUIRE(at[WORDS / 2] == i - 1);
            at[WORDS / 2] = i;
            CHECK(clEnqueueUnmapMemObject(queue, buffer, at, 0, NULL, NULL));
            MAKE(at, clEnqueueMapBuffer(queue, part, CL_TRUE, CL_MAP_READ, 0, 4, 0, NULL, NULL, &status));
            REQUIRE(at[0] == i);
            CHECK(clEnqueueUnmapMemObject(queue, part, at, 0, NULL, NULL));
            continue;
        }
        int reads = strcmp(mode, "reads") == 0;
        CHECK(clEnqueueWriteBuffer(queue, buffer, i % 2, 0, BYTES, words, 0, NULL, NULL));
        CHECK(clEnqueueWriteBuffer(queue, word, CL_TRUE, 0, 4, words, 0, NULL, NULL));
        if (!reads)
            continue;
        memset(seen, 0, BYTES);
        CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, BYTES, seen, 0, NULL, NULL));
        REQUIRE(memcmp(seen, words, BYTES) == 0);
        CHECK(clEnqueueReadBuffer(queue, part, CL_TRUE, 0, 4, seen, 0, NULL, NULL));
        REQUIRE(seen[0] == i);
        CHECK(clEnqueueReadBuffer(queue, word, CL_TRUE, 0, 4, seen, 0, NULL, NULL));
        REQUIRE(seen[0] == i);
    }
}

enum { BUFFERS = 6 };

/* A buffer, with what it has to hold. */
static struct buffer {
    cl_mem memory;
    int size, *model;
} buffers[BUFFERS];


static void renew(struct buffer *buffer)
{
    static const int SIZES[] = {1, 7, 63, 1024, 5000, 70000, LONGEST};
    if (buffer->memory)
        CHECK(clReleaseMemObject(buffer->memory));
    free(buffer->model);
    buffer->size = SIZES[draw(sizeof SIZES / sizeof *SIZES)];
    buffer->model = malloc((size_t)buffer->size * 4);
    for (int i = 0; i < buffer->size; i++)
        buffer->model[i] = (int)draw(1000);
    cl_mem_flags flags = CL_MEM_COPY_HOST_PTR | (draw(3) ? 0 : CL_MEM_ALLOC_HOST_PTR);
    MAKE(buffer->memory, clCreateBuffer(context, flags, (size_t)buffer->size * 4, buffer->model, &status));
}

static void step(cl_kernel add)
{
    struct buffer *buffer = &buffers[draw(BUFFERS)];
    cl_command_queue queue = queues[draw(queue_count)];
    int offset = (int)draw((unsigned)buffer->size), size = 1 + (int)draw((unsigned)(buffer->size - offset));
    size_t at = (size_t)offset * 4, bytes = (size_t)size * 4;
    int n = (int)draw(1000), quiet = draw(2) == 0, *mapped;
    static int host[LONGEST];
    cl_event event = NULL;
    /* Where all has ended, a command needs no event for the next one to come after it, if it is waited for. */
    if (quiet)
        settle();
    cl_event *wanted = quiet && draw(3) ? NULL : &event;
    switch (draw(8)) {
    case 0:
    case 1:
        for (int i = 0; i < size; i++)
            host[i] = buffer->model[offset + i] = n + i;
        CHECK(clEnqueueWriteBuffer(queue, buffer->memory, CL_TRUE, at, bytes, host, waits(), list(), wanted));
        memset(host, 0xee, bytes);
        break;
    case 2:
    case 3:
        memset(host, 0xee, bytes);
        CHECK(clEnqueueReadBuffer(queue, buffer->memory, CL_TRUE, at, bytes, host, waits(), list(), wanted));
        REQUIRE(memcmp(host, buffer->model + offset, bytes) == 0);
        break;
    case 4: {
        cl_map_flags flags = (cl_map_flags[]){CL_MAP_READ, CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE,
                                              CL_MAP_WRITE_INVALIDATE_REGION}[draw(4)];
        MAKE(mapped, clEnqueueMapBuffer(queue, buffer->memory, CL_TRUE, flags, at, bytes, waits(), list(), NULL, &status));
        if (flags != CL_MAP_WRITE_INVALIDATE_REGION)
            REQUIRE(memcmp(mapped, buffer->model + offset, bytes) == 0);
        for (int i = 0; flags != CL_MAP_READ && i < size; i++)
            if (flags == CL_MAP_WRITE_INVALIDATE_REGION || draw(2))
                mapped[i] = buffer->model[offset + i] = n + i;
        CHECK(clEnqueueUnmapMemObject(queues[draw(queue_count)], buffer->memory, mapped, waits(), list(), &event));
        break;
    }
    case 5:
        CHECK(clEnqueueFillBuffer(queue, buffer->memory, &n, sizeof n, at, bytes, waits(), list(), &event));
        for (int i = 0; i < size; i++)
            buffer->model[offset + i] = n;
        break;
    case 6:
        set_arg(add, 0, sizeof(cl_mem), &buffer->memory);
        set_arg(add, 1, sizeof n, &n);
        CHECK(clEnqueueNDRangeKernel(queue, add, 1, NULL, &(size_t){(size_t)buffer->size}, NULL, waits(), list(), &event));
        for (int i = 0; i < buffer->size; i++)
            buffer->model[i] += n;
        break;
    default:
        renew(buffer);
        return;
    }
    if (event)
        after(event);
}

static void random_steps(int steps)
{
    cl_kernel add = kernel_of(open_all(SOURCE), "add");
    for (int i = 0; i < BUFFERS; i++)
        renew(&buffers[i]);
    for (int i = 0; i < steps; i++)
        step(add);
    settle();
    for (int i = 0; i < BUFFERS; i++) {
        CHECK(clEnqueueReadBuffer(queues[0], buffers[i].memory, CL_TRUE, 0, (size_t)buffers[i].size * 4, seen, 0, NULL, NULL));
        REQUIRE(memcmp(seen, buffers[i].model, (size_t)buffers[i].size * 4) == 0);
    }
}

int main(int argc, char **argv) { return as_asked(argc, argv, counted, random_steps); }
