/* Each function for shared virtual memory, with what it does to the memory and what its event says. */
#include "common.h"
#include <stdatomic.h>

static const char *SOURCE = "kernel void add(global int *x, int n) { x[get_global_id(0)] += n; }\n";

static cl_command_queue queue;

static void *allocate(size_t size, cl_uint alignment)
{
    void *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, size, alignment);
    REQUIRE(memory != NULL);
    return memory;
}

static void map(cl_map_flags flags, void *memory, size_t size)
{
    CHECK(clEnqueueSVMMap(queue, CL_TRUE, flags, memory, size, 0, NULL, NULL));
}

static void unmap(void *memory)
{
    CHECK(clEnqueueSVMUnmap(queue, memory, 0, NULL, NULL));
}

/* The command type of an event, which is released. */
static cl_command_type type_of(cl_event event)
{
    cl_command_type type;
    CHECK(clWaitForEvents(1, &event));
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    CHECK(clReleaseEvent(event));
    return type;
}

static uint64_t contents(void *memory, size_t size)
{
    map(CL_MAP_READ, memory, size);
    uint64_t hash = hash_of(memory, size);
    unmap(memory);
    return hash;
}

static void fill_by_hand(unsigned char *bytes, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
}

static void alignments(void)
{
    void *kept[64];
    for (cl_uint i = 0; i < 64; i++) {
        cl_uint alignment = 1u << i % 8;
        kept[i] = allocate(1 + i * 37, alignment);
        REQUIRE((uintptr_t)kept[i] % alignment == 0);
        for (cl_uint j = 0; j < i; j++)
            REQUIRE((char *)kept[j] + 1 + j * 37 <= (char *)kept[i] || (char *)kept[i] + 1 + i * 37 <= (char *)kept[j]);
    }
    /* All of them at once, each with its own contents. */
    for (cl_uint i = 0; i < 64; i++) {
        map(CL_MAP_WRITE_INVALIDATE_REGION, kept[i], 1 + i * 37);
        memset(kept[i], (int)i, 1 + i * 37);
        unmap(kept[i]);
    }
    int right = 0;
    for (cl_uint i = 0; i < 64; i++) {
        map(CL_MAP_READ, kept[i], 1 + i * 37);
        unsigned char *bytes = kept[i];
        right += bytes[0] == i && bytes[i * 37] == i;
        unmap(kept[i]);
    }
    CHECK(clFinish(queue));
    for (int i = 0; i < 64; i++)
        clSVMFree(context, kept[i]);
    clSVMFree(context, NULL);
    printf("64 allocations, aligned and apart: %d right\n", right);
}

static void copies(size_t size)
{
    unsigned char *a = allocate(size, 0), *b = allocate(size, 0), *host = malloc(size), *other = malloc(size);
    cl_event events[5];
    cl_command_type types[5];
    fill_by_hand(host, size, 7);
    memset(other, 0, size);
    CHECK(clEnqueueSVMMemcpy(queue, CL_FALSE, a, host, size, 0, NULL, &events[0]));
    CHECK(clEnqueueSVMMemcpy(queue, CL_FALSE, b, a, size, 1, &events[0], &events[1]));
    CHECK(clEnqueueSVMMemcpy(queue, CL_FALSE, other, b, size, 1, &events[1], &events[2]));
    CHECK(clWaitForEvents(1, &events[2]));
    REQUIRE(memcmp(host, other, size) == 0);
    /* Host to host, behind a copy into the source, and with a copy of the target behind it. */
    fill_by_hand(other, size, 99);
    CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, b, other, size, 0, NULL, NULL));
    memset(other, 1, size);
    memset(host, 2, size);
    CHECK(clEnqueueSVMMemcpy(queue, CL_FALSE, other, b, size, 0, NULL, NULL));
    CHECK(clEnqueueSVMMemcpy(queue, CL_FALSE, host, other, size, 0, NULL, &events[3]));
    CHECK(clEnqueueSVMMemcpy(queue, CL_FALSE, a, host, size, 0, NULL, &events[4]));
    for (int i = 0; i < 5; i++)
        types[i] = type_of(events[i]);
    uint64_t expected = 0, seen = contents(a, size);
    unsigned char *model = malloc(size);
    fill_by_hand(model, size, 99);
    expected = hash_of(model, size);
    REQUIRE(hash_of(host, size) == expected && hash_of(other, size) == expected);
    /* A blocking one from shared memory to shared memory: parts of the same allocation that do not overlap. */
    if (size >= 64) {
        CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, a + size / 2, a, size / 2, 0, NULL, NULL));
        memmove(model + size / 2, model, size / 2);
        expected ^= hash_of(model, size);
        seen ^= contents(a, size);
    }
    printf("copies of %zu bytes: %s, types %x %x %x %x %x\n", size, expected == seen ? "right" : "WRONG", types[0], types[1],
           types[2], types[3], types[4]);
    CHECK(clFinish(queue));
    clSVMFree(context, a);
    clSVMFree(context, b);
    free(host);
    free(other);
    free(model);
}

