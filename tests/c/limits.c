/* Runs into a limit of the client's ticket, which argv[1] names: says what its calls return, and goes on below the limit.
 * "share" holds as many buffers as it gets, argv[2] of argv[3] bytes at most, until there is a line on standard input. */
#include "common.h"

enum { MOST = 10000 };

static const char *const SOURCE =
    "__kernel void next(__global int *x) { x[0] += 1; }\n"
    "__kernel void endless(volatile __global int *x) { while (x[1] == 0) x[0] += 1; }\n";

/* Makes buffers until one of them cannot be filled, or there are as many as asked for; prints how many could be. */
static void fill_buffers(cl_command_queue queue, int most, size_t size, int holds)
{
    static cl_mem all[MOST];
    const cl_uchar pattern = 7;
    int made = 0;
    cl_int outcome = CL_SUCCESS;
    while (made < most && outcome == CL_SUCCESS) {
        cl_int code;
        all[made] = clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &code);
        outcome = code;
        if (code != CL_SUCCESS)
            break;
        outcome = clEnqueueFillBuffer(queue, all[made], &pattern, 1, 0, size, 0, NULL, NULL);
        if (outcome == CL_SUCCESS)
            outcome = clFinish(queue);
        made++;
    }
    printf("%d buffers, then %d\n", outcome == CL_SUCCESS ? made : made - 1, outcome);
    fflush(stdout);
    char line[16];
    if (holds)
        REQUIRE(fgets(line, sizeof line, stdin));
    for (int i = 0; i < made; i++)
        CHECK(clReleaseMemObject(all[i]));
    CHECK(clFinish(queue));
    if (holds) {
        printf("released\n");
        fflush(stdout);
        REQUIRE(fgets(line, sizeof line, stdin));
    }
}

/* Keeps the events of kernels until one of them fails; prints how many did not. */
static void keep_events(cl_command_queue queue, cl_kernel kernel)
{
    static cl_event all[MOST];
    int made = 0;
    cl_int outcome = CL_SUCCESS;
    while (made < MOST && outcome == CL_SUCCESS) {
        launch(queue, kernel, 1, 0, NULL, &all[made]);
        clWaitForEvents(1, &all[made]);
        outcome = status_of(all[made]);
        made++;
    }
    printf("%d events, then %d\n", made - 1, outcome);
    for (int i = 0; i < made; i++)
        CHECK(clReleaseEvent(all[i]));
}

/* Makes kernels until one of them cannot be launched; with those there is no room for anything else. */
static void make_others(cl_command_queue first, cl_program program, cl_mem buffer)
{
    static cl_kernel all[MOST];
    int made = 0;
    cl_int outcome = CL_SUCCESS;
    while (made < MOST && outcome == CL_SUCCESS) {
        all[made] = kernel_of(program, "next");
        set_arg(all[made], 0, sizeof buffer, &buffer);
        launch(first, all[made], 1, 0, NULL, NULL);
        outcome = clFinish(first);
        made++;
    }
    printf("%d kernels, then %d\n", made - 1, outcome);
    cl_program another;
    MAKE(another, clCreateProgramWithSource(context, 1, (const char *[]){SOURCE}, NULL, &status));
    printf("a program: %d\n", clBuildProgram(another, 1, &device, "", NULL, NULL));
    CHECK(clReleaseProgram(another));
    cl_command_queue queue = open_queue(0);
    printf("a queue: %d\n", clFinish(queue));
    CHECK(clReleaseCommandQueue(queue));
    cl_int code;
    cl_context other = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_command_queue of_other = other ? clCreateCommandQueue(other, device, 0, &code) : NULL;
    printf("a context: %d\n", of_other ? clFinish(of_other) : code);
    if (of_other)
        CHECK(clReleaseCommandQueue(of_other));
    if (other)
        CHECK(clReleaseContext(other));
    cl_event user = clCreateUserEvent(context, &code);
    if (user)
        clEnqueueMarkerWithWaitList(first, 1, &user, NULL);
    printf("a user event: %d\n", user ? clFinish(first) : code);
    if (user)
        CHECK(clReleaseEvent(user));
    void *svm = clSVMAlloc(context, CL_MEM_READ_WRITE, 64, 0);
    printf("shared virtual memory: %s\n", svm ? "some" : "none");
    const cl_image_format format = {CL_RGBA, CL_UNORM_INT8};
    const cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 4, .image_height = 4};
    cl_mem image = clCreateImage(context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
    if (image) {
        const size_t origin[3] = {0}, region[3] = {4, 4, 1};
        code = clEnqueueFillImage(first, image, (const cl_float[4]){0}, origin, region, 0, NULL, NULL);
        code = code == CL_SUCCESS ? clFinish(first) : code;
        CHECK(clReleaseMemObject(image));
    }
    printf("an image: %d\n", code);
    for (int i = 0; i < made; i++)
        CHECK(clReleaseKernel(all[i]));
}

/* The source's macro stands for 2^40 numbers, which the preprocessor adds. */
static cl_int build_for_ever(void)
{
    static char source[8192];
    char *at = source + sprintf(source, "#define A0 1\n");
    for (int i = 1; i <= 40; i++)
        at += sprintf(at, "#define A%d A%d + A%d\n", i, i - 1, i - 1);
    sprintf(at, "#if A40\n#endif\n__kernel void nothing(void) {}\n");
    const char *text = source;
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &text, NULL, &status));
    return clBuildProgram(program, 1, &device, "", NULL, NULL);
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    open_device();
    cl_command_queue queue = open_queue(0);
    cl_program program = build(SOURCE, NULL);
    cl_kernel next = kernel_of(program, "next"), endless = kernel_of(program, "endless");
    int x[2] = {0, 0};
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, x);
    set_arg(next, 0, sizeof buffer, &buffer);
    set_arg(endless, 0, sizeof buffer, &buffer);
    launch(queue, next, 1, 0, NULL, NULL);
    CHECK(clFinish(queue));
    printf("ready\n");
    fflush(stdout);
    if (strcmp(argv[1], "objects") == 0) {
        fill_buffers(queue, MOST, 64, 0);
        keep_events(queue, next);
        make_others(queue, program, buffer);
    } else if (strcmp(argv[1], "memory") == 0) {
        fill_buffers(queue, MOST, 1 << 20, 0);
    } else if (strcmp(argv[1], "share") == 0) {
        REQUIRE(argc > 3);
        fill_buffers(queue, atoi(argv[2]), (size_t)atoi(argv[3]), 1);
    } else if (strcmp(argv[1], "kernel") == 0) {
        launch(queue, endless, 1, 0, NULL, NULL);
        printf("endless: %d\n", clFinish(queue));
    } else if (strcmp(argv[1], "brief") == 0) {
        /* Many kernels, each brief, and one that waits for the program: together longer than one may run. */
        cl_event user;
        MAKE(user, clCreateUserEvent(context, &status));
        launch(queue, next, 1, 1, &user, NULL);
        CHECK(clFlush(queue));
        sleep(5);
        CHECK(clSetUserEventStatus(user, CL_COMPLETE));
        CHECK(clFinish(queue));
        double end = seconds() + 5;
        while (seconds() < end) {
            for (int i = 0; i < 100; i++)
                launch(queue, next, 1, 0, NULL, NULL);
            CHECK(clFinish(queue));
        }
    } else if (strcmp(argv[1], "build") == 0) {
        printf("build: %d\n", build_for_ever());
    }
    fflush(stdout);
    /* Whoever has not lost the server goes on. */
    cl_int after = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL);
    printf("after it: %d\n", after);
    return 0;
}
