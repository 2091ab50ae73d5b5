/* What the C examples share: all devices of a platform in one context, checked calls, a clock, pictures. Plain OpenCL 1.2. */
#ifndef COMMON_H
#define COMMON_H
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cl_int check_error = (call);                                                                                   \
        if (check_error != CL_SUCCESS) {                                                                               \
            fprintf(stderr, "%s returned %d\n", #call, check_error);                                                   \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { MOST_DEVICES = 64 };

static cl_platform_id platform;
static cl_device_id devices[MOST_DEVICES];
static cl_command_queue queues[MOST_DEVICES];
static cl_uint device_count;
static cl_context context;

/* The first platform's devices, `most` of them if that is not 0, in one context with a queue each. */
static inline void open_devices(cl_uint most)
{
    cl_int error;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST_DEVICES, devices, &device_count));
    if (most != 0 && most < device_count)
        device_count = most;
    context = clCreateContext(NULL, device_count, devices, NULL, NULL, &error);
    CHECK(error);
    for (cl_uint i = 0; i < device_count; i++) {
        queues[i] = clCreateCommandQueue(context, devices[i], 0, &error);
        CHECK(error);
    }
}

/* A program, built for all devices. */
static inline cl_program build(const char *source)
{
    cl_int error;
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
    CHECK(error);
    error = clBuildProgram(program, device_count, devices, "", NULL, NULL);
    if (error != CL_SUCCESS) {
        static char log[65536];
        clGetProgramBuildInfo(program, devices[0], CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fprintf(stderr, "the kernels do not build (%d):\n%s\n", error, log);
        exit(1);
    }
    return program;
}

static inline cl_kernel kernel_of(cl_program program, const char *name)
{
    cl_int error;
    cl_kernel kernel = clCreateKernel(program, name, &error);
    CHECK(error);
    return kernel;
}

static inline cl_mem buffer_of(cl_mem_flags flags, size_t size, void *host)
{
    cl_int error;
    cl_mem buffer = clCreateBuffer(context, flags, size, host, &error);
    CHECK(error);
    return buffer;
}

static inline void set_buffer(cl_kernel kernel, cl_uint index, cl_mem buffer)
{
    CHECK(clSetKernelArg(kernel, index, sizeof buffer, &buffer));
}

static inline void set_int(cl_kernel kernel, cl_uint index, cl_int value)
{
    CHECK(clSetKernelArg(kernel, index, sizeof value, &value));
}

static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline uint32_t png_crc(uint32_t crc, const unsigned char *bytes, size_t size)
{
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static inline void png_number(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* One chunk; `data` has 8 bytes of room before it and 4 behind. */
static inline void png_chunk(FILE *file, const char *kind, unsigned char *data, size_t size)
{
    png_number(data - 8, (uint32_t)size);
    memcpy(data - 4, kind, 4);
    png_number(data + size, png_crc(0, data - 4, size + 4));
    REQUIRE(fwrite(data - 8, 1, size + 12, file) == size + 12);
}

/* Writes a PNG file of red, green and blue bytes, not compressed. */
static inline void write_picture(const char *path, const unsigned char *pixels, size_t width, size_t height)
{
    FILE *file = fopen(path, "wb");
    size_t row = width * 3 + 1;
    unsigned char head[8 + 13 + 4] = {0}, *line = malloc(8 + 2 + 5 + row + 4 + 4);
    uint32_t a = 1, b = 0; /* Adler-32 of all rows */
    REQUIRE(file != NULL && line != NULL && row < 65536);
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, file);
    png_number(head + 8, (uint32_t)width);
    png_number(head + 12, (uint32_t)height);
    head[16] = 8; /* bits */
    head[17] = 2; /* red, green, blue */
    png_chunk(file, "IHDR", head + 8, 13);
    for (size_t y = 0; y < height; y++) {
        unsigned char *at = line + 8;
        if (y == 0) {
            *at++ = 0x78;
            *at++ = 1;
        }
        /* A row is a block of its own, stored as it is. */
        *at++ = y + 1 == height;
        *at++ = (unsigned char)row;
        *at++ = (unsigned char)(row >> 8);
        *at++ = (unsigned char)~row;
        *at++ = (unsigned char)(~row >> 8);
        *at = 0;
        memcpy(at + 1, pixels + y * width * 3, row - 1);
        for (size_t i = 0; i < row; i++) {
            a = (a + at[i]) % 65521;
            b = (b + a) % 65521;
        }
        at += row;
        if (y + 1 == height) {
            png_number(at, b << 16 | a);
            at += 4;
        }
        png_chunk(file, "IDAT", line + 8, (size_t)(at - line - 8));
    }
    png_chunk(file, "IEND", head + 8, 0);
    REQUIRE(fclose(file) == 0);
    free(line);
}
#endif
