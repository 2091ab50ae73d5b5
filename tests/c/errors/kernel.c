/* Kernels and their launches (OpenCL 3.0 API, sections 5.9, 5.10 and 5.13). */
#include "errors.h"

static const char *SOURCE =
    "__kernel void f(__global int *x, int n, __local int *l, __constant int *c) { x[0] = n + l[0] + c[0]; }\n"
    "__attribute__((reqd_work_group_size(4, 1, 1))) __kernel void four(__global int *x) { x[0] = 4; }\n";

static cl_program program;
static cl_kernel kernel, four, unset;
static cl_mem buffer, foreign;

static void CL_CALLBACK native_kernel(void *arguments)
{
    (void)arguments;
}

static void creation(void)
{
    cl_program raw;
    cl_kernel some[8];
    cl_uint count;
    MAKE(raw, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    WRONG_HANDLES_FOR(MAKES, clCreateKernel(X, "f", &status), "program", CL_INVALID_PROGRAM);
    MAKES(clCreateKernel(raw, "f", &status), "the program is not built", CL_INVALID_PROGRAM_EXECUTABLE);
    MAKES(clCreateKernel(program, "g", &status), "no kernel of that name", CL_INVALID_KERNEL_NAME);
    MAKES(clCreateKernel(program, "", &status), "an empty name", CL_INVALID_KERNEL_NAME);
    MAKES(clCreateKernel(program, NULL, &status), "kernel_name is NULL", CL_INVALID_VALUE);
    WRONG_HANDLES_FOR(RETURNS, clCreateKernelsInProgram(X, 8, some, &count), "program", CL_INVALID_PROGRAM);
    RETURNS(clCreateKernelsInProgram(raw, 8, some, &count), "the program is not built", CL_INVALID_PROGRAM_EXECUTABLE);
    RETURNS(clCreateKernelsInProgram(program, 1, some, &count), "num_kernels is too small", CL_INVALID_VALUE);
    RETURNS(clCreateKernelsInProgram(program, 0, NULL, &count), "the number alone", CL_SUCCESS);
    CHECK(clReleaseProgram(raw));
    WRONG_HANDLES_FOR(MAKES, clCloneKernel(X, &status), "source_kernel", CL_INVALID_KERNEL);
    WRONG_HANDLES_FOR(RETURNS, clRetainKernel(X), "kernel", CL_INVALID_KERNEL);
    WRONG_HANDLES_FOR(RETURNS, clReleaseKernel(X), "kernel", CL_INVALID_KERNEL);
}

static void arguments(void)
{
    int n = 1;
    cl_mem none = NULL;
    WRONG_HANDLES_FOR(RETURNS, clSetKernelArg(X, 1, sizeof n, &n), "kernel", CL_INVALID_KERNEL);
    RETURNS(clSetKernelArg(kernel, 4, sizeof n, &n), "no argument of that index", CL_INVALID_ARG_INDEX);
    RETURNS(clSetKernelArg(kernel, UINT32_MAX, sizeof n, &n), "the index is UINT_MAX", CL_INVALID_ARG_INDEX);
    RETURNS(clSetKernelArg(kernel, 1, 2, &n), "a value of another size", CL_INVALID_ARG_SIZE);
    RETURNS(clSetKernelArg(kernel, 1, SIZE_MAX, &n), "a value of SIZE_MAX", CL_INVALID_ARG_SIZE);
    RETURNS(clSetKernelArg(kernel, 1, 0, &n), "a value of no size", CL_INVALID_ARG_SIZE);
    RETURNS(clSetKernelArg(kernel, 1, sizeof n, NULL), "a value that is NULL", CL_INVALID_ARG_VALUE);
    RETURNS(clSetKernelArg(kernel, 0, 4, &buffer), "a buffer of another size", CL_INVALID_ARG_SIZE);
    RETURNS(clSetKernelArg(kernel, 3, 4, &buffer), "a constant buffer of another size", CL_INVALID_ARG_SIZE);
    RETURNS(clSetKernelArg(kernel, 2, sizeof n, &n), "local memory with a value", CL_INVALID_ARG_VALUE);
    RETURNS(clSetKernelArg(kernel, 2, 0, NULL), "local memory of no size", CL_INVALID_ARG_SIZE);
    RETURNS(clSetKernelArg(kernel, 0, sizeof none, &none), "a null buffer is allowed", CL_SUCCESS);
    RETURNS(clSetKernelArg(kernel, 0, sizeof none, NULL), "no buffer is allowed", CL_SUCCESS);
    REMOTE for (int how = NOTHING_BEHIND; how < WRONG_HANDLES; how++)
    {
        void *wrong = wrong_handle(how);
        char condition[128];
        snprintf(condition, sizeof condition, "a buffer that %s", WRONG_HANDLE[how]);
        RETURNS(clSetKernelArg(kernel, 0, sizeof wrong, &wrong), condition, CL_INVALID_MEM_OBJECT, CL_INVALID_ARG_VALUE);
    }
}

static void launches(void)
{
    size_t one = 1, zero = 0, three = 3, most = SIZE_MAX, huge = (size_t)1 << 62;
    size_t items[3] = {4, 4, 4}, wide[3] = {(size_t)1 << 31, (size_t)1 << 31, 4};
    int n = 1;
#define LAUNCH(kernel, dims, offset, global, local)                                                                    \
    clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, 0, NULL, NULL)
    set_arg(kernel, 0, sizeof buffer, &buffer);
    set_arg(kernel, 1, sizeof n, &n);
    set_arg(kernel, 2, 16, NULL);
    set_arg(kernel, 3, sizeof buffer, &buffer);
    set_arg(four, 0, sizeof buffer, &buffer);
    COMMAND(RETURNS, clEnqueueNDRangeKernel(Q, kernel, 1, NULL, &one, NULL, N, LIST, NULL));
    COMMAND(RETURNS, clEnqueueTask(Q, kernel, N, LIST, NULL));
    WRONG_HANDLES_FOR(RETURNS, LAUNCH(X, 1, NULL, &one, NULL), "kernel", CL_INVALID_KERNEL);
    WRONG_HANDLES_FOR(RETURNS, clEnqueueTask(queue, X, 0, NULL, NULL), "kernel", CL_INVALID_KERNEL);
    RETURNS(clEnqueueNDRangeKernel(other_queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL),
            "the queue is of another context", CL_INVALID_CONTEXT);
    RETURNS(clEnqueueTask(other_queue, kernel, 0, NULL, NULL), "the queue is of another context", CL_INVALID_CONTEXT);
    RETURNS(LAUNCH(unset, 1, NULL, &one, NULL), "an argument was not set", CL_INVALID_KERNEL_ARGS);
    RETURNS(clEnqueueTask(queue, unset, 0, NULL, NULL), "an argument was not set", CL_INVALID_KERNEL_ARGS);
    RETURNS(LAUNCH(kernel, 0, NULL, items, NULL), "work_dim is 0", CL_INVALID_WORK_DIMENSION);
    RETURNS(LAUNCH(kernel, 4, NULL, items, NULL), "work_dim is 4", CL_INVALID_WORK_DIMENSION);
    /* An implementation that does not look runs for ever. */
    REMOTE RETURNS(LAUNCH(kernel, 1, &one, &most, NULL), "offset and size wrap", CL_INVALID_GLOBAL_OFFSET);
    RETURNS(LAUNCH(kernel, 1, &most, &one, NULL), "size and offset wrap", CL_INVALID_GLOBAL_OFFSET);
    RETURNS(LAUNCH(kernel, 1, NULL, &three, &zero), "a work-group of no items", CL_INVALID_WORK_GROUP_SIZE);
    RETURNS(LAUNCH(kernel, 1, NULL, &huge, &huge), "a work-group beyond the device's most", CL_INVALID_WORK_GROUP_SIZE,
            CL_INVALID_WORK_ITEM_SIZE);
    RETURNS(LAUNCH(kernel, 3, NULL, wide, wide), "a work-group whose items wrap", CL_INVALID_WORK_GROUP_SIZE,
            CL_INVALID_WORK_ITEM_SIZE);
    RETURNS(LAUNCH(kernel, 1, NULL, &one, &three), "work-groups that do not fit", CL_INVALID_WORK_GROUP_SIZE);
    RETURNS(LAUNCH(four, 1, NULL, &three, &three), "not the required work-group", CL_INVALID_WORK_GROUP_SIZE);
#undef LAUNCH
}

