/* Uses a device until it goes away, then says what the calls returned and how long each took.
 *
 * interrupted MODE: prints "ready" when it has begun; ends with 0 if every call after the end failed in time. */
#include "common.h"

static const char *SOURCE = "__kernel void spin(__global volatile int *x, int n) {\n"
                            "    for (int i = 0; i < n; i++) x[0] += i;\n"
                            "}\n";

static cl_command_queue queue;
static cl_kernel kernel;
static cl_mem buffer;
static cl_event gate;
static char *memory, *svm;

enum { SIZE = 32 << 20 };

/* One call that waits for the device. */
static cl_int wait_once(const char *mode)
{
    if (strcmp(mode, "finish") == 0) {
        size_t one = 1;
        cl_int enqueued = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
        return enqueued != CL_SUCCESS ? enqueued : clFinish(queue);
    }
    if (strcmp(mode, "read") == 0)
        return clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, SIZE, memory, 0, NULL, NULL);
    if (strcmp(mode, "write") == 0)
        return clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, SIZE, memory, 0, NULL, NULL);
    if (strcmp(mode, "map") == 0 || strcmp(mode, "remap") == 0) {
        /* What is only read comes once, and each map of it after that moves nothing. */
        cl_map_flags flags = strcmp(mode, "map") == 0 ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_READ;
        cl_int error;
        void *mapped = clEnqueueMapBuffer(queue, buffer, CL_TRUE, flags, 0, SIZE, 0, NULL, NULL, &error);
        return error != CL_SUCCESS ? error : clEnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL);
    }
    if (strcmp(mode, "svm") == 0) {
        cl_int error = clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, svm, SIZE, 0, NULL, NULL);
        if (error != CL_SUCCESS)
            return error;
        for (int i = 0; i < SIZE; i += 4096)
            svm[i]++;
        return clEnqueueSVMUnmap(queue, svm, 0, NULL, NULL);
    }
    if (strcmp(mode, "build") == 0) {
        static int number;
        char options[64];
        cl_int error;
        cl_program program = clCreateProgramWithSource(context, 1, &SOURCE, NULL, &error);
        if (error != CL_SUCCESS)
            return error;
        snprintf(options, sizeof options, "-DNUMBER=%d", number++);
        error = clBuildProgram(program, 1, &device, options, NULL, NULL);
        clReleaseProgram(program);
        return error;
    }
    /* "events": a wait that would last for ever, as nobody sets the user event. */
    REQUIRE(strcmp(mode, "events") == 0);
    cl_event event;
    cl_int error = clEnqueueMarkerWithWaitList(queue, 1, &gate, &event);
    if (error == CL_SUCCESS) {
        error = clWaitForEvents(1, &event);
        clReleaseEvent(event);
    }
    return error;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    open_device();
    queue = open_queue(0);
    cl_program program = build(SOURCE, NULL);
    kernel = kernel_of(program, "spin");
    buffer = buffer_of(CL_MEM_READ_WRITE, SIZE, NULL);
    memory = calloc(SIZE, 1);
    if (strcmp(argv[1], "svm") == 0) {
        svm = clSVMAlloc(context, CL_MEM_READ_WRITE, SIZE, 0);
        REQUIRE(svm != NULL);
    }
    MAKE(gate, clCreateUserEvent(context, &status));
    int n = 1000;
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof n, &n);
    CHECK(clFinish(queue));
    printf("ready\n");
    fflush(stdout);

    double deadline = seconds() + 30;
    cl_int error = CL_SUCCESS;
    while (error == CL_SUCCESS && seconds() < deadline)
        error = wait_once(argv[1]);
    printf("ended with %d\n", error);
    fflush(stdout);
    REQUIRE(error < 0);

    /* From now on every call that needs the device fails at once; what only frees things does not. */
    double begin = seconds();
    printf("finish %d\n", clFinish(queue) < 0);
    printf("read %d\n", clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, memory, 0, NULL, NULL) < 0);
    clReleaseEvent(gate);
    clReleaseMemObject(buffer);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    printf("at once %d\n", seconds() - begin < 0.5);
    return 0;
}
