/* Whether a sort is right. */
#ifndef CHECK_H
#define CHECK_H
#include "painter.h"

struct keyed {
    cl_uint key, value;
};

static inline int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->value < y->value ? -1 : x->value > y->value;
}

/* Compares the order, word by word, with what the C library's qsort makes of the same positions. */
static inline void check_order(int frame, const int16_t *positions, const cl_uint *order, size_t count)
{
    struct view view = view_of(frame);
    struct keyed *all = malloc(count * sizeof *all);
    REQUIRE(all != NULL && count > 0);
    for (size_t i = 0; i < count; i++) {
        const int16_t *p = positions + 3 * i;
        all[i].key = 0x80000000u - (cl_uint)(view.m[6] * p[0] + view.m[7] * p[1] + view.m[8] * p[2]);
        all[i].value = (cl_uint)i;
    }
    qsort(all, count, sizeof *all, by_key);
    for (size_t i = 0; i < count; i++)
        if (all[i].value != order[i]) {
            fprintf(stderr, "frame %d: place %zu of %zu has point %u and not %u\n", frame, i, count, order[i], all[i].value);
            exit(1);
        }
    free(all);
}
#endif