static void native_kernels(void)
{
    cl_device_exec_capabilities can = 0;
    clGetDeviceInfo(device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, NULL);
    if (!(can & CL_EXEC_NATIVE_KERNEL)) {
        RETURNS(clEnqueueNativeKernel(queue, native_kernel, NULL, 0, 0, NULL, NULL, 0, NULL, NULL),
                "the device runs none", CL_INVALID_OPERATION);
        skipped("clEnqueueNativeKernel", "the device runs no native kernels");
        return;
    }
    struct {
        cl_mem memory;
    } arguments = {buffer};
    const void *place = &arguments.memory;
#define NATIVE(function, args, size, count, list, places)                                                              \
    clEnqueueNativeKernel(queue, function, args, size, count, list, places, 0, NULL, NULL)
    COMMAND(RETURNS, clEnqueueNativeKernel(Q, native_kernel, NULL, 0, 0, NULL, NULL, N, LIST, NULL));
    RETURNS(NATIVE(NULL, NULL, 0, 0, NULL, NULL), "user_func is NULL", CL_INVALID_VALUE);
    RETURNS(NATIVE(native_kernel, NULL, 8, 0, NULL, NULL), "args is NULL, cb_args is not 0", CL_INVALID_VALUE);
    RETURNS(NATIVE(native_kernel, NULL, 0, 1, &buffer, &place), "args is NULL, num_mem_objects is not 0",
            CL_INVALID_VALUE);
    RETURNS(NATIVE(native_kernel, &arguments, 0, 0, NULL, NULL), "cb_args is 0, args is not NULL", CL_INVALID_VALUE);
    RETURNS(NATIVE(native_kernel, &arguments, sizeof arguments, 1, NULL, &place), "mem_list is NULL", CL_INVALID_VALUE);
    RETURNS(NATIVE(native_kernel, &arguments, sizeof arguments, 1, &buffer, NULL), "args_mem_loc is NULL",
            CL_INVALID_VALUE);
    RETURNS(NATIVE(native_kernel, &arguments, sizeof arguments, 0, &buffer, NULL), "mem_list without its number",
            CL_INVALID_VALUE);
    RETURNS(NATIVE(native_kernel, &arguments, sizeof arguments, 0, NULL, &place), "args_mem_loc without its number",
            CL_INVALID_VALUE);
    WRONG_HANDLES_FOR(RETURNS, NATIVE(native_kernel, &arguments, sizeof arguments, 1, &(cl_mem){X}, &place),
                      "a memory object", CL_INVALID_MEM_OBJECT);
#undef NATIVE
}

