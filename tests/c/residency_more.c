/* More of what is in memory objects that several devices of one context use: much at once, and what goes away.
 *
 * residency_more released N         buffers released while they are under way
 * residency_more recorded           command buffers, where devices have them
 * residency_more threads N          threads that each change a buffer of their own N times, and read one that all share
 * residency_more lost               says "ready", waits for a line while the first device goes away, and uses what it had
 * residency_more random SEED N      N commands of all kinds, on any device, each after the one before, beside the same on an array */
#include "residency.h"
#include <CL/cl_ext.h>
#include <pthread.h>

static void released(cl_uint n)
{
    enum { SIZE = 1 << 20 };
    static cl_uint x[SIZE / 4];
    for (cl_uint i = 0; i < n; i++) {
        cl_mem a = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL);
        cl_event one = run(i, put, a, i, SIZE / 4, 0, NULL), two = run(i + 1, add, a, 1, SIZE / 4, 1, &one);
        CHECK(clFlush(queues[i % count]));
        if (i % 4 == 3) {
            CHECK(clEnqueueReadBuffer(queues[(i + 2) % count], a, CL_TRUE, 0, SIZE, x, 1, &two, NULL));
            REQUIRE(x[5] == 5 * i + 2);
        }
        CHECK(clReleaseMemObject(a));
        CHECK(clReleaseEvent(one));
        CHECK(clReleaseEvent(two));
    }
    finish_all();
    printf("what was released under way is right\n");
}

static void recorded(void)
{
    cl_bool all = CL_TRUE;
    for (cl_uint i = 0; i < count; i++) {
        static char extensions[65536];
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL));
        all = all && strstr(extensions, "cl_khr_command_buffer") != NULL;
    }
#define FIND(name) name##_fn name = (name##_fn)clGetExtensionFunctionAddressForPlatform(platform, #name)
    FIND(clCreateCommandBufferKHR);
    FIND(clFinalizeCommandBufferKHR);
    FIND(clCommandNDRangeKernelKHR);
    FIND(clEnqueueCommandBufferKHR);
    FIND(clReleaseCommandBufferKHR);
    if (all) {
        enum { N = 1000 };
        static cl_uint x[N];
        cl_mem shared = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof x, x);
        cl_command_buffer_khr commands[MOST];
        size_t items = N;
        for (cl_uint i = 0; i < count; i++) {
            cl_uint a = i + 1;
            MAKE(commands[i], clCreateCommandBufferKHR(1, &queues[i], NULL, &status));
            set_arg(add, 0, sizeof shared, &shared);
            set_arg(add, 1, sizeof a, &a);
            CHECK(clCommandNDRangeKernelKHR(commands[i], NULL, NULL, add, 1, NULL, &items, NULL, 0, NULL, NULL, NULL));
            CHECK(clFinalizeCommandBufferKHR(commands[i]));
        }
        cl_event last = NULL;
        for (cl_uint i = 0; i < 10 * count; i++) {
            cl_event next;
            CHECK(clEnqueueCommandBufferKHR(0, NULL, commands[i % count], last ? 1 : 0, last ? &last : NULL, &next));
            if (last)
                CHECK(clReleaseEvent(last));
            last = next;
            /* One that has not ended cannot be enqueued again. */
            if (i % count == count - 1)
                CHECK(clWaitForEvents(1, &last));
        }
        CHECK(clReleaseEvent(last));
        read_back(0, shared, x, sizeof x);
        for (cl_uint k = 0; k < N; k++)
            REQUIRE(x[k] == 10 * count * (count + 1) / 2);
        for (cl_uint i = 0; i < count; i++)
            CHECK(clReleaseCommandBufferKHR(commands[i]));
        CHECK(clReleaseMemObject(shared));
    }
    printf("recorded commands are right\n");
}

static cl_mem common_buffer;
static size_t rounds;

