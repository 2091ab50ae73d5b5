/* A long link between two network namespaces: whatever goes in at one end comes out at the other so many microseconds later, in order. Each end
 * is a TAP device, which the caller gives an address or puts on a bridge; its rate is the caller's, too (tc). Runs until it is killed, and takes
 * its devices with it:
 *
 * edge_link NAMESPACE DEVICE NAMESPACE DEVICE MICROSECONDS */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* A frame may be a large one that is yet to be cut up, as network cards do it, behind what says how (virtio_net_hdr). */
enum { FRAME_MOST = 10 + 14 + 65536, WAITING_MOST = 2048 };

/* Frames of one direction that are on their way, the oldest first. */
struct way {
    int from, to;
    uint32_t first, count;
    struct {
        int64_t due;
        uint32_t size;
        uint8_t bytes[FRAME_MOST];
    } *frames;
};

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* A TAP device in that namespace. */
static int end_in(const char *space, const char *device)
{
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", space);
    int namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (namespace < 0 || setns(namespace, CLONE_NEWNET) != 0)
        fail(path);
    close(namespace);
    int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
    if (tap < 0 || ioctl(tap, TUNSETIFF, &request) != 0 || ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0)
        fail("/dev/net/tun");
    return tap;
}

/* Takes what has come; a frame that there is no room for is lost, as on any link. */
static void take(struct way *way, int64_t delay)
{
    for (;;) {
        uint32_t at = (way->first + way->count) % WAITING_MOST;
        static uint8_t lost[FRAME_MOST];
        int is_full = way->count == WAITING_MOST;
        ssize_t size = read(way->from, is_full ? lost : way->frames[at].bytes, FRAME_MOST);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno != EAGAIN && errno != EIO) /* EIO: the device is not up yet */
            fail("read");
        if (size <= 0)
            return;
        if (is_full)
            continue;
        way->frames[at].due = now() + delay;
        way->frames[at].size = (uint32_t)size;
        way->count++;
    }
}

/* Hands over what is due; gives when the next is, or -1. */
static int64_t hand_over(struct way *way)
{
    while (way->count > 0) {
        int64_t due = way->frames[way->first].due;
        if (due > now())
            return due;
        /* Where it cannot be written, the other end is down or full: it is lost. */
        if (write(way->to, way->frames[way->first].bytes, way->frames[way->first].size) < 0 && errno != EAGAIN && errno != EIO && errno != EINVAL)
            fail("write");
        way->first = (way->first + 1) % WAITING_MOST;
        way->count--;
    }
    return -1;
}

int main(int argc, char **argv)
{
    int64_t delay = argc == 6 ? (int64_t)atoll(argv[5]) * 1000 : -1;
    if (delay < 0) {
        fprintf(stderr, "usage: %s NAMESPACE DEVICE NAMESPACE DEVICE MICROSECONDS\n", argv[0]);
        return 2;
    }
    int ends[2] = {end_in(argv[1], argv[2]), end_in(argv[3], argv[4])};
    struct way ways[2];
    for (int i = 0; i < 2; i++) {
        ways[i] = (struct way){.from = ends[i], .to = ends[1 - i], .frames = calloc(WAITING_MOST, sizeof *ways[i].frames)};
        if (ways[i].frames == NULL)
            fail("calloc");
    }
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int64_t next = -1;
        for (int i = 0; i < 2; i++) {
            take(&ways[i], delay);
            int64_t due = hand_over(&ways[i]);
            next = next < 0 || (due >= 0 && due < next) ? due : next;
        }
        struct pollfd both[2] = {{.fd = ends[0], .events = POLLIN}, {.fd = ends[1], .events = POLLIN}};
        int64_t left = next < 0 ? 0 : next - now();
        struct timespec wait = {.tv_sec = 0, .tv_nsec = left < 0 ? 0 : left};
        if (ppoll(both, 2, next < 0 ? NULL : &wait, NULL) < 0 && errno != EINTR)
            fail("ppoll");
    }
}
