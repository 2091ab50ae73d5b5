/* Commands at random on ordinary and on custom devices of all servers in one context, checked word by word against a model in host memory.
 *
 * custom_random SEED COMMANDS      prints how many commands of each kind of device it made
 *
 * Each buffer has the event of the last command that used it, which the next one waits for: so the order is known, whatever device or
 * server a command goes to. Some user events hold things up for a while. */
#include "common.h"

enum { MOST = 16, BUFFERS = 6, WORDS = 20000, QUEUES = 2 * MOST, MOST_COMMANDS = 10000 };

static cl_device_id devices[MOST];
static int is_custom[MOST];
static cl_uint device_count;
static cl_command_queue queues[QUEUES];
static cl_kernel kernels[MOST];
static cl_mem buffers[BUFFERS];
static cl_event last[BUFFERS];
static cl_uint model[BUFFERS][WORDS], back[WORDS], scratch[WORDS];
static cl_event held;
static uint64_t state;

/* Every command, to tell which one failed. */
static struct {
    cl_event event;
    cl_uint device, what, a, b;
} history[MOST_COMMANDS];
static cl_uint made;

static cl_uint any(cl_uint below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (cl_uint)((state >> 33) % below);
}

static void open_all(void)
{
    static const char *source = "kernel void blend(global uint *x, global const uint *y, uint a, uint n) {\n"
                                "    uint i = get_global_id(0); if (i < n) x[i] = x[i] * a + y[i]; }\n";
    cl_uint ordinary;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST / 2, devices, &ordinary));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, MOST - ordinary, devices + ordinary, &device_count));
    device_count += ordinary;
    MAKE(context, clCreateContext(NULL, device_count, devices, NULL, NULL, &status));
    for (cl_uint i = 0; i < device_count; i++) {
        cl_program program;
        is_custom[i] = i >= ordinary;
        if (is_custom[i]) {
            MAKE(program, clCreateProgramWithBuiltInKernels(context, 1, &devices[i], "lab.mix", &status));
        } else {
            MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
            CHECK(clBuildProgram(program, 1, &devices[i], "", NULL, NULL));
        }
        MAKE(kernels[i], clCreateKernel(program, is_custom[i] ? "lab.mix" : "blend", &status));
        CHECK(clReleaseProgram(program));
        MAKE(queues[2 * i], clCreateCommandQueue(context, devices[i], 0, &status));
        cl_command_queue_properties has;
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_QUEUE_PROPERTIES, sizeof has, &has, NULL));
        MAKE(queues[2 * i + 1], clCreateCommandQueue(context, devices[i], has & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status));
    }
}

/* What a command that uses buffers `a` and `b` waits for. */
static cl_uint waits(cl_uint a, cl_uint b, cl_event *list)
{
    cl_uint count = 0;
    if (last[a])
        list[count++] = last[a];
    if (b != a && last[b])
        list[count++] = last[b];
    if (held && any(4) == 0)
        list[count++] = held;
    return count;
}

static void used(cl_uint buffer, cl_event event)
{
    CHECK(clRetainEvent(event));
    if (last[buffer])
        CHECK(clReleaseEvent(last[buffer]));
    last[buffer] = event;
}

static void check(cl_uint buffer, const char *when)
{
    for (cl_uint i = 0; i < WORDS; i++)
        if (back[i] != model[buffer][i]) {
            printf("%s: buffer %u, word %u: %u for %u\n", when, buffer, i, back[i], model[buffer][i]);
            exit(1);
        }
}

/* Ends the program if the call has failed, and says which command was the first to. */
static void must(cl_int code, const char *call)
{
    static const char *const names[] = {"kernel", "kernel", "write", "copy", "fill", "", "read"};
    if (code == CL_SUCCESS)
        return;
    printf("command %u: %s returned %d\n", made, call, code);
    for (cl_uint i = 0; i < made; i++) {
        cl_int end = CL_COMPLETE;
        if (history[i].event && clGetEventInfo(history[i].event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof end, &end, NULL) == 0 && end < 0) {
            printf("command %u, a %s on the %s device %u with buffers %u and %u: %d\n", i, names[history[i].what],
                   is_custom[history[i].device] ? "custom" : "ordinary", history[i].device, history[i].a, history[i].b, end);
            break;
        }
    }
    exit(1);
}

