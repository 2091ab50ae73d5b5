/* Functions that tests offer as built-in kernels: right ones, and ones that go wrong. */
#include "ropeway_functions.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* global uint *keys, uint count */
int sort_u32(const size_t global_size[3], uint32_t count, const ropeway_argument *arguments)
{
    uint32_t n;
    (void)global_size;
    if (count != 2 || arguments[1].size != sizeof n)
        return 1;
    memcpy(&n, arguments[1].at, sizeof n);
    if (n > arguments[0].size / sizeof n)
        return 2;
    qsort(arguments[0].at, n, sizeof n, ascending);
    return 0;
}

/* global const float *x, global float *y, float a: y = a x + y for as many as the global size says */
int saxpy(const size_t global_size[3], uint32_t count, const ropeway_argument *arguments)
{
    const float *x = arguments[0].at;
    float *y = arguments[1].at, a;
    memcpy(&a, arguments[2].at, sizeof a);
    if (count != 3 || global_size[0] > arguments[0].size / sizeof a || global_size[0] > arguments[1].size / sizeof a)
        return 1;
    for (size_t i = 0; i < global_size[0]; i++)
        y[i] += a * x[i];
    return 0;
}

int fails(const size_t global_size[3], uint32_t count, const ropeway_argument *arguments)
{
    (void)global_size, (void)count, (void)arguments;
    return 7;
}

int crashes(const size_t global_size[3], uint32_t count, const ropeway_argument *arguments)
{
    (void)global_size, (void)count, (void)arguments;
    abort();
}

/* uint milliseconds */
int sleeps(const size_t global_size[3], uint32_t count, const ropeway_argument *arguments)
{
    uint32_t milliseconds;
    (void)global_size, (void)count;
    memcpy(&milliseconds, arguments[0].at, sizeof milliseconds);
    usleep(milliseconds * 1000);
    return 0;
}

/* global const uint *from, global uint *to, global ulong *size, uint factor: what of `from` counts, `*size` bytes, times the factor; half of it
 * counts in `to`. */
int transform(const size_t global_size[3], uint32_t count, const ropeway_argument *arguments)
{
    const uint32_t *from = arguments[0].at;
    uint32_t *to = arguments[1].at, factor;
    uint64_t *size = arguments[2].at;
    (void)global_size, (void)count;
    memcpy(&factor, arguments[3].at, sizeof factor);
    if (*size > arguments[0].size || *size > arguments[1].size)
        return 1;
    for (uint64_t i = 0; i < *size / sizeof *from; i++)
        to[i] = from[i] * factor;
    *size /= 2;
    return 0;
}

/* global uint *x, global const uint *y, uint a, uint n: x = a x + y of the first n */
int mix(const size_t global_size[3], uint32_t count, const ropeway_argument *arguments)
{
    uint32_t *x = arguments[0].at, a, n;
    const uint32_t *y = arguments[1].at;
    (void)global_size, (void)count;
    memcpy(&a, arguments[2].at, sizeof a);
    memcpy(&n, arguments[3].at, sizeof n);
    if (n > arguments[0].size / sizeof *x || n > arguments[1].size / sizeof *y)
        return 1;
    for (uint32_t i = 0; i < n; i++)
        x[i] = x[i] * a + y[i];
    return 0;
}
