/* One context of all devices of the platform: programs, kernels, queues and events of each, and what passes between them.
 *
 * The devices compute in buffers of their own here; what they share is tested elsewhere. Its output does not depend on where the devices are. */
#include "common.h"
#include <pthread.h>

enum { N = 4096, MOST = 64 };

static const char *SOURCE =
    "__constant sampler_t near = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;\n"
    "__kernel void scale(__global int *x, int by, int plus) {\n"
    "    x[get_global_id(0)] = x[get_global_id(0)] * by + plus;\n"
    "}\n"
    "__kernel void reversed(__global const int *from, __global int *to, __local int *group) {\n"
    "    size_t at = get_local_id(0), n = get_local_size(0);\n"
    "    group[at] = from[get_global_id(0)];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    to[get_global_id(0)] = group[n - 1 - at];\n"
    "}\n"
    "__kernel void sample(__read_only image2d_t image, sampler_t given, __global uint4 *out) {\n"
    "    int2 at = (int2)(get_global_id(0), 1);\n"
    "    out[get_global_id(0)] = read_imageui(image, given, at) + read_imageui(image, near, at);\n"
    "}\n";

static cl_device_id devices[MOST];
static cl_command_queue queues[MOST];
static cl_uint count;

static void open_all(cl_command_queue_properties properties)
{
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, devices, &count));
    MAKE(context, clCreateContext(NULL, count, devices, NULL, NULL, &status));
    for (cl_uint i = 0; i < count; i++)
        MAKE(queues[i], clCreateCommandQueue(context, devices[i], properties, &status));
    device = devices[0];
}

static cl_program build_everywhere(const char *source, const char *options)
{
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, options, NULL, NULL));
    return program;
}

#include "many_homes_programs.h"

static void queries(void)
{
    cl_uint known, references;
    cl_device_id listed[MOST];
    CHECK(clGetContextInfo(context, CL_CONTEXT_NUM_DEVICES, sizeof known, &known, NULL));
    CHECK(clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof listed, listed, NULL));
    CHECK(clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof references, &references, NULL));
    printf("context: all devices %d, in order %d, references as made %d\n", known == count,
           memcmp(listed, devices, count * sizeof *devices) == 0, references > 0);
    cl_context_properties of_platform[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    cl_context all;
    MAKE(all, clCreateContextFromType(of_platform, CL_DEVICE_TYPE_ALL, NULL, NULL, &status));
    CHECK(clGetContextInfo(all, CL_CONTEXT_NUM_DEVICES, sizeof known, &known, NULL));
    printf("by type: all devices %d\n", known == count);
    /* What belongs to one context is nothing to another. */
    cl_context one;
    MAKE(one, clCreateContext(NULL, 1, devices, NULL, NULL, &status));
    clCreateCommandQueue(one, devices[count - 1], 0, &status);
    printf("queue for a device of no such context: %d\n", status);
    cl_event foreign;
    MAKE(foreign, clCreateUserEvent(one, &status));
    printf("foreign event: %d\n", clEnqueueMarkerWithWaitList(queues[0], 1, &foreign, NULL));
    CHECK(clReleaseEvent(foreign));
    CHECK(clReleaseContext(one));
    CHECK(clReleaseContext(all));
    /* Whatever the devices have of their own: these use memory that nobody outside them knows of. */
    cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    cl_command_queue on_device = clCreateCommandQueueWithProperties(context, devices[0], list, &status);
    printf("queue on a device: %d %d, shared virtual memory: %d\n", on_device != NULL, status,
           clSVMAlloc(context, CL_MEM_READ_WRITE, 64, 0) != NULL);
}

