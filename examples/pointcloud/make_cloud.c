/* Writes a stream of a moving point cloud, made by formula: a sphere whose surface waves, with three moons around it. Each frame is
 * compressed with Draco, and has its length before it as 4 bytes, least significant first. The number of points goes up and down from
 * frame to frame, mostly far below the most:
 *
 * make_cloud STREAM MOST [FRAMES [BITS]]
 *
 * BITS is how exact positions are; 0 makes frames that are not compressed, as a hardware decoder would hand them to the client: `PNTS`, the
 * number of points, 3 words of 16 bits for each (1 is 1 << 13), 4 bytes for the colour of each. */
#include "draco.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number between 0 and 1 that looks random. */
static double chance(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x / 4294967296.0;
}

/* How many points a frame has: a quarter of the most on average, all of them in one frame of 32. */
static size_t points_of(int frame, size_t most)
{
    double phase = sin(M_PI * frame / 32.0);
    double part = 0.05 + 0.95 * pow(phase * phase, 8.0) * (0.9 + 0.1 * chance((uint32_t)frame));
    size_t count = frame % 32 == 16 ? most : (size_t)((double)most * part);
    return count < 1 ? 1 : count;
}

/* Point `i` of `count` in a frame. */
static void point(int frame, size_t i, size_t count, float *at, uint8_t *colour)
{
    double time = frame / 30.0, along = ((double)i + 0.5) / (double)count, angle = 2.399963229728653 * (double)i;
    double x, y, z, shade;
    if (i % 8 != 0) {
        double height = 1 - 2 * along, ring = sqrt(1 - height * height);
        double wave = 1 + 0.12 * ring * sin(5 * angle + 3 * time) * sin(9 * height + 2 * time);
        x = wave * ring * cos(angle);
        y = wave * height;
        z = wave * ring * sin(angle);
        shade = (wave - 0.88) / 0.24;
    } else {
        double moon = (double)(i / 8 % 3), turn = 2 * M_PI * moon / 3 + time;
        double height = 2 * chance((uint32_t)i * 3 + 1) - 1, ring = sqrt(1 - height * height), side = 6.2831853 * chance((uint32_t)i * 3 + 2);
        x = 1.7 * cos(turn) + 0.22 * ring * cos(side);
        y = 0.5 * sin(2 * turn) + 0.22 * height;
        z = 1.7 * sin(turn) + 0.22 * ring * sin(side);
        shade = 0.5 + 0.5 * height;
    }
    at[0] = (float)x;
    at[1] = (float)y;
    at[2] = (float)z;
    colour[0] = (uint8_t)(60 + 190 * shade);
    colour[1] = (uint8_t)(90 + 120 * fabs(2 * shade - 1));
    colour[2] = i % 8 == 0 ? 90 : (uint8_t)(240 - 160 * shade);
}

static size_t as_it_is(const float *points, const uint8_t *colours, size_t count, uint8_t *to)
{
    uint32_t number = (uint32_t)count;
    memcpy(to, "PNTS", 4);
    memcpy(to + 4, &number, 4);
    for (size_t i = 0; i < count * 3; i++) {
        int16_t value = (int16_t)lrintf(points[i] * 8192.0f);
        memcpy(to + 8 + 2 * i, &value, 2);
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(to + 8 + 6 * count + 4 * i, colours + 3 * i, 3);
        to[8 + 6 * count + 4 * i + 3] = 255;
    }
    return 8 + 10 * count;
}

int main(int argc, char **argv)
{
    size_t most = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    int frames = argc > 3 ? atoi(argv[3]) : 64, bits = argc > 4 ? atoi(argv[4]) : 12;
    if (most < 1 || most > 10000000 || frames < 1 || bits < 0 || bits > 30) {
        fprintf(stderr, "usage: %s STREAM MOST [FRAMES [BITS]]\n", argv[0]);
        return 2;
    }
    size_t room = most * 24 + 4096, sum = 0, bytes = 0;
    float *points = malloc(most * 3 * sizeof *points);
    uint8_t *colours = malloc(most * 3), *packed = malloc(room);
    FILE *out = fopen(argv[1], "wb");
    if (points == NULL || colours == NULL || packed == NULL || out == NULL) {
        perror(argv[1]);
        return 1;
    }
    for (int frame = 0; frame < frames; frame++) {
        size_t count = points_of(frame, most);
        for (size_t i = 0; i < count; i++)
            point(frame, i, count, points + 3 * i, colours + 3 * i);
        size_t size = bits == 0 ? as_it_is(points, colours, count, packed) : draco_pack(points, colours, count, bits, packed, room);
        uint8_t head[4] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16), (uint8_t)(size >> 24)};
        if (size == 0 || fwrite(head, 1, 4, out) != 4 || fwrite(packed, 1, size, out) != size) {
            fprintf(stderr, "%s: frame %d cannot be written\n", argv[1], frame);
            return 1;
        }
        sum += count;
        bytes += size;
    }
    if (fclose(out) != 0) {
        perror(argv[1]);
        return 1;
    }
    printf("%d frames of %zu points at the most, %zu in all; %zu bytes of %zu\n", frames, most, sum, bytes, sum * 15);
    return 0;
}