static void queries(void)
{
    cl_kernel four_items = four;
    WRONG_HANDLES_FOR(RETURNS, clGetKernelInfo(X, CL_KERNEL_CONTEXT, 0, NULL, NULL), "kernel", CL_INVALID_KERNEL);
    NO_INFO(clGetKernelInfo, kernel);
    INFO(clGetKernelInfo, CL_KERNEL_FUNCTION_NAME, kernel);
    INFO(clGetKernelInfo, CL_KERNEL_NUM_ARGS, kernel);
    INFO(clGetKernelInfo, CL_KERNEL_REFERENCE_COUNT, kernel);
    INFO(clGetKernelInfo, CL_KERNEL_CONTEXT, kernel);
    INFO(clGetKernelInfo, CL_KERNEL_PROGRAM, kernel);
    INFO(clGetKernelInfo, CL_KERNEL_ATTRIBUTES, kernel);
    WRONG_HANDLES_FOR(RETURNS, clGetKernelArgInfo(X, 0, CL_KERNEL_ARG_NAME, 0, NULL, NULL), "kernel",
                      CL_INVALID_KERNEL);
    RETURNS(clGetKernelArgInfo(kernel, 4, CL_KERNEL_ARG_NAME, 0, NULL, NULL), "no argument of that index",
            CL_INVALID_ARG_INDEX);
    NO_INFO(clGetKernelArgInfo, kernel, 0);
    INFO(clGetKernelArgInfo, CL_KERNEL_ARG_ADDRESS_QUALIFIER, kernel, 0);
    INFO(clGetKernelArgInfo, CL_KERNEL_ARG_ACCESS_QUALIFIER, kernel, 0);
    INFO(clGetKernelArgInfo, CL_KERNEL_ARG_TYPE_NAME, kernel, 0);
    INFO(clGetKernelArgInfo, CL_KERNEL_ARG_TYPE_QUALIFIER, kernel, 0);
    INFO(clGetKernelArgInfo, CL_KERNEL_ARG_NAME, kernel, 0);
    WRONG_HANDLES_FOR(RETURNS, clGetKernelWorkGroupInfo(X, device, CL_KERNEL_WORK_GROUP_SIZE, 0, NULL, NULL), "kernel",
                      CL_INVALID_KERNEL);
    REMOTE for (int how = NOTHING_BEHIND; how < OTHER_KIND; how++)
    {
        char condition[128];
        snprintf(condition, sizeof condition, "device %s", WRONG_HANDLE[how]);
        RETURNS(clGetKernelWorkGroupInfo(kernel, wrong_handle(how), CL_KERNEL_WORK_GROUP_SIZE, 0, NULL, NULL), condition,
                CL_INVALID_DEVICE);
    }
    RETURNS(clGetKernelWorkGroupInfo(kernel, NULL, CL_KERNEL_WORK_GROUP_SIZE, 0, NULL, NULL),
            "device NULL is allowed where there is one", CL_SUCCESS);
    RETURNS(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_GLOBAL_WORK_SIZE, 0, NULL, NULL),
            "CL_KERNEL_GLOBAL_WORK_SIZE of an ordinary kernel", CL_INVALID_VALUE);
    NO_INFO(clGetKernelWorkGroupInfo, kernel, device);
    INFO(clGetKernelWorkGroupInfo, CL_KERNEL_WORK_GROUP_SIZE, kernel, device);
    INFO(clGetKernelWorkGroupInfo, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, four_items, device);
    INFO(clGetKernelWorkGroupInfo, CL_KERNEL_LOCAL_MEM_SIZE, kernel, device);
    INFO(clGetKernelWorkGroupInfo, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, kernel, device);
    INFO(clGetKernelWorkGroupInfo, CL_KERNEL_PRIVATE_MEM_SIZE, kernel, device);
}