static void fills(void)
{
    enum { SIZE = 4096 };
    unsigned char pattern[128], model[SIZE];
    unsigned char *memory = allocate(SIZE, 128);
    cl_event event;
    fill_by_hand(pattern, sizeof pattern, 3);
    for (size_t step = 1; step <= 128; step *= 2) {
        CHECK(clEnqueueSVMMemFill(queue, memory, pattern, step, SIZE, 0, NULL, NULL));
        CHECK(clEnqueueSVMMemFill(queue, memory + 256, pattern + 128 - step, step, 512, 0, NULL, &event));
        for (size_t i = 0; i < SIZE; i++)
            model[i] = i >= 256 && i < 768 ? pattern[128 - step + i % step] : pattern[i % step];
        cl_command_type type = type_of(event);
        printf("pattern of %zu: %s, type %x\n", step, contents(memory, SIZE) == hash_of(model, SIZE) ? "right" : "WRONG", type);
    }
    clSVMFree(context, memory);
}

/* Maps of parts, several at a time, of each kind; `size` makes them small or large ones for the link. */
static void maps(cl_kernel add, int items)
{
    size_t size = (size_t)items * sizeof(int), half = size / 2;
    int *memory = allocate(size, 0), n = 5;
    cl_event events[4];
    map(CL_MAP_WRITE_INVALIDATE_REGION, memory, size);
    for (int i = 0; i < items; i++)
        memory[i] = i;
    unmap(memory);
    CHECK(clSetKernelArgSVMPointer(add, 0, memory + items / 2));
    set_arg(add, 1, sizeof n, &n);
    launch(queue, add, (size_t)items / 2, 0, NULL, NULL);
    /* Two halves at once: one is read and written, one only read. */
    CHECK(clEnqueueSVMMap(queue, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE, memory, half, 0, NULL, &events[0]));
    CHECK(clEnqueueSVMMap(queue, CL_FALSE, CL_MAP_READ, memory + items / 2, half, 0, NULL, &events[1]));
    CHECK(clWaitForEvents(2, events));
    int right = 0;
    for (int i = 0; i < items; i++)
        right += memory[i] == (i < items / 2 ? i : i + 5);
    for (int i = 0; i < items / 2; i++)
        memory[i] *= 2;
    CHECK(clEnqueueSVMUnmap(queue, memory, 0, NULL, &events[2]));
    CHECK(clEnqueueSVMUnmap(queue, memory + items / 2, 1, &events[1], &events[3]));
    CHECK(clSetKernelArgSVMPointer(add, 0, memory));
    launch(queue, add, (size_t)items, 2, &events[2], NULL);
    cl_command_type types[4];
    for (int i = 0; i < 4; i++)
        types[i] = type_of(events[i]);
    int *all = malloc(size);
    CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, all, memory, size, 0, NULL, NULL));
    int after = 0;
    for (int i = 0; i < items; i++)
        after += all[i] == (i < items / 2 ? 2 * i + 5 : i + 10);
    printf("maps of %d items: %d right before, %d after, types %x %x %x %x\n", items, right, after, types[0], types[1], types[2],
           types[3]);
    free(all);
    clSVMFree(context, memory);
}

/* A buffer whose storage is shared memory. */
static void buffers(cl_kernel add)
{
    enum { N = 1000 };
    int *memory = allocate(2 * N * sizeof(int), 0), n = 3, value = 0;
    int zero = 0, seven = 7;
    cl_mem whole, part;
    CHECK(clEnqueueSVMMemFill(queue, memory, &zero, sizeof zero, 2 * N * sizeof(int), 0, NULL, NULL));
    CHECK(clFinish(queue));
    MAKE(whole, clCreateBuffer(context, CL_MEM_USE_HOST_PTR, 2 * N * sizeof(int), memory, &status));
    cl_bool uses[2];
    void *host;
    CHECK(clGetMemObjectInfo(whole, CL_MEM_USES_SVM_POINTER, sizeof uses[0], &uses[0], NULL));
    CHECK(clGetMemObjectInfo(whole, CL_MEM_HOST_PTR, sizeof host, &host, NULL));
    REQUIRE(host == memory);
    part = buffer_of(CL_MEM_READ_WRITE, sizeof(int), NULL);
    CHECK(clGetMemObjectInfo(part, CL_MEM_USES_SVM_POINTER, sizeof uses[1], &uses[1], NULL));
    set_arg(add, 0, sizeof whole, &whole);
    set_arg(add, 1, sizeof n, &n);
    launch(queue, add, 2 * N, 0, NULL, NULL);
    CHECK(clEnqueueWriteBuffer(queue, whole, CL_TRUE, N * sizeof(int), sizeof seven, &seven, 0, NULL, NULL));
    CHECK(clFinish(queue));
    map(CL_MAP_READ, memory, 2 * N * sizeof(int));
    int sum = 0;
    for (int i = 0; i < 2 * N; i++)
        sum += memory[i];
    unmap(memory);
    int *mapped;
    MAKE(mapped, clEnqueueMapBuffer(queue, whole, CL_TRUE, CL_MAP_WRITE, 4, 4, 0, NULL, NULL, &status));
    REQUIRE(mapped == memory + 1);
    *mapped = 1000;
    CHECK(clEnqueueUnmapMemObject(queue, whole, mapped, 0, NULL, NULL));
    CHECK(clFinish(queue));
    CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, &value, memory + 1, sizeof value, 0, NULL, NULL));
    printf("a buffer over shared memory: uses it %u, another %u, sum %d, mapped %d\n", uses[0], uses[1], sum, value);
    CHECK(clReleaseMemObject(whole));
    CHECK(clReleaseMemObject(part));
    CHECK(clFinish(queue));
    clSVMFree(context, memory);
}