/* The same kernel on every queue, its arguments changing in between; those of a clone stay as they were. */
static void kernels(cl_program program)
{
    static int x[MOST][N];
    cl_mem buffers[MOST];
    cl_kernel kernel = kernel_of(program, "scale");
    int by = 2, plus = 5;
    set_arg(kernel, 1, sizeof by, &by);
    set_arg(kernel, 2, sizeof plus, &plus);
    cl_kernel clone = NULL;
    for (int round = 0; round < 2; round++) {
        for (cl_uint i = 0; i < count; i++) {
            if (round == 0) {
                for (int at = 0; at < N; at++)
                    x[i][at] = at;
                buffers[i] = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x[i], x[i]);
            }
            set_arg(kernel, 0, sizeof buffers[i], &buffers[i]);
            if (i == 1 && round == 0) {
                by = 3;
                set_arg(kernel, 1, sizeof by, &by);
                MAKE(clone, clCloneKernel(kernel, &status));
            }
            launch(queues[i], kernel, N, 0, NULL, NULL);
        }
    }
    plus = 1000;
    set_arg(kernel, 2, sizeof plus, &plus);
    if (clone != NULL)
        launch(queues[1], clone, N, 0, NULL, NULL);
    for (cl_uint i = 0; i < count; i++) {
        CHECK(clEnqueueReadBuffer(queues[i], buffers[i], CL_TRUE, 0, sizeof x[i], x[i], 0, NULL, NULL));
        int expected = 7;
        if (i == 0)
            expected = (expected * 2 + 5) * 3 + 5;
        else
            for (int turn = 0; turn < 2 + (i == 1); turn++)
                expected = expected * 3 + 5;
        printf("scaled on %u: %s\n", i, x[i][7] == expected ? "right" : "WRONG");
    }
    /* Parts of a buffer, and local memory. */
    cl_kernel reversed = kernel_of(program, "reversed");
    for (cl_uint i = 0; i < count; i++) {
        cl_buffer_region half = {N / 2 * sizeof(int), N / 2 * sizeof(int)};
        cl_mem whole = buffer_of(0, sizeof x[0], NULL), part;
        MAKE(part, clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &status));
        size_t items = N / 2, group = 64;
        set_arg(reversed, 0, sizeof buffers[i], &buffers[i]);
        set_arg(reversed, 1, sizeof part, &part);
        set_arg(reversed, 2, group * sizeof(int), NULL);
        CHECK(clEnqueueNDRangeKernel(queues[i], reversed, 1, NULL, &items, &group, 0, NULL, NULL));
        int got[2];
        CHECK(clEnqueueReadBuffer(queues[i], whole, CL_TRUE, half.origin, sizeof got, got, 0, NULL, NULL));
        printf("reversed on %u: %s\n", i, got[0] == x[i][63] && got[1] == x[i][62] ? "right" : "WRONG");
        CHECK(clReleaseMemObject(part));
        CHECK(clReleaseMemObject(whole));
    }
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseMemObject(buffers[i]));
    CHECK(clReleaseKernel(reversed));
    if (clone != NULL)
        CHECK(clReleaseKernel(clone));
    CHECK(clReleaseKernel(kernel));
}

static void images(cl_program program)
{
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc like = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 4, .image_height = 2};
    cl_uint known;
    CHECK(clGetSupportedImageFormats(context, CL_MEM_READ_ONLY, CL_MEM_OBJECT_IMAGE2D, 0, NULL, &known));
    printf("image formats: %d\n", known > 0);
    cl_sampler sampler;
    MAKE(sampler, clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &status));
    cl_kernel kernel = kernel_of(program, "sample");
    set_arg(kernel, 1, sizeof sampler, &sampler);
    for (cl_uint i = 0; i < count; i++) {
        unsigned char texels[2][4][4];
        for (int at = 0; at < 32; at++)
            ((unsigned char *)texels)[at] = (unsigned char)(at + (int)i);
        cl_mem image, out = buffer_of(0, 4 * 16, NULL);
        MAKE(image, clCreateImage(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, &format, &like, texels, &status));
        set_arg(kernel, 0, sizeof image, &image);
        set_arg(kernel, 2, sizeof out, &out);
        launch(queues[i], kernel, 4, 0, NULL, NULL);
        cl_uint got[4][4];
        CHECK(clEnqueueReadBuffer(queues[i], out, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
        printf("sampled on %u: %u %u\n", i, got[0][0], got[3][3]);
        CHECK(clReleaseMemObject(image));
        CHECK(clReleaseMemObject(out));
    }
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseSampler(sampler));
}

static void CL_CALLBACK note(cl_event event, cl_int now, void *place)
{
    (void)event;
    __atomic_store_n((cl_int *)place, now + 100, __ATOMIC_SEQ_CST);
}

static void wait_for_note(cl_int *place)
{
    AWAIT(__atomic_load_n(place, __ATOMIC_SEQ_CST) != 0);
}

