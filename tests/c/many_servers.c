/* One context of all devices of a platform, whichever machines they are of.
 *
 * many_servers all             everything once, on every device; prints what is right
 * many_servers exchange SIZE N a buffer of SIZE bytes goes N times from device to device; measured
 * many_servers signals N       N kernels, each on another device than the one before and waiting for it, without data
 * many_servers flushed N       N times a kernel on each device, flushed one right after the other, and a wait for all of them
 * many_servers pipeline SIZE N N pictures made on the first device, filtered on the second, the small results read
 * many_servers lost            uses three devices while the second goes away */
#include "stages.h"

static const char *SOURCE =
    "__kernel void advance(__global uint *x, uint a, uint b) { size_t i = get_global_id(0); x[i] = x[i] * a + b; }\n"
    "__kernel void put(__global uint *x, uint a) { x[get_global_id(0)] = (uint)get_global_id(0) * a; }\n"
    "__kernel void add(__global const uint *a, __global const uint *b, __global uint *c) {\n"
    "    size_t i = get_global_id(0); c[i] = a[i] + b[i]; }\n"
    "__kernel void fold(__global const uint *x, __global uint *sums, uint each) {\n"
    "    size_t i = get_global_id(0); uint sum = 0;\n"
    "    for (uint k = 0; k < each; k++) sum += x[i * each + k];\n"
    "    sums[i] = sum; }\n"
    "__kernel void spin(__global volatile uint *x, uint n) { for (uint i = 0; i < n; i++) x[0] += i; }\n"
    "__kernel void nothing(void) {}\n"
    "__kernel void draw(__write_only image2d_t picture, uint a) {\n"
    "    int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "    write_imageui(picture, at, (uint4)(at.x * a, at.y, a, 7)); }\n"
    "__kernel void look(__read_only image2d_t picture, __global uint *out) {\n"
    "    int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "    uint4 p = read_imageui(picture, CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST, at);\n"
    "    out[at.y * get_global_size(0) + at.x] = p.x + p.y + p.z + p.w; }\n";

enum { MOST = 64, N = 10000 };

static cl_device_id devices[MOST];
static cl_command_queue queues[MOST];
static cl_uint count;
static cl_program program;
static cl_kernel step, put, add, fold, spin, nothing;

static void open_all(void)
{
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, devices, &count));
    MAKE(context, clCreateContext(NULL, count, devices, NULL, NULL, &status));
    for (cl_uint i = 0; i < count; i++)
        MAKE(queues[i], clCreateCommandQueue(context, devices[i], CL_QUEUE_PROFILING_ENABLE, &status));
    MAKE(program, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    step = kernel_of(program, "advance");
    put = kernel_of(program, "put");
    add = kernel_of(program, "add");
    fold = kernel_of(program, "fold");
    spin = kernel_of(program, "spin");
    nothing = kernel_of(program, "nothing");
}

static cl_event run_step(cl_uint on, cl_mem x, size_t items, cl_uint a, cl_uint b, cl_uint waits, const cl_event *list)
{
    cl_event event;
    set_arg(step, 0, sizeof x, &x);
    set_arg(step, 1, sizeof a, &a);
    set_arg(step, 2, sizeof b, &b);
    launch(queues[on], step, items, waits, list, &event);
    return event;
}

static cl_event run_put(cl_uint on, cl_mem x, size_t items, cl_uint a)
{
    cl_event event;
    set_arg(put, 0, sizeof x, &x);
    set_arg(put, 1, sizeof a, &a);
    launch(queues[on], put, items, 0, NULL, &event);
    return event;
}

