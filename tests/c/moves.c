/* What must move between three devices of one context, and what must not, each by itself and measured.
 *
 * moves SIZE   SIZE bytes, where they move at all: a multiple of 65536 */
#include "stages.h"
#include "residency.h"

typedef cl_int(CL_API_CALL *set_content_size_fn)(cl_mem buffer, cl_mem content_size_buffer);

static const char *MORE =
    "__kernel void look(__global uint *x, __global uint *out) { if (get_global_id(0) == 0) out[0] = x[0]; }\n"
    "__kernel void draw(__write_only image2d_t picture) {\n"
    "    int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "    write_imageui(picture, at, (uint4)(at.x, at.y, 3, 4)); }\n"
    "__kernel void view(__read_only image2d_t picture, sampler_t how, __global uint *out) {\n"
    "    uint4 p = read_imageui(picture, how, (int2)(9, 5)); out[0] = p.x + 100 * p.y + 10000 * p.z + 1000000 * p.w; }\n"
    "__kernel void produce(__global uchar *x, __global ulong *size, ulong n) {\n"
    "    size_t i = get_global_id(0); if (i < n) x[i] = (uchar)(i * 7 + 1); if (i == 0) *size = n; }\n"
    "__kernel void change(__global uchar *x, __global const ulong *size) {\n"
    "    size_t i = get_global_id(0); if (i < *size) x[i] += 1; }\n";

static size_t size;
static cl_kernel look, draw, view, produce, change;
static cl_uint *memory;

/* All has been done, and this was measured. */
static void done(void)
{
    finish_all();
    end_stage();
}

static void put_all(cl_uint on, cl_mem x, cl_uint a)
{
    CHECK(clReleaseEvent(run(on, put, x, a, size / 4, 0, NULL)));
}

/* A kernel on a device, which may read all of a buffer; the first number there. */
static void use(cl_uint on, cl_kernel kernel, cl_mem x, cl_uint want)
{
    static cl_mem out[MOST];
    cl_uint one = 1, got;
    if (!out[on])
        out[on] = buffer_of(CL_MEM_READ_WRITE, 4, NULL);
    set_arg(kernel, 0, sizeof x, &x);
    set_arg(kernel, 1, sizeof out[on], &out[on]);
    if (kernel == sum)
        set_arg(kernel, 2, sizeof one, &one);
    launch(queues[on], kernel, 1, 0, NULL, NULL);
    read_back(on, out[on], &got, 4);
    REQUIRE(got == want);
}

static void migrate(cl_uint to, cl_mem x, cl_mem_migration_flags flags)
{
    CHECK(clEnqueueMigrateMemObjects(queues[to], 1, &x, flags, 0, NULL, NULL));
}

static void hints(void)
{
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    put_all(0, x, 2);
    finish_all();
    begin_stage("written");
    put_all(0, x, 3);
    done();
    begin_stage("migrated");
    migrate(1, x, 0);
    done();
    begin_stage("migrated again");
    migrate(1, x, 0);
    done();
    begin_stage("used there");
    use(1, sum, x, 1);
    done();
    begin_stage("migrated to the host");
    migrate(2, x, CL_MIGRATE_MEM_OBJECT_HOST);
    done();
    begin_stage("undefined and written");
    migrate(2, x, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED);
    put_all(2, x, 5);
    done();
    begin_stage("read by the others");
    use(0, sum, x, 1);
    use(1, sum, x, 1);
    done();
    begin_stage("read again by all");
    for (cl_uint i = 0; i < 3; i++)
        use(i, sum, x, 1);
    done();
    begin_stage("taken to be written by each");
    for (cl_uint i = 0; i < 3; i++) {
        use(i, look, x, 1);
        finish_all();
    }
    done();
    CHECK(clReleaseMemObject(x));
}

static void read_only(void)
{
    memory[0] = 77;
    cl_mem x = buffer_of(CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size, memory);
    begin_stage("first contents");
    use(0, look, x, 77);
    done();
    begin_stage("read-only for the others");
    use(1, look, x, 77);
    use(2, look, x, 77);
    done();
    begin_stage("read-only again for all");
    for (cl_uint i = 0; i < 3; i++)
        use(i, look, x, 77);
    done();
    CHECK(clReleaseMemObject(x));
}

