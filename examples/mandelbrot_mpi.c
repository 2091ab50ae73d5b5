/* The same picture with MPI: a process for each device, which computes every so many-th row with plain OpenCL; the first
 * process collects the rows. mpirun -n N mandelbrot_mpi PICTURE.png [WIDTH HEIGHT [ITERATIONS]] */
#include <mpi.h>

#include "mandelbrot.h"

int main(int argc, char **argv)
{
    int part, parts;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &part);
    MPI_Comm_size(MPI_COMM_WORLD, &parts);
    struct size size = arguments(argc, argv);
    int width = size.width, rows = rows_of(size.height, part, parts);
    /* Each process takes the device of its number, or the first one where each has a machine of its own. */
    open_devices(0);
    cl_uint own = (cl_uint)part % device_count;
    cl_program program = build(MANDELBROT);
    size_t bytes = (size_t)rows * width * sizeof(int), items[2] = {width, rows};
    int *found = malloc(bytes), *all = NULL, counts[MOST_DEVICES], places[MOST_DEVICES];
    REQUIRE(parts <= MOST_DEVICES);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = seconds();
    cl_kernel kernel = kernel_of(program, "mandelbrot");
    cl_mem out = buffer_of(CL_MEM_WRITE_ONLY, bytes, NULL);
    set_buffer(kernel, 0, out);
    set_int(kernel, 1, width);
    set_int(kernel, 2, size.height);
    set_int(kernel, 3, part);
    set_int(kernel, 4, parts);
    set_int(kernel, 5, size.most);
    CHECK(clEnqueueNDRangeKernel(queues[own], kernel, 2, NULL, items, NULL, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queues[own], out, CL_TRUE, 0, bytes, found, 0, NULL, NULL));
    for (int i = 0, at = 0; i < parts; i++) {
        counts[i] = rows_of(size.height, i, parts) * width;
        places[i] = at;
        at += counts[i];
    }
    if (part == 0)
        all = malloc((size_t)width * size.height * sizeof(int));
    MPI_Gatherv(found, rows * width, MPI_INT, all, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
    double took = seconds() - begin;
    if (part == 0) {
        unsigned char *pixels = malloc((size_t)width * size.height * 3);
        for (int y = 0; y < size.height; y++)
            for (int x = 0; x < width; x++)
                colour(pixels + ((size_t)y * width + x) * 3, all[places[y % parts] + (y / parts) * width + x], size.most);
        write_picture(argv[1], pixels, (size_t)width, (size_t)size.height);
        printf("%dx%d pixels in %d processes\n", width, size.height, parts);
        fprintf(stderr, "%.3f s\n", took);
    }
    MPI_Finalize();
    return 0;
}
