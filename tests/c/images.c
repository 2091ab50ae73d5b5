/* Images of every type: made, described, read, written, copied, filled, mapped, sampled. Each check compares with a copy in this
   process; what is printed is the same natively. */
#include "common.h"

static cl_command_queue queue;

struct type {
    const char *name;
    cl_mem_object_type type;
    size_t extent[3];
    int slices; /* which entry of a region counts what a slice pitch is between; 0 for none */
};

static const struct type types[] = {
    { "1D", CL_MEM_OBJECT_IMAGE1D, { 37, 1, 1 }, 0 },
    { "1D array", CL_MEM_OBJECT_IMAGE1D_ARRAY, { 19, 5, 1 }, 1 },
    { "2D", CL_MEM_OBJECT_IMAGE2D, { 23, 11, 1 }, 0 },
    { "2D array", CL_MEM_OBJECT_IMAGE2D_ARRAY, { 13, 7, 3 }, 2 },
    { "3D", CL_MEM_OBJECT_IMAGE3D, { 9, 8, 5 }, 2 },
};
enum { TYPES = sizeof types / sizeof *types };

static cl_image_desc describe(const struct type *type)
{
    cl_image_desc desc = { .image_type = type->type, .image_width = type->extent[0] };
    switch (type->type) {
    case CL_MEM_OBJECT_IMAGE1D_ARRAY: desc.image_array_size = type->extent[1]; break;
    case CL_MEM_OBJECT_IMAGE2D: desc.image_height = type->extent[1]; break;
    case CL_MEM_OBJECT_IMAGE2D_ARRAY:
        desc.image_height = type->extent[1];
        desc.image_array_size = type->extent[2];
        break;
    case CL_MEM_OBJECT_IMAGE3D:
        desc.image_height = type->extent[1];
        desc.image_depth = type->extent[2];
        break;
    }
    return desc;
}

static size_t volume(const size_t *region) { return region[0] * region[1] * region[2]; }

/* The byte of an element at a place of the image. */
static unsigned char pattern(size_t x, size_t y, size_t z, size_t byte, unsigned seed)
{
    return (unsigned char)(x * 7 + y * 31 + z * 101 + byte * 3 + seed * 17 + 1);
}

/* Fills `region` at `origin` in memory with these strides with the pattern. */
static void put(unsigned char *at, const size_t *origin, const size_t *region, size_t element, size_t row, size_t slice,
                unsigned seed)
{
    for (size_t z = 0; z < region[2]; z++)
        for (size_t y = 0; y < region[1]; y++)
            for (size_t x = 0; x < region[0] * element; x++)
                at[z * slice + y * row + x] =
                    pattern(origin[0] + x / element, origin[1] + y, origin[2] + z, x % element, seed);
}

/* How many bytes of it are not the pattern's. */
static size_t wrong(const unsigned char *at, const size_t *origin, const size_t *region, size_t element, size_t row,
                    size_t slice, unsigned seed)
{
    size_t count = 0;
    for (size_t z = 0; z < region[2]; z++)
        for (size_t y = 0; y < region[1]; y++)
            for (size_t x = 0; x < region[0] * element; x++)
                count += at[z * slice + y * row + x] !=
                         pattern(origin[0] + x / element, origin[1] + y, origin[2] + z, x % element, seed);
    return count;
}

static cl_mem image_of(cl_mem_flags flags, const cl_image_format *format, const cl_image_desc *desc, void *host)
{
    cl_mem image;
    MAKE(image, clCreateImage(context, flags, format, desc, host, &status));
    return image;
}

