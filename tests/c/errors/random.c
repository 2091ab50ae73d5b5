/* Thousands of calls with arguments at random: handles that are right, released, of another kind or nothing at all, numbers
 * from 0 to the largest. Memory is always as large as the specification asks for, and nothing waits for what never comes: all
 * else is the implementation's to refuse. The same calls in every run. Arguments: another seed, "trace" to have each call named
 * first, "sound" where the compiler crashes on what is no binary (see nonsense.c). */
#include "errors.h"

enum { CALLS = 20000, POOL = 12, BUFFER = 4096 };
enum kind { PLATFORM, DEVICE, CONTEXT, QUEUE, MEMORY, SAMPLER, PROGRAM, KERNEL, EVENT, KINDS };

static void *pool[KINDS][POOL];
static int tracing, sound, made, refused;
static char host[1 << 20], room[1 << 16];
static void *shared[4], *mapped[4];
static uint64_t state = 42;

static uint32_t dice(uint32_t sides)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % sides;
}

/* One time in `times`. */
static int rarely(uint32_t times)
{
    return dice(times) == 0;
}

static void *any(enum kind kind)
{
    if (!rarely(10))
        return pool[kind][dice(POOL)];
    switch (dice(4)) {
    case 0: return NULL;
    case 1: return nothing_behind;
    case 2: return released_context;
    default: return pool[dice(KINDS)][dice(POOL)];
    }
}

/* A loader follows the first handle of a call, so that it is never NULL where the loader does not look. */
static void *first(enum kind kind)
{
    void *handle = any(kind);
    return handle ? handle : (void *)nothing_behind;
}

static size_t number(void)
{
    static const size_t NUMBERS[] = {0, 1, 2, 3, 4, 8, 16, 60, 64, 100, 128, 1024, 4095, 4096, 4097,
                                     (size_t)1 << 31, (size_t)1 << 32, (size_t)1 << 62, SIZE_MAX - 3, SIZE_MAX};
    return NUMBERS[dice(rarely(4) ? 20 : 12)];
}

static size_t small(void)
{
    return (size_t[]){0, 1, 2, 4, 8, 64}[dice(6)];
}

static cl_ulong bits(void)
{
    cl_ulong all = 0;
    for (uint32_t i = dice(3); i > 0; i--)
        all |= (cl_ulong)1 << dice(rarely(8) ? 64 : 10);
    return all;
}

static cl_uint some_name(void)
{
    static const cl_uint BASES[] = {0x0900, 0x1000, 0x1030, 0x1050, 0x1080, 0x1090, 0x1100, 0x1110, 0x1120,
                                    0x1150, 0x1160, 0x1180, 0x1190, 0x1196, 0x11B0, 0x11D0, 0x1280, 0x4100};
    return BASES[dice(18)] + dice(24);
}

/* A wait list. */
static cl_uint count;
static cl_event list[4];
static cl_event *wait_list(void)
{
    count = dice(8) < 5 ? 0 : dice(4);
    for (int i = 0; i < 4; i++)
        list[i] = any(EVENT);
    return rarely(20) ? (count ? NULL : list) : count ? list : NULL;
}

static const size_t *three(void)
{
    static size_t sizes[4][4];
    size_t *one = sizes[dice(4)];
    for (int i = 0; i < 4; i++)
        one[i] = rarely(12) ? number() : dice(3);
    return rarely(20) ? NULL : one;
}

static void CL_CALLBACK heard(void)
{
}

static void keep(enum kind kind, void *object)
{
    static cl_int (*const RELEASE[KINDS])(void *) = {
        [CONTEXT] = (cl_int(*)(void *))clReleaseContext, [QUEUE] = (cl_int(*)(void *))clReleaseCommandQueue,
        [MEMORY] = (cl_int(*)(void *))clReleaseMemObject, [SAMPLER] = (cl_int(*)(void *))clReleaseSampler,
        [PROGRAM] = (cl_int(*)(void *))clReleaseProgram, [KERNEL] = (cl_int(*)(void *))clReleaseKernel,
        [EVENT] = (cl_int(*)(void *))clReleaseEvent};
    if (!object)
        return;
    void **place = &pool[kind][dice(POOL)];
    if (*place && RELEASE[kind])
        RELEASE[kind](*place);
    *place = object;
}

static const char *const SOURCES[] = {
    "kernel void f(global char *x, int n, local int *l) { if (x) x[0] = n; }\n",
    "kernel void f(global char *x) { if (x) x[0] = 1; } kernel void g(int n) { }\n",
    "not a program\n",
};

