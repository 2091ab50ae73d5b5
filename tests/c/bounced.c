/* A buffer goes to and fro between the first two devices of one context.
 *
 * bounced SIZE N   N times, measured; then says that its contents are right
 * bounced SIZE 0   until a call fails, which it says, and waits; prints "ready" when it has begun */
#include "stages.h"
#include "residency.h"

static cl_mem x;
static size_t items;

/* The buffer is at the other device, and has changed there. */
static cl_int hop(cl_uint number)
{
    cl_command_queue queue = queues[number % 2];
    cl_int error = clEnqueueNDRangeKernel(queue, add, 1, NULL, &items, NULL, 0, NULL, NULL);
    return error != CL_SUCCESS ? error : clFinish(queue);
}

static void until_it_ends(void)
{
    double deadline = seconds() + 30;
    cl_int error = CL_SUCCESS;
    char line[64];
    printf("ready\n");
    fflush(stdout);
    for (cl_uint number = 0; error == CL_SUCCESS && seconds() < deadline; number++)
        error = hop(number);
    snprintf(line, sizeof line, "ended with %d", error);
    stage(line);
    REQUIRE(error < 0);
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 2);
    size_t size = strtoull(argv[1], NULL, 10);
    cl_uint hops = (cl_uint)strtoul(argv[2], NULL, 10), one = 1;
    open_all();
    REQUIRE(count >= 2);
    items = size / 4;
    x = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    CHECK(clReleaseEvent(run(0, put, x, 1, items, 0, NULL)));
    set_arg(add, 0, sizeof x, &x);
    set_arg(add, 1, sizeof one, &one);
    /* There and back: the connections are made. */
    CHECK(hop(1));
    CHECK(hop(2));
    if (hops == 0) {
        until_it_ends();
        return 0;
    }
    begin_stage("to and fro");
    for (cl_uint number = 1; number <= hops; number++)
        CHECK(hop(number));
    end_stage();
    cl_uint *got = malloc(size);
    read_back(hops, x, got, size);
    for (size_t i = 0; i < items; i++)
        REQUIRE(got[i] == i + 1 + 2 + hops);
    printf("right\n");
    free(got);
    CHECK(clReleaseMemObject(x));
    close_all();
    return 0;
}
