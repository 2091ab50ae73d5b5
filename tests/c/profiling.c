/* Times of commands of every kind and size: each is there, none before the one that it follows, and a transfer's are its own. */
#include "common.h"

enum { IN_ORDER = 0, SIZES = 4, LARGE = 8 << 20 };
static const size_t sizes[SIZES] = {1 << 10, 256 << 10, (256 << 10) + 4, LARGE};
static const char *SOURCE = "__kernel void inc(__global int *x) { x[get_global_id(0)] += 1; }\n";

static cl_kernel inc;
static cl_mem memory, other;
static char *host;
static char name[64];
static int wrong;

static void read_times(cl_event event, cl_ulong at[5])
{
    CHECK(clWaitForEvents(1, &event));
    for (cl_uint k = 0; k < 4; k++)
        CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + k, sizeof at[k], &at[k], NULL));
    /* Before OpenCL 2.0 there is no such time. */
    if (clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_COMPLETE, sizeof at[4], &at[4], NULL) != CL_SUCCESS)
        at[4] = at[3];
}

static void complain(const char *what, const cl_ulong at[5])
{
    wrong++;
    printf("%s: %s: queued %llu, submitted + %lld, started + %lld, ended + %lld, completed + %lld\n", name, what,
           (unsigned long long)at[0], (long long)(at[1] - at[0]), (long long)(at[2] - at[0]), (long long)(at[3] - at[0]),
           (long long)(at[4] - at[0]));
}

/* Takes the event of the command called `name`. */
static void look_at(cl_event event, int is_transfer)
{
    cl_ulong at[5];
    read_times(event, at);
    if (at[0] == 0 || at[1] == 0 || at[2] == 0 || at[3] == 0 || at[4] == 0)
        complain("a time is missing", at);
    if (at[0] > at[1] || at[1] > at[2] || at[2] > at[3] || at[3] > at[4])
        complain("not in order", at);
    /* 8 MiB within a microsecond would be 8 TB/s. */
    if (is_transfer && at[3] - at[2] < 1000)
        complain("took no time", at);
    CHECK(clReleaseEvent(event));
}

static const char *order_of(cl_command_queue queue)
{
    cl_command_queue_properties properties;
    CHECK(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL));
    return properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE ? "out of order" : "in order";
}

#define NAME(what, size) snprintf(name, sizeof name, "%s, %s, %zu bytes", what, order_of(queue), (size_t)(size))

static void buffers(cl_command_queue queue, size_t size)
{
    int is_large = size == LARGE;
    cl_event event;
    for (cl_bool blocking = CL_FALSE; blocking <= CL_TRUE; blocking++) {
        NAME(blocking ? "write" : "write later", size);
        CHECK(clEnqueueWriteBuffer(queue, memory, blocking, 0, size, host, 0, NULL, &event));
        look_at(event, is_large);
        NAME(blocking ? "read" : "read later", size);
        CHECK(clEnqueueReadBuffer(queue, memory, blocking, 0, size, host, 0, NULL, &event));
        look_at(event, is_large);
        size_t origin[3] = {0, 0, 0}, region[3] = {size / 2 - 2, 2, 1};
        NAME(blocking ? "write of a rectangle" : "write of a rectangle later", size);
        CHECK(clEnqueueWriteBufferRect(queue, memory, blocking, origin, origin, region, size / 2, 0, size / 2, 0, host, 0,
                                       NULL, &event));
        look_at(event, is_large);
        NAME(blocking ? "read of a rectangle" : "read of a rectangle later", size);
        CHECK(clEnqueueReadBufferRect(queue, memory, blocking, origin, origin, region, size / 2, 0, size / 2, 0, host, 0,
                                      NULL, &event));
        look_at(event, is_large);
        NAME(blocking ? "map" : "map later", size);
        void *mapped;
        MAKE(mapped, clEnqueueMapBuffer(queue, memory, blocking, CL_MAP_READ | CL_MAP_WRITE, 0, size, 0, NULL, &event, &status));
        look_at(event, 0);
        NAME("unmap", size);
        CHECK(clEnqueueUnmapMemObject(queue, memory, mapped, 0, NULL, &event));
        look_at(event, 0);
    }
    NAME("copy", size);
    CHECK(clEnqueueCopyBuffer(queue, memory, other, 0, 0, size, 0, NULL, &event));
    look_at(event, 0);
    NAME("fill", size);
    CHECK(clEnqueueFillBuffer(queue, memory, "1234", 4, 0, size, 0, NULL, &event));
    look_at(event, 0);
    NAME("kernel", size);
    launch(queue, inc, size / 4, 0, NULL, &event);
    look_at(event, 0);
    NAME("migration", size);
    CHECK(clEnqueueMigrateMemObjects(queue, 1, &memory, 0, 0, NULL, &event));
    look_at(event, 0);
}

