/* Mapped memory, memory of the application's own, destructor callbacks. */
#include "common.h"
#include <stdatomic.h>

enum { N = 4096 };

static const char *SOURCE = "__kernel void increment(__global int *x) { x[get_global_id(0)] += 1; }\n";

static atomic_int destroyed;

static void CL_CALLBACK on_destroy(cl_mem memory, void *which)
{
    (void)memory;
    /* Called in reverse order of registration: 2, then 1. */
    int order = (int)(intptr_t)which;
    if (atomic_load(&destroyed) == 2 - order)
        atomic_fetch_add(&destroyed, 1);
}

static int *map(cl_command_queue queue, cl_mem buffer, cl_map_flags flags, size_t offset, size_t size)
{
    int *pointer;
    MAKE(pointer, clEnqueueMapBuffer(queue, buffer, CL_TRUE, flags, offset, size, 0, NULL, NULL, &status));
    return pointer;
}

static void unmap(cl_command_queue queue, cl_mem buffer, void *pointer)
{
    CHECK(clEnqueueUnmapMemObject(queue, buffer, pointer, 0, NULL, NULL));
}

static cl_uint maps_of(cl_mem buffer)
{
    cl_uint maps;
    CHECK(clGetMemObjectInfo(buffer, CL_MEM_MAP_COUNT, sizeof maps, &maps, NULL));
    return maps;
}

static void round_trip(const char *name, cl_command_queue queue, cl_kernel kernel, cl_mem buffer)
{
    int *p = map(queue, buffer, CL_MAP_WRITE_INVALIDATE_REGION, 0, N * sizeof(int));
    for (int i = 0; i < N; i++)
        p[i] = 10 * i;
    unmap(queue, buffer, p);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    launch(queue, kernel, N, 0, NULL, NULL);
    /* An implementation may take a map off its count some time after the unmap has run. */
    CHECK(clFlush(queue));
    AWAIT(maps_of(buffer) == 0);
    p = map(queue, buffer, CL_MAP_READ | CL_MAP_WRITE, 1024 * sizeof(int), 1024 * sizeof(int));
    for (int i = 0; i < 1024; i++) {
        REQUIRE(p[i] == 10 * (i + 1024) + 1);
        p[i] = -p[i];
    }
    cl_uint maps = maps_of(buffer);
    unmap(queue, buffer, p);
    static int all[N];
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof all, all, 0, NULL, NULL));
    int64_t sum = 0;
    for (int i = 0; i < N; i++)
        sum += all[i];
    printf("%s: %lld, mapped %u time(s)\n", name, (long long)sum, maps);
}

static void non_blocking_map(cl_command_queue queue, cl_mem buffer)
{
    int nine = 9;
    cl_event filled, mapped, unmapped;
    cl_command_type types[2];
    CHECK(clEnqueueFillBuffer(queue, buffer, &nine, sizeof nine, 0, N * sizeof(int), 0, NULL, &filled));
    int *p;
    MAKE(p, clEnqueueMapBuffer(queue, buffer, CL_FALSE, CL_MAP_READ, 0, N * sizeof(int), 1, &filled, &mapped, &status));
    CHECK(clWaitForEvents(1, &mapped));
    REQUIRE(p[0] == 9 && p[N - 1] == 9);
    CHECK(clEnqueueUnmapMemObject(queue, buffer, p, 0, NULL, &unmapped));
    CHECK(clFinish(queue));
    CHECK(clGetEventInfo(mapped, CL_EVENT_COMMAND_TYPE, sizeof types[0], &types[0], NULL));
    CHECK(clGetEventInfo(unmapped, CL_EVENT_COMMAND_TYPE, sizeof types[1], &types[1], NULL));
    printf("non-blocking map: %x, %x\n", types[0], types[1]);
    CHECK(clReleaseEvent(filled));
    CHECK(clReleaseEvent(mapped));
    CHECK(clReleaseEvent(unmapped));
}

static void host_pointer(cl_command_queue queue, cl_kernel kernel)
{
    static int memory[N] __attribute__((aligned(4096)));
    for (int i = 0; i < N; i++)
        memory[i] = i;
    cl_mem buffer = buffer_of(CL_MEM_USE_HOST_PTR | CL_MEM_READ_WRITE, sizeof memory, memory);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    launch(queue, kernel, N, 0, NULL, NULL);
    int *p = map(queue, buffer, CL_MAP_READ, 0, sizeof memory);
    printf("host pointer: same address %d, first %d, last %d\n", p == memory, memory[0], memory[N - 1]);
    unmap(queue, buffer, p);
    p = map(queue, buffer, CL_MAP_READ, 256, 64);
    printf("host pointer with offset: %d\n", (char *)p - (char *)memory == 256);
    unmap(queue, buffer, p);
    void *its;
    CHECK(clGetMemObjectInfo(buffer, CL_MEM_HOST_PTR, sizeof its, &its, NULL));
    printf("query gives it: %d\n", its == memory);
    CHECK(clFinish(queue));
    CHECK(clReleaseMemObject(buffer));
}

int main(void)
{
    open_device();
    cl_command_queue queue = open_queue(0);
    cl_program program = build(SOURCE, NULL);
    cl_kernel kernel = kernel_of(program, "increment");
    static int start[N];
    cl_mem plain = buffer_of(CL_MEM_READ_WRITE, sizeof start, NULL);
    cl_mem allocated = buffer_of(CL_MEM_ALLOC_HOST_PTR, sizeof start, NULL);
    cl_mem copied = buffer_of(CL_MEM_COPY_HOST_PTR | CL_MEM_ALLOC_HOST_PTR, sizeof start, start);
    round_trip("plain", queue, kernel, plain);
    round_trip("allocated", queue, kernel, allocated);
    round_trip("copied", queue, kernel, copied);
    non_blocking_map(queue, plain);
    host_pointer(queue, kernel);
    CHECK(clSetMemObjectDestructorCallback(plain, on_destroy, (void *)1));
    CHECK(clSetMemObjectDestructorCallback(plain, on_destroy, (void *)2));
    CHECK(clReleaseMemObject(plain));
    CHECK(clReleaseMemObject(allocated));
    CHECK(clReleaseMemObject(copied));
    CHECK(clFinish(queue));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    AWAIT(atomic_load(&destroyed) >= 2);
    printf("destructor callbacks in order: %d\n", destroyed);
    return 0;
}
