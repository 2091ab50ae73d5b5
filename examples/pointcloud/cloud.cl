/* Kernels of the point cloud. All arithmetic is on integers, so that each device draws the same pixels. The number of points is read from a
 * buffer (`about[1]`), as it was written by a decoder that may be on another machine: work-groups behind it have nothing to do.
 *
 * The host defines WIDTH, HEIGHT (multiples of 16), ITEMS and EACH (a work-group of ITEMS sorts ITEMS * EACH keys). */

#define BLOCK (ITEMS * EACH)
#define BACKGROUND 0x20140cu
#define TILES_WIDE (WIDTH / 16)
#define CELLS_WIDE (WIDTH / 8)

typedef struct {
    int m[9];      /* a rotation, 1 is 1 << 14 */
    int distance;  /* of the eye from the middle, 1 is 1 << 13 */
    int focal;     /* pixels */
} view_t;

inline uint count_of(__global const ulong *about, uint most) { return (uint)min(about[1], (ulong)most); }

/* Positions as they are sent and sorted: 1 is 1 << 13. */
__kernel void fix(__global const float *points, __global short *positions, __global const ulong *about, uint most)
{
    uint i = get_global_id(0);
    if (i < count_of(about, most))
        vstore3(convert_short3_sat_rte(vload3(i, points) * 8192.0f), i, positions);
}

/* Smaller keys are farther away. */
__kernel void depths(__global const short *positions, __global uint *keys, __global const ulong *about, uint most, view_t view)
{
    uint i = get_global_id(0);
    if (i >= count_of(about, most))
        return;
    int3 p = convert_int3(vload3(i, positions));
    keys[i] = 0x80000000u - (uint)(view.m[6] * p.x + view.m[7] * p.y + view.m[8] * p.z);
}

/* ---- the sort: 4 bits in a pass, least significant first, stable ---- */

/* The sums of all items of the work-group before this one; `*total` is that of all. */
uint before(__local uint *sums, uint mine, uint *total)
{
    uint item = get_local_id(0), size = get_local_size(0);
    sums[item] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < size; step *= 2) {
        uint other = item >= step ? sums[item - step] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        sums[item] += other;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    *total = sums[size - 1];
    uint found = sums[item] - mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    return found;
}

/* How many keys of each block have each digit: counts[digit][block]. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void sort_count(__global const uint *keys, __global uint *counts, __global const ulong *about, uint most, uint shift)
{
    __local uint found[16];
    uint count = count_of(about, most), blocks = (count + BLOCK - 1) / BLOCK, item = get_local_id(0), block = get_group_id(0);
    if (block >= blocks)
        return;
    for (uint digit = item; digit < 16; digit += ITEMS)
        found[digit] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint first = block * BLOCK, end = min(first + BLOCK, count);
    for (uint i = first + item; i < end; i += ITEMS)
        atomic_inc(&found[keys[i] >> shift & 15]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint digit = item; digit < 16; digit += ITEMS)
        counts[digit * blocks + block] = found[digit];
}

/* One work-group: each value becomes the sum of those before it. There are `fixed` of them, or if that is 0, `per` for each block. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void scan(__global uint *values, __global const ulong *about, uint most, uint per, uint fixed, __global ulong *total)
{
    __local uint sums[ITEMS];
    uint n = fixed ? fixed : (count_of(about, most) + BLOCK - 1) / BLOCK * per;
    uint each = (n + ITEMS - 1) / ITEMS, item = get_local_id(0), first = min(item * each, n), end = min(first + each, n);
    uint mine = 0, all;
    for (uint i = first; i < end; i++)
        mine += values[i];
    uint at = before(sums, mine, &all);
    for (uint i = first; i < end; i++) {
        uint value = values[i];
        values[i] = at;
        at += value;
    }
    if (total != 0 && item == 0)
        total[0] = total[1] = all;
}

/* Moves each key and its value behind all those with a smaller digit, and those with the same that were before it. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void sort_move(__global const uint *keys, __global const uint *values, __global uint *keys_to, __global uint *values_to,
               __global const uint *counts, __global const ulong *about, uint most, uint shift, int numbered)
{
    __local ushort mine[16 * ITEMS]; /* [digit][item]: how many, then where the next goes within the block */
    __local uint sums[ITEMS];
    __local uint starts[16];
    uint count = count_of(about, most), blocks = (count + BLOCK - 1) / BLOCK, item = get_local_id(0), block = get_group_id(0);
    if (block >= blocks)
        return;
    uint first = block * BLOCK + item * EACH;
    uint here = first >= count ? 0 : min(count - first, (uint)EACH);
    uint kept[EACH];
    for (uint digit = 0; digit < 16; digit++)
        mine[digit * ITEMS + item] = 0;
    for (uint i = 0; i < here; i++) {
        kept[i] = keys[first + i];
        mine[(kept[i] >> shift & 15) * ITEMS + item]++;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    /* All 16 * ITEMS of them in the order of digits: each item sums 16 that lie side by side. */
    uint sum = 0, all;
    for (uint i = 0; i < 16; i++)
        sum += mine[item * 16 + i];
    uint at = before(sums, sum, &all);
    for (uint i = 0; i < 16; i++) {
        ushort value = mine[item * 16 + i];
        mine[item * 16 + i] = (ushort)at;
        at += value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint digit = item; digit < 16; digit += ITEMS)
        starts[digit] = counts[digit * blocks + block] - mine[digit * ITEMS];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < here; i++) {
        uint digit = kept[i] >> shift & 15, to = starts[digit] + mine[digit * ITEMS + item]++;
        keys_to[to] = kept[i];
        values_to[to] = numbered ? values[first + i] : first + i;
    }
}

