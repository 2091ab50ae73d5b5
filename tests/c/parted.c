/* Three devices of one context, of which the servers of the first two reach each other no more, or never have: it lasts, and what was on its
 * way may be lost, but then all goes on.
 *
 * parted SIZE N   a buffer of SIZE bytes goes N times from the first device to the second and back, measured */
#include "stages.h"
#include "residency.h"

/* Writes on the first device what the second changes, and the third waits for; how that ends. */
static cl_int try_once(cl_mem x, cl_uint a, size_t items)
{
    cl_event list[3];
    /* The first one needs nobody. */
    CHECK(clEnqueueMigrateMemObjects(queues[0], 1, &x, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL));
    list[0] = run(0, put, x, a, items, 0, NULL);
    list[1] = run(1, add, x, 1, items, 1, &list[0]);
    CHECK(clEnqueueMarkerWithWaitList(queues[2], 1, &list[1], &list[2]));
    for (cl_uint i = 0; i < 3; i++)
        clFlush(queues[i]);
    cl_int ended = clWaitForEvents(1, &list[2]), own;
    CHECK(clGetEventInfo(list[1], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof own, &own, NULL));
    REQUIRE(own == CL_COMPLETE || own < 0);
    REQUIRE((own == CL_COMPLETE) == (ended == CL_SUCCESS));
    CHECK(clWaitForEvents(1, &list[0]));
    for (int i = 0; i < 3; i++)
        CHECK(clReleaseEvent(list[i]));
    return ended;
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 2);
    size_t size = strtoull(argv[1], NULL, 10), items = size / 4;
    cl_uint rounds = (cl_uint)strtoul(argv[2], NULL, 10), turn = 3;
    cl_uint *got = malloc(size);
    open_all();
    REQUIRE(count == 3);
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    CHECK(try_once(x, 3, items));
    printf("before: right\n");
    stage("part");
    while (try_once(x, ++turn, items) != CL_SUCCESS)
        REQUIRE(turn < 200);
    fprintf(stderr, "after %u errors\n", turn - 4);
    read_back(2, x, got, size);
    for (size_t i = 0; i < items; i++)
        REQUIRE(got[i] == i * turn + 2);
    printf("after: right\n");
    cl_event last = run(0, put, x, 5, items, 0, NULL);
    CHECK(clFinish(queues[0]));
    begin_stage("to and fro");
    for (cl_uint i = 0; i < rounds; i++) {
        cl_event next = run((i + 1) % 2, add, x, 7, items, 1, &last);
        CHECK(clReleaseEvent(last));
        last = next;
    }
    CHECK(clWaitForEvents(1, &last));
    end_stage();
    read_back(rounds, x, got, size);
    for (size_t i = 0; i < items; i++)
        REQUIRE(got[i] == i * 5 + 1 + 7 * rounds);
    /* The third one reaches both, and has it, too. */
    CHECK(clFinish(queues[rounds % 2]));
    cl_mem y = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    CHECK(clReleaseEvent(run(0, put, y, 9, items, 0, NULL)));
    CHECK(clFinish(queues[0]));
    CHECK(clEnqueueMigrateMemObjects(queues[2], 1, &y, 0, 0, NULL, NULL));
    CHECK(clFinish(queues[2]));
    begin_stage("from the third");
    CHECK(clEnqueueMigrateMemObjects(queues[1], 1, &y, 0, 0, NULL, NULL));
    CHECK(clFinish(queues[1]));
    end_stage();
    read_back(1, y, got, size);
    for (size_t i = 0; i < items; i++)
        REQUIRE(got[i] == i * 9 + 1);
    CHECK(clReleaseMemObject(y));
    printf("all right\n");
    CHECK(clReleaseEvent(last));
    CHECK(clReleaseMemObject(x));
    free(got);
    close_all();
    return 0;
}
