/* Programs whose round trips are counted: "enqueues" makes 1,000 of them, "build" builds a source, "images N" uses N small
 * images one after the other, "waits N" waits for each of N kernels and asks for its times, "idle" does nothing. */
#include "common.h"

static const char *SOURCE = "__kernel void add(__global int *x, int n) { x[0] += n; }\n";

static void enqueues(void)
{
    int x = 0;
    cl_command_queue queue = open_queue(0);
    cl_program program = build(SOURCE, NULL);
    cl_kernel kernel = kernel_of(program, "add");
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, &x);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    for (int i = 0; i < 1000; i++) {
        set_arg(kernel, 1, sizeof i, &i);
        launch(queue, kernel, 1, 0, NULL, NULL);
    }
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL));
    printf("sum %d\n", x);
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
}

/* Nothing but an image's last release follows the last answer. */
static void images(int count)
{
    enum { WIDTH = 16, HEIGHT = 8 };
    static const cl_image_format RGBA = {CL_RGBA, CL_UNSIGNED_INT8};
    const cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = WIDTH, .image_height = HEIGHT};
    const size_t zero[3] = {0, 0, 0}, whole[3] = {WIDTH, HEIGHT, 1}, row[3] = {WIDTH, 1, 1}, first[3] = {1, 1, 1};
    const cl_uint color[4] = {7, 7, 7, 7};
    cl_command_queue queue = open_queue(0);
    unsigned char wrote[WIDTH * HEIGHT * 4], read[WIDTH * 4];
    cl_mem target, image;
    MAKE(target, clCreateImage(context, 0, &RGBA, &desc, NULL, &status));
    for (int i = 0; i < count; i++) {
        memset(wrote, i, sizeof wrote);
        MAKE(image, clCreateImage(context, 0, &RGBA, &desc, NULL, &status));
        CHECK(clEnqueueWriteImage(queue, image, CL_TRUE, zero, whole, 0, 0, wrote, 0, NULL, NULL));
        CHECK(clEnqueueCopyImage(queue, image, target, zero, zero, whole, 0, NULL, NULL));
        CHECK(clEnqueueFillImage(queue, target, color, zero, first, 0, NULL, NULL));
        CHECK(clEnqueueReadImage(queue, target, CL_TRUE, zero, row, 0, 0, read, 0, NULL, NULL));
        REQUIRE(read[0] == 7 && read[4] == wrote[4] && read[WIDTH * 4 - 1] == wrote[0]);
        CHECK(clReleaseMemObject(image));
    }
}

/* Each kernel is awaited by its event and asked for its times; then the queue is finished, twice. */
static void waits(int count)
{
    int x = 0, one = 1;
    cl_command_queue queue = open_queue(CL_QUEUE_PROFILING_ENABLE);
    cl_program program = build(SOURCE, NULL);
    cl_kernel kernel = kernel_of(program, "add");
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, &x);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof one, &one);
    CHECK(clFinish(queue));
    for (int i = 0; i < count; i++) {
        cl_ulong start, end;
        cl_event event;
        launch(queue, kernel, 1, 0, NULL, &event);
        CHECK(clWaitForEvents(1, &event));
        CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL));
        CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
        REQUIRE(start <= end);
        CHECK(clReleaseEvent(event));
        CHECK(clFinish(queue));
        CHECK(clFinish(queue));
    }
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL));
    REQUIRE(x == count);
}

int main(int argc, char **argv)
{
    REQUIRE(argc >= 2);
    open_device();
    if (strcmp(argv[1], "enqueues") == 0)
        enqueues();
    else if (strcmp(argv[1], "build") == 0) {
        /* Long enough for its bytes to stand out among those of the messages. */
        static char source[100000];
        strcpy(source, SOURCE);
        memset(source + strlen(SOURCE), ' ', sizeof source - strlen(SOURCE) - 1);
        CHECK(clReleaseProgram(build(source, NULL)));
    } else if (strcmp(argv[1], "images") == 0) {
        REQUIRE(argc == 3);
        images(atoi(argv[2]));
        return 0;
    } else if (strcmp(argv[1], "waits") == 0) {
        REQUIRE(argc == 3);
        waits(atoi(argv[2]));
        return 0;
    } else
        REQUIRE(strcmp(argv[1], "idle") == 0);
    CHECK(clReleaseContext(context));
    return 0;
}
