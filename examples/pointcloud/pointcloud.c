/* A moving point cloud, seen from a viewpoint that moves, too: each frame is decoded, its points are sorted by their distance from the eye,
 * and painted, the farthest first. What of that is done where:
 *
 *   local   all at the client's own device
 *   sort    as `local`, but another device sorts: positions go there, and the order comes back
 *   paint   the client decodes, another device sorts and paints: points and colours go there, and the picture comes back
 *   peer    the stream's server reads and decodes the stream by custom devices, the other device sorts and paints; the picture comes here
 *   size    as `peer`, with clSetContentSizeBufferPoCL: only what counts of each buffer goes from one to the other, and comes here
 */
#include "check.h"
#include "options.h"
#include "stream.h"
#include "../measure.h"
#include <CL/cl_ropeway_custom_devices.h>

typedef cl_int(CL_API_CALL *set_content_size_fn)(cl_mem buffer, cl_mem content_size_buffer);

/* A frame that is under way. */
struct slot {
    cl_mem chunk, chunk_about, points, colours, about, colours_about, positions, sent, sent_size;
    cl_event read;
    double begun;
    cl_ulong count[2];
    int16_t *here_positions;
    uint8_t *here_colours, *here_sent;
    cl_uint *here_order;
};

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
    cl_context joint = clCreateContext(NULL, source == decoder ? 2 : 3, all, said, NULL, &error);
    CHECK(error);
    far = site_in(joint, all[0], options.tiles);
    source_queue = queue_of(joint, source);
    decoder_queue = queue_of(joint, decoder);
    next_kernel = built_in(joint, source, "ropeway.stream.next");
    decode_kernel = built_in(joint, decoder, "ropeway.decode.draco");
    fix_kernel = site_kernel(&far, "fix");
}

/* Of each buffer, only as much counts as another one says: asked for by mode `size`, taken where it is offered by `paint`. */
static void announce_sizes(cl_platform_id of, struct slot *slot)
{
    char extensions[65536] = "";
    CHECK(clGetPlatformInfo(of, CL_PLATFORM_EXTENSIONS, sizeof extensions, extensions, NULL));
    set_content_size_fn announce = (set_content_size_fn)clGetExtensionFunctionAddressForPlatform(of, "clSetContentSizeBufferPoCL");
    if (announce == NULL || strstr(extensions, "cl_pocl_content_size") == NULL) {
        if (options.mode == PAINT)
            return;
        fprintf(stderr, "the platform does not have cl_pocl_content_size\n");
        exit(1);
    }
    CHECK(announce(slot->sent, slot->sent_size));
    if (options.mode == PAINT)
        return;
    CHECK(announce(slot->chunk, slot->chunk_about));
    CHECK(announce(slot->points, slot->about));
    CHECK(announce(slot->colours, slot->colours_about));
}

static void *memory_of(size_t size)
{
    void *memory = malloc(size);
    REQUIRE(memory != NULL);
    return memory;
}

static void open_slot(cl_platform_id offload, struct slot *slot)
{
    size_t most = options.most;
    slot->here_positions = memory_of(most * 6);
    slot->here_colours = memory_of(most * 4);
    slot->here_order = memory_of(most * sizeof(cl_uint));
    slot->here_sent = memory_of(SENT_MOST);
    if (options.mode == LOCAL)
        return;
    slot->about = site_buffer(far.context, sizeof(cl_points_ropeway));
    slot->positions = site_buffer(far.context, most * 6);
    if (options.mode == SORT)
        return;
    slot->colours = site_buffer(far.context, most * 4);
    slot->sent = site_buffer(far.context, SENT_MOST);
    slot->sent_size = site_buffer(far.context, sizeof(cl_ulong));
    if (options.mode != PAINT) {
        slot->chunk = site_buffer(far.context, most * 16 + 4096);
        slot->chunk_about = site_buffer(far.context, sizeof(cl_chunk_ropeway));
        slot->points = site_buffer(far.context, most * 12);
        slot->colours_about = site_buffer(far.context, sizeof(cl_points_ropeway));
    }
    if (options.mode != PEER)
        announce_sizes(offload, slot);
}

