/* An operator's functions as built-in kernels of a custom device, in one context with an ordinary device.
 *
 * custom_functions run      native kernel -> function -> native kernel, in events, wait lists, profiling; checked word by word
 * custom_functions errors   what is refused, and how commands that fail end
 * custom_functions crash    a function that crashes */
#include "common.h"

enum { N = 100000 };

static cl_device_id custom;
static cl_command_queue ordinary_queue, custom_queue;
static char heard[1024];

static void CL_CALLBACK hear(const char *text, const void *bytes, size_t size, void *user)
{
    (void)bytes, (void)size, (void)user;
    snprintf(heard, sizeof heard, "%s", text);
}

/* What was heard last, which may come a little after the end of the command; nothing of what came before. */
static const char *told(void)
{
    static char last[sizeof heard];
    for (int i = 0; i < 5000 && heard[0] == 0; i++)
        usleep(1000);
    snprintf(last, sizeof last, "%s", heard);
    heard[0] = 0;
    return last;
}

static cl_kernel built_in(const char *name)
{
    cl_program program;
    cl_kernel kernel;
    MAKE(program, clCreateProgramWithBuiltInKernels(context, 1, &custom, name, &status));
    MAKE(kernel, clCreateKernel(program, name, &status));
    CHECK(clReleaseProgram(program));
    return kernel;
}

static void open_both(void)
{
    cl_uint count;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU, 1, &device, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, 1, &custom, &count));
    cl_device_id both[] = {device, custom};
    MAKE(context, clCreateContext(NULL, 2, both, hear, NULL, &status));
    MAKE(ordinary_queue, clCreateCommandQueue(context, device, 0, &status));
    MAKE(custom_queue, clCreateCommandQueue(context, custom, CL_QUEUE_PROFILING_ENABLE, &status));
}

static int run(void)
{
    static const char *source =
        "kernel void scramble(global uint *keys) { uint i = get_global_id(0); keys[i] = i * 2654435761u ^ i >> 3; }\n"
        "kernel void invert(global uint *keys) { keys[get_global_id(0)] ^= 0xffffffffu; }\n";
    static cl_uint keys[N], expected[N];
    cl_program program;
    cl_kernel scramble, invert, sort = built_in("lab.sort_u32");
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    CHECK(clBuildProgram(program, 1, &device, "", NULL, NULL));
    MAKE(scramble, clCreateKernel(program, "scramble", &status));
    MAKE(invert, clCreateKernel(program, "invert", &status));
    cl_mem buffer;
    MAKE(buffer, clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof keys, NULL, &status));
    cl_uint n = N;
    size_t all = N, one = 1;
    CHECK(clSetKernelArg(scramble, 0, sizeof buffer, &buffer));
    CHECK(clSetKernelArg(invert, 0, sizeof buffer, &buffer));
    CHECK(clSetKernelArg(sort, 0, sizeof buffer, &buffer));
    CHECK(clSetKernelArg(sort, 1, sizeof n, &n));
    cl_event scrambled, sorted, inverted;
    CHECK(clEnqueueNDRangeKernel(ordinary_queue, scramble, 1, NULL, &all, NULL, 0, NULL, &scrambled));
    CHECK(clEnqueueNDRangeKernel(custom_queue, sort, 1, NULL, &one, NULL, 1, &scrambled, &sorted));
    CHECK(clEnqueueNDRangeKernel(ordinary_queue, invert, 1, NULL, &all, NULL, 1, &sorted, &inverted));
    CHECK(clEnqueueReadBuffer(ordinary_queue, buffer, CL_TRUE, 0, sizeof keys, keys, 1, &inverted, NULL));
    for (cl_uint i = 0; i < N; i++)
        expected[i] = i * 2654435761u ^ i >> 3;
    for (cl_uint i = 1; i < N; i++)
        REQUIRE(~keys[i - 1] <= ~keys[i]);
    cl_ulong sum = 0, wanted = 0;
    for (cl_uint i = 0; i < N; i++)
        sum += ~keys[i], wanted += expected[i];
    REQUIRE(sum == wanted);
    cl_ulong times[4];
    for (cl_uint i = 0; i < 4; i++)
        CHECK(clGetEventProfilingInfo(sorted, CL_PROFILING_COMMAND_QUEUED + i, sizeof times[i], &times[i], NULL));
    REQUIRE(times[0] > 0 && times[0] <= times[1] && times[1] <= times[2] && times[2] < times[3]);
    cl_kernel saxpy = built_in("lab.saxpy");
    static float x[N], y[N];
    for (cl_uint i = 0; i < N; i++)
        x[i] = (float)i, y[i] = 1;
    cl_mem of_x, of_y;
    MAKE(of_x, clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof x, x, &status));
    MAKE(of_y, clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof y, y, &status));
    float a = 2;
    CHECK(clSetKernelArg(saxpy, 0, sizeof of_x, &of_x));
    CHECK(clSetKernelArg(saxpy, 1, sizeof of_y, &of_y));
    CHECK(clSetKernelArg(saxpy, 2, sizeof a, &a));
    size_t half = N / 2;
    CHECK(clEnqueueNDRangeKernel(custom_queue, saxpy, 1, NULL, &half, NULL, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(custom_queue, of_y, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL));
    for (cl_uint i = 0; i < N; i++)
        REQUIRE(y[i] == (i < half ? 2 * x[i] + 1 : 1));
    printf("sorted\n");
    return 0;
}