static void events(cl_program program)
{
    static int x[N];
    cl_kernel kernel = kernel_of(program, "scale");
    int by = 1, plus = 1;
    set_arg(kernel, 1, sizeof by, &by);
    set_arg(kernel, 2, sizeof plus, &plus);
    cl_mem buffers[MOST];
    for (cl_uint i = 0; i < count; i++)
        buffers[i] = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, x);
    /* A long chain, from queue to queue, behind a user event. */
    enum { HOPS = 100 };
    cl_event gate, chain[HOPS], before;
    MAKE(gate, clCreateUserEvent(context, &status));
    before = gate;
    for (int hop = 0; hop < HOPS; hop++) {
        cl_uint on = (cl_uint)hop % count;
        set_arg(kernel, 0, sizeof buffers[on], &buffers[on]);
        launch(queues[on], kernel, N, 1, &before, &chain[hop]);
        before = chain[hop];
    }
    for (cl_uint i = 0; i < count; i++)
        CHECK(clFlush(queues[i]));
    leave_time();
    printf("held up: %d %d\n", status_of(chain[0]) > 0, status_of(chain[HOPS - 1]) > 0);
    static cl_int noted;
    CHECK(clSetEventCallback(chain[HOPS - 1], CL_COMPLETE, note, &noted));
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &chain[HOPS - 1]));
    int ended = 0;
    for (int hop = 0; hop < HOPS; hop++)
        ended += status_of(chain[hop]) == CL_COMPLETE;
    wait_for_note(&noted);
    printf("chain: ended %d of %d, called with %d\n", ended, HOPS, noted - 100);
    CHECK(clWaitForEvents(HOPS, chain));
    for (cl_uint i = 0; i < count; i++) {
        CHECK(clEnqueueReadBuffer(queues[i], buffers[i], CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
        cl_uint expected = 0;
        for (cl_uint hop = 0; hop < HOPS; hop++)
            expected += hop % count == i;
        printf("counted on %u: %s\n", i, (cl_uint)x[N - 1] == expected ? "right" : "WRONG");
    }
    for (int hop = 0; hop < HOPS; hop++)
        CHECK(clReleaseEvent(chain[hop]));
    CHECK(clReleaseEvent(gate));
    /* Events released before what waits for them has come to its turn; one wait list of all queues' events. */
    cl_event each[MOST];
    MAKE(gate, clCreateUserEvent(context, &status));
    for (cl_uint i = 0; i < count; i++)
        CHECK(clEnqueueMarkerWithWaitList(queues[i], 1, &gate, &each[i]));
    cl_event all;
    CHECK(clEnqueueMarkerWithWaitList(queues[count - 1], count, each, &all));
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseEvent(each[i]));
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clReleaseEvent(gate));
    CHECK(clWaitForEvents(1, &all));
    /* What has ended long ago is no reason to wait; a list of it is no empty list. */
    MAKE(gate, clCreateUserEvent(context, &status));
    cl_event held, late;
    CHECK(clEnqueueMarkerWithWaitList(queues[0], 1, &gate, &held));
    cl_command_queue_properties out_of_order;
    CHECK(clGetDeviceInfo(devices[0], CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, sizeof out_of_order, &out_of_order, NULL));
    CHECK(clEnqueueMarkerWithWaitList(queues[count - 1], 1, &all, &late));
    CHECK(clWaitForEvents(1, &late));
    printf("late: %d, held: %d\n", status_of(late), status_of(held) > 0);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    for (cl_uint i = 0; i < count; i++)
        CHECK(clFinish(queues[i]));
    printf("then: %d\n", status_of(held));
    CHECK(clReleaseEvent(held));
    CHECK(clReleaseEvent(late));
    CHECK(clReleaseEvent(all));
    CHECK(clReleaseEvent(gate));
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseMemObject(buffers[i]));
    CHECK(clReleaseKernel(kernel));
}

