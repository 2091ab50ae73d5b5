/* What is in memory objects that several devices of one context use in turn and at once.
 *
 * residency alternate N SIZE   a buffer incremented N times, on one device and another in turn, ordered by events
 * residency broadcast SIZE     a read-only buffer that every device reads, three times
 * residency halves SIZE        parts of a buffer, written at the same time on all devices, then read whole on each
 * residency never SIZE         a large buffer of which little is ever written
 * residency overwrite SIZE     what is replaced or not needed does not move
 * residency objects            copies between buffers of different devices, rectangles, images, maps, memory of the program's own
 * residency released N         buffers released while they are under way
 * residency recorded           command buffers, where devices have them
 * residency threads N          threads that each change a buffer of their own N times, and read one that all share
 * residency lost               says "ready", waits for a line while the first device goes away, and uses what it had
 * residency random SEED N      N commands of all kinds, on any device, each after the one before, beside the same on an array */
#include "common.h"
#include <CL/cl_ext.h>
#include <pthread.h>

static const char *SOURCE =
    "__kernel void add(__global uint *x, uint a) { x[get_global_id(0)] += a; }\n"
    "__kernel void put(__global uint *x, uint a) { x[get_global_id(0)] = (uint)get_global_id(0) * a + 1; }\n"
    "__kernel void sum(__global const uint *x, __global uint *out, uint n) {\n"
    "    uint s = 0; for (uint i = get_global_id(0); i < n; i += get_global_size(0)) s += x[i]; out[get_global_id(0)] = s; }\n"
    "__kernel void turn(__read_only image2d_t from, __write_only image2d_t to) {\n"
    "    int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "    uint4 p = read_imageui(from, CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST, at);\n"
    "    write_imageui(to, at, p.yzwx + (uint4)(1, 2, 3, 4)); }\n";

enum { MOST = 16 };

static cl_device_id devices[MOST];
static cl_command_queue queues[MOST];
static cl_uint count;
static cl_program program;
static cl_kernel add, put, sum, turn;

static void open_all(void)
{
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, devices, &count));
    MAKE(context, clCreateContext(NULL, count, devices, NULL, NULL, &status));
    for (cl_uint i = 0; i < count; i++)
        MAKE(queues[i], clCreateCommandQueue(context, devices[i], 0, &status));
    MAKE(program, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, "-cl-kernel-arg-info", NULL, NULL));
    add = kernel_of(program, "add");
    put = kernel_of(program, "put");
    sum = kernel_of(program, "sum");
    turn = kernel_of(program, "turn");
}

static cl_event run(cl_uint on, cl_kernel kernel, cl_mem x, cl_uint a, size_t items, cl_uint waits, const cl_event *list)
{
    cl_event event;
    set_arg(kernel, 0, sizeof x, &x);
    set_arg(kernel, 1, sizeof a, &a);
    launch(queues[on % count], kernel, items, waits, list, &event);
    return event;
}

static void read_back(cl_uint on, cl_mem x, void *to, size_t size)
{
    CHECK(clEnqueueReadBuffer(queues[on % count], x, CL_TRUE, 0, size, to, 0, NULL, NULL));
}

static cl_mem part_of(cl_mem whole, size_t origin, size_t size)
{
    cl_buffer_region region = {origin, size};
    cl_mem part;
    MAKE(part, clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
    return part;
}

static void finish_all(void)
{
    for (cl_uint i = 0; i < count; i++)
        CHECK(clFinish(queues[i]));
}

static void alternate(cl_uint n, size_t size)
{
    cl_uint *x = calloc(1, size);
    cl_mem shared = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, x);
    cl_event last = NULL;
    for (cl_uint i = 0; i < n; i++) {
        cl_event next = run(i % 2, add, shared, 1, size / 4, last ? 1 : 0, last ? &last : NULL);
        if (last)
            CHECK(clReleaseEvent(last));
        last = next;
    }
    CHECK(clWaitForEvents(1, &last));
    CHECK(clReleaseEvent(last));
    read_back(n - 1, shared, x, size);
    for (size_t i = 0; i < size / 4; i++)
        REQUIRE(x[i] == n);
    CHECK(clReleaseMemObject(shared));
    free(x);
    printf("what was incremented in turn is right\n");
}