/* ---- the picture ---- */

/* Where each point is in the picture, as x and y, and its colour with its radius in the upper byte; 0 if it is not to be seen. */
__kernel void project(__global const short *positions, __global const uchar *colours, __global uint2 *splats,
                      __global const ulong *about, uint most, view_t view)
{
    uint i = get_global_id(0), count = count_of(about, most);
    if (i >= count)
        return;
    int3 p = convert_int3(vload3(i, positions));
    int x = (view.m[0] * p.x + view.m[1] * p.y + view.m[2] * p.z) >> 14;
    int y = (view.m[3] * p.x + view.m[4] * p.y + view.m[5] * p.z) >> 14;
    int z = ((view.m[6] * p.x + view.m[7] * p.y + view.m[8] * p.z) >> 14) + view.distance;
    uint2 splat = (uint2)(0, 0);
    if (z > 1024) {
        int px = WIDTH / 2 + view.focal * x / z, py = HEIGHT / 2 - view.focal * y / z;
        /* Fewer points are larger, so that they cover as much. */
        int radius = clamp(view.focal * (count < 4000 ? 280 : count < 16000 ? 200 : 130) / z, 2, 4);
        if (px > -radius && py > -radius && px < WIDTH + radius && py < HEIGHT + radius) {
            uchar4 colour = vload4(i, colours);
            splat.x = (uint)(px & 0xffff) | (uint)py << 16;
            splat.y = (uint)colour.x | (uint)colour.y << 8 | (uint)colour.z << 16 | (uint)radius << 24;
        }
    }
    splats[i] = splat;
}

/* How opaque a splat is, of 256, so many pixels (squared) from its middle: most there, not at all from its radius on. */
inline uint opacity(uint radius, uint square)
{
    uint edge = radius * radius;
    /* 65536 / (radius * radius), for 2 to 4. */
    uint inverse = radius == 2 ? 16384u : radius == 3 ? 7281u : 4096u;
    return square >= edge ? 0 : 160u * (edge - square) * inverse >> 16;
}

/* Pixels with a colour laid over them. */
#define OVER(pixels, colour, alphas)                                                                                                      \
    (((((pixels) & 0xff00ffu) * (256u - (alphas)) + ((colour) & 0xff00ffu) * (alphas)) >> 8 & 0xff00ffu) |                                \
     ((((pixels) & 0xff00u) * (256u - (alphas)) + ((colour) & 0xff00u) * (alphas)) >> 8 & 0xff00u))

