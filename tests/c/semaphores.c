/* Semaphores (cl_khr_semaphore): what they hold back, what they let go, what they refuse. "turns N" lets two queues take N turns
 * only. */
#include "common.h"
#include <CL/cl_ext.h>

#define TYPE 0x203D
#define TYPE_BINARY 1
#define DEVICE_LIST 0x2053
#define EXPORT_TYPES 0x203F
#define EXPORTABLE 0x2054
#define CONTEXT_OF 0x2039
#define REFERENCE_COUNT 0x203A
#define PROPERTIES 0x203B
#define PAYLOAD 0x203C

typedef void *sema_t;
typedef sema_t (*create_fn)(cl_context, const cl_ulong *, cl_int *);
typedef cl_int (*one_fn)(sema_t);
typedef cl_int (*enqueue_fn)(cl_command_queue, cl_uint, const sema_t *, const cl_ulong *, cl_uint, const cl_event *,
                             cl_event *);
typedef cl_int (*info_fn)(sema_t, cl_uint, size_t, void *, size_t *);
typedef cl_int (*handle_fn)(sema_t, cl_device_id, cl_uint, size_t, void *, size_t *);

static create_fn create;
static one_fn retain, release;
static enqueue_fn enqueue_signal, enqueue_wait;
static info_fn info;
static handle_fn handle_of;

static const char *SOURCE = "__kernel void add(__global int *x, int n) { x[0] = x[0] * 2 + n; }\n";
static cl_kernel add;
static const cl_ulong BINARY[] = {TYPE, TYPE_BINARY, 0};

static void *find(const char *name)
{
    void *function = clGetExtensionFunctionAddressForPlatform(platform, name);
    REQUIRE(function != NULL);
    return function;
}

static void find_functions(void)
{
    char extensions[16384];
    CHECK(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL));
    REQUIRE(strstr(extensions, "cl_khr_semaphore") != NULL && strstr(extensions, "cl_khr_external_semaphore") == NULL);
    CHECK(clGetPlatformInfo(platform, CL_PLATFORM_EXTENSIONS, sizeof extensions, extensions, NULL));
    REQUIRE(strstr(extensions, "cl_khr_semaphore") != NULL);
    create = (create_fn)find("clCreateSemaphoreWithPropertiesKHR");
    retain = (one_fn)find("clRetainSemaphoreKHR");
    release = (one_fn)find("clReleaseSemaphoreKHR");
    enqueue_signal = (enqueue_fn)find("clEnqueueSignalSemaphoresKHR");
    enqueue_wait = (enqueue_fn)find("clEnqueueWaitSemaphoresKHR");
    info = (info_fn)find("clGetSemaphoreInfoKHR");
    handle_of = (handle_fn)find("clGetSemaphoreHandleForTypeKHR");
}

static sema_t new_semaphore(void)
{
    sema_t semaphore;
    MAKE(semaphore, create(context, BINARY, &status));
    return semaphore;
}

static unsigned long long payload(sema_t semaphore)
{
    cl_ulong value = 99;
    CHECK(info(semaphore, PAYLOAD, sizeof value, &value, NULL));
    return value;
}

static void signal_one(cl_command_queue queue, sema_t semaphore, cl_event *event)
{
    CHECK(enqueue_signal(queue, 1, &semaphore, NULL, 0, NULL, event));
}

static void wait_one(cl_command_queue queue, sema_t semaphore, cl_event *event)
{
    CHECK(enqueue_wait(queue, 1, &semaphore, NULL, 0, NULL, event));
}

static cl_int state_of(cl_event event)
{
    cl_int state;
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    return state;
}

static cl_uint type_of(cl_event event)
{
    cl_command_type type;
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    return type;
}

static void run(cl_command_queue queue, cl_mem x, int n)
{
    set_arg(add, 0, sizeof x, &x);
    set_arg(add, 1, sizeof n, &n);
    launch(queue, add, 1, 0, NULL, NULL);
}

static int value_of(cl_command_queue queue, cl_mem x)
{
    int value;
    CHECK(clEnqueueReadBuffer(queue, x, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL));
    return value;
}

