/* Kernels and programs beyond the everyday: clones, built-in kernels, builds that go on by themselves, programs for several
 * builds, what is asked of them. */
#include "common.h"
#include <pthread.h>
#include <stdatomic.h>

static const char *SOURCE = "__kernel void put(__global int *x, int at, int value) { x[at] = value; }\n"
                            "__kernel void twice(__global int *x) { x[get_global_id(0)] *= 2; }\n";

static cl_program program_of(const char *source)
{
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    return program;
}

/* A clone has the arguments that were set, and its own from then on. */
static void clones(void)
{
    int x[4] = {0, 0, 0, 0}, at = 1, value = 10;
    cl_program program = build(SOURCE, "");
    cl_command_queue queue = open_queue(0);
    cl_kernel first = kernel_of(program, "put"), second;
    cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, x);
    cl_uint references;
    set_arg(first, 0, sizeof buffer, &buffer);
    set_arg(first, 1, sizeof at, &at);
    MAKE(second, clCloneKernel(first, &status));
    CHECK(clGetKernelInfo(second, CL_KERNEL_REFERENCE_COUNT, sizeof references, &references, NULL));
    printf("clone: %u reference, without all arguments %d\n", references, clEnqueueTask(queue, second, 0, NULL, NULL));
    set_arg(second, 2, sizeof value, &value);
    at = 2;
    value = 20;
    set_arg(first, 1, sizeof at, &at);
    set_arg(first, 2, sizeof value, &value);
    CHECK(clEnqueueTask(queue, first, 0, NULL, NULL));
    CHECK(clReleaseKernel(first));
    CHECK(clEnqueueTask(queue, second, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
    printf("clone: %d %d %d %d, attached %d\n", x[0], x[1], x[2], x[3], clBuildProgram(program, 0, NULL, "", NULL, NULL));
    CHECK(clReleaseKernel(second));
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    printf("no clone: %d", clCloneKernel(NULL, &status) == NULL);
    printf(" %d\n", status);
}

struct told {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int calls;
    cl_program program;
    cl_build_status built;
    char name[64];
};

/* May call OpenCL, also what needs the build. */
static void CL_CALLBACK on_end(cl_program program, void *data)
{
    struct told *told = data;
    cl_kernel kernel;
    pthread_mutex_lock(&told->mutex);
    told->program = program;
    clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_STATUS, sizeof told->built, &told->built, NULL);
    strcpy(told->name, "none");
    if ((kernel = clCreateKernel(program, "put", NULL)) != NULL) {
        clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof told->name, told->name, NULL);
        clReleaseKernel(kernel);
    }
    told->calls++;
    pthread_cond_signal(&told->changed);
    pthread_mutex_unlock(&told->mutex);
}

static void await(struct told *told, int calls)
{
    pthread_mutex_lock(&told->mutex);
    while (told->calls < calls)
        pthread_cond_wait(&told->changed, &told->mutex);
    pthread_mutex_unlock(&told->mutex);
}

static void callbacks(void)
{
    struct told told = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, NULL, 0, ""};
    cl_program program = program_of(SOURCE), broken = program_of("__kernel void put( {"), linked;
    CHECK(clBuildProgram(program, 1, &device, "", on_end, &told));
    await(&told, 1);
    printf("built: the program's %d, status %d, %s\n", told.program == program, told.built, told.name);
    /* Whether the call or the callback tells of a failure is the implementation's choice; the status does in any case. */
    clBuildProgram(broken, 1, &device, "", on_end, &told);
    await(&told, 2);
    printf("broken: the program's %d, status %d, %s\n", told.program == broken, told.built, told.name);
    CHECK(clReleaseProgram(broken));
    CHECK(clReleaseProgram(program));
    program = program_of(SOURCE);
    CHECK(clCompileProgram(program, 0, NULL, "", 0, NULL, NULL, on_end, &told));
    await(&told, 3);
    printf("compiled: the program's %d, status %d\n", told.program == program, told.built);
    linked = clLinkProgram(context, 0, NULL, "", 1, &program, on_end, &told, &status);
    REQUIRE(linked != NULL);
    await(&told, 4);
    printf("linked: %d, the program's %d, status %d, %s\n", status, told.program == linked, told.built, told.name);
    CHECK(clReleaseProgram(linked));
    CHECK(clReleaseProgram(program));
}

