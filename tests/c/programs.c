/* Programs: sources in pieces, options, failures with their log, build callbacks, binaries, kernel queries, local memory. */
#include "common.h"
#include <stdatomic.h>

static const char *SOURCE = "#ifndef FACTOR\n"
                            "#define FACTOR 3\n"
                            "#endif\n"
                            "__kernel void scale(__global int *x, int by) { x[get_global_id(0)] *= by * FACTOR; }\n"
                            "__attribute__((reqd_work_group_size(64, 1, 1)))\n"
                            "__kernel void sum(__global const int *x, __global int *sums, __local int *part) {\n"
                            "    size_t l = get_local_id(0);\n"
                            "    part[l] = x[get_global_id(0)];\n"
                            "    for (size_t n = get_local_size(0) / 2; n > 0; n /= 2) {\n"
                            "        barrier(CLK_LOCAL_MEM_FENCE);\n"
                            "        if (l < n) part[l] += part[l + n];\n"
                            "    }\n"
                            "    if (l == 0) sums[get_group_id(0)] = part[0];\n"
                            "}\n";

static atomic_int built_callbacks;

static void CL_CALLBACK on_built(cl_program program, void *counter)
{
    (void)program;
    atomic_fetch_add((atomic_int *)counter, 1);
}

static int scaled(cl_program program)
{
    cl_command_queue queue = open_queue(0);
    cl_kernel kernel = kernel_of(program, "scale");
    int x = 5, by = 2;
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, &x);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof by, &by);
    launch(queue, kernel, 1, 0, NULL, NULL);
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL));
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseCommandQueue(queue));
    return x;
}

static void options(void)
{
    cl_program program = build(SOURCE, NULL);
    printf("no options: %d\n", scaled(program));
    CHECK(clReleaseProgram(program));
    program = build(SOURCE, "-DFACTOR=7 -cl-mad-enable");
    printf("-DFACTOR=7: %d\n", scaled(program));
    char text[256];
    CHECK(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_OPTIONS, sizeof text, text, NULL));
    printf("options: '%s'\n", text);
    CHECK(clReleaseProgram(program));
}

static void pieces(void)
{
    const char *parts[] = {"__kernel void sca", "le(__global int *x, int by) ", "{ x[0] *= by + 1000; } // and more"};
    size_t lengths[] = {0, 0, 22};
    cl_program program;
    size_t length;
    MAKE(program, clCreateProgramWithSource(context, 3, parts, lengths, &status));
    CHECK(clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &length));
    CHECK(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    printf("in pieces: %d, length %zu\n", scaled(program), length);
    CHECK(clReleaseProgram(program));
}

static void failure(void)
{
    const char *wrong = "__kernel void broken(__global int *x) { x[0] = undeclared_thing; }\n";
    cl_program program;
    cl_build_status built;
    char log[65536] = "";
    MAKE(program, clCreateProgramWithSource(context, 1, &wrong, NULL, &status));
    CHECK(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_STATUS, sizeof built, &built, NULL));
    printf("before: status %d\n", built);
    printf("wrong source: %d\n", clBuildProgram(program, 1, &device, "", NULL, NULL));
    CHECK(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_STATUS, sizeof built, &built, NULL));
    CHECK(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
    printf("status %d, the log names what is wrong: %d\n", built, strstr(log, "undeclared_thing") != NULL);
    CHECK(clReleaseProgram(program));
}

static void callback(void)
{
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(program, 1, &device, "-DFACTOR=11", on_built, &built_callbacks));
    AWAIT(atomic_load(&built_callbacks) >= 1);
    printf("build callbacks: %d, result %d\n", built_callbacks, scaled(program));
    CHECK(clReleaseProgram(program));
}

static void binaries(void)
{
    cl_program first = build(SOURCE, "-DFACTOR=13"), second;
    size_t size;
    CHECK(clGetProgramInfo(first, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL));
    unsigned char *bytes = malloc(size);
    CHECK(clGetProgramInfo(first, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL));
    CHECK(clReleaseProgram(first));
    cl_int of_device = 1;
    const unsigned char *binary = bytes;
    MAKE(second, clCreateProgramWithBinary(context, 1, &device, &size, &binary, &of_device, &status));
    CHECK(clBuildProgram(second, 1, &device, "", NULL, NULL));
    cl_program_binary_type type;
    CHECK(clGetProgramBuildInfo(second, device, CL_PROGRAM_BINARY_TYPE, sizeof type, &type, NULL));
    printf("binary: size %d, status %d, type %x, result %d\n", size > 0, of_device, type, scaled(second));
    CHECK(clReleaseProgram(second));
    free(bytes);
}

