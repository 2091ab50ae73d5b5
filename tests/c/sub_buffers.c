/* Sub-buffers: one memory under several handles; flags, queries, lifetimes. */
#include "common.h"
#include <stdatomic.h>

enum { N = 1 << 20, PART = 1 << 18 };

static const char *SOURCE = "__kernel void add(__global int *x, int n) { x[get_global_id(0)] += n; }\n"
                            "__kernel void both(__global int *x, __global const int *y) {\n"
                            "    x[get_global_id(0)] = y[get_global_id(0)] + 1;\n"
                            "}\n";

static size_t alignment;

static cl_mem part_of(cl_mem parent, cl_mem_flags flags, size_t origin, size_t size)
{
    cl_buffer_region region = {origin, size};
    cl_mem part;
    MAKE(part, clCreateSubBuffer(parent, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
    return part;
}

static atomic_int calls;
static atomic_int order[4];

static void CL_CALLBACK on_destroy(cl_mem memory, void *which)
{
    (void)memory;
    atomic_store(&order[atomic_fetch_add(&calls, 1)], (int)(intptr_t)which);
}

/* All commands, on the part and on the whole, see the same memory. */
static void one_memory(cl_command_queue queue)
{
    static int host[N], back[N];
    for (int i = 0; i < N; i++)
        host[i] = i;
    cl_mem whole = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof host, host);
    size_t origin = PART * sizeof(int), bytes = PART * sizeof(int);
    cl_mem part = part_of(whole, 0, origin, bytes), overlapping = part_of(whole, CL_MEM_READ_WRITE, origin / 2, bytes);
    cl_mem next = part_of(whole, CL_MEM_READ_ONLY, 2 * origin, bytes);
    cl_program program = build(SOURCE, NULL);
    cl_kernel add = kernel_of(program, "add"), both = kernel_of(program, "both");
    int n = 1000;
    set_arg(add, 0, sizeof part, &part), set_arg(add, 1, sizeof n, &n);
    launch(queue, add, PART, 0, NULL, NULL);
    set_arg(add, 0, sizeof overlapping, &overlapping);
    launch(queue, add, PART, 0, NULL, NULL);
    set_arg(both, 0, sizeof part, &part), set_arg(both, 1, sizeof next, &next);
    launch(queue, both, 100, 0, NULL, NULL);
    for (int i = 0; i < PART; i++)
        host[PART + i] += n;
    for (int i = 0; i < PART; i++)
        host[PART / 2 + i] += n;
    for (int i = 0; i < 100; i++)
        host[PART + i] = host[2 * PART + i] + 1;
    CHECK(clEnqueueReadBuffer(queue, whole, CL_TRUE, 0, sizeof back, back, 0, NULL, NULL));
    REQUIRE(memcmp(host, back, sizeof host) == 0);
    /* Write, fill and copy, small and large. */
    int seven = 7;
    CHECK(clEnqueueWriteBuffer(queue, part, CL_FALSE, 40, 400, host + 3, 0, NULL, NULL));
    memcpy((char *)(host + PART) + 40, host + 3, 400);
    CHECK(clEnqueueFillBuffer(queue, part, &seven, sizeof seven, 4096, 4096, 0, NULL, NULL));
    for (int i = 0; i < 1024; i++)
        host[PART + 1024 + i] = seven;
    CHECK(clEnqueueCopyBuffer(queue, whole, next, 0, 64, 8192, 0, NULL, NULL));
    memcpy((char *)(host + 2 * PART) + 64, host, 8192);
    CHECK(clEnqueueWriteBuffer(queue, overlapping, CL_TRUE, 0, bytes, host + 5, 0, NULL, NULL));
    memmove((char *)host + origin / 2, host + 5, bytes);
    CHECK(clEnqueueReadBuffer(queue, part, CL_TRUE, 0, bytes, back, 0, NULL, NULL));
    REQUIRE(memcmp(host + PART, back, bytes) == 0);
    CHECK(clEnqueueReadBuffer(queue, whole, CL_TRUE, 0, sizeof back, back, 0, NULL, NULL));
    REQUIRE(memcmp(host, back, sizeof host) == 0);
    size_t corner[3] = {32, 3, 0}, zero[3] = {0, 0, 0}, region[3] = {32, 64, 1};
    CHECK(clEnqueueReadBufferRect(queue, part, CL_TRUE, corner, zero, region, 128, 0, 0, 0, back, 0, NULL, NULL));
    for (int y = 0; y < 64; y++)
        REQUIRE(memcmp((char *)(host + PART) + (y + 3) * 128 + 32, (char *)back + y * 32, 32) == 0);
    /* Maps of both are at the same addresses. */
    int *all, *some;
    MAKE(all, clEnqueueMapBuffer(queue, whole, CL_TRUE, CL_MAP_READ, 0, sizeof host, 0, NULL, NULL, &status));
    MAKE(some, clEnqueueMapBuffer(queue, part, CL_TRUE, CL_MAP_READ, 128, 1024, 0, NULL, NULL, &status));
    REQUIRE(memcmp(all, host, sizeof host) == 0);
    REQUIRE(some[0] == all[PART + 32] && some[255] == all[PART + 287]);
    CHECK(clEnqueueUnmapMemObject(queue, whole, all, 0, NULL, NULL));
    CHECK(clEnqueueUnmapMemObject(queue, part, some, 0, NULL, NULL));
    CHECK(clFinish(queue));
    MAKE(some, clEnqueueMapBuffer(queue, part, CL_TRUE, CL_MAP_WRITE, 0, 64, 0, NULL, NULL, &status));
    for (int i = 0; i < 16; i++)
        some[i] = host[PART + i] = -i;
    CHECK(clEnqueueUnmapMemObject(queue, part, some, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, whole, CL_TRUE, origin, 64, back, 0, NULL, NULL));
    REQUIRE(memcmp(host + PART, back, 64) == 0);
    /* The memory stays as long as a part of it does. */
    CHECK(clReleaseMemObject(whole));
    CHECK(clEnqueueReadBuffer(queue, part, CL_TRUE, 0, bytes, back, 0, NULL, NULL));
    REQUIRE(memcmp(host + PART, back, bytes) == 0);
    puts("one memory");
    clReleaseMemObject(part), clReleaseMemObject(overlapping), clReleaseMemObject(next);
    clReleaseKernel(add), clReleaseKernel(both), clReleaseProgram(program);
}

static void queries(void)
{
    cl_mem whole = buffer_of(CL_MEM_READ_ONLY | CL_MEM_HOST_WRITE_ONLY, 16 * alignment, NULL);
    cl_mem part = part_of(whole, 0, alignment, 100);
    cl_mem closed = part_of(whole, CL_MEM_READ_ONLY | CL_MEM_HOST_NO_ACCESS, 2 * alignment, 2 * alignment);
    for (int i = 0; i < 3; i++) {
        cl_mem memory = i == 0 ? whole : i == 1 ? part : closed, parent;
        cl_mem_object_type type;
        cl_mem_flags flags;
        size_t size, offset;
        void *host;
        cl_context its_context;
        CHECK(clGetMemObjectInfo(memory, CL_MEM_TYPE, sizeof type, &type, NULL));
        CHECK(clGetMemObjectInfo(memory, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
        CHECK(clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof size, &size, NULL));
        CHECK(clGetMemObjectInfo(memory, CL_MEM_OFFSET, sizeof offset, &offset, NULL));
        CHECK(clGetMemObjectInfo(memory, CL_MEM_HOST_PTR, sizeof host, &host, NULL));
        CHECK(clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof its_context, &its_context, NULL));
        CHECK(clGetMemObjectInfo(memory, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, &parent, NULL));
        printf("type %#x, flags %#llx, size %zu, offset %zu, host %d, parent %d\n", type, (unsigned long long)flags,
               size / (i == 1 ? 1 : alignment), offset / alignment, host != NULL, parent == whole);
        REQUIRE(its_context == context && (parent == NULL) == (i == 0));
    }
    clReleaseMemObject(closed), clReleaseMemObject(part), clReleaseMemObject(whole);
}

/* Memory of the application's own is inherited. */
static void own_memory(cl_command_queue queue)
{
    enum { SIZE = 65536 };
    static unsigned char memory[SIZE] __attribute__((aligned(4096)));
    for (int i = 0; i < SIZE; i++)
        memory[i] = (unsigned char)i;
    cl_mem whole = buffer_of(CL_MEM_USE_HOST_PTR, SIZE, memory), part = part_of(whole, 0, 4096, 8192);
    void *host;
    cl_mem_flags flags;
    CHECK(clGetMemObjectInfo(part, CL_MEM_HOST_PTR, sizeof host, &host, NULL));
    CHECK(clGetMemObjectInfo(part, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
    REQUIRE(host == memory + 4096 && (flags & CL_MEM_USE_HOST_PTR));
    unsigned char *mapped;
    MAKE(mapped, clEnqueueMapBuffer(queue, part, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 16, 32, 0, NULL, NULL, &status));
    REQUIRE(mapped == memory + 4096 + 16 && mapped[0] == 16);
    memset(mapped, 0xaa, 32);
    CHECK(clEnqueueUnmapMemObject(queue, part, mapped, 0, NULL, NULL));
    unsigned char back[64];
    CHECK(clEnqueueReadBuffer(queue, whole, CL_TRUE, 4096, sizeof back, back, 0, NULL, NULL));
    REQUIRE(back[15] == 15 && back[16] == 0xaa && back[47] == 0xaa && back[48] == 48);
    clReleaseMemObject(part), clReleaseMemObject(whole);
    puts("the application's memory is inherited");
}

static void destruction(void)
{
    cl_mem whole = buffer_of(CL_MEM_READ_WRITE, 16 * alignment, NULL);
    cl_mem part = part_of(whole, 0, 0, alignment);
    CHECK(clSetMemObjectDestructorCallback(whole, on_destroy, (void *)1));
    CHECK(clSetMemObjectDestructorCallback(part, on_destroy, (void *)2));
    CHECK(clReleaseMemObject(whole));
    REQUIRE(atomic_load(&calls) == 0);
    CHECK(clReleaseMemObject(part));
    AWAIT(atomic_load(&calls) >= 2);
    /* Which of the two comes first differs between implementations. */
    printf("both destroyed: %d\n", order[0] + order[1]);
}

int main(void)
{
    open_device();
    cl_uint bits;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL));
    alignment = bits / 8;
    cl_command_queue queue = open_queue(0);
    queries();
    one_memory(queue);
    own_memory(queue);
    destruction();
    puts("done");
    return 0;
}
