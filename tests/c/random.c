/* random FIRST LAST STEPS [without OPERATION...]
 *
 * For each seed from the first to the last: a graph of commands at random over all devices of the first platform in one context (if
 * there is only one device, over its parts), ordered by events alone: readers wait for the last writer, writers for everyone. Each
 * device has a queue that keeps the order of commands and one that does not. What commands read is compared word by word with a model
 * in host memory. Words that are undefined are not compared. Each seed leaves out some kinds of commands and has more of others.
 *
 * Operations that can be left out are those of the table below, and: parts (of a device), part-rects (rectangles between parts of
 * buffers), of images image-writes, image-reads, image-fills, image-copies, image-buffers and image-kernels, gates (user events),
 * disorder (queues that do not keep the order), overlap (each command is waited for before the next).
 * With RANDOM_TRACE in the environment, each command is named before it is enqueued.
 *
 * Exit code: 0 all is right, 3 a call has failed, 4 a word is wrong. */
#include "random_buffers.h"
#include "random_images.h"

static void migrate_image(void)
{
    Object *image = &images[roll(IMAGES)];
    Place at = line(0, image->words);
    migrate(image, image->memory, WHOLE, &at);
}

static void settle_some(void)
{
    if (pending_count)
        settle_one();
}

static const struct {
    const char *name;
    void (*does)(void);
    /* How often, beside the others. */
    cl_uint share;
} OPERATIONS[] = {
    {"blend", blend_buffers, 40}, {"add", add_to_buffer, 12},   {"copy", copy_buffer, 16},   {"fill", fill_buffer, 8},
    {"write", write_buffer, 12},  {"read", read_buffer, 14},    {"rects", read_rect, 4},     {"rects", write_rect, 4},
    {"rects", copy_rect, 4},      {"map", map_buffer, 14},      {"unmap", unmap_some, 4},    {"migrate", migrate_buffer, 8},
    {"size", resize, 4},          {"marker", synchronize, 3},   {"replace", replace, 2},     {"settle", settle_some, 4},
    {"images", any_image, 26},    {"image-maps", map_image, 4}, {"images", migrate_image, 2},
};
enum { KINDS = sizeof OPERATIONS / sizeof OPERATIONS[0] };

static int with_images = 1, with_sizes = 1, with_disorder = 1, with_overlap = 1;

static int has_content_size(void)
{
    static char extensions[65536];
    CHECK(clGetPlatformInfo(platform, CL_PLATFORM_EXTENSIONS, sizeof extensions, extensions, NULL));
    return strstr(extensions, "cl_pocl_content_size") != NULL;
}

static int have_images(void)
{
    cl_bool all = CL_TRUE, has;
    for (cl_uint i = 0; i < device_count; i++) {
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_IMAGE_SUPPORT, sizeof has, &has, NULL));
        all = all && has;
    }
    return all;
}

/* All devices of the platform, or the parts of its only one where it has several. */
static void find_devices(int may_have_parts)
{
    cl_uint units;
    cl_device_partition_property ways[8] = {0};
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST_DEVICES, devices, &device_count));
    device_count = device_count > MOST_DEVICES ? MOST_DEVICES : device_count;
    CHECK(clGetDeviceInfo(devices[0], CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
    CHECK(clGetDeviceInfo(devices[0], CL_DEVICE_PARTITION_PROPERTIES, sizeof ways, ways, NULL));
    int has_parts = 0;
    for (int i = 0; i < 8; i++)
        has_parts = has_parts || ways[i] == CL_DEVICE_PARTITION_EQUALLY;
    if (device_count == 1 && units > 1 && has_parts && may_have_parts) {
        cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, units > 3 ? units / 3 : 1, 0};
        cl_device_id parts[MOST_DEVICES];
        cl_uint count = 0;
        if (clCreateSubDevices(devices[0], equally, MOST_DEVICES, parts, &count) == CL_SUCCESS) {
            memcpy(devices, parts, sizeof parts);
            device_count = count;
        }
    }
}