static void broadcast(size_t size)
{
    cl_uint *x = malloc(size), n = (cl_uint)(size / 4), want = 0, got[MOST];
    for (cl_uint i = 0; i < n; i++)
        want += x[i] = i * 7 + 1;
    cl_mem all = buffer_of(CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size, x);
    for (int round = 0; round < 3; round++) {
        for (cl_uint i = 0; i < count; i++) {
            cl_mem out = buffer_of(CL_MEM_WRITE_ONLY, 4, NULL);
            set_arg(sum, 0, sizeof all, &all);
            set_arg(sum, 1, sizeof out, &out);
            set_arg(sum, 2, sizeof n, &n);
            launch(queues[i], sum, 1, 0, NULL, NULL);
            read_back(i, out, &got[i], 4);
            REQUIRE(got[i] == want);
            CHECK(clReleaseMemObject(out));
        }
    }
    CHECK(clReleaseMemObject(all));
    free(x);
    printf("what all devices read is right\n");
}

static void halves(size_t size)
{
    size_t each = size / count / 4096 * 4096;
    cl_uint *x = malloc(size);
    cl_mem whole = buffer_of(CL_MEM_READ_WRITE, each * count, NULL), parts[MOST];
    for (cl_uint i = 0; i < count; i++)
        parts[i] = part_of(whole, each * i, each);
    for (int round = 1; round < 3; round++) {
        for (cl_uint i = 0; i < count; i++) {
            CHECK(clReleaseEvent(run(i, put, parts[i], i + round, each / 4, 0, NULL)));
            CHECK(clFlush(queues[i]));
        }
        finish_all();
        for (cl_uint i = 0; i < count; i++) {
            read_back(i, whole, x, each * count);
            for (size_t k = 0; k < each * count / 4; k++)
                REQUIRE(x[k] == k % (each / 4) * (k / (each / 4) + round) + 1);
        }
    }
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseMemObject(parts[i]));
    CHECK(clReleaseMemObject(whole));
    free(x);
    printf("parts written at once are right\n");
}

static void never(size_t size)
{
    cl_uint x[256];
    cl_mem whole = buffer_of(CL_MEM_READ_WRITE, size, NULL), little = part_of(whole, 65536, sizeof x);
    CHECK(clReleaseEvent(run(0, put, little, 3, 256, 0, NULL)));
    finish_all();
    for (cl_uint i = 0; i < count; i++) {
        /* All of it is an argument; a kernel may read any of it. */
        cl_mem out = buffer_of(CL_MEM_WRITE_ONLY, 4, NULL);
        cl_uint n = 1;
        set_arg(sum, 0, sizeof whole, &whole);
        set_arg(sum, 1, sizeof out, &out);
        set_arg(sum, 2, sizeof n, &n);
        launch(queues[i], sum, 1, 0, NULL, NULL);
        CHECK(clFinish(queues[i]));
        CHECK(clReleaseMemObject(out));
        CHECK(clEnqueueReadBuffer(queues[i], whole, CL_TRUE, 65536, sizeof x, x, 0, NULL, NULL));
        for (cl_uint k = 0; k < 256; k++)
            REQUIRE(x[k] == k * 3 + 1);
    }
    CHECK(clReleaseMemObject(little));
    CHECK(clReleaseMemObject(whole));
    printf("the little that was written is right\n");
}

static void overwrite(size_t size)
{
    cl_uint *x = malloc(size), pattern = 5;
    cl_mem a = buffer_of(CL_MEM_READ_WRITE, size, NULL), b = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    CHECK(clReleaseEvent(run(0, put, a, 3, size / 4, 0, NULL)));
    CHECK(clReleaseEvent(run(0, put, b, 4, size / 4, 0, NULL)));
    finish_all();
    CHECK(clEnqueueFillBuffer(queues[1 % count], a, &pattern, 4, 0, size, 0, NULL, NULL));
    CHECK(clEnqueueCopyBuffer(queues[1 % count], a, b, 0, 0, size, 0, NULL, NULL));
    read_back(1, b, x, size);
    REQUIRE(x[0] == 5 && x[size / 4 - 1] == 5);
    for (cl_uint i = 0; i < size / 4; i++)
        x[i] = i;
    CHECK(clEnqueueWriteBuffer(queues[0], a, CL_TRUE, 0, size, x, 0, NULL, NULL));
    finish_all();
    /* The kernel on the second device replaces it all, and says so. */
    cl_event moved;
    CHECK(clEnqueueMigrateMemObjects(queues[1 % count], 1, &a, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, &moved));
    CHECK(clReleaseEvent(run(1, put, a, 9, size / 4, 1, &moved)));
    CHECK(clReleaseEvent(moved));
    read_back(1, a, x, size);
    for (cl_uint i = 0; i < size / 4; i++)
        REQUIRE(x[i] == i * 9 + 1);
    /* Asked for early, it is there when it is needed; back with the host it is nowhere new. */
    CHECK(clEnqueueMigrateMemObjects(queues[1 % count], 1, &a, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, NULL));
    CHECK(clFinish(queues[1 % count]));
    CHECK(clReleaseMemObject(a));
    CHECK(clReleaseMemObject(b));
    free(x);
    printf("what was replaced is right\n");
}