static cl_mem number(int value)
{
    return buffer_of(CL_MEM_COPY_HOST_PTR, sizeof value, &value);
}

static void queries(void)
{
    cl_uint types[4] = {0};
    size_t size;
    CHECK(clGetDeviceInfo(device, 0x204C, sizeof types, types, &size));
    printf("device: %zu bytes, type %u\n", size, types[0]);
    CHECK(clGetPlatformInfo(platform, 0x2036, sizeof types, types, &size));
    printf("platform: %zu bytes, type %u\n", size, types[0]);
    printf("handles: %d %d\n", clGetDeviceInfo(device, 0x204D, 0, NULL, &size), clGetDeviceInfo(device, 0x204E, 0, NULL, &size));
    cl_ulong list[] = {TYPE, TYPE_BINARY, DEVICE_LIST, (cl_ulong)(uintptr_t)device, 0, 0}, same[8];
    sema_t semaphore, plain = new_semaphore();
    MAKE(semaphore, create(context, list, &status));
    CHECK(info(semaphore, PROPERTIES, sizeof same, same, &size));
    printf("properties: %d\n", size == sizeof list && memcmp(list, same, size) == 0);
    cl_device_id of = NULL;
    CHECK(info(semaphore, DEVICE_LIST, sizeof of, &of, &size));
    printf("device: %d", of == device && size == sizeof of);
    CHECK(info(plain, DEVICE_LIST, sizeof of, &of, NULL));
    printf(" %d\n", of == device);
    cl_context in = NULL;
    cl_uint type = 0, count = 0, exportable = 7;
    CHECK(info(semaphore, CONTEXT_OF, sizeof in, &in, NULL));
    CHECK(info(semaphore, TYPE, sizeof type, &type, NULL));
    CHECK(info(semaphore, EXPORTABLE, sizeof exportable, &exportable, NULL));
    CHECK(retain(semaphore));
    CHECK(info(semaphore, REFERENCE_COUNT, sizeof count, &count, NULL));
    printf("context: %d, type %u, exportable %u, references %u\n", in == context, type, exportable, count);
    CHECK(release(semaphore));
    CHECK(release(semaphore));
    CHECK(release(plain));
}

/* Signals come before waits, on one queue and across two. */
static void signal_then_wait(void)
{
    cl_command_queue a = open_queue(CL_QUEUE_PROFILING_ENABLE), b = open_queue(CL_QUEUE_PROFILING_ENABLE);
    sema_t semaphore = new_semaphore();
    cl_event signaled, waited;
    printf("payload: %llu", payload(semaphore));
    signal_one(a, semaphore, &signaled);
    CHECK(clFinish(a));
    printf(" %llu", payload(semaphore));
    wait_one(a, semaphore, &waited);
    CHECK(clFinish(a));
    printf(" %llu\n", payload(semaphore));
    printf("ended: %d %d, types %x %x\n", state_of(signaled), state_of(waited), type_of(signaled), type_of(waited));
    cl_ulong at[4];
    for (cl_uint k = 0; k < 4; k++)
        CHECK(clGetEventProfilingInfo(waited, CL_PROFILING_COMMAND_QUEUED + k, sizeof at[k], &at[k], NULL));
    printf("times: %d\n", at[0] > 0 && at[0] <= at[1] && at[1] <= at[2] && at[2] <= at[3]);
    /* A signal of what is signaled changes nothing. */
    signal_one(a, semaphore, NULL);
    CHECK(clFinish(a));
    signal_one(b, semaphore, NULL);
    CHECK(clFinish(b));
    wait_one(b, semaphore, NULL);
    CHECK(clFinish(b));
    printf("signaled twice, waited for once: %llu\n", payload(semaphore));
    /* Held back on one queue, and with it what is behind the wait on the other. */
    cl_event gate;
    cl_mem x = number(1);
    MAKE(gate, clCreateUserEvent(context, &status));
    run(a, x, 0);
    CHECK(enqueue_signal(a, 1, &semaphore, NULL, 1, &gate, &signaled));
    wait_one(b, semaphore, &waited);
    run(b, x, 5);
    CHECK(clFlush(a));
    CHECK(clFlush(b));
    printf("held: %d %d, payload %llu\n", state_of(signaled) > 0, state_of(waited) > 0, payload(semaphore));
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    printf("x: %d", value_of(b, x));
    printf(", payload %llu\n", payload(semaphore));
    CHECK(release(semaphore));
}

