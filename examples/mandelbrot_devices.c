/* Draws the Mandelbrot set on all devices of a platform, in one context, the rows dealt to them in turn:
 * mandelbrot_devices PICTURE.png [WIDTH HEIGHT [ITERATIONS [DEVICES]]] */
#include "mandelbrot.h"

int main(int argc, char **argv)
{
    struct size size = arguments(argc, argv);
    open_devices(size.devices);
    cl_program program = build(MANDELBROT);
    int parts = (int)device_count, width = size.width;
    int *found[MOST_DEVICES];
    cl_event read[MOST_DEVICES];
    double begin = seconds();
    for (int part = 0; part < parts; part++) {
        int rows = rows_of(size.height, part, parts);
        size_t bytes = (size_t)rows * width * sizeof(int), items[2] = {width, rows};
        cl_kernel kernel = kernel_of(program, "mandelbrot");
        cl_mem out = buffer_of(CL_MEM_WRITE_ONLY, bytes, NULL);
        found[part] = malloc(bytes);
        set_buffer(kernel, 0, out);
        set_int(kernel, 1, width);
        set_int(kernel, 2, size.height);
        set_int(kernel, 3, part);
        set_int(kernel, 4, parts);
        set_int(kernel, 5, size.most);
        CHECK(clEnqueueNDRangeKernel(queues[part], kernel, 2, NULL, items, NULL, 0, NULL, NULL));
        CHECK(clEnqueueReadBuffer(queues[part], out, CL_FALSE, 0, bytes, found[part], 0, NULL, &read[part]));
        CHECK(clFlush(queues[part]));
        CHECK(clReleaseMemObject(out));
        CHECK(clReleaseKernel(kernel));
    }
    CHECK(clWaitForEvents((cl_uint)parts, read));
    double took = seconds() - begin;
    unsigned char *pixels = malloc((size_t)width * size.height * 3);
    for (int y = 0; y < size.height; y++)
        for (int x = 0; x < width; x++)
            colour(pixels + ((size_t)y * width + x) * 3, found[y % parts][(size_t)(y / parts) * width + x], size.most);
    write_picture(argv[1], pixels, (size_t)width, (size_t)size.height);
    printf("%dx%d pixels on %d devices\n", width, size.height, parts);
    fprintf(stderr, "%.3f s\n", took);
    return 0;
}