static void built_in(void)
{
    char names[4096];
    cl_program program;
    cl_uint references;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_BUILT_IN_KERNELS, sizeof names, names, NULL));
    if (names[0] != 0) {
        MAKE(program, clCreateProgramWithBuiltInKernels(context, 1, &device, names, &status));
        CHECK(clGetProgramInfo(program, CL_PROGRAM_REFERENCE_COUNT, sizeof references, &references, NULL));
        printf("built in: %u reference\n", references);
        CHECK(clReleaseProgram(program));
    }
    program = clCreateProgramWithBuiltInKernels(context, 1, &device, "no.such.kernel", &status);
    printf("built in: none %d, %d\n", program == NULL, status);
    program = clCreateProgramWithBuiltInKernels(context, 0, NULL, names, &status);
    printf("built in: no devices %d, %d\n", program == NULL, status);
}

/* A program that is built again, and one of binaries before and after it is built. */
static void again(void)
{
    cl_program program = build(SOURCE, "-DONE"), other;
    size_t count, size;
    cl_program_binary_type type;
    cl_build_status built;
    char text[256];
    CHECK(clBuildProgram(program, 1, &device, "-DTWO", NULL, NULL));
    CHECK(clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof count, &count, NULL));
    CHECK(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_OPTIONS, sizeof text, text, NULL));
    printf("again: %zu kernels, '%s'\n", count, text);
    CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL));
    unsigned char *bytes = malloc(size);
    REQUIRE(size > 0 && bytes != NULL);
    CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL));
    const unsigned char *binary = bytes;
    MAKE(other, clCreateProgramWithBinary(context, 1, &device, &size, &binary, NULL, &status));
    CHECK(clGetProgramBuildInfo(other, device, CL_PROGRAM_BINARY_TYPE, sizeof type, &type, NULL));
    CHECK(clBuildProgram(other, 0, NULL, NULL, NULL, NULL));
    CHECK(clGetProgramBuildInfo(other, device, CL_PROGRAM_BUILD_STATUS, sizeof built, &built, NULL));
    CHECK(clGetProgramInfo(other, CL_PROGRAM_KERNEL_NAMES, sizeof text, text, NULL));
    printf("binary: type %x, then status %d, %s\n", type, built, text);
    printf("no source: %d\n", clCompileProgram(other, 0, NULL, "", 0, NULL, NULL, NULL, NULL));
    size_t il = 99;
    CHECK(clGetProgramInfo(other, CL_PROGRAM_IL, 0, NULL, &il));
    printf("no intermediate language: %zu bytes\n", il);
    free(bytes);
    CHECK(clReleaseProgram(other));
    CHECK(clReleaseProgram(program));
}

/* Libraries, and headers by name within headers. */
static void libraries(void)
{
    const char *sources[] = {"#include \"a.h\"\n__kernel void put(__global int *x) { x[0] = six(2); }\n",
                             "#include \"b/b.h\"\nint six(int x);\n", "#define FACTOR 3\n",
                             "#include \"b/b.h\"\nint six(int x) { return FACTOR * x; }\n"};
    const char *names[] = {"a.h", "b/b.h"};
    cl_program parts[4], library, linked;
    cl_program_binary_type type;
    int x = 0;
    for (int i = 0; i < 4; i++)
        parts[i] = program_of(sources[i]);
    CHECK(clCompileProgram(parts[0], 0, NULL, "", 2, parts + 1, names, NULL, NULL));
    CHECK(clCompileProgram(parts[3], 0, NULL, "", 2, parts + 1, names, NULL, NULL));
    MAKE(library, clLinkProgram(context, 0, NULL, "-create-library", 1, parts + 3, NULL, NULL, &status));
    CHECK(clGetProgramBuildInfo(library, device, CL_PROGRAM_BINARY_TYPE, sizeof type, &type, NULL));
    printf("library: type %x, kernel %d\n", type, clCreateKernel(library, "put", NULL) == NULL);
    cl_program both[] = {parts[0], library};
    MAKE(linked, clLinkProgram(context, 0, NULL, "", 2, both, NULL, NULL, &status));
    cl_kernel kernel = kernel_of(linked, "put");
    cl_command_queue queue = open_queue(0);
    cl_mem buffer = buffer_of(0, sizeof x, NULL);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    CHECK(clEnqueueTask(queue, kernel, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL));
    printf("linked: %d\n", x);
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseProgram(linked));
    CHECK(clReleaseProgram(library));
    for (int i = 0; i < 4; i++)
        CHECK(clReleaseProgram(parts[i]));
}

int main(void)
{
    open_device();
    clones();
    callbacks();
    built_in();
    again();
    libraries();
    CHECK(clUnloadPlatformCompiler(platform));
    clones();
    CHECK(clReleaseContext(context));
    return 0;
}
