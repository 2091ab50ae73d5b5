/* What several devices of one context have of images of which each writes a part.
 *
 * image_rows bands         each device writes rows of its own, and all read all; then one writes its rows again
 * image_rows replaced      what is replaced whole does not move
 * image_rows columns       part of a row is as good as all of it
 * image_rows random SEED N commands of all kinds on images of all kinds, on any device, each after the one before, beside the same on arrays */
#include "residency.h"

static const cl_image_format RGBA = {CL_RGBA, CL_UNSIGNED_INT8};

enum { WIDTH = 200, HEIGHT = 300, ROW = WIDTH * 4 };

static unsigned char model[HEIGHT][ROW], seen[HEIGHT][ROW];

static cl_mem image_of(cl_mem_object_type type, size_t width, size_t height, size_t depth, void *contents)
{
    cl_image_desc like = {.image_type = type, .image_width = width, .image_height = height};
    if (type == CL_MEM_OBJECT_IMAGE1D_ARRAY)
        like.image_height = 0, like.image_array_size = height;
    else if (type == CL_MEM_OBJECT_IMAGE2D_ARRAY)
        like.image_array_size = depth;
    else
        like.image_depth = type == CL_MEM_OBJECT_IMAGE3D ? depth : 0;
    cl_mem image;
    MAKE(image, clCreateImage(context, CL_MEM_READ_WRITE | (contents ? CL_MEM_COPY_HOST_PTR : 0), &RGBA, &like, contents, &status));
    return image;
}

/* Writes some rows on a device, and waits. */
static void write_rows(cl_uint on, cl_mem image, size_t first, size_t rows, int how)
{
    for (size_t y = first; y < first + rows; y++)
        for (size_t x = 0; x < ROW; x++)
            model[y][x] = (unsigned char)(y * 3 + x * 5 + how * 7);
    size_t origin[3] = {0, first, 0}, region[3] = {WIDTH, rows, 1};
    CHECK(clEnqueueWriteImage(queues[on], image, CL_TRUE, origin, region, 0, 0, model[first], 0, NULL, NULL));
    CHECK(clFinish(queues[on]));
}

static void expect_rows(cl_uint on, cl_mem image, size_t first, size_t rows)
{
    size_t origin[3] = {0, first, 0}, region[3] = {WIDTH, rows, 1};
    CHECK(clEnqueueReadImage(queues[on], image, CL_TRUE, origin, region, 0, 0, seen[first], 0, NULL, NULL));
    REQUIRE(memcmp(seen[first], model[first], rows * ROW) == 0);
}

/* A kernel of a device reads all of it. */
static void use_all(cl_uint on, cl_mem image, cl_mem other)
{
    size_t all[2] = {WIDTH, HEIGHT};
    set_arg(turn, 0, sizeof image, &image);
    set_arg(turn, 1, sizeof other, &other);
    CHECK(clEnqueueNDRangeKernel(queues[on], turn, 2, NULL, all, NULL, 0, NULL, NULL));
    CHECK(clFinish(queues[on]));
}

static void bands(void)
{
    cl_mem image = image_of(CL_MEM_OBJECT_IMAGE2D, WIDTH, HEIGHT, 1, NULL);
    size_t each = HEIGHT / count;
    for (cl_uint i = 0; i < count; i++)
        write_rows(i, image, each * i, each, 1);
    for (cl_uint i = 0; i < count; i++)
        expect_rows(i, image, 0, each * count);
    write_rows(0, image, 0, each, 2);
    for (cl_uint i = 0; i < count; i++)
        expect_rows(i, image, 0, each * count);
    CHECK(clReleaseMemObject(image));
    printf("what each has written is right\n");
}

