/* Maps of what has not changed since it was last at the client. "idle N", "busy N", "changed N" and "written N" map a
 * buffer N times: with nothing in between, behind a kernel that writes another buffer, behind one that writes this one,
 * and written through a map each time. "random SEED STEPS" maps, unmaps, writes, copies, fills and launches at random
 * on buffers and sub-buffers over all devices of one context, and checks each word that it sees. */
#include "at_random.h"

static const char *SOURCE = "__kernel void add(__global int *x, int n) { x[get_global_id(0)] += n; }\n"
                            "__kernel void sum(__global const int *x, __global int *to) {\n"
                            "    to[get_global_id(0)] += x[get_global_id(0)]; }\n";

enum { WORDS = 1 << 18, BYTES = WORDS * 4 };

static void counted(const char *mode, int count)
{
    cl_command_queue queue = open_queue(0);
    cl_kernel kernel = kernel_of(build(SOURCE, NULL), "add");
    static int words[WORDS];
    for (int i = 0; i < WORDS; i++)
        words[i] = i;
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, BYTES, words), other = buffer_of(CL_MEM_COPY_HOST_PTR, BYTES, words);
    int one = 1, changed = strcmp(mode, "changed") == 0, written = strcmp(mode, "written") == 0, first = 0;
    set_arg(kernel, 0, sizeof(cl_mem), changed ? &buffer : &other);
    set_arg(kernel, 1, sizeof one, &one);
    for (int i = 0; i <= count; i++) {
        int *seen;
        if (strcmp(mode, "busy") == 0 || changed)
            launch(queue, kernel, 1, 0, NULL, NULL);
        if (written) {
            MAKE(seen, clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, 4, 0, NULL, NULL,
                                          &status));
            seen[0] = i + 1;
            CHECK(clEnqueueUnmapMemObject(queue, buffer, seen, 0, NULL, NULL));
        }
        if (written || changed)
            first = i + 1;
        MAKE(seen, clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, BYTES, 0, NULL, NULL, &status));
        REQUIRE(seen[0] == first && seen[1] == 1 && seen[WORDS - 1] == WORDS - 1);
        CHECK(clEnqueueUnmapMemObject(queue, buffer, seen, 0, NULL, NULL));
    }
}

enum { STORAGES = 3, SIZE = 1024, OBJECTS = 4 * STORAGES, MAPS = 3 };

/* A buffer or a sub-buffer, in words. */
static struct object {
    cl_mem memory;
    int storage, offset, size;
} objects[OBJECTS];

static int model[STORAGES][SIZE], scratch[SIZE];
static struct map {
    struct object *object;
    int *at, offset, size;
} maps[MAPS];
static unsigned map_count;

static int *words_of(const struct object *object, int offset)
{
    return model[object->storage] + object->offset + offset;
}

static void check(const struct object *object, int offset, int size, const int *seen)
{
    for (int i = 0; i < size; i++)
        if (seen[i] != words_of(object, offset)[i]) {
            printf("storage %d, word %d: %d instead of %d\n", object->storage, object->offset + offset + i, seen[i],
                   words_of(object, offset)[i]);
            exit(1);
        }
}

static void unmap(unsigned which)
{
    cl_event event;
    struct map *map = &maps[which];
    check(map->object, map->offset, map->size, map->at);
    cl_event *wanted = draw(2) ? &event : NULL;
    CHECK(clEnqueueUnmapMemObject(queues[draw(queue_count)], map->object->memory, map->at, waits(), list(), wanted));
    if (wanted)
        after(event);
    *map = maps[--map_count];
}

/* Before something writes to a storage, nothing of it may be mapped. */
static void let_go(int storage)
{
    for (unsigned i = map_count; i-- > 0;)
        if (maps[i].object->storage == storage)
            unmap(i);
}

static int *mapped(cl_command_queue queue, struct object *object, cl_map_flags flags, int offset, int size)
{
    int *at, blocking = (int)draw(3);
    cl_event event = NULL, *wanted = blocking < 2 ? &event : NULL;
    MAKE(at, clEnqueueMapBuffer(queue, object->memory, blocking != 0, flags, (size_t)offset * 4, (size_t)size * 4, waits(),
                                list(), wanted, &status));
    if (blocking == 0)
        CHECK(clWaitForEvents(1, &event));
    if (event)
        after(event);
    return at;
}