static void open_all(void)
{
    size_t most = options.most;
    cl_platform_id offload = options.mode == LOCAL ? NULL : platform_named(options.offload);
    if (options.mode == LOCAL || options.mode == SORT) {
        own = site_of(device_named(platform_named(options.own), NULL), options.tiles);
        own_positions = site_buffer(own.context, most * 6);
        own_colours = site_buffer(own.context, most * 4);
        own_order = site_buffer(own.context, most * sizeof(cl_uint));
        own_about = site_buffer(own.context, sizeof(cl_points_ropeway));
    }
    if (options.mode == PEER || options.mode == SIZE)
        open_peers(offload);
    else
        stream = stream_at(options.stream, most);
    if (options.mode == SORT || options.mode == PAINT)
        far = site_of(device_named(offload, options.device), options.tiles);
    if (options.mode != LOCAL)
        reading = queue_of(far.context, far.device);
    const struct site *sorts = options.mode == LOCAL ? &own : &far;
    painter = painter_of(options.mode == SORT ? &own : sorts, options.most);
    sorter = sorter_of(sorts, options.most);
    depths_kernel = site_kernel(sorts, "depths");
    for (int i = 0; i < options.ahead; i++)
        open_slot(offload, &slots[i]);
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

/* Reads into `to` when all that is on the other device's queue so far is done. */
static void read_behind(struct slot *slot, cl_mem buffer, size_t size, void *to)
{
    cl_event done;
    CHECK(clEnqueueMarkerWithWaitList(far.queue, 0, NULL, &done));
    CHECK(clEnqueueReadBuffer(reading, buffer, CL_FALSE, 0, size, to, 1, &done, &slot->read));
    CHECK(clFlush(far.queue));
    CHECK(clFlush(reading));
    CHECK(clReleaseEvent(done));
}

/* With --check, gets the order. */
static void read_order(cl_command_queue queue, struct slot *slot)
{
    if (options.check)
        CHECK(clEnqueueReadBuffer(queue, sorter.values[0], CL_TRUE, 0, slot->count[1] * 4, slot->here_order, 0, NULL, NULL));
}

static void write_points(struct slot *slot)
{
    write_buffer(own.queue, own_positions, slot->count[1] * 6, slot->here_positions);
    write_buffer(own.queue, own_colours, slot->count[1] * 4, slot->here_colours);
    write_buffer(own.queue, own_about, sizeof slot->count, slot->count);
}

static void begin_local(struct slot *slot, struct view view)
{
    double since = seconds();
    write_points(slot);
    sort_points(own_positions, own_about, view);
    stage(own.queue, &sorting, &since);
    read_order(own.queue, slot);
    paint(&painter, own_positions, own_colours, sorter.values[0], own_about, view);
    paint_shown(&painter);
    CHECK(clEnqueueReadBuffer(own.queue, painter.shown, CL_FALSE, 0, sizeof pixels, slot->here_sent, 0, NULL, &slot->read));
    stage(own.queue, &painting, &since);
    CHECK(clFlush(own.queue));
}

static void begin_sort(struct slot *slot, struct view view)
{
    write_buffer(far.queue, slot->positions, slot->count[1] * 6, slot->here_positions);
    write_buffer(far.queue, slot->about, sizeof slot->count, slot->count);
    sort_points(slot->positions, slot->about, view);
    /* On the same queue: the next frame is sorted in the same buffers. */
    CHECK(clEnqueueReadBuffer(far.queue, sorter.values[0], CL_FALSE, 0, slot->count[1] * 4, slot->here_order, 0, NULL, &slot->read));
    CHECK(clFlush(far.queue));
}

/* Paints at the other device, and asks for the picture. */
static void paint_far(struct slot *slot, struct view view)
{
    paint(&painter, slot->positions, slot->colours, sorter.values[0], slot->about, view);
    paint_packed(&painter, slot->sent, slot->sent_size);
    read_behind(slot, slot->sent, SENT_MOST, slot->here_sent);
}

static void begin_paint(struct slot *slot, struct view view)
{
    write_buffer(far.queue, slot->positions, slot->count[1] * 6, slot->here_positions);
    write_buffer(far.queue, slot->colours, slot->count[1] * 4, slot->here_colours);
    write_buffer(far.queue, slot->about, sizeof slot->count, slot->count);
    sort_points(slot->positions, slot->about, view);
    read_order(far.queue, slot);
    paint_far(slot, view);
}

/* The source, the decoder and the other device wait for each other; nothing of what they pass on comes here but the picture. */
static void begin_peer(struct slot *slot, struct view view)
{
    cl_event found, decoded;
    size_t one = 1, items = (options.most + far.items - 1) / far.items * far.items;
    ARGS(next_kernel, 2, ARG(slot->chunk), ARG(slot->chunk_about));
    CHECK(clEnqueueNDRangeKernel(source_queue, next_kernel, 1, NULL, &one, NULL, 0, NULL, &found));
    CHECK(clFlush(source_queue));
    ARGS(decode_kernel, 6, ARG(slot->chunk), ARG(slot->chunk_about), ARG(slot->points), ARG(slot->colours), ARG(slot->about),
         ARG(slot->colours_about));
    CHECK(clEnqueueNDRangeKernel(decoder_queue, decode_kernel, 1, NULL, &one, NULL, 1, &found, &decoded));
    CHECK(clFlush(decoder_queue));
    ARGS(fix_kernel, 4, ARG(slot->points), ARG(slot->positions), ARG(slot->about), ARG(options.most));
    CHECK(clEnqueueNDRangeKernel(far.queue, fix_kernel, 1, NULL, &items, &far.items, 1, &decoded, NULL));
    sort_points(slot->positions, slot->about, view);
    if (options.check) {
        CHECK(clEnqueueReadBuffer(far.queue, slot->about, CL_TRUE, 0, sizeof slot->count, slot->count, 0, NULL, NULL));
        REQUIRE(slot->count[1] <= options.most);
        CHECK(clEnqueueReadBuffer(far.queue, slot->positions, CL_TRUE, 0, slot->count[1] * 6, slot->here_positions, 0, NULL, NULL));
        read_order(far.queue, slot);
    }
    paint_far(slot, view);
    CHECK(clReleaseEvent(found));
    CHECK(clReleaseEvent(decoded));
}

/* Begins a frame; 0 at the end of the stream. */
static int begin(int frame, struct slot *slot)
{
    struct view view = view_of(frame);
    slot->begun = seconds();
    if (options.mode != PEER && options.mode != SIZE) {
        slot->count[1] = stream_next(&stream, slot->here_positions, slot->here_colours);
        slot->count[0] = slot->count[1] * 12;
        decoding += seconds() - slot->begun;
        if (slot->count[1] == 0)
            return 0;
    }
    switch (options.mode) {
    case LOCAL: begin_local(slot, view); break;
    case SORT: begin_sort(slot, view); break;
    case PAINT: begin_paint(slot, view); break;
    default: begin_peer(slot, view);
    }
    return 1;
}

/* Waits for a frame and draws it. Gives the bytes of its picture as it came. */
static size_t finish(int frame, struct slot *slot)
{
    cl_int error = clWaitForEvents(1, &slot->read), status = CL_COMPLETE; /* less than 0 at the end of the stream, too */
    size_t size = sizeof pixels;
    CHECK(clGetEventInfo(slot->read, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
    if (error != CL_SUCCESS || status != CL_COMPLETE) {
        fprintf(stderr, "frame %d ended with status %d\n", frame, status);
        exit(1);
    }
    CHECK(clReleaseEvent(slot->read));
    if (options.check)
        check_order(frame, slot->here_positions, slot->here_order, slot->count[1]);
    if (options.mode == LOCAL)
        memcpy(pixels, slot->here_sent, sizeof pixels);
    if (options.mode == SORT) {
        double since = seconds();
        write_points(slot);
        write_buffer(own.queue, own_order, slot->count[1] * 4, slot->here_order);
        paint(&painter, own_positions, own_colours, own_order, own_about, view_of(frame));
        paint_shown(&painter);
        CHECK(clEnqueueReadBuffer(own.queue, painter.shown, CL_TRUE, 0, sizeof pixels, pixels, 0, NULL, NULL));
        stage(own.queue, &painting, &since);
    }
    if (options.mode >= PAINT) {
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
        fflush(stdout);
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
