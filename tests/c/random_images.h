/* Commands of random.c that use images, of which a pixel is a word. */
#ifndef RANDOM_IMAGES_H
#define RANDOM_IMAGES_H
#include "random_buffers.h"

/* The first two are of one size and have rows and columns, the third is of any kind. */
enum { IMAGES = 3 };

static Object images[IMAGES];
static cl_kernel turn;

static const char *IMAGE_SOURCE =
    "kernel void turn(read_only image2d_t from, write_only image2d_t to, uint4 key, uint2 end) {\n"
    "    int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "    if (at.x >= end.x || at.y >= end.y) return;\n"
    "    uint4 p = read_imageui(from, CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST, at);\n"
    "    write_imageui(to, at, p.yzwx ^ key); }\n";

static void make_image(Object *image, cl_mem_object_type type, size_t width, size_t height, size_t depth)
{
    static const cl_image_format RGBA = {CL_RGBA, CL_UNSIGNED_INT8};
    memset(image, 0, sizeof *image);
    int is_row = type == CL_MEM_OBJECT_IMAGE1D, has_slices = type == CL_MEM_OBJECT_IMAGE3D || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
    image->type = type;
    image->extent[0] = width;
    image->extent[1] = is_row ? 1 : height;
    image->extent[2] = has_slices ? depth : 1;
    image->words = image->limit = image->extent[0] * image->extent[1] * image->extent[2];
    image->model = malloc(image->words * sizeof(cl_uint));
    image->known = calloc(image->words, 1);
    cl_image_desc like = {.image_type = type, .image_width = width, .image_height = image->extent[1]};
    if (is_row || type == CL_MEM_OBJECT_IMAGE1D_ARRAY)
        like.image_height = 0;
    if (type == CL_MEM_OBJECT_IMAGE1D_ARRAY)
        like.image_array_size = height;
    if (type == CL_MEM_OBJECT_IMAGE2D_ARRAY)
        like.image_array_size = depth;
    if (type == CL_MEM_OBJECT_IMAGE3D)
        like.image_depth = depth;
    Place all = line(0, image->words);
    cl_uint *host = host_for(&all);
    int has_contents = roll(2) == 0;
    cl_mem_flags flags = CL_MEM_READ_WRITE | (has_contents ? CL_MEM_COPY_HOST_PTR : 0);
    MAKE(image->memory, clCreateImage(context, flags, &RGBA, &like, has_contents ? host : NULL, &status));
    if (has_contents)
        define_all(image, &all, host, &all);
    free(host);
}

/* Some pixels of an image, as OpenCL names them, and where they are among its words. */
typedef struct {
    size_t origin[3], region[3];
    Place at;
} Box;

static Box box_at(const Object *image, const size_t *origin, const size_t *region)
{
    size_t row = image->extent[0], slice = row * image->extent[1];
    Box box = {.at = {origin[0] + origin[1] * row + origin[2] * slice, {region[0], region[1], region[2]}, row, slice}};
    memcpy(box.origin, origin, sizeof box.origin);
    memcpy(box.region, region, sizeof box.region);
    return box;
}

/* Any box of at most so many words. */
static Box box_in(const Object *image, size_t most)
{
    size_t origin[3], region[3];
    for (int i = 0; i < 3; i++) {
        origin[i] = roll(2) ? roll(image->extent[i]) : 0;
        region[i] = roll(2) ? image->extent[i] - origin[i] : 1 + roll(image->extent[i] - origin[i]);
    }
    for (int i = 2; region[0] * region[1] * region[2] > most; i = (i + 2) % 3)
        region[i] = (region[i] + 1) / 2;
    return box_at(image, origin, region);
}

static int has_slices(const Object *image)
{
    return image->type == CL_MEM_OBJECT_IMAGE3D || image->type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
}