/* Kernels on every device, each with a buffer of its own. */
static void everywhere(void)
{
    static cl_uint x[N];
    cl_uint of_context;
    CHECK(clGetContextInfo(context, CL_CONTEXT_NUM_DEVICES, sizeof of_context, &of_context, NULL));
    REQUIRE(of_context == count);
    size_t sizes[MOST];
    CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL));
    for (cl_uint i = 0; i < count; i++) {
        cl_build_status built;
        CHECK(clGetProgramBuildInfo(program, devices[i], CL_PROGRAM_BUILD_STATUS, sizeof built, &built, NULL));
        REQUIRE(built == CL_BUILD_SUCCESS && sizes[i] > 0);
        cl_mem own = buffer_of(CL_MEM_READ_WRITE, sizeof x, NULL);
        CHECK(clReleaseEvent(run_put(i, own, N, i + 3)));
        CHECK(clEnqueueReadBuffer(queues[i], own, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
        for (cl_uint k = 0; k < N; k++)
            REQUIRE(x[k] == k * (i + 3));
        CHECK(clReleaseMemObject(own));
    }
    printf("kernels on every device are right\n");
}

/* One buffer, changed by one device after the other, ordered by events alone. */
static void in_turn(void)
{
    static cl_uint x[N];
    for (cl_uint k = 0; k < N; k++)
        x[k] = k;
    cl_mem shared = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof x, x);
    cl_event last = NULL;
    for (cl_uint round = 0; round < 5 * count; round++) {
        cl_event next = run_step(round % count, shared, N, 3, round, last ? 1 : 0, last ? &last : NULL);
        CHECK(clFlush(queues[round % count]));
        if (last)
            CHECK(clReleaseEvent(last));
        last = next;
    }
    CHECK(clEnqueueReadBuffer(queues[1 % count], shared, CL_TRUE, 0, sizeof x, x, 1, &last, NULL));
    for (cl_uint k = 0; k < N; k++) {
        cl_uint want = k;
        for (cl_uint round = 0; round < 5 * count; round++)
            want = want * 3 + round;
        REQUIRE(x[k] == want);
    }
    CHECK(clReleaseEvent(last));
    CHECK(clReleaseMemObject(shared));
    printf("one buffer on every device in turn is right\n");
}