static cl_int end_of(cl_kernel kernel)
{
    size_t one = 1;
    cl_event event;
    cl_int end;
    CHECK(clEnqueueNDRangeKernel(custom_queue, kernel, 1, NULL, &one, NULL, 0, NULL, &event));
    clWaitForEvents(1, &event);
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof end, &end, NULL));
    CHECK(clReleaseEvent(event));
    return end;
}

static int errors(void)
{
    cl_int refused;
    clCreateProgramWithBuiltInKernels(context, 1, &custom, "lab.nothing", &refused);
    printf("no such kernel: %d\n", refused);
    clCreateProgramWithBuiltInKernels(context, 1, &device, "lab.sort_u32", &refused);
    printf("not of this device: %d\n", refused);
    cl_kernel sort = built_in("lab.sort_u32"), fails = built_in("lab.fails"), missing = built_in("lab.missing");
    cl_uint n = 5;
    cl_mem buffer;
    MAKE(buffer, clCreateBuffer(context, CL_MEM_READ_WRITE, 16, NULL, &status));
    printf("no argument of this index: %d\n", clSetKernelArg(sort, 2, sizeof n, &n));
    printf("a number of another size: %d\n", clSetKernelArg(sort, 1, 8, &(cl_ulong){5}));
    printf("a number for a buffer: %d\n", clSetKernelArg(sort, 0, sizeof n, &n));
    size_t one = 1;
    printf("arguments are missing: %d\n", clEnqueueNDRangeKernel(custom_queue, sort, 1, NULL, &one, NULL, 0, NULL, NULL));
    CHECK(clSetKernelArg(sort, 0, sizeof buffer, &buffer));
    CHECK(clSetKernelArg(sort, 1, sizeof n, &n));
    printf("on another device: %d\n", clEnqueueNDRangeKernel(ordinary_queue, sort, 1, NULL, &one, NULL, 0, NULL, NULL));
    printf("more than there are: %d\n", end_of(sort));
    printf("told: %s\n", told());
    n = 4;
    CHECK(clSetKernelArg(sort, 1, sizeof n, &n));
    printf("as many as there are: %d\n", end_of(sort));
    printf("fails: %d\n", end_of(fails));
    printf("told: %s\n", told());
    printf("the library has none: %d\n", end_of(missing));
    const char *missing_from = strrchr(told(), '/');
    printf("told: %s\n", missing_from ? missing_from : "nothing");
    printf("and on it goes: %d\n", end_of(sort));
    return 0;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    open_both();
    if (strcmp(argv[1], "run") == 0)
        return run();
    if (strcmp(argv[1], "errors") == 0)
        return errors();
    printf("crashed: %d\n", end_of(built_in("lab.crashes")));
    return 0;
}
