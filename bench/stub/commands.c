/* Queues, and what is enqueued. */
#include <sys/mman.h>
#include "stub.h"

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device, cl_command_queue_properties properties,
                                                 cl_int *error)
{
    (void)device;
    cl_command_queue queue = stub_new(sizeof *queue);
    queue->context = context;
    queue->properties = properties;
    queue->last = &queue->first;
    pthread_cond_init(&queue->wake, NULL);
    GIVE(queue, CL_SUCCESS);
}

static cl_int CL_API_CALL retain_queue(cl_command_queue queue)
{
    __atomic_add_fetch(&queue->references, 1, __ATOMIC_RELAXED);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_queue(cl_command_queue queue)
{
    if (!stub_drop(&queue->references))
        return CL_SUCCESS;
    stub_release_queue(queue);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL queue_info(cl_command_queue queue, cl_command_queue_info what, size_t room, void *value, size_t *size_ret)
{
    switch (what) {
    case CL_QUEUE_CONTEXT: VALUE(cl_context, queue->context);
    case CL_QUEUE_DEVICE: VALUE(cl_device_id, &stub_device);
    case CL_QUEUE_REFERENCE_COUNT: VALUE(cl_uint, (cl_uint)queue->references);
    case CL_QUEUE_PROPERTIES: VALUE(cl_command_queue_properties, queue->properties);
    default: return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL flush(cl_command_queue queue)
{
    /* A driver that carries everything out here, like a simulator: it comes back when all that is waited for has come to pass. */
    if (getenv("STUB_FLUSH_FINISHES") != NULL)
        stub_finish(queue);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL finish(cl_command_queue queue)
{
    stub_finish(queue);
    return CL_SUCCESS;
}

/* The parameters that all commands have. */
#define WAITS cl_uint waits, const cl_event *list, cl_event *event
#define WITH waits, list, event

static struct command *command_of(cl_command_queue queue, cl_command_type type, cl_uint waits, const cl_event *list)
{
    struct command *command = calloc(1, sizeof *command);
    command->event = stub_event(queue->context, queue, type);
    command->waits = waits;
    command->wait_for = waits > 0 ? malloc(waits * sizeof *list) : NULL;
    for (cl_uint i = 0; i < waits; i++) {
        command->wait_for[i] = list[i];
        __atomic_add_fetch(&list[i]->references, 1, __ATOMIC_RELAXED);
    }
    return command;
}

static cl_int go(cl_command_queue queue, struct command *command, cl_bool blocking, cl_event *event)
{
    cl_event own = command->event;
    cl_int result = CL_SUCCESS;
    for (cl_uint i = 0; i < command->waits; i++)
        if (command->wait_for[i]->context != queue->context) {
            stub_drop_command(command);
            return CL_INVALID_CONTEXT;
        }
    __atomic_add_fetch(&own->references, 1, __ATOMIC_RELAXED);
    stub_queue_command(queue, command);
    if (blocking)
        result = stub_dispatch.clWaitForEvents(1, &own);
    if (event != NULL)
        *event = own;
    else
        stub_release_event(own);
    return result;
}

static void hold(struct command *command, cl_mem first, cl_mem second)
{
    command->hold[0] = first;
    command->hold[1] = second;
    for (int i = 0; i < 2; i++)
        if (command->hold[i] != NULL)
            stub_retain_memory(command->hold[i]);
}

static void shape(struct command *command, char *to, const char *from, size_t x, size_t y, size_t z)
{
    command->to = to;
    command->from = from;
    command->region[0] = x;
    command->region[1] = y;
    command->region[2] = z;
}

static int outside(cl_mem memory, size_t offset, size_t size)
{
    return offset > memory->size || size > memory->size - offset;
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size, void *to, WAITS)
{
    if (outside(memory, offset, size))
        return CL_INVALID_VALUE;
    struct command *command = command_of(queue, CL_COMMAND_READ_BUFFER, waits, list);
    hold(command, memory, NULL);
    shape(command, to, memory->bytes + offset, size, 1, 1);
    return go(queue, command, blocking, event);
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size,
                                       const void *from, WAITS)
{
    if (outside(memory, offset, size))
        return CL_INVALID_VALUE;
    struct command *command = command_of(queue, CL_COMMAND_WRITE_BUFFER, waits, list);
    hold(command, memory, NULL);
    shape(command, memory->bytes + offset, from, size, 1, 1);
    return go(queue, command, blocking, event);
}

static cl_int CL_API_CALL copy_buffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size,
                                      WAITS)
{
    if (outside(from, from_offset, size) || outside(to, to_offset, size))
        return CL_INVALID_VALUE;
    struct command *command = command_of(queue, CL_COMMAND_COPY_BUFFER, waits, list);
    hold(command, from, to);
    shape(command, to->bytes + to_offset, from->bytes + from_offset, size, 1, 1);
    return go(queue, command, CL_FALSE, event);
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_size, size_t offset,
                                      size_t size, WAITS)
{
    if (outside(memory, offset, size) || pattern_size == 0 || pattern_size > 128 || size % pattern_size != 0)
        return CL_INVALID_VALUE;
    struct command *command = command_of(queue, CL_COMMAND_FILL_BUFFER, waits, list);
    hold(command, memory, NULL);
    shape(command, memory->bytes + offset, NULL, size, 1, 1);
    command->pattern = pattern_size;
    memcpy(command->fill, pattern, pattern_size);
    return go(queue, command, CL_FALSE, event);
}

/* Pitches of 0 mean: as tight as can be. Gives the offset of the region's first byte. */
static size_t pitches(size_t out[2], const size_t *origin, const size_t *region, size_t row, size_t slice)
{
    out[0] = row != 0 ? row : region[0];
    out[1] = slice != 0 ? slice : out[0] * region[1];
    return origin[2] * out[1] + origin[1] * out[0] + origin[0];
}

static cl_int CL_API_CALL read_rectangle(cl_command_queue queue, cl_mem memory, cl_bool blocking, const size_t *origin,
                                         const size_t *host_origin, const size_t *region, size_t row, size_t slice, size_t host_row,
                                         size_t host_slice, void *to, WAITS)
{
    struct command *command = command_of(queue, CL_COMMAND_READ_BUFFER_RECT, waits, list);
    size_t from_at = pitches(command->from_pitch, origin, region, row, slice);
    size_t to_at = pitches(command->to_pitch, host_origin, region, host_row, host_slice);
    hold(command, memory, NULL);
    shape(command, (char *)to + to_at, memory->bytes + from_at, region[0], region[1], region[2]);
    return go(queue, command, blocking, event);
}

static cl_int CL_API_CALL write_rectangle(cl_command_queue queue, cl_mem memory, cl_bool blocking, const size_t *origin,
                                          const size_t *host_origin, const size_t *region, size_t row, size_t slice, size_t host_row,
                                          size_t host_slice, const void *from, WAITS)
{
    struct command *command = command_of(queue, CL_COMMAND_WRITE_BUFFER_RECT, waits, list);
    size_t to_at = pitches(command->to_pitch, origin, region, row, slice);
    size_t from_at = pitches(command->from_pitch, host_origin, region, host_row, host_slice);
    hold(command, memory, NULL);
    shape(command, memory->bytes + to_at, (const char *)from + from_at, region[0], region[1], region[2]);
    return go(queue, command, blocking, event);
}

static cl_int CL_API_CALL copy_rectangle(cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_origin,
                                         const size_t *to_origin, const size_t *region, size_t from_row, size_t from_slice,
                                         size_t to_row, size_t to_slice, WAITS)
{
    struct command *command = command_of(queue, CL_COMMAND_COPY_BUFFER_RECT, waits, list);
    size_t from_at = pitches(command->from_pitch, from_origin, region, from_row, from_slice);
    size_t to_at = pitches(command->to_pitch, to_origin, region, to_row, to_slice);
    hold(command, from, to);
    shape(command, to->bytes + to_at, from->bytes + from_at, region[0], region[1], region[2]);
    return go(queue, command, CL_FALSE, event);
}

static void *CL_API_CALL map(cl_command_queue queue, cl_mem memory, cl_bool blocking, cl_map_flags flags, size_t offset, size_t size,
                             WAITS, cl_int *error)
{
    if (outside(memory, offset, size))
        GIVE(NULL, CL_INVALID_VALUE);
    struct command *command = command_of(queue, CL_COMMAND_MAP_BUFFER, waits, list);
    hold(command, memory, NULL);
    char *at = memory->bytes + offset;
    if (getenv("STUB_MOVES") != NULL) {
        /* The worker's maps block, so that the bytes need not be copied before. */
        stub_finish(queue);
        struct mapping *mapping = malloc(sizeof *mapping);
        *mapping = (struct mapping){NULL, malloc(size), at, size, flags};
        memcpy(mapping->at, at, size);
        at = mapping->at;
        pthread_mutex_lock(&stub_lock);
        mapping->next = memory->mappings;
        memory->mappings = mapping;
        pthread_mutex_unlock(&stub_lock);
    }
    static int maps;
    if (getenv("STUB_LIES") != NULL && flags == CL_MAP_READ && __atomic_fetch_add(&maps, 1, __ATOMIC_RELAXED) == 0)
        at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cl_int result = go(queue, command, blocking, event);
    GIVE(result == CL_SUCCESS ? at : NULL, result);
}

static cl_int nothing(cl_command_queue queue, cl_command_type type, cl_mem memory, int barrier, WAITS)
{
    struct command *command = command_of(queue, type, waits, list);
    command->barrier = barrier;
    hold(command, memory, NULL);
    return go(queue, command, CL_FALSE, event);
}

static cl_int CL_API_CALL unmap(cl_command_queue queue, cl_mem memory, void *at, WAITS)
{
    pthread_mutex_lock(&stub_lock);
    struct mapping **of = &memory->mappings;
    while (*of != NULL && (*of)->at != at)
        of = &(*of)->next;
    struct mapping *mapping = *of;
    if (mapping != NULL)
        *of = mapping->next;
    pthread_mutex_unlock(&stub_lock);
    if (mapping != NULL) {
        if (mapping->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION))
            memcpy(mapping->of, mapping->at, mapping->size);
        free(mapping->at);
        free(mapping);
    }
    return nothing(queue, CL_COMMAND_UNMAP_MEM_OBJECT, memory, 0, WITH);
}

static cl_int CL_API_CALL migrate(cl_command_queue queue, cl_uint count, const cl_mem *memories, cl_mem_migration_flags flags, WAITS)
{
    (void)count, (void)memories, (void)flags;
    return nothing(queue, CL_COMMAND_MIGRATE_MEM_OBJECTS, NULL, 0, WITH);
}

/* Without a wait list both wait for all that came before. */
static cl_int CL_API_CALL marker(cl_command_queue queue, WAITS)
{
    return nothing(queue, CL_COMMAND_MARKER, NULL, waits == 0, WITH);
}

static cl_int CL_API_CALL barrier(cl_command_queue queue, WAITS)
{
    return nothing(queue, CL_COMMAND_BARRIER, NULL, 1, WITH);
}

static cl_int CL_API_CALL run_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                                     const size_t *global, const size_t *local, WAITS)
{
    (void)offset, (void)local;
    struct command *command = command_of(queue, CL_COMMAND_NDRANGE_KERNEL, waits, list);
    __atomic_add_fetch(&kernel->references, 1, __ATOMIC_RELAXED);
    command->kernel = kernel;
    for (cl_uint i = 0; i < kernel->is->args; i++) {
        command->value[i] = kernel->value[i];
        cl_uint address = kernel->is->arg[i].address;
        int is_memory = address == CL_KERNEL_ARG_ADDRESS_GLOBAL || address == CL_KERNEL_ARG_ADDRESS_CONSTANT;
        if (is_memory && kernel->value[i].memory != NULL)
            stub_retain_memory(kernel->value[i].memory);
    }
    for (cl_uint i = 0; i < 3; i++)
        command->global[i] = i < dimensions ? global[i] : 1;
    return go(queue, command, CL_FALSE, event);
}

void stub_commands(struct _cl_icd_dispatch *table)
{
    table->clCreateCommandQueue = create_queue;
    table->clRetainCommandQueue = retain_queue;
    table->clReleaseCommandQueue = release_queue;
    table->clGetCommandQueueInfo = queue_info;
    table->clFlush = flush;
    table->clFinish = finish;
    table->clEnqueueReadBuffer = read_buffer;
    table->clEnqueueWriteBuffer = write_buffer;
    table->clEnqueueCopyBuffer = copy_buffer;
    table->clEnqueueFillBuffer = fill_buffer;
    table->clEnqueueReadBufferRect = read_rectangle;
    table->clEnqueueWriteBufferRect = write_rectangle;
    table->clEnqueueCopyBufferRect = copy_rectangle;
    table->clEnqueueMapBuffer = map;
    table->clEnqueueUnmapMemObject = unmap;
    table->clEnqueueMigrateMemObjects = migrate;
    table->clEnqueueMarkerWithWaitList = marker;
    table->clEnqueueBarrierWithWaitList = barrier;
    table->clEnqueueNDRangeKernel = run_kernel;
}
