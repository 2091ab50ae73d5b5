/* Shared virtual memory whose addresses the program has put something else at: it gets others. */
#define _GNU_SOURCE
#include "common.h"
#include <sys/mman.h>

enum { TIMES = 40 };

int main(void)
{
    open_device();
    cl_command_queue queue = open_queue(0);
    int usable = 0, kept = 0;
    struct {
        unsigned char *bytes;
        size_t size;
    } obstacles[TIMES] = {0};
    for (int i = 0; i < TIMES; i++) {
        /* Small and large ones in turn, which implementations take from different places. */
        size_t size = i % 2 ? 4096 : 3 << 20;
        unsigned char last = 0, value = (unsigned char)(i + 1);
        unsigned char *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, size, 0);
        REQUIRE(memory != NULL);
        CHECK(clEnqueueSVMMemFill(queue, memory, &value, 1, size, 0, NULL, NULL));
        CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, &last, memory + size - 1, 1, 0, NULL, NULL));
        usable += last == value;
        clSVMFree(context, memory);
        CHECK(clFinish(queue));
        /* Where the next one would be, unless the implementation itself has the memory of this process. */
        void *page = (void *)((uintptr_t)memory & ~(uintptr_t)4095);
        void *mapped = mmap(page, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (mapped != MAP_FAILED) {
            memset(mapped, value, size);
            obstacles[i].bytes = mapped;
            obstacles[i].size = size;
        }
    }
    /* Nothing was put over what the program had there. */
    for (int i = 0; i < TIMES; i++) {
        int whole = 1;
        for (size_t at = 0; at < obstacles[i].size; at += 4096)
            whole &= obstacles[i].bytes[at] == (unsigned char)(i + 1);
        kept += whole;
    }
    printf("%d usable, %d kept\n", usable, kept);
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return 0;
}
