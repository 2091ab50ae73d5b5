/* What random.c and random_images.h share: numbers at random, memory objects with a model of what is in them, and commands that wait
 * for those before them that used the same. */
#ifndef RANDOM_MODEL_H
#define RANDOM_MODEL_H
#include "common.h"

enum { MOST_DEVICES = 16, MOST_PARTS = 4, MOST_READERS = 64, MOST_WAITS = 2048, MOST_PENDING = 24, MOST_MAPS = 6, MOST_USES = 16 };

static cl_device_id devices[MOST_DEVICES];
static cl_uint device_count;

/* Two for each device: one that keeps the order of commands and, where the device has them, one that does not. */
static struct {
    cl_command_queue queue;
    int is_unflushed;
} queues[2 * MOST_DEVICES];

static uint64_t seed, state;
static cl_uint step;
static const char *doing = "beginning";

static inline cl_uint bits(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (cl_uint)(state >> 32);
}

static inline size_t roll(size_t sides)
{
    return bits() % (sides ? sides : 1);
}

/* Ends the program with what was wrong, where. */
static inline void wrong(const char *what, size_t word, cl_uint found, cl_uint expected)
{
    printf("WRONG: seed %llu, step %u, %s: %s, word %zu is %#x, not %#x\n", (unsigned long long)seed, step, doing, what, word, found, expected);
    exit(4);
}

/* The events that the command that is being enqueued waits for. */
static const cl_event *waits;
static cl_uint wait_count;