static void rectangles(void)
{
    enum { WIDTH = 64, HEIGHT = 48 };
    static cl_uchar x[WIDTH * HEIGHT], y[WIDTH * HEIGHT], piece[16 * 8];
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        x[i] = (cl_uchar)(i * 31);
    memset(piece, 0xaa, sizeof piece);
    cl_mem plane = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof x, x);
    size_t at[3] = {0, 0, 0}, zero[3] = {0, 0, 0}, region[3] = {16, 8, 1};
    for (cl_uint i = 0; i < 6; i++) {
        at[0] = i * 7;
        at[1] = i * 5;
        memset(piece, (int)i + 1, sizeof piece);
        CHECK(clEnqueueWriteBufferRect(queues[i % count], plane, CL_TRUE, at, zero, region, WIDTH, 0, 0, 0, piece, 0, NULL, NULL));
        for (size_t row = 0; row < 8; row++)
            memset(x + (at[1] + row) * WIDTH + at[0], (int)i + 1, 16);
        CHECK(clFinish(queues[i % count]));
    }
    size_t to[3] = {40, 20, 0};
    CHECK(clEnqueueCopyBufferRect(queues[1 % count], plane, plane, zero, to, region, WIDTH, 0, WIDTH, 0, 0, NULL, NULL));
    CHECK(clFinish(queues[1 % count]));
    for (size_t row = 0; row < 8; row++)
        memmove(x + (20 + row) * WIDTH + 40, x + row * WIDTH, 16);
    for (cl_uint i = 0; i < count; i++) {
        read_back(i, plane, y, sizeof y);
        REQUIRE(memcmp(x, y, sizeof x) == 0);
    }
    CHECK(clReleaseMemObject(plane));
    printf("rectangles are right\n");
}

static void pictures(void)
{
    enum { W = 61, H = 37 };
    static cl_uchar x[W * H * 4], y[W * H * 4];
    cl_bool has = CL_TRUE;
    for (cl_uint i = 0; i < count; i++) {
        cl_bool one;
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_IMAGE_SUPPORT, sizeof one, &one, NULL));
        has = has && one;
    }
    if (!has) {
        printf("images are right\n");
        return;
    }
    for (int i = 0; i < W * H * 4; i++)
        x[i] = (cl_uchar)(i * 7);
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc like = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = W, .image_height = H};
    cl_mem a, b;
    MAKE(a, clCreateImage(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, &format, &like, x, &status));
    MAKE(b, clCreateImage(context, CL_MEM_READ_WRITE, &format, &like, NULL, &status));
    size_t items[2] = {W, H}, zero[3] = {0, 0, 0}, whole[3] = {W, H, 1};
    for (cl_uint i = 0; i < 2 * count; i++) {
        set_arg(turn, 0, sizeof a, &a);
        set_arg(turn, 1, sizeof b, &b);
        CHECK(clEnqueueNDRangeKernel(queues[i % count], turn, 2, NULL, items, NULL, 0, NULL, NULL));
        CHECK(clFinish(queues[i % count]));
        cl_mem swap = a;
        a = b;
        b = swap;
        for (int p = 0; p < W * H; p++) {
            cl_uchar *q = x + 4 * p, first = q[0];
            q[0] = (cl_uchar)(q[1] + 1 > 255 ? 255 : q[1] + 1);
            q[1] = (cl_uchar)(q[2] + 2 > 255 ? 255 : q[2] + 2);
            q[2] = (cl_uchar)(q[3] + 3 > 255 ? 255 : q[3] + 3);
            q[3] = (cl_uchar)(first + 4 > 255 ? 255 : first + 4);
        }
    }
    /* A part is written on one device, the rest stays as it was. */
    static cl_uchar corner[4 * 10 * 6];
    memset(corner, 77, sizeof corner);
    size_t part[3] = {10, 6, 1}, at[3] = {9, 8, 0};
    CHECK(clEnqueueWriteImage(queues[1 % count], a, CL_TRUE, at, part, 0, 0, corner, 0, NULL, NULL));
    CHECK(clFinish(queues[1 % count]));
    for (size_t row = 0; row < 6; row++)
        memset(x + ((at[1] + row) * W + at[0]) * 4, 77, 40);
    cl_mem bytes = buffer_of(CL_MEM_READ_WRITE, sizeof x, NULL);
    CHECK(clEnqueueCopyImageToBuffer(queues[0], a, bytes, zero, whole, 0, 0, NULL, NULL));
    CHECK(clFinish(queues[0]));
    read_back(1, bytes, y, sizeof y);
    REQUIRE(memcmp(x, y, sizeof x) == 0);
    for (cl_uint i = 0; i < count; i++) {
        memset(y, 0, sizeof y);
        CHECK(clEnqueueReadImage(queues[i], a, CL_TRUE, zero, whole, 0, 0, y, 0, NULL, NULL));
        REQUIRE(memcmp(x, y, sizeof x) == 0);
    }
    CHECK(clReleaseMemObject(bytes));
    CHECK(clReleaseMemObject(a));
    CHECK(clReleaseMemObject(b));
    printf("images are right\n");
}