/* A wait may be enqueued before the signal that it waits for. */
static void wait_then_signal(void)
{
    cl_command_queue a = open_queue(0), b = open_queue(0);
    sema_t semaphore = new_semaphore();
    cl_event waited;
    cl_mem x = number(1);
    wait_one(b, semaphore, &waited);
    run(b, x, 5);
    CHECK(clFlush(b));
    leave_time();
    printf("waits: %d\n", state_of(waited) > 0);
    run(a, x, 1);
    signal_one(a, semaphore, NULL);
    CHECK(clFlush(a));
    printf("x: %d", value_of(b, x));
    printf(", ended %d, payload %llu\n", state_of(waited), payload(semaphore));
    CHECK(release(semaphore));
}

/* Two queues take turns. */
static void take_turns(int turns)
{
    cl_command_queue a = open_queue(0), b = open_queue(0);
    sema_t to_a = new_semaphore(), to_b = new_semaphore();
    cl_mem x = number(0);
    unsigned expected = 0;
    for (int i = 0; i < turns; i++) {
        if (i > 0)
            wait_one(a, to_a, NULL);
        run(a, x, 1);
        signal_one(a, to_b, NULL);
        wait_one(b, to_b, NULL);
        run(b, x, 2);
        signal_one(b, to_a, NULL);
        expected = (expected * 2 + 1) * 2 + 2;
    }
    wait_one(a, to_a, NULL);
    CHECK(clFlush(b));
    printf("turns: %d", (unsigned)value_of(a, x) == expected);
    printf(", payloads %llu %llu\n", payload(to_a), payload(to_b));
    CHECK(release(to_a));
    CHECK(release(to_b));
}

static void several(void)
{
    cl_command_queue a = open_queue(0), b = open_queue(0);
    sema_t both[2] = {new_semaphore(), new_semaphore()}, twice[2] = {both[0], both[0]};
    cl_ulong payloads[2] = {3, 4};
    CHECK(enqueue_signal(a, 2, both, payloads, 0, NULL, NULL));
    CHECK(clFinish(a));
    printf("both: %llu %llu", payload(both[0]), payload(both[1]));
    CHECK(enqueue_wait(b, 2, both, payloads, 0, NULL, NULL));
    CHECK(clFinish(b));
    printf(" %llu %llu\n", payload(both[0]), payload(both[1]));
    CHECK(enqueue_signal(a, 2, twice, NULL, 0, NULL, NULL));
    CHECK(enqueue_wait(a, 2, twice, NULL, 0, NULL, NULL));
    CHECK(clFinish(a));
    printf("the same twice: %llu\n", payload(both[0]));
    CHECK(release(both[0]));
    CHECK(release(both[1]));
}