static void print_info(const char *what, cl_mem image)
{
    size_t n[8] = { 0 };
    static const cl_image_info names[] = { CL_IMAGE_ELEMENT_SIZE, CL_IMAGE_ROW_PITCH, CL_IMAGE_SLICE_PITCH, CL_IMAGE_WIDTH,
                                           CL_IMAGE_HEIGHT,       CL_IMAGE_DEPTH,     CL_IMAGE_ARRAY_SIZE };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(clGetImageInfo(image, names[i], sizeof *n, &n[i], NULL));
    CHECK(clGetMemObjectInfo(image, CL_MEM_SIZE, sizeof *n, &n[7], NULL));
    cl_image_format format;
    cl_mem_object_type type;
    cl_mem_flags flags;
    cl_uint levels, samples;
    CHECK(clGetImageInfo(image, CL_IMAGE_FORMAT, sizeof format, &format, NULL));
    CHECK(clGetImageInfo(image, CL_IMAGE_NUM_MIP_LEVELS, sizeof levels, &levels, NULL));
    CHECK(clGetImageInfo(image, CL_IMAGE_NUM_SAMPLES, sizeof samples, &samples, NULL));
    CHECK(clGetMemObjectInfo(image, CL_MEM_TYPE, sizeof type, &type, NULL));
    CHECK(clGetMemObjectInfo(image, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
    printf("%s: type %x flags %x format %x/%x element %zu pitches %zu %zu size %zux%zux%zu array %zu bytes %zu mip %u %u\n", what,
           type, (unsigned)flags, format.image_channel_order, format.image_channel_data_type, n[0], n[1], n[2], n[3], n[4],
           n[5], n[6], n[7], levels, samples);
}

/* Writes all, reads a part with pitches, writes a part from memory with pitches, reads all. */
static void transfers(const struct type *type, const cl_image_format *format, size_t element)
{
    cl_image_desc desc = describe(type);
    cl_mem image = image_of(CL_MEM_READ_WRITE, format, &desc, NULL);
    const size_t *all = type->extent, zero[3] = { 0 };
    size_t row = all[0] * element, slice = row * all[1], bytes = volume(all) * element;
    unsigned char *memory = malloc(bytes * 3 + 65536), *back = malloc(bytes * 3 + 65536);
    put(memory, zero, all, element, row, slice, 1);
    CHECK(clEnqueueWriteImage(queue, image, CL_FALSE, zero, all, 0, 0, memory, 0, NULL, NULL));
    memset(back, 0xEE, bytes);
    CHECK(clEnqueueReadImage(queue, image, CL_TRUE, zero, all, 0, 0, back, 0, NULL, NULL));
    size_t whole = wrong(back, zero, all, element, row, slice, 1);

    size_t origin[3], part[3];
    for (int i = 0; i < 3; i++) {
        origin[i] = all[i] > 1 ? 1 : 0;
        part[i] = all[i] > 1 ? all[i] - 2 : 1;
    }
    /* The images of a 1D array lie a slice pitch apart; PoCL 3.1 takes the row pitch, so that both are the same here. */
    size_t row_pitch = (part[0] + 3) * element, stride = row_pitch;
    size_t slice_pitch = type->slices == 1 ? row_pitch : type->slices ? row_pitch * (part[1] + 1) : 0;
    memset(back, 0xEE, bytes * 3);
    CHECK(clEnqueueReadImage(queue, image, CL_TRUE, origin, part, row_pitch, slice_pitch, back, 0, NULL, NULL));
    size_t pitched = wrong(back, origin, part, element, stride, slice_pitch, 1);
    size_t between = back[part[0] * element] != 0xEE && part[1] > 1;

    put(memory, origin, part, element, stride, slice_pitch, 2);
    cl_event event;
    CHECK(clEnqueueWriteImage(queue, image, CL_TRUE, origin, part, row_pitch, slice_pitch, memory, 0, NULL, &event));
    CHECK(clEnqueueReadImage(queue, image, CL_TRUE, origin, part, 0, 0, back, 1, &event, NULL));
    size_t written = wrong(back, origin, part, element, part[0] * element, part[0] * element * part[1], 2);
    size_t corner[3] = { 1, 1, 1 };
    CHECK(clEnqueueReadImage(queue, image, CL_TRUE, zero, corner, 0, 0, back, 0, NULL, NULL));
    size_t kept = wrong(back, zero, corner, element, row, slice, 1);

    /* A map reads what is there; what is written in it is there afterwards, and nothing else is. */
    size_t mapped_row, mapped_slice = 77;
    unsigned char *mapped = clEnqueueMapImage(queue, image, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, origin, part, &mapped_row,
                                              &mapped_slice, 0, NULL, NULL, &status);
    CHECK(status);
    cl_uint maps;
    CHECK(clGetMemObjectInfo(image, CL_MEM_MAP_COUNT, sizeof maps, &maps, NULL));
    size_t mapped_stride = type->slices == 1 ? mapped_slice : mapped_row;
    size_t map_read = wrong(mapped, origin, part, element, mapped_stride, mapped_slice, 2);
    put(mapped, origin, part, element, mapped_stride, mapped_slice, 3);
    CHECK(clEnqueueUnmapMemObject(queue, image, mapped, 0, NULL, NULL));
    CHECK(clEnqueueReadImage(queue, image, CL_TRUE, origin, part, 0, 0, back, 0, NULL, NULL));
    size_t map_written = wrong(back, origin, part, element, part[0] * element, part[0] * element * part[1], 3);
    mapped = clEnqueueMapImage(queue, image, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, zero, all, &mapped_row, &mapped_slice, 0,
                               NULL, NULL, &status);
    CHECK(status);
    mapped_stride = type->slices == 1 ? mapped_slice : mapped_row;
    put(mapped, zero, all, element, mapped_stride, mapped_slice, 4);
    CHECK(clEnqueueUnmapMemObject(queue, image, mapped, 0, NULL, NULL));
    CHECK(clEnqueueReadImage(queue, image, CL_TRUE, zero, all, 0, 0, back, 0, NULL, NULL));
    size_t invalidated = wrong(back, zero, all, element, row, slice, 4);

    /* To a buffer and back, and to another image of the type. */
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, bytes + 64, NULL);
    CHECK(clEnqueueCopyImageToBuffer(queue, image, buffer, origin, part, 64, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 64, volume(part) * element, back, 0, NULL, NULL));
    size_t to_buffer = wrong(back, origin, part, element, part[0] * element, part[0] * element * part[1], 4);
    put(memory, zero, part, element, part[0] * element, part[0] * element * part[1], 5);
    CHECK(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, volume(part) * element, memory, 0, NULL, NULL));
    CHECK(clEnqueueCopyBufferToImage(queue, buffer, image, 0, zero, part, 0, NULL, NULL));
    cl_mem other = image_of(CL_MEM_READ_WRITE, format, &desc, NULL);
    CHECK(clEnqueueCopyImage(queue, image, other, zero, origin, part, 0, NULL, NULL));
    CHECK(clEnqueueReadImage(queue, other, CL_TRUE, origin, part, 0, 0, back, 0, NULL, NULL));
    size_t copied = wrong(back, zero, part, element, part[0] * element, part[0] * element * part[1], 5);

    printf("%s, %zu bytes: wrong %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu, maps %u\n", type->name, element, whole, pitched, between,
           written, kept, map_read, map_written, invalidated, to_buffer, copied, maps);
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseMemObject(other));
    CHECK(clReleaseMemObject(image));
    free(memory);
    free(back);
}

