// What the device says of the SPIR-V that it takes (cl_khr_spirv_queries): lists of names, and of numbers.
#include "common.h"

#ifndef CL_DEVICE_SPIRV_EXTENSIONS_KHR
#define CL_DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS_KHR 0x12B9
#define CL_DEVICE_SPIRV_EXTENSIONS_KHR 0x12BA
#define CL_DEVICE_SPIRV_CAPABILITIES_KHR 0x12BB
#endif

static void print_names(cl_device_info query, const char *subject)
{
    const char *names[256];
    size_t size = 0;
    CHECK(clGetDeviceInfo(device, query, sizeof names, names, &size));
    printf("%s: %zu\n", subject, size / sizeof *names);
    for (size_t i = 0; i < size / sizeof *names; i++)
        printf("  %s\n", names[i]);
    if (size)
        printf("  with too little room: %d\n", clGetDeviceInfo(device, query, size - 1, names, NULL));
}

int main(void)
{
    open_device();
    char extensions[1 << 14];
    CHECK(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL));
    if (!strstr(extensions, "cl_khr_spirv_queries")) {
        printf("the device does not have cl_khr_spirv_queries\n");
        return 0;
    }
    print_names(CL_DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS_KHR, "extended instruction sets");
    print_names(CL_DEVICE_SPIRV_EXTENSIONS_KHR, "extensions");
    cl_uint capabilities[1024];
    size_t size = 0;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_SPIRV_CAPABILITIES_KHR, sizeof capabilities, capabilities, &size));
    for (size_t i = 0; i < size / sizeof *capabilities; i++)
        printf("capability %u\n", capabilities[i]);
    return 0;
}
