/* Wrong calls of cl_ropeway_collectives, and what they have to return; what its events say. */
#include "common.h"
#include "../../include/CL/cl_ropeway_collectives.h"

enum { RANKS = 3, SIZE = 4096 };

static cl_command_queue queues[RANKS + 1];
static cl_mem sources[RANKS + 1], targets[RANKS + 1];
static size_t past[RANKS] = {0, 0, SIZE - 4}, huge[RANKS] = {0, (size_t)-8, 0}, zero[RANKS] = {0};
static cl_reduction_ropeway sum = {CL_REDUCTION_SUM_ROPEWAY, CL_REDUCTION_INT_ROPEWAY, NULL, 0, 0};
static clEnqueueBroadcastBufferROPEWAY_fn broadcast;
static clEnqueueScatterBufferROPEWAY_fn scatter;
static clEnqueueGatherBufferROPEWAY_fn gather;
static clEnqueueAllGatherBufferROPEWAY_fn all_gather;
static clEnqueueAllToAllBufferROPEWAY_fn all_to_all;
static clEnqueueReduceBufferROPEWAY_fn reduce;
static clEnqueueAllReduceBufferROPEWAY_fn all_reduce;
static clEnqueueReduceScatterBufferROPEWAY_fn reduce_scatter;
static clEnqueueScanBufferROPEWAY_fn scan;
static int wrong;

