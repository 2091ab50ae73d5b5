/* Collective operations over all devices of the first platform, in one context: each compared with what the host computes.
   Works on every platform, by the extension cl_ropeway_collectives or by ordinary calls. Arguments: how many ranks, then
   "turns" with how many times how many numbers are added up on all ranks, to count messages; or
   "unordered" for queues that keep no order, "small" for little data only, "events" for what is said of events, and with it "failing" for
   what comes of those that fail; "each" with the count of numbers that every operation is carried out with, once, and measured with "staged"
   behind it; "lost" for what becomes of them when somebody ends the server of the second of three ranks. */
#define CL_ROPEWAY_COLLECTIVES_ANYWHERE
#include "stages.h"
#include "../../include/CL/cl_ropeway_collectives.h"

enum { MOST_RANKS = 16 };
enum operation { BROADCAST, SCATTER, GATHER, ALL_GATHER, ALL_TO_ALL, REDUCE, ALL_REDUCE, REDUCE_SCATTER, SCAN, SCAN_EXCLUSIVE };
enum mode { SEPARATE, SHARED, IN_PLACE };

static const char *const OPERATIONS[] = {"broadcast", "scatter",        "gather", "allgather",      "alltoall", "reduce",
                                         "allreduce", "reduce-scatter", "scan",   "exclusive scan"};
static const char *const TYPES[] = {"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float", "double"};
static const size_t SIZES[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8};
static const char *const OPERATORS[] = {"sum", "product", "min", "max", "kernel"};

/* x -> a x + b, one after the other: associative, but not commutative. */
static const char *SOURCE =
    "__kernel void compose(__global const uint2 *left, __global const uint2 *right, __global uint2 *out, uint unused)\n"
    "{ size_t i = get_global_id(0); uint2 l = left[i], r = right[i]; out[i] = (uint2)(l.x * r.x, l.y * r.x + r.y); }\n";

static cl_uint ranks = 5, devices;
static cl_device_id all_devices[64];
static cl_command_queue queues[MOST_RANKS];
static cl_kernel compose;
static uint64_t seen;
/* Whether the test measures what goes over the network. */
static int staged;

static int is_signed(int type) { return type < 8 && type % 2 == 0; }

/* The value of a rank's element; of a pair of the kernel's, both. */
static int64_t value_of(int type, int function, cl_uint rank, size_t at)
{
    if (function == 4)
        return (int64_t)((at * 2654435761u + rank * 40503u) & 0xffffffff) | (int64_t)((at * 7 + rank * 11 + 1) & 0xffff) << 32;
    if (type >= 8)
        return (int64_t)((at + rank) % 2) + 1;
    return is_signed(type) ? (int64_t)((at * 5 + rank * 3) % 7) - 3 : (int64_t)((at * 7 + rank * 13) % 251);
}

static int64_t combined(int function, int64_t a, int64_t b)
{
    uint32_t ax = (uint32_t)a, ay = (uint32_t)(a >> 32), bx = (uint32_t)b, by = (uint32_t)(b >> 32);
    switch (function) {
    case 0:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case 1:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case 2:
        return a < b ? a : b;
    case 3:
        return a > b ? a : b;
    default:
        return (int64_t)((uint64_t)(ax * bx) | (uint64_t)(ay * bx + by) << 32);
    }
}

/* A value in the bytes of a type. Halves are of whole numbers up to 2048. */
static void put(int type, int64_t value, unsigned char *to)
{
    float single = (float)value;
    double twice = (double)value;
    uint32_t bits;
    uint16_t half = 0;
    if (type < 8) {
        memcpy(to, &value, SIZES[type]);
    } else if (type == 8) {
        memcpy(&bits, &single, 4);
        if (value != 0)
            half = (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) | (bits >> 13 & 0x3ff));
        memcpy(to, &half, 2);
    } else {
        memcpy(to, type == 9 ? (void *)&single : (void *)&twice, SIZES[type]);
    }
}

/* What changes nothing. */
static void identity(int type, int function, unsigned char *to)
{
    static const uint64_t INFINITE[] = {0x7c00, 0x7f800000, 0x7ff0000000000000};
    uint64_t sign = (uint64_t)1 << (8 * SIZES[type] - 1);
    uint64_t most = type >= 8 ? INFINITE[type - 8] : is_signed(type) ? sign - 1 : ~(uint64_t)0;
    uint64_t least = type >= 8 ? most | sign : is_signed(type) ? sign : 0;
    if (function < 2)
        put(type, function, to);
    else
        memcpy(to, function == 2 ? &most : &least, SIZES[type]);
}