/* Host memory with pitches: copied, or used, and then mapped where it is. */
static void host_pointers(const struct type *type)
{
    const cl_image_format format = { CL_RGBA, CL_UNORM_INT8 };
    const size_t *all = type->extent, zero[3] = { 0 };
    size_t element = 4, row = (all[0] + 5) * element, stride = row;
    size_t slice = type->slices == 1 ? row : row * (all[1] + 1);
    size_t bytes = slice * 8 + stride * all[1] + 4096;
    unsigned char *memory = malloc(bytes), *back = malloc(bytes);
    for (int use = 0; use < 2; use++) {
        memset(memory, 0xEE, bytes);
        put(memory, zero, all, element, stride, slice, 6);
        cl_image_desc desc = describe(type);
        desc.image_row_pitch = row;
        desc.image_slice_pitch = type->slices ? slice : 0;
        cl_mem image = image_of(CL_MEM_READ_WRITE | (use ? CL_MEM_USE_HOST_PTR : CL_MEM_COPY_HOST_PTR), &format, &desc, memory);
        print_info(use ? "uses" : "copied", image);
        CHECK(clEnqueueReadImage(queue, image, CL_TRUE, zero, all, 0, 0, back, 0, NULL, NULL));
        size_t first = wrong(back, zero, all, element, all[0] * element, all[0] * element * all[1], 6);
        size_t origin[3], part[3], row_pitch, slice_pitch;
        for (int i = 0; i < 3; i++) {
            origin[i] = all[i] > 1 ? 1 : 0;
            part[i] = all[i] > 1 ? all[i] - 1 : 1;
        }
        unsigned char *mapped = clEnqueueMapImage(queue, image, CL_TRUE, CL_MAP_WRITE, origin, part, &row_pitch, &slice_pitch, 0,
                                                  NULL, NULL, &status);
        CHECK(status);
        if (use)
            printf("mapped at %td with %zu %zu\n", mapped - memory, row_pitch, slice_pitch);
        put(mapped, origin, part, element, type->slices == 1 ? slice_pitch : row_pitch, slice_pitch, 7);
        CHECK(clEnqueueUnmapMemObject(queue, image, mapped, 0, NULL, NULL));
        CHECK(clEnqueueReadImage(queue, image, CL_TRUE, origin, part, 0, 0, back, 0, NULL, NULL));
        size_t second = wrong(back, origin, part, element, part[0] * element, part[0] * element * part[1], 7);
        printf("%s from the host: wrong %zu %zu, between %x\n", type->name, first, second, memory[all[0] * element]);
        CHECK(clReleaseMemObject(image));
    }
    free(memory);
    free(back);
}

