/* Images (OpenCL 3.0 API, section 5.3). */
#include "errors.h"

enum { WIDTH = 8, HEIGHT = 4, DEPTH = 2, ROW = WIDTH * 4 };
static const cl_image_format RGBA = {CL_RGBA, CL_UNSIGNED_INT8}, RED = {CL_R, CL_FLOAT};
static char data[1024];
static cl_mem flat, solid, foreign, hidden, host_reads, host_writes, other_format, buffer;
static const size_t AT[3] = {0, 0, 0}, REGION[3] = {4, 2, 1};

static cl_image_desc desc_of(cl_mem_object_type type, size_t width, size_t height, size_t depth)
{
    return (cl_image_desc){.image_type = type, .image_width = width, .image_height = height, .image_depth = depth};
}

static void creation(void)
{
    const cl_image_desc good = desc_of(CL_MEM_OBJECT_IMAGE2D, WIDTH, HEIGHT, 0);
    cl_image_desc desc;
    size_t most;
#define IMAGE(context, flags, format, desc, host) clCreateImage(context, flags, format, desc, host, &status)
    WRONG_HANDLES_FOR(MAKES, IMAGE(X, 0, &RGBA, &good, NULL), "context", CL_INVALID_CONTEXT);
    MAKES(IMAGE(context, (cl_mem_flags)1 << 40, &RGBA, &good, NULL), "flags has unknown bits", CL_INVALID_VALUE);
    MAKES(IMAGE(context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, &RGBA, &good, NULL), "flags exclude each other",
          CL_INVALID_VALUE);
    MAKES(IMAGE(context, CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS, &RGBA, &good, NULL),
          "flags for the host exclude each other", CL_INVALID_VALUE);
    MAKES(IMAGE(context, CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR, &RGBA, &good, data),
          "CL_MEM_USE_HOST_PTR and CL_MEM_COPY_HOST_PTR", CL_INVALID_VALUE);
    MAKES(IMAGE(context, 0, NULL, &good, NULL), "image_format is NULL", CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    MAKES(IMAGE(context, 0, (&(cl_image_format){0x7fff, CL_FLOAT}), &good, NULL), "the channel order is unknown",
          CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    MAKES(IMAGE(context, 0, (&(cl_image_format){CL_RGBA, 0x7fff}), &good, NULL), "the channel type is unknown",
          CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    MAKES(IMAGE(context, 0, (&(cl_image_format){CL_RGBA, CL_UNORM_SHORT_565}), &good, NULL),
          "the channel type is not for the order", CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    MAKES(IMAGE(context, 0, &RGBA, NULL, NULL), "image_desc is NULL", CL_INVALID_IMAGE_DESCRIPTOR);
    desc = good, desc.image_type = CL_MEM_OBJECT_BUFFER;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "the type is a buffer's", CL_INVALID_IMAGE_DESCRIPTOR);
    desc = good, desc.image_width = 0;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "the width is 0", CL_INVALID_IMAGE_SIZE, CL_INVALID_IMAGE_DESCRIPTOR);
    desc = good, desc.image_height = 0;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "the height is 0", CL_INVALID_IMAGE_SIZE, CL_INVALID_IMAGE_DESCRIPTOR);
    CHECK(clGetDeviceInfo(device, CL_DEVICE_IMAGE2D_MAX_WIDTH, sizeof most, &most, NULL));
    desc = good, desc.image_width = most + 1;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "the width is beyond the device's most", CL_INVALID_IMAGE_SIZE);
    desc = good, desc.image_width = SIZE_MAX;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "the width is SIZE_MAX", CL_INVALID_IMAGE_SIZE);
    CHECK(clGetDeviceInfo(device, CL_DEVICE_IMAGE2D_MAX_HEIGHT, sizeof most, &most, NULL));
    desc = good, desc.image_height = most + 1;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "the height is beyond the device's most", CL_INVALID_IMAGE_SIZE);
    CHECK(clGetDeviceInfo(device, CL_DEVICE_IMAGE3D_MAX_DEPTH, sizeof most, &most, NULL));
    desc = desc_of(CL_MEM_OBJECT_IMAGE3D, WIDTH, HEIGHT, most + 1);
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "the depth is beyond the device's most", CL_INVALID_IMAGE_SIZE);
    desc = desc_of(CL_MEM_OBJECT_IMAGE3D, WIDTH, HEIGHT, 0);
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "the depth is 0", CL_INVALID_IMAGE_SIZE, CL_INVALID_IMAGE_DESCRIPTOR);
    CHECK(clGetDeviceInfo(device, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, sizeof most, &most, NULL));
    desc = desc_of(CL_MEM_OBJECT_IMAGE2D_ARRAY, WIDTH, HEIGHT, 0), desc.image_array_size = most + 1;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "the array is beyond the device's most", CL_INVALID_IMAGE_SIZE,
          CL_INVALID_IMAGE_DESCRIPTOR);
    desc = good, desc.image_row_pitch = ROW;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "a row pitch without host_ptr", CL_INVALID_IMAGE_DESCRIPTOR);
    desc = good, desc.image_row_pitch = ROW - 4;
    MAKES(IMAGE(context, CL_MEM_COPY_HOST_PTR, &RGBA, &desc, data), "the row pitch is less than a row",
          CL_INVALID_IMAGE_DESCRIPTOR);
    desc = good, desc.image_row_pitch = ROW + 1;
    MAKES(IMAGE(context, CL_MEM_COPY_HOST_PTR, &RGBA, &desc, data), "the row pitch is no multiple of a pixel",
          CL_INVALID_IMAGE_DESCRIPTOR);
    desc = desc_of(CL_MEM_OBJECT_IMAGE3D, WIDTH, HEIGHT, DEPTH), desc.image_slice_pitch = ROW;
    MAKES(IMAGE(context, CL_MEM_COPY_HOST_PTR, &RGBA, &desc, data), "the slice pitch is less than a slice",
          CL_INVALID_IMAGE_DESCRIPTOR);
    desc = desc_of(CL_MEM_OBJECT_IMAGE3D, WIDTH, HEIGHT, DEPTH), desc.image_row_pitch = ROW,
    desc.image_slice_pitch = ROW * HEIGHT + 4;
    MAKES(IMAGE(context, CL_MEM_COPY_HOST_PTR, &RGBA, &desc, data), "the slice pitch is no multiple of the row pitch",
          CL_INVALID_IMAGE_DESCRIPTOR);
    desc = good, desc.num_mip_levels = 1;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "num_mip_levels is not 0", CL_INVALID_IMAGE_DESCRIPTOR);
    desc = good, desc.num_samples = 1;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "num_samples is not 0", CL_INVALID_IMAGE_DESCRIPTOR);
    desc = desc_of(CL_MEM_OBJECT_IMAGE3D, WIDTH, HEIGHT, DEPTH), desc.buffer = buffer;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "a 3D image of a buffer", CL_INVALID_IMAGE_DESCRIPTOR);
    desc = desc_of(CL_MEM_OBJECT_IMAGE1D_BUFFER, WIDTH, 0, 0);
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "a buffer image without a buffer", CL_INVALID_IMAGE_DESCRIPTOR,
          CL_INVALID_MEM_OBJECT);
    desc = desc_of(CL_MEM_OBJECT_IMAGE1D_BUFFER, 4096, 0, 0), desc.buffer = buffer;
    MAKES(IMAGE(context, 0, &RGBA, &desc, NULL), "a buffer image larger than its buffer", CL_INVALID_IMAGE_SIZE,
          CL_INVALID_IMAGE_DESCRIPTOR);
    MAKES(IMAGE(context, CL_MEM_COPY_HOST_PTR, &RGBA, &good, NULL), "CL_MEM_COPY_HOST_PTR without host_ptr",
          CL_INVALID_HOST_PTR);
    MAKES(IMAGE(context, CL_MEM_USE_HOST_PTR, &RGBA, &good, NULL), "CL_MEM_USE_HOST_PTR without host_ptr",
          CL_INVALID_HOST_PTR);
    MAKES(IMAGE(context, 0, &RGBA, &good, data), "host_ptr without its flags", CL_INVALID_HOST_PTR);
