/* Shared virtual memory whose pages the program and the device both have. "maps N", "parts N", "copies N" and "launches N" use
 * 1 MiB of it N times; "renewed N" allocates, fills and frees 16 MiB of it N times, in three ways; "random SEED STEPS" maps,
 * copies, fills, launches, allocates and frees at random, also through buffers over it, with and without waiting, on queues of
 * all kinds over all devices of one context, and checks each word that it sees. */
#include "at_random.h"

static const char *SOURCE = "__kernel void add(__global int *x, int n) { x[get_global_id(0)] += n; }\n";

enum { WORDS = 1 << 18, BYTES = WORDS * 4, LARGE = 16 << 20, LONGEST = 300000 };

static int host[LONGEST];

static int *allocate(size_t bytes)
{
    int *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, bytes, 0);
    REQUIRE(memory != NULL);
    return memory;
}

static void map(cl_command_queue queue, cl_map_flags flags, int *at, size_t bytes)
{
    CHECK(clEnqueueSVMMap(queue, CL_TRUE, flags, at, bytes, 0, NULL, NULL));
}

static void unmap(cl_command_queue queue, int *at) { CHECK(clEnqueueSVMUnmap(queue, at, 0, NULL, NULL)); }

/* Allocates, and frees by each of the functions there are, before and after what uses it has ended. */
static void renewed(cl_command_queue queue, int count)
{
    for (int i = 0; i < count; i++) {
        int *memory = allocate(LARGE);
        void *freed = memory;
        CHECK(clEnqueueSVMMemFill(queue, memory, &i, sizeof i, LARGE, 0, NULL, NULL));
        map(queue, CL_MAP_READ | CL_MAP_WRITE, memory, LARGE);
        REQUIRE(memory[0] == i && memory[LARGE / 4 - 1] == i);
        memory[1] = -i;
        unmap(queue, memory);
        if (i % 3 == 0)
            CHECK(clFinish(queue));
        if (i % 3 != 1)
            clSVMFree(context, memory);
        else
            CHECK(clEnqueueSVMFree(queue, 1, &freed, NULL, NULL, 0, NULL, NULL));
    }
    CHECK(clFinish(queue));
    printf("freed\n");
    fflush(stdout);
    char line[16];
    REQUIRE(fgets(line, sizeof line, stdin) != NULL);
}

static void counted(const char *mode, int count)
{
    cl_command_queue queue = open_queue(0);
    if (strcmp(mode, "renewed") == 0) {
        renewed(queue, count);
        return;
    }
    cl_kernel kernel = kernel_of(build(SOURCE, NULL), "add");
    int *memory = allocate(BYTES), one = 1, zero = 0;
    CHECK(clSetKernelArgSVMPointer(kernel, 0, memory));
    set_arg(kernel, 1, sizeof one, &one);
    CHECK(clEnqueueSVMMemFill(queue, memory, &zero, sizeof zero, BYTES, 0, NULL, NULL));
    cl_mem part;
    MAKE(part, clCreateBuffer(context, CL_MEM_USE_HOST_PTR, BYTES / 2, memory + WORDS / 2, &status));
    CHECK(clFinish(queue));
    /* From here on it is known where the buffer is. */
    CHECK(clEnqueueReadBuffer(queue, part, CL_TRUE, 0, BYTES / 2, host, 0, NULL, NULL));
    for (int i = 1; i <= count; i++) {
        if (strcmp(mode, "launches") == 0) {
            launch(queue, kernel, WORDS, 0, NULL, NULL);
            CHECK(clFinish(queue));
            map(queue, CL_MAP_READ, memory, BYTES);
            REQUIRE(memory[0] == i && memory[WORDS - 1] == i);
            unmap(queue, memory);
        } else if (strcmp(mode, "maps") == 0) {
            map(queue, CL_MAP_READ | CL_MAP_WRITE, memory, BYTES);
            REQUIRE(memory[WORDS / 2] == i - 1);
            memory[WORDS / 2] = i;
            unmap(queue, memory);
            map(queue, CL_MAP_WRITE_INVALIDATE_REGION, memory + 7, 4);
            memory[7] = i;
            unmap(queue, memory + 7);
        } else if (strcmp(mode, "parts") == 0) {
            int *at;
            MAKE(at, clEnqueueMapBuffer(queue, part, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 4, 4, 0, NULL, NULL, &status));
            REQUIRE(at == memory + WORDS / 2 + 1 && *at == i - 1);
            *at = i;
            CHECK(clEnqueueUnmapMemObject(queue, part, at, 0, NULL, NULL));
        } else {
            REQUIRE(strcmp(mode, "copies") == 0);
            host[0] = host[WORDS - 1] = i;
            CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, memory, host, BYTES, 0, NULL, NULL));
            memset(host, 0xee, BYTES);
            CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, host, memory, BYTES, 0, NULL, NULL));
            REQUIRE(host[0] == i && host[WORDS - 1] == i);
        }
    }
}