typedef cl_int(CL_API_CALL *Suggested)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, size_t *);

/* cl_khr_suggested_local_work_size, under its two names. */
static void suggested_sizes(const char *name)
{
    Suggested suggested = (Suggested)clGetExtensionFunctionAddressForPlatform(platform, name);
    size_t one = 1, zero = 0, most = SIZE_MAX, size[3];
    static char extensions[65536];
    clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL);
    if (!strstr(extensions, "cl_khr_suggested_local_work_size")) {
        skipped(name, "the device does not have cl_khr_suggested_local_work_size");
        return;
    }
#define SUGGESTED(queue, kernel, dims, offset, global, size) suggested(queue, kernel, dims, offset, global, size)
#define ROW(call, what, code)                                                                                          \
    if (begins(name, what, (const cl_int[]){code}, 1))                                                                 \
    ends((call), NULL)
    ROW(SUGGESTED(NULL, kernel, 1, NULL, &one, size), "command_queue is NULL", CL_INVALID_COMMAND_QUEUE);
    ROW(SUGGESTED((void *)context, kernel, 1, NULL, &one, size), "command_queue is a context", CL_INVALID_COMMAND_QUEUE);
    ROW(SUGGESTED(queue, NULL, 1, NULL, &one, size), "kernel is NULL", CL_INVALID_KERNEL);
    ROW(SUGGESTED(queue, (void *)context, 1, NULL, &one, size), "kernel is a context", CL_INVALID_KERNEL);
    ROW(SUGGESTED(other_queue, kernel, 1, NULL, &one, size), "the queue is of another context", CL_INVALID_CONTEXT);
    ROW(SUGGESTED(queue, unset, 1, NULL, &one, size), "an argument was not set", CL_INVALID_KERNEL_ARGS);
    ROW(SUGGESTED(queue, kernel, 0, NULL, &one, size), "work_dim is 0", CL_INVALID_WORK_DIMENSION);
    ROW(SUGGESTED(queue, kernel, 4, NULL, &one, size), "work_dim is 4", CL_INVALID_WORK_DIMENSION);
    ROW(SUGGESTED(queue, kernel, 1, NULL, NULL, size), "global_work_size is NULL", CL_INVALID_GLOBAL_WORK_SIZE);
    ROW(SUGGESTED(queue, kernel, 1, NULL, &zero, size), "global_work_size is 0", CL_INVALID_GLOBAL_WORK_SIZE);
    ROW(SUGGESTED(queue, kernel, 1, &one, &most, size), "offset and size wrap", CL_INVALID_GLOBAL_OFFSET);
    ROW(SUGGESTED(queue, kernel, 1, NULL, &one, NULL), "suggested_local_work_size is NULL", CL_INVALID_VALUE);
