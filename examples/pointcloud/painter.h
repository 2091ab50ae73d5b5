/* The picture of splats in a given order: painted at a device, and packed there to be sent and unpacked here. */
#ifndef PAINTER_H
#define PAINTER_H
#include "sorter.h"
#include <math.h>

enum {
    PIXELS = WIDTH * HEIGHT,
    TILES = WIDTH / 16 * (HEIGHT / 16),
    TILE_BITS = 12,
    CELLS = PIXELS / 64,
    SENT_MOST = 8 + CELLS * (8 + 128),
    BACKGROUND_SHOWN = 0x0c >> 3 << 11 | 0x14 >> 2 << 5 | 0x20 >> 3 /* red is the lowest byte of the kernels' pixels */
};

/* Where the picture is seen from: the kernels' view_t. */
struct view {
    cl_int m[9], distance, focal;
};

/* The viewpoint of a frame: around the cloud, up and down, nearer and farther. */
static inline struct view view_of(int frame)
{
    double turn = 0.021 * frame, tilt = 0.35 * sin(0.013 * frame), one = 1 << 14;
    double m[9] = {cos(turn), 0, -sin(turn), -sin(tilt) * sin(turn), cos(tilt), -sin(tilt) * cos(turn),
                   cos(tilt) * sin(turn), sin(tilt), cos(tilt) * cos(turn)};
    struct view view = {.distance = (cl_int)lrint((4.2 + 0.6 * cos(0.017 * frame)) * 8192), .focal = 450};
    for (int i = 0; i < 9; i++)
        view.m[i] = (cl_int)lrint(m[i] * one);
    return view;
}

struct painter {
    const struct site *site;
    cl_uint most;
    struct sorter lists; /* of the tiles */
    cl_kernel project, bands, count, write, scan, clear, ends, tiles, show, heads, pack;
    cl_mem splats, picture, shown, counts, entries_about, tile_ends, cell_heads, cell_offsets, cells_about;
};

static inline struct painter painter_of(const struct site *site, cl_uint most)
{
    struct painter painter = {.site = site, .most = most};
    cl_context of = site->context;
    size_t block = site->items * EACH;
    painter.project = site_kernel(site, "project");
    painter.scan = site_kernel(site, "scan");
    painter.show = site_kernel(site, "show");
    painter.heads = site_kernel(site, "pack_heads");
    painter.pack = site_kernel(site, "pack");
    painter.splats = site_buffer(of, most * sizeof(cl_uint2));
    painter.picture = site_buffer(of, PIXELS * sizeof(cl_uint));
    painter.shown = site_buffer(of, PIXELS * sizeof(cl_ushort));
    painter.cell_heads = site_buffer(of, CELLS * sizeof(cl_uint2));
    painter.cell_offsets = site_buffer(of, CELLS * sizeof(cl_uint));
    painter.cells_about = site_buffer(of, 2 * sizeof(cl_ulong));
    if (site->units != 0) {
        painter.bands = site_kernel(site, "paint_bands");
        return painter;
    }
    painter.count = site_kernel(site, "lists_count");
    painter.write = site_kernel(site, "lists_write");
    painter.clear = site_kernel(site, "lists_clear");
    painter.ends = site_kernel(site, "lists_ends");
    painter.tiles = site_kernel(site, "paint_tiles");
    /* A splat has at most 4 pixels to each side, and so touches 4 tiles at most. */
    painter.lists = sorter_of(site, most * 4);
    painter.counts = site_buffer(of, (most + block - 1) / block * sizeof(cl_uint));
    painter.entries_about = site_buffer(of, 2 * sizeof(cl_ulong));
    painter.tile_ends = site_buffer(of, TILES * sizeof(cl_uint2));
    return painter;
}

