/* What is in memory objects that several devices of one context use in turn and at once.
 *
 * residency alternate N SIZE   a buffer incremented N times, on one device and another in turn, ordered by events
 * residency broadcast SIZE     a read-only buffer that every device reads, three times
 * residency halves SIZE        parts of a buffer, written at the same time on all devices, then read whole on each
 * residency never SIZE         a large buffer of which little is ever written
 * residency overwrite SIZE     what is replaced or not needed does not move
 * residency objects            copies between buffers of different devices, rectangles, images, maps, memory of the program's own */
#include "residency.h"

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
    } else {
        REQUIRE(strcmp(what, "objects") == 0);
        rectangles();
        pictures();
        mapped();
        copies();
    }
    close_all();
    return 0;
}
