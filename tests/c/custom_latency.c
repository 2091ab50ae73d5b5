/* How long a chunk of 4 KiB takes from its arrival at a stream source to the end of a kernel on another server that uses it; beside what no
 * such system can do without. Everything is measured from rest: nothing has happened for two milliseconds before.
 *
 * custom_latency chunk FIFO ROUNDS   the stream's source reads FIFO, which this program writes to; the kernel runs on the last ordinary device
 * custom_latency kernel ROUNDS       the same kernel alone
 * custom_latency trip ROUNDS         4 bytes to another process and back over TCP on loopback
 *
 * Prints the median, and the first and the last tenth, in microseconds. */
#include "common.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { CHUNK = 4096, REST = 2000 };

static const char *source = "kernel void ends(global const uchar *x, global uint *y) { y[0] = x[0] + x[4095]; }";

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int tell(double *times, int rounds)
{
    qsort(times, (size_t)rounds, sizeof *times, ascending);
    printf("%.1f %.1f %.1f\n", times[rounds / 2], times[rounds / 10], times[rounds * 9 / 10]);
    return 0;
}

static cl_kernel kernel_on(cl_device_id on, const char *name, int built_in)
{
    cl_program program;
    cl_kernel kernel;
    if (built_in) {
        MAKE(program, clCreateProgramWithBuiltInKernels(context, 1, &on, name, &status));
    } else {
        MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
        CHECK(clBuildProgram(program, 1, &on, "", NULL, NULL));
    }
    MAKE(kernel, clCreateKernel(program, name, &status));
    CHECK(clReleaseProgram(program));
    return kernel;
}

static int kernels(const char *fifo, int rounds, double *times)
{
    cl_device_id devices[2], ordinary[16];
    cl_uint count;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 16, ordinary, &count));
    devices[0] = ordinary[count - 1];
    if (fifo != NULL)
        CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, 1, &devices[1], NULL));
    MAKE(context, clCreateContext(NULL, fifo ? 2 : 1, devices, NULL, NULL, &status));
    cl_command_queue queue, stream = NULL;
    cl_kernel ends = kernel_on(devices[0], "ends", 0), next = NULL;
    MAKE(queue, clCreateCommandQueue(context, devices[0], 0, &status));
    cl_mem chunk, about, result;
    MAKE(chunk, clCreateBuffer(context, CL_MEM_READ_WRITE, CHUNK, NULL, &status));
    MAKE(about, clCreateBuffer(context, CL_MEM_READ_WRITE, 32, NULL, &status));
    MAKE(result, clCreateBuffer(context, CL_MEM_READ_WRITE, 4, NULL, &status));
    CHECK(clSetKernelArg(ends, 0, sizeof chunk, &chunk));
    CHECK(clSetKernelArg(ends, 1, sizeof result, &result));
    if (fifo != NULL) {
        next = kernel_on(devices[1], "ropeway.stream.next", 1);
        MAKE(stream, clCreateCommandQueue(context, devices[1], 0, &status));
        CHECK(clSetKernelArg(next, 0, sizeof chunk, &chunk));
        CHECK(clSetKernelArg(next, 1, sizeof about, &about));
    }
    static unsigned char bytes[CHUNK];
    const size_t one = 1;
    int file = -1;
    for (int i = 0; i < rounds; i++) {
        cl_event came, ended;
        cl_uint got;
        double begin;
        bytes[0] = (unsigned char)i;
        if (fifo != NULL) {
            CHECK(clEnqueueNDRangeKernel(stream, next, 1, NULL, &one, NULL, 0, NULL, &came));
            CHECK(clEnqueueNDRangeKernel(queue, ends, 1, NULL, &one, NULL, 1, &came, &ended));
            CHECK(clFlush(stream));
            CHECK(clFlush(queue));
            /* The other end is there once the stream has been asked for. */
            if (file < 0)
                file = open(fifo, O_WRONLY);
            usleep(REST);
            begin = now();
            REQUIRE(write(file, bytes, CHUNK) == CHUNK);
        } else {
            CHECK(clEnqueueWriteBuffer(queue, chunk, CL_TRUE, 0, CHUNK, bytes, 0, NULL, NULL));
            usleep(REST);
            begin = now();
            CHECK(clEnqueueNDRangeKernel(queue, ends, 1, NULL, &one, NULL, 0, NULL, &ended));
        }
        CHECK(clWaitForEvents(1, &ended));
        times[i] = now() - begin;
        CHECK(clEnqueueReadBuffer(queue, result, CL_TRUE, 0, sizeof got, &got, 0, NULL, NULL));
        REQUIRE(got == bytes[0]);
        CHECK(clReleaseEvent(ended));
        if (fifo != NULL)
            CHECK(clReleaseEvent(came));
    }
    return tell(times, rounds);
}

static int trips(int rounds, double *times)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    char bytes[4] = {0};
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(bind(listener, (struct sockaddr *)&at, length) == 0 && listen(listener, 1) == 0);
    REQUIRE(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(near);
        int far = accept(listener, NULL, NULL);
        setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        while (read(far, bytes, sizeof bytes) == sizeof bytes && write(far, bytes, sizeof bytes) == sizeof bytes)
            ;
        _exit(0);
    }
    REQUIRE(connect(near, (struct sockaddr *)&at, length) == 0);
    setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    for (int i = 0; i < rounds; i++) {
        usleep(REST);
        double begin = now();
        REQUIRE(write(near, bytes, sizeof bytes) == sizeof bytes && read(near, bytes, sizeof bytes) == sizeof bytes);
        times[i] = now() - begin;
    }
    close(near);
    waitpid(child, NULL, 0);
    return tell(times, rounds);
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 2);
    int rounds = atoi(argv[argc - 1]);
    REQUIRE(rounds > 0);
    double *times = malloc((size_t)rounds * sizeof *times);
    if (strcmp(argv[1], "trip") == 0)
        return trips(rounds, times);
    return kernels(strcmp(argv[1], "chunk") == 0 ? argv[2] : NULL, rounds, times);
}
