/* How long a chunk of a stream takes to a kernel, and what that is compared with; prints the median in microseconds:
 *
 * Each comes after a pause of 3 ms, as chunks do: threads that have slept are slower to wake.
 *
 * edge_chunk raw         the round trip of a byte between two processes over TCP, loopback
 * edge_chunk kernel      a launch and clFinish of a small kernel on the first device
 * edge_chunk here FIFO   from the moment that a chunk of 4 KiB is written into a stream's FIFO to the end of ropeway.stream.next at clWaitForEvents
 * edge_chunk there FIFO  the same to the end of the kernel on another server, which reads the chunk, at clWaitForEvents
 * edge_chunk end FIFO    the same to that kernel's end as its device's clock has it, which the client has compared with its own */
#include "common.h"
#include <CL/cl_ext_ropeway.h>
#include <CL/cl_ropeway_custom_devices.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 500, CHUNK = 4096, PAUSE = 3000 };

static const char *const KERNEL = "__kernel void touch(__global const uchar *chunk, __global uint *sum) { *sum += chunk[0] + chunk[4095]; }";

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void say_median(double *times)
{
    qsort(times, ROUNDS, sizeof *times, by_value);
    printf("%.1f\n", times[ROUNDS / 2] * 1e6);
}

static int raw(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    REQUIRE(bind(listener, (struct sockaddr *)&at, size) == 0 && listen(listener, 1) == 0);
    REQUIRE(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    pid_t echo = fork();
    if (echo == 0) {
        int peer = accept(listener, NULL, NULL);
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        for (char byte; read(peer, &byte, 1) == 1;)
            REQUIRE(write(peer, &byte, 1) == 1);
        _exit(0);
    }
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(connect(peer, (struct sockaddr *)&at, size) == 0);
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    static double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        char byte = 1;
        usleep(PAUSE);
        double begin = seconds();
        REQUIRE(write(peer, &byte, 1) == 1 && read(peer, &byte, 1) == 1);
        times[i] = seconds() - begin;
    }
    close(peer);
    waitpid(echo, NULL, 0);
    say_median(times);
    return 0;
}

static cl_server_ropeway server_of(cl_device_id device)
{
    cl_server_ropeway server;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_SERVER_ROPEWAY, sizeof server, &server, NULL));
    return server;
}

static cl_device_id custom_device(const char *kernel)
{
    cl_device_id found[MOST_DEVICES];
    cl_uint count = 0;
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, MOST_DEVICES, found, &count));
    for (cl_uint i = 0; i < count; i++) {
        char kernels[65536] = "";
        CHECK(clGetDeviceInfo(found[i], CL_DEVICE_BUILT_IN_KERNELS, sizeof kernels, kernels, NULL));
        if (strstr(kernels, kernel) != NULL)
            return found[i];
    }
    fprintf(stderr, "no device has the kernel %s\n", kernel);
    exit(1);
}

static cl_command_queue queue_of(cl_device_id device, cl_command_queue_properties properties)
{
    cl_int error;
    cl_command_queue queue = clCreateCommandQueue(context, device, properties, &error);
    CHECK(error);
    return queue;
}

static cl_kernel built_in(cl_device_id device, const char *name)
{
    cl_int error;
    cl_program program = clCreateProgramWithBuiltInKernels(context, 1, &device, name, &error);
    CHECK(error);
    return kernel_of(program, name);
}

/* What is looked at: the chunk's own command, that of the kernel that waits for it, or the end of the kernel at its device. */
enum what { HERE, THERE, END };

/* When a kernel has ended, by its device's clock. */
static double end_of(cl_event event)
{
    cl_ulong end;
    CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
    return (double)end * 1e-9;
}

/* What to add to a time of the device's, in seconds, to have one of seconds(); rather too much than too little: a kernel has ended before the
 * client knows that, and the shortest of many such times counts as none. */
static double clock_behind(cl_command_queue queue, cl_kernel kernel)
{
    double behind = 1e18;
    for (int i = 0; i < 1000; i++) {
        size_t one = 1;
        cl_event event;
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, &event));
        CHECK(clWaitForEvents(1, &event));
        double known = seconds() - end_of(event);
        if (known < behind)
            behind = known;
        CHECK(clReleaseEvent(event));
    }
    return behind;
}

