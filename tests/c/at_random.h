/* What programs share that do something N times, as "MODE N", or commands at random, as "random SEED STEPS": numbers that look
 * random, and an order in which each command comes after the one before, on whatever queue. */
#ifndef AT_RANDOM_H
#define AT_RANDOM_H
#include "common.h"

enum { MOST_DEVICES = 3, QUEUE_KINDS = 3 };

static cl_command_queue queues[QUEUE_KINDS * MOST_DEVICES];
static unsigned queue_count;
static cl_event last;
static uint64_t state;

static inline unsigned draw(unsigned below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)((state >> 11) % below);
}

/* The next command comes after this one. */
static inline void after(cl_event event)
{
    if (last)
        CHECK(clReleaseEvent(last));
    last = event;
}

static inline cl_uint waits(void) { return last != NULL; }
static inline const cl_event *list(void) { return last ? &last : NULL; }

/* All has ended: nothing is left to wait for, and what comes next may find everything quiet. */
static inline void settle(void)
{
    for (unsigned i = 0; i < queue_count; i++)
        CHECK(clFinish(queues[i]));
    after(NULL);
}

/* Makes a context of all devices, queues of all kinds for each, and a program for all. */
static inline cl_program open_all(const char *source)
{
    static const cl_command_queue_properties KINDS[QUEUE_KINDS] = {0, CL_QUEUE_PROFILING_ENABLE,
                                                                   CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE};
    cl_device_id devices[MOST_DEVICES];
    cl_uint count;
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST_DEVICES, devices, &count));
    count = count < MOST_DEVICES ? count : MOST_DEVICES;
    MAKE(context, clCreateContext(NULL, count, devices, NULL, NULL, &status));
    cl_command_queue_properties able;
    CHECK(clGetDeviceInfo(devices[0], CL_DEVICE_QUEUE_PROPERTIES, sizeof able, &able, NULL));
    for (cl_uint i = 0; i < count; i++)
        for (int kind = 0; kind < QUEUE_KINDS; kind++) {
            if (KINDS[kind] & ~able)
                continue;
            cl_command_queue queue;
            MAKE(queue, clCreateCommandQueue(context, devices[i], KINDS[kind], &status));
            queues[queue_count++] = queue;
        }
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    return program;
}

/* Does what the arguments say, on one device or with what `random_steps` opens itself. */
static inline int as_asked(int argc, char **argv, void (*counted)(const char *mode, int count),
                           void (*random_steps)(int steps))
{
    REQUIRE(argc >= 3);
    open_device();
    if (strcmp(argv[1], "random") != 0) {
        counted(argv[1], atoi(argv[2]));
        return 0;
    }
    REQUIRE(argc == 4);
    unsigned long seed = strtoul(argv[2], NULL, 10);
    state = seed * 0x9e3779b97f4a7c15u + 1;
    random_steps(atoi(argv[3]));
    printf("seed %lu: all right\n", seed);
    return 0;
}

#endif