#define TRACE(name)                                                                                                    \
    do {                                                                                                               \
        if (tracing)                                                                                                   \
            printf("%d %s\n", call, name), fflush(stdout);                                                             \
    } while (0)
#define TALLY(code) ((code) == CL_SUCCESS ? made++ : refused++)
#define GET(result) TALLY(result)
#define NEW(kind, object)                                                                                              \
    do {                                                                                                               \
        status = CL_SUCCESS;                                                                                           \
        void *new_ = (void *)(object);                                                                                 \
        TALLY(status);                                                                                                 \
        keep(kind, new_);                                                                                              \
    } while (0)
/* Wants an event half of the time. */
#define EVENT_OF(command)                                                                                              \
    do {                                                                                                               \
        cl_event event_ = NULL, *event = rarely(2) ? &event_ : NULL;                                                   \
        cl_event *waits = wait_list();                                                                                 \
        (void)waits, (void)event;                                                                                                   \
        TALLY(command);                                                                                                \
        keep(EVENT, event_);                                                                                           \
    } while (0)
#define ASK(function, ...)                                                                                             \
    do {                                                                                                               \
        memset(room, 0, 256);                                                                                          \
        TRACE(#function);                                                                                              \
        size_t size_;                                                                                                  \
        GET(function(__VA_ARGS__, some_name(), rarely(8) ? number() : 64, rarely(4) ? NULL : room,                     \
                     rarely(3) ? NULL : &size_));                                                                      \
    } while (0)

static void replenish(void)
{
    static const cl_image_format RGBA = {CL_RGBA, CL_UNSIGNED_INT8};
    for (int i = 0; i < POOL; i++) {
        pool[PLATFORM][i] = platform;
        pool[DEVICE][i] = device;
        if (pool[CONTEXT][i] == NULL)
            pool[CONTEXT][i] = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    }
    /* Most belong to one context, so that they fit together. */
    cl_context one = pool[CONTEXT][0] = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        pool[QUEUE][dice(POOL)] = clCreateCommandQueue(one, device, CL_QUEUE_PROFILING_ENABLE, NULL);
        pool[MEMORY][dice(POOL)] = clCreateBuffer(one, 0, BUFFER, NULL, NULL);
        pool[MEMORY][dice(POOL)] = clCreateBuffer(one, 0, BUFFER, NULL, NULL);
        const cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 8, .image_height = 4};
        cl_mem image = clCreateImage(one, 0, &RGBA, &desc, NULL, NULL);
        if (image)
            pool[MEMORY][dice(POOL)] = image;
        pool[SAMPLER][dice(POOL)] = clCreateSampler(one, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, NULL);
        cl_program program = clCreateProgramWithSource(one, 1, (const char **)&SOURCES[i & 1], NULL, NULL);
        clBuildProgram(program, 0, NULL, "", NULL, NULL);
        pool[PROGRAM][dice(POOL)] = program;
        pool[KERNEL][dice(POOL)] = clCreateKernel(program, "f", NULL);
        cl_event event = clCreateUserEvent(one, NULL);
        clSetUserEventStatus(event, CL_COMPLETE);
        pool[EVENT][dice(POOL)] = event;
        if (!shared[i])
            shared[i] = clSVMAlloc(one, CL_MEM_READ_WRITE, BUFFER, 0);
    }
}

/* Memory of at least BUFFER bytes, shared or not. */
static char *memory(void)
{
    char *one = rarely(2) ? shared[dice(4)] : NULL;
    return rarely(30) ? NULL : one ? one : host;
}

#include "random_calls.h"

int main(int argc, char **argv)
{
    open_all(1, NULL);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "trace") == 0)
            tracing = 1;
        else if (strcmp(argv[i], "sound") == 0)
            sound = 1;
        else
            state = strtoull(argv[i], NULL, 10);
    }
    for (int call = 0; call < CALLS; call++) {
        if (call % 500 == 0)
            replenish();
        random_call(call);
    }
    /* All is still well. */
    cl_mem buffer = buffer_of(0, BUFFER, NULL);
    int before = 17, after = 0;
    CHECK(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, sizeof before, &before, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof after, &after, 0, NULL, NULL));
    REQUIRE(after == 17);
    CHECK(clReleaseMemObject(buffer));
    printf("%d calls: %s, %s\n", CALLS, made > CALLS / 10 ? "many succeed" : "too few succeed",
           refused > CALLS / 10 ? "many are refused" : "too few are refused");
    fprintf(stderr, "%d succeeded, %d were refused\n", made, refused);
    return close_all();
}
