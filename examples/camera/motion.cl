/* Kernels that find what moves in a camera's frames, and that merge what two cameras have found. The host defines WIDTH and HEIGHT (multiples of 8),
 * ITEMS (of a work-group) and THRESHOLD. Structures are the same in camera.c. */

#define CELLS_WIDE (WIDTH / 8)
#define CELLS_HIGH (HEIGHT / 8)

/* cl_frame_ropeway */
typedef struct {
    ulong size, sequence;
    uint width, height, row_pitch, format;
} frame_t;

/* What moves in a frame: for each row of cells, each of 8 x 8 pixels, how many of them, and from which to which. */
typedef struct {
    uint frame;
    ushort cells[CELLS_HIGH], left[CELLS_HIGH], right[CELLS_HIGH];
} rows_t;

/* The same in short: how many cells, and the smallest box around them. */
typedef struct {
    uint frame, cells;
    ushort left, top, right, bottom;
} motion_t;

/* What two cameras have seen, and for how many frames running both have seen something. */
typedef struct {
    motion_t seen[2];
    uint both, reserved;
} merged_t;

/* One work-group for each row of cells. A cell moves if it differs from the frame before by more than THRESHOLD for a pixel on average. The luma
 * of this frame is kept in `before`. A decoder that holds its frame back has written none, and then nothing moves. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void compare(__global const uchar *frame, __global const frame_t *about, __global uchar *before, __global rows_t *rows)
{
    __local uint cells, left, right;
    uint item = get_local_id(0), y = get_group_id(0);
    int is_there = about->size > 0 && about->width == WIDTH && about->height == HEIGHT;
    if (item == 0) {
        cells = right = 0;
        left = CELLS_WIDE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint x = item; is_there && x < CELLS_WIDE; x += ITEMS) {
        uint sum = 0;
        for (uint row = y * 8; row < y * 8 + 8; row++) {
            uchar8 now = vload8(0, frame + row * about->row_pitch + x * 8), then = vload8(0, before + row * WIDTH + x * 8);
            uchar8 by = abs_diff(now, then);
            sum += by.s0 + by.s1 + by.s2 + by.s3 + by.s4 + by.s5 + by.s6 + by.s7;
            vstore8(now, 0, before + row * WIDTH + x * 8);
        }
        if (about->sequence > 0 && sum > THRESHOLD * 64) {
            atomic_inc(&cells);
            atomic_min(&left, x);
            atomic_max(&right, x + 1);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item != 0)
        return;
    rows->cells[y] = (ushort)cells;
    rows->left[y] = (ushort)left;
    rows->right[y] = (ushort)right;
    if (y == 0)
        rows->frame = (uint)about->sequence;
}

motion_t summed_up(__global const rows_t *rows)
{
    motion_t motion = {rows->frame, 0, CELLS_WIDE, CELLS_HIGH, 0, 0};
    for (uint y = 0; y < CELLS_HIGH; y++)
        if (rows->cells[y] > 0) {
            motion.cells += rows->cells[y];
            motion.left = min(motion.left, rows->left[y]);
            motion.right = max(motion.right, rows->right[y]);
            motion.top = min(motion.top, (ushort)y);
            motion.bottom = (ushort)(y + 1);
        }
    return motion;
}

/* At the server that merges: one item. */
__kernel void merge(__global const rows_t *first, __global const rows_t *second, __global uint *both, __global merged_t *merged, uint at)
{
    merged[at].seen[0] = summed_up(first);
    merged[at].seen[1] = summed_up(second);
    *both = merged[at].seen[0].cells > 0 && merged[at].seen[1].cells > 0 ? *both + 1 : 0;
    merged[at].both = *both;
    merged[at].reserved = 0;
}
