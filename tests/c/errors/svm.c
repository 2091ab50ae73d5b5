/* Shared virtual memory (OpenCL 3.0 API, section 5.6): handles and wait lists. What is wrong about memory is in svm_errors.c, which
 * no implementation that follows every pointer survives. */
#include "errors.h"

static const char *SOURCE = "kernel void f(global int *x) { x[0] = 1; }\n";

int main(int argc, char **argv)
{
    open_all(argc, argv);
    cl_device_svm_capabilities can = 0;
    clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof can, &can, NULL);
    if (can == 0) {
        skipped("clSVMAlloc and all that follows", "the device has no shared virtual memory");
        return close_all();
    }
    static char host[4096];
    const char pattern[4] = {0};
    char *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, sizeof host, 0);
    const void *one = memory;
    void *gone = NULL;
    REQUIRE(memory != NULL);
    cl_program program = build(SOURCE, "");
    cl_kernel kernel = kernel_of(program, "f");
    /* It has no code: NULL is its answer. */
    REMOTE WRONG_HANDLES_FOR(RETURNS,
                             clSVMAlloc(X ? X : (void *)queue, 0, 64, 0) ? CL_SUCCESS : CL_INVALID_CONTEXT,
                             "context, which", CL_INVALID_CONTEXT);
    COMMAND(RETURNS, clEnqueueSVMMap(Q, CL_TRUE, CL_MAP_READ, memory, 64, N, LIST, NULL));
    COMMAND(RETURNS, clEnqueueSVMMemcpy(Q, CL_TRUE, memory, host, 64, N, LIST, NULL));
    COMMAND(RETURNS, clEnqueueSVMMemFill(Q, memory, pattern, 4, 64, N, LIST, NULL));
    COMMAND(RETURNS, clEnqueueSVMMigrateMem(Q, 1, &one, NULL, 0, N, LIST, NULL));
    REMOTE COMMAND(RETURNS, clEnqueueSVMFree(Q, 1, &gone, NULL, NULL, N, LIST, NULL));
    CHECK(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_WRITE, memory, 64, 0, NULL, NULL));
    COMMAND(RETURNS, clEnqueueSVMUnmap(Q, memory, N, LIST, NULL));
    CHECK(clEnqueueSVMUnmap(queue, memory, 0, NULL, NULL));
    FAILED_EVENT(RETURNS, clEnqueueSVMMemcpy(queue, CL_TRUE, host, memory, 64, N, LIST, MADE));
    FAILED_EVENT(RETURNS, clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ, memory, 64, N, LIST, MADE));
    WRONG_HANDLES_FOR(RETURNS, clSetKernelArgSVMPointer(X, 0, memory), "kernel", CL_INVALID_KERNEL);
    RETURNS(clSetKernelArgSVMPointer(kernel, 7, memory), "no argument of that index", CL_INVALID_ARG_INDEX);
    WRONG_HANDLES_FOR(RETURNS, clSetKernelExecInfo(X, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof one, &one), "kernel",
                      CL_INVALID_KERNEL);
    RETURNS(clSetKernelExecInfo(kernel, 0x7fff, sizeof one, &one), "param_name unknown", CL_INVALID_VALUE);
    RETURNS(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof one, NULL), "param_value is NULL",
            CL_INVALID_VALUE);
    RETURNS(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, 5, &one), "param_value_size is no multiple",
            CL_INVALID_VALUE);
    CHECK(clFinish(queue));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    clSVMFree(context, memory);
    return close_all();
}