static void images(cl_command_queue queue, size_t width, size_t height)
{
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = width, .image_height = height};
    size_t origin[3] = {0, 0, 0}, region[3] = {width, height, 1}, size = width * height * 4, pitch;
    cl_mem image;
    cl_event event;
    MAKE(image, clCreateImage(context, CL_MEM_READ_WRITE, &format, &description, NULL, &status));
    for (cl_bool blocking = CL_FALSE; blocking <= CL_TRUE; blocking++) {
        NAME(blocking ? "write of an image" : "write of an image later", size);
        CHECK(clEnqueueWriteImage(queue, image, blocking, origin, region, 0, 0, host, 0, NULL, &event));
        look_at(event, size == LARGE);
        NAME(blocking ? "read of an image" : "read of an image later", size);
        CHECK(clEnqueueReadImage(queue, image, blocking, origin, region, 0, 0, host, 0, NULL, &event));
        look_at(event, size == LARGE);
        NAME(blocking ? "map of an image" : "map of an image later", size);
        void *mapped;
        MAKE(mapped, clEnqueueMapImage(queue, image, blocking, CL_MAP_READ | CL_MAP_WRITE, origin, region, &pitch, NULL, 0,
                                       NULL, &event, &status));
        look_at(event, 0);
        NAME("unmap of an image", size);
        CHECK(clEnqueueUnmapMemObject(queue, image, mapped, 0, NULL, &event));
        look_at(event, 0);
    }
    CHECK(clReleaseMemObject(image));
}

/* A transfer that waits for a user event is queued before that is set, and starts after. */
static void held_up(cl_command_queue queue, int writes, size_t size)
{
    cl_command_queue beside = open_queue(CL_QUEUE_PROFILING_ENABLE);
    cl_event gate, event, between;
    cl_ulong at[5], then[5];
    NAME(writes ? "write held up" : "read held up", size);
    MAKE(gate, clCreateUserEvent(context, &status));
    if (writes)
        CHECK(clEnqueueWriteBuffer(queue, memory, CL_FALSE, 0, size, host, 1, &gate, &event));
    else
        CHECK(clEnqueueReadBuffer(queue, memory, CL_FALSE, 0, size, host, 1, &gate, &event));
    CHECK(clFlush(queue));
    launch(beside, inc, 1, 0, NULL, &between);
    read_times(between, then);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    read_times(event, at);
    if (at[0] > then[2])
        complain("queued when it began only", at);
    if (at[2] < then[3])
        complain("started before what it waits for had ended", at);
    look_at(event, size == LARGE);
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseEvent(between));
    CHECK(clReleaseCommandQueue(beside));
}

/* A large transfer behind a kernel in the same queue: the kernel is no part of it. */
static void behind_a_kernel(cl_command_queue queue, int writes)
{
    cl_event kernel, event;
    cl_ulong at[5], before[5];
    NAME(writes ? "write behind a kernel" : "read behind a kernel", LARGE);
    launch(queue, inc, LARGE / 4, 0, NULL, &kernel);
    if (writes)
        CHECK(clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, LARGE, host, 1, &kernel, &event));
    else
        CHECK(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, LARGE, host, 1, &kernel, &event));
    read_times(kernel, before);
    read_times(event, at);
    if (at[2] < before[3])
        complain("started before the kernel had ended", at);
    look_at(event, 1);
    CHECK(clReleaseEvent(kernel));
}

static void CL_CALLBACK count(void *counter)
{
    ++**(int **)counter;
}

static void others(cl_command_queue queue)
{
    static int counted;
    int *counter = &counted;
    cl_device_exec_capabilities able;
    cl_event event, gate;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof able, &able, NULL));
    if (able & CL_EXEC_NATIVE_KERNEL) {
        NAME("native kernel", 0);
        CHECK(clEnqueueNativeKernel(queue, count, &counter, sizeof counter, 0, NULL, NULL, 0, NULL, &event));
        look_at(event, 0);
    }
    /* What natively has no times, as markers have none on some, is no worse than that. */
    MAKE(gate, clCreateUserEvent(context, &status));
    for (int barrier = 0; barrier < 2; barrier++) {
        cl_ulong at[5];
        NAME(barrier ? "barrier" : "marker", 0);
        if (barrier)
            CHECK(clEnqueueBarrierWithWaitList(queue, 1, &gate, &event));
        else
            CHECK(clEnqueueMarkerWithWaitList(queue, 1, &gate, &event));
        CHECK(clFlush(queue));
        if (!barrier)
            CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
        read_times(event, at);
        if (at[0] > at[1] || at[1] > at[2] || at[2] > at[3])
            complain("not in order", at);
        CHECK(clReleaseEvent(event));
    }
    CHECK(clReleaseEvent(gate));
}

int main(void)
{
    open_device();
    inc = kernel_of(build(SOURCE, ""), "inc");
    host = calloc(1, LARGE);
    REQUIRE(host != NULL);
    memory = buffer_of(CL_MEM_READ_WRITE, LARGE, NULL);
    other = buffer_of(CL_MEM_READ_WRITE, LARGE, NULL);
    set_arg(inc, 0, sizeof memory, &memory);
    cl_bool has_images;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_IMAGE_SUPPORT, sizeof has_images, &has_images, NULL));
    const cl_command_queue_properties orders[2] = {IN_ORDER, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE};
    for (int order = 0; order < 2; order++) {
        cl_command_queue queue = open_queue(CL_QUEUE_PROFILING_ENABLE | orders[order]);
        for (int i = 0; i < SIZES; i++) {
            buffers(queue, sizes[i]);
            held_up(queue, 0, sizes[i]);
            held_up(queue, 1, sizes[i]);
        }
        behind_a_kernel(queue, 0);
        behind_a_kernel(queue, 1);
        if (has_images) {
            images(queue, 16, 16);
            images(queue, 2048, 1024);
        }
        others(queue);
        CHECK(clFinish(queue));
        CHECK(clReleaseCommandQueue(queue));
    }
    printf("%d of the times were wrong\n", wrong);
    return wrong != 0;
}