/* Out of order, barriers hold signals back, and a wait holds back what waits for its event. */
static void out_of_order(void)
{
    cl_command_queue q = open_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE), second = open_queue(0);
    sema_t semaphore = new_semaphore(), other = new_semaphore();
    cl_event gate, signaled, waited, behind, beside;
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clEnqueueMarkerWithWaitList(q, 1, &gate, NULL));
    CHECK(clEnqueueBarrierWithWaitList(q, 0, NULL, NULL));
    signal_one(q, semaphore, &signaled);
    CHECK(clFlush(q));
    leave_time();
    printf("behind the barrier: %d, payload %llu\n", state_of(signaled) > 0, payload(semaphore));
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &signaled));
    printf("passed: payload %llu\n", payload(semaphore));
    wait_one(q, other, &waited);
    cl_mem x = number(3), y = number(4);
    int n = 1;
    set_arg(add, 1, sizeof n, &n);
    set_arg(add, 0, sizeof x, &x);
    launch(q, add, 1, 1, &waited, &behind);
    /* On a queue of its own: out of order, a device may still carry out what it is given in that order, and then
     * what is behind the wait stays there until the signal, which comes later here. */
    set_arg(add, 0, sizeof y, &y);
    launch(second, add, 1, 0, NULL, &beside);
    CHECK(clWaitForEvents(1, &beside));
    printf("y: %d", value_of(second, y));
    printf(", held: %d\n", state_of(behind) > 0);
    signal_one(second, other, NULL);
    CHECK(clFlush(second));
    CHECK(clWaitForEvents(1, &behind));
    printf("x: %d", value_of(second, x));
    printf(", payload %llu\n", payload(other));
    wait_one(q, semaphore, NULL);
    CHECK(clFinish(q));
    printf("finished: payload %llu\n", payload(semaphore));
    CHECK(release(semaphore));
    CHECK(release(other));
}

/* Out of order, without a wait list, a signal waits for nothing, nor does a wait for what is signaled. */
static void out_of_turn(void)
{
    cl_command_queue q = open_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    sema_t semaphore = new_semaphore();
    cl_event gate, held, signaled, waited;
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clEnqueueMarkerWithWaitList(q, 1, &gate, &held));
    signal_one(q, semaphore, &signaled);
    CHECK(clWaitForEvents(1, &signaled));
    printf("out of turn: %d, payload %llu", state_of(held) > 0, payload(semaphore));
    wait_one(q, semaphore, &waited);
    CHECK(clWaitForEvents(1, &waited));
    printf(", %d, payload %llu\n", state_of(held) > 0, payload(semaphore));
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clFinish(q));
    /* So a signal lets go a wait that was there before it, on the same queue. */
    wait_one(q, semaphore, &waited);
    printf("waits: %d", state_of(waited) > 0);
    signal_one(q, semaphore, NULL);
    CHECK(clWaitForEvents(1, &waited));
    printf(", payload %llu\n", payload(semaphore));
    CHECK(release(semaphore));
}

/* What fails signals nothing, and what waits for it in vain fails too. */
static void failures(void)
{
    cl_command_queue a = open_queue(0), b = open_queue(0);
    sema_t semaphore = new_semaphore();
    cl_event gate, signaled, waited;
    MAKE(gate, clCreateUserEvent(context, &status));
    wait_one(b, semaphore, &waited);
    CHECK(enqueue_signal(a, 1, &semaphore, NULL, 1, &gate, &signaled));
    CHECK(clFlush(a));
    CHECK(clSetUserEventStatus(gate, -7));
    printf("failed: %d", clWaitForEvents(1, &signaled));
    printf(" %d, ", clWaitForEvents(1, &waited));
    printf("%d %d, payload %llu\n", state_of(signaled) < 0, state_of(waited) < 0, payload(semaphore));
    printf("failed before: %d %d\n", enqueue_signal(a, 1, &semaphore, NULL, 1, &gate, NULL),
           enqueue_wait(a, 1, &semaphore, NULL, 1, &gate, NULL));
    cl_command_queue c = open_queue(0);
    wait_one(c, semaphore, &waited);
    CHECK(release(semaphore));
    printf("released: %d", clWaitForEvents(1, &waited));
    printf(" %d\n", state_of(waited) < 0);
}

static void expect(const char *what, cl_int got)
{
    printf("%s: %d\n", what, got);
}

static void refuse(const char *what, cl_context in, const cl_ulong *properties)
{
    cl_int got = 1;
    sema_t semaphore = create(in, properties, &got);
    REQUIRE(semaphore == NULL);
    expect(what, got);
}

