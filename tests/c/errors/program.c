/* Programs (OpenCL 3.0 API, section 5.8). */
#include "errors.h"
#include <stdatomic.h>

static const char *SOURCE = "__kernel void f(__global int *x, int n) { x[0] = n; }\n";
static const char *BROKEN = "__kernel void f(__global int *x) { x[0] = no_such_thing; }\n";
static const char *MISSING = "int elsewhere(int); __kernel void f(__global int *x) { x[0] = elsewhere(1); }\n";

static atomic_int ends_told;

static void CL_CALLBACK on_end(cl_program program, void *data)
{
    (void)program, (void)data;
    atomic_fetch_add(&ends_told, 1);
}

static cl_program source_of(const char *text)
{
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &text, NULL, &status));
    return program;
}

static void creation(void)
{
    const char *with_null[] = {SOURCE, NULL};
    WRONG_HANDLES_FOR(MAKES, clCreateProgramWithSource(X, 1, &SOURCE, NULL, &status), "context", CL_INVALID_CONTEXT);
    MAKES(clCreateProgramWithSource(context, 0, &SOURCE, NULL, &status), "count is 0", CL_INVALID_VALUE);
    MAKES(clCreateProgramWithSource(context, 1, NULL, NULL, &status), "strings is NULL", CL_INVALID_VALUE);
    MAKES(clCreateProgramWithSource(context, 2, with_null, NULL, &status), "a string is NULL", CL_INVALID_VALUE);

    static const unsigned char nonsense[64] = "not a program binary";
    const unsigned char *binary = nonsense, *none = NULL;
    size_t size = sizeof nonsense, zero = 0;
    cl_int each;
    cl_device_id null_device = NULL;
#define BINARY(context, count, list, sizes, binaries)                                                                  \
    clCreateProgramWithBinary(context, count, list, sizes, binaries, &each, &status)
    WRONG_HANDLES_FOR(MAKES, BINARY(X, 1, &device, &size, &binary), "context", CL_INVALID_CONTEXT);
    MAKES(BINARY(context, 0, &device, &size, &binary), "num_devices is 0", CL_INVALID_VALUE);
    MAKES(BINARY(context, 1, NULL, &size, &binary), "device_list is NULL", CL_INVALID_VALUE);
    MAKES(BINARY(context, 1, &null_device, &size, &binary), "a device is NULL", CL_INVALID_DEVICE);
    MAKES(BINARY(context, 1, &device, NULL, &binary), "lengths is NULL", CL_INVALID_VALUE);
    MAKES(BINARY(context, 1, &device, &size, NULL), "binaries is NULL", CL_INVALID_VALUE);
    MAKES(BINARY(context, 1, &device, &zero, &binary), "a length is 0", CL_INVALID_VALUE);
    MAKES(BINARY(context, 1, &device, &size, &none), "a binary is NULL", CL_INVALID_VALUE);
    MAKES(BINARY(context, 1, &device, &size, &binary), "the binary is nonsense", CL_INVALID_BINARY);
#undef BINARY
    WRONG_HANDLES_FOR(MAKES, clCreateProgramWithBuiltInKernels(X, 1, &device, "no_such_kernel", &status), "context",
                      CL_INVALID_CONTEXT);
    MAKES(clCreateProgramWithBuiltInKernels(context, 0, &device, "no_such_kernel", &status), "num_devices is 0",
          CL_INVALID_VALUE);
    MAKES(clCreateProgramWithBuiltInKernels(context, 1, NULL, "no_such_kernel", &status), "device_list is NULL",
          CL_INVALID_VALUE);
    MAKES(clCreateProgramWithBuiltInKernels(context, 1, &device, NULL, &status), "kernel_names is NULL",
          CL_INVALID_VALUE);
    MAKES(clCreateProgramWithBuiltInKernels(context, 1, &null_device, "no_such_kernel", &status), "a device is NULL",
          CL_INVALID_DEVICE);
    MAKES(clCreateProgramWithBuiltInKernels(context, 1, &device, "no_such_kernel", &status), "no kernel of that name",
          CL_INVALID_VALUE);

    WRONG_HANDLES_FOR(MAKES, clCreateProgramWithIL(X, nonsense, sizeof nonsense, &status), "context",
                      CL_INVALID_CONTEXT);
    /* cl_khr_il_program has it under another name. */
    cl_program(CL_API_CALL * older)(cl_context, const void *, size_t, cl_int *) =
        clGetExtensionFunctionAddressForPlatform(platform, "clCreateProgramWithILKHR");
    REMOTE WRONG_HANDLES_FOR(MAKES, older(X, nonsense, sizeof nonsense, &status), "context", CL_INVALID_CONTEXT);
    char il[256] = "";
    clGetDeviceInfo(device, CL_DEVICE_IL_VERSION, sizeof il, il, NULL);
    if (il[0] == '\0') {
        MAKES(clCreateProgramWithIL(context, nonsense, sizeof nonsense, &status), "no device takes IL",
              CL_INVALID_OPERATION);
    } else {
        MAKES(clCreateProgramWithIL(context, NULL, 64, &status), "il is NULL", CL_INVALID_VALUE);
        MAKES(clCreateProgramWithIL(context, nonsense, 0, &status), "length is 0", CL_INVALID_VALUE);
        MAKES(clCreateProgramWithIL(context, nonsense, sizeof nonsense, &status), "the IL is nonsense",
              CL_INVALID_VALUE);
    }
}