#undef IMAGE
    const cl_mem_properties unknown[] = {0x7fff, 1, 0}, none[] = {0};
    WRONG_HANDLES_FOR(MAKES, clCreateImageWithProperties(X, NULL, 0, &RGBA, &good, NULL, &status), "context",
                      CL_INVALID_CONTEXT);
    MAKES(clCreateImageWithProperties(context, unknown, 0, &RGBA, &good, NULL, &status), "a property is unknown",
          CL_INVALID_PROPERTY);
    MAKES(clCreateImageWithProperties(context, none, 0, &RGBA, NULL, NULL, &status), "image_desc is NULL",
          CL_INVALID_IMAGE_DESCRIPTOR);
    WRONG_HANDLES_FOR(MAKES, clCreateImage2D(X, 0, &RGBA, WIDTH, HEIGHT, 0, NULL, &status), "context",
                      CL_INVALID_CONTEXT);
    MAKES(clCreateImage2D(context, 0, NULL, WIDTH, HEIGHT, 0, NULL, &status), "image_format is NULL",
          CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    MAKES(clCreateImage2D(context, 0, &RGBA, 0, HEIGHT, 0, NULL, &status), "the width is 0", CL_INVALID_IMAGE_SIZE,
          CL_INVALID_IMAGE_DESCRIPTOR);
    WRONG_HANDLES_FOR(MAKES, clCreateImage3D(X, 0, &RGBA, WIDTH, HEIGHT, DEPTH, 0, 0, NULL, &status), "context",
                      CL_INVALID_CONTEXT);
    MAKES(clCreateImage3D(context, 0, &RGBA, WIDTH, HEIGHT, 0, 0, 0, NULL, &status), "the depth is 0",
          CL_INVALID_IMAGE_SIZE, CL_INVALID_IMAGE_DESCRIPTOR);
}