/* What waits for what has failed fails, wherever it is. */
static void failures(void)
{
    cl_event gate, each[MOST], next[MOST];
    MAKE(gate, clCreateUserEvent(context, &status));
    for (cl_uint i = 0; i < count; i++)
        CHECK(clEnqueueMarkerWithWaitList(queues[i], 1, &gate, &each[i]));
    for (cl_uint i = 0; i < count; i++)
        CHECK(clEnqueueMarkerWithWaitList(queues[(i + 1) % count], 1, &each[i], &next[i]));
    static cl_int noted[MOST];
    for (cl_uint i = 0; i < count; i++)
        CHECK(clSetEventCallback(next[i], CL_COMPLETE, note, &noted[i]));
    CHECK(clSetUserEventStatus(gate, -5));
    printf("waiting for all: %d\n", clWaitForEvents(count, next));
    for (cl_uint i = 0; i < count; i++) {
        wait_for_note(&noted[i]);
        printf("failed on %u: %d %d %d\n", i, status_of(each[i]) < 0, status_of(next[i]) < 0, noted[i] - 100 < 0);
    }
    /* What fails later on fails because of what has failed before. */
    cl_event after;
    CHECK(clEnqueueMarkerWithWaitList(queues[count - 1], 1, &each[0], &after));
    printf("after: %d\n", clWaitForEvents(1, &after));
    printf("both: %d %d\n", status_of(after) < 0, clWaitForEvents(1, &gate));
    CHECK(clReleaseEvent(after));
    for (cl_uint i = 0; i < count; i++) {
        CHECK(clReleaseEvent(each[i]));
        CHECK(clReleaseEvent(next[i]));
    }
    CHECK(clReleaseEvent(gate));
    /* The queues go on. */
    for (cl_uint i = 0; i < count; i++) {
        int x = 1, y = 0;
        cl_mem buffer = buffer_of(0, sizeof x, NULL);
        CHECK(clEnqueueWriteBuffer(queues[i], buffer, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL));
        CHECK(clEnqueueReadBuffer(queues[i], buffer, CL_TRUE, 0, sizeof y, &y, 0, NULL, NULL));
        printf("on %u all goes on: %d\n", i, y);
        CHECK(clReleaseMemObject(buffer));
    }
}

/* A command that is called off leaves what was there, for all devices. */
static void cancelled(cl_program program)
{
    cl_kernel kernel = kernel_of(program, "scale");
    int seven = 7, by = 2, plus = 1;
    set_arg(kernel, 1, sizeof by, &by);
    set_arg(kernel, 2, sizeof plus, &plus);
    for (cl_uint i = 0; i < count; i++) {
        cl_mem buffer = buffer_of(0, sizeof seven, NULL);
        cl_event gate;
        MAKE(gate, clCreateUserEvent(context, &status));
        CHECK(clEnqueueWriteBuffer(queues[i], buffer, CL_TRUE, 0, sizeof seven, &seven, 0, NULL, NULL));
        /* PoCL 3.1 ends the process where something that a command waits for comes to its end just while something else fails. */
        CHECK(clFinish(queues[i]));
        set_arg(kernel, 0, sizeof buffer, &buffer);
        launch(queues[i], kernel, 1, 1, &gate, NULL);
        CHECK(clSetUserEventStatus(gate, -5));
        clFinish(queues[i]);
        int got = 0;
        CHECK(clEnqueueReadBuffer(queues[(i + 1) % count], buffer, CL_TRUE, 0, sizeof got, &got, 0, NULL, NULL));
        printf("called off on %u: %d\n", i, got);
        CHECK(clReleaseEvent(gate));
        CHECK(clReleaseMemObject(buffer));
    }
    CHECK(clReleaseKernel(kernel));
}