/* Says which of them have failed, and how. */
static inline void tell_failed_waits(void)
{
    for (cl_uint i = 0; i < wait_count; i++) {
        cl_command_type type = 0;
        cl_int how = CL_COMPLETE;
        clGetEventInfo(waits[i], CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL);
        clGetEventInfo(waits[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof how, &how, NULL);
        if (how < 0)
            printf("waited for: a command of type %#x ended with %d\n", type, how);
    }
}

/* As CHECK, with the step besides. */
#define DO(call)                                                                                                                           \
    do {                                                                                                                                   \
        cl_int do_status = (call);                                                                                                         \
        if (do_status != CL_SUCCESS) {                                                                                                     \
            tell_failed_waits();                                                                                                           \
            printf("FAILED: seed %llu, step %u, %s: %s returned %d (%s:%d)\n", (unsigned long long)seed, step, doing, #call, do_status,   \
                   __FILE__, __LINE__);                                                                                                    \
            exit(3);                                                                                                                       \
        }                                                                                                                                  \
    } while (0)

/* The commands that have used something since it was last written, and the one that wrote it. */
typedef struct {
    cl_event event;
    cl_uint queue;
} Mark;

typedef struct {
    Mark writer, readers[MOST_READERS];
    cl_uint reading;
} Access;

/* Words of an object, in rows and slices. */
typedef struct {
    size_t start, count[3], row, slice;
} Place;

typedef struct Object Object;

typedef struct {
    void *host;
    cl_mem memory;
    Place at;
    cl_uint part;
    cl_map_flags flags;
    cl_uint queue;
    /* The map itself has been waited for. */
    cl_event event;
    /* The pitches of what was mapped, in words. */
    size_t row, slice;
} Map;

/* A memory object and its model. Parts are sub-buffers that do not overlap; the last one, without a memory object, is the rest. */
struct Object {
    cl_mem memory;
    size_t words;
    cl_uint *model;
    /* Which words are defined. */
    unsigned char *known;
    cl_uint parts;
    struct {
        cl_mem memory;
        size_t first, words;
        Access access;
    } part[MOST_PARTS + 1];
    Map maps[MOST_MAPS];
    cl_uint mapped;
    /* The object whose first word says how many bytes of this one mean something, and how many words that are. */
    Object *size;
    size_t limit;
    /* The object that this one says it of. */
    Object *sized;
    /* Of an image. */
    cl_mem_object_type type;
    size_t extent[3];
};

enum { WHOLE = MOST_PARTS + 1 };

/* A command that is about to be enqueued. */
typedef struct {
    cl_uint queue, count;
    cl_event list[MOST_WAITS];
    struct {
        Access *access;
        int writes;
    } uses[MOST_USES];
    cl_uint used;
} Command;

/* Commands that read into, or write from, host memory that is kept until they have ended. */
static struct {
    cl_event event;
    cl_uint *host, *expected;
    unsigned char *known;
    Place layout;
    cl_uint step;
    const char *doing;
} pending[MOST_PENDING];
static cl_uint pending_count;

/* A user event that commands wait for, until something waits for them; and whether there are any. */
static cl_event gate;
static int with_gates = 1;

/* Whether each command is named on stderr before it is enqueued. */
static int traced;

/* How often a queue is flushed: 0 after each command, 1 sometimes and when another queue waits, 2 when another queue waits. */
static cl_uint lazy;

static inline cl_command_queue queue_of(const Command *command)
{
    return queues[command->queue].queue;
}

static inline void flush(cl_uint queue)
{
    if (queues[queue].is_unflushed)
        DO(clFlush(queues[queue].queue));
    queues[queue].is_unflushed = 0;
}

/* Before the program waits for anything, all that was enqueued must be able to run. */
static inline void before_waiting(void)
{
    for (cl_uint i = 0; i < 2 * device_count; i++)
        flush(i);
    if (gate) {
        DO(clSetUserEventStatus(gate, CL_COMPLETE));
        DO(clReleaseEvent(gate));
        gate = NULL;
    }
}

static inline size_t words_of(const Place *at)
{
    return at->count[0] * at->count[1] * at->count[2];
}

/* Where the word with this number is. */
static inline size_t word_at(const Place *at, size_t i)
{
    return at->start + i % at->count[0] + i / at->count[0] % at->count[1] * at->row + i / (at->count[0] * at->count[1]) * at->slice;
}

/* Some words behind each other. */
static inline Place line(size_t start, size_t count)
{
    return (Place){start, {count, 1, 1}, count, count};
}

/* How many words of host memory hold such a place. */
static inline size_t span_of(const Place *at)
{
    return word_at(at, words_of(at) - 1) + 1;
}

static inline void define(Object *object, size_t word, cl_uint value, int is_known)
{
    object->model[word] = value;
    object->known[word] = (unsigned char)(is_known && word < object->limit);
}

static inline void define_all(Object *object, const Place *at, const cl_uint *host, const Place *layout)
{
    for (size_t i = 0; i < words_of(at); i++)
        define(object, word_at(at, i), host[word_at(layout, i)], 1);
}

static inline void forget(Object *object, const Place *at)
{
    for (size_t i = 0; i < words_of(at); i++)
        object->known[word_at(at, i)] = 0;
}

static inline void model_copy(Object *to, const Place *target, const Object *from, const Place *source)
{
    for (size_t i = 0; i < words_of(target); i++)
        define(to, word_at(target, i), from->model[word_at(source, i)], from->known[word_at(source, i)]);
}

/* Compares what is in host memory with the model. */
static inline void compare(const char *what, const Object *object, const Place *at, const cl_uint *host, const Place *layout)
{
    for (size_t i = 0; i < words_of(at); i++) {
        size_t word = word_at(at, i);
        if (object->known[word] && host[word_at(layout, i)] != object->model[word])
            wrong(what, word, host[word_at(layout, i)], object->model[word]);
    }
}

static inline void wait_for_readers(Access *access)
{
    cl_event list[MOST_READERS];
    for (cl_uint i = 0; i < access->reading; i++)
        list[i] = access->readers[i].event;
    before_waiting();
    DO(clWaitForEvents(access->reading, list));
    for (cl_uint i = 0; i < access->reading; i++)
        DO(clReleaseEvent(list[i]));
    access->reading = 0;
}

static inline void add_to_list(Command *command, cl_event event)
{
    REQUIRE(command->count < MOST_WAITS);
    DO(clRetainEvent(event));
    command->list[command->count++] = event;
}

static inline void wait_after(Command *command, const Mark *mark)
{
    if (mark->event) {
        add_to_list(command, mark->event);
        /* Only of its own queue a command may wait for what was not flushed. */
        if (mark->queue != command->queue)
            flush(mark->queue);
    }
}

static inline void use_part(Command *command, Object *object, cl_uint part, int writes)
{
    Access *access = &object->part[part].access;
    if (access->reading == MOST_READERS)
        wait_for_readers(access);
    wait_after(command, &access->writer);
    for (cl_uint i = 0; writes && i < access->reading; i++)
        wait_after(command, &access->readers[i]);
    REQUIRE(command->used < MOST_USES);
    command->uses[command->used].access = access;
    command->uses[command->used++].writes = writes;
}

static inline void unmap(Object *object, cl_uint index);

/* The command reads, or writes, a part of an object or all of it: it waits for all that this must wait for. */
static inline void use(Command *command, Object *object, cl_uint part, int writes)
{
    for (cl_uint i = object->mapped; i > 0; i--) {
        /* To undo one may undo others. */
        if (i > object->mapped)
            continue;
        const Map *map = &object->maps[i - 1];
        int same = part == WHOLE || map->part == WHOLE || map->part == part;
        if (same && (writes || map->flags != CL_MAP_READ))
            unmap(object, i - 1);
    }
    for (cl_uint i = 0; i <= object->parts; i++)
        if (part == WHOLE || part == i)
            use_part(command, object, i, writes);
    if (object->size)
        use(command, object->size, WHOLE, 0);
    if (object->sized && writes)
        use(command, object->sized, WHOLE, 1);
}

static inline void begin(Command *command, const char *what)
{
    doing = what;
    command->queue = (cl_uint)roll(2 * device_count);
    command->count = command->used = wait_count = 0;
    if (traced)
        fprintf(stderr, "seed %llu, step %u: %s on queue %u\n", (unsigned long long)seed, step, what, command->queue);
    int makes = !gate && roll(40) == 0 && with_gates;
    if (makes)
        MAKE(gate, clCreateUserEvent(context, &status));
    if (gate && (makes || roll(3)))
        add_to_list(command, gate);
}

static inline const cl_event *list_of(const Command *command)
{
    waits = command->list, wait_count = command->count;
    return command->count ? command->list : NULL;
}

/* The command was enqueued, and those that use the same will wait for `event`, which is taken. */
static inline void end(Command *command, cl_event event)
{
    queues[command->queue].is_unflushed = 1;
    for (cl_uint i = 0; i < command->used; i++) {
        Access *access = command->uses[i].access;
        Mark mark = {event, command->queue};
        DO(clRetainEvent(event));
        if (command->uses[i].writes) {
            for (cl_uint k = 0; k < access->reading; k++)
                DO(clReleaseEvent(access->readers[k].event));
            access->reading = 0;
            if (access->writer.event)
                DO(clReleaseEvent(access->writer.event));
            access->writer = mark;
        } else {
            access->readers[access->reading++] = mark;
        }
    }
    DO(clReleaseEvent(event));
    wait_count = 0;
    for (cl_uint i = 0; i < command->count; i++)
        DO(clReleaseEvent(command->list[i]));
    if (lazy == 0 || (lazy == 1 && roll(5) == 0))
        flush(command->queue);
}

/* Whether a command blocks; one that does must be able to run. */
static inline cl_bool blocks(void)
{
    if (roll(3))
        return CL_FALSE;
    before_waiting();
    return CL_TRUE;
}

/* Waits for the oldest command with host memory of its own, and looks at what it read. */
static inline void settle_one(void)
{
    before_waiting();
    DO(clWaitForEvents(1, &pending[0].event));
    DO(clReleaseEvent(pending[0].event));
    for (size_t i = 0; pending[0].expected && i < words_of(&pending[0].layout); i++) {
        cl_uint found = pending[0].host[word_at(&pending[0].layout, i)];
        if (pending[0].known[i] && found != pending[0].expected[i]) {
            step = pending[0].step, doing = pending[0].doing;
            wrong("a read that was not waited for", i, found, pending[0].expected[i]);
        }
    }
    free(pending[0].host);
    free(pending[0].expected);
    free(pending[0].known);
    memmove(pending, pending + 1, --pending_count * sizeof pending[0]);
}

static inline void settle_all(void)
{
    while (pending_count)
        settle_one();
}

/* Keeps host memory until the command that has `event` has ended; what it reads is compared then, if `object` says with what. */
static inline void keep(cl_event event, cl_uint *host, const Object *object, const Place *at, const Place *layout)
{
    if (pending_count == MOST_PENDING)
        settle_one();
    size_t n = words_of(layout);
    cl_uint *expected = object ? malloc(n * sizeof *expected) : NULL;
    unsigned char *known = object ? malloc(n) : NULL;
    for (size_t i = 0; object && i < n; i++) {
        expected[i] = object->model[word_at(at, i)];
        known[i] = object->known[word_at(at, i)];
    }
    DO(clRetainEvent(event));
    pending[pending_count].event = event;
    pending[pending_count].host = host;
    pending[pending_count].expected = expected;
    pending[pending_count].known = known;
    pending[pending_count].layout = *layout;
    pending[pending_count].step = step;
    pending[pending_count++].doing = doing;
}

/* What a command has read into host memory, or will have when it has ended. */
static inline void has_read(cl_bool blocked, cl_event event, cl_uint *host, const Object *object, const Place *at, const Place *layout)
{
    if (blocked) {
        compare("a read", object, at, host, layout);
        free(host);
    } else {
        keep(event, host, object, at, layout);
    }
}

static inline void has_written(cl_bool blocked, cl_event event, cl_uint *host, const Place *layout)
{
    if (blocked)
        free(host);
    else
        keep(event, host, NULL, NULL, layout);
}

/* Host memory for such a place, with numbers at random. */
static inline cl_uint *host_for(const Place *layout)
{
    size_t n = span_of(layout);
    cl_uint *host = malloc(n * sizeof *host), first = bits();
    for (size_t i = 0; i < n; i++)
        host[i] = (first + (cl_uint)i) * 2654435761u;
    return host;
}

/* How rows and slices of such a place lie in host memory: without gaps, or with some. */
static inline Place layout_for(const Place *at, int may_have_gaps)
{
    size_t row = at->count[0] + (may_have_gaps ? roll(2) * roll(9) : 0), slice = row * at->count[1];
    return (Place){0, {at->count[0], at->count[1], at->count[2]}, row, slice + (may_have_gaps ? roll(2) * roll(3) * row : 0)};
}

/* Looks at what is mapped, changes some of it if it may, and unmaps it. */
static inline void unmap(Object *object, cl_uint index)
{
    const char *before = doing;
    Map map = object->maps[index];
    object->maps[index] = object->maps[--object->mapped];
    doing = "what is mapped";
    if (map.event) {
        before_waiting();
        DO(clWaitForEvents(1, &map.event));
        DO(clReleaseEvent(map.event));
    }
    Place layout = {0, {map.at.count[0], map.at.count[1], map.at.count[2]}, map.row, map.slice};
    cl_uint *host = map.host;
    if (map.flags != CL_MAP_WRITE_INVALIDATE_REGION)
        compare("what is mapped", object, &map.at, host, &layout);
    if (map.flags != CL_MAP_READ) {
        cl_uint key = bits(), every = 1 + (cl_uint)roll(4);
        for (size_t i = 0; i < words_of(&map.at); i += every) {
            cl_uint value = (key + (cl_uint)i) * 2246822519u;
            host[word_at(&layout, i)] = value;
            define(object, word_at(&map.at, i), value, 1);
        }
    }
    Command command;
    cl_event event;
    begin(&command, "unmap");
    if (roll(4))
        command.queue = map.queue;
    use(&command, object, map.part, map.flags != CL_MAP_READ);
    DO(clEnqueueUnmapMemObject(queue_of(&command), map.memory, host, command.count, list_of(&command), &event));
    end(&command, event);
    doing = before;
}

/* A map was enqueued; it stays for a while, or is looked at and undone now. */
static inline void has_mapped(Object *object, Map map, cl_bool blocked, cl_event event)
{
    if (!blocked) {
        DO(clRetainEvent(event));
        map.event = event;
    }
    object->maps[object->mapped++] = map;
}
#endif