#undef ROW
#undef SUGGESTED
}

static void sub_groups(void)
{
    cl_uint most = 0;
    size_t sizes[1] = {1}, count;
    clGetDeviceInfo(device, CL_DEVICE_MAX_NUM_SUB_GROUPS, sizeof most, &most, NULL);
#define SUB_GROUPS(kernel, device, name, size, value)                                                                  \
    clGetKernelSubGroupInfo(kernel, device, name, size, value, sizeof count, &count, NULL)
    /* cl_khr_subgroups has it under another name. */
    cl_int(CL_API_CALL * older)(cl_kernel, cl_device_id, cl_uint, size_t, const void *, size_t, void *, size_t *) =
        clGetExtensionFunctionAddressForPlatform(platform, "clGetKernelSubGroupInfoKHR");
    REMOTE WRONG_HANDLES_FOR(
        RETURNS, older(X, device, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, 0, NULL, sizeof count, &count, NULL),
        "kernel", CL_INVALID_KERNEL);
    WRONG_HANDLES_FOR(RETURNS, SUB_GROUPS(X, device, CL_KERNEL_MAX_NUM_SUB_GROUPS, 0, NULL), "kernel",
                      CL_INVALID_KERNEL);
    if (most == 0) {
        RETURNS(SUB_GROUPS(kernel, device, CL_KERNEL_MAX_NUM_SUB_GROUPS, 0, NULL), "the device has no sub-groups",
                CL_INVALID_OPERATION);
        skipped("clGetKernelSubGroupInfo", "the device has no sub-groups");
        return;
    }
    RETURNS(SUB_GROUPS(kernel, device, 0x7fff, 0, NULL), "param_name unknown", CL_INVALID_VALUE);
    RETURNS(SUB_GROUPS(kernel, device, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, 0, NULL), "input_value is NULL",
            CL_INVALID_VALUE);
    RETURNS(SUB_GROUPS(kernel, device, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, 3, sizes),
            "input_value_size is no multiple", CL_INVALID_VALUE);
    RETURNS(SUB_GROUPS(kernel, device, CL_KERNEL_MAX_NUM_SUB_GROUPS, 0, NULL), "nothing", CL_SUCCESS);
#undef SUB_GROUPS
}

int main(int argc, char **argv)
{
    open_all(argc, argv);
    program = build(SOURCE, "-cl-kernel-arg-info");
    kernel = kernel_of(program, "f");
    four = kernel_of(program, "four");
    unset = kernel_of(program, "f");
    buffer = buffer_of(0, 64, NULL);
    MAKE(foreign, clCreateBuffer(other_context, 0, 64, NULL, &status));
    creation();
    arguments();
    launches();
    native_kernels();
    queries();
    sub_groups();
    suggested_sizes("clGetKernelSuggestedLocalWorkSize");
    suggested_sizes("clGetKernelSuggestedLocalWorkSizeKHR");
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseMemObject(foreign));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseKernel(four));
    CHECK(clReleaseKernel(unset));
    CHECK(clReleaseProgram(program));
    return close_all();
}