/* Two commands that fail, of which the second would have taken the contents to another device; they are there for the next. */
static void gone_back(cl_program program)
{
    cl_kernel kernel = kernel_of(program, "scale");
    int by = 2, plus = 1;
    set_arg(kernel, 1, sizeof by, &by);
    set_arg(kernel, 2, sizeof plus, &plus);
    for (cl_uint i = 0; i < count; i++) {
        int got[N], next = (int)((i + 1) % count);
        cl_mem buffer = buffer_of(0, sizeof got, NULL);
        cl_event gate, failed[2];
        MAKE(gate, clCreateUserEvent(context, &status));
        CHECK(clEnqueueFillBuffer(queues[i], buffer, &plus, sizeof plus, 0, sizeof got, 0, NULL, NULL));
        CHECK(clFinish(queues[i]));
        set_arg(kernel, 0, sizeof buffer, &buffer);
        launch(queues[i], kernel, N, 1, &gate, &failed[0]);
        launch(queues[next], kernel, N, 1, &failed[0], &failed[1]);
        CHECK(clSetUserEventStatus(gate, -5));
        clWaitForEvents(1, &failed[1]);
        for (cl_uint turn = 0; turn < 2; turn++) {
            launch(queues[next], kernel, N, 0, NULL, NULL);
            CHECK(clFinish(queues[next]));
            next = (int)((i + 2) % count);
        }
        CHECK(clEnqueueReadBuffer(queues[i], buffer, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
        printf("gone back to %u: %d %d %d\n", i, status_of(failed[1]) < 0, got[0], got[N - 1]);
        CHECK(clReleaseEvent(failed[0]));
        CHECK(clReleaseEvent(failed[1]));
        CHECK(clReleaseEvent(gate));
        CHECK(clReleaseMemObject(buffer));
    }
    CHECK(clReleaseKernel(kernel));
}

/* Parts of the first device beside the others, in a context of their own. */
static void parts(void)
{
    const cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    cl_device_id all[MOST];
    cl_uint made, right = 0;
    if (clCreateSubDevices(devices[0], equally, MOST, all, &made) != CL_SUCCESS)
        all[0] = devices[0];
    made = 1;
    for (cl_uint i = 1; i < count; i++)
        all[made++] = devices[i];
    cl_context of_parts;
    cl_program program;
    MAKE(of_parts, clCreateContext(NULL, made, all, NULL, NULL, &status));
    MAKE(program, clCreateProgramWithSource(of_parts, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    cl_kernel kernel = kernel_of(program, "scale");
    int x = 1, by = 2, plus = 3;
    cl_mem buffer;
    MAKE(buffer, clCreateBuffer(of_parts, CL_MEM_COPY_HOST_PTR, sizeof x, &x, &status));
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof by, &by);
    set_arg(kernel, 2, sizeof plus, &plus);
    for (cl_uint i = 0; i < made; i++) {
        cl_command_queue queue;
        MAKE(queue, clCreateCommandQueue(of_parts, all[i], 0, &status));
        launch(queue, kernel, 1, 0, NULL, NULL);
        int got = 0;
        CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof got, &got, 0, NULL, NULL));
        x = x * by + plus;
        right += got == x;
        CHECK(clReleaseCommandQueue(queue));
    }
    printf("part of a device, and others: %s\n", right == made ? "right" : "WRONG");
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseContext(of_parts));
}

struct turn {
    cl_program program;
    cl_uint first;
    int result;
};

/* One buffer that goes from queue to queue, each command waiting for the one before. */
static void *take_turns(void *argument)
{
    struct turn *turn = argument;
    static int zeros[N];
    int got[N], by = 1, plus = 1;
    cl_kernel kernel = kernel_of(turn->program, "scale");
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof zeros, zeros);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof by, &by);
    set_arg(kernel, 2, sizeof plus, &plus);
    cl_event before = NULL, next;
    for (cl_uint at = 0; at < 50; at++) {
        launch(queues[(turn->first + at) % count], kernel, N, before != NULL, before != NULL ? &before : NULL, &next);
        if (before != NULL)
            CHECK(clReleaseEvent(before));
        before = next;
    }
    CHECK(clEnqueueReadBuffer(queues[turn->first], buffer, CL_TRUE, 0, sizeof got, got, 1, &before, NULL));
    CHECK(clReleaseEvent(before));
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    turn->result = got[0] == 50 && got[N - 1] == 50;
    return NULL;
}

static void threads(cl_program program)
{
    enum { THREADS = 6 };
    pthread_t thread[THREADS];
    struct turn turns[THREADS];
    int right = 0;
    for (cl_uint i = 0; i < THREADS; i++) {
        turns[i] = (struct turn){program, i % count, 0};
        REQUIRE(pthread_create(&thread[i], NULL, take_turns, &turns[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(thread[i], NULL) == 0);
        right += turns[i].result;
    }
    printf("threads: %s\n", right == THREADS ? "right" : "WRONG");
}

int main(int argc, char **argv)
{
    (void)argv;
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_all(0);
    if (argc == 1)
        printf("%u devices\n", count);
    queries();
    cl_program program = build_everywhere(SOURCE, NULL);
    programs(program);
    kernels(program);
    images(program);
    events(program);
    failures();
    cancelled(program);
    gone_back(program);
    parts();
    threads(program);
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseCommandQueue(queues[i]));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseContext(context));
    printf("done\n");
    return 0;
}