#define EXPECT(code, call)                                                                                             \
    do {                                                                                                               \
        cl_int expect_status = (call);                                                                                 \
        if (expect_status != (code)) {                                                                                 \
            printf("%s:%d: %d instead of %d from %s\n", __FILE__, __LINE__, expect_status, code, #call);              \
            wrong = 1;                                                                                                 \
        }                                                                                                              \
    } while (0)

#define FIND(name, variable)                                                                                           \
    do {                                                                                                               \
        variable = (name##_fn)clGetExtensionFunctionAddressForPlatform(platform, #name);                               \
        REQUIRE(variable != NULL);                                                                                     \
    } while (0)

#define NO_EVENTS 0, NULL, NULL

static cl_int reduce_with(cl_reduction_ropeway reduction, size_t count)
{
    return all_reduce(RANKS, queues, sources, NULL, targets, NULL, count, &reduction, NO_EVENTS);
}

static void wrong_ranks(void)
{
    cl_command_queue others[RANKS] = {queues[0], NULL, queues[2]}, foreign[RANKS] = {queues[0], queues[RANKS], queues[2]};
    cl_command_queue buffers[RANKS] = {queues[0], (cl_command_queue)sources[0], queues[2]};
    EXPECT(CL_INVALID_VALUE, broadcast(0, queues, 0, sources[0], 0, targets, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, broadcast(RANKS, NULL, 0, sources[0], 0, targets, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_COMMAND_QUEUE, broadcast(RANKS, others, 0, sources[0], 0, targets, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_COMMAND_QUEUE, broadcast(RANKS, buffers, 0, sources[0], 0, targets, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_CONTEXT, broadcast(RANKS, foreign, 0, sources[0], 0, targets, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, broadcast(RANKS, queues, RANKS, sources[0], 0, targets, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, scatter(RANKS, queues, RANKS, sources[0], 0, targets, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, gather(RANKS, queues, RANKS, sources, NULL, targets[0], 0, 16, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, reduce(RANKS, queues, RANKS, sources, NULL, targets[0], 0, 4, &sum, NO_EVENTS));
}

static void wrong_buffers(void)
{
    cl_mem none[RANKS] = {targets[0], NULL, targets[2]}, foreign[RANKS] = {targets[0], targets[1], targets[RANKS]};
    cl_mem same[RANKS] = {targets[0], targets[1], targets[0]}, mixed[RANKS] = {sources[1], targets[1], targets[2]};
    cl_mem shifted[RANKS] = {sources[0], targets[1], targets[2]};
    size_t one[RANKS] = {4, 0, 0}, apart[RANKS] = {0, 0, 2048};
    EXPECT(CL_INVALID_MEM_OBJECT, broadcast(RANKS, queues, 0, NULL, 0, targets, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_MEM_OBJECT, broadcast(RANKS, queues, 0, sources[0], 0, none, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_CONTEXT, broadcast(RANKS, queues, 0, sources[0], 0, foreign, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_CONTEXT, broadcast(RANKS, queues, 0, sources[RANKS], 0, targets, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, broadcast(RANKS, queues, 0, sources[0], 0, NULL, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, all_gather(RANKS, queues, NULL, NULL, targets, NULL, 16, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, broadcast(RANKS, queues, 0, sources[0], 0, targets, NULL, 0, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, broadcast(RANKS, queues, 0, sources[0], 0, targets, NULL, SIZE + 1, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, broadcast(RANKS, queues, 0, sources[0], 1, targets, NULL, SIZE, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, broadcast(RANKS, queues, 0, sources[0], 0, targets, past, 16, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, broadcast(RANKS, queues, 0, sources[0], 0, targets, huge, 16, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, scatter(RANKS, queues, 0, sources[0], 0, targets, NULL, SIZE / 2, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, scatter(RANKS, queues, 0, sources[0], 0, targets, NULL, (size_t)-1 / 2, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, gather(RANKS, queues, 0, sources, NULL, targets[0], 0, SIZE / 2, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, all_gather(RANKS, queues, sources, NULL, targets, NULL, SIZE / 2, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, all_to_all(RANKS, queues, sources, NULL, targets, NULL, SIZE / 2, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, reduce_scatter(RANKS, queues, sources, NULL, targets, NULL, SIZE / 8, &sum, NO_EVENTS));
    /* Two ranks' targets; a target and another rank's source; a source and a target a little further on. */
    EXPECT(CL_MEM_COPY_OVERLAP, broadcast(RANKS, queues, 0, sources[0], 0, same, NULL, 16, NO_EVENTS));
    EXPECT(CL_SUCCESS, broadcast(RANKS, queues, 0, sources[0], 0, same, apart, 16, NO_EVENTS));
    EXPECT(CL_MEM_COPY_OVERLAP, all_reduce(RANKS, queues, sources, NULL, mixed, NULL, 4, &sum, NO_EVENTS));
    EXPECT(CL_MEM_COPY_OVERLAP, all_reduce(RANKS, queues, sources, NULL, shifted, one, 4, &sum, NO_EVENTS));
    EXPECT(CL_SUCCESS, all_reduce(RANKS, queues, sources, NULL, shifted, NULL, 4, &sum, NO_EVENTS));
    EXPECT(CL_MEM_COPY_OVERLAP, all_to_all(RANKS, queues, sources, NULL, shifted, NULL, 16, NO_EVENTS));
    EXPECT(CL_MEM_COPY_OVERLAP, gather(RANKS, queues, 1, sources, NULL, sources[1], 0, 16, NO_EVENTS));
    EXPECT(CL_SUCCESS, gather(RANKS, queues, 0, sources, NULL, sources[0], 0, 16, NO_EVENTS));
}

static void wrong_reductions(void)
{
    static const char *source = "__kernel void three(__global int *a, __global int *b, __global int *c) {}\n"
                                "__kernel void two(__global int *a, __global int *b) {}\n"
                                "__kernel void more(__global int *a, __global int *b, __global int *c, int d) {}\n"
                                "__kernel void value(__global int *a, int b, __global int *c) {}\n";
    cl_program program = build(source, NULL);
    cl_kernel three = kernel_of(program, "three"), two = kernel_of(program, "two"), more = kernel_of(program, "more"),
              value = kernel_of(program, "value");
    cl_reduction_ropeway own = {CL_REDUCTION_KERNEL_ROPEWAY, 0, three, 4, 0}, other = sum;
    cl_int four = 4;
    EXPECT(CL_INVALID_VALUE, all_reduce(RANKS, queues, sources, NULL, targets, NULL, 4, NULL, NO_EVENTS));
    EXPECT(CL_INVALID_VALUE, reduce_with(sum, 0));
    EXPECT(CL_INVALID_VALUE, reduce_with(sum, SIZE / 4 + 1));
    EXPECT(CL_INVALID_VALUE, reduce_with(sum, (size_t)-1 / 2));
    other.reduction_operator = CL_REDUCTION_SUM_ROPEWAY - 1;
    EXPECT(CL_INVALID_VALUE, reduce_with(other, 4));
    other.reduction_operator = CL_REDUCTION_KERNEL_ROPEWAY + 1;
    EXPECT(CL_INVALID_VALUE, reduce_with(other, 4));
    other = sum, other.reduction_type = CL_REDUCTION_CHAR_ROPEWAY - 1;
    EXPECT(CL_INVALID_VALUE, reduce_with(other, 4));
    other.reduction_type = CL_REDUCTION_DOUBLE_ROPEWAY + 1;
    EXPECT(CL_INVALID_VALUE, reduce_with(other, 4));
    other = sum, other.flags = 2;
    EXPECT(CL_INVALID_VALUE, reduce_with(other, 4));
    EXPECT(CL_INVALID_VALUE, scan(RANKS, queues, sources, NULL, targets, NULL, 4, &sum, 2, NO_EVENTS));
    EXPECT(CL_SUCCESS, reduce_with(own, 4));
    own.element_size = 0;
    EXPECT(CL_INVALID_VALUE, reduce_with(own, 4));
    own.element_size = 4, own.kernel = NULL;
    EXPECT(CL_INVALID_KERNEL, reduce_with(own, 4));
    own.kernel = two;
    EXPECT(CL_INVALID_KERNEL_ARGS, reduce_with(own, 4));
    own.kernel = value;
    EXPECT(CL_INVALID_KERNEL_ARGS, reduce_with(own, 4));
    own.kernel = more;
    EXPECT(CL_INVALID_KERNEL_ARGS, reduce_with(own, 4));
    set_arg(more, 3, sizeof four, &four);
    EXPECT(CL_SUCCESS, reduce_with(own, 4));
}

static void wrong_events(cl_context foreign)
{
    cl_event none = NULL, other;
    MAKE(other, clCreateUserEvent(foreign, &status));
    EXPECT(CL_INVALID_EVENT_WAIT_LIST, broadcast(RANKS, queues, 0, sources[0], 0, targets, NULL, 16, 1, NULL, NULL));
    EXPECT(CL_INVALID_EVENT_WAIT_LIST, broadcast(RANKS, queues, 0, sources[0], 0, targets, NULL, 16, 0, &other, NULL));
    EXPECT(CL_INVALID_EVENT_WAIT_LIST, broadcast(RANKS, queues, 0, sources[0], 0, targets, NULL, 16, 1, &none, NULL));
    EXPECT(CL_INVALID_CONTEXT, broadcast(RANKS, queues, 0, sources[0], 0, targets, NULL, 16, 1, &other, NULL));
    CHECK(clReleaseEvent(other));
}

/* The event is of the first rank's queue and of the operation's type. */
static void told(cl_int enqueued, const cl_event *made, cl_command_type expected)
{
    cl_command_type type;
    cl_command_queue queue;
    CHECK(enqueued);
    cl_event event = *made;
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL));
    EXPECT((cl_int)expected, (cl_int)type);
    REQUIRE(queue == queues[0]);
    CHECK(clWaitForEvents(1, &event));
    CHECK(clReleaseEvent(event));
}

static void events(void)
{
    cl_event e;
    told(broadcast(RANKS, queues, 1, sources[1], 0, targets, zero, 16, 0, NULL, &e), &e, CL_COMMAND_BROADCAST_BUFFER_ROPEWAY);
    told(scatter(RANKS, queues, 1, sources[1], 0, targets, zero, 16, 0, NULL, &e), &e, CL_COMMAND_SCATTER_BUFFER_ROPEWAY);
    told(gather(RANKS, queues, 1, sources, zero, targets[1], 0, 16, 0, NULL, &e), &e, CL_COMMAND_GATHER_BUFFER_ROPEWAY);
    told(all_gather(RANKS, queues, sources, zero, targets, zero, 16, 0, NULL, &e), &e, CL_COMMAND_ALL_GATHER_BUFFER_ROPEWAY);
    told(all_to_all(RANKS, queues, sources, zero, targets, zero, 16, 0, NULL, &e), &e, CL_COMMAND_ALL_TO_ALL_BUFFER_ROPEWAY);
    told(reduce(RANKS, queues, 1, sources, zero, targets[1], 0, 4, &sum, 0, NULL, &e), &e, CL_COMMAND_REDUCE_BUFFER_ROPEWAY);
    told(all_reduce(RANKS, queues, sources, zero, targets, zero, 4, &sum, 0, NULL, &e), &e, CL_COMMAND_ALL_REDUCE_BUFFER_ROPEWAY);
    told(reduce_scatter(RANKS, queues, sources, zero, targets, zero, 4, &sum, 0, NULL, &e), &e,
         CL_COMMAND_REDUCE_SCATTER_BUFFER_ROPEWAY);
    told(scan(RANKS, queues, sources, zero, targets, zero, 4, &sum, 0, 0, NULL, &e), &e, CL_COMMAND_SCAN_BUFFER_ROPEWAY);
    /* One rank, in place: nothing to do. */
    told(broadcast(1, queues, 0, sources[0], 0, sources, NULL, 16, 0, NULL, &e), &e, CL_COMMAND_BROADCAST_BUFFER_ROPEWAY);
}

int main(void)
{
    static char extensions[1024];
    open_device();
    cl_context first = context;
    for (int rank = 0; rank <= RANKS; rank++) {
        if (rank == RANKS)
            MAKE(context, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
        queues[rank] = open_queue(0);
        sources[rank] = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL);
        targets[rank] = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL);
    }
    cl_context foreign = context;
    context = first;
    CHECK(clGetPlatformInfo(platform, CL_PLATFORM_EXTENSIONS, sizeof extensions, extensions, NULL));
    REQUIRE(strstr(extensions, CL_ROPEWAY_COLLECTIVES_EXTENSION_NAME));
    FIND(clEnqueueBroadcastBufferROPEWAY, broadcast);
    FIND(clEnqueueScatterBufferROPEWAY, scatter);
    FIND(clEnqueueGatherBufferROPEWAY, gather);
    FIND(clEnqueueAllGatherBufferROPEWAY, all_gather);
    FIND(clEnqueueAllToAllBufferROPEWAY, all_to_all);
    FIND(clEnqueueReduceBufferROPEWAY, reduce);
    FIND(clEnqueueAllReduceBufferROPEWAY, all_reduce);
    FIND(clEnqueueReduceScatterBufferROPEWAY, reduce_scatter);
    FIND(clEnqueueScanBufferROPEWAY, scan);
    wrong_ranks();
    wrong_buffers();
    wrong_reductions();
    wrong_events(foreign);
    events();
    if (!wrong)
        printf("all right\n");
    return wrong;
}