/* Two programs, one with a header that is a program, compiled by themselves and linked. */
static void separately(void)
{
    const char *sources[] = {"#include <own/triple.h>\n__kernel void scale(__global int *x, int by) { x[0] = triple(x[0]) + by; }\n",
                             "int triple(int x) { return 3 * x; }\n", "int triple(int x);\n"};
    const char *name = "own/triple.h";
    cl_program parts[3], linked;
    cl_program_binary_type type;
    for (int i = 0; i < 3; i++)
        MAKE(parts[i], clCreateProgramWithSource(context, 1, &sources[i], NULL, &status));
    CHECK(clCompileProgram(parts[0], 1, &device, "", 1, &parts[2], &name, NULL, NULL));
    CHECK(clCompileProgram(parts[1], 0, NULL, "", 0, NULL, NULL, NULL, NULL));
    CHECK(clGetProgramBuildInfo(parts[1], device, CL_PROGRAM_BINARY_TYPE, sizeof type, &type, NULL));
    printf("compiled: type %x\n", type);
    MAKE(linked, clLinkProgram(context, 1, &device, NULL, 2, parts, NULL, NULL, &status));
    CHECK(clGetProgramBuildInfo(linked, device, CL_PROGRAM_BINARY_TYPE, sizeof type, &type, NULL));
    printf("linked: type %x, result %d\n", type, scaled(linked));
    for (int i = 0; i < 3; i++)
        CHECK(clReleaseProgram(parts[i]));
    CHECK(clReleaseProgram(linked));
    /* One with a kernel of a very long name, and one with a kernel of a short one. */
    enum { LONG = 600 };
    static char long_name[LONG + 1], text[LONG + 100];
    memset(long_name, 'k', LONG);
    snprintf(text, sizeof text, "__kernel void %s(__global int *x) { x[0] = 1; }\n", long_name);
    const char *two[] = {text, "__kernel void brief(__global int *x) { x[0] = 2; }\n"};
    for (int i = 0; i < 2; i++) {
        MAKE(parts[i], clCreateProgramWithSource(context, 1, &two[i], NULL, &status));
        CHECK(clCompileProgram(parts[i], 0, NULL, "", 0, NULL, NULL, NULL, NULL));
    }
    MAKE(linked, clLinkProgram(context, 1, &device, NULL, 2, parts, NULL, NULL, &status));
    size_t kernels = 0;
    CHECK(clGetProgramInfo(linked, CL_PROGRAM_NUM_KERNELS, sizeof kernels, &kernels, NULL));
    printf("long and short: %zu kernels", kernels);
    for (int i = 0; i < 2; i++) {
        cl_kernel kernel = clCreateKernel(linked, i == 0 ? long_name : "brief", &status);
        printf(" %d", status);
        if (kernel)
            CHECK(clReleaseKernel(kernel));
        CHECK(clReleaseProgram(parts[i]));
    }
    puts("");
    CHECK(clReleaseProgram(linked));
    const char *broken = "int f(void) { return missing; }\n";
    MAKE(parts[0], clCreateProgramWithSource(context, 1, &broken, NULL, &status));
    printf("does not compile: %d\n", clCompileProgram(parts[0], 1, &device, "", 0, NULL, NULL, NULL, NULL));
    CHECK(clReleaseProgram(parts[0]));
}

/* Headers in a folder of this machine's. */
static void headers(void)
{
    char folder[] = "/tmp/ropeway-headers-XXXXXX", path[64], options[64];
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/factor.h", folder);
    FILE *file = fopen(path, "w");
    REQUIRE(file != NULL);
    fputs("#pragma once\n#define FACTOR 17\n", file);
    fclose(file);
    const char *source = "#include \"factor.h\"\n#include \"factor.h\"\n"
                         "__kernel void scale(__global int *x, int by) { x[0] *= by * FACTOR; }\n";
    snprintf(options, sizeof options, "-I %s", folder);
    cl_program program = build(source, options);
    size_t length;
    CHECK(clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &length));
    printf("with a header: %d, source %s\n", scaled(program), length == strlen(source) + 1 ? "as given" : "CHANGED");
    CHECK(clReleaseProgram(program));
    unlink(path);
    rmdir(folder);
}

