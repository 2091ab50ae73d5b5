/* A moving point cloud, seen from a viewpoint that moves, too: each frame is decoded, its points are sorted by their distance from the eye,
 * and painted, the farthest first. What of that is done where:
 *
 *   local   all at the client's own device
 *   sort    as `local`, but another device sorts: positions go there, and the order comes back
 *   peer    the stream's server reads and decodes the stream by custom devices, the other device sorts and paints; the picture comes here
 *   size    as `peer`, with clSetContentSizeBufferPoCL: only what counts of each buffer goes from one to the other, and comes here
 */
#include "painter.h"
#include "stream.h"
#include "../custom.h"
#include "../measure.h"
#include <getopt.h>

enum { AHEAD_MOST = 16 };
enum mode { LOCAL, SORT, PEER, SIZE, MODES };
static const char *const MODE_NAMES[MODES] = {"local", "sort", "peer", "size"};

struct options {
    enum mode mode;
    const char *stream, *own, *offload, *device, *picture, *pipe, *figures;
    cl_uint most;
    int frames, warm, ahead, tiles, check, hashes, stages;
};

/* A frame that is under way. */
struct slot {
    cl_mem chunk, chunk_about, points, colours, about, positions, sent, sent_size;
    cl_event read;
    double begun;
    cl_ulong count[2];
    int16_t *here_positions;
    uint8_t *here_colours, *here_sent;
    cl_uint *here_order;
};

static struct options options = {.most = 200000, .frames = 64, .ahead = 3, .tiles = -1};
static struct site own, far; /* the client's own device, and the other one */
static struct sorter sorter;
static struct painter painter;
static struct stream stream;
static struct slot slots[AHEAD_MOST];
static cl_command_queue source_queue, decoder_queue, reading;
static cl_kernel next_kernel, decode_kernel, fix_kernel, depths_kernel;
static cl_mem own_positions, own_colours, own_about, own_order;
static uint16_t pixels[PIXELS];
static double decoding, sorting, painting;

static void write_buffer(cl_command_queue queue, cl_mem buffer, size_t size, const void *from)
{
    CHECK(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, size, from, 0, NULL, NULL));
}

static cl_kernel built_in(cl_context of, cl_device_id device, const char *name)
{
    cl_int error;
    cl_program program = clCreateProgramWithBuiltInKernels(of, 1, &device, name, &error);
    CHECK(error);
    cl_kernel kernel = clCreateKernel(program, name, &error);
    CHECK(error);
    return kernel;
}

/* The devices of modes `peer` and `size`, in one context. */
static void open_peers(cl_platform_id of)
{
    cl_device_id source = device_with(of, "ropeway.stream.next"), decoder = device_with(of, "ropeway.decode.draco");
    cl_device_id all[3] = {device_named(of, options.device), source, decoder};
    cl_int error;
    cl_context joint = clCreateContext(NULL, source == decoder ? 2 : 3, all, NULL, NULL, &error);
    CHECK(error);
    far = site_in(joint, all[0], options.tiles);
    source_queue = queue_of(joint, source);
    decoder_queue = queue_of(joint, decoder);
    reading = queue_of(joint, all[0]);
    next_kernel = built_in(joint, source, "ropeway.stream.next");
    decode_kernel = built_in(joint, decoder, "ropeway.decode.draco");
    fix_kernel = site_kernel(&far, "fix");
}

/* With mode `size`: of each buffer, only as much counts as another one says. */
static void announce_sizes(cl_platform_id of, struct slot *slot)
{
    set_content_size_fn announce = (set_content_size_fn)clGetExtensionFunctionAddressForPlatform(of, "clSetContentSizeBufferPoCL");
    if (announce == NULL) {
        fprintf(stderr, "the platform does not have cl_pocl_content_size\n");
        exit(1);
    }
    CHECK(announce(slot->chunk, slot->chunk_about));
    CHECK(announce(slot->points, slot->about));
    /* Of the colours a third of that counts. */
    CHECK(announce(slot->colours, slot->about));
    CHECK(announce(slot->sent, slot->sent_size));
}