static void building(void)
{
    cl_program program = source_of(SOURCE), broken = source_of(BROKEN);
#define BUILD(program, count, list, options) clBuildProgram(program, count, list, options, NULL, NULL)
    WRONG_HANDLES_FOR(RETURNS, BUILD(X, 1, &device, ""), "program", CL_INVALID_PROGRAM);
    RETURNS(BUILD(program, 0, &device, ""), "num_devices is 0, device_list is not NULL", CL_INVALID_VALUE);
    RETURNS(BUILD(program, 1, NULL, ""), "device_list is NULL, num_devices is not 0", CL_INVALID_VALUE);
    WRONG_HANDLES_FOR(RETURNS, BUILD(program, 1, &(cl_device_id){X == device ? (void *)context : X}, ""), "a device",
                      CL_INVALID_DEVICE);
    RETURNS(clBuildProgram(program, 1, &device, "", NULL, &status), "user_data without pfn_notify", CL_INVALID_VALUE);
    RETURNS(BUILD(program, 1, &device, "--no-such-option"), "an option is unknown", CL_INVALID_BUILD_OPTIONS);
    RETURNS(BUILD(broken, 1, &device, ""), "the source is wrong", CL_BUILD_PROGRAM_FAILURE);
    RETURNS(clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, 0, NULL, NULL), "CL_PROGRAM_NUM_KERNELS before a build",
            CL_INVALID_PROGRAM_EXECUTABLE);
    RETURNS(clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, NULL), "CL_PROGRAM_KERNEL_NAMES before a build",
            CL_INVALID_PROGRAM_EXECUTABLE);
    /* Intel's runtime never builds a program again that has failed to build. */
    CHECK(clReleaseProgram(program));
    program = source_of(SOURCE);
    /* A build with a callback may go on after the call. */
    CHECK(clBuildProgram(program, 1, &device, "", on_end, NULL));
    for (int tries = 0; atomic_load(&ends_told) == 0; tries++) {
        if (tries == 30000) {
            fprintf(stderr, "the end of a build was not told within 30 s\n");
            exit(1);
        }
        usleep(1000);
    }
    cl_kernel kernel = kernel_of(program, "f");
    RETURNS(BUILD(program, 1, &device, ""), "kernels are attached to it", CL_INVALID_OPERATION);
    RETURNS(clCompileProgram(program, 1, &device, "", 0, NULL, NULL, NULL, NULL), "kernels are attached to it",
            CL_INVALID_OPERATION);
    CHECK(clReleaseKernel(kernel));
    RETURNS(BUILD(program, 1, &device, ""), "nothing", CL_SUCCESS);
#undef BUILD
    size_t size;
    CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL));
    unsigned char *bytes = malloc(size);
    CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL));
    cl_program again;
    MAKE(again, clCreateProgramWithBinary(context, 1, &device, &size, (const unsigned char **)&bytes, NULL, &status));
    RETURNS(clCompileProgram(again, 1, &device, "", 0, NULL, NULL, NULL, NULL), "it was made of a binary",
            CL_INVALID_OPERATION);
    free(bytes);
    CHECK(clReleaseProgram(again));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseProgram(broken));
}