/* More than travels with a command, and more than one frame: also rows that are longer than that. */
static void large(void)
{
    static const struct type wide[] = {
        { "large 2D", CL_MEM_OBJECT_IMAGE2D, { 1021, 1531, 1 }, 0 },
        { "large 3D", CL_MEM_OBJECT_IMAGE3D, { 127, 131, 61 }, 2 },
        { "large array", CL_MEM_OBJECT_IMAGE2D_ARRAY, { 211, 307, 17 }, 2 },
    };
    static const cl_image_format formats[] = { { CL_RGBA, CL_UNSIGNED_INT8 }, { CL_RGBA, CL_FLOAT }, { CL_R, CL_UNSIGNED_INT16 } };
    static const size_t elements[] = { 4, 16, 2 };
    for (int i = 0; i < 3; i++)
        transfers(&wide[i], &formats[i], elements[i]);
    const size_t *all = wide[0].extent, zero[3] = { 0 };
    size_t bytes = volume(all) * 4;
    unsigned char *memory = malloc(bytes), *back = malloc(bytes);
    put(memory, zero, all, 4, all[0] * 4, bytes, 8);
    cl_image_desc desc = describe(&wide[0]);
    cl_mem image = image_of(CL_MEM_COPY_HOST_PTR, &formats[0], &desc, memory);
    CHECK(clEnqueueReadImage(queue, image, CL_TRUE, zero, all, 0, 0, back, 0, NULL, NULL));
    printf("large from the host: wrong %zu\n", wrong(back, zero, all, 4, all[0] * 4, bytes, 8));
    CHECK(clReleaseMemObject(image));
    free(memory);
    free(back);
}

static const char *const source =
    "constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;\n"
    "kernel void turn(read_only image2d_t from, write_only image2d_t to, int add) {\n"
    "    int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "    write_imageui(to, at.yx, read_imageui(from, nearest, at) + (uint4)(add));\n"
    "}\n"
    "kernel void sample(read_only image2d_t from, sampler_t sampler, global float4 *to, float2 step, long offset) {\n"
    "    int at = get_global_id(0);\n"
    "    to[at + offset] = read_imagef(from, sampler, step * (float)at);\n"
    "}\n"
    "kernel void row(read_only image1d_buffer_t from, global uint4 *to) {\n"
    "    to[get_global_id(0)] = read_imageui(from, get_global_id(0)) * 2;\n"
    "}\n"
    "kernel void sum(read_only image3d_t a, read_only image2d_array_t b, read_only image1d_t c, read_only image1d_array_t d,\n"
    "                global uint *to) {\n"
    "    int i = get_global_id(0);\n"
    "    to[i] = read_imageui(a, (int4)(i, 1, 1, 0)).x + read_imageui(b, (int4)(i, 1, 2, 0)).x * 256\n"
    "          + read_imageui(c, i).x * 65536 + read_imageui(d, (int2)(i, 3)).x * 16777216;\n"
    "}\n";