static void mapped(void)
{
    enum { N = 5000 };
    static cl_uint own[N] __attribute__((aligned(4096))), y[N];
    for (cl_uint i = 0; i < N; i++)
        own[i] = i;
    cl_mem used = buffer_of(CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, sizeof own, own);
    for (cl_uint i = 0; i < 2 * count; i++) {
        cl_event event = run(i, add, used, 2, N, 0, NULL);
        cl_uint *at;
        MAKE(at, clEnqueueMapBuffer(queues[(i + 1) % count], used, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 400, 4000, 1, &event, NULL,
                                    &status));
        REQUIRE(at == own + 100);
        for (cl_uint k = 0; k < 1000; k++) {
            REQUIRE(at[k] == k + 100 + 2 * (i + 1) + 10 * i);
            at[k] += 10;
        }
        CHECK(clReleaseEvent(event));
        CHECK(clEnqueueUnmapMemObject(queues[(i + 1) % count], used, at, 0, NULL, NULL));
        CHECK(clFinish(queues[(i + 1) % count]));
    }
    for (cl_uint i = 0; i < count; i++) {
        read_back(i, used, y, sizeof y);
        for (cl_uint k = 0; k < N; k++)
            REQUIRE(y[k] == k + 4 * count + (k >= 100 && k < 1100 ? 20 * count : 0));
    }
    CHECK(clReleaseMemObject(used));
    printf("mapped memory is right\n");
}

static void copies(void)
{
    enum { N = 3000 };
    static cl_uint y[N];
    cl_mem made[MOST], target = buffer_of(CL_MEM_READ_WRITE, sizeof y, NULL);
    for (cl_uint i = 0; i < count; i++) {
        made[i] = buffer_of(CL_MEM_READ_WRITE, sizeof y, NULL);
        CHECK(clReleaseEvent(run(i, put, made[i], i + 2, N, 0, NULL)));
    }
    finish_all();
    /* A third of each, on a device that has neither. */
    size_t third = sizeof y / 3;
    for (cl_uint i = 0; i < 3; i++) {
        CHECK(clEnqueueCopyBuffer(queues[(i + 2) % count], made[i % count], target, third * i, third * i, third, 0, NULL, NULL));
        CHECK(clFinish(queues[(i + 2) % count]));
    }
    read_back(0, target, y, sizeof y);
    for (cl_uint k = 0; k < N; k++)
        REQUIRE(y[k] == k * (k / (N / 3) % count + 2) + 1);
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseMemObject(made[i]));
    CHECK(clReleaseMemObject(target));
    printf("copies are right\n");
}

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
    while (clFinish(queues[0]) == CL_SUCCESS)
        usleep(1000);
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
    if (strcmp(what, "alternate") == 0) {
        alternate((cl_uint)first, second);
    } else if (strcmp(what, "broadcast") == 0) {
        broadcast(first);
    } else if (strcmp(what, "halves") == 0) {
        halves(first);
    } else if (strcmp(what, "never") == 0) {
        never(first);
    } else if (strcmp(what, "overwrite") == 0) {
        overwrite(first);
    } else if (strcmp(what, "released") == 0) {
        released((cl_uint)first);
    } else if (strcmp(what, "recorded") == 0) {
        recorded();
    } else if (strcmp(what, "threads") == 0) {
        threads(first);
    } else if (strcmp(what, "lost") == 0) {
        lost();
    } else if (strcmp(what, "random") == 0) {
        seed = first;
        at_random((cl_uint)second);
    } else {
        REQUIRE(strcmp(what, "objects") == 0);
        rectangles();
        pictures();
        mapped();
        copies();
    }
    clReleaseKernel(add);
    clReleaseKernel(put);
    clReleaseKernel(sum);
    clReleaseKernel(turn);
    clReleaseProgram(program);
    for (cl_uint i = 0; i < count; i++)
        clReleaseCommandQueue(queues[i]);
    clReleaseContext(context);
    return 0;
}