static void open_slots(cl_platform_id offload)
{
    size_t most = options.most;
    for (int i = 0; i < options.ahead; i++) {
        struct slot *slot = &slots[i];
        slot->here_positions = malloc(most * 6);
        slot->here_colours = malloc(most * 4);
        slot->here_order = malloc(most * sizeof(cl_uint));
        slot->here_sent = malloc(SENT_MOST);
        REQUIRE(slot->here_positions != NULL && slot->here_colours != NULL && slot->here_order != NULL && slot->here_sent != NULL);
        if (options.mode == LOCAL)
            continue;
        slot->about = site_buffer(far.context, sizeof(ropeway_points));
        slot->positions = site_buffer(far.context, most * 6);
        if (options.mode == SORT)
            continue;
        slot->chunk = site_buffer(far.context, most * 16 + 4096);
        slot->chunk_about = site_buffer(far.context, sizeof(ropeway_chunk));
        slot->points = site_buffer(far.context, most * 12);
        slot->colours = site_buffer(far.context, most * 4);
        slot->sent = site_buffer(far.context, SENT_MOST);
        slot->sent_size = site_buffer(far.context, sizeof(cl_ulong));
        if (options.mode == SIZE)
            announce_sizes(offload, slot);
    }
}

static void open_all(void)
{
    size_t most = options.most;
    cl_platform_id offload = options.mode == LOCAL ? NULL : platform_named(options.offload);
    if (options.mode == LOCAL || options.mode == SORT) {
        own = site_of(device_named(platform_named(options.own), NULL), options.tiles);
        stream = stream_at(options.stream, most);
        own_positions = site_buffer(own.context, most * 6);
        own_colours = site_buffer(own.context, most * 4);
        own_order = site_buffer(own.context, most * sizeof(cl_uint));
        own_about = site_buffer(own.context, sizeof(ropeway_points));
        painter = painter_of(&own, options.most);
        painter.shown = site_buffer(own.context, sizeof pixels);
    }
    if (options.mode == SORT) {
        far = site_of(device_named(offload, options.device), options.tiles);
        reading = far.queue;
    }
    if (options.mode == PEER || options.mode == SIZE) {
        open_peers(offload);
        painter = painter_of(&far, options.most);
    }
    const struct site *sorts = options.mode == LOCAL ? &own : &far;
    sorter = sorter_of(sorts, options.most);
    depths_kernel = site_kernel(sorts, "depths");
    open_slots(offload);
}

/* Sorts by distance; the order is in `sorter.values[0]` then. */
static void sort_points(cl_mem positions, cl_mem about, struct view view)
{
    const struct site *site = sorter.site;
    ARGS(depths_kernel, 5, ARG(positions), ARG(sorter.keys[0]), ARG(about), ARG(options.most), ARG(view));
    launch(site, depths_kernel, options.most, site->items);
    REQUIRE(sort_keys(&sorter, about, 32, 0) == 0);
}

/* With --stages, waits for what is done, and adds the time to a stage. */
static void stage(cl_command_queue queue, double *sum, double *since)
{
    if (options.stages) {
        CHECK(clFinish(queue));
        *sum += seconds() - *since;
        *since = seconds();
    }
}

/* The next frame of the stream, decoded here. */
static int decode_here(struct slot *slot)
{
    double begun = seconds();
    slot->count[1] = stream_next(&stream, slot->here_positions, slot->here_colours);
    slot->count[0] = slot->count[1] * 12;
    decoding += seconds() - begun;
    return slot->count[1] != 0;
}

static void paint_here(struct slot *slot, cl_mem order, struct view view)
{
    paint(&painter, own_positions, own_colours, order, own_about, view);
    paint_shown(&painter);
    (void)slot;
}

static void write_points(struct slot *slot)
{
    write_buffer(own.queue, own_positions, slot->count[1] * 6, slot->here_positions);
    write_buffer(own.queue, own_colours, slot->count[1] * 4, slot->here_colours);
    write_buffer(own.queue, own_about, sizeof slot->count, slot->count);
}