static void step(cl_kernel add, cl_kernel sum)
{
    cl_command_queue queue = queues[draw(queue_count)];
    struct object *object = &objects[draw(OBJECTS)], *from = &objects[draw(OBJECTS)];
    int offset = (int)draw((unsigned)object->size), size = 1 + (int)draw((unsigned)(object->size - offset));
    int n = (int)draw(1000), *at;
    cl_event event = NULL;
    switch (draw(10)) {
    case 0:
        let_go(object->storage);
        set_arg(add, 0, sizeof(cl_mem), &object->memory);
        set_arg(add, 1, sizeof n, &n);
        launch(queue, add, (size_t)object->size, waits(), list(), &event);
        for (int i = 0; i < object->size; i++)
            words_of(object, 0)[i] += n;
        break;
    case 1:
        if (from->storage == object->storage || from->size < object->size)
            return;
        let_go(object->storage);
        set_arg(sum, 0, sizeof(cl_mem), &from->memory);
        set_arg(sum, 1, sizeof(cl_mem), &object->memory);
        launch(queue, sum, (size_t)object->size, waits(), list(), &event);
        for (int i = 0; i < object->size; i++)
            words_of(object, 0)[i] += words_of(from, 0)[i];
        break;
    case 2:
        let_go(object->storage);
        for (int i = 0; i < size; i++)
            scratch[i] = words_of(object, offset)[i] = n + i;
        CHECK(clEnqueueWriteBuffer(queue, object->memory, CL_TRUE, (size_t)offset * 4, (size_t)size * 4, scratch, waits(),
                                   list(), &event));
        break;
    case 3:
        if (from->storage == object->storage || from->size < size)
            return;
        let_go(object->storage);
        CHECK(clEnqueueCopyBuffer(queue, from->memory, object->memory, 0, (size_t)offset * 4, (size_t)size * 4, waits(),
                                  list(), &event));
        memcpy(words_of(object, offset), words_of(from, 0), (size_t)size * 4);
        break;
    case 4:
        let_go(object->storage);
        CHECK(clEnqueueFillBuffer(queue, object->memory, &n, sizeof n, (size_t)offset * 4, (size_t)size * 4, waits(),
                                  list(), &event));
        for (int i = 0; i < size; i++)
            words_of(object, offset)[i] = n;
        break;
    case 5: {
        static const cl_map_flags FLAGS[] = {CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION};
        cl_map_flags flags = FLAGS[draw(3)];
        let_go(object->storage);
        at = mapped(queue, object, flags, offset, size);
        if (flags != CL_MAP_WRITE_INVALIDATE_REGION)
            check(object, offset, size, at);
        for (int i = 0; i < size; i++)
            if (flags == CL_MAP_WRITE_INVALIDATE_REGION || draw(2))
                at[i] = words_of(object, offset)[i] = n + i;
        CHECK(clEnqueueUnmapMemObject(queues[draw(queue_count)], object->memory, at, waits(), list(), &event));
        break;
    }
    case 6:
        CHECK(clFinish(queue));
        return;
    case 7:
        if (map_count > 0)
            unmap(draw(map_count));
        return;
    default:
        if (map_count == MAPS)
            unmap(draw(MAPS));
        at = mapped(queue, object, CL_MAP_READ, offset, size);
        check(object, offset, size, at);
        maps[map_count++] = (struct map){object, at, offset, size};
        return;
    }
    after(event);
}

static void random_steps(int steps)
{
    cl_program program = open_all(SOURCE);
    cl_kernel add = kernel_of(program, "add"), sum = kernel_of(program, "sum");
    for (int i = 0; i < OBJECTS; i++) {
        int storage = i / 4, part = i % 4;
        /* A quarter, a half from the middle on, and one that overlaps both. */
        static const int OFFSET[] = {0, 0, SIZE / 2, SIZE / 8}, LENGTH[] = {SIZE, SIZE / 4, SIZE / 2, SIZE / 2};
        objects[i] = (struct object){.storage = storage, .offset = OFFSET[part], .size = LENGTH[part]};
        cl_buffer_region region = {(size_t)OFFSET[part] * 4, (size_t)LENGTH[part] * 4};
        if (part == 0)
            objects[i].memory = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof model[0], model[storage]);
        else
            MAKE(objects[i].memory, clCreateSubBuffer(objects[4 * storage].memory, 0, CL_BUFFER_CREATE_TYPE_REGION, &region,
                                                      &status));
    }
    for (int i = 0; i < steps; i++)
        step(add, sum);
    for (int i = 0; i < STORAGES; i++) {
        CHECK(clEnqueueReadBuffer(queues[0], objects[4 * i].memory, CL_TRUE, 0, sizeof scratch, scratch, waits(), list(),
                                  NULL));
        check(&objects[4 * i], 0, SIZE, scratch);
    }
    while (map_count > 0)
        unmap(0);
}

int main(int argc, char **argv) { return as_asked(argc, argv, counted, random_steps); }
