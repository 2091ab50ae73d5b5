/* Reads a stream of the custom device NAME, as its standard input says:
 *
 * next ROOM    the next chunk, into a buffer of ROOM bytes: prints its number, how many were dropped, its size and a hash of its
 *              bytes; or how the command ended, and what the context was told
 * all ROOM     the same for all chunks to the end, in one line: how many came, how many were dropped, the size and hash of all
 * wait ROOM    enqueues the same without waiting, and prints "enqueued"
 * release      releases all that it has made, and prints "released"
 *
 * custom_streams NAME | custom_streams (lists the custom devices) */
#include "common.h"
#include <CL/cl_ropeway_custom_devices.h>

enum { BEHIND = 4096, PATTERN = 0xa5 };

static cl_command_queue queue;
static cl_kernel next;
static cl_mem about;
static char heard[1024];

static void CL_CALLBACK hear(const char *text, const void *bytes, size_t size, void *user)
{
    (void)bytes, (void)size, (void)user;
    snprintf(heard, sizeof heard, "%s", text);
}

static cl_ulong hash(cl_ulong from, const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        from = (from ^ bytes[i]) * 1099511628211u;
    return from;
}

static const cl_ulong NOTHING = 14695981039346656037u;

static void open_named(const char *name)
{
    cl_device_id devices[64];
    cl_uint count;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, 64, devices, &count));
    for (cl_uint i = 0; i < count; i++) {
        char found[256];
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_NAME, sizeof found, found, NULL));
        if (name == NULL)
            printf("%s\n", found);
        else if (strcmp(found, name) == 0)
            device = devices[i];
    }
    if (name == NULL)
        exit(0);
    REQUIRE(device != NULL);
    MAKE(context, clCreateContext(NULL, 1, &device, hear, NULL, &status));
    MAKE(queue, clCreateCommandQueue(context, device, 0, &status));
    cl_program program;
    MAKE(program, clCreateProgramWithBuiltInKernels(context, 1, &device, "ropeway.stream.next", &status));
    MAKE(next, clCreateKernel(program, "ropeway.stream.next", &status));
    CHECK(clReleaseProgram(program));
    MAKE(about, clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(cl_chunk_ropeway), NULL, &status));
    CHECK(clSetKernelArg(next, 1, sizeof about, &about));
}

static cl_event enqueue(cl_mem chunk)
{
    size_t one = 1;
    cl_event event;
    CHECK(clSetKernelArg(next, 0, sizeof chunk, &chunk));
    CHECK(clEnqueueNDRangeKernel(queue, next, 1, NULL, &one, NULL, 0, NULL, &event));
    return event;
}

/* One chunk into the first `room` bytes of memory that goes on behind them; what is not written stays as it was. */
static cl_int one_chunk(size_t room, cl_chunk_ropeway *said, unsigned char *bytes)
{
    cl_int end;
    memset(bytes, PATTERN, room + BEHIND);
    cl_mem whole, chunk;
    MAKE(whole, clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, room + BEHIND, bytes, &status));
    cl_buffer_region region = {0, room};
    MAKE(chunk, clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
    cl_event event = enqueue(chunk);
    clWaitForEvents(1, &event);
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof end, &end, NULL));
    CHECK(clReleaseEvent(event));
    CHECK(clEnqueueReadBuffer(queue, whole, CL_TRUE, 0, room + BEHIND, bytes, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, about, CL_TRUE, 0, sizeof *said, said, 0, NULL, NULL));
    size_t written = end == CL_COMPLETE ? (size_t)said->size : 0;
    REQUIRE(written <= room);
    for (size_t i = written; i < room + BEHIND; i++)
        REQUIRE(bytes[i] == PATTERN);
    CHECK(clReleaseMemObject(chunk));
    CHECK(clReleaseMemObject(whole));
    return end;
}

static void print_end(cl_int end)
{
    for (int i = 0; i < 5000 && heard[0] == 0; i++)
        usleep(1000);
    printf("ended with %d: %s\n", end, heard);
    heard[0] = 0;
}

int main(int argc, char **argv)
{
    char word[16];
    size_t room = 0;
    cl_ulong last = 0;
    cl_mem waiting = NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_named(argc > 1 ? argv[1] : NULL);
    while (scanf("%15s", word) == 1) {
        cl_chunk_ropeway said;
        if (strcmp(word, "release") == 0) {
            CHECK(clReleaseMemObject(about));
            CHECK(clReleaseKernel(next));
            CHECK(clReleaseCommandQueue(queue));
            CHECK(clReleaseContext(context));
            printf("released\n");
            continue;
        }
        REQUIRE(scanf("%zu", &room) == 1);
        if (strcmp(word, "wait") == 0) {
            MAKE(waiting, clCreateBuffer(context, CL_MEM_READ_WRITE, room, NULL, &status));
            cl_event event = enqueue(waiting);
            CHECK(clReleaseEvent(event));
            CHECK(clReleaseMemObject(waiting));
            CHECK(clFlush(queue));
            printf("enqueued\n");
            continue;
        }
        unsigned char *bytes = malloc(room + BEHIND);
        REQUIRE(bytes != NULL);
        cl_ulong count = 0, size = 0, dropped = 0, of_all = NOTHING;
        cl_int end;
        while ((end = one_chunk(room, &said, bytes)) == CL_COMPLETE) {
            REQUIRE(said.time >= last && said.dropped >= dropped);
            last = said.time, dropped = said.dropped;
            count++, size += said.size, of_all = hash(of_all, bytes, said.size);
            if (strcmp(word, "next") == 0)
                break;
        }
        free(bytes);
        if (strcmp(word, "all") == 0)
            printf("%lu chunks, %lu dropped, %lu bytes, %016lx; ", count, dropped, size, of_all);
        else if (end == CL_COMPLETE)
            printf("chunk %lu, %lu dropped, %lu bytes, %016lx\n", said.sequence, dropped, size, of_all);
        if (end != CL_COMPLETE)
            print_end(end);
    }
    return 0;
}