/* Every device writes a part of one buffer at the same time; then every device reads all of it. */
static void parts(void)
{
    static cl_uint x[N * MOST];
    const size_t each = 16384; /* bytes: aligned for every device */
    cl_mem whole = buffer_of(CL_MEM_READ_WRITE, each * count, NULL), piece[MOST];
    cl_event written[MOST];
    for (cl_uint i = 0; i < count; i++) {
        cl_buffer_region region = {each * i, each};
        MAKE(piece[i], clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
        written[i] = run_put(i, piece[i], each / 4, i + 1);
        CHECK(clFlush(queues[i]));
    }
    for (cl_uint reader = 0; reader < count; reader++) {
        memset(x, 0, each * count);
        CHECK(clEnqueueReadBuffer(queues[reader], whole, CL_TRUE, 0, each * count, x, count, written, NULL));
        for (cl_uint k = 0; k < each * count / 4; k++)
            REQUIRE(x[k] == (cl_uint)(k % (each / 4)) * (cl_uint)(k / (each / 4) + 1));
    }
    /* The sum of two parts that different devices have made, on a third device. */
    cl_uint third = count - 1;
    cl_mem sums = buffer_of(CL_MEM_READ_WRITE, each, NULL);
    set_arg(add, 0, sizeof piece[0], &piece[0]);
    set_arg(add, 1, sizeof piece[1 % count], &piece[1 % count]);
    set_arg(add, 2, sizeof sums, &sums);
    launch(queues[third], add, each / 4, count, written, NULL);
    CHECK(clEnqueueReadBuffer(queues[third], sums, CL_TRUE, 0, each, x, 0, NULL, NULL));
    for (cl_uint k = 0; k < each / 4; k++)
        REQUIRE(x[k] == k * (1 + 1 % count + 1));
    for (cl_uint i = 0; i < count; i++) {
        CHECK(clReleaseEvent(written[i]));
        CHECK(clReleaseMemObject(piece[i]));
    }
    CHECK(clReleaseMemObject(whole));
    CHECK(clReleaseMemObject(sums));
    printf("parts written at once are right\n");
}

/* Commands that are no kernels, on other devices than those that wrote. */
static void commands(void)
{
    static cl_uint x[N];
    cl_uint a = 0, b = 1 % count, c = 2 % count, pattern = 77;
    cl_mem one = buffer_of(CL_MEM_READ_WRITE, sizeof x, NULL), two = buffer_of(CL_MEM_READ_WRITE, sizeof x, NULL);
    cl_event filled, copied;
    CHECK(clEnqueueFillBuffer(queues[a], one, &pattern, sizeof pattern, 0, sizeof x, 0, NULL, &filled));
    CHECK(clFlush(queues[a]));
    CHECK(clEnqueueCopyBuffer(queues[b], one, two, 0, 0, sizeof x, 1, &filled, &copied));
    CHECK(clFlush(queues[b]));
    cl_uint *mapped;
    MAKE(mapped, clEnqueueMapBuffer(queues[c], two, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, sizeof x, 1, &copied, NULL, &status));
    for (cl_uint k = 0; k < N; k++) {
        REQUIRE(mapped[k] == 77);
        mapped[k] = k;
    }
    cl_event unmapped, moved;
    CHECK(clEnqueueUnmapMemObject(queues[c], two, mapped, 0, NULL, &unmapped));
    CHECK(clFlush(queues[c]));
    CHECK(clEnqueueMigrateMemObjects(queues[a], 1, &two, 0, 1, &unmapped, &moved));
    CHECK(clEnqueueReadBuffer(queues[a], two, CL_TRUE, 0, sizeof x, x, 1, &moved, NULL));
    for (cl_uint k = 0; k < N; k++)
        REQUIRE(x[k] == k);
    /* Half of it written by the application through another queue. */
    memset(x, 1, sizeof x);
    CHECK(clEnqueueWriteBuffer(queues[b], two, CL_TRUE, 0, sizeof x / 2, x, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queues[c], two, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
    for (cl_uint k = 0; k < N; k++)
        REQUIRE(x[k] == (k < N / 2 ? 0x01010101 : k));
    cl_event all[] = {filled, copied, unmapped, moved};
    for (int i = 0; i < 4; i++)
        CHECK(clReleaseEvent(all[i]));
    CHECK(clReleaseMemObject(one));
    CHECK(clReleaseMemObject(two));
    printf("copies, fills, maps and migrations are right\n");
}

static void CL_CALLBACK count_up(cl_event event, cl_int ended, void *counter)
{
    (void)event;
    if (ended == CL_COMPLETE)
        __atomic_add_fetch((int *)counter, 1, __ATOMIC_SEQ_CST);
}

/* User events, events of other devices in wait lists, callbacks, markers; an error that runs through all devices. */
static void events(void)
{
    static cl_uint x[N];
    static int called;
    cl_mem shared = buffer_of(CL_MEM_READ_WRITE, sizeof x, NULL);
    cl_event gate, chain[MOST], mark;
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clReleaseEvent(run_put(0, shared, N, 1)));
    for (cl_uint i = 0; i < count; i++) {
        chain[i] = run_step(i, shared, N, 2, i, 1, i == 0 ? &gate : &chain[i - 1]);
        CHECK(clSetEventCallback(chain[i], CL_COMPLETE, count_up, &called));
        CHECK(clFlush(queues[i]));
    }
    CHECK(clEnqueueMarkerWithWaitList(queues[0], count, chain, &mark));
    CHECK(clFlush(queues[0]));
    leave_time();
    for (cl_uint i = 0; i < count; i++)
        REQUIRE(status_of(chain[i]) > CL_COMPLETE);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &mark));
    CHECK(clWaitForEvents(count, chain));
    CHECK(clEnqueueReadBuffer(queues[count - 1], shared, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
    for (cl_uint k = 0; k < N; k++) {
        cl_uint want = k;
        for (cl_uint i = 0; i < count; i++)
            want = want * 2 + i;
        REQUIRE(x[k] == want);
    }
    AWAIT(__atomic_load_n(&called, __ATOMIC_SEQ_CST) >= (int)count);
    REQUIRE(called == (int)count);
    for (cl_uint i = 0; i < count; i++) {
        cl_ulong begun, ended;
        CHECK(clGetEventProfilingInfo(chain[i], CL_PROFILING_COMMAND_START, sizeof begun, &begun, NULL));
        CHECK(clGetEventProfilingInfo(chain[i], CL_PROFILING_COMMAND_END, sizeof ended, &ended, NULL));
        REQUIRE(begun <= ended);
        CHECK(clReleaseEvent(chain[i]));
    }
    CHECK(clReleaseEvent(mark));
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseMemObject(shared));
    printf("events are right\n");
}

/* A picture drawn by one device and looked at by the others. */
static void pictures(void)
{
    enum { WIDE = 61, HIGH = 37 };
    static cl_uint x[WIDE * HIGH];
    for (cl_uint i = 0; i < count; i++) {
        cl_bool has;
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_IMAGE_SUPPORT, sizeof has, &has, NULL));
        if (!has)
            return;
    }
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT32};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = WIDE, .image_height = HIGH};
    cl_mem picture, out = buffer_of(CL_MEM_READ_WRITE, sizeof x, NULL);
    MAKE(picture, clCreateImage(context, CL_MEM_READ_WRITE, &format, &description, NULL, &status));
    cl_kernel draw = kernel_of(program, "draw"), look = kernel_of(program, "look");
    size_t items[] = {WIDE, HIGH};
    cl_uint a = 5;
    cl_event drawn;
    set_arg(draw, 0, sizeof picture, &picture);
    set_arg(draw, 1, sizeof a, &a);
    CHECK(clEnqueueNDRangeKernel(queues[0], draw, 2, NULL, items, NULL, 0, NULL, &drawn));
    CHECK(clFlush(queues[0]));
    for (cl_uint i = 0; i < count; i++) {
        set_arg(look, 0, sizeof picture, &picture);
        set_arg(look, 1, sizeof out, &out);
        CHECK(clEnqueueNDRangeKernel(queues[i], look, 2, NULL, items, NULL, 1, &drawn, NULL));
        CHECK(clEnqueueReadBuffer(queues[i], out, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
        for (cl_uint k = 0; k < WIDE * HIGH; k++)
            REQUIRE(x[k] == k % WIDE * a + k / WIDE + a + 7);
    }
    CHECK(clReleaseEvent(drawn));
    CHECK(clReleaseKernel(draw));
    CHECK(clReleaseKernel(look));
    CHECK(clReleaseMemObject(picture));
    CHECK(clReleaseMemObject(out));
    printf("pictures are right\n");
}

/* An error of a user event ends what depends on it on every device, and nothing else. */
static void failures(void)
{
    cl_mem shared = buffer_of(CL_MEM_READ_WRITE, 4, NULL), other = buffer_of(CL_MEM_READ_WRITE, 4, NULL);
    cl_event gate, chain[MOST];
    cl_uint x = 0;
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clReleaseEvent(run_put(0, shared, 1, 1)));
    for (cl_uint i = 0; i < count; i++) {
        cl_command_queue apart;
        MAKE(apart, clCreateCommandQueue(context, devices[i], 0, &status));
        CHECK(clEnqueueMarkerWithWaitList(apart, 1, i == 0 ? &gate : &chain[i - 1], &chain[i]));
        CHECK(clFlush(apart));
        CHECK(clReleaseCommandQueue(apart));
    }
    CHECK(clSetUserEventStatus(gate, -7));
    for (cl_uint i = 0; i < count; i++) {
        REQUIRE(clWaitForEvents(1, &chain[i]) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        REQUIRE(status_of(chain[i]) < 0);
        CHECK(clReleaseEvent(chain[i]));
    }
    CHECK(clReleaseEvent(gate));
    for (cl_uint i = 0; i < count; i++) {
        CHECK(clReleaseEvent(run_put(i, other, 1, 1)));
        CHECK(clEnqueueReadBuffer(queues[i], other, CL_TRUE, 0, 4, &x, 0, NULL, NULL));
    }
    CHECK(clReleaseMemObject(shared));
    CHECK(clReleaseMemObject(other));
    printf("failures are right\n");
}

static void exchange(size_t size, cl_uint rounds)
{
    size_t items = size / 4;
    cl_mem data = buffer_of(CL_MEM_READ_WRITE, size, NULL), sums = buffer_of(CL_MEM_READ_WRITE, 1024, NULL);
    cl_uint each = (cl_uint)(items / 256), got[256];
    cl_event last = run_put(0, data, items, 1);
    CHECK(clFinish(queues[0]));
    begin_stage("exchange");
    double begin = seconds();
    for (cl_uint round = 1; round <= rounds; round++) {
        cl_event next = run_step(round % count, data, items, 3, round, 1, &last);
        CHECK(clFlush(queues[round % count]));
        CHECK(clReleaseEvent(last));
        last = next;
    }
    CHECK(clWaitForEvents(1, &last));
    double took = seconds() - begin;
    end_stage();
    set_arg(fold, 0, sizeof data, &data);
    set_arg(fold, 1, sizeof sums, &sums);
    set_arg(fold, 2, sizeof each, &each);
    launch(queues[rounds % count], fold, 256, 0, NULL, NULL);
    CHECK(clEnqueueReadBuffer(queues[rounds % count], sums, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
    for (cl_uint i = 0; i < 256; i++) {
        cl_uint want = 0;
        for (cl_uint k = 0; k < each; k++) {
            cl_uint value = i * each + k;
            for (cl_uint round = 1; round <= rounds; round++)
                value = value * 3 + round;
            want += value;
        }
        REQUIRE(got[i] == want);
    }
    CHECK(clReleaseEvent(last));
    fprintf(stderr, "%.1f MB/s\n", (double)size * rounds / took / 1e6);
    printf("what was exchanged is right\n");
}

static void signals(cl_uint rounds)
{
    cl_event last = NULL, first;
    MAKE(first, clCreateUserEvent(context, &status));
    last = first;
    for (cl_uint i = 0; i < count; i++) {
        launch(queues[i], nothing, 1, 0, NULL, NULL);
        CHECK(clFinish(queues[i]));
    }
    begin_stage("signals");
    CHECK(clSetUserEventStatus(first, CL_COMPLETE));
    for (cl_uint round = 0; round < rounds; round++) {
        cl_event next;
        launch(queues[round % count], nothing, 1, 1, &last, &next);
        CHECK(clFlush(queues[round % count]));
        CHECK(clReleaseEvent(last));
        last = next;
    }
    CHECK(clWaitForEvents(1, &last));
    end_stage();
    CHECK(clReleaseEvent(last));
    printf("the last one has ended\n");
}

static void flushed(cl_uint rounds)
{
    cl_mem numbers[MOST];
    cl_event ends[MOST];
    for (cl_uint i = 0; i < count; i++)
        numbers[i] = buffer_of(CL_MEM_READ_WRITE, sizeof(cl_uint) * 4, NULL);
    for (cl_uint round = 0; round < rounds; round++) {
        for (cl_uint i = 0; i < count; i++) {
            ends[i] = run_put(i, numbers[i], 4, round + i);
            CHECK(clFlush(queues[i]));
        }
        CHECK(clWaitForEvents(count, ends));
        for (cl_uint i = 0; i < count; i++)
            CHECK(clReleaseEvent(ends[i]));
    }
    for (cl_uint i = 0; i < count; i++) {
        cl_uint have[4];
        CHECK(clEnqueueReadBuffer(queues[i], numbers[i], CL_TRUE, 0, sizeof have, have, 0, NULL, NULL));
        REQUIRE(rounds == 0 || have[3] == 3 * (rounds - 1 + i));
        CHECK(clReleaseMemObject(numbers[i]));
    }
}

static void pipeline(size_t size, cl_uint frames)
{
    size_t items = size / 4, results = items / 256;
    cl_mem frame[2], result[2];
    cl_event made[2] = {NULL, NULL}, filtered[2] = {NULL, NULL};
    cl_uint *got = malloc(frames * results * 4), each = 256;
    for (int i = 0; i < 2; i++) {
        frame[i] = buffer_of(CL_MEM_READ_WRITE, size, NULL);
        result[i] = buffer_of(CL_MEM_READ_WRITE, results * 4, NULL);
    }
    begin_stage("pipeline");
    double begin = seconds();
    for (cl_uint n = 0; n < frames; n++) {
        int slot = n % 2;
        cl_uint a = n + 1;
        set_arg(put, 0, sizeof frame[slot], &frame[slot]);
        set_arg(put, 1, sizeof a, &a);
        launch(queues[0], put, items, filtered[slot] ? 1 : 0, filtered[slot] ? &filtered[slot] : NULL, &made[slot]);
        CHECK(clFlush(queues[0]));
        set_arg(fold, 0, sizeof frame[slot], &frame[slot]);
        set_arg(fold, 1, sizeof result[slot], &result[slot]);
        set_arg(fold, 2, sizeof each, &each);
        if (filtered[slot])
            CHECK(clReleaseEvent(filtered[slot]));
        launch(queues[1 % count], fold, results, 1, &made[slot], &filtered[slot]);
        CHECK(clReleaseEvent(made[slot]));
        CHECK(clEnqueueReadBuffer(queues[1 % count], result[slot], CL_FALSE, 0, results * 4, got + n * results, 0, NULL, NULL));
        CHECK(clFlush(queues[1 % count]));
    }
    CHECK(clFinish(queues[1 % count]));
    double took = seconds() - begin;
    end_stage();
    for (cl_uint n = 0; n < frames; n++)
        for (cl_uint i = 0; i < results; i++) {
            cl_uint want = 0;
            for (cl_uint k = 0; k < each; k++)
                want += (i * each + k) * (n + 1);
            REQUIRE(got[n * results + i] == want);
        }
    fprintf(stderr, "%.1f frames/s\n", frames / took);
    printf("all results are right\n");
}

/* A silent link is given up ten seconds after what was last sent over it: asking again may take as long again. */
static cl_int negative(const char *what, cl_int have, double since)
{
    double took = seconds() - since;
    fprintf(stderr, "%s: %.2f s\n", what, took);
    printf("%s: %s\n", what, have < 0 ? (took < 25 ? "an error" : "an error, but LATE") : "NO ERROR");
    return have;
}

static void lost(void)
{
    enum { SIZE = 1 << 20 };
    static cl_uint x[SIZE / 4];
    REQUIRE(count >= 3);
    cl_mem at_first = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL), at_second = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL);
    cl_mem at_both = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL), sums = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL);
    cl_mem scratch = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL);
    CHECK(clReleaseEvent(run_put(0, at_first, SIZE / 4, 3)));
    CHECK(clReleaseEvent(run_put(1, at_second, SIZE / 4, 5)));
    cl_event written = run_put(0, at_both, SIZE / 4, 7);
    CHECK(clFlush(queues[0]));
    /* The second device reads it, so both have it. */
    set_arg(add, 0, sizeof at_both, &at_both);
    set_arg(add, 1, sizeof at_second, &at_second);
    set_arg(add, 2, sizeof sums, &sums);
    launch(queues[1], add, SIZE / 4, 1, &written, NULL);
    for (cl_uint i = 0; i < count; i++)
        CHECK(clFinish(queues[i]));
    /* In flight when the device goes: a kernel there that takes its time, and commands of all others that wait for it. */
    cl_uint long_time = 4000000000u;
    cl_event spinning, behind, further;
    cl_command_queue apart[3];
    for (int i = 0; i < 3; i++)
        MAKE(apart[i], clCreateCommandQueue(context, devices[i], 0, &status));
    set_arg(spin, 0, sizeof scratch, &scratch);
    set_arg(spin, 1, sizeof long_time, &long_time);
    launch(apart[1], spin, 1, 0, NULL, &spinning);
    CHECK(clFlush(apart[1]));
    launch(apart[0], nothing, 1, 1, &spinning, &behind);
    CHECK(clFlush(apart[0]));
    launch(apart[2], nothing, 1, 1, &behind, &further);
    CHECK(clFlush(apart[2]));
    printf("begin\n");
    fflush(stdout);
    double begin = seconds();
    cl_int ended = clWaitForEvents(1, &further);
    double took = seconds() - begin;
    printf("lost\n");
    fflush(stdout);
    fprintf(stderr, "noticed after %.2f s\n", took);
    negative("waiting for what waits for it", ended, begin);
    negative("its own command", status_of(spinning), begin);
    negative("what waits for it", status_of(behind), begin);
    negative("what waits for that", status_of(further), begin);
    double now = seconds();
    negative("finishing its queue", clFinish(queues[1]), now);
    set_arg(step, 0, sizeof at_second, &at_second);
    cl_uint one = 1;
    set_arg(step, 1, sizeof one, &one);
    set_arg(step, 2, sizeof one, &one);
    size_t items = SIZE / 4;
    /* What only the second device had is gone: whoever wants it gets an error, at the call or from the command. */
    cl_event orphan = NULL;
    cl_int orphaned = clEnqueueNDRangeKernel(queues[0], step, 1, NULL, &items, NULL, 0, NULL, &orphan);
    if (orphaned == CL_SUCCESS)
        orphaned = clWaitForEvents(1, &orphan);
    negative("a kernel that needs what only it had", orphaned, now);
    negative("reading what only it had",
             clEnqueueReadBuffer(queues[2], sums, CL_TRUE, 0, SIZE, x, 0, NULL, NULL), now);
    /* All else goes on. */
    cl_command_queue left[2];
    for (int i = 0; i < 2; i++)
        MAKE(left[i], clCreateCommandQueue(context, devices[i * 2], 0, &status));
    CHECK(clEnqueueReadBuffer(left[1], at_first, CL_TRUE, 0, SIZE, x, 0, NULL, NULL));
    for (cl_uint k = 0; k < SIZE / 4; k++)
        REQUIRE(x[k] == k * 3);
    CHECK(clEnqueueReadBuffer(left[1], at_both, CL_TRUE, 0, SIZE, x, 0, NULL, NULL));
    for (cl_uint k = 0; k < SIZE / 4; k++)
        REQUIRE(x[k] == k * 7);
    /* What is written whole is there again. */
    cl_event next;
    set_arg(put, 0, sizeof sums, &sums);
    set_arg(put, 1, sizeof one, &one);
    CHECK(clEnqueueWriteBuffer(left[0], sums, CL_TRUE, 0, SIZE, x, 0, NULL, NULL));
    launch(left[0], put, SIZE / 4, 0, NULL, &next);
    CHECK(clFlush(left[0]));
    CHECK(clEnqueueReadBuffer(left[1], sums, CL_TRUE, 0, SIZE, x, 1, &next, NULL));
    for (cl_uint k = 0; k < SIZE / 4; k++)
        REQUIRE(x[k] == k);
    printf("the others go on\n");
}

int main(int argc, char **argv)
{
    REQUIRE(argc >= 2);
    size_t size = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
    cl_uint rounds = argc > 3 ? (cl_uint)strtoul(argv[3], NULL, 0) : 0;
    open_all();
    if (strcmp(argv[1], "all") == 0) {
        printf("%u devices in one context\n", count);
        everywhere();
        in_turn();
        parts();
        commands();
        events();
        pictures();
        failures();
    } else if (strcmp(argv[1], "exchange") == 0) {
        exchange(size, rounds);
    } else if (strcmp(argv[1], "signals") == 0) {
        signals((cl_uint)size);
    } else if (strcmp(argv[1], "flushed") == 0) {
        flushed((cl_uint)size);
    } else if (strcmp(argv[1], "pipeline") == 0) {
        pipeline(size, rounds);
    } else {
        REQUIRE(strcmp(argv[1], "lost") == 0);
        lost();
        return 0;
    }
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseCommandQueue(queues[i]));
    cl_kernel kernels[] = {step, put, add, fold, spin, nothing};
    for (int i = 0; i < 6; i++)
        CHECK(clReleaseKernel(kernels[i]));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseContext(context));
    return 0;
}