static void queries(void)
{
    cl_image_format formats[4];
    cl_uint count;
    WRONG_HANDLES_FOR(RETURNS, clGetSupportedImageFormats(X, 0, CL_MEM_OBJECT_IMAGE2D, 0, NULL, &count), "context",
                      CL_INVALID_CONTEXT);
    RETURNS(clGetSupportedImageFormats(context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, CL_MEM_OBJECT_IMAGE2D, 0, NULL,
                                       &count), "flags exclude each other", CL_INVALID_VALUE);
    RETURNS(clGetSupportedImageFormats(context, 0, CL_MEM_OBJECT_BUFFER, 0, NULL, &count), "the type is a buffer's",
            CL_INVALID_VALUE);
    RETURNS(clGetSupportedImageFormats(context, 0, CL_MEM_OBJECT_IMAGE2D, 0, formats, &count),
            "num_entries is 0, image_formats is not NULL", CL_INVALID_VALUE);
    RETURNS(clGetSupportedImageFormats(context, 0, CL_MEM_OBJECT_IMAGE2D, 0, NULL, NULL), "nothing is asked",
            CL_SUCCESS);
    WRONG_HANDLES_FOR(RETURNS, clGetImageInfo(X, CL_IMAGE_WIDTH, 0, NULL, NULL), "image", CL_INVALID_MEM_OBJECT);
    REMOTE RETURNS(clGetImageInfo(buffer, CL_IMAGE_WIDTH, 0, NULL, NULL), "image is a buffer", CL_INVALID_MEM_OBJECT);
    NO_INFO(clGetImageInfo, flat);
    INFO(clGetImageInfo, CL_IMAGE_FORMAT, flat);
    INFO(clGetImageInfo, CL_IMAGE_ELEMENT_SIZE, flat);
    INFO(clGetImageInfo, CL_IMAGE_ROW_PITCH, flat);
    INFO(clGetImageInfo, CL_IMAGE_SLICE_PITCH, flat);
    INFO(clGetImageInfo, CL_IMAGE_WIDTH, flat);
    INFO(clGetImageInfo, CL_IMAGE_HEIGHT, flat);
    INFO(clGetImageInfo, CL_IMAGE_DEPTH, flat);
    INFO(clGetImageInfo, CL_IMAGE_ARRAY_SIZE, flat);
    INFO(clGetImageInfo, CL_IMAGE_BUFFER, flat);
    INFO(clGetImageInfo, CL_IMAGE_NUM_MIP_LEVELS, flat);
    INFO(clGetImageInfo, CL_IMAGE_NUM_SAMPLES, flat);
}

