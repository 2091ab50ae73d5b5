/* Calls for shared virtual memory that are wrong in one way each. Prints each one's name and error code, and whether that
 * is what OpenCL 3.0 says it is. */
#include "common.h"

static const char *SOURCE = "kernel void f(global int *x, int n, local int *l) { x[0] = n + l[0]; }\n";

static int wrong;

static void returns(const char *name, cl_int code, cl_int expected)
{
    printf("%s: %d\n", name, code);
    if (code != expected) {
        printf("WRONG: %d expected\n", expected);
        wrong++;
    }
}

static void is_null(const char *name, void *memory)
{
    printf("%s: %s\n", name, memory ? "memory" : "null");
    if (memory) {
        printf("WRONG: null expected\n");
        wrong++;
    }
}

int main(void)
{
    open_device();
    cl_command_queue q = open_queue(0);
    cl_ulong most;
    cl_device_svm_capabilities has;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof has, &has, NULL));
    printf("capabilities: %u\n", (unsigned)has);
    cl_context other;
    MAKE(other, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
    cl_event foreign, waits[1];
    MAKE(foreign, clCreateUserEvent(other, &status));
    waits[0] = foreign;
    cl_program program = build(SOURCE, NULL);
    cl_kernel kernel = kernel_of(program, "f");
    char *m = clSVMAlloc(context, 0, 4096, 0), *host = malloc(8192), pattern[256] = {0};
    char *theirs = clSVMAlloc(other, CL_MEM_READ_WRITE, 4096, 0);
    REQUIRE(m && theirs);
    void *pointers[2] = {m, NULL};

    is_null("alloc: null context", clSVMAlloc(NULL, 0, 16, 0));
    is_null("alloc: a queue", clSVMAlloc((cl_context)q, 0, 16, 0));
    is_null("alloc: nothing", clSVMAlloc(context, 0, 0, 0));
    is_null("alloc: too much", clSVMAlloc(context, 0, most + 1, 0));
    is_null("alloc: more than there are addresses", clSVMAlloc(context, 0, (size_t)-1, 0));
    is_null("alloc: unknown flag", clSVMAlloc(context, (cl_svm_mem_flags)1 << 40, 16, 0));
    is_null("alloc: flag of buffers", clSVMAlloc(context, CL_MEM_USE_HOST_PTR, 16, 0));
    is_null("alloc: two ways of access", clSVMAlloc(context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 16, 0));
    is_null("alloc: atomics without fine grain", clSVMAlloc(context, CL_MEM_SVM_ATOMICS, 16, 0));
    if (!(has & CL_DEVICE_SVM_FINE_GRAIN_BUFFER))
        is_null("alloc: fine grain", clSVMAlloc(context, CL_MEM_SVM_FINE_GRAIN_BUFFER, 16, 0));
    is_null("alloc: odd alignment", clSVMAlloc(context, 0, 16, 24));
    /* These return nothing; they must do nothing. */
    clSVMFree(NULL, m);
    clSVMFree(context, NULL);
    clSVMFree(context, host);
    clSVMFree(context, m + 1);
    clSVMFree(other, m);

    returns("map: null queue", clEnqueueSVMMap(NULL, CL_TRUE, CL_MAP_READ, m, 16, 0, NULL, NULL), CL_INVALID_COMMAND_QUEUE);
    returns("map: null", clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, NULL, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("map: nothing", clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, m, 0, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("map: unknown flag", clEnqueueSVMMap(q, CL_TRUE, 8, m, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("map: read what is invalid",
            clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, m, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("map: over the end", clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, m + 4090, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("map: over all addresses", clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, m + 16, (size_t)-8, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("map: not shared", clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, host, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("map: of another context", clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, theirs, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("map: no list", clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, m, 16, 1, NULL, NULL), CL_INVALID_EVENT_WAIT_LIST);
    returns("map: no events", clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, m, 16, 0, waits, NULL), CL_INVALID_EVENT_WAIT_LIST);
    returns("map: foreign event", clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, m, 16, 1, waits, NULL), CL_INVALID_CONTEXT);
    returns("unmap: null queue", clEnqueueSVMUnmap(NULL, m, 0, NULL, NULL), CL_INVALID_COMMAND_QUEUE);
    returns("unmap: null", clEnqueueSVMUnmap(q, NULL, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("unmap: what is not mapped", clEnqueueSVMUnmap(q, m, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("unmap: no list", clEnqueueSVMUnmap(q, m, 1, NULL, NULL), CL_INVALID_EVENT_WAIT_LIST);
    returns("unmap: foreign event", clEnqueueSVMUnmap(q, m, 1, waits, NULL), CL_INVALID_CONTEXT);

    returns("copy: null queue", clEnqueueSVMMemcpy(NULL, CL_TRUE, m, host, 16, 0, NULL, NULL), CL_INVALID_COMMAND_QUEUE);
    returns("copy: to null", clEnqueueSVMMemcpy(q, CL_TRUE, NULL, m, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("copy: from null", clEnqueueSVMMemcpy(q, CL_TRUE, m, NULL, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("copy: onto itself", clEnqueueSVMMemcpy(q, CL_TRUE, m, m, 16, 0, NULL, NULL), CL_MEM_COPY_OVERLAP);
    returns("copy: forward", clEnqueueSVMMemcpy(q, CL_TRUE, m + 15, m, 16, 0, NULL, NULL), CL_MEM_COPY_OVERLAP);
    returns("copy: backward", clEnqueueSVMMemcpy(q, CL_TRUE, m, m + 15, 16, 0, NULL, NULL), CL_MEM_COPY_OVERLAP);
    returns("copy: host memory onto itself", clEnqueueSVMMemcpy(q, CL_TRUE, host, host + 1, 16, 0, NULL, NULL), CL_MEM_COPY_OVERLAP);
    returns("copy: side by side", clEnqueueSVMMemcpy(q, CL_TRUE, m, m + 16, 16, 0, NULL, NULL), CL_SUCCESS);
    returns("copy: nothing", clEnqueueSVMMemcpy(q, CL_TRUE, m, m + 16, 0, 0, NULL, NULL), CL_SUCCESS);
    returns("copy: over the end", clEnqueueSVMMemcpy(q, CL_TRUE, m + 4090, host, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("copy: from over the end", clEnqueueSVMMemcpy(q, CL_TRUE, host, m + 4090, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("copy: foreign event", clEnqueueSVMMemcpy(q, CL_TRUE, m, host, 16, 1, waits, NULL), CL_INVALID_CONTEXT);

    returns("fill: null queue", clEnqueueSVMMemFill(NULL, m, pattern, 4, 16, 0, NULL, NULL), CL_INVALID_COMMAND_QUEUE);
    returns("fill: null", clEnqueueSVMMemFill(q, NULL, pattern, 4, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("fill: null pattern", clEnqueueSVMMemFill(q, m, NULL, 4, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("fill: pattern of none", clEnqueueSVMMemFill(q, m, pattern, 0, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("fill: pattern of 3", clEnqueueSVMMemFill(q, m, pattern, 3, 12, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("fill: pattern of 256", clEnqueueSVMMemFill(q, m, pattern, 256, 256, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("fill: not aligned", clEnqueueSVMMemFill(q, m + 2, pattern, 4, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("fill: part of a pattern", clEnqueueSVMMemFill(q, m, pattern, 4, 18, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("fill: over the end", clEnqueueSVMMemFill(q, m + 4088, pattern, 4, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("fill: not shared", clEnqueueSVMMemFill(q, host, pattern, 4, 16, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("fill: foreign event", clEnqueueSVMMemFill(q, m, pattern, 4, 16, 1, waits, NULL), CL_INVALID_CONTEXT);

    const void **list = (const void **)pointers;
    const void *outside[1] = {host}, *late[1] = {m + 4090};
    size_t sixteen = 16;
    returns("migrate: null queue", clEnqueueSVMMigrateMem(NULL, 1, list, NULL, 0, 0, NULL, NULL), CL_INVALID_COMMAND_QUEUE);
    returns("migrate: nothing", clEnqueueSVMMigrateMem(q, 0, list, NULL, 0, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("migrate: null", clEnqueueSVMMigrateMem(q, 1, NULL, NULL, 0, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("migrate: null among others", clEnqueueSVMMigrateMem(q, 2, list, NULL, 0, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("migrate: unknown flag", clEnqueueSVMMigrateMem(q, 1, list, NULL, 1 << 20, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("migrate: not shared", clEnqueueSVMMigrateMem(q, 1, outside, NULL, 0, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("migrate: over the end", clEnqueueSVMMigrateMem(q, 1, late, &sixteen, 0, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("migrate: foreign event", clEnqueueSVMMigrateMem(q, 1, list, NULL, 0, 1, waits, NULL), CL_INVALID_CONTEXT);
    returns("free: null queue", clEnqueueSVMFree(NULL, 1, pointers, NULL, NULL, 0, NULL, NULL), CL_INVALID_COMMAND_QUEUE);
    returns("free: none of some", clEnqueueSVMFree(q, 0, pointers, NULL, NULL, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("free: some of none", clEnqueueSVMFree(q, 1, NULL, NULL, NULL, 0, NULL, NULL), CL_INVALID_VALUE);
    returns("free: foreign event", clEnqueueSVMFree(q, 1, pointers, NULL, NULL, 1, waits, NULL), CL_INVALID_CONTEXT);
    returns("free: no list", clEnqueueSVMFree(q, 1, pointers, NULL, NULL, 1, NULL, NULL), CL_INVALID_EVENT_WAIT_LIST);

    returns("argument: null kernel", clSetKernelArgSVMPointer(NULL, 0, m), CL_INVALID_KERNEL);
    returns("argument: no such one", clSetKernelArgSVMPointer(kernel, 3, m), CL_INVALID_ARG_INDEX);
    returns("argument: a number", clSetKernelArgSVMPointer(kernel, 1, m), CL_INVALID_ARG_VALUE);
    returns("argument: local memory", clSetKernelArgSVMPointer(kernel, 2, m), CL_INVALID_ARG_VALUE);
    returns("argument: not shared", clSetKernelArgSVMPointer(kernel, 0, host), CL_INVALID_ARG_VALUE);
    returns("argument: of another context", clSetKernelArgSVMPointer(kernel, 0, theirs), CL_INVALID_ARG_VALUE);
    returns("argument: null", clSetKernelArgSVMPointer(kernel, 0, NULL), CL_SUCCESS);
    returns("argument: within", clSetKernelArgSVMPointer(kernel, 0, m + 4), CL_SUCCESS);

    cl_bool yes = CL_TRUE, no = CL_FALSE;
    const cl_kernel_exec_info TOLD = CL_KERNEL_EXEC_INFO_SVM_PTRS, SYSTEM = CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM;
    returns("information: null kernel", clSetKernelExecInfo(NULL, TOLD, sizeof m, &m), CL_INVALID_KERNEL);
    returns("information: unknown", clSetKernelExecInfo(kernel, 0x7fff, sizeof m, &m), CL_INVALID_VALUE);
    returns("information: null", clSetKernelExecInfo(kernel, TOLD, sizeof m, NULL), CL_INVALID_VALUE);
    returns("information: none", clSetKernelExecInfo(kernel, TOLD, 0, &m), CL_INVALID_VALUE);
    returns("information: part of a pointer", clSetKernelExecInfo(kernel, TOLD, 12, pointers), CL_INVALID_VALUE);
    returns("information: not shared", clSetKernelExecInfo(kernel, TOLD, sizeof outside, outside), CL_INVALID_VALUE);
    returns("information: nothing any more", clSetKernelExecInfo(kernel, TOLD, 0, NULL), CL_SUCCESS);
    returns("information: a pointer", clSetKernelExecInfo(kernel, TOLD, sizeof m, &m), CL_SUCCESS);
    returns("information: all memory", clSetKernelExecInfo(kernel, SYSTEM, sizeof yes, &yes), CL_INVALID_OPERATION);
    returns("information: not all memory", clSetKernelExecInfo(kernel, SYSTEM, sizeof no, &no), CL_SUCCESS);
    returns("information: of another size", clSetKernelExecInfo(kernel, SYSTEM, 1, &no), CL_INVALID_VALUE);

    cl_mem buffer = clCreateBuffer(context, CL_MEM_USE_HOST_PTR, 4097, m, &status);
    returns("buffer: larger", buffer ? CL_SUCCESS : status, CL_INVALID_BUFFER_SIZE);
    buffer = clCreateBuffer(context, CL_MEM_USE_HOST_PTR, 4096, m + 8, &status);
    returns("buffer: over the end", buffer ? CL_SUCCESS : status, CL_INVALID_BUFFER_SIZE);

    /* A command behind one that failed; the memory is still there. */
    cl_event gate, event;
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clEnqueueSVMFree(q, 1, pointers, NULL, NULL, 1, &gate, &event));
    CHECK(clSetUserEventStatus(gate, -7));
    returns("free: behind a failure", clWaitForEvents(1, &event), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    returns("copy: what was not freed", clEnqueueSVMMemcpy(q, CL_TRUE, host, m, 16, 0, NULL, NULL), CL_SUCCESS);
    returns("copy: blocking, behind a failure", clEnqueueSVMMemcpy(q, CL_TRUE, m + 16, m, 16, 1, &gate, NULL),
            CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    printf("%d are wrong\n", wrong);
    clSVMFree(context, m);
    clSVMFree(other, theirs);
    return 0;
}