/* With a FIFO, the kernel waits for the stream's chunk. */
static int times_of(const char *fifo, enum what what)
{
    static double times[ROUNDS];
    cl_int error;
    cl_uint zero = 0;
    size_t one = 1;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST_DEVICES, devices, &device_count));
    cl_device_id source = NULL, all[2] = {devices[0]};
    if (fifo != NULL) {
        source = all[1] = custom_device("ropeway.stream.next");
        for (cl_uint i = 0; i < device_count && server_of(all[0]) == server_of(source); i++)
            all[0] = devices[i];
        REQUIRE(server_of(all[0]) != server_of(source));
    }
    context = clCreateContext(NULL, fifo == NULL ? 1 : 2, all, NULL, NULL, &error);
    CHECK(error);
    devices[0] = all[0];
    device_count = 1;
    cl_kernel kernel = kernel_of(build(KERNEL), "touch"), next = fifo == NULL ? NULL : built_in(source, "ropeway.stream.next");
    cl_command_queue queue = queue_of(all[0], what == END ? CL_QUEUE_PROFILING_ENABLE : 0);
    cl_command_queue stream = fifo == NULL ? NULL : queue_of(source, 0);
    static unsigned char bytes[CHUNK];
    cl_mem chunk = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, CHUNK, bytes), sum = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero, &zero);
    set_buffer(kernel, 0, chunk);
    set_buffer(kernel, 1, sum);
    double behind = what == END ? clock_behind(queue, kernel) : 0;
    int feed = -1;
    if (fifo != NULL) {
        set_buffer(next, 0, chunk);
        set_buffer(next, 1, buffer_of(CL_MEM_READ_WRITE, sizeof(cl_chunk_ropeway), NULL));
        feed = open(fifo, O_RDWR);
        REQUIRE(feed >= 0);
    }
    for (int i = -20; i < ROUNDS; i++) {
        cl_event came, ended;
        if (fifo == NULL)
            usleep(PAUSE);
        double begin = seconds();
        if (fifo != NULL) {
            CHECK(clEnqueueNDRangeKernel(stream, next, 1, NULL, &one, NULL, 0, NULL, &came));
            CHECK(clFlush(stream));
        }
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, fifo != NULL, fifo == NULL ? NULL : &came, &ended));
        if (fifo != NULL) {
            CHECK(clFlush(queue));
            /* Both commands have long come to their servers when the chunk does. */
            usleep(PAUSE);
            memset(bytes, i & 0xff, sizeof bytes);
            begin = seconds();
            REQUIRE(write(feed, bytes, CHUNK) == CHUNK);
            CHECK(clWaitForEvents(1, what == HERE ? &came : &ended));
        } else {
            CHECK(clFinish(queue));
        }
        double end = what == END ? end_of(ended) + behind : seconds();
        if (i >= 0)
            times[i] = end - begin;
        if (fifo != NULL)
            CHECK(clReleaseEvent(came));
        CHECK(clFinish(queue));
        CHECK(clReleaseEvent(ended));
    }
    cl_uint found, expected = 0;
    CHECK(clEnqueueReadBuffer(queue, sum, CL_TRUE, 0, sizeof found, &found, 0, NULL, NULL));
    for (int i = -20; fifo != NULL && i < ROUNDS; i++)
        expected += 2 * (cl_uint)(i & 0xff);
    REQUIRE(found == expected);
    say_median(times);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "raw") == 0)
        return raw();
    if (argc == 2 && strcmp(argv[1], "kernel") == 0)
        return times_of(NULL, HERE);
    if (argc == 3 && strcmp(argv[1], "here") == 0)
        return times_of(argv[2], HERE);
    if (argc == 3 && strcmp(argv[1], "there") == 0)
        return times_of(argv[2], THERE);
    if (argc == 3 && strcmp(argv[1], "end") == 0)
        return times_of(argv[2], END);
    fprintf(stderr, "usage: %s raw | kernel | here FIFO | there FIFO | end FIFO\n", argv[0]);
    return 2;
}