static void parts(void)
{
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, size, NULL), half[2] = {part_of(x, 0, size / 2), part_of(x, size / 2, size / 2)};
    cl_event written[2], gate;
    /* The second is not held up by the first, which waits. */
    begin_stage("halves written at once");
    MAKE(gate, clCreateUserEvent(context, &status));
    for (cl_uint i = 0; i < 2; i++) {
        written[i] = run(i, put, half[i], i + 1, size / 8, i == 0, i == 0 ? &gate : NULL);
        CHECK(clFlush(queues[i]));
    }
    CHECK(clWaitForEvents(1, &written[1]));
    cl_int first;
    CHECK(clGetEventInfo(written[0], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof first, &first, NULL));
    REQUIRE(first > CL_COMPLETE);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(2, written));
    done();
    begin_stage("both halves read by the third");
    use(2, sum, x, 1);
    done();
    begin_stage("one half written and read by the third");
    CHECK(clReleaseEvent(run(0, put, half[0], 9, size / 8, 0, NULL)));
    CHECK(clFinish(queues[0]));
    use(2, sum, x, 1);
    done();
    read_back(2, x, memory, size);
    for (size_t i = 0; i < size / 4; i++)
        REQUIRE(memory[i] == (i < size / 8 ? i * 9 : (i - size / 8) * 2) + 1);
    for (int i = 0; i < 2; i++) {
        CHECK(clReleaseMemObject(half[i]));
        CHECK(clReleaseEvent(written[i]));
    }
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseMemObject(x));

    cl_mem much = buffer_of(CL_MEM_READ_WRITE, 16 * size, NULL), little = part_of(much, 65536, 4096);
    CHECK(clReleaseEvent(run(0, put, little, 7, 1024, 0, NULL)));
    finish_all();
    begin_stage("little of much");
    migrate(1, much, 0);
    done();
    CHECK(clEnqueueReadBuffer(queues[1], much, CL_TRUE, 65536, 4096, memory, 0, NULL, NULL));
    REQUIRE(memory[0] == 1 && memory[1023] == 1023 * 7 + 1);
    CHECK(clReleaseMemObject(little));
    CHECK(clReleaseMemObject(much));
}

/* Commands that are no kernels. */
static void commands(void)
{
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, size, NULL), y = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    cl_uint pattern = 5;
    put_all(0, x, 3);
    finish_all();
    begin_stage("half replaced by a fill");
    CHECK(clEnqueueFillBuffer(queues[1], x, &pattern, 4, 0, size / 2, 0, NULL, NULL));
    done();
    begin_stage("the other half read there");
    use(1, sum, x, 5);
    done();
    begin_stage("replaced by the program");
    for (size_t i = 0; i < size / 4; i++)
        memory[i] = (cl_uint)i + 11;
    CHECK(clEnqueueWriteBuffer(queues[2], x, CL_TRUE, 0, size, memory, 0, NULL, NULL));
    done();
    begin_stage("read through another queue");
    memset(memory, 0, size);
    read_back(0, x, memory, size);
    done();
    REQUIRE(memory[0] == 11 && memory[size / 4 - 1] == size / 4 + 10);
    begin_stage("a quarter copied");
    CHECK(clEnqueueCopyBuffer(queues[1], x, y, size / 4, 0, size / 4, 0, NULL, NULL));
    done();
    begin_stage("the copy read where it is");
    read_back(1, y, memory, 4);
    done();
    REQUIRE(memory[0] == size / 16 + 11);
    /* 16 rows of 1024 bytes, in the half that the second device has not got. */
    size_t from[3] = {0, size / 2 / 4096, 0}, to[3] = {0, 0, 0}, region[3] = {1024, 16, 1};
    begin_stage("a rectangle copied");
    CHECK(clEnqueueCopyBufferRect(queues[1], x, y, from, to, region, 4096, 0, 4096, 0, 0, NULL, NULL));
    done();
    begin_stage("mapped to be replaced");
    cl_uint *mapped;
    MAKE(mapped, clEnqueueMapBuffer(queues[1], x, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, size / 2, 0, NULL, NULL, &status));
    done();
    memset(mapped, 1, size / 2);
    begin_stage("unmapped");
    CHECK(clEnqueueUnmapMemObject(queues[1], x, mapped, 0, NULL, NULL));
    done();
    begin_stage("mapped as it was written");
    MAKE(mapped, clEnqueueMapBuffer(queues[2], x, CL_TRUE, CL_MAP_READ, 0, size / 2, 0, NULL, NULL, &status));
    done();
    REQUIRE(mapped[0] == 0x01010101 && mapped[size / 8 - 1] == 0x01010101);
    CHECK(clEnqueueUnmapMemObject(queues[2], x, mapped, 0, NULL, NULL));
    /* From here on it is the server's that counts. */
    CHECK(clEnqueueFillBuffer(queues[1], x, "\1", 1, 0, 4, 0, NULL, NULL));
    finish_all();
    begin_stage("mapped to be read");
    MAKE(mapped, clEnqueueMapBuffer(queues[2], x, CL_TRUE, CL_MAP_READ, 0, size / 4, 0, NULL, NULL, &status));
    done();
    REQUIRE(mapped[0] == 0x01010101 && mapped[size / 16 - 1] == 0x01010101);
    begin_stage("unmapped unchanged");
    CHECK(clEnqueueUnmapMemObject(queues[2], x, mapped, 0, NULL, NULL));
    done();
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseMemObject(y));
}