/* For devices of few and strong units: each item paints a band of rows, all splats in their order. */
__kernel void paint_bands(__global const uint *order, __global const uint2 *splats, __global uint *picture,
                          __global const ulong *about, uint most)
{
    uint count = count_of(about, most), bands = get_global_size(0), band = get_global_id(0);
    int top = (int)(HEIGHT * band / bands), bottom = (int)(HEIGHT * (band + 1) / bands);
    /* Rows of 8 pixels, of which the last is beyond each splat: of each radius, those from the middle on. */
    uint8 rows[5][4];
    for (int radius = 2; radius <= 4; radius++)
        for (int y = 0; y < 4; y++) {
            uint row[8];
            for (int x = 0; x < 8; x++)
                row[x] = opacity((uint)radius, (uint)((x - radius + 1) * (x - radius + 1) + y * y));
            rows[radius][y] = vload8(0, row);
        }
    for (int i = top * WIDTH; i < bottom * WIDTH; i++)
        picture[i] = BACKGROUND;
    /* Splats lie anywhere in memory: many are asked for before the first is needed. */
    uint2 near[32];
    for (uint first = 0; first < count; first += 32) {
        uint here = min(count - first, 32u);
        for (uint i = 0; i < here; i++)
            near[i] = splats[order[first + i]];
        for (uint i = 0; i < here; i++) {
            uint2 splat = near[i];
            int radius = (int)(splat.y >> 24);
            int px = (short)(splat.x & 0xffff), py = (short)(splat.x >> 16), left = px - radius + 1;
            if (radius == 0)
                continue;
            for (int y = max(py - radius + 1, top); y < min(py + radius, bottom); y++) {
                __global uint *row = picture + y * WIDTH;
                if (left >= 0 && left + 8 <= WIDTH) {
                    uint8 pixels = vload8(0, row + left), alphas = rows[radius][abs(y - py)];
                    vstore8(OVER(pixels, splat.y, alphas), 0, row + left);
                } else {
                    for (int x = max(left, 0); x < min(px + radius, WIDTH); x++) {
                        uint alpha = opacity((uint)radius, (uint)((x - px) * (x - px) + (y - py) * (y - py)));
                        row[x] = OVER(row[x], splat.y, alpha);
                    }
                }
            }
        }
    }
}

/* For devices of many units, tiles of 16 x 16 pixels, each with a list of the splats that touch it. First and last tile of a splat: */
inline int4 touched(uint2 splat)
{
    int radius = (int)(splat.y >> 24), px = (short)(splat.x & 0xffff), py = (short)(splat.x >> 16);
    if (radius == 0)
        return (int4)(0, 0, -1, -1);
    return (int4)(max(px - radius + 1, 0) / 16, max(py - radius + 1, 0) / 16, min(px + radius - 1, WIDTH - 1) / 16,
                  min(py + radius - 1, HEIGHT - 1) / 16);
}

/* How many entries the splats of each block make. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void lists_count(__global const uint *order, __global const uint2 *splats, __global uint *counts, __global const ulong *about, uint most)
{
    __local uint sum;
    uint count = count_of(about, most), item = get_local_id(0), first = get_group_id(0) * BLOCK;
    if (first >= count)
        return;
    if (item == 0)
        sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint mine = 0;
    for (uint i = first + item; i < min(first + BLOCK, count); i += ITEMS) {
        int4 box = touched(splats[order[i]]);
        mine += (uint)((box.z - box.x + 1) * (box.w - box.y + 1));
    }
    atomic_add(&sum, mine);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0)
        counts[get_group_id(0)] = sum;
}

/* The entries of all tiles, in the order of the splats: the tile as the key, the splat as the value. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void lists_write(__global const uint *order, __global const uint2 *splats, __global const uint *counts, __global uint *tiles,
                 __global uint *entries, __global const ulong *about, uint most)
{
    __local uint sums[ITEMS];
    uint count = count_of(about, most), block = get_group_id(0), item = get_local_id(0), first = block * BLOCK + item * EACH;
    if (block * BLOCK >= count)
        return;
    uint end = min(first + EACH, count), mine = 0, all;
    for (uint i = first; i < end; i++) {
        int4 box = touched(splats[order[i]]);
        mine += (uint)((box.z - box.x + 1) * (box.w - box.y + 1));
    }
    uint at = counts[block] + before(sums, mine, &all);
    for (uint i = first; i < end; i++) {
        int4 box = touched(splats[order[i]]);
        for (int y = box.y; y <= box.w; y++)
            for (int x = box.x; x <= box.z; x++) {
                tiles[at] = (uint)(y * TILES_WIDE + x);
                entries[at++] = order[i];
            }
    }
}

/* Where the list of each tile begins and ends; both are 0 before. Different items write the two: as parts of one vector, compilers
 * may write both each time. */
__kernel void lists_ends(__global const uint *tiles, __global uint *ends, __global const ulong *about, uint most)
{
    uint i = get_global_id(0), count = count_of(about, most);
    if (i >= count)
        return;
    if (i == 0 || tiles[i - 1] != tiles[i])
        ends[2 * tiles[i]] = i;
    if (i + 1 == count || tiles[i + 1] != tiles[i])
        ends[2 * tiles[i] + 1] = i + 1;
}