static void replaced(void)
{
    cl_mem image = image_of(CL_MEM_OBJECT_IMAGE2D, WIDTH, HEIGHT, 1, NULL), own[MOST], source;
    for (cl_uint i = 0; i < count; i++)
        own[i] = image_of(CL_MEM_OBJECT_IMAGE2D, WIDTH, HEIGHT, 1, NULL);
    size_t origin[3] = {0}, region[3] = {WIDTH, HEIGHT, 1}, pitch, rest;
    cl_uint color[4] = {1, 2, 3, 4};
    write_rows(0, image, 0, HEIGHT, 1);
    write_rows(1, image, 0, HEIGHT, 2);
    expect_rows(1, image, 0, HEIGHT);
    CHECK(clEnqueueFillImage(queues[0], image, color, origin, region, 0, NULL, NULL));
    CHECK(clFinish(queues[0]));
    /* A copy over all of it, from what the device has; then one from a buffer; then a map. */
    write_rows(1, own[1], 0, HEIGHT, 3);
    CHECK(clEnqueueCopyImage(queues[1], own[1], image, origin, origin, region, 0, NULL, NULL));
    expect_rows(1, image, 0, HEIGHT);
    for (size_t y = 0; y < HEIGHT; y++)
        memset(model[y], (int)y, ROW);
    source = buffer_of(CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof model, model);
    CHECK(clEnqueueCopyBufferToImage(queues[0], source, image, 0, origin, region, 0, NULL, NULL));
    expect_rows(0, image, 0, HEIGHT);
    unsigned char *mapped;
    MAKE(mapped, clEnqueueMapImage(queues[1], image, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, origin, region, &pitch, &rest, 0, NULL, NULL, &status));
    for (size_t y = 0; y < HEIGHT; y++)
        for (size_t x = 0; x < ROW; x++)
            mapped[y * pitch + x] = model[y][x] = (unsigned char)(x + y);
    CHECK(clEnqueueUnmapMemObject(queues[1], image, mapped, 0, NULL, NULL));
    expect_rows(1, image, 0, HEIGHT);
    CHECK(clReleaseMemObject(source));
    CHECK(clReleaseMemObject(image));
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseMemObject(own[i]));
    printf("what was replaced is right\n");
}

static void columns(void)
{
    cl_mem image = image_of(CL_MEM_OBJECT_IMAGE2D, WIDTH, HEIGHT, 1, NULL), other = image_of(CL_MEM_OBJECT_IMAGE2D, WIDTH, HEIGHT, 1, NULL);
    write_rows(0, image, 0, HEIGHT, 1);
    /* Ten rows, of which the other columns must come first. */
    unsigned char some[10][40];
    for (size_t y = 0; y < 10; y++)
        for (size_t x = 0; x < 40; x++)
            model[100 + y][80 + x] = some[y][x] = (unsigned char)(200 + x);
    size_t origin[3] = {20, 100, 0}, region[3] = {10, 10, 1};
    CHECK(clEnqueueWriteImage(queues[1], image, CL_TRUE, origin, region, 0, 0, some, 0, NULL, NULL));
    expect_rows(1, image, 100, 10);
    /* These go back, and all others come. */
    expect_rows(0, image, 0, HEIGHT);
    use_all(1, image, other);
    expect_rows(1, image, 0, HEIGHT);
    CHECK(clReleaseMemObject(image));
    CHECK(clReleaseMemObject(other));
    printf("what was written in part is right\n");
}

static uint64_t seed;

static size_t roll(size_t sides)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % sides;
}

enum { W = 9, H = 6, D = 5, KINDS = 4 };

static const struct {
    cl_mem_object_type type;
    size_t extent[3];
} LIKE[KINDS] = {
    {CL_MEM_OBJECT_IMAGE3D, {W, H, D}},
    {CL_MEM_OBJECT_IMAGE2D_ARRAY, {W, H, D}},
    {CL_MEM_OBJECT_IMAGE2D, {W, H * D, 1}},
    {CL_MEM_OBJECT_IMAGE1D_ARRAY, {W, H * D, 1}},
};

static uint32_t arrays[KINDS][W * H * D], linear[W * H * D], got[W * H * D];

/* A part of an image: often whole rows, sometimes whole slices. */
static void part(const size_t extent[3], size_t origin[3], size_t region[3])
{
    size_t whole = roll(4);
    for (size_t i = 0; i < 3; i++) {
        origin[i] = i < whole ? 0 : roll(extent[i]);
        region[i] = i < whole ? extent[i] : 1 + roll(extent[i] - origin[i]);
    }
}

static uint32_t *at(size_t image, const size_t origin[3], size_t x, size_t y, size_t z)
{
    const size_t *extent = LIKE[image].extent;
    return &arrays[image][((origin[2] + z) * extent[1] + origin[1] + y) * extent[0] + origin[0] + x];
}

#define EACH(region) \
    for (size_t z = 0, n = 0; z < (region)[2]; z++) \
        for (size_t y = 0; y < (region)[1]; y++) \
            for (size_t x = 0; x < (region)[0]; x++, n++)

