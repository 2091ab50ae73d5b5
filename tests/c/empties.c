/* An empty kernel and clFinish, one after the other.
 *
 * empties
 *
 * For each line on standard input with a number N, N of them. From a line "on" to the next line: as many as there is time for; "on" is
 * printed when that has begun. Each time, prints how many there were, the median of their durations, and the longest one (µs). */
#include "common.h"
#include <poll.h>

/* Durations are counted by tenths of a microsecond; all above 100 ms are as long as that. */
enum { STEPS = 1000000 };

static uint32_t counts[STEPS];
static cl_command_queue queue;
static cl_kernel kernel;
static unsigned long all;
static double longest;

static void once(void)
{
    double begin = seconds();
    launch(queue, kernel, 1, 0, NULL, NULL);
    CHECK(clFinish(queue));
    double took = (seconds() - begin) * 1e6;
    size_t step = (size_t)(took * 10);
    counts[step < STEPS ? step : STEPS - 1]++;
    all++;
    longest = took > longest ? took : longest;
}

static void print(void)
{
    size_t step = 0;
    for (unsigned long seen = 0; step < STEPS && (seen += counts[step]) * 2 < all; step++)
        ;
    printf("%lu %.1f %.1f\n", all, (double)step / 10, longest);
    fflush(stdout);
    memset(counts, 0, sizeof counts);
    all = 0;
    longest = 0;
}

int main(void)
{
    open_device();
    queue = open_queue(0);
    kernel = kernel_of(build("__kernel void nothing(void) {}\n", ""), "nothing");
    /* One line at a time is in the pipe: none is left in a buffer of this program's. */
    char line[32];
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "on\n") == 0) {
            struct pollfd input = {.fd = 0, .events = POLLIN};
            once();
            printf("on\n");
            fflush(stdout);
            while (poll(&input, 1, 0) == 0)
                once();
            REQUIRE(fgets(line, sizeof line, stdin) != NULL);
        } else {
            for (long left = atol(line); left > 0; left--)
                once();
        }
        print();
    }
    return 0;
}
