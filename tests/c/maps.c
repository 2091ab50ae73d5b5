/* Several maps of one object at a time, maps of parts, what is kept and what is not, and the application's own memory. */
#include "common.h"

enum { N = 300000 };

static cl_uint maps_of(cl_mem memory)
{
    cl_uint count;
    CHECK(clGetMemObjectInfo(memory, CL_MEM_MAP_COUNT, sizeof count, &count, NULL));
    return count;
}

static void *map(cl_command_queue queue, cl_mem memory, cl_bool blocking, cl_map_flags flags, size_t offset, size_t size,
                 cl_event *event)
{
    void *pointer;
    MAKE(pointer, clEnqueueMapBuffer(queue, memory, blocking, flags, offset, size, 0, NULL, event, &status));
    return pointer;
}

static void unmap(cl_command_queue queue, cl_mem memory, void *pointer)
{
    CHECK(clEnqueueUnmapMemObject(queue, memory, pointer, 0, NULL, NULL));
}

static void several(cl_command_queue queue)
{
    static int host[N], back[N];
    for (int i = 0; i < N; i++)
        host[i] = 3 * i;
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof host, host);
    /* Overlapping maps for reading. */
    int *all = map(queue, buffer, CL_TRUE, CL_MAP_READ, 0, sizeof host, NULL);
    int *middle = map(queue, buffer, CL_TRUE, CL_MAP_READ, 1000 * sizeof(int), 5000 * sizeof(int), NULL);
    int *again = map(queue, buffer, CL_TRUE, CL_MAP_READ, 1000 * sizeof(int), 100 * sizeof(int), NULL);
    cl_uint three = maps_of(buffer);
    REQUIRE(middle == all + 1000 && again == middle);
    REQUIRE(memcmp(all, host, sizeof host) == 0);
    unmap(queue, buffer, middle);
    unmap(queue, buffer, all);
    CHECK(clFinish(queue));
    REQUIRE(memcmp(again, host + 1000, 100 * sizeof(int)) == 0);
    unmap(queue, buffer, again);
    CHECK(clFinish(queue));
    /* An implementation may take a map off its count some time after the unmap has run. */
    AWAIT(maps_of(buffer) == 0);
    printf("mapped %u times, then %u\n", three, maps_of(buffer));
    /* Maps for writing that do not overlap; unmapped in another order, with and without waiting. */
    cl_event mapped;
    int *low = map(queue, buffer, CL_FALSE, CL_MAP_WRITE, 0, 1000 * sizeof(int), NULL);
    int *high = map(queue, buffer, CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, 1000 * sizeof(int),
                    (N - 1000) * sizeof(int), &mapped);
    CHECK(clWaitForEvents(1, &mapped));
    for (int i = 10; i < 20; i++)
        low[i] = host[i] = -i;
    for (int i = 0; i < N - 1000; i++)
        high[i] = host[1000 + i] = 7 * i + 1;
    unmap(queue, buffer, high);
    unmap(queue, buffer, low);
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof back, back, 0, NULL, NULL));
    REQUIRE(memcmp(host, back, sizeof host) == 0);
    /* What is written through a map for reading need not arrive; what was not touched of one for writing is kept. */
    low = map(queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 40, 4, NULL);
    REQUIRE(low[0] == host[10]);
    low[0] = host[10] = 99;
    unmap(queue, buffer, low);
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof back, back, 0, NULL, NULL));
    REQUIRE(memcmp(host, back, sizeof host) == 0);
    clReleaseEvent(mapped), clReleaseMemObject(buffer);
}

static void own_memory(cl_command_queue queue)
{
    static int memory[N] __attribute__((aligned(4096))), back[N];
    for (int i = 0; i < N; i++)
        memory[i] = i;
    cl_mem buffer = buffer_of(CL_MEM_USE_HOST_PTR, sizeof memory, memory);
    int five = 5;
    CHECK(clEnqueueFillBuffer(queue, buffer, &five, sizeof five, 0, 400, 0, NULL, NULL));
    int *p = map(queue, buffer, CL_TRUE, CL_MAP_READ, 200, 400, NULL);
    REQUIRE(p == memory + 50 && p[0] == 5 && p[49] == 5 && p[50] == 100);
    unmap(queue, buffer, p);
    p = map(queue, buffer, CL_TRUE, CL_MAP_WRITE, 0, sizeof memory, NULL);
    for (int i = 0; i < N; i++)
        p[i] = -i;
    unmap(queue, buffer, p);
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof back, back, 0, NULL, NULL));
    REQUIRE(back[1] == -1 && back[N - 1] == 1 - N);
    clReleaseMemObject(buffer);
    puts("the application's memory is where it was");
}

/* A map waits for its wait list, an unmap for its own. */
static void in_order(cl_command_queue queue)
{
    int one = 1, two = 2, seen = 0;
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof one, &one);
    cl_event gate, mapped, unmapped;
    MAKE(gate, clCreateUserEvent(context, &status));
    int *p;
    MAKE(p, clEnqueueMapBuffer(queue, buffer, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE, 0, sizeof one, 1, &gate, &mapped,
                               &status));
    cl_int state;
    CHECK(clGetEventInfo(mapped, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    REQUIRE(state > CL_COMPLETE);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &mapped));
    REQUIRE(*p == 1);
    *p = two;
    cl_event second;
    MAKE(second, clCreateUserEvent(context, &status));
    CHECK(clEnqueueUnmapMemObject(queue, buffer, p, 1, &second, &unmapped));
    CHECK(clGetEventInfo(unmapped, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    REQUIRE(state > CL_COMPLETE);
    CHECK(clSetUserEventStatus(second, CL_COMPLETE));
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof seen, &seen, 1, &unmapped, NULL));
    printf("written after all that it waited for: %d\n", seen);
    clReleaseEvent(gate), clReleaseEvent(second), clReleaseEvent(mapped), clReleaseEvent(unmapped);
    clReleaseMemObject(buffer);
}

/* Moving memory about changes nothing of it. */
static void migration(cl_command_queue queue)
{
    int host[64], back[64];
    for (int i = 0; i < 64; i++)
        host[i] = i * i;
    cl_mem pair[2] = {buffer_of(CL_MEM_COPY_HOST_PTR, sizeof host, host), buffer_of(CL_MEM_READ_WRITE, 4096, NULL)};
    cl_event event;
    CHECK(clEnqueueMigrateMemObjects(queue, 2, pair, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, &event));
    CHECK(clEnqueueMigrateMemObjects(queue, 1, pair, 0, 1, &event, NULL));
    CHECK(clEnqueueMigrateMemObjects(queue, 1, pair + 1, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, pair[0], CL_TRUE, 0, sizeof back, back, 0, NULL, NULL));
    cl_command_type type;
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    REQUIRE(memcmp(host, back, sizeof host) == 0 && type == CL_COMMAND_MIGRATE_MEM_OBJECTS);
    clReleaseEvent(event), clReleaseMemObject(pair[0]), clReleaseMemObject(pair[1]);
    puts("moved about");
}

int main(void)
{
    open_device();
    cl_command_queue queue = open_queue(0), unordered = open_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    several(queue);
    own_memory(queue);
    in_order(queue);
    in_order(unordered);
    migration(queue);
    puts("done");
    return 0;
}
