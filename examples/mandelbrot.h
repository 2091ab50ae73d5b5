/* The Mandelbrot set as both programs draw it, with devices of one context and with MPI. */
#ifndef MANDELBROT_H
#define MANDELBROT_H
#include <math.h>

#include "common.h"

/* One work-item for each pixel of the rows `first`, `first` + `step`, `first` + 2 `step` and so on. */
static const char *MANDELBROT =
    "__kernel void mandelbrot(__global int *out, int width, int height, int first, int step, int most) {\n"
    "    int x = get_global_id(0), y = first + (int)get_global_id(1) * step;\n"
    "    float scale = 2.6f / height;\n"
    "    float re = (x - 0.68f * width) * scale, im = (y - 0.5f * height) * scale;\n"
    "    float a = 0, b = 0;\n"
    "    int n = 0;\n"
    "    while (n < most && a * a + b * b < 16) {\n"
    "        float t = a * a - b * b + re;\n"
    "        b = 2 * a * b + im;\n"
    "        a = t;\n"
    "        n++;\n"
    "    }\n"
    "    out[get_global_id(1) * width + x] = n;\n"
    "}\n";

struct size {
    int width, height, most;
    cl_uint devices;
};

/* PICTURE.png [WIDTH HEIGHT [ITERATIONS [DEVICES]]] */
static inline struct size arguments(int argc, char **argv)
{
    struct size size = {4800, 3200, 20000, 0};
    if (argc < 2) {
        fprintf(stderr, "usage: %s PICTURE.png [WIDTH HEIGHT [ITERATIONS [DEVICES]]]\n", argv[0]);
        exit(2);
    }
    if (argc > 3) {
        size.width = atoi(argv[2]);
        size.height = atoi(argv[3]);
    }
    if (argc > 4)
        size.most = atoi(argv[4]);
    if (argc > 5)
        size.devices = (cl_uint)atoi(argv[5]);
    REQUIRE(size.width > 0 && size.height > 0 && size.most > 0);
    return size;
}

/* How many rows number `part` of `parts` has, dealt like cards. */
static inline int rows_of(int height, int part, int parts)
{
    return (height - part + parts - 1) / parts;
}

/* The colour of a pixel that took `n` iterations of `most`. */
static inline void colour(unsigned char *pixel, int n, int most)
{
    double t = n >= most ? 0 : fmod(0.21 * log2(n + 1.0), 1), u = 1 - t;
    pixel[0] = (unsigned char)(9 * u * t * t * t * 255);
    pixel[1] = (unsigned char)(15 * u * u * t * t * 255);
    pixel[2] = (unsigned char)(8.5 * u * u * u * t * 255);
}
#endif
