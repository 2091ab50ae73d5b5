/* A stable radix sort of 32-bit keys with 32-bit values on one device, 4 bits in a pass. The number of keys is in a buffer at the device. */
#ifndef SORTER_H
#define SORTER_H
#include "site.h"

struct sorter {
    const struct site *site;
    cl_uint most;
    cl_kernel count, scan, move;
    cl_mem counts, keys[2], values[2];
};

static inline struct sorter sorter_of(const struct site *site, cl_uint most)
{
    struct sorter sorter = {.site = site, .most = most};
    size_t block = site->items * EACH, blocks = (most + block - 1) / block;
    sorter.count = site_kernel(site, "sort_count");
    sorter.scan = site_kernel(site, "scan");
    sorter.move = site_kernel(site, "sort_move");
    sorter.counts = site_buffer(site->context, blocks * 16 * sizeof(cl_uint));
    for (int i = 0; i < 2; i++) {
        sorter.keys[i] = site_buffer(site->context, most * sizeof(cl_uint));
        sorter.values[i] = site_buffer(site->context, most * sizeof(cl_uint));
    }
    return sorter;
}

/* Sorts `keys[0]`, by so many bits, with `values[0]` or, if they are not numbered yet, with each key's number. What is sorted is in the
 * buffers of this number then. */
static inline int sort_keys(const struct sorter *sorter, cl_mem about, int bits, cl_int numbered)
{
    const struct site *site = sorter->site;
    size_t block = site->items * EACH, blocks = (sorter->most + block - 1) / block;
    cl_uint most = sorter->most, per = 16, fixed = 0;
    cl_mem none = NULL;
    int from = 0;
    for (cl_uint shift = 0; shift < (cl_uint)bits; shift += 4, from ^= 1, numbered = 1) {
        ARGS(sorter->count, 5, ARG(sorter->keys[from]), ARG(sorter->counts), ARG(about), ARG(most), ARG(shift));
        launch(site, sorter->count, blocks * site->items, site->items);
        ARGS(sorter->scan, 6, ARG(sorter->counts), ARG(about), ARG(most), ARG(per), ARG(fixed), ARG(none));
        launch(site, sorter->scan, site->items, site->items);
        ARGS(sorter->move, 9, ARG(sorter->keys[from]), ARG(sorter->values[from]), ARG(sorter->keys[from ^ 1]), ARG(sorter->values[from ^ 1]),
             ARG(sorter->counts), ARG(about), ARG(most), ARG(shift), ARG(numbered));
        launch(site, sorter->move, blocks * site->items, site->items);
    }
    return from;
}
#endif