/* Begins a frame; 0 at the end of the stream. */
static int begin(int frame, struct slot *slot)
{
    struct view view = view_of(frame);
    slot->begun = seconds();
    if ((options.mode == LOCAL || options.mode == SORT) && !decode_here(slot))
        return 0;
    if (options.mode == LOCAL) {
        double since = seconds();
        write_points(slot);
        sort_points(own_positions, own_about, view);
        stage(own.queue, &sorting, &since);
        if (options.check)
            CHECK(clEnqueueReadBuffer(own.queue, sorter.values[0], CL_TRUE, 0, slot->count[1] * 4, slot->here_order, 0, NULL, NULL));
        paint_here(slot, sorter.values[0], view);
        CHECK(clEnqueueReadBuffer(own.queue, painter.shown, CL_FALSE, 0, sizeof pixels, slot->here_sent, 0, NULL, &slot->read));
        stage(own.queue, &painting, &since);
        CHECK(clFlush(own.queue));
        return 1;
    }
    if (options.mode == SORT) {
        write_buffer(far.queue, slot->positions, slot->count[1] * 6, slot->here_positions);
        write_buffer(far.queue, slot->about, sizeof slot->count, slot->count);
        sort_points(slot->positions, slot->about, view);
        CHECK(clEnqueueReadBuffer(far.queue, sorter.values[0], CL_FALSE, 0, slot->count[1] * 4, slot->here_order, 0, NULL, &slot->read));
        CHECK(clFlush(far.queue));
        return 1;
    }
    cl_event found, decoded, painted;
    size_t one = 1;
    ARGS(next_kernel, 2, ARG(slot->chunk), ARG(slot->chunk_about));
    CHECK(clEnqueueNDRangeKernel(source_queue, next_kernel, 1, NULL, &one, NULL, 0, NULL, &found));
    CHECK(clFlush(source_queue));
    ARGS(decode_kernel, 5, ARG(slot->chunk), ARG(slot->chunk_about), ARG(slot->points), ARG(slot->colours), ARG(slot->about));
    CHECK(clEnqueueNDRangeKernel(decoder_queue, decode_kernel, 1, NULL, &one, NULL, 1, &found, &decoded));
    CHECK(clFlush(decoder_queue));
    size_t items = (options.most + far.items - 1) / far.items * far.items;
    ARGS(fix_kernel, 4, ARG(slot->points), ARG(slot->positions), ARG(slot->about), ARG(options.most));
    CHECK(clEnqueueNDRangeKernel(far.queue, fix_kernel, 1, NULL, &items, &far.items, 1, &decoded, NULL));
    sort_points(slot->positions, slot->about, view);
    if (options.check) {
        CHECK(clEnqueueReadBuffer(far.queue, slot->about, CL_TRUE, 0, sizeof slot->count, slot->count, 0, NULL, NULL));
        REQUIRE(slot->count[1] <= options.most);
        CHECK(clEnqueueReadBuffer(far.queue, slot->positions, CL_TRUE, 0, slot->count[1] * 6, slot->here_positions, 0, NULL, NULL));
        CHECK(clEnqueueReadBuffer(far.queue, sorter.values[0], CL_TRUE, 0, slot->count[1] * 4, slot->here_order, 0, NULL, NULL));
    }
    paint(&painter, slot->positions, slot->colours, sorter.values[0], slot->about, view);
    paint_packed(&painter, slot->sent, slot->sent_size);
    CHECK(clEnqueueMarkerWithWaitList(far.queue, 0, NULL, &painted));
    CHECK(clFlush(far.queue));
    CHECK(clEnqueueReadBuffer(reading, slot->sent, CL_FALSE, 0, SENT_MOST, slot->here_sent, 1, &painted, &slot->read));
    CHECK(clFlush(reading));
    CHECK(clReleaseEvent(found));
    CHECK(clReleaseEvent(decoded));
    CHECK(clReleaseEvent(painted));
    return 1;
}

struct keyed {
    cl_uint key, value;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->value < y->value ? -1 : x->value > y->value;
}

/* Compares the order, word by word, with what the C library's qsort makes of the same positions. */
static void check_order(int frame, const struct slot *slot)
{
    struct view view = view_of(frame);
    size_t count = slot->count[1];
    struct keyed *all = malloc(count * sizeof *all);
    REQUIRE(all != NULL && count > 0);
    for (size_t i = 0; i < count; i++) {
        const int16_t *p = slot->here_positions + 3 * i;
        all[i].key = 0x80000000u - (cl_uint)(view.m[6] * p[0] + view.m[7] * p[1] + view.m[8] * p[2]);
        all[i].value = (cl_uint)i;
    }
    qsort(all, count, sizeof *all, by_key);
    for (size_t i = 0; i < count; i++)
        if (all[i].value != slot->here_order[i]) {
            fprintf(stderr, "frame %d: place %zu of %zu has point %u and not %u\n", frame, i, count, slot->here_order[i], all[i].value);
            exit(1);
        }
    free(all);
}

