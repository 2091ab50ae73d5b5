/* A pipeline over two devices in one context: the first makes the frames of a fountain as a list of drops, whose number changes from frame
 * to frame; the second draws them; the last picture is read. With cl_pocl_content_size only the drops that there are go from one device to
 * the other, and not the whole buffer; without it everything works as well. Prints a figure of the bytes that count in each frame:
 * pipeline PICTURE.png [FRAMES] */
#include "common.h"

enum { SIDE = 512, MOST_DROPS = 1 << 18 };

typedef cl_int(CL_API_CALL *set_content_size)(cl_mem buffer, cl_mem content_size_buffer);

static const char *SOURCE =
    /* A number between 0 and 1 that looks random. */
    "float chance(uint x) {\n"
    "    x ^= x >> 16; x *= 0x7feb352dU; x ^= x >> 15; x *= 0x846ca68bU; x ^= x >> 16;\n"
    "    return (x >> 8) / 16777216.0f;\n"
    "}\n"
    "__kernel void fountain(__global int4 *drops, __global ulong *bytes, int frame, int count) {\n"
    "    uint i = get_global_id(0);\n"
    "    float age = chance(i * 3 + 1) * 2.0f, side = (chance(i * 3 + 2) - 0.5f) * 0.4f;\n"
    "    float up = 0.9f + 0.3f * chance(i * 3 + 3) + 0.1f * sin(frame * 0.3f);\n"
    "    float x = 0.5f + side * age, y = up * age - 0.6f * age * age;\n"
    "    drops[i] = (int4)((int)(x * 512), 500 - (int)(y * 700), (int)(age * 100), frame);\n"
    "    if (i == 0) bytes[0] = (ulong)count * sizeof(int4);\n"
    "}\n"
    "__kernel void clear(__global int *picture) { picture[get_global_id(0)] = 0; }\n"
    "__kernel void draw(__global const int4 *drops, __global int *picture) {\n"
    "    int4 drop = drops[get_global_id(0)];\n"
    "    if (drop.x >= 0 && drop.y >= 0 && drop.x < 512 && drop.y < 512)\n"
    "        atomic_add(&picture[drop.y * 512 + drop.x], 200 - drop.z);\n"
    "}\n";

/* How many drops a frame has: now few, now many. */
static int drops_of(int frame)
{
    int phase = frame % 16;
    return MOST_DROPS / 64 * (1 + (phase < 8 ? phase : 16 - phase) * 2);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s PICTURE.png [FRAMES]\n", argv[0]);
        return 2;
    }
    int frames = argc > 2 ? atoi(argv[2]) : 41;
    REQUIRE(frames > 0);
    open_devices(2);
    cl_command_queue first = queues[0], second = queues[device_count - 1];
    cl_program program = build(SOURCE);
    cl_kernel fountain = kernel_of(program, "fountain"), clear = kernel_of(program, "clear"), draw = kernel_of(program, "draw");
    size_t size = MOST_DROPS * sizeof(cl_int4);
    cl_mem drops[2], bytes[2], picture = buffer_of(CL_MEM_READ_WRITE, SIDE * SIDE * sizeof(cl_int), NULL);
    set_content_size announce = (set_content_size)clGetExtensionFunctionAddressForPlatform(platform, "clSetContentSizeBufferPoCL");
    char extensions[65536] = "";
    clGetPlatformInfo(platform, CL_PLATFORM_EXTENSIONS, sizeof extensions, extensions, NULL);
    if (strstr(extensions, "cl_pocl_content_size") == NULL)
        announce = NULL;
    for (int i = 0; i < 2; i++) {
        drops[i] = buffer_of(CL_MEM_READ_WRITE, size, NULL);
        bytes[i] = buffer_of(CL_MEM_READ_WRITE, sizeof(cl_ulong), NULL);
        if (announce != NULL)
            CHECK(announce(drops[i], bytes[i]));
    }
    cl_event drawn[2] = {NULL, NULL}, made;
    double begin = seconds();
    size_t whole = 0, meaningful = 0, pixels = SIDE * SIDE;
    for (int frame = 0; frame < frames; frame++) {
        /* Two buffers in turn: while one is drawn, the next frame is made in the other. */
        int slot = frame % 2, count = drops_of(frame);
        size_t items = (size_t)count;
        set_buffer(fountain, 0, drops[slot]);
        set_buffer(fountain, 1, bytes[slot]);
        set_int(fountain, 2, frame);
        set_int(fountain, 3, count);
        cl_uint waits = drawn[slot] != NULL;
        CHECK(clEnqueueNDRangeKernel(first, fountain, 1, NULL, &items, NULL, waits, waits ? &drawn[slot] : NULL, &made));
        CHECK(clFlush(first));
        if (waits)
            CHECK(clReleaseEvent(drawn[slot]));
        set_buffer(clear, 0, picture);
        set_buffer(draw, 0, drops[slot]);
        set_buffer(draw, 1, picture);
        CHECK(clEnqueueNDRangeKernel(second, clear, 1, NULL, &pixels, NULL, 0, NULL, NULL));
        CHECK(clEnqueueNDRangeKernel(second, draw, 1, NULL, &items, NULL, 1, &made, &drawn[slot]));
        CHECK(clFlush(second));
        CHECK(clReleaseEvent(made));
        whole += size;
        meaningful += items * sizeof(cl_int4);
    }
    cl_int *found = malloc(pixels * sizeof *found);
    CHECK(clEnqueueReadBuffer(second, picture, CL_TRUE, 0, pixels * sizeof *found, found, 0, NULL, NULL));
    double took = seconds() - begin;
    unsigned char *out = malloc(pixels * 3);
    for (size_t i = 0; i < pixels; i++) {
        int light = found[i] < 0 ? 0 : found[i];
        out[i * 3] = (unsigned char)(light > 255 ? (light / 4 > 255 ? 255 : light / 4) : light / 6);
        out[i * 3 + 1] = (unsigned char)(light / 2 > 255 ? 255 : light / 2);
        out[i * 3 + 2] = (unsigned char)(light > 235 ? 255 : light + 20);
    }
    write_picture(argv[1], out, SIDE, SIDE);
    printf("bytes that count, of %zu:\n", size);
    for (int frame = 0; frame < frames && frame < 16; frame++) {
        printf("frame %2d %8zu ", frame, drops_of(frame) * sizeof(cl_int4));
        for (int bar = 0; bar < drops_of(frame) / (MOST_DROPS / 64); bar++)
            putchar('#');
        putchar('\n');
    }
    printf("%d frames: %.1f of %.1f MB count\n", frames, (double)meaningful / 1e6, (double)whole / 1e6);
    fprintf(stderr, "%s cl_pocl_content_size, on %u devices: %.2f s, %.1f frames/s\n", announce != NULL ? "with" : "without",
            device_count, took, frames / took);
    return 0;
}