static inline void paint_tiles(const struct painter *painter, cl_mem order, cl_mem about)
{
    const struct site *site = painter->site;
    size_t block = site->items * EACH, blocks = (painter->most + block - 1) / block;
    size_t area[2] = {WIDTH, HEIGHT}, tile[2] = {16, 16};
    const struct sorter *lists = &painter->lists;
    cl_uint most = painter->most, per = 1, fixed = 0;
    ARGS(painter->count, 5, ARG(order), ARG(painter->splats), ARG(painter->counts), ARG(about), ARG(most));
    launch(site, painter->count, blocks * site->items, site->items);
    ARGS(painter->scan, 6, ARG(painter->counts), ARG(about), ARG(most), ARG(per), ARG(fixed), ARG(painter->entries_about));
    launch(site, painter->scan, site->items, site->items);
    ARGS(painter->write, 7, ARG(order), ARG(painter->splats), ARG(painter->counts), ARG(lists->keys[0]), ARG(lists->values[0]), ARG(about),
         ARG(most));
    launch(site, painter->write, blocks * site->items, site->items);
    int at = sort_keys(lists, painter->entries_about, TILE_BITS, 1);
    ARGS(painter->clear, 1, ARG(painter->tile_ends));
    launch(site, painter->clear, TILES, 0);
    ARGS(painter->ends, 4, ARG(lists->keys[at]), ARG(painter->tile_ends), ARG(painter->entries_about), ARG(lists->most));
    launch(site, painter->ends, lists->most, site->items);
    ARGS(painter->tiles, 4, ARG(lists->values[at]), ARG(painter->splats), ARG(painter->tile_ends), ARG(painter->picture));
    CHECK(clEnqueueNDRangeKernel(site->queue, painter->tiles, 2, NULL, area, tile, 0, NULL, NULL));
}

/* Paints the points in this order. `about` has their number, as cl_points_ropeway does. */
static inline void paint(const struct painter *painter, cl_mem positions, cl_mem colours, cl_mem order, cl_mem about, struct view view)
{
    const struct site *site = painter->site;
    cl_uint most = painter->most;
    ARGS(painter->project, 6, ARG(positions), ARG(colours), ARG(painter->splats), ARG(about), ARG(most), ARG(view));
    launch(site, painter->project, most, site->items);
    if (site->units == 0) {
        paint_tiles(painter, order, about);
        return;
    }
    ARGS(painter->bands, 5, ARG(order), ARG(painter->splats), ARG(painter->picture), ARG(about), ARG(most));
    launch(site, painter->bands, site->units, 1);
}

/* The picture as it is shown, in `shown`. */
static inline void paint_shown(const struct painter *painter)
{
    ARGS(painter->show, 2, ARG(painter->picture), ARG(painter->shown));
    launch(painter->site, painter->show, PIXELS, painter->site->items);
}

/* The picture as it is sent, in `sent`, and how many bytes that is, in `size`. */
static inline void paint_packed(const struct painter *painter, cl_mem sent, cl_mem size)
{
    const struct site *site = painter->site;
    cl_uint most = 0, per = 0, fixed = CELLS;
    ARGS(painter->heads, 3, ARG(painter->picture), ARG(painter->cell_heads), ARG(painter->cell_offsets));
    launch(site, painter->heads, CELLS, 0);
    ARGS(painter->scan, 6, ARG(painter->cell_offsets), ARG(painter->cells_about), ARG(most), ARG(per), ARG(fixed), ARG(painter->cells_about));
    launch(site, painter->scan, site->items, site->items);
    ARGS(painter->pack, 6, ARG(painter->picture), ARG(painter->cell_heads), ARG(painter->cell_offsets), ARG(painter->cells_about), ARG(sent),
         ARG(size));
    launch(site, painter->pack, CELLS, 0);
}

/* Draws a picture that was sent; gives its bytes, or 0 where it is none. */
static inline size_t draw_packed(const uint8_t *sent, uint16_t *pixels)
{
    uint64_t size;
    memcpy(&size, sent, sizeof size);
    if (size < 8 || size > SENT_MOST)
        return 0;
    for (size_t i = 0; i < PIXELS; i++)
        pixels[i] = BACKGROUND_SHOWN;
    for (size_t at = 8; at < size;) {
        uint32_t head[2];
        if (size - at < sizeof head)
            return 0;
        memcpy(head, sent + at, sizeof head);
        at += sizeof head;
        uint32_t cell = head[0] & 0xffff, bits[3] = {head[0] >> 16 & 15, head[0] >> 20 & 15, head[0] >> 24 & 15};
        if (cell >= CELLS || bits[0] > 5 || bits[1] > 6 || bits[2] > 5 || size - at < 8 * (bits[0] + bits[1] + bits[2]))
            return 0;
        uint16_t *row = pixels + (cell / (WIDTH / 8) * WIDTH + cell % (WIDTH / 8)) * 8;
        const int shifts[3] = {11, 5, 0};
        for (int y = 0; y < 8; y++, row += WIDTH) {
            for (int x = 0; x < 8; x++)
                row[x] = (uint16_t)head[1];
            for (int colour = 0; colour < 3; colour++) {
                uint64_t values = 0;
                memcpy(&values, sent + at, bits[colour]);
                at += bits[colour];
                for (int x = 0; x < 8; x++, values >>= bits[colour])
                    row[x] = (uint16_t)(row[x] + ((values & ((1u << bits[colour]) - 1)) << shifts[colour]));
            }
        }
    }
    return size;
}
#endif