enum { PIECES = 6, ALIGNED = 64 };

/* An allocation, with what it has to hold, and a buffer over what follows its first words. */
static struct piece {
    int *memory, size, *model, first;
    cl_mem over;
} pieces[PIECES];

static void renew(struct piece *piece)
{
    static const int SIZES[] = {1, 7, 1024, 1025, 5000, 70000, LONGEST};
    void *freed = piece->memory;
    if (piece->over)
        CHECK(clReleaseMemObject(piece->over));
    if (freed && draw(2)) {
        cl_event event;
        CHECK(clEnqueueSVMFree(queues[draw(queue_count)], 1, &freed, NULL, NULL, waits(), list(), &event));
        after(event);
    } else if (freed) {
        settle();
        clSVMFree(context, freed);
    }
    free(piece->model);
    piece->over = NULL;
    piece->size = SIZES[draw(sizeof SIZES / sizeof *SIZES)];
    piece->memory = allocate((size_t)piece->size * 4);
    piece->model = malloc((size_t)piece->size * 4);
    for (int i = 0; i < piece->size; i++)
        host[i] = piece->model[i] = (int)draw(1000);
    CHECK(clEnqueueSVMMemcpy(queues[draw(queue_count)], CL_TRUE, piece->memory, host, (size_t)piece->size * 4, waits(), list(),
                             NULL));
    piece->first = piece->size > ALIGNED ? (int)draw((unsigned)(piece->size / ALIGNED)) * ALIGNED : 0;
    if (draw(2))
        MAKE(piece->over, clCreateBuffer(context, CL_MEM_USE_HOST_PTR, (size_t)(piece->size - piece->first) * 4,
                                         piece->memory + piece->first, &status));
}

/* Reads, writes, or maps a piece by the buffer over it. */
static void through_buffer(cl_command_queue queue, struct piece *piece, int n, cl_event *event)
{
    int size = 1 + (int)draw((unsigned)(piece->size - piece->first)), *model = piece->model + piece->first, *mapped;
    size_t bytes = (size_t)size * 4;
    switch (draw(3)) {
    case 0:
        for (int i = 0; i < size; i++)
            host[i] = model[i] = n - i;
        CHECK(clEnqueueWriteBuffer(queue, piece->over, CL_TRUE, 0, bytes, host, waits(), list(), event));
        break;
    case 1:
        CHECK(clEnqueueReadBuffer(queue, piece->over, CL_TRUE, 0, bytes, host, waits(), list(), event));
        REQUIRE(memcmp(host, model, bytes) == 0);
        break;
    default:
        MAKE(mapped, clEnqueueMapBuffer(queue, piece->over, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, waits(), list(), NULL,
                                        &status));
        REQUIRE(memcmp(mapped, model, bytes) == 0);
        mapped[size - 1] = model[size - 1] = n;
        CHECK(clEnqueueUnmapMemObject(queues[draw(queue_count)], piece->over, mapped, waits(), list(), event));
    }
}

