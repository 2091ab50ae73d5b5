/* Moves data all the time, until it reads a line or a call fails. Meanwhile this program, or a server, is stopped and goes on.
 *
 * stopped write          from the program to the first device
 * stopped read           from the first device to the program
 * stopped between        from one of two devices to the other, and back
 *
 * Prints "ready" when data has been there and back; at the end "right", or which call failed. */
#include "common.h"
#include <poll.h>

static const char *SOURCE = "__kernel void put(__global uint *x, uint a) { x[get_global_id(0)] = get_global_id(0) * 3 + a; }\n"
                            "__kernel void add(__global uint *x, uint a) { x[get_global_id(0)] += a; }\n";

enum { COUNT = 8 << 20, SIZE = COUNT * 4 };

static cl_command_queue queues[2];
static cl_kernel put, add;
static cl_mem buffer;
static cl_uint *memory;

/* Leaves the program unless the call has succeeded. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cl_int error = (call);                                                                                         \
        if (error != CL_SUCCESS) {                                                                                     \
            printf("ended with %d\n", error);                                                                          \
            exit(0);                                                                                                   \
        }                                                                                                              \
    } while (0)

static void expect(cl_uint a)
{
    for (cl_uint i = 0; i < COUNT; i++)
        REQUIRE(memory[i] == i * 3 + a);
}

static void run(int on, cl_kernel kernel, size_t items, cl_uint a)
{
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof a, &a);
    TRY(clEnqueueNDRangeKernel(queues[on], kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
}

static void read_all(int on)
{
    TRY(clEnqueueReadBuffer(queues[on], buffer, CL_TRUE, 0, SIZE, memory, 0, NULL, NULL));
}

static void once(const char *mode, cl_uint turn)
{
    if (strcmp(mode, "write") == 0) {
        for (cl_uint i = 0; i < COUNT; i++)
            memory[i] = i * 3 + turn;
        TRY(clEnqueueWriteBuffer(queues[0], buffer, CL_TRUE, 0, SIZE, memory, 0, NULL, NULL));
        cl_uint parts[2];
        TRY(clEnqueueReadBuffer(queues[0], buffer, CL_TRUE, 0, 4, &parts[0], 0, NULL, NULL));
        TRY(clEnqueueReadBuffer(queues[0], buffer, CL_TRUE, SIZE - 4, 4, &parts[1], 0, NULL, NULL));
        REQUIRE(parts[0] == turn && parts[1] == (COUNT - 1) * 3 + turn);
    } else if (strcmp(mode, "read") == 0) {
        run(0, put, COUNT, turn);
        read_all(0);
        expect(turn);
    } else {
        REQUIRE(strcmp(mode, "between") == 0);
        run(0, put, COUNT, turn);
        TRY(clFinish(queues[0]));
        for (int i = 0; i < 8; i++) {
            /* All of it moves, whatever the kernel uses of it. */
            run(1 - i % 2, add, 1, 1);
            TRY(clFinish(queues[1 - i % 2]));
        }
        cl_uint part;
        TRY(clEnqueueReadBuffer(queues[0], buffer, CL_TRUE, 0, 4, &part, 0, NULL, NULL));
        REQUIRE(part == turn + 8);
    }
}

static int is_told(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    int between = strcmp(argv[1], "between") == 0;
    cl_device_id devices[2];
    cl_program program;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, between ? 2 : 1, devices, NULL));
    MAKE(context, clCreateContext(NULL, between ? 2 : 1, devices, NULL, NULL, &status));
    for (int i = 0; i <= between; i++)
        MAKE(queues[i], clCreateCommandQueue(context, devices[i], 0, &status));
    MAKE(program, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    put = kernel_of(program, "put");
    add = kernel_of(program, "add");
    buffer = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL);
    memory = malloc(SIZE);
    REQUIRE(memory);

    once(argv[1], 0);
    printf("ready\n");
    fflush(stdout);
    cl_uint turn = 1;
    for (; !is_told(); turn++)
        once(argv[1], turn);
    once(argv[1], turn);
    printf("right\n");
    return 0;
}