static void kernels(void)
{
    cl_program program = build(SOURCE, "-cl-kernel-arg-info");
    cl_kernel both[2], kernel;
    cl_uint count, number;
    char text[256];
    size_t sizes[3], preferred;
    cl_ulong local;
    CHECK(clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof text, text, NULL));
    printf("names: %s\n", text);
    CHECK(clCreateKernelsInProgram(program, 2, both, &count));
    printf("kernels: %u\n", count);
    CHECK(clReleaseKernel(both[0]));
    CHECK(clReleaseKernel(both[1]));
    kernel = kernel_of(program, "sum");
    CHECK(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof number, &number, NULL));
    CHECK(clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof text, text, NULL));
    printf("%s has %u arguments\n", text, number);
    for (cl_uint i = 0; i < number; i++) {
        cl_kernel_arg_address_qualifier address;
        cl_kernel_arg_type_qualifier qualifier;
        char name[64];
        CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof address, &address, NULL));
        CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifier, &qualifier, NULL));
        CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof text, text, NULL));
        CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_NAME, sizeof name, name, NULL));
        printf("argument %u: %x %x %s %s\n", i, address, (unsigned)qualifier, text, name);
    }
    CHECK(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof sizes, sizes, NULL));
    printf("required: %zu %zu %zu\n", sizes[0], sizes[1], sizes[2]);
    CHECK(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof preferred,
                                   &preferred, NULL));
    CHECK(clGetKernelWorkGroupInfo(kernel, NULL, CL_KERNEL_WORK_GROUP_SIZE, sizeof sizes[0], sizes, NULL));
    CHECK(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local, NULL));
    printf("multiple %zu, most %zu, local %llu\n", preferred, sizes[0], (unsigned long long)local);
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
}

static void local_memory(void)
{
    enum { N = 1024, GROUP = 64 };
    int x[N], sums[N / GROUP];
    for (int i = 0; i < N; i++)
        x[i] = i;
    cl_command_queue queue = open_queue(0);
    cl_program program = build(SOURCE, NULL);
    cl_kernel kernel = kernel_of(program, "sum");
    cl_mem from = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, x), to = buffer_of(0, sizeof sums, NULL);
    set_arg(kernel, 0, sizeof from, &from);
    set_arg(kernel, 1, sizeof to, &to);
    set_arg(kernel, 2, GROUP * sizeof(int), NULL);
    size_t items = N, group = GROUP;
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, to, CL_TRUE, 0, sizeof sums, sums, 0, NULL, NULL));
    printf("local sums: %d %d %d\n", sums[0], sums[1], sums[N / GROUP - 1]);
    CHECK(clReleaseMemObject(from));
    CHECK(clReleaseMemObject(to));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
}

/* Arguments set again between launches belong to the launch that follows; a null buffer is one too. */
static void arguments_are_captured(void)
{
    const char *source = "__kernel void put(__global int *x, int at, int value, __global int *none) {\n"
                         "    if (!none) x[at] = value;\n"
                         "}\n";
    enum { N = 200 };
    int x[N];
    cl_command_queue queue = open_queue(0);
    cl_program program = build(source, NULL);
    cl_kernel kernel = kernel_of(program, "put");
    cl_mem buffer = buffer_of(0, sizeof x, NULL), none = NULL;
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 3, sizeof none, &none);
    for (int i = 0; i < N; i++) {
        int value = i * i;
        set_arg(kernel, 1, sizeof i, &i);
        set_arg(kernel, 2, sizeof value, &value);
        CHECK(clEnqueueTask(queue, kernel, 0, NULL, NULL));
    }
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
    int right = 0;
    for (int i = 0; i < N; i++)
        right += x[i] == i * i;
    printf("captured: %d of %d\n", right, N);
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
}

int main(void)
{
    open_device();
    options();
    pieces();
    failure();
    callback();
    binaries();
    separately();
    headers();
    kernels();
    local_memory();
    arguments_are_captured();
    CHECK(clReleaseContext(context));
    return 0;
}