struct test {
    enum operation operation;
    int type, function;
    size_t count;
    cl_uint root;
    enum mode mode;
};

static int has_blocks(enum operation operation, int target)
{
    switch (operation) {
    case SCATTER:
    case REDUCE_SCATTER:
        return !target;
    case GATHER:
    case ALL_GATHER:
        return target;
    default:
        return operation == ALL_TO_ALL;
    }
}

static int at_root_only(enum operation operation, int target)
{
    return target ? operation == GATHER || operation == REDUCE : operation == BROADCAST || operation == SCATTER;
}

static int64_t sum_of(const struct test *test, cl_uint first, cl_uint last, size_t at)
{
    int64_t sum = value_of(test->type, test->function, first, at);
    for (cl_uint rank = first + 1; rank <= last; rank++)
        sum = combined(test->function, sum, value_of(test->type, test->function, rank, at));
    return sum;
}

/* What a rank has to get. */
static void expect(const struct test *test, cl_uint rank, unsigned char *to)
{
    size_t size = SIZES[test->type], count = test->count * (has_blocks(test->operation, 1) ? ranks : 1);
    for (size_t at = 0; at < count; at++) {
        size_t block = at / test->count, within = at % test->count;
        int64_t value = 0;
        switch (test->operation) {
        case BROADCAST:
            value = value_of(test->type, test->function, test->root, at);
            break;
        case SCATTER:
            value = value_of(test->type, test->function, test->root, rank * test->count + at);
            break;
        case GATHER:
        case ALL_GATHER:
            value = value_of(test->type, test->function, (cl_uint)block, within);
            break;
        case ALL_TO_ALL:
            value = value_of(test->type, test->function, (cl_uint)block, rank * test->count + within);
            break;
        case REDUCE:
        case ALL_REDUCE:
            value = sum_of(test, 0, ranks - 1, at);
            break;
        case REDUCE_SCATTER:
            value = sum_of(test, 0, ranks - 1, rank * test->count + at);
            break;
        case SCAN:
            value = sum_of(test, 0, rank, at);
            break;
        case SCAN_EXCLUSIVE:
            if (rank == 0 && test->function == 4)
                memset(to + at * size, 0xee, size);
            else if (rank == 0)
                identity(test->type, test->function, to + at * size);
            if (rank == 0)
                continue;
            value = sum_of(test, 0, rank - 1, at);
        }
        put(test->type, value, to + at * size);
    }
}

static cl_int enqueue(const struct test *test, const cl_mem *sources, const size_t *source_offsets, const cl_mem *targets,
                      const size_t *target_offsets, cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    cl_uint root = test->root;
    size_t size = test->count * SIZES[test->type];
    cl_reduction_ropeway reduction = {CL_REDUCTION_SUM_ROPEWAY + test->function, CL_REDUCTION_CHAR_ROPEWAY + test->type, NULL, 0, 0};
    if (test->function == 4)
        reduction = (cl_reduction_ropeway){CL_REDUCTION_KERNEL_ROPEWAY, 0, compose, 8, CL_REDUCTION_ORDERED_ROPEWAY};
    switch (test->operation) {
    case BROADCAST:
        return clEnqueueBroadcastBuffer(ranks, queues, root, sources[root], source_offsets[root], targets, target_offsets, size,
                                        num_waits, waits, event);
    case SCATTER:
        return clEnqueueScatterBuffer(ranks, queues, root, sources[root], source_offsets[root], targets, target_offsets, size,
                                      num_waits, waits, event);
    case GATHER:
        return clEnqueueGatherBuffer(ranks, queues, root, sources, source_offsets, targets[root], target_offsets[root], size,
                                     num_waits, waits, event);
    case ALL_GATHER:
        return clEnqueueAllGatherBuffer(ranks, queues, sources, source_offsets, targets, target_offsets, size, num_waits, waits, event);
    case ALL_TO_ALL:
        return clEnqueueAllToAllBuffer(ranks, queues, sources, source_offsets, targets, target_offsets, size, num_waits, waits, event);
    case REDUCE:
        return clEnqueueReduceBuffer(ranks, queues, root, sources, source_offsets, targets[root], target_offsets[root], test->count,
                                     &reduction, num_waits, waits, event);
    case ALL_REDUCE:
        return clEnqueueAllReduceBuffer(ranks, queues, sources, source_offsets, targets, target_offsets, test->count, &reduction,
                                        num_waits, waits, event);
    case REDUCE_SCATTER:
        return clEnqueueReduceScatterBuffer(ranks, queues, sources, source_offsets, targets, target_offsets, test->count, &reduction,
                                            num_waits, waits, event);
    default:
        return clEnqueueScanBuffer(ranks, queues, sources, source_offsets, targets, target_offsets, test->count, &reduction,
                                   test->operation == SCAN_EXCLUSIVE ? CL_SCAN_EXCLUSIVE_ROPEWAY : 0, num_waits, waits, event);
    }
}