/* Waits for a frame and draws it; 0 if it is none, as the stream has ended. Gives the bytes of its picture as it came. */
static size_t finish(int frame, struct slot *slot)
{
    cl_int error = clWaitForEvents(1, &slot->read), status = CL_COMPLETE;
    size_t size = sizeof pixels;
    CHECK(clGetEventInfo(slot->read, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
    if (error != CL_SUCCESS || status != CL_COMPLETE) {
        fprintf(stderr, "frame %d ended with status %d\n", frame, status);
        exit(1);
    }
    CHECK(clReleaseEvent(slot->read));
    if (options.check)
        check_order(frame, slot);
    if (options.mode == LOCAL)
        memcpy(pixels, slot->here_sent, sizeof pixels);
    if (options.mode == SORT) {
        double since = seconds();
        write_points(slot);
        write_buffer(own.queue, own_order, slot->count[1] * 4, slot->here_order);
        paint_here(slot, own_order, view_of(frame));
        CHECK(clEnqueueReadBuffer(own.queue, painter.shown, CL_TRUE, 0, sizeof pixels, pixels, 0, NULL, NULL));
        stage(own.queue, &painting, &since);
    }
    if (options.mode == PEER || options.mode == SIZE) {
        size = draw_packed(slot->here_sent, pixels);
        if (size == 0) {
            fprintf(stderr, "frame %d: what came is no picture\n", frame);
            exit(1);
        }
    }
    return size;
}

static void show_frame(int frame, FILE *viewer)
{
    if (options.hashes) {
        uint64_t hash = 0xcbf29ce484222325u;
        size_t painted = 0;
        for (size_t i = 0; i < PIXELS; i++) {
            hash = (hash ^ pixels[i]) * 0x100000001b3u;
            painted += pixels[i] != BACKGROUND_SHOWN;
        }
        printf("frame %d: %zu pixels painted, %016llx%s\n", frame, painted, (unsigned long long)hash, options.check ? ", order right" : "");
    }
    if (viewer != NULL && fwrite(pixels, 1, sizeof pixels, viewer) != sizeof pixels) {
        fprintf(stderr, "'%s' takes no more frames\n", options.pipe);
        exit(1);
    }
}

static void write_last(void)
{
    unsigned char *out = malloc(PIXELS * 3);
    REQUIRE(out != NULL);
    for (size_t i = 0; i < PIXELS; i++) {
        out[i * 3] = (unsigned char)((pixels[i] >> 11) * 255 / 31);
        out[i * 3 + 1] = (unsigned char)((pixels[i] >> 5 & 63) * 255 / 63);
        out[i * 3 + 2] = (unsigned char)((pixels[i] & 31) * 255 / 31);
    }
    write_picture(options.picture, out, WIDTH, HEIGHT);
    free(out);
}

static void usage(const char *name)
{
    fprintf(stderr,
            "usage: %s local|sort|peer|size [options]\n"
            "  --stream FILE|HOST:PORT  local and sort: the stream; others have a stream source at a server\n"
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
    enum { STREAM = 1, OWN, OFFLOAD, DEVICE, MOST, FRAMES, WARM, AHEAD, PAINT, PICTURE, PIPE, FIGURES, HASHES, CHECKS, STAGES };
    static const struct option known[] = {
        {"stream", 1, NULL, STREAM}, {"own", 1, NULL, OWN}, {"offload", 1, NULL, OFFLOAD}, {"device", 1, NULL, DEVICE},
        {"most", 1, NULL, MOST}, {"frames", 1, NULL, FRAMES}, {"warm", 1, NULL, WARM}, {"ahead", 1, NULL, AHEAD},
        {"paint", 1, NULL, PAINT}, {"picture", 1, NULL, PICTURE}, {"pipe", 1, NULL, PIPE}, {"figures", 1, NULL, FIGURES},
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
        case PAINT: options.tiles = strcmp(optarg, "tiles") == 0; break;
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

int main(int argc, char **argv)
{
    read_options(argc, argv);
    open_all();
    FILE *viewer = options.pipe == NULL ? NULL : popen(options.pipe, "w");
    struct cost since = cost_now();
    int begun = 0, ended = 0, all = options.warm + options.frames;
    double latency = 0, bytes = 0;
    for (; ended < all; ended++) {
        while (begun < all && begun < ended + options.ahead && begin(begun, &slots[begun % options.ahead]))
            begun++;
        if (begun == ended)
            break;
        size_t size = finish(ended, &slots[ended % options.ahead]);
        show_frame(ended, viewer);
        if (ended + 1 == options.warm) {
            since = cost_now();
            decoding = sorting = painting = 0;
        }
        if (ended >= options.warm) {
            latency += seconds() - slots[ended % options.ahead].begun;
            bytes += (double)size;
        }
    }
    int counted = ended - options.warm;
    if (counted < 1) {
        fprintf(stderr, "the stream has only %d frames\n", ended);
        return 1;
    }
    cost_said(MODE_NAMES[options.mode], since, counted, latency / counted, options.figures);
    fprintf(stderr, "a frame is shown %.1f ms after it was begun; a picture has %.0f bytes\n", latency / counted * 1e3, bytes / counted);
    if (options.stages)
        fprintf(stderr, "decoding %.2f ms, sorting %.2f, painting %.2f\n", decoding / counted * 1e3, sorting / counted * 1e3,
                painting / counted * 1e3);
    if (options.picture != NULL)
        write_last();
    if (viewer != NULL && pclose(viewer) != 0) {
        fprintf(stderr, "'%s' has failed\n", options.pipe);
        return 1;
    }
    return 0;
}
