/* What the program is asked to do. */
#ifndef OPTIONS_H
#define OPTIONS_H
#include "site.h"
#include <getopt.h>

enum { AHEAD_MOST = 16 };
enum mode { LOCAL, SORT, PAINT, PEER, SIZE, MODES };
static const char *const MODE_NAMES[MODES] = {"local", "sort", "paint", "peer", "size"};

struct options {
    enum mode mode;
    const char *stream, *own, *offload, *device, *picture, *pipe, *figures;
    cl_uint most;
    int frames, warm, ahead, tiles, check, hashes, stages;
};

static struct options options = {.most = 200000, .frames = 64, .ahead = 3, .tiles = -1};

static void usage(const char *name)
{
    fprintf(stderr,
            "usage: %s local|sort|paint|peer|size [options]\n"
            "  --stream FILE|HOST:PORT  local, sort and paint: the stream; others have a stream source at a server\n"
            "  --own TEXT, --offload TEXT   the platforms of the client's own and of the other devices [the first platform]\n"
            "  --device TEXT            the other device that sorts, by its name [the first one]\n"
            "  --most N                 points that a frame may have [200000]\n"
            "  --frames N, --warm N     so many frames [64], and so many before them that are not counted [0]\n"
            "  --ahead N                frames that are under way at a time [3]\n"
            "  --paint bands|tiles      how the device paints [bands on processors, tiles on others]\n"
            "  --picture FILE.png       the last frame\n"
            "  --pipe COMMAND           gets all frames as raw pixels, rgb565le, %dx%d\n"
            "  --figures FILE.json      what a frame costs\n"
            "  --hashes                 prints a line for each frame\n"
            "  --check                  compares each order with qsort's\n"
            "  --stages                 how long each stage takes, one after the other\n",
            name, WIDTH, HEIGHT);
    exit(2);
}

static void read_options(int argc, char **argv)
{
    enum { STREAM = 1, OWN, OFFLOAD, DEVICE, MOST, FRAMES, WARM, AHEAD, PAINTED, PICTURE, PIPE, FIGURES, HASHES, CHECKS, STAGES };
    static const struct option known[] = {
        {"stream", 1, NULL, STREAM}, {"own", 1, NULL, OWN}, {"offload", 1, NULL, OFFLOAD}, {"device", 1, NULL, DEVICE},
        {"most", 1, NULL, MOST}, {"frames", 1, NULL, FRAMES}, {"warm", 1, NULL, WARM}, {"ahead", 1, NULL, AHEAD},
        {"paint", 1, NULL, PAINTED}, {"picture", 1, NULL, PICTURE}, {"pipe", 1, NULL, PIPE}, {"figures", 1, NULL, FIGURES},
        {"hashes", 0, NULL, HASHES}, {"check", 0, NULL, CHECKS}, {"stages", 0, NULL, STAGES}, {NULL, 0, NULL, 0}};
    options.mode = MODES;
    for (int i = 0; argc > 1 && i < MODES; i++)
        if (strcmp(argv[1], MODE_NAMES[i]) == 0)
            options.mode = (enum mode)i;
    if (options.mode == MODES)
        usage(argv[0]);
    optind = 2;
    for (int which; (which = getopt_long(argc, argv, "", known, NULL)) != -1;)
        switch (which) {
        case STREAM: options.stream = optarg; break;
        case OWN: options.own = optarg; break;
        case OFFLOAD: options.offload = optarg; break;
        case DEVICE: options.device = optarg; break;
        case MOST: options.most = (cl_uint)strtoul(optarg, NULL, 10); break;
        case FRAMES: options.frames = atoi(optarg); break;
        case WARM: options.warm = atoi(optarg); break;
        case AHEAD: options.ahead = atoi(optarg); break;
        case PAINTED: options.tiles = strcmp(optarg, "tiles") == 0; break;
        case PICTURE: options.picture = optarg; break;
        case PIPE: options.pipe = optarg; break;
        case FIGURES: options.figures = optarg; break;
        case HASHES: options.hashes = 1; break;
        case CHECKS: options.check = 1; break;
        case STAGES: options.stages = 1; break;
        default: usage(argv[0]);
        }
    int has_stream = options.mode == PEER || options.mode == SIZE || options.stream != NULL;
    if (!has_stream || optind != argc || options.frames < 1 || options.warm < 0 || options.ahead < 1 || options.ahead > AHEAD_MOST ||
        options.most < 1 || options.most > 10000000)
        usage(argv[0]);
}
#endif