/* Where in place the target is, from the source's beginning on. */
static long long moved(const struct test *test, cl_uint rank)
{
    long long block = (long long)(test->count * SIZES[test->type] * rank);
    switch (test->operation) {
    case SCATTER:
    case REDUCE_SCATTER:
        return block;
    case GATHER:
    case ALL_GATHER:
        return -block;
    default:
        return 0;
    }
}

static void run(struct test test)
{
    size_t size = SIZES[test.type];
    size_t source_size = test.count * size * (has_blocks(test.operation, 0) ? ranks : 1);
    size_t target_size = test.count * size * (has_blocks(test.operation, 1) ? ranks : 1);
    size_t apart = (source_size > target_size ? source_size : target_size) + 24;
    cl_mem sources[MOST_RANKS], targets[MOST_RANKS], made[2 * MOST_RANKS];
    size_t source_offsets[MOST_RANKS], target_offsets[MOST_RANKS], num_made = 0;
    unsigned char *bytes = malloc(apart), *expected = malloc(apart), pattern = 0xee;
    cl_event written[MOST_RANKS], done;
    for (cl_uint rank = 0; rank < ranks; rank++) {
        if (test.mode == SHARED) {
            if (rank == 0) {
                made[num_made++] = buffer_of(CL_MEM_READ_WRITE, apart * ranks, NULL);
                made[num_made++] = buffer_of(CL_MEM_READ_WRITE, apart * ranks, NULL);
            }
            sources[rank] = made[0], targets[rank] = made[1];
            source_offsets[rank] = target_offsets[rank] = apart * rank;
            continue;
        }
        sources[rank] = targets[rank] = made[num_made++] = buffer_of(CL_MEM_READ_WRITE, apart, NULL);
        source_offsets[rank] = size * (rank % 3), target_offsets[rank] = 8;
        int in_place = test.mode == IN_PLACE && (rank == test.root || !at_root_only(test.operation, 0));
        if (in_place && moved(&test, rank) < 0)
            source_offsets[rank] = target_offsets[rank] + (size_t)-moved(&test, rank);
        else if (in_place)
            target_offsets[rank] = source_offsets[rank] + (size_t)moved(&test, rank);
        else
            targets[rank] = made[num_made++] = buffer_of(CL_MEM_READ_WRITE, apart, NULL);
    }
    for (cl_uint rank = 0; rank < ranks; rank++) {
        for (size_t at = 0; at < source_size / size; at++)
            put(test.type, value_of(test.type, test.function, rank, at), bytes + at * size);
        if (targets[rank] != sources[rank])
            CHECK(clEnqueueFillBuffer(queues[rank], targets[rank], &pattern, 1, target_offsets[rank], target_size, 0, NULL, NULL));
        CHECK(clEnqueueWriteBuffer(queues[rank], sources[rank], CL_FALSE, source_offsets[rank], source_size, bytes, 0, NULL, NULL));
        CHECK(clEnqueueMarkerWithWaitList(queues[rank], 0, NULL, &written[rank]));
        CHECK(clFinish(queues[rank]));
    }
    if (staged)
        begin_stage(OPERATIONS[test.operation]);
    CHECK(enqueue(&test, sources, source_offsets, targets, target_offsets, ranks, written, &done));
    if (staged) {
        CHECK(clWaitForEvents(1, &done));
        end_stage();
    }
    for (cl_uint rank = 0; rank < ranks; rank++) {
        CHECK(clReleaseEvent(written[rank]));
        if (at_root_only(test.operation, 1) && rank != test.root)
            continue;
        CHECK(clEnqueueReadBuffer(queues[rank], targets[rank], CL_TRUE, target_offsets[rank], target_size, bytes, 1, &done, NULL));
        expect(&test, rank, expected);
        if (test.mode == IN_PLACE && test.operation == SCAN_EXCLUSIVE && rank == 0 && test.function == 4)
            for (size_t at = 0; at < test.count; at++)
                put(test.type, value_of(test.type, test.function, 0, at), expected + at * size);
        for (size_t at = 0; at < target_size; at++)
            if (bytes[at] != expected[at]) {
                printf("WRONG %s %s %s of %zu, root %u, mode %d: rank %u has %d instead of %d at byte %zu\n", OPERATIONS[test.operation],
                       OPERATORS[test.function], TYPES[test.type], test.count, test.root, test.mode, rank, bytes[at], expected[at], at);
                exit(1);
            }
        seen = seen * 31 + hash_of(bytes, target_size);
    }
    CHECK(clReleaseEvent(done));
    for (size_t i = 0; i < num_made; i++)
        CHECK(clReleaseMemObject(made[i]));
    free(bytes);
    free(expected);
}

