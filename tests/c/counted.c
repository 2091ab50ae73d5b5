/* Programs whose round trips are counted: "enqueues" makes 1,000 of them, "build" builds a source, "idle" does nothing. */
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

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    open_device();
    if (strcmp(argv[1], "enqueues") == 0)
        enqueues();
    else if (strcmp(argv[1], "build") == 0) {
        /* Long enough for its bytes to stand out among those of the messages. */
        static char source[100000];
        strcpy(source, SOURCE);
        memset(source + strlen(SOURCE), ' ', sizeof source - strlen(SOURCE) - 1);
        CHECK(clReleaseProgram(build(source, NULL)));
    } else
        REQUIRE(strcmp(argv[1], "idle") == 0);
    CHECK(clReleaseContext(context));
    return 0;
}