static void migrates(void)
{
    char *memory[2] = {allocate(100, 0), allocate(5000, 0)};
    const void *pointers[2] = {memory[0] + 10, memory[1]};
    size_t sizes[2] = {20, 0};
    cl_event event;
    CHECK(clEnqueueSVMMigrateMem(queue, 2, pointers, NULL, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL));
    CHECK(clEnqueueSVMMigrateMem(queue, 2, pointers, sizes, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, &event));
    printf("migrated: type %x\n", type_of(event));
    clSVMFree(context, memory[0]);
    clSVMFree(context, memory[1]);
}

static atomic_int freed;

static void CL_CALLBACK on_free(cl_command_queue of, cl_uint count, void *pointers[], void *data)
{
    for (cl_uint i = 0; i < count; i++)
        clSVMFree(context, pointers[i]);
    freed += of == queue && data == &freed ? (int)count : -1000;
}

static void frees(void)
{
    void *pointers[3];
    cl_event gate, event;
    for (int i = 0; i < 3; i++)
        pointers[i] = allocate(10000, 0);
    CHECK(clEnqueueSVMFree(queue, 3, pointers, NULL, NULL, 0, NULL, &event));
    cl_command_type type = type_of(event);
    for (int i = 0; i < 3; i++)
        pointers[i] = allocate(10000, 0);
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clEnqueueSVMFree(queue, 3, pointers, on_free, &freed, 1, &gate, &event));
    CHECK(clFlush(queue));
    leave_time();
    int before = freed;
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clReleaseEvent(gate));
    cl_command_type second = type_of(event);
    CHECK(clFinish(queue));
    AWAIT(freed == 3);
    printf("freed: type %x, then %x; by callback %d before its turn, %d after\n", type, second, before, freed);
    /* Without an event. */
    for (int i = 0; i < 3; i++)
        pointers[i] = allocate(100, 0);
    CHECK(clEnqueueSVMFree(queue, 2, pointers, NULL, NULL, 0, NULL, NULL));
    CHECK(clEnqueueSVMFree(queue, 1, pointers + 2, on_free, &freed, 0, NULL, NULL));
    CHECK(clFinish(queue));
    AWAIT(freed == 4);
    printf("freed without an event: %d\n", freed);
}

/* Writes that have returned may still be under way when the memory is freed, and its address is given out again. */
static void again_and_again(void)
{
    static char bytes[100000];
    int right = 0;
    for (int i = 0; i < 200; i++) {
        char last = 0, *memory = allocate(sizeof bytes, 0);
        memset(bytes, i, sizeof bytes);
        CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, memory, bytes, sizeof bytes, 0, NULL, NULL));
        if (i % 3 == 0)
            CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, &last, memory + sizeof bytes - 1, 1, 0, NULL, NULL));
        right += last == (i % 3 == 0 ? (char)i : 0);
        clSVMFree(context, memory);
    }
    printf("allocated and freed: %d right\n", right);
}

int main(void)
{
    open_device();
    queue = open_queue(0);
    cl_program program = build(SOURCE, NULL);
    cl_kernel add = kernel_of(program, "add");
    cl_device_svm_capabilities has;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof has, &has, NULL));
    printf("coarse-grain buffers: %d\n", (has & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0);
    alignments();
    copies(1);
    copies(4096);
    copies(3000000);
    fills();
    maps(add, 1000);
    maps(add, 1000000);
    buffers(add);
    migrates();
    frees();
    again_and_again();
    CHECK(clReleaseKernel(add));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    /* Memory without a queue. */
    clSVMFree(context, allocate(1, 0));
    CHECK(clReleaseContext(context));
    return 0;
}