static void waits(void)
{
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, size, NULL), y = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    cl_event gate, list[3];
    put_all(1, y, 6);
    finish_all();
    begin_stage("held up by a user event");
    MAKE(gate, clCreateUserEvent(context, &status));
    list[0] = run(0, put, x, 3, size / 4, 1, &gate);
    CHECK(clEnqueueCopyBuffer(queues[1], x, y, 0, 0, size / 2, 1, list, &list[1]));
    CHECK(clEnqueueMarkerWithWaitList(queues[2], 2, list, &list[2]));
    for (cl_uint i = 0; i < 3; i++)
        CHECK(clFlush(queues[i]));
    leave_time();
    for (int i = 0; i < 3; i++) {
        cl_int now;
        CHECK(clGetEventInfo(list[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now, NULL));
        REQUIRE(now > CL_COMPLETE);
    }
    end_stage();
    begin_stage("let go");
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(3, list));
    done();
    read_back(1, y, memory, size);
    REQUIRE(memory[9] == 9 * 3 + 1 && memory[size / 4 - 1] == (size / 4 - 1) * 6 + 1);
    for (int i = 0; i < 3; i++)
        CHECK(clReleaseEvent(list[i]));
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseMemObject(y));
}

/* A picture of SIZE bytes, and a sampler. */
static void pictures(void)
{
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT32};
    cl_image_desc like = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 256, .image_height = size / 4096};
    cl_mem picture;
    cl_sampler sampler;
    MAKE(picture, clCreateImage(context, CL_MEM_READ_WRITE, &format, &like, NULL, &status));
    MAKE(sampler, clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST, &status));
    size_t items[] = {256, size / 4096};
    cl_mem out[3];
    set_arg(draw, 0, sizeof picture, &picture);
    CHECK(clEnqueueNDRangeKernel(queues[0], draw, 2, NULL, items, NULL, 0, NULL, NULL));
    for (int i = 0; i < 3; i++)
        out[i] = buffer_of(CL_MEM_READ_WRITE, 4, NULL);
    finish_all();
    for (int turn = 0; turn < 2; turn++) {
        begin_stage(turn ? "a picture seen again by all" : "a picture seen by all");
        for (cl_uint i = 0; i < 3; i++) {
            cl_uint got;
            set_arg(view, 0, sizeof picture, &picture);
            set_arg(view, 1, sizeof sampler, &sampler);
            set_arg(view, 2, sizeof out[i], &out[i]);
            launch(queues[i], view, 1, 0, NULL, NULL);
            read_back(i, out[i], &got, 4);
            REQUIRE(got == 9 + 500 + 30000 + 4000000);
        }
        done();
    }
    for (int i = 0; i < 3; i++)
        CHECK(clReleaseMemObject(out[i]));
    CHECK(clReleaseSampler(sampler));
    CHECK(clReleaseMemObject(picture));
}