static void kernels(const char *options)
{
    cl_program program = build(source, options);
    const cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
    cl_image_desc desc = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 8, .image_height = 6 };
    unsigned char bytes[8 * 6 * 4], back[8 * 6 * 4];
    const size_t zero[3] = { 0 }, all[3] = { 8, 6, 1 }, turned[3] = { 6, 8, 1 };
    put(bytes, zero, all, 4, 32, 192, 1);
    cl_mem from = image_of(CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, &format, &desc, bytes);
    desc.image_width = 6, desc.image_height = 8;
    cl_mem to = image_of(CL_MEM_WRITE_ONLY, &format, &desc, NULL);
    cl_kernel turn = kernel_of(program, "turn");
    cl_int add = 1;
    set_arg(turn, 0, sizeof from, &from);
    set_arg(turn, 1, sizeof to, &to);
    set_arg(turn, 2, sizeof add, &add);
    size_t range[2] = { 8, 6 };
    CHECK(clEnqueueNDRangeKernel(queue, turn, 2, NULL, range, NULL, 0, NULL, NULL));
    CHECK(clEnqueueReadImage(queue, to, CL_TRUE, zero, turned, 0, 0, back, 0, NULL, NULL));
    size_t bad = 0;
    for (size_t y = 0; y < 6; y++)
        for (size_t x = 0; x < 8; x++)
            for (size_t c = 0; c < 4; c++)
                bad += back[(x * 6 + y) * 4 + c] != (unsigned char)(bytes[(y * 8 + x) * 4 + c] + 1);
    printf("turned: wrong %zu\n", bad);

    /* A sampler is an argument like others. */
    float colors[4 * 4 * 4];
    for (int i = 0; i < 64; i++)
        colors[i] = (float)i;
    const cl_image_format floats = { CL_RGBA, CL_FLOAT };
    desc.image_width = 4, desc.image_height = 4;
    cl_mem smooth = image_of(CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, &floats, &desc, colors);
    cl_mem out = buffer_of(CL_MEM_WRITE_ONLY, 16 * 16, NULL);
    cl_kernel sample = kernel_of(program, "sample");
    for (int filter = 0; filter < 2; filter++) {
        cl_sampler sampler;
        MAKE(sampler, clCreateSampler(context, CL_TRUE, CL_ADDRESS_CLAMP_TO_EDGE, filter ? CL_FILTER_LINEAR : CL_FILTER_NEAREST,
                                      &status));
        cl_float2 step = { { 0.125f, 0.0625f } };
        cl_long offset = 4;
        set_arg(sample, 0, sizeof smooth, &smooth);
        set_arg(sample, 1, sizeof sampler, &sampler);
        set_arg(sample, 2, sizeof out, &out);
        set_arg(sample, 3, sizeof step, &step);
        set_arg(sample, 4, sizeof offset, &offset);
        launch(queue, sample, 8, 0, NULL, NULL);
        CHECK(clReleaseSampler(sampler));
        float sampled[64];
        CHECK(clEnqueueReadBuffer(queue, out, CL_TRUE, 64, 128, sampled, 0, NULL, NULL));
        printf("sampled:");
        for (int i = 0; i < 8; i++)
            printf(" %.2f", sampled[i * 4]);
        printf("\n");
    }

    /* An image over a buffer. */
    cl_uint numbers[16], doubled[16];
    for (cl_uint i = 0; i < 16; i++)
        numbers[i] = i * i;
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof numbers, numbers);
    const cl_image_format uints = { CL_RGBA, CL_UNSIGNED_INT32 };
    cl_image_desc over = { .image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = 4, .buffer = buffer };
    cl_mem row = image_of(CL_MEM_READ_ONLY, &uints, &over, NULL);
    print_info("over a buffer", row);
    cl_mem parent, associated;
    CHECK(clGetImageInfo(row, CL_IMAGE_BUFFER, sizeof parent, &parent, NULL));
    CHECK(clGetMemObjectInfo(row, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof associated, &associated, NULL));
    printf("its buffer: %d %d\n", parent == buffer, associated == buffer);
    cl_kernel twice = kernel_of(program, "row");
    set_arg(twice, 0, sizeof row, &row);
    set_arg(twice, 1, sizeof out, &out);
    launch(queue, twice, 4, 0, NULL, NULL);
    CHECK(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof doubled, doubled, 0, NULL, NULL));
    for (bad = 0, add = 0; add < 16; add++)
        bad += doubled[add] != numbers[add] * 2;
    numbers[5] = 4711;
    CHECK(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, sizeof numbers, numbers, 0, NULL, NULL));
    const size_t four[3] = { 4, 1, 1 };
    CHECK(clEnqueueReadImage(queue, row, CL_TRUE, zero, four, 0, 0, doubled, 0, NULL, NULL));
    printf("over a buffer: wrong %zu, %u\n", bad, doubled[5]);

    /* All other types as arguments. */
    cl_kernel sum = kernel_of(program, "sum");
    const cl_image_format byte = { CL_R, CL_UNSIGNED_INT8 };
    static const int order[4] = { 4, 3, 0, 1 };
    cl_mem images[4];
    for (int i = 0; i < 4; i++) {
        const struct type *type = &types[order[i]];
        cl_image_desc each = describe(type);
        unsigned char memory[1024];
        put(memory, zero, type->extent, 1, type->extent[0], type->extent[0] * type->extent[1], i);
        images[i] = image_of(CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, &byte, &each, memory);
        set_arg(sum, i, sizeof(cl_mem), &images[i]);
    }
    set_arg(sum, 4, sizeof out, &out);
    launch(queue, sum, 8, 0, NULL, NULL);
    CHECK(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, 32, doubled, 0, NULL, NULL));
    for (bad = 0, add = 0; add < 8; add++) {
        cl_uint x = (cl_uint)add;
        cl_uint expected = pattern(x, 1, 1, 0, 0) | (cl_uint)pattern(x, 1, 2, 0, 1) << 8 | (cl_uint)pattern(x, 0, 0, 0, 2) << 16 |
                           (cl_uint)pattern(x, 3, 0, 0, 3) << 24;
        bad += doubled[add] != expected;
    }
    printf("all types: wrong %zu\n", bad);
    for (int i = 0; i < 4; i++)
        CHECK(clReleaseMemObject(images[i]));
    cl_mem rest[] = { from, to, smooth, out, row, buffer };
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        CHECK(clReleaseMemObject(rest[i]));
    cl_kernel used[] = { turn, sample, twice, sum };
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        CHECK(clReleaseKernel(used[i]));
    CHECK(clReleaseProgram(program));
}

