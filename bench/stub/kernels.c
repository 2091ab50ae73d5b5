/* The kernels that the device knows. */
#include "stub.h"

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

void stub_run_kernel(struct command *command)
{
    const struct declaration *is = command->kernel->is;
    cl_ulong begun = stub_now();
    if (strcmp(is->name, "product") == 0 && is->args == 4) {
        product(command);
        double n = command->value[3].number;
        sleep_until(begun + time_of(2.0 * n * (double)command->global[0] * (double)command->global[1]));
    } else if (strcmp(is->name, "inc") == 0 && is->args == 1) {
        inc(command);
    } else if (strcmp(is->name, "endless") == 0) {
        sleep_until(begun + (cl_ulong)3600 * 1000000000u);
    }
}