static void *work(void *given)
{
    enum { N = 2000 };
    cl_uint me = (cl_uint)(uintptr_t)given, *x = calloc(N, 4), n = N;
    cl_kernel own, look;
    cl_event last = NULL;
    MAKE(own, clCreateKernel(program, "add", &status));
    MAKE(look, clCreateKernel(program, "sum", &status));
    cl_mem mine = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, N * 4, x), out = buffer_of(CL_MEM_READ_WRITE, 4, NULL);
    for (cl_uint i = 0; i < rounds; i++) {
        cl_command_queue queue = queues[(me + i) % count];
        cl_event next;
        cl_uint a = me + i, got;
        set_arg(own, 0, sizeof mine, &mine);
        set_arg(own, 1, sizeof a, &a);
        launch(queue, own, N, last ? 1 : 0, last ? &last : NULL, &next);
        if (last)
            CHECK(clReleaseEvent(last));
        last = next;
        for (cl_uint k = 0; k < N; k++)
            x[k] += a;
        if (i % 5 == 0) {
            set_arg(look, 0, sizeof common_buffer, &common_buffer);
            set_arg(look, 1, sizeof out, &out);
            set_arg(look, 2, sizeof n, &n);
            launch(queue, look, 1, 1, &last, &next);
            CHECK(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, 4, &got, 1, &next, NULL));
            CHECK(clReleaseEvent(next));
            REQUIRE(got == N * (N - 1) / 2);
        }
    }
    cl_uint *y = malloc(N * 4);
    CHECK(clEnqueueReadBuffer(queues[me % count], mine, CL_TRUE, 0, N * 4, y, 1, &last, NULL));
    REQUIRE(memcmp(x, y, N * 4) == 0);
    CHECK(clReleaseEvent(last));
    CHECK(clReleaseMemObject(mine));
    CHECK(clReleaseMemObject(out));
    CHECK(clReleaseKernel(own));
    CHECK(clReleaseKernel(look));
    free(x);
    free(y);
    return NULL;
}

static void threads(size_t n)
{
    enum { THREADS = 6, N = 2000 };
    static cl_uint x[N];
    pthread_t all[THREADS];
    for (cl_uint i = 0; i < N; i++)
        x[i] = i;
    rounds = n;
    common_buffer = buffer_of(CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof x, x);
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&all[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(all[i], NULL) == 0);
    CHECK(clReleaseMemObject(common_buffer));
    printf("what threads do at once is right\n");
}