static void compiling_and_linking(void)
{
    cl_device_id null_device = NULL;
    const char *name = "a.h", *no_name = NULL;
    cl_program program = source_of(SOURCE), broken = source_of(BROKEN), header = source_of("\n"),
               missing = source_of(MISSING), raw = source_of(SOURCE), foreign;
    MAKE(foreign, clCreateProgramWithSource(other_context, 1, &SOURCE, NULL, &status));
    (void)no_name;
#define COMPILE(program, count, list, options, headers, programs, names)                                               \
    clCompileProgram(program, count, list, options, headers, programs, names, NULL, NULL)
    WRONG_HANDLES_FOR(RETURNS, COMPILE(X, 1, &device, "", 0, NULL, NULL), "program", CL_INVALID_PROGRAM);
    RETURNS(COMPILE(program, 0, &device, "", 0, NULL, NULL), "num_devices is 0, device_list is not NULL",
            CL_INVALID_VALUE);
    RETURNS(COMPILE(program, 1, NULL, "", 0, NULL, NULL), "device_list is NULL, num_devices is not 0",
            CL_INVALID_VALUE);
    RETURNS(COMPILE(program, 1, &null_device, "", 0, NULL, NULL), "a device is NULL", CL_INVALID_DEVICE);
    RETURNS(COMPILE(program, 1, &device, "", 0, &header, NULL), "headers without their number", CL_INVALID_VALUE);
    RETURNS(COMPILE(program, 1, &device, "", 0, NULL, &name), "names without their number", CL_INVALID_VALUE);
    RETURNS(COMPILE(program, 1, &device, "", 1, NULL, &name), "input_headers is NULL", CL_INVALID_VALUE);
    RETURNS(COMPILE(program, 1, &device, "", 1, &header, NULL), "header_include_names is NULL", CL_INVALID_VALUE);
    WRONG_HANDLES_FOR(RETURNS, COMPILE(program, 1, &device, "", 1, &(cl_program){X}, &name), "a header",
                      CL_INVALID_PROGRAM);
    RETURNS(clCompileProgram(program, 1, &device, "", 0, NULL, NULL, NULL, &status), "user_data without pfn_notify",
            CL_INVALID_VALUE);
    RETURNS(COMPILE(program, 1, &device, "--no-such-option", 0, NULL, NULL), "an option is unknown",
            CL_INVALID_COMPILER_OPTIONS);
    RETURNS(COMPILE(broken, 1, &device, "", 0, NULL, NULL), "the source is wrong", CL_COMPILE_PROGRAM_FAILURE);
    CHECK(clReleaseProgram(program));
    program = source_of(SOURCE);
    RETURNS(COMPILE(program, 1, &device, "", 0, NULL, NULL), "nothing", CL_SUCCESS);
    CHECK(COMPILE(missing, 1, &device, "", 0, NULL, NULL));
    MAKES(clCreateKernel(program, "f", &status), "the program is compiled only", CL_INVALID_PROGRAM_EXECUTABLE);
#undef COMPILE
#define LINK(context, count, list, options, programs, program)                                                         \
    clLinkProgram(context, count, list, options, programs, program, NULL, NULL, &status)
    WRONG_HANDLES_FOR(MAKES, LINK(X, 1, &device, "", 1, &program), "context", CL_INVALID_CONTEXT);
    MAKES(LINK(context, 0, &device, "", 1, &program), "num_devices is 0, device_list is not NULL", CL_INVALID_VALUE);
    MAKES(LINK(context, 1, NULL, "", 1, &program), "device_list is NULL, num_devices is not 0", CL_INVALID_VALUE);
    MAKES(LINK(context, 1, &null_device, "", 1, &program), "a device is NULL", CL_INVALID_DEVICE);
    MAKES(LINK(context, 1, &device, "", 0, &program), "num_input_programs is 0", CL_INVALID_VALUE);
    MAKES(LINK(context, 1, &device, "", 0, NULL), "no input programs at all", CL_INVALID_VALUE);
    MAKES(LINK(context, 1, &device, "", 1, NULL), "input_programs is NULL", CL_INVALID_VALUE);
    WRONG_HANDLES_FOR(MAKES, LINK(context, 1, &device, "", 2, ((cl_program[]){program, X})), "an input program",
                      CL_INVALID_PROGRAM);
    MAKES(clLinkProgram(context, 1, &device, "", 1, &program, NULL, &status, &status), "user_data without pfn_notify",
          CL_INVALID_VALUE);
    MAKES(LINK(context, 1, &device, "", 1, &raw), "an input program was not compiled", CL_INVALID_OPERATION);
    MAKES(LINK(context, 1, &device, "--no-such-option", 1, &program), "an option is unknown",
          CL_INVALID_LINKER_OPTIONS);
#undef LINK
    cl_program all[] = {program, broken, header, missing, raw, foreign};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(clReleaseProgram(all[i]));
}