#define MUST(call) must((call), #call)

static void release_held(void)
{
    if (held) {
        CHECK(clSetUserEventStatus(held, CL_COMPLETE));
        CHECK(clReleaseEvent(held));
        held = NULL;
    }
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    state = strtoull(argv[1], NULL, 10) * 7919 + 1;
    cl_uint commands = (cl_uint)strtoul(argv[2], NULL, 10), of_kind[2] = {0, 0};
    open_all();
    for (cl_uint b = 0; b < BUFFERS; b++) {
        for (cl_uint i = 0; i < WORDS; i++)
            model[b][i] = i * (b + 3);
        MAKE(buffers[b], clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof model[b], model[b], &status));
    }
    REQUIRE(commands <= MOST_COMMANDS);
    for (; made < commands; made++) {
        cl_uint at = any(device_count), a = any(BUFFERS), b = any(BUFFERS), from = any(WORDS), n = 1 + any(WORDS - from);
        cl_command_queue queue = queues[2 * at + any(2)];
        cl_event list[3], event;
        cl_uint what = any(7);
        /* A blocking command would wait for what is held. */
        if (what == 2 || what == 6)
            release_held();
        cl_uint count = waits(a, b, list);
        const cl_event *wait = count ? list : NULL;
        of_kind[is_custom[at]]++;
        switch (what) {
        case 0:
        case 1: {
            cl_uint factor = 2 * any(1000) + 1;
            size_t size = is_custom[at] ? 1 : WORDS;
            if (a == b)
                b = (b + 1) % BUFFERS, count = waits(a, b, list), wait = count ? list : NULL;
            CHECK(clSetKernelArg(kernels[at], 0, sizeof(cl_mem), &buffers[a]));
            CHECK(clSetKernelArg(kernels[at], 1, sizeof(cl_mem), &buffers[b]));
            CHECK(clSetKernelArg(kernels[at], 2, sizeof factor, &factor));
            CHECK(clSetKernelArg(kernels[at], 3, sizeof n, &n));
            MUST(clEnqueueNDRangeKernel(queue, kernels[at], 1, NULL, &size, NULL, count, wait, &event));
            for (cl_uint i = 0; i < n; i++)
                model[a][i] = model[a][i] * factor + model[b][i];
            break;
        }
        case 2:
            for (cl_uint i = 0; i < n; i++)
                model[a][from + i] = scratch[i] = any(1u << 30);
            MUST(clEnqueueWriteBuffer(queue, buffers[a], CL_TRUE, from * 4, n * 4, scratch, count, wait, &event));
            break;
        case 3:
            if (a == b)
                b = (b + 1) % BUFFERS, count = waits(a, b, list), wait = count ? list : NULL;
            MUST(clEnqueueCopyBuffer(queue, buffers[b], buffers[a], from * 4, (WORDS - n) * 4, n * 4, count, wait, &event));
            memcpy(&model[a][WORDS - n], &model[b][from], n * 4);
            break;
        case 4: {
            cl_uint word = any(1u << 30);
            MUST(clEnqueueFillBuffer(queue, buffers[a], &word, 4, from * 4, n * 4, count, wait, &event));
            for (cl_uint i = 0; i < n; i++)
                model[a][from + i] = word;
            break;
        }
        case 5:
            if (any(3) == 0 && !held)
                MAKE(held, clCreateUserEvent(context, &status));
            else
                release_held();
            continue;
        default:
            MUST(clEnqueueReadBuffer(queue, buffers[a], CL_TRUE, 0, sizeof back, back, count, wait, &event));
            check(a, "meanwhile");
        }
        /* Commands of other queues wait for it. */
        MUST(clFlush(queue));
        used(a, event);
        if (b != a)
            used(b, event);
        history[made].event = event;
        history[made].device = at, history[made].what = what, history[made].a = a, history[made].b = b;
    }
    release_held();
    for (cl_uint b = 0; b < BUFFERS; b++) {
        cl_event wait = last[b];
        MUST(clEnqueueReadBuffer(queues[any(2 * device_count)], buffers[b], CL_TRUE, 0, sizeof back, back, wait ? 1 : 0, wait ? &wait : NULL, NULL));
        check(b, "at the end");
    }
    REQUIRE(of_kind[0] > 0 && of_kind[1] > 0);
    printf("as in the model\n");
    return 0;
}