/* How its pixels lie in host memory; only images with rows or slices have gaps. */
static Place layout_of(const Object *image, const Box *box)
{
    int has_rows = image->type == CL_MEM_OBJECT_IMAGE2D || has_slices(image);
    Place layout = layout_for(&box->at, has_rows);
    if (!has_slices(image))
        layout.slice = layout.row * layout.count[1];
    return layout;
}

/* The pitches that calls take, in bytes. */
static size_t row_pitch(const Object *image, const Place *layout)
{
    return image->type == CL_MEM_OBJECT_IMAGE2D || has_slices(image) ? layout->row * 4 : 0;
}

static size_t slice_pitch(const Object *image, const Place *layout)
{
    return has_slices(image) ? layout->slice * 4 : 0;
}

static Object *any_of_images(void)
{
    return &images[roll(IMAGES)];
}

static void write_image(void)
{
    Command command;
    cl_event event;
    begin(&command, "write of an image");
    Object *image = any_of_images();
    Box box = box_in(image, image->words);
    Place layout = layout_of(image, &box);
    use(&command, image, WHOLE, 1);
    cl_uint *host = host_for(&layout);
    cl_bool blocked = blocks();
    DO(clEnqueueWriteImage(queue_of(&command), image->memory, blocked, box.origin, box.region, row_pitch(image, &layout),
                           slice_pitch(image, &layout), host, command.count, list_of(&command), &event));
    define_all(image, &box.at, host, &layout);
    has_written(blocked, event, host, &layout);
    end(&command, event);
}

static void read_image(void)
{
    Command command;
    cl_event event;
    begin(&command, "read of an image");
    Object *image = any_of_images();
    Box box = box_in(image, image->words);
    Place layout = layout_of(image, &box);
    use(&command, image, WHOLE, 0);
    cl_uint *host = host_for(&layout);
    cl_bool blocked = blocks();
    DO(clEnqueueReadImage(queue_of(&command), image->memory, blocked, box.origin, box.region, row_pitch(image, &layout),
                          slice_pitch(image, &layout), host, command.count, list_of(&command), &event));
    has_read(blocked, event, host, image, &box.at, &layout);
    end(&command, event);
}

static void fill_image(void)
{
    Command command;
    cl_event event;
    begin(&command, "fill of an image");
    Object *image = any_of_images();
    Box box = box_in(image, image->words);
    cl_uint value = bits(), color[4] = {value & 255, value >> 8 & 255, value >> 16 & 255, value >> 24};
    use(&command, image, WHOLE, 1);
    DO(clEnqueueFillImage(queue_of(&command), image->memory, color, box.origin, box.region, command.count, list_of(&command), &event));
    for (size_t i = 0; i < words_of(&box.at); i++)
        define(image, word_at(&box.at, i), value, 1);
    end(&command, event);
}

static void copy_image(void)
{
    Command command;
    cl_event event;
    begin(&command, "copy of an image");
    size_t one = roll(2);
    Object *to = &images[one], *from = &images[1 - one];
    Box target = box_in(to, to->words);
    size_t origin[3] = {roll(from->extent[0] - target.region[0] + 1), roll(from->extent[1] - target.region[1] + 1), 0};
    Box source = box_at(from, origin, target.region);
    use(&command, to, WHOLE, 1);
    use(&command, from, WHOLE, 0);
    DO(clEnqueueCopyImage(queue_of(&command), from->memory, to->memory, source.origin, target.origin, target.region, command.count,
                          list_of(&command), &event));
    model_copy(to, &target.at, from, &source.at);
    end(&command, event);
}