static void objects(void)
{
    cl_program program = build(SOURCE, "");
    WRONG_HANDLES_FOR(RETURNS, clRetainProgram(X), "program", CL_INVALID_PROGRAM);
    WRONG_HANDLES_FOR(RETURNS, clReleaseProgram(X), "program", CL_INVALID_PROGRAM);
    WRONG_HANDLES_FOR(RETURNS, clGetProgramInfo(X, CL_PROGRAM_CONTEXT, 0, NULL, NULL), "program", CL_INVALID_PROGRAM);
    WRONG_HANDLES_FOR(RETURNS, clGetProgramBuildInfo(X, device, CL_PROGRAM_BUILD_LOG, 0, NULL, NULL), "program",
                      CL_INVALID_PROGRAM);
    WRONG_HANDLES_FOR(RETURNS,
                      clGetProgramBuildInfo(program, X == device ? (void *)context : X, CL_PROGRAM_BUILD_LOG, 0, NULL,
                                            NULL),
                      "device", CL_INVALID_DEVICE);
    WRONG_HANDLES_FOR(RETURNS, clSetProgramReleaseCallback(X, on_end, NULL), "program", CL_INVALID_PROGRAM);
    RETURNS(clSetProgramReleaseCallback(program, NULL, NULL), "pfn_notify is NULL", CL_INVALID_VALUE,
            CL_INVALID_OPERATION);
    WRONG_HANDLES_FOR(RETURNS, clSetProgramSpecializationConstant(X, 1, 4, &(cl_int){0}), "program",
                      CL_INVALID_PROGRAM);
    RETURNS(clSetProgramSpecializationConstant(program, 1, 4, &(cl_int){0}), "the program is not made of IL",
            CL_INVALID_PROGRAM, CL_INVALID_OPERATION);
    NO_INFO(clGetProgramInfo, program);
    INFO(clGetProgramInfo, CL_PROGRAM_REFERENCE_COUNT, program);
    INFO(clGetProgramInfo, CL_PROGRAM_CONTEXT, program);
    INFO(clGetProgramInfo, CL_PROGRAM_NUM_DEVICES, program);
    INFO(clGetProgramInfo, CL_PROGRAM_DEVICES, program);
    INFO(clGetProgramInfo, CL_PROGRAM_SOURCE, program);
    INFO(clGetProgramInfo, CL_PROGRAM_IL, program);
    INFO(clGetProgramInfo, CL_PROGRAM_BINARY_SIZES, program);
    INFO(clGetProgramInfo, CL_PROGRAM_BINARIES, program);
    INFO(clGetProgramInfo, CL_PROGRAM_NUM_KERNELS, program);
    INFO(clGetProgramInfo, CL_PROGRAM_KERNEL_NAMES, program);
    INFO(clGetProgramInfo, CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT, program);
    INFO(clGetProgramInfo, CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT, program);
    NO_INFO(clGetProgramBuildInfo, program, device);
    INFO(clGetProgramBuildInfo, CL_PROGRAM_BUILD_STATUS, program, device);
    INFO(clGetProgramBuildInfo, CL_PROGRAM_BUILD_OPTIONS, program, device);
    INFO(clGetProgramBuildInfo, CL_PROGRAM_BUILD_LOG, program, device);
    INFO(clGetProgramBuildInfo, CL_PROGRAM_BINARY_TYPE, program, device);
    INFO(clGetProgramBuildInfo, CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE, program, device);
    CHECK(clReleaseProgram(program));
}

int main(int argc, char **argv)
{
    open_all(argc, argv);
    creation();
    building();
    compiling_and_linking();
    objects();
    return close_all();
}