/* A sixteenth of a buffer means something. */
static void contents(void)
{
    set_content_size_fn set_content_size =
        (set_content_size_fn)clGetExtensionFunctionAddressForPlatform(platform, "clSetContentSizeBufferPoCL");
    REQUIRE(set_content_size != NULL);
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, size, NULL), length = buffer_of(CL_MEM_READ_WRITE, 16, NULL);
    cl_ulong n = size / 16;
    unsigned char *bytes = (unsigned char *)memory;
    CHECK(set_content_size(x, length));
    /* All of it has been written at some time. */
    put_all(0, x, 3);
    set_arg(produce, 0, sizeof x, &x);
    set_arg(produce, 1, sizeof length, &length);
    set_arg(produce, 2, sizeof n, &n);
    launch(queues[0], produce, n, 0, NULL, NULL);
    finish_all();
    begin_stage("contents migrated");
    migrate(1, x, 0);
    done();
    begin_stage("contents changed there");
    set_arg(change, 0, sizeof x, &x);
    set_arg(change, 1, sizeof length, &length);
    launch(queues[1], change, n, 0, NULL, NULL);
    done();
    begin_stage("contents changed elsewhere");
    launch(queues[2], change, n, 0, NULL, NULL);
    done();
    begin_stage("contents read");
    read_back(2, x, bytes, size);
    done();
    for (size_t i = 0; i < n; i++)
        REQUIRE(bytes[i] == (unsigned char)(i * 7 + 3));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseMemObject(length));
}

/* A program of a sixteenth of SIZE. */
static void programs(void)
{
    static const char *end = "*/ __kernel void last(__global uint *x) { x[0] = 1; }\n";
    size_t length = size / 16;
    char *source = malloc(length + 1);
    memset(source, '.', length);
    memcpy(source, "/*", 2);
    strcpy(source + length - strlen(end), end);
    for (int turn = 0; turn < 2; turn++) {
        cl_program long_one;
        begin_stage(turn ? "the same built again" : "a program built");
        MAKE(long_one, clCreateProgramWithSource(context, 1, (const char **)&source, NULL, &status));
        CHECK(clBuildProgram(long_one, 0, NULL, NULL, NULL, NULL));
        done();
        CHECK(clReleaseProgram(long_one));
    }
    free(source);
}

static void one_alone(void)
{
    enum { MANY = 100 };
    cl_mem objects[MANY];
    begin_stage("a hundred objects for one device");
    for (int i = 0; i < MANY; i++) {
        objects[i] = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 4096, memory);
        CHECK(clReleaseEvent(run(1, add, objects[i], 1, 1024, 0, NULL)));
    }
    CHECK(clFinish(queues[1]));
    end_stage();
    for (int i = 0; i < MANY; i++)
        CHECK(clReleaseMemObject(objects[i]));
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    size = strtoull(argv[1], NULL, 10);
    REQUIRE(size % 65536 == 0);
    open_all();
    REQUIRE(count == 3);
    memory = calloc(1, size);
    cl_program more;
    MAKE(more, clCreateProgramWithSource(context, 1, &MORE, NULL, &status));
    CHECK(clBuildProgram(more, 0, NULL, "-cl-kernel-arg-info", NULL, NULL));
    look = kernel_of(more, "look");
    draw = kernel_of(more, "draw");
    view = kernel_of(more, "view");
    produce = kernel_of(more, "produce");
    change = kernel_of(more, "change");
    /* What is made only once: connections between the servers. */
    cl_mem first = buffer_of(CL_MEM_READ_WRITE, 4, NULL);
    for (cl_uint i = 0; i < 6; i++) {
        cl_event last = run((i + i / 3) % 3, put, first, 1, 1, 0, NULL);
        CHECK(clWaitForEvents(1, &last));
        CHECK(clReleaseEvent(last));
    }
    hints();
    read_only();
    parts();
    commands();
    waits();
    pictures();
    contents();
    programs();
    one_alone();
    CHECK(clReleaseMemObject(first));
    cl_kernel kernels[] = {look, draw, view, produce, change};
    for (int i = 0; i < 5; i++)
        CHECK(clReleaseKernel(kernels[i]));
    CHECK(clReleaseProgram(more));
    close_all();
    free(memory);
    printf("what moved is right\n");
    return 0;
}
