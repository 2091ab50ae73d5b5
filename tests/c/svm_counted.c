/* Uses of shared virtual memory whose round trips and bytes are counted: 100 of the one named, on memory of 100,000 bytes. */
#include "common.h"

enum { SIZE = 100000, TIMES = 100 };

static cl_command_queue queue;
static char *memory;

static void map(cl_map_flags flags)
{
    /* One that invalidates need not wait to be useful: its queue is in order. */
    cl_bool blocking = flags != CL_MAP_WRITE_INVALIDATE_REGION;
    CHECK(clEnqueueSVMMap(queue, blocking, flags, memory, SIZE, 0, NULL, NULL));
    if (!(flags & CL_MAP_READ))
        memset(memory, 7, SIZE);
    CHECK(clEnqueueSVMUnmap(queue, memory, 0, NULL, NULL));
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    const char *what = argv[1];
    open_device();
    queue = open_queue(0);
    cl_program program = build("kernel void f(global int *x) { x[get_global_id(0)] += 1; }\n", NULL);
    cl_kernel kernel = kernel_of(program, "f");
    memory = clSVMAlloc(context, CL_MEM_READ_WRITE, SIZE, 0);
    REQUIRE(memory != NULL);
    for (int i = 0; i < TIMES; i++) {
        if (strcmp(what, "allocations") == 0) {
            void *more = clSVMAlloc(context, CL_MEM_READ_WRITE, SIZE, 0);
            REQUIRE(more != NULL);
            clSVMFree(context, more);
        } else if (strcmp(what, "read") == 0)
            map(CL_MAP_READ);
        else if (strcmp(what, "write") == 0)
            map(CL_MAP_WRITE_INVALIDATE_REGION);
        else if (strcmp(what, "both") == 0)
            map(CL_MAP_READ | CL_MAP_WRITE);
        else if (strcmp(what, "pointers") == 0) {
            CHECK(clSetKernelArgSVMPointer(kernel, 0, memory + i * sizeof(int)));
            launch(queue, kernel, 10, 0, NULL, NULL);
        } else if (strcmp(what, "inside") == 0) {
            CHECK(clEnqueueSVMMemFill(queue, memory, &i, sizeof i, SIZE / 2, 0, NULL, NULL));
            CHECK(clEnqueueSVMMemcpy(queue, CL_FALSE, memory + SIZE / 2, memory, SIZE / 2, 0, NULL, NULL));
        } else
            REQUIRE(strcmp(what, "nothing") == 0);
    }
    CHECK(clFinish(queue));
    clSVMFree(context, memory);
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return 0;
}