__kernel void lists_clear(__global uint *ends) { vstore2((uint2)(0, 0), get_global_id(0), ends); }

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void paint_tiles(__global const uint *entries, __global const uint2 *splats, __global const uint *ends, __global uint *picture)
{
    __local uint2 near[256];
    uint item = get_local_id(1) * 16 + get_local_id(0);
    int x = get_global_id(0), y = get_global_id(1);
    uint2 list = vload2(get_group_id(1) * TILES_WIDE + get_group_id(0), ends);
    uint pixel = BACKGROUND;
    for (uint first = list.x; first < list.y; first += 256) {
        uint here = min(list.y - first, 256u);
        if (item < here)
            near[item] = splats[entries[first + item]];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < here; i++) {
            uint2 splat = near[i];
            int px = (short)(splat.x & 0xffff), py = (short)(splat.x >> 16);
            uint alpha = opacity(splat.y >> 24, (uint)((x - px) * (x - px) + (y - py) * (y - py)));
            pixel = OVER(pixel, splat.y, alpha);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    picture[y * WIDTH + x] = pixel;
}

/* The picture as it is shown: 5, 6 and 5 bits. */
inline uint shown(uint pixel) { return (pixel & 0xf8) << 8 | (pixel & 0xfc00) >> 5 | (pixel & 0xf80000) >> 19; }

__kernel void show(__global const uint *picture, __global ushort *out) { out[get_global_id(0)] = (ushort)shown(picture[get_global_id(0)]); }

/* ---- the picture as it is sent: of each cell of 8 x 8 pixels that is not all background, for each colour the least value and as many bits
 * as the others need above it. A row of 8 pixels is then as many bytes as one pixel has bits. ---- */

inline uint bits_for(uint range) { return range == 0 ? 0 : 32 - clz(range); }

/* The head of a cell: its number, and the bits of red, green and blue from bit 16 on; then the least values. Nothing for background. */
inline uint2 cell_head(__global const uint *picture, uint cell)
{
    uint3 low = (uint3)(255, 255, 255), high = (uint3)(0, 0, 0);
    uint different = 0, first = (cell / CELLS_WIDE * WIDTH + cell % CELLS_WIDE) * 8;
    for (uint y = 0; y < 8; y++)
        for (uint x = 0; x < 8; x++) {
            uint pixel = shown(picture[first + y * WIDTH + x]);
            uint3 colour = (uint3)(pixel >> 11, pixel >> 5 & 63, pixel & 31);
            low = min(low, colour);
            high = max(high, colour);
            different |= pixel ^ shown(BACKGROUND);
        }
    if (different == 0)
        return (uint2)(0, 0);
    uint3 range = high - low;
    return (uint2)(cell | bits_for(range.x) << 16 | bits_for(range.y) << 20 | bits_for(range.z) << 24 | 1u << 31,
                   low.x << 11 | low.y << 5 | low.z);
}

inline uint cell_row(uint head) { return (head >> 16 & 15) + (head >> 20 & 15) + (head >> 24 & 15); }

__kernel void pack_heads(__global const uint *picture, __global uint2 *heads, __global uint *sizes)
{
    uint cell = get_global_id(0);
    uint2 head = cell_head(picture, cell);
    heads[cell] = head;
    sizes[cell] = head.x == 0 ? 0 : 8 + 8 * cell_row(head.x);
}

/* `sent` gets the number of bytes behind it, then the cells. */
__kernel void pack(__global const uint *picture, __global const uint2 *heads, __global const uint *offsets, __global const ulong *total,
                   __global uchar *sent, __global ulong *size)
{
    uint cell = get_global_id(0);
    if (cell == 0)
        size[0] = *(__global ulong *)sent = total[0] + 8;
    uint2 head = heads[cell];
    if (head.x == 0)
        return;
    __global uchar *at = sent + 8 + offsets[cell];
    *(__global uint *)at = head.x;
    *(__global uint *)(at + 4) = head.y;
    at += 8;
    uint bits[3] = {head.x >> 16 & 15, head.x >> 20 & 15, head.x >> 24 & 15};
    uint low[3] = {head.y >> 11, head.y >> 5 & 63, head.y & 31};
    uint first = (cell / CELLS_WIDE * WIDTH + cell % CELLS_WIDE) * 8;
    for (uint y = 0; y < 8; y++) {
        ulong row[3] = {0, 0, 0};
        for (uint x = 0; x < 8; x++) {
            uint pixel = shown(picture[first + y * WIDTH + x]);
            row[0] |= (ulong)((pixel >> 11) - low[0]) << (x * bits[0]);
            row[1] |= (ulong)((pixel >> 5 & 63) - low[1]) << (x * bits[1]);
            row[2] |= (ulong)((pixel & 31) - low[2]) << (x * bits[2]);
        }
        for (uint colour = 0; colour < 3; colour++)
            for (uint i = 0; i < bits[colour]; i++)
                *at++ = (uchar)(row[colour] >> (8 * i));
    }
}