static void step(cl_kernel add)
{
    struct piece *piece = &pieces[draw(PIECES)], *from = &pieces[draw(PIECES)];
    cl_command_queue queue = queues[draw(queue_count)];
    int offset = (int)draw((unsigned)piece->size), size = 1 + (int)draw((unsigned)(piece->size - offset));
    int n = (int)draw(1000), quiet = draw(2) == 0, *at = piece->memory + offset, *model = piece->model + offset;
    size_t bytes = (size_t)size * 4;
    cl_event event = NULL;
    /* Where all has ended, a command needs no event for the next one to come after it, if it is waited for. */
    if (quiet)
        settle();
    cl_event *wanted = quiet && draw(3) ? NULL : &event;
    switch (draw(9)) {
    case 0:
        for (int i = 0; i < size; i++)
            host[i] = model[i] = n + i;
        CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, at, host, bytes, waits(), list(), wanted));
        memset(host, 0xee, bytes);
        break;
    case 1:
        memset(host, 0xee, bytes);
        CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, host, at, bytes, waits(), list(), wanted));
        REQUIRE(memcmp(host, model, bytes) == 0);
        break;
    case 2:
    case 3: {
        cl_map_flags flags = (cl_map_flags[]){CL_MAP_READ, CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE,
                                              CL_MAP_WRITE_INVALIDATE_REGION}[draw(4)];
        int blocking = draw(2) || !wanted;
        CHECK(clEnqueueSVMMap(queue, blocking ? CL_TRUE : CL_FALSE, flags, at, bytes, waits(), list(), wanted));
        if (!blocking)
            CHECK(clWaitForEvents(1, &event));
        if (event)
            after(event);
        if (flags != CL_MAP_WRITE_INVALIDATE_REGION)
            REQUIRE(memcmp(at, model, bytes) == 0);
        for (int i = 0; flags != CL_MAP_READ && i < size; i++)
            if (flags == CL_MAP_WRITE_INVALIDATE_REGION || draw(2))
                at[i] = model[i] = n + i;
        CHECK(clEnqueueSVMUnmap(queues[draw(queue_count)], at, waits(), list(), &event));
        break;
    }
    case 4:
        CHECK(clEnqueueSVMMemFill(queue, at, &n, sizeof n, bytes, waits(), list(), &event));
        for (int i = 0; i < size; i++)
            model[i] = n;
        break;
    case 5:
        CHECK(clSetKernelArgSVMPointer(add, 0, at));
        set_arg(add, 1, sizeof n, &n);
        launch(queue, add, (size_t)size, waits(), list(), &event);
        for (int i = 0; i < size; i++)
            model[i] += n;
        break;
    case 6:
        if (from == piece || from->size < size)
            return;
        CHECK(clEnqueueSVMMemcpy(queue, CL_FALSE, at, from->memory, bytes, waits(), list(), &event));
        memcpy(model, from->model, bytes);
        break;
    case 7:
        if (!piece->over)
            return;
        through_buffer(queue, piece, n, &event);
        break;
    default:
        renew(piece);
        return;
    }
    if (event)
        after(event);
}

static void random_steps(int steps)
{
    cl_kernel add = kernel_of(open_all(SOURCE), "add");
    for (int i = 0; i < PIECES; i++)
        renew(&pieces[i]);
    for (int i = 0; i < steps; i++)
        step(add);
    settle();
    for (int i = 0; i < PIECES; i++) {
        size_t bytes = (size_t)pieces[i].size * 4;
        map(queues[0], CL_MAP_READ, pieces[i].memory, bytes);
        REQUIRE(memcmp(pieces[i].memory, pieces[i].model, bytes) == 0);
        unmap(queues[0], pieces[i].memory);
    }
    settle();
    for (int i = 0; i < PIECES; i++) {
        if (pieces[i].over)
            CHECK(clReleaseMemObject(pieces[i].over));
        clSVMFree(context, pieces[i].memory);
    }
}

int main(int argc, char **argv) { return as_asked(argc, argv, counted, random_steps); }