/* Places and sizes that are not within a flat image of WIDTH by HEIGHT. */
static const struct {
    const char *what;
    size_t at[3], region[3];
} OUTSIDE[] = {
    {"the region has no width", {0, 0, 0}, {0, 1, 1}},
    {"the region has no height", {0, 0, 0}, {1, 0, 1}},
    {"the region has no depth", {0, 0, 0}, {1, 1, 0}},
    {"the region ends outside in x", {WIDTH - 1, 0, 0}, {2, 1, 1}},
    {"the region ends outside in y", {0, HEIGHT - 1, 0}, {1, 2, 1}},
    {"the region is deeper than a flat image", {0, 0, 0}, {1, 1, 2}},
    {"the origin is deeper than a flat image", {0, 0, 1}, {1, 1, 1}},
    {"the origin wraps in x", {SIZE_MAX, 0, 0}, {2, 1, 1}},
    {"the origin wraps in y", {0, SIZE_MAX, 0}, {1, 2, 1}},
    {"the region wraps in x", {1, 0, 0}, {SIZE_MAX, 1, 1}},
};
#define OUTSIDES (sizeof OUTSIDE / sizeof *OUTSIDE)

#define BOTH_WAYS(function, refused, ...)                                                                              \
    do {                                                                                                               \
        COMMAND(RETURNS, function(Q, flat, CL_TRUE, AT, REGION, 0, 0, data, N, LIST, NULL));                           \
        WRONG_HANDLES_FOR(RETURNS, function(queue, X, CL_TRUE, AT, REGION, 0, 0, data, 0, NULL, NULL), "image",        \
                          CL_INVALID_MEM_OBJECT);                                                                      \
        REMOTE RETURNS(function(queue, buffer, CL_TRUE, AT, REGION, 0, 0, data, 0, NULL, NULL), "image is a buffer",   \
                       CL_INVALID_MEM_OBJECT);                                                                         \
        RETURNS(function(queue, foreign, CL_TRUE, AT, REGION, 0, 0, data, 0, NULL, NULL),                              \
                "image is of another context", CL_INVALID_CONTEXT);                                                    \
        for (size_t i = 0; i < OUTSIDES; i++)                                                                          \
            RETURNS(function(queue, flat, CL_TRUE, OUTSIDE[i].at, OUTSIDE[i].region, 0, 0, data, 0, NULL, NULL),       \
                OUTSIDE[i].what, CL_INVALID_VALUE);                                                                    \
        RETURNS(function(queue, flat, CL_TRUE, NULL, REGION, 0, 0, data, 0, NULL, NULL), "origin is NULL",             \
                CL_INVALID_VALUE);                                                                                     \
        RETURNS(function(queue, flat, CL_TRUE, AT, NULL, 0, 0, data, 0, NULL, NULL), "region is NULL",                 \
                CL_INVALID_VALUE);                                                                                     \
        RETURNS(function(queue, flat, CL_TRUE, AT, REGION, 0, 0, NULL, 0, NULL, NULL), "ptr is NULL",                  \
                CL_INVALID_VALUE);                                                                                     \
        RETURNS(function(queue, flat, CL_TRUE, AT, REGION, 4, 0, data, 0, NULL, NULL),                                 \
                "the row pitch is less than a row", CL_INVALID_VALUE);                                                 \
        RETURNS(function(queue, solid, CL_TRUE, AT, (const size_t[]){4, 2, 2}, 16, 8, data, 0, NULL, NULL),            \
                "the slice pitch is less than a slice", CL_INVALID_VALUE);                                             \
        RETURNS(function(queue, hidden, CL_TRUE, AT, REGION, 0, 0, data, 0, NULL, NULL), "CL_MEM_HOST_NO_ACCESS",      \
                CL_INVALID_OPERATION);                                                                                 \
        RETURNS(function(queue, refused, CL_TRUE, AT, REGION, 0, 0, data, 0, NULL, NULL),                              \
                "the host's access is the other one", CL_INVALID_OPERATION);                                           \
        FAILED_EVENT(RETURNS, function(queue, flat, CL_TRUE, AT, REGION, 0, 0, data, N, LIST, MADE), ##__VA_ARGS__);   \
    } while (0)

static void copies(void)
{
#define COPY(from, to, at, to_at, region) clEnqueueCopyImage(queue, from, to, at, to_at, region, 0, NULL, NULL)
    char condition[128];
    COMMAND(RETURNS, clEnqueueCopyImage(Q, flat, solid, AT, AT, REGION, N, LIST, NULL));
    WRONG_HANDLES_FOR(RETURNS, COPY(X, flat, AT, AT, REGION), "src_image", CL_INVALID_MEM_OBJECT);
    WRONG_HANDLES_FOR(RETURNS, COPY(flat, X, AT, AT, REGION), "dst_image", CL_INVALID_MEM_OBJECT);
    RETURNS(COPY(foreign, flat, AT, AT, REGION), "src_image is of another context", CL_INVALID_CONTEXT);
    RETURNS(COPY(flat, foreign, AT, AT, REGION), "dst_image is of another context", CL_INVALID_CONTEXT);
    RETURNS(COPY(flat, other_format, AT, AT, REGION), "the formats are not the same", CL_IMAGE_FORMAT_MISMATCH);
    RETURNS(COPY(flat, solid, NULL, AT, REGION), "src_origin is NULL", CL_INVALID_VALUE);
    RETURNS(COPY(flat, solid, AT, NULL, REGION), "dst_origin is NULL", CL_INVALID_VALUE);
    RETURNS(COPY(flat, solid, AT, AT, NULL), "region is NULL", CL_INVALID_VALUE);
    for (size_t i = 0; i < OUTSIDES; i++) {
        snprintf(condition, sizeof condition, "source: %s", OUTSIDE[i].what);
        RETURNS(COPY(flat, hidden, OUTSIDE[i].at, AT, OUTSIDE[i].region), condition, CL_INVALID_VALUE);
        snprintf(condition, sizeof condition, "target: %s", OUTSIDE[i].what);
        RETURNS(COPY(solid, flat, AT, OUTSIDE[i].at, OUTSIDE[i].region), condition, CL_INVALID_VALUE);
    }
    RETURNS(COPY(flat, flat, AT, ((const size_t[]){2, 1, 0}), REGION), "the regions overlap", CL_MEM_COPY_OVERLAP);
#undef COPY
#define TO_BUFFER(image, to, at, region, offset)                                                                       \
    clEnqueueCopyImageToBuffer(queue, image, to, at, region, offset, 0, NULL, NULL)
#define FROM_BUFFER(from, image, offset, at, region)                                                                   \
    clEnqueueCopyBufferToImage(queue, from, image, offset, at, region, 0, NULL, NULL)
    COMMAND(RETURNS, clEnqueueCopyImageToBuffer(Q, flat, buffer, AT, REGION, 0, N, LIST, NULL));
    COMMAND(RETURNS, clEnqueueCopyBufferToImage(Q, buffer, flat, 0, AT, REGION, N, LIST, NULL));
    WRONG_HANDLES_FOR(RETURNS, TO_BUFFER(X, buffer, AT, REGION, 0), "src_image", CL_INVALID_MEM_OBJECT);
    WRONG_HANDLES_FOR(RETURNS, TO_BUFFER(flat, X, AT, REGION, 0), "dst_buffer", CL_INVALID_MEM_OBJECT);
    WRONG_HANDLES_FOR(RETURNS, FROM_BUFFER(X, flat, 0, AT, REGION), "src_buffer", CL_INVALID_MEM_OBJECT);
    WRONG_HANDLES_FOR(RETURNS, FROM_BUFFER(buffer, X, 0, AT, REGION), "dst_image", CL_INVALID_MEM_OBJECT);
    REMOTE
    {
        RETURNS(TO_BUFFER(buffer, buffer, AT, REGION, 0), "src_image is a buffer", CL_INVALID_MEM_OBJECT);
        RETURNS(TO_BUFFER(flat, solid, AT, REGION, 0), "dst_buffer is an image", CL_INVALID_MEM_OBJECT);
        RETURNS(FROM_BUFFER(flat, solid, 0, AT, REGION), "src_buffer is an image", CL_INVALID_MEM_OBJECT);
        RETURNS(FROM_BUFFER(buffer, buffer, 0, AT, REGION), "dst_image is a buffer", CL_INVALID_MEM_OBJECT);
    }
    RETURNS(TO_BUFFER(foreign, buffer, AT, REGION, 0), "src_image is of another context", CL_INVALID_CONTEXT);
    RETURNS(FROM_BUFFER(buffer, foreign, 0, AT, REGION), "dst_image is of another context", CL_INVALID_CONTEXT);
    RETURNS(TO_BUFFER(flat, buffer, AT, REGION, 4096 - 4), "the buffer's region ends outside", CL_INVALID_VALUE);
    RETURNS(TO_BUFFER(flat, buffer, AT, REGION, SIZE_MAX - 3), "the buffer's region wraps", CL_INVALID_VALUE);
    RETURNS(FROM_BUFFER(buffer, flat, 4096 - 4, AT, REGION), "the buffer's region ends outside", CL_INVALID_VALUE);
    RETURNS(FROM_BUFFER(buffer, flat, SIZE_MAX - 3, AT, REGION), "the buffer's region wraps", CL_INVALID_VALUE);
    for (size_t i = 0; i < OUTSIDES; i++) {
        RETURNS(TO_BUFFER(flat, buffer, OUTSIDE[i].at, OUTSIDE[i].region, 0), OUTSIDE[i].what, CL_INVALID_VALUE);
        RETURNS(FROM_BUFFER(buffer, flat, 0, OUTSIDE[i].at, OUTSIDE[i].region), OUTSIDE[i].what, CL_INVALID_VALUE);
    }
#undef TO_BUFFER
#undef FROM_BUFFER
}

static void fills_and_maps(void)
{
    const cl_uint color[4] = {1, 2, 3, 4};
    size_t row, slice;
#define FILL(image, color, at, region) clEnqueueFillImage(queue, image, color, at, region, 0, NULL, NULL)
    COMMAND(RETURNS, clEnqueueFillImage(Q, flat, color, AT, REGION, N, LIST, NULL));
    WRONG_HANDLES_FOR(RETURNS, FILL(X, color, AT, REGION), "image", CL_INVALID_MEM_OBJECT);
    RETURNS(FILL(foreign, color, AT, REGION), "image is of another context", CL_INVALID_CONTEXT);
    RETURNS(FILL(flat, NULL, AT, REGION), "fill_color is NULL", CL_INVALID_VALUE);
    RETURNS(FILL(flat, color, NULL, REGION), "origin is NULL", CL_INVALID_VALUE);
    RETURNS(FILL(flat, color, AT, NULL), "region is NULL", CL_INVALID_VALUE);
    for (size_t i = 0; i < OUTSIDES; i++)
        RETURNS(FILL(flat, color, OUTSIDE[i].at, OUTSIDE[i].region), OUTSIDE[i].what, CL_INVALID_VALUE);
#undef FILL
#define MAP(image, flags, at, region, row, slice)                                                                      \
    clEnqueueMapImage(queue, image, CL_TRUE, flags, at, region, row, slice, 0, NULL, NULL, &status)
    COMMAND(MAKES, clEnqueueMapImage(Q, flat, CL_TRUE, CL_MAP_READ, AT, REGION, &row, &slice, N, LIST, NULL, &status));
    WRONG_HANDLES_FOR(MAKES, MAP(X, CL_MAP_READ, AT, REGION, &row, &slice), "image", CL_INVALID_MEM_OBJECT);
    MAKES(MAP(foreign, CL_MAP_READ, AT, REGION, &row, &slice), "image is of another context", CL_INVALID_CONTEXT);
    MAKES(MAP(flat, CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, AT, REGION, &row, &slice),
          "CL_MAP_READ of what is invalidated", CL_INVALID_VALUE);
    MAKES(MAP(flat, (cl_map_flags)1 << 40, AT, REGION, &row, &slice), "map_flags has unknown bits", CL_INVALID_VALUE);
    MAKES(MAP(flat, CL_MAP_READ, NULL, REGION, &row, &slice), "origin is NULL", CL_INVALID_VALUE);
    MAKES(MAP(flat, CL_MAP_READ, AT, NULL, &row, &slice), "region is NULL", CL_INVALID_VALUE);
    MAKES(MAP(flat, CL_MAP_READ, AT, REGION, NULL, &slice), "image_row_pitch is NULL", CL_INVALID_VALUE);
    MAKES(MAP(solid, CL_MAP_READ, AT, REGION, &row, NULL), "image_slice_pitch is NULL", CL_INVALID_VALUE);
    for (size_t i = 0; i < OUTSIDES; i++)
        MAKES(MAP(flat, CL_MAP_READ, OUTSIDE[i].at, OUTSIDE[i].region, &row, &slice), OUTSIDE[i].what, CL_INVALID_VALUE);
    MAKES(MAP(hidden, CL_MAP_READ, AT, REGION, &row, &slice), "CL_MAP_READ of CL_MEM_HOST_NO_ACCESS",
          CL_INVALID_OPERATION);
    MAKES(MAP(host_writes, CL_MAP_READ, AT, REGION, &row, &slice), "CL_MAP_READ of CL_MEM_HOST_WRITE_ONLY",
          CL_INVALID_OPERATION);
    MAKES(MAP(host_reads, CL_MAP_WRITE, AT, REGION, &row, &slice), "CL_MAP_WRITE of CL_MEM_HOST_READ_ONLY",
          CL_INVALID_OPERATION);
#undef MAP
}

static cl_mem image_of(cl_context in, cl_mem_flags flags, const cl_image_format *format, size_t depth)
{
    cl_mem image;
    const cl_image_desc desc = desc_of(depth ? CL_MEM_OBJECT_IMAGE3D : CL_MEM_OBJECT_IMAGE2D, WIDTH, HEIGHT, depth);
    MAKE(image, clCreateImage(in, flags, format, &desc, NULL, &status));
    return image;
}

int main(int argc, char **argv)
{
    open_all(argc, argv);
    if (!device_has(CL_DEVICE_IMAGE_SUPPORT)) {
        cl_uint count;
        RETURNS(clGetSupportedImageFormats(context, 0, CL_MEM_OBJECT_IMAGE2D, 0, NULL, &count), "no device has images",
                CL_SUCCESS, CL_INVALID_OPERATION);
        skipped("clCreateImage and all that follows", "the device has no images");
        return close_all();
    }
    buffer = buffer_of(0, 4096, NULL);
    flat = image_of(context, 0, &RGBA, 0);
    solid = image_of(context, 0, &RGBA, DEPTH);
    foreign = image_of(other_context, 0, &RGBA, 0);
    hidden = image_of(context, CL_MEM_HOST_NO_ACCESS, &RGBA, 0);
    host_reads = image_of(context, CL_MEM_HOST_READ_ONLY, &RGBA, 0);
    host_writes = image_of(context, CL_MEM_HOST_WRITE_ONLY, &RGBA, 0);
    other_format = image_of(context, 0, &RED, 0);
    creation();
    queries();
    BOTH_WAYS(clEnqueueReadImage, host_writes);
    /* What is written has been taken before the event fails. */
    BOTH_WAYS(clEnqueueWriteImage, host_reads, CL_SUCCESS);
    copies();
    fills_and_maps();
    cl_mem all[] = {buffer, flat, solid, foreign, hidden, host_reads, host_writes, other_format};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(clReleaseMemObject(all[i]));
    return close_all();
}
