/* Lists platforms and how many devices each has; on standard error, how long that took. */
#include "common.h"

int main(void)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    double begin = seconds();
    cl_int error = clGetPlatformIDs(16, platforms, &count);
    if (error != CL_SUCCESS)
        count = 0;
    for (cl_uint p = 0; p < count && p < 16; p++) {
        char name[256];
        cl_uint devices = 0;
        CHECK(clGetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof name, name, NULL));
        error = clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 0, NULL, &devices);
        printf("%s: %u devices (%d)\n", name, devices, error);
    }
    printf("%u platforms\n", count);
    fprintf(stderr, "took %.3f s\n", seconds() - begin);
    return 0;
}
