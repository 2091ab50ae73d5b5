/* Commands of random.c that use buffers and parts of them. */
#ifndef RANDOM_BUFFERS_H
#define RANDOM_BUFFERS_H
#include "random_model.h"

enum { BUFFERS = 6, SIZED = 1 };

typedef cl_int(CL_API_CALL *set_content_size_fn)(cl_mem buffer, cl_mem content_size_buffer);

static const char *SOURCE =
    "kernel void blend(global uint *to, global const uint *from, uint key, uint n) {\n"
    "    size_t i = get_global_id(0); if (i < n) to[i] = to[i] * 1664525u + from[(i * 7u + key) % n] + key; }\n"
    "kernel void add(global uint *to, uint key, uint n) { if (get_global_id(0) < n) to[get_global_id(0)] += key; }\n"
    "kernel void size(global ulong *to, ulong n) { to[0] = n; }\n";

/* The last SIZED buffers have a size in a buffer of its own, behind them. */
static Object buffers[BUFFERS + SIZED];
static cl_uint buffer_count = BUFFERS;
static cl_kernel blend, add, size;
static size_t words, alignment;
static set_content_size_fn set_content_size;
/* Buffers have fewer parts than this. */
static size_t most_parts;
/* Whether rectangles are copied between parts of buffers. */
static int with_part_rects = 1;

