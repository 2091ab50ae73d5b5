/* The kernels that the device knows. */
#include "stub.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

static void sleep_until(cl_ulong when)
{
    struct timespec at = {(time_t)(when / 1000000000u), (long)(when % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {
    }
}

/* The time that so many operations take on this device, in nanoseconds. */
static cl_ulong time_of(double operations)
{
    const char *said = getenv("STUB_GFLOPS");
    double rate = said != NULL ? atof(said) : 0;
    return rate > 0 ? (cl_ulong)(operations / rate) : 0;
}

/* With STUB_DEVICE, a file, all processes that name it have one device: whoever computes has it locked. -1: it cannot be had. */
static int take_device(void)
{
    const char *path = getenv("STUB_DEVICE");
    if (path == NULL)
        return 0;
    int device = open(path, O_RDONLY | O_CLOEXEC);
    while (device >= 0 && flock(device, LOCK_EX) != 0) {
        if (errno != EINTR) {
            close(device);
            return -1;
        }
    }
    return device;
}

static void give_device(int device)
{
    if (getenv("STUB_DEVICE") != NULL)
        close(device);
}

/* product(a, b, c, n): rows of a matrix product, one work-item for each element. It takes the time of the true one; what it gives is a
 * sum of two elements, so that wrong or missing operands show: c[i][j] = a[i][j] + b[(4 i + j % 4) % n][j]. */
static void product(struct command *command)
{
    cl_mem a = command->value[0].memory, b = command->value[1].memory, c = command->value[2].memory;
    size_t n = (size_t)command->value[3].number, rows = command->global[1];
    if (a == NULL || b == NULL || c == NULL || command->global[0] != n || a->size < rows * n * 4 || c->size < rows * n * 4 ||
        b->size < n * n * 4)
        return;
    const float *left = (const float *)a->bytes, *right = (const float *)b->bytes;
    float *out = (float *)c->bytes;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            out[i * n + j] = left[i * n + j] + right[(4 * i + j % 4) % n * n + j];
}

/* inc(p): one more in each element. */
static void inc(struct command *command)
{
    cl_mem p = command->value[0].memory;
    for (size_t i = 0; p != NULL && i < command->global[0] && (i + 1) * 4 <= p->size; i++)
        ((cl_int *)p->bytes)[i] += 1;
}

/* fill(p, n, by): the elements of a matrix of n columns, as the program that checks them works them out. */
static void fill(struct command *command)
{
    cl_mem p = command->value[0].memory;
    size_t n = (size_t)command->value[1].number, by = (size_t)command->value[2].number;
    if (p == NULL || command->global[0] != n || p->size < n * command->global[1] * 4)
        return;
    for (size_t i = 0; i < command->global[1]; i++)
        for (size_t j = 0; j < n; j++)
            ((float *)p->bytes)[i * n + j] = (float)((i * by + j * 7) % 23) - 11;
}

void stub_run_kernel(struct command *command)
{
    const struct declaration *is = command->kernel->is;
    cl_ulong begun = stub_now();
    if (strcmp(is->name, "product") == 0 && is->args == 4) {
        int device = take_device();
        /* What nobody has computed is found to be wrong. */
        if (device < 0)
            return;
        begun = stub_now();
        product(command);
        double n = command->value[3].number;
        sleep_until(begun + time_of(2.0 * n * (double)command->global[0] * (double)command->global[1]));
        give_device(device);
    } else if (strcmp(is->name, "inc") == 0 && is->args == 1) {
        inc(command);
    } else if (strcmp(is->name, "fill") == 0 && is->args == 3) {
        fill(command);
    } else if (strcmp(is->name, "endless") == 0) {
        sleep_until(begun + (cl_ulong)3600 * 1000000000u);
    }
}