static void at_random(size_t commands)
{
    cl_mem images[KINDS], buffer = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof linear, linear);
    for (size_t i = 0; i < KINDS; i++) {
        for (size_t k = 0; k < W * H * D; k++)
            arrays[i][k] = (uint32_t)(k * 17 + i);
        images[i] = image_of(LIKE[i].type, W, LIKE[i].extent[1], D, arrays[i]);
    }
    for (size_t command = 0; command < commands; command++) {
        size_t on = roll(count), i = roll(KINDS), origin[3], region[3], size = 1;
        part(LIKE[i].extent, origin, region);
        for (int k = 0; k < 3; k++)
            size *= region[k];
        uint32_t first = (uint32_t)roll(1 << 30);
        cl_command_queue queue = queues[on];
        switch (roll(6)) {
        case 0: {
            static uint32_t from[W * H * D];
            EACH(region) *at(i, origin, x, y, z) = from[n] = first + (uint32_t)n;
            CHECK(clEnqueueWriteImage(queue, images[i], CL_TRUE, origin, region, 0, 0, from, 0, NULL, NULL));
            break;
        }
        case 1: {
            cl_uint color[4] = {first & 255, first >> 8 & 255, first >> 16 & 255, first >> 24};
            EACH(region) *at(i, origin, x, y, z) = first, (void)n;
            CHECK(clEnqueueFillImage(queue, images[i], color, origin, region, 0, NULL, NULL));
            break;
        }
        case 2: {
            /* Between images of the same kind of extent, where there are two. */
            size_t j = i ^ 1, to[3];
            for (int k = 0; k < 3; k++)
                to[k] = roll(LIKE[j].extent[k] - region[k] + 1);
            EACH(region) *at(j, to, x, y, z) = *at(i, origin, x, y, z), (void)n;
            CHECK(clEnqueueCopyImage(queue, images[i], images[j], origin, to, region, 0, NULL, NULL));
            break;
        }
        case 3: {
            size_t offset = roll(W * H * D - size + 1);
            EACH(region) linear[offset + n] = *at(i, origin, x, y, z);
            CHECK(clEnqueueCopyImageToBuffer(queue, images[i], buffer, origin, region, offset * 4, 0, NULL, NULL));
            break;
        }
        case 4: {
            size_t offset = roll(W * H * D - size + 1);
            EACH(region) *at(i, origin, x, y, z) = linear[offset + n];
            CHECK(clEnqueueCopyBufferToImage(queue, buffer, images[i], offset * 4, origin, region, 0, NULL, NULL));
            break;
        }
        default:
            CHECK(clEnqueueReadImage(queue, images[i], CL_TRUE, origin, region, 0, 0, got, 0, NULL, NULL));
            EACH(region) REQUIRE(got[n] == *at(i, origin, x, y, z));
        }
        /* What is on another queue comes after. */
        cl_event so_far;
        CHECK(clEnqueueMarkerWithWaitList(queue, 0, NULL, &so_far));
        for (cl_uint k = 0; k < count; k++)
            if (k != on)
                CHECK(clEnqueueBarrierWithWaitList(queues[k], 1, &so_far, NULL));
        CHECK(clReleaseEvent(so_far));
    }
    for (size_t i = 0; i < KINDS; i++) {
        size_t origin[3] = {0};
        CHECK(clEnqueueReadImage(queues[i % count], images[i], CL_TRUE, origin, LIKE[i].extent, 0, 0, got, 0, NULL, NULL));
        REQUIRE(memcmp(got, arrays[i], sizeof got) == 0);
        CHECK(clReleaseMemObject(images[i]));
    }
    read_back(0, buffer, got, sizeof got);
    REQUIRE(memcmp(got, linear, sizeof got) == 0);
    CHECK(clReleaseMemObject(buffer));
    printf("what was done at random is right\n");
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    const char *what = argv[1];
    open_all();
    REQUIRE(count > 1);
    if (strcmp(what, "bands") == 0) {
        bands();
    } else if (strcmp(what, "replaced") == 0) {
        replaced();
    } else if (strcmp(what, "columns") == 0) {
        columns();
    } else {
        REQUIRE(strcmp(what, "random") == 0);
        seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
        at_random(argc > 3 ? strtoull(argv[3], NULL, 10) : 0);
    }
    close_all();
    return 0;
}
