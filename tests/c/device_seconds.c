/* Keeps a device busy for known times, and prints what the server must count at least, and may at most.
 * "finished" runs kernels that somebody waits for, in several ways, with idle times between them. "left" runs one that
 * nobody waits for, and "endless" some that do not end; both then wait for a line on standard input. */
#include "common.h"

static const char *SOURCE = "__kernel void spin(__global uint *x, uint rounds) {\n"
                            "    uint v = x[0];\n"
                            "    for (uint i = 0; i < rounds; i++)\n"
                            "        v = v * 1664525u + (v >> 7 ^ i);\n"
                            "    x[0] = v;\n"
                            "}\n";

enum { IDLE_US = 400000 };

static double least, most;

/* How long the command of `event`, which is given back, was on the device. */
static double on_device(cl_event event)
{
    cl_ulong start, end;
    CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL));
    CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
    CHECK(clReleaseEvent(event));
    return (double)(end - start) * 1e-9;
}

static void idle(void)
{
    usleep(IDLE_US);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    open_device();
    double began = seconds(), took = 0;
    cl_command_queue queues[2] = {open_queue(CL_QUEUE_PROFILING_ENABLE), open_queue(CL_QUEUE_PROFILING_ENABLE)};
    cl_program program = build(SOURCE, NULL);
    cl_kernel kernels[2];
    cl_mem buffers[2];
    for (int i = 0; i < 2; i++) {
        kernels[i] = kernel_of(program, "spin");
        buffers[i] = buffer_of(CL_MEM_READ_WRITE, sizeof(cl_uint), NULL);
        set_arg(kernels[i], 0, sizeof buffers[i], &buffers[i]);
    }
    /* What the library itself has the device do. */
    for (int i = 0; i < 2; i++)
        CHECK(clFinish(queues[i]));
    most += seconds() - began;
    /* Long enough to be seen, on whatever machine. */
    cl_uint rounds = 1 << 20, x = 0;
    cl_event events[2];
    while (took < 0.1) {
        rounds *= 2;
        set_arg(kernels[0], 1, sizeof rounds, &rounds);
        began = seconds();
        launch(queues[0], kernels[0], 1, 0, NULL, &events[0]);
        CHECK(clFinish(queues[0]));
        most += seconds() - began;
        took = on_device(events[0]);
        least += took;
    }
    set_arg(kernels[1], 1, sizeof rounds, &rounds);
    idle();

    if (strcmp(argv[1], "finished") == 0) {
        /* Two queues at one time: the device is busy once. */
        began = seconds();
        for (int i = 0; i < 2; i++) {
            launch(queues[i], kernels[i], 1, 0, NULL, &events[i]);
            CHECK(clFlush(queues[i]));
        }
        for (int i = 0; i < 2; i++)
            CHECK(clFinish(queues[i]));
        most += seconds() - began;
        double one = on_device(events[0]), other = on_device(events[1]);
        least += one > other ? one : other;
        idle();
        /* By an event. */
        began = seconds();
        launch(queues[1], kernels[1], 1, 0, NULL, &events[1]);
        CHECK(clWaitForEvents(1, &events[1]));
        most += seconds() - began;
        least += on_device(events[1]);
        idle();
        /* By a read. */
        began = seconds();
        launch(queues[0], kernels[0], 1, 0, NULL, &events[0]);
        CHECK(clEnqueueReadBuffer(queues[0], buffers[0], CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL));
        most += seconds() - began;
        least += on_device(events[0]);
        idle();
    } else if (strcmp(argv[1], "left") == 0) {
        launch(queues[0], kernels[0], 1, 0, NULL, NULL);
        CHECK(clFlush(queues[0]));
    } else {
        rounds = 0xffffffff;
        set_arg(kernels[0], 1, sizeof rounds, &rounds);
        for (int i = 0; i < 100; i++)
            launch(queues[0], kernels[0], 1, 0, NULL, NULL);
        CHECK(clFlush(queues[0]));
    }
    printf("%.6f %.6f\n", least, most);
    fflush(stdout);
    if (strcmp(argv[1], "finished") != 0) {
        char line[16];
        (void)!fgets(line, sizeof line, stdin);
    }
    return 0;
}