static void open_queues(void)
{
    for (cl_uint i = 0; i < device_count; i++) {
        cl_command_queue_properties has;
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, sizeof has, &has, NULL));
        MAKE(queues[2 * i].queue, clCreateCommandQueue(context, devices[i], 0, &status));
        if (!with_disorder)
            has = 0;
        MAKE(queues[2 * i + 1].queue,
             clCreateCommandQueue(context, devices[i], has & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status));
    }
}

static cl_program program_of(const char *source)
{
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    return program;
}

static void make_objects(void)
{
    /* Sometimes few words, sometimes so many that what is moved goes in pieces; mostly some ten thousand. */
    size_t kind = roll(8);
    words = kind == 0 ? 100000 + roll(300000) : 1 + roll(kind == 1 ? 500 : 60000);
    most_parts = kind % 2 ? 1 : MOST_PARTS + 1;
    alignment = 1;
    for (cl_uint i = 0; i < device_count; i++) {
        cl_uint its_bits;
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof its_bits, &its_bits, NULL));
        alignment = its_bits / 32 > alignment ? its_bits / 32 : alignment;
    }
    for (cl_uint i = 0; i < BUFFERS; i++)
        make_buffer(&buffers[i], words, with_sizes && i == BUFFERS - 1 ? 0 : (cl_uint)roll(most_parts));
    if (with_sizes) {
        Object *sized = &buffers[BUFFERS - 1], *own = &buffers[BUFFERS];
        cl_ulong bytes = words * 4;
        make_buffer(own, 2, 0);
        CHECK(clEnqueueWriteBuffer(queues[0].queue, own->memory, CL_TRUE, 0, sizeof bytes, &bytes, 0, NULL, NULL));
        CHECK(set_content_size(sized->memory, own->memory));
        sized->size = own;
        own->sized = sized;
    }
    if (with_images) {
        static const cl_mem_object_type kinds[] = {CL_MEM_OBJECT_IMAGE1D, CL_MEM_OBJECT_IMAGE1D_ARRAY, CL_MEM_OBJECT_IMAGE2D,
                                                   CL_MEM_OBJECT_IMAGE2D_ARRAY, CL_MEM_OBJECT_IMAGE3D};
        size_t most = roll(8) ? 60 : 300, width = 1 + roll(most), height = 1 + roll(most);
        make_image(&images[0], CL_MEM_OBJECT_IMAGE2D, width, height, 1);
        make_image(&images[1], CL_MEM_OBJECT_IMAGE2D, width, height, 1);
        make_image(&images[2], kinds[roll(5)], 1 + roll(most), 1 + roll(most), 2 + roll(4));
    }
}

/* Reads all of an object, and compares. */
static void look_at_all(Object *object, int is_image)
{
    Command command;
    cl_event event;
    begin(&command, "last read");
    const size_t origin[3] = {0};
    Place all = line(0, object->words);
    use(&command, object, WHOLE, 0);
    cl_uint *host = host_for(&all);
    before_waiting();
    if (is_image)
        DO(clEnqueueReadImage(queue_of(&command), object->memory, CL_TRUE, origin, object->extent, 0, 0, host, command.count,
                              list_of(&command), &event));
    else
        DO(clEnqueueReadBuffer(queue_of(&command), object->memory, CL_TRUE, 0, object->words * 4, host, command.count, list_of(&command),
                               &event));
    has_read(CL_TRUE, event, host, object, &all, &all);
    end(&command, event);
}

/* Whether the arguments say that there are to be no such operations. */
static int is_left_out(int argc, char **argv, const char *name)
{
    if ((!with_images && strncmp(name, "image", 5) == 0) || (!with_sizes && strcmp(name, "size") == 0))
        return 1;
    REQUIRE(argc < 5 || strcmp(argv[4], "without") == 0);
    for (int i = 5; i < argc; i++)
        if (strcmp(name, argv[i]) == 0)
            return 1;
    return 0;
}

