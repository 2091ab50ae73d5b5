/* Uses a context of all devices in ways that make the library start threads, then takes a signal with sigtimedwait: only the program's own thread
 * blocks it, so that it would end the program if it were delivered to another. */
#define _GNU_SOURCE
#include "common.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>

static volatile sig_atomic_t called;

static void on_event(cl_event event, cl_int at, void *data)
{
    (void)event, (void)at, (void)data;
    called = 1;
}

static void on_build(cl_program program, void *data)
{
    (void)program, (void)data;
    called = 1;
}

static void wait_until_called(void)
{
    AWAIT(called);
    REQUIRE(called);
    called = 0;
}

/* Counts the threads beside this one, and names those that do not block all signals but those that a thread causes itself. */
static int look_at_threads(void)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGKILL, SIGSTOP};
    uint64_t wanted = 0x7fffffff; /* not those of real time, of which the C library keeps some for itself */
    int threads = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        wanted &= ~(1ull << (own[i] - 1));
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], line[200], name[100] = "";
        if (task->d_name[0] == '.' || atoi(task->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue; /* it has ended */
        while (fgets(line, sizeof line, file)) {
            sscanf(line, "Name: %99s", name);
            if (strncmp(line, "SigBlk:", 7) == 0) {
                threads++;
                if ((strtoull(line + 7, NULL, 16) & wanted) != wanted)
                    printf("%s does not block all signals: %s", name, line);
            }
        }
        fclose(file);
    }
    closedir(tasks);
    return threads;
}

int main(void)
{
    cl_device_id devices[8];
    cl_uint count;
    static const char *source = "__kernel void add(__global int *x) { x[get_global_id(0)] += 1; }\n";
    enum { ITEMS = 1 << 20 };
    cl_program program;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 8, devices, &count));
    MAKE(context, clCreateContext(NULL, count, devices, NULL, NULL, &status));
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    CHECK(clBuildProgram(program, 0, NULL, NULL, on_build, NULL));
    wait_until_called();
    cl_kernel kernel = kernel_of(program, "add");
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, ITEMS * sizeof(int), NULL);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    for (cl_uint i = 0; i < count; i++) {
        cl_command_queue queue;
        cl_event event;
        MAKE(queue, clCreateCommandQueue(context, devices[i], 0, &status));
        launch(queue, kernel, ITEMS, 0, NULL, &event);
        CHECK(clSetEventCallback(event, CL_COMPLETE, on_event, NULL));
        CHECK(clFlush(queue));
        wait_until_called();
        CHECK(clFinish(queue));
    }
    int threads = look_at_threads();
    REQUIRE(threads >= 2);

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    REQUIRE(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        struct timespec limit = {.tv_sec = 30};
        REQUIRE(kill(getpid(), SIGTERM) == 0 && kill(getpid(), SIGUSR1) == 0);
        REQUIRE(sigtimedwait(&set, NULL, &limit) == SIGUSR1);
        REQUIRE(sigtimedwait(&set, NULL, &limit) == SIGTERM);
    }
    printf("right\n");
    return 0;
}