/* A buffer with contents, or with none that are known, and parts of it. */
static void make_buffer(Object *object, size_t n, cl_uint parts)
{
    memset(object, 0, sizeof *object);
    object->words = object->limit = n;
    object->model = malloc(n * sizeof(cl_uint));
    object->known = calloc(n, 1);
    Place all = line(0, n);
    cl_uint *host = host_for(&all);
    int has_contents = roll(2) == 0;
    cl_mem_flags flags = CL_MEM_READ_WRITE | (roll(4) ? 0 : CL_MEM_ALLOC_HOST_PTR) | (has_contents ? CL_MEM_COPY_HOST_PTR : 0);
    object->memory = buffer_of(flags, n * 4, has_contents ? host : NULL);
    if (has_contents)
        define_all(object, &all, host, &all);
    free(host);
    size_t each = parts ? n / parts / alignment * alignment : 0;
    object->parts = each ? parts : 0;
    for (cl_uint i = 0; i < object->parts; i++) {
        cl_buffer_region region = {each * i * 4, (each - roll(each)) * 4};
        object->part[i].first = each * i;
        object->part[i].words = region.size / 4;
        MAKE(object->part[i].memory, clCreateSubBuffer(object->memory, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
    }
}

static void drop_access(Access *access)
{
    for (cl_uint i = 0; i < access->reading; i++)
        DO(clReleaseEvent(access->readers[i].event));
    if (access->writer.event)
        DO(clReleaseEvent(access->writer.event));
}

/* Releases an object, whatever of it is still under way. */
static void drop(Object *object)
{
    while (object->mapped)
        unmap(object, object->mapped - 1);
    for (cl_uint i = 0; i <= object->parts; i++) {
        drop_access(&object->part[i].access);
        if (object->part[i].memory)
            DO(clReleaseMemObject(object->part[i].memory));
    }
    DO(clReleaseMemObject(object->memory));
    free(object->model);
    free(object->known);
}

/* A buffer or one of its parts. */
typedef struct {
    Object *object;
    cl_mem memory;
    cl_uint part;
    size_t first, words;
} Target;

static Target all_of(Object *object)
{
    return (Target){object, object->memory, WHOLE, 0, object->words};
}

static Target target_of(Object *object)
{
    Target target = all_of(object);
    if (object->parts && roll(2)) {
        target.part = (cl_uint)roll(object->parts);
        target.memory = object->part[target.part].memory;
        target.first = object->part[target.part].first;
        target.words = object->part[target.part].words;
    }
    return target;
}

/* Two of different buffers. */
static void pick_two(Target *to, Target *from)
{
    size_t one = roll(buffer_count), other = (one + 1 + roll(buffer_count - 1)) % buffer_count;
    *to = target_of(&buffers[one]);
    *from = target_of(&buffers[other]);
}

/* The same place in the whole buffer. */
static Place within(const Target *target, Place at)
{
    at.start += target->first;
    return at;
}

/* Some words of a target, in a row. */
static Place some_of(const Target *target)
{
    size_t start = roll(target->words), most = target->words - start;
    return line(start, 1 + roll(roll(2) ? most : most < 64 ? most : 64));
}

/* Groups are of one size: PoCL compiles a kernel for each size that it meets. */
static const size_t GROUP = 64;

static size_t in_groups(size_t items)
{
    return (items + GROUP - 1) / GROUP * GROUP;
}

static void blend_buffers(void)
{
    Command command;
    Target to, from;
    cl_event event;
    begin(&command, "kernel of two buffers");
    pick_two(&to, &from);
    cl_uint key = bits(), n = (cl_uint)(to.words < from.words ? to.words : from.words);
    size_t items = in_groups(n);
    use(&command, to.object, to.part, 1);
    use(&command, from.object, from.part, 0);
    set_arg(blend, 0, sizeof to.memory, &to.memory);
    set_arg(blend, 1, sizeof from.memory, &from.memory);
    set_arg(blend, 2, sizeof key, &key);
    set_arg(blend, 3, sizeof n, &n);
    DO(clEnqueueNDRangeKernel(queue_of(&command), blend, 1, NULL, &items, &GROUP, command.count, list_of(&command), &event));
    for (size_t i = 0; i < n; i++) {
        size_t word = to.first + i, source = from.first + (i * 7 + key) % n;
        cl_uint value = to.object->model[word] * 1664525u + from.object->model[source] + key;
        define(to.object, word, value, to.object->known[word] && from.object->known[source]);
    }
    end(&command, event);
}

static void add_to_buffer(void)
{
    Command command;
    cl_event event;
    cl_uint key = bits();
    begin(&command, "kernel of one buffer");
    Target to = target_of(&buffers[roll(buffer_count)]);
    cl_uint n = 1 + (cl_uint)roll(to.words);
    size_t items = in_groups(n);
    use(&command, to.object, to.part, 1);
    set_arg(add, 0, sizeof to.memory, &to.memory);
    set_arg(add, 1, sizeof key, &key);
    set_arg(add, 2, sizeof n, &n);
    DO(clEnqueueNDRangeKernel(queue_of(&command), add, 1, NULL, &items, &GROUP, command.count, list_of(&command), &event));
    for (size_t i = 0; i < n; i++)
        define(to.object, to.first + i, to.object->model[to.first + i] + key, to.object->known[to.first + i]);
    end(&command, event);
}

static void copy_buffer(void)
{
    Command command;
    Target to, from;
    cl_event event;
    begin(&command, "copy");
    pick_two(&to, &from);
    Place target = some_of(&to), source = some_of(&from);
    size_t n = words_of(&target) < words_of(&source) ? words_of(&target) : words_of(&source);
    target = line(target.start, n), source = line(source.start, n);
    use(&command, to.object, to.part, 1);
    use(&command, from.object, from.part, 0);
    DO(clEnqueueCopyBuffer(queue_of(&command), from.memory, to.memory, source.start * 4, target.start * 4, n * 4, command.count,
                           list_of(&command), &event));
    target = within(&to, target), source = within(&from, source);
    model_copy(to.object, &target, from.object, &source);
    end(&command, event);
}

static void fill_buffer(void)
{
    Command command;
    cl_event event;
    cl_uint pattern[4] = {bits(), bits(), bits(), bits()};
    size_t len = (size_t)1 << roll(3);
    begin(&command, "fill");
    Target to = target_of(&buffers[roll(buffer_count)]);
    if (to.words < len)
        len = 1;
    Place at = some_of(&to);
    size_t start = at.start / len * len, n = (words_of(&at) + len - 1) / len * len;
    n = n > to.words - start ? (to.words - start) / len * len : n;
    if (n == 0)
        start = 0, n = len;
    use(&command, to.object, to.part, 1);
    DO(clEnqueueFillBuffer(queue_of(&command), to.memory, pattern, len * 4, start * 4, n * 4, command.count, list_of(&command), &event));
    for (size_t i = 0; i < n; i++)
        define(to.object, to.first + start + i, pattern[i % len], 1);
    end(&command, event);
}

static void write_buffer(void)
{
    Command command;
    cl_event event;
    begin(&command, "write");
    Target to = target_of(&buffers[roll(buffer_count)]);
    Place at = some_of(&to), layout = line(0, words_of(&at)), place = within(&to, at);
    use(&command, to.object, to.part, 1);
    cl_uint *host = host_for(&layout);
    cl_bool blocked = blocks();
    DO(clEnqueueWriteBuffer(queue_of(&command), to.memory, blocked, at.start * 4, words_of(&at) * 4, host, command.count,
                            list_of(&command), &event));
    define_all(to.object, &place, host, &layout);
    has_written(blocked, event, host, &layout);
    end(&command, event);
}

static void read_buffer(void)
{
    Command command;
    cl_event event;
    begin(&command, "read");
    Target from = target_of(&buffers[roll(buffer_count)]);
    Place at = some_of(&from), layout = line(0, words_of(&at)), place = within(&from, at);
    use(&command, from.object, from.part, 0);
    cl_uint *host = host_for(&layout);
    cl_bool blocked = blocks();
    DO(clEnqueueReadBuffer(queue_of(&command), from.memory, blocked, at.start * 4, words_of(&at) * 4, host, command.count,
                           list_of(&command), &event));
    has_read(blocked, event, host, from.object, &place, &layout);
    end(&command, event);
}

/* Rows and slices of so many words. */
static Place some_rows_of(size_t n)
{
    Place at = {0, {1 + roll(n), 1, 1}, 0, 0};
    at.row = at.count[0] + roll(40);
    at.count[1] = 1 + roll(n / at.row < 30 ? n / at.row : 30);
    at.slice = at.row * at.count[1] + at.row * roll(3);
    at.count[2] = 1 + roll(n / at.slice < 4 ? n / at.slice : 4);
    while (span_of(&at) > n)
        at.count[at.count[2] > 1 ? 2 : 1]--;
    at.start = roll(n - span_of(&at) + 1);
    return at;
}

/* The same rows and slices as OpenCL wants them: in bytes, and where they begin as the first of three. */
typedef struct {
    size_t origin[3], region[3], row, slice;
} Rect;

static Rect rect_of(const Place *at)
{
    return (Rect){{at->start * 4, 0, 0}, {at->count[0] * 4, at->count[1], at->count[2]}, at->row * 4, at->slice * 4};
}

static void read_rect(void)
{
    Command command;
    cl_event event;
    begin(&command, "read of a rectangle");
    Target from = target_of(&buffers[roll(buffer_count)]);
    Place at = some_rows_of(from.words), layout = layout_for(&at, 1), place = within(&from, at);
    Rect there = rect_of(&at), here = rect_of(&layout);
    use(&command, from.object, from.part, 0);
    cl_uint *host = host_for(&layout);
    cl_bool blocked = blocks();
    DO(clEnqueueReadBufferRect(queue_of(&command), from.memory, blocked, there.origin, here.origin, there.region, there.row, there.slice,
                               here.row, here.slice, host, command.count, list_of(&command), &event));
    has_read(blocked, event, host, from.object, &place, &layout);
    end(&command, event);
}

static void write_rect(void)
{
    Command command;
    cl_event event;
    begin(&command, "write of a rectangle");
    Target to = target_of(&buffers[roll(buffer_count)]);
    Place at = some_rows_of(to.words), layout = layout_for(&at, 1), place = within(&to, at);
    Rect there = rect_of(&at), here = rect_of(&layout);
    use(&command, to.object, to.part, 1);
    cl_uint *host = host_for(&layout);
    cl_bool blocked = blocks();
    DO(clEnqueueWriteBufferRect(queue_of(&command), to.memory, blocked, there.origin, here.origin, there.region, there.row, there.slice,
                                here.row, here.slice, host, command.count, list_of(&command), &event));
    define_all(to.object, &place, host, &layout);
    has_written(blocked, event, host, &layout);
    end(&command, event);
}

static void copy_rect(void)
{
    Command command;
    Target to, from;
    cl_event event;
    begin(&command, "copy of a rectangle");
    pick_two(&to, &from);
    if (!with_part_rects)
        to = all_of(to.object), from = all_of(from.object);
    size_t n = to.words < from.words ? to.words : from.words;
    Place target = some_rows_of(n), source = layout_for(&target, 1);
    if (span_of(&source) > from.words)
        source = layout_for(&target, 0);
    source.start = roll(from.words - span_of(&source) + 1);
    Rect there = rect_of(&target), here = rect_of(&source);
    use(&command, to.object, to.part, 1);
    use(&command, from.object, from.part, 0);
    DO(clEnqueueCopyBufferRect(queue_of(&command), from.memory, to.memory, here.origin, there.origin, there.region, here.row, here.slice,
                               there.row, there.slice, command.count, list_of(&command), &event));
    target = within(&to, target), source = within(&from, source);
    model_copy(to.object, &target, from.object, &source);
    end(&command, event);
}

static void map_buffer(void)
{
    static const cl_map_flags ways[] = {CL_MAP_READ, CL_MAP_READ, CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION};
    Command command;
    cl_event event;
    begin(&command, "map");
    /* A map of a part names the whole buffer all the same: what overlaps it waits. */
    Target to = target_of(&buffers[roll(buffer_count)]);
    Place at = some_of(&to), place = within(&to, at);
    cl_map_flags flags = ways[roll(5)];
    if (to.object->mapped == MOST_MAPS)
        unmap(to.object, 0);
    use(&command, to.object, to.part, flags != CL_MAP_READ);
    cl_bool blocked = blocks();
    Map map = {.at = place, .part = to.part, .memory = to.memory, .flags = flags, .queue = command.queue, .row = words_of(&at), .slice = words_of(&at)};
    map.host = clEnqueueMapBuffer(queue_of(&command), to.memory, blocked, flags, at.start * 4, words_of(&at) * 4, command.count,
                                  list_of(&command), &event, &status);
    DO(status);
    if (flags == CL_MAP_WRITE_INVALIDATE_REGION)
        forget(to.object, &place);
    has_mapped(to.object, map, blocked, event);
    end(&command, event);
}

static void migrate(Object *object, cl_mem memory, cl_uint part, const Place *at)
{
    Command command;
    cl_event event;
    begin(&command, "migration");
    cl_mem_migration_flags flags = roll(3) ? 0 : roll(3) ? CL_MIGRATE_MEM_OBJECT_HOST : CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
    use(&command, object, part, 1);
    DO(clEnqueueMigrateMemObjects(queue_of(&command), 1, &memory, flags, command.count, list_of(&command), &event));
    if (flags == CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED)
        forget(object, at);
    end(&command, event);
}

static void migrate_buffer(void)
{
    Target target = target_of(&buffers[roll(buffer_count)]);
    Place at = line(target.first, target.words);
    migrate(target.object, target.memory, target.part, &at);
}

/* How many bytes of a buffer mean something is written, by the host or by a kernel. */
static void resize(void)
{
    Command command;
    cl_event event;
    begin(&command, "size of contents");
    Object *sized = &buffers[BUFFERS - 1], *own = sized->size;
    size_t limit = roll(4) ? roll(sized->words + 1) : sized->words;
    cl_ulong bytes = limit * 4;
    use(&command, own, WHOLE, 1);
    if (roll(2)) {
        before_waiting();
        DO(clEnqueueWriteBuffer(queue_of(&command), own->memory, CL_TRUE, 0, sizeof bytes, &bytes, command.count, list_of(&command),
                                &event));
    } else {
        size_t one = 1;
        set_arg(size, 0, sizeof own->memory, &own->memory);
        set_arg(size, 1, sizeof bytes, &bytes);
        DO(clEnqueueNDRangeKernel(queue_of(&command), size, 1, NULL, &one, NULL, command.count, list_of(&command), &event));
    }
    sized->limit = limit;
    for (size_t i = limit; i < sized->words; i++)
        sized->known[i] = 0;
    end(&command, event);
}

/* A marker or a barrier, which other commands of its queue may have to wait for. */
static void synchronize(void)
{
    Command command;
    cl_event event;
    begin(&command, "marker or barrier");
    Target one = target_of(&buffers[roll(buffer_count)]);
    use(&command, one.object, one.part, 0);
    if (roll(2))
        DO(clEnqueueMarkerWithWaitList(queue_of(&command), command.count, list_of(&command), &event));
    else
        DO(clEnqueueBarrierWithWaitList(queue_of(&command), command.count, list_of(&command), &event));
    end(&command, event);
}

/* A buffer goes while commands use it, and another takes its place. */
static void replace(void)
{
    Object *object = &buffers[roll(buffer_count)];
    doing = "release";
    if (object->size)
        return;
    drop(object);
    make_buffer(object, words, (cl_uint)roll(most_parts));
}

static void unmap_some(void)
{
    Object *object = &buffers[roll(buffer_count)];
    if (object->mapped)
        unmap(object, (cl_uint)roll(object->mapped));
}
#endif