/* All operations, modes and some roots; `brief`: what shows the type and the operator. */
static void run_all(int type, int function, size_t count, int brief)
{
    for (enum operation operation = BROADCAST; operation <= SCAN_EXCLUSIVE; operation++) {
        if (brief ? operation != ALL_REDUCE && operation != SCAN_EXCLUSIVE : operation < REDUCE && function != 0)
            continue;
        for (enum mode mode = SEPARATE; mode <= (brief ? SEPARATE : IN_PLACE); mode++)
            if (mode != IN_PLACE || operation != ALL_TO_ALL)
                run((struct test){operation, type, function, count, (cl_uint)(count + mode) % ranks, mode});
    }
    printf("%s %s of %zu: %016llx\n", TYPES[type], OPERATORS[function], count, (unsigned long long)seen);
}

#include "collectives_more.h"

int main(int argc, char **argv)
{
    cl_command_queue_properties properties = 0;
    cl_uint unused = 0;
    size_t count = 0, each = 0;
    int small = 0, events = 0, failing = 0, turns = 0, lost = 0, measured = 0, has_double = 1;
    for (int i = 1; i < argc; i++) {
        small |= strcmp(argv[i], "small") == 0;
        lost |= strcmp(argv[i], "lost") == 0;
        failing |= strcmp(argv[i], "failing") == 0;
        events |= strcmp(argv[i], "events") == 0;
        if (strcmp(argv[i], "unordered") == 0)
            properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
        if (strcmp(argv[i], "each") == 0 && i + 1 < argc) {
            each = strtoul(argv[i + 1], NULL, 10);
            measured = i + 2 < argc && strcmp(argv[i + 2], "staged") == 0;
            break;
        }
        if (strcmp(argv[i], "turns") == 0 && i + 2 < argc) {
            turns = atoi(argv[i + 1]);
            count = strtoul(argv[i + 2], NULL, 10);
            break;
        }
        if (atoi(argv[i]) > 0)
            ranks = (cl_uint)atoi(argv[i]);
    }
    REQUIRE(ranks <= MOST_RANKS);
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 64, all_devices, &devices));
    if (devices > ranks)
        devices = ranks;
    MAKE(context, clCreateContext(NULL, devices, all_devices, NULL, NULL, &status));
    for (cl_uint rank = 0; rank < ranks; rank++) {
        cl_device_fp_config config = 0;
        device = all_devices[rank % devices];
        queues[rank] = open_queue(properties);
        clGetDeviceInfo(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof config, &config, NULL);
        has_double &= config != 0;
    }
    if (lost) {
        run_lost();
        return 0;
    }
    if (turns > 0) {
        run_turns(turns, count);
        return 0;
    }
    if (events) {
        run_events(failing);
        return 0;
    }
    if (each > 0) {
        run_each(each, measured);
        return 0;
    }
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    compose = kernel_of(program, "compose");
    set_arg(compose, 3, sizeof unused, &unused);
    for (int type = 0; type < 11; type++)
        for (int function = 0; function < 4; function++)
            if (type != 10 || has_double)
                run_all(type, function, 37, type != 4);
    run_all(6, 4, 1, 0);
    run_all(6, 4, 1001, 0);
    if (!small) {
        /* Much: round rings and along chains. */
        run_all(5, 0, 70001, 0);
        run_all(9, 3, 300000, 0);
        run_all(6, 4, 150000, 0);
    }
    clReleaseCollectives(context);
    CHECK(clReleaseKernel(compose));
    CHECK(clReleaseProgram(program));
    for (cl_uint rank = 0; rank < ranks; rank++)
        CHECK(clReleaseCommandQueue(queues[rank]));
    CHECK(clReleaseContext(context));
    printf("all right\n");
    return 0;
}
