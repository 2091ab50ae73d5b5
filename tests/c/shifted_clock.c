/* A library to be loaded first (LD_PRELOAD): the program's wall clock is SHIFTED_CLOCK seconds ahead, or as many as the
 * file SHIFTED_CLOCK_FILE says just then. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The number in a file; 0 where there is none. */
static long number_in(const char *path)
{
    char text[32] = "";
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t len = read(file, text, sizeof text - 1);
    close(file);
    return len > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int outcome = (int)syscall(SYS_clock_gettime, clock, now);
    const char *shift = getenv("SHIFTED_CLOCK"), *file = getenv("SHIFTED_CLOCK_FILE");
    if (outcome == 0 && clock == CLOCK_REALTIME && (shift != NULL || file != NULL))
        now->tv_sec += file != NULL ? number_in(file) : atol(shift);
    return outcome;
}
