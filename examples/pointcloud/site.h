/* A device with a context, a queue and the kernels of cloud.cl. */
#ifndef SITE_H
#define SITE_H
#include "../common.h"
#include <stdarg.h>

enum { WIDTH = 512, HEIGHT = 384, EACH = 8, MOST_PLATFORMS = 16 };

/* cloud.cl, as text. */
__asm__(".pushsection .rodata\n"
        "cloud_text: .incbin \"pointcloud/cloud.cl\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char cloud_text[];

struct site {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    size_t items;  /* of a work-group of the sort */
    cl_uint units; /* compute units, where the device paints in bands; else 0 */
    int is_shared; /* the context is another site's, too */
};

/* The platform whose name has this text in it; the first one for NULL. */
static inline cl_platform_id platform_named(const char *text)
{
    cl_platform_id found[MOST_PLATFORMS];
    cl_uint count = 0;
    CHECK(clGetPlatformIDs(MOST_PLATFORMS, found, &count));
    for (cl_uint i = 0; i < count && i < MOST_PLATFORMS; i++) {
        char name[1024] = "";
        CHECK(clGetPlatformInfo(found[i], CL_PLATFORM_NAME, sizeof name, name, NULL));
        if (text == NULL || strstr(name, text) != NULL)
            return found[i];
    }
    fprintf(stderr, "no OpenCL platform has '%s' in its name\n", text);
    exit(1);
}

/* The first device of the platform, but for custom devices, whose name has this text in it; the first one for NULL. */
static inline cl_device_id device_named(cl_platform_id of, const char *text)
{
    cl_device_id found[MOST_DEVICES];
    cl_uint count = 0;
    CHECK(clGetDeviceIDs(of, CL_DEVICE_TYPE_ALL, MOST_DEVICES, found, &count));
    for (cl_uint i = 0; i < count && i < MOST_DEVICES; i++) {
        char name[1024] = "";
        cl_device_type type = 0;
        CHECK(clGetDeviceInfo(found[i], CL_DEVICE_NAME, sizeof name, name, NULL));
        CHECK(clGetDeviceInfo(found[i], CL_DEVICE_TYPE, sizeof type, &type, NULL));
        if (!(type & CL_DEVICE_TYPE_CUSTOM) && (text == NULL || strstr(name, text) != NULL))
            return found[i];
    }
    fprintf(stderr, "no device has '%s' in its name\n", text == NULL ? "" : text);
    exit(1);
}

/* The first custom device that has this built-in kernel. */
static inline cl_device_id device_with(cl_platform_id of, const char *kernel)
{
    cl_device_id found[MOST_DEVICES];
    cl_uint count = 0;
    cl_int error = clGetDeviceIDs(of, CL_DEVICE_TYPE_CUSTOM, MOST_DEVICES, found, &count);
    for (cl_uint i = 0; error == CL_SUCCESS && i < count && i < MOST_DEVICES; i++) {
        char kernels[65536] = "";
        CHECK(clGetDeviceInfo(found[i], CL_DEVICE_BUILT_IN_KERNELS, sizeof kernels, kernels, NULL));
        if (strstr(kernels, kernel) != NULL)
            return found[i];
    }
    fprintf(stderr, "no custom device of the platform has the built-in kernel %s\n", kernel);
    exit(1);
}

static inline cl_command_queue queue_of(cl_context of, cl_device_id device)
{
    cl_int error;
    cl_command_queue queue = clCreateCommandQueue(of, device, 0, &error);
    CHECK(error);
    return queue;
}

/* A site in this context. `tiles` says how it paints: 0 in bands, 1 in tiles, -1 as its kind is best at. */
static inline struct site site_in(cl_context of, cl_device_id device, int tiles)
{
    struct site site = {.device = device, .context = of, .items = 256};
    size_t largest = 0;
    cl_device_type type = 0;
    cl_int error;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof largest, &largest, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL));
    REQUIRE(largest >= site.items);
    if (tiles == 0 || (tiles < 0 && (type & CL_DEVICE_TYPE_CPU)))
        CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof site.units, &site.units, NULL));
    site.queue = queue_of(of, device);
    const char *text = cloud_text;
    site.program = clCreateProgramWithSource(of, 1, &text, NULL, &error);
    CHECK(error);
    char options[256];
    snprintf(options, sizeof options, "-DWIDTH=%d -DHEIGHT=%d -DITEMS=%zu -DEACH=%d", WIDTH, HEIGHT, site.items, EACH);
    error = clBuildProgram(site.program, 1, &device, options, NULL, NULL);
    if (error != CL_SUCCESS) {
        static char log[65536];
        clGetProgramBuildInfo(site.program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fprintf(stderr, "the kernels do not build (%d):\n%s\n", error, log);
        exit(1);
    }
    return site;
}

/* What an implementation says of commands that fail. */
static void CL_CALLBACK said(const char *text, const void *more, size_t size, void *user)
{
    (void)more, (void)size, (void)user;
    fprintf(stderr, "%s\n", text);
}

/* A site in a context of its own. */
static inline struct site site_of(cl_device_id device, int tiles)
{
    cl_int error;
    cl_context own = clCreateContext(NULL, 1, &device, said, NULL, &error);
    CHECK(error);
    return site_in(own, device, tiles);
}

static inline cl_kernel site_kernel(const struct site *site, const char *name)
{
    cl_int error;
    cl_kernel kernel = clCreateKernel(site->program, name, &error);
    CHECK(error);
    return kernel;
}

static inline cl_mem site_buffer(cl_context of, size_t size)
{
    cl_int error;
    cl_mem buffer = clCreateBuffer(of, CL_MEM_READ_WRITE, size, NULL, &error);
    CHECK(error);
    return buffer;
}

/* Sets all arguments of a kernel, each given as ARG(variable). */
#define ARG(variable) sizeof(variable), (const void *)&(variable)
#define ARGS(kernel, count, ...) set_args(kernel, count, __VA_ARGS__)
static inline void set_args(cl_kernel kernel, cl_uint count, ...)
{
    va_list list;
    va_start(list, count);
    for (cl_uint i = 0; i < count; i++) {
        size_t size = va_arg(list, size_t);
        CHECK(clSetKernelArg(kernel, i, size, va_arg(list, const void *)));
    }
    va_end(list);
}

/* Launches a kernel over so many items, in work-groups of `local` (as the device likes, for 0). */
static inline void launch(const struct site *site, cl_kernel kernel, size_t items, size_t local)
{
    items = local == 0 ? items : (items + local - 1) / local * local;
    CHECK(clEnqueueNDRangeKernel(site->queue, kernel, 1, NULL, &items, local == 0 ? NULL : &local, 0, NULL, NULL));
}
#endif