static void errors(void)
{
    cl_ulong dev = (cl_ulong)(uintptr_t)device;
    refuse("no context", NULL, BINARY);
    refuse("no properties", context, NULL);
    refuse("no type", context, (cl_ulong[]){0});
    refuse("only a device", context, (cl_ulong[]){DEVICE_LIST, dev, 0, 0});
    refuse("unknown property", context, (cl_ulong[]){~0ull, 1, 0});
    refuse("unknown type", context, (cl_ulong[]){TYPE, 2, 0});
    refuse("type twice", context, (cl_ulong[]){TYPE, TYPE_BINARY, TYPE, TYPE_BINARY, 0});
    refuse("devices twice", context, (cl_ulong[]){TYPE, TYPE_BINARY, DEVICE_LIST, dev, 0, DEVICE_LIST, dev, 0, 0});
    refuse("exported", context, (cl_ulong[]){TYPE, TYPE_BINARY, EXPORT_TYPES, 0x2055, 0, 0});
    refuse("no device", context, (cl_ulong[]){TYPE, TYPE_BINARY, DEVICE_LIST, 0, 0});
    refuse("two devices", context, (cl_ulong[]){TYPE, TYPE_BINARY, DEVICE_LIST, dev, dev, 0, 0});
    refuse("not a device", context, (cl_ulong[]){TYPE, TYPE_BINARY, DEVICE_LIST, (cl_ulong)(uintptr_t)context, 0, 0});
    REQUIRE(create(NULL, BINARY, NULL) == NULL);
    cl_command_queue q = open_queue(0), foreign;
    cl_context elsewhere;
    MAKE(elsewhere, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
    MAKE(foreign, clCreateCommandQueue(elsewhere, device, 0, &status));
    cl_event gate, alien;
    MAKE(gate, clCreateUserEvent(context, &status));
    MAKE(alien, clCreateUserEvent(elsewhere, &status));
    sema_t semaphore = new_semaphore(), bad[2] = {semaphore, NULL};
    enqueue_fn both[2] = {enqueue_signal, enqueue_wait};
    for (int i = 0; i < 2; i++) {
        enqueue_fn f = both[i];
        puts(i == 0 ? "signal" : "wait");
        expect("no queue", f(NULL, 1, &semaphore, NULL, 0, NULL, NULL));
        expect("none", f(q, 0, &semaphore, NULL, 0, NULL, NULL));
        expect("no list", f(q, 1, NULL, NULL, 0, NULL, NULL));
        expect("not a semaphore", f(q, 2, bad, NULL, 0, NULL, NULL));
        expect("queue elsewhere", f(foreign, 1, &semaphore, NULL, 0, NULL, NULL));
        expect("event elsewhere", f(q, 1, &semaphore, NULL, 1, &alien, NULL));
        expect("wait list missing", f(q, 1, &semaphore, NULL, 1, NULL, NULL));
        expect("wait list of none", f(q, 1, &semaphore, NULL, 0, &gate, NULL));
        expect("not an event", f(q, 1, &semaphore, NULL, 1, (cl_event *)&semaphore, NULL));
    }
    cl_ulong word;
    int fd;
    size_t size;
    expect("info of none", info(NULL, TYPE, sizeof word, &word, NULL));
    expect("info unknown", info(semaphore, 0, sizeof word, &word, NULL));
    expect("info too small", info(semaphore, PAYLOAD, 4, &word, NULL));
    expect("handle of none", handle_of(NULL, device, 0x2055, sizeof fd, &fd, &size));
    expect("handle for no device", handle_of(semaphore, NULL, 0x2055, sizeof fd, &fd, &size));
    expect("handle", handle_of(semaphore, device, 0x2055, sizeof fd, &fd, &size));
    expect("retain none", retain(NULL));
    expect("release none", release(NULL));
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clSetUserEventStatus(alien, CL_COMPLETE));
    CHECK(release(semaphore));
    expect("released", release(semaphore));
}

int main(int argc, char **argv)
{
    open_device();
    find_functions();
    add = kernel_of(build(SOURCE, ""), "add");
    if (argc == 3 && strcmp(argv[1], "turns") == 0) {
        take_turns(atoi(argv[2]));
        return 0;
    }
    queries();
    signal_then_wait();
    wait_then_signal();
    take_turns(200);
    several();
    out_of_order();
    out_of_turn();
    failures();
    errors();
    return 0;
}