static void copy_with_buffer(void)
{
    Command command;
    cl_event event;
    int to_image = roll(2) != 0;
    begin(&command, to_image ? "copy of a buffer to an image" : "copy of an image to a buffer");
    Object *image = any_of_images(), *buffer = &buffers[roll(buffer_count)];
    Box box = box_in(image, words);
    size_t start = roll(words - words_of(&box.at) + 1);
    Place at = layout_for(&box.at, 0);
    at.start = start;
    use(&command, image, WHOLE, to_image);
    use(&command, buffer, WHOLE, !to_image);
    if (to_image) {
        DO(clEnqueueCopyBufferToImage(queue_of(&command), buffer->memory, image->memory, start * 4, box.origin, box.region, command.count,
                                      list_of(&command), &event));
        model_copy(image, &box.at, buffer, &at);
    } else {
        DO(clEnqueueCopyImageToBuffer(queue_of(&command), image->memory, buffer->memory, box.origin, box.region, start * 4, command.count,
                                      list_of(&command), &event));
        model_copy(buffer, &at, image, &box.at);
    }
    end(&command, event);
}

static void map_image(void)
{
    static const cl_map_flags ways[] = {CL_MAP_READ, CL_MAP_READ, CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION};
    Command command;
    cl_event event;
    begin(&command, "map of an image");
    Object *image = any_of_images();
    Box box = box_in(image, image->words);
    cl_map_flags flags = ways[roll(5)];
    size_t row = 0, slice = 0;
    if (image->mapped == MOST_MAPS)
        unmap(image, 0);
    use(&command, image, WHOLE, flags != CL_MAP_READ);
    cl_bool blocked = blocks();
    Map map = {.at = box.at, .part = WHOLE, .memory = image->memory, .flags = flags, .queue = command.queue};
    map.host = clEnqueueMapImage(queue_of(&command), image->memory, blocked, flags, box.origin, box.region, &row, &slice, command.count,
                                 list_of(&command), &event, &status);
    DO(status);
    map.row = (image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? slice : row) / 4;
    map.slice = slice / 4;
    if (flags == CL_MAP_WRITE_INVALIDATE_REGION)
        forget(image, &box.at);
    has_mapped(image, map, blocked, event);
    end(&command, event);
}

static void turn_image(void)
{
    Command command;
    cl_event event;
    begin(&command, "kernel of two images");
    size_t one = roll(2);
    Object *to = &images[one], *from = &images[1 - one];
    Box box = box_in(to, to->words);
    cl_uint value = bits(), key[4] = {value & 255, value >> 8 & 255, value >> 16 & 255, value >> 24};
    cl_uint end_of_box[2] = {(cl_uint)(box.origin[0] + box.region[0]), (cl_uint)(box.origin[1] + box.region[1])};
    size_t group[2] = {8, 8}, items[2] = {(box.region[0] + 7) / 8 * 8, (box.region[1] + 7) / 8 * 8};
    use(&command, to, WHOLE, 1);
    use(&command, from, WHOLE, 0);
    set_arg(turn, 0, sizeof from->memory, &from->memory);
    set_arg(turn, 1, sizeof to->memory, &to->memory);
    set_arg(turn, 2, sizeof key, key);
    set_arg(turn, 3, sizeof end_of_box, end_of_box);
    DO(clEnqueueNDRangeKernel(queue_of(&command), turn, 2, box.origin, items, group, command.count, list_of(&command), &event));
    for (size_t i = 0; i < words_of(&box.at); i++) {
        size_t word = word_at(&box.at, i);
        define(to, word, (from->model[word] >> 8 | from->model[word] << 24) ^ value, from->known[word]);
    }
    end(&command, event);
}

/* What any_image draws of. */
static struct {
    const char *name;
    void (*does)(void);
    int is_left_out;
} image_kinds[] = {
    {"image-writes", write_image, 0}, {"image-reads", read_image, 0},         {"image-fills", fill_image, 0},
    {"image-copies", copy_image, 0},  {"image-buffers", copy_with_buffer, 0}, {"image-kernels", turn_image, 0},
};
enum { IMAGE_KINDS = sizeof image_kinds / sizeof image_kinds[0] };

static void any_image(void)
{
    size_t which = roll(IMAGE_KINDS);
    if (!image_kinds[which].is_left_out)
        image_kinds[which].does();
}
#endif
