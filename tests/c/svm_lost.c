/* Shared virtual memory whose server is lost in the middle: it stays the program's until it is freed. */
#include "common.h"

int main(void)
{
    open_device();
    cl_command_queue queue = open_queue(0);
    enum { SIZE = 100000 };
    char *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, SIZE, 0), *other = clSVMAlloc(context, 0, SIZE, 0);
    REQUIRE(memory != NULL && other != NULL);
    CHECK(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, memory, SIZE, 0, NULL, NULL));
    memset(memory, 5, SIZE);
    printf("mapped\n");
    fflush(stdout);
    char line[16];
    REQUIRE(fgets(line, sizeof line, stdin) != NULL);
    int finished = clFinish(queue);
    memory[SIZE - 1] = 6;
    REQUIRE(memory[0] == 5 && memory[SIZE - 1] == 6);
    int unmapped = clEnqueueSVMUnmap(queue, memory, 0, NULL, NULL);
    int filled = clEnqueueSVMMemFill(queue, other, line, 1, SIZE, 0, NULL, NULL);
    int copied = clEnqueueSVMMemcpy(queue, CL_TRUE, line, other, 4, 0, NULL, NULL);
    void *none = clSVMAlloc(context, 0, SIZE, 0);
    printf("finish %d, unmap %d, fill %d, copy %d, %s\n", finished, unmapped, filled, copied, none ? "memory" : "no memory");
    memory[1] = 7;
    clSVMFree(context, memory);
    clSVMFree(context, other);
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return 0;
}