static void finish_all(void)
{
    before_waiting();
    for (cl_uint i = 0; i < 2 * device_count; i++)
        DO(clFinish(queues[i].queue));
}

/* All of one seed. */
static void run(cl_uint steps, int argc, char **argv)
{
    cl_uint shares[KINDS], all = 0;
    state = seed * 0x9e3779b97f4a7c15u + 1;
    bits();
    lazy = (cl_uint)roll(3);
    MAKE(context, clCreateContext(NULL, device_count, devices, NULL, NULL, &status));
    open_queues();
    for (size_t i = 0; i < KINDS; i++) {
        cl_uint often[] = {0, 1, 1, 6};
        shares[i] = OPERATIONS[i].share * (i ? often[roll(4)] : 1);
        if (is_left_out(argc, argv, OPERATIONS[i].name))
            shares[i] = 0;
        all += shares[i];
    }
    cl_program program = program_of(SOURCE), image_program = with_images ? program_of(IMAGE_SOURCE) : NULL;
    blend = kernel_of(program, "blend");
    add = kernel_of(program, "add");
    size = kernel_of(program, "size");
    if (with_images)
        turn = kernel_of(image_program, "turn");
    make_objects();

    for (step = 0; step < steps; step++) {
        size_t which = 0, drawn = roll(all);
        while (drawn >= shares[which])
            drawn -= shares[which++];
        OPERATIONS[which].does();
        if (!with_overlap)
            finish_all();
    }

    settle_all();
    for (cl_uint i = 0; i < BUFFERS; i++)
        look_at_all(&buffers[i], 0);
    for (cl_uint i = 0; with_images && i < IMAGES; i++)
        look_at_all(&images[i], 1);
    for (cl_uint i = 0; i < BUFFERS + (with_sizes ? SIZED : 0); i++)
        drop(&buffers[i]);
    for (cl_uint i = 0; with_images && i < IMAGES; i++)
        drop(&images[i]);
    doing = "end";
    finish_all();
    for (cl_uint i = 0; i < 2 * device_count; i++)
        DO(clReleaseCommandQueue(queues[i].queue));
    CHECK(clReleaseKernel(blend));
    CHECK(clReleaseKernel(add));
    CHECK(clReleaseKernel(size));
    CHECK(clReleaseProgram(program));
    if (with_images) {
        CHECK(clReleaseKernel(turn));
        CHECK(clReleaseProgram(image_program));
    }
    CHECK(clReleaseContext(context));
    printf("seed %llu: %u steps on %u devices, %zu words%s%s: all right\n", (unsigned long long)seed, steps, device_count, words,
           with_images ? ", images" : "", with_sizes ? ", sizes" : "");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 3);
    uint64_t last = strtoull(argv[2], NULL, 10);
    traced = getenv("RANDOM_TRACE") != NULL;
    find_devices(!is_left_out(argc, argv, "parts"));
    with_images = have_images() && !is_left_out(argc, argv, "images");
    with_sizes = has_content_size() && !is_left_out(argc, argv, "size");
    with_gates = !is_left_out(argc, argv, "gates");
    with_disorder = !is_left_out(argc, argv, "disorder");
    with_overlap = !is_left_out(argc, argv, "overlap");
    for (size_t i = 0; i < IMAGE_KINDS; i++)
        image_kinds[i].is_left_out = is_left_out(argc, argv, image_kinds[i].name);
    with_part_rects = !is_left_out(argc, argv, "part-rects");
    if (with_sizes)
        set_content_size = (set_content_size_fn)clGetExtensionFunctionAddressForPlatform(platform, "clSetContentSizeBufferPoCL");
    for (seed = strtoull(argv[1], NULL, 10); seed <= last; seed++)
        run((cl_uint)strtoul(argv[3], NULL, 10), argc, argv);
    return 0;
}