static void lost(void)
{
    enum { N = 100000 };
    static cl_uint x[N];
    REQUIRE(count >= 3);
    /* One is on the second device, too. */
    cl_mem both = buffer_of(CL_MEM_READ_WRITE, sizeof x, NULL), only = buffer_of(CL_MEM_READ_WRITE, sizeof x, NULL);
    CHECK(clReleaseEvent(run(0, put, both, 3, N, 0, NULL)));
    CHECK(clReleaseEvent(run(0, put, only, 3, N, 0, NULL)));
    CHECK(clFinish(queues[0]));
    CHECK(clEnqueueMigrateMemObjects(queues[1], 1, &both, 0, 0, NULL, NULL));
    CHECK(clFinish(queues[1]));
    printf("ready\n");
    fflush(stdout);
    getchar();
    /* What is enqueued before the loss is noticed may fail with it. */
    AWAIT(clFinish(queues[0]) != CL_SUCCESS);
    for (cl_uint i = 1; i < 3; i++) {
        memset(x, 0, sizeof x);
        CHECK(clEnqueueReadBuffer(queues[i], both, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
        REQUIRE(x[0] == 1 && x[N - 1] == (N - 1) * 3 + 1);
        REQUIRE(clEnqueueReadBuffer(queues[i], only, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL) < 0);
    }
    CHECK(clReleaseEvent(run(2, add, both, 5, N, 0, NULL)));
    CHECK(clFinish(queues[2]));
    CHECK(clEnqueueReadBuffer(queues[1], both, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
    REQUIRE(x[0] == 6);
    /* What was lost can be written again. */
    CHECK(clEnqueueWriteBuffer(queues[1], only, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
    CHECK(clFinish(queues[1]));
    CHECK(clReleaseEvent(run(2, add, only, 5, N, 0, NULL)));
    CHECK(clFinish(queues[2]));
    CHECK(clEnqueueReadBuffer(queues[1], only, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
    REQUIRE(x[0] == 11 && x[N - 1] == (N - 1) * 3 + 11);
    CHECK(clReleaseMemObject(both));
    CHECK(clReleaseMemObject(only));
    printf("what others have is right\n");
}

static uint64_t seed;

static cl_uint roll(cl_uint sides)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (cl_uint)(seed >> 33) % sides;
}

/* Every command waits for the one before, wherever that was. */
static void at_random(cl_uint n)
{
    enum { N = 16384, PARTS = 16 };
    static cl_uint model[2][N], host[N];
    cl_mem whole[2], parts[2][PARTS];
    for (int o = 0; o < 2; o++) {
        for (cl_uint i = 0; i < N; i++)
            model[o][i] = i * (o + 3);
        whole[o] = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof host, model[o]);
        for (cl_uint i = 0; i < PARTS; i++)
            parts[o][i] = part_of(whole[o], sizeof host / PARTS * i, sizeof host / PARTS);
    }
    cl_event last;
    CHECK(clEnqueueMarkerWithWaitList(queues[0], 0, NULL, &last));
    for (cl_uint step = 0; step < n; step++) {
        cl_uint on = roll(count), o = roll(2), part = roll(PARTS), start = roll(N), value = roll(1000);
        cl_uint len = 1 + roll(roll(2) ? N : 64), other = roll(N);
        len = len > N - start ? N - start : len;
        cl_command_queue queue = queues[on];
        cl_event next = NULL;
        cl_uint *at;
        switch (roll(8)) {
        case 0:
            next = run(on, add, parts[o][part], value, N / PARTS, 1, &last);
            for (cl_uint i = 0; i < N / PARTS; i++)
                model[o][N / PARTS * part + i] += value;
            break;
        case 1:
            next = run(on, add, whole[o], value, len, 1, &last);
            for (cl_uint i = 0; i < len; i++)
                model[o][i] += value;
            break;
        case 2:
            for (cl_uint i = 0; i < len; i++)
                host[i] = model[o][start + i] = step * 1000 + i;
            CHECK(clEnqueueWriteBuffer(queue, whole[o], CL_TRUE, start * 4, len * 4, host, 1, &last, &next));
            break;
        case 3:
            CHECK(clEnqueueReadBuffer(queue, whole[o], CL_TRUE, start * 4, len * 4, host, 1, &last, &next));
            REQUIRE(memcmp(host, model[o] + start, len * 4) == 0);
            break;
        case 4:
            len = len > N - other ? N - other : len;
            CHECK(clEnqueueCopyBuffer(queue, whole[o], whole[1 - o], start * 4, other * 4, len * 4, 1, &last, &next));
            memcpy(model[1 - o] + other, model[o] + start, len * 4);
            break;
        case 5:
            CHECK(clEnqueueFillBuffer(queue, whole[o], &value, 4, start * 4, len * 4, 1, &last, &next));
            for (cl_uint i = 0; i < len; i++)
                model[o][start + i] = value;
            break;
        case 6:
            MAKE(at, clEnqueueMapBuffer(queue, whole[o], CL_TRUE, roll(2) ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_WRITE_INVALIDATE_REGION,
                                        start * 4, len * 4, 1, &last, NULL, &status));
            for (cl_uint i = 0; i < len; i++)
                at[i] = model[o][start + i] = step + i;
            CHECK(clEnqueueUnmapMemObject(queue, whole[o], at, 0, NULL, &next));
            break;
        default:
            CHECK(clEnqueueMigrateMemObjects(queue, 1, roll(2) ? &whole[o] : &parts[o][part], 0, 1, &last, &next));
        }
        CHECK(clReleaseEvent(last));
        last = next;
    }
    for (int o = 0; o < 2; o++) {
        CHECK(clEnqueueReadBuffer(queues[0], whole[o], CL_TRUE, 0, sizeof host, host, 1, &last, NULL));
        REQUIRE(memcmp(host, model[o], sizeof host) == 0);
        for (cl_uint i = 0; i < PARTS; i++)
            CHECK(clReleaseMemObject(parts[o][i]));
        CHECK(clReleaseMemObject(whole[o]));
    }
    CHECK(clReleaseEvent(last));
    printf("commands at random are right\n");
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    const char *what = argv[1];
    size_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0, second = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    open_all();
    if (strcmp(what, "released") == 0) {
        released((cl_uint)first);
    } else if (strcmp(what, "recorded") == 0) {
        recorded();
    } else if (strcmp(what, "threads") == 0) {
        threads(first);
    } else if (strcmp(what, "lost") == 0) {
        lost();
    } else {
        REQUIRE(strcmp(what, "random") == 0);
        seed = first;
        at_random((cl_uint)second);
    }
    close_all();
    return 0;
}