static void fills(void)
{
    const cl_image_format formats[] = { { CL_RGBA, CL_FLOAT }, { CL_RGBA, CL_SIGNED_INT16 }, { CL_R, CL_UNSIGNED_INT8 } };
    const size_t elements[] = { 16, 8, 1 };
    const cl_float floats[4] = { 1.5f, -2.0f, 3.25f, 0.5f };
    const cl_int ints[4] = { -5, 6, -7, 8 };
    const cl_uint uints[4] = { 200, 1, 2, 3 };
    const void *colors[] = { floats, ints, uints };
    for (int f = 0; f < 3; f++)
        for (int t = 0; t < TYPES; t++) {
            cl_image_desc desc = describe(&types[t]);
            cl_mem image = image_of(CL_MEM_READ_WRITE, &formats[f], &desc, NULL);
            const size_t *all = types[t].extent, zero[3] = { 0 };
            size_t bytes = volume(all) * elements[f];
            unsigned char *back = calloc(bytes, 1);
            CHECK(clEnqueueWriteImage(queue, image, CL_TRUE, zero, all, 0, 0, back, 0, NULL, NULL));
            size_t part[3] = { all[0] / 2, all[1], all[2] };
            cl_event event;
            CHECK(clEnqueueFillImage(queue, image, colors[f], zero, part, 0, NULL, &event));
            CHECK(clEnqueueReadImage(queue, image, CL_TRUE, zero, all, 0, 0, back, 1, &event, NULL));
            printf("filled %s %zu: %016llx\n", types[t].name, elements[f], (unsigned long long)hash_of(back, bytes));
            CHECK(clReleaseMemObject(image));
            free(back);
        }
}

static void queries(void)
{
    static const cl_mem_flags access[] = { CL_MEM_READ_ONLY, CL_MEM_WRITE_ONLY, CL_MEM_READ_WRITE, CL_MEM_KERNEL_READ_AND_WRITE };
    for (int t = 0; t < TYPES; t++)
        for (int a = 0; a < 4; a++) {
            cl_image_format formats[512];
            cl_uint count, again;
            CHECK(clGetSupportedImageFormats(context, access[a], types[t].type, 512, formats, &count));
            CHECK(clGetSupportedImageFormats(context, access[a], types[t].type, 0, NULL, &again));
            printf("%s, %x: %u formats %016llx %d\n", types[t].name, (unsigned)access[a], count,
                   (unsigned long long)hash_of(formats, count * sizeof *formats), count == again);
        }
    static const cl_device_info sizes[] = { CL_DEVICE_IMAGE2D_MAX_WIDTH, CL_DEVICE_IMAGE3D_MAX_DEPTH, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE };
    for (int i = 0; i < 3; i++) {
        size_t size;
        CHECK(clGetDeviceInfo(device, sizes[i], sizeof size, &size, NULL));
        printf("limit %x: %zu\n", sizes[i], size);
    }
    static const cl_device_info numbers[] = { CL_DEVICE_IMAGE_SUPPORT, CL_DEVICE_MAX_SAMPLERS, CL_DEVICE_MAX_READ_IMAGE_ARGS,
                                              CL_DEVICE_MAX_WRITE_IMAGE_ARGS };
    for (int i = 0; i < 4; i++) {
        cl_uint number;
        CHECK(clGetDeviceInfo(device, numbers[i], sizeof number, &number, NULL));
        printf("limit %x: %u\n", numbers[i], number);
    }
    cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
    for (int t = 0; t < TYPES; t++) {
        cl_image_desc desc = describe(&types[t]);
        cl_mem image = image_of(CL_MEM_READ_ONLY, &format, &desc, NULL);
        print_info(types[t].name, image);
        CHECK(clReleaseMemObject(image));
    }
    cl_mem image;
    MAKE(image, clCreateImage2D(context, CL_MEM_READ_ONLY, &format, 5, 4, 0, NULL, &status));
    print_info("clCreateImage2D", image);
    CHECK(clReleaseMemObject(image));
    MAKE(image, clCreateImage3D(context, CL_MEM_READ_ONLY, &format, 5, 4, 3, 0, 0, NULL, &status));
    print_info("clCreateImage3D", image);
    CHECK(clEnqueueMigrateMemObjects(queue, 1, &image, 0, 0, NULL, NULL));
    CHECK(clFinish(queue));
    CHECK(clReleaseMemObject(image));
}

int main(void)
{
    open_device();
    queue = open_queue(0);
    queries();
    static const cl_image_format formats[] = { { CL_R, CL_UNSIGNED_INT8 }, { CL_RGBA, CL_UNSIGNED_INT16 }, { CL_RGBA, CL_FLOAT } };
    static const size_t elements[] = { 1, 8, 16 };
    for (int t = 0; t < TYPES; t++)
        for (int f = 0; f < 3; f++)
            transfers(&types[t], &formats[f], elements[f]);
    for (int t = 0; t < TYPES; t++)
        host_pointers(&types[t]);
    large();
    fills();
    kernels("");
    kernels("-cl-kernel-arg-info");
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return 0;
}
