/* Command queues on the device (OpenCL 3.0 API, sections 5.1 and 5.9.2). */
#include "errors.h"

enum { KIND = CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE };

static cl_command_queue own, others_own;

static cl_command_queue on_device(cl_context of)
{
    const cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, KIND, 0};
    cl_command_queue made;
    MAKE(made, clCreateCommandQueueWithProperties(of, device, list, &status));
    return made;
}

static void creation(void)
{
    cl_command_queue_properties able = 0;
    cl_uint most = 0;
    clGetDeviceInfo(device, CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES, sizeof able, &able, NULL);
    clGetDeviceInfo(device, CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE, sizeof most, &most, NULL);
    const cl_queue_properties bits[] = {CL_QUEUE_PROPERTIES, KIND | (cl_queue_properties)1 << 40, 0};
    const cl_queue_properties twice[] = {CL_QUEUE_PROPERTIES, KIND, CL_QUEUE_SIZE, 4096, CL_QUEUE_SIZE, 4096, 0};
    const cl_queue_properties profiling[] = {CL_QUEUE_PROPERTIES, KIND | CL_QUEUE_PROFILING_ENABLE, 0};
    const cl_queue_properties too_large[] = {CL_QUEUE_PROPERTIES, KIND, CL_QUEUE_SIZE, (cl_queue_properties)most + 1, 0};
    WRONG_HANDLES_FOR(MAKES, clCreateCommandQueueWithProperties(X, device, profiling, &status), "context", CL_INVALID_CONTEXT);
    MAKES(clCreateCommandQueueWithProperties(context, device, bits, &status), "properties has unknown bits", CL_INVALID_VALUE);
    MAKES(clCreateCommandQueueWithProperties(context, device, twice, &status), "the size is there twice", CL_INVALID_VALUE);
    MAKES(clCreateCommandQueueWithProperties(context, device, too_large, &status), "a size beyond the device's most",
          CL_INVALID_QUEUE_PROPERTIES, CL_INVALID_VALUE);
    if (!(able & CL_QUEUE_PROFILING_ENABLE))
        MAKES(clCreateCommandQueueWithProperties(context, device, profiling, &status), "no profiling on the device",
              CL_INVALID_QUEUE_PROPERTIES);
    MAKES(clCreateCommandQueue(context, device, KIND, &status), "the older function", CL_INVALID_QUEUE_PROPERTIES,
          CL_INVALID_VALUE);
}

static void objects(void)
{
    NO_INFO(clGetCommandQueueInfo, own);
    INFO(clGetCommandQueueInfo, CL_QUEUE_CONTEXT, own);
    INFO(clGetCommandQueueInfo, CL_QUEUE_DEVICE, own);
    INFO(clGetCommandQueueInfo, CL_QUEUE_REFERENCE_COUNT, own);
    INFO(clGetCommandQueueInfo, CL_QUEUE_PROPERTIES, own);
    INFO(clGetCommandQueueInfo, CL_QUEUE_PROPERTIES_ARRAY, own);
    INFO(clGetCommandQueueInfo, CL_QUEUE_SIZE, own);
    RETURNS(clSetDefaultDeviceCommandQueue(context, device, own), "nothing", CL_SUCCESS);
    INFO(clGetCommandQueueInfo, CL_QUEUE_DEVICE_DEFAULT, own);
    RETURNS(clRetainCommandQueue(own), "nothing", CL_SUCCESS);
    RETURNS(clReleaseCommandQueue(own), "a reference more than the first", CL_SUCCESS);
}

static void defaults(void)
{
    cl_device_device_enqueue_capabilities able = 0;
    clGetDeviceInfo(device, CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES, sizeof able, &able, NULL);
    if (!(able & CL_DEVICE_QUEUE_REPLACEABLE_DEFAULT)) {
        RETURNS(clSetDefaultDeviceCommandQueue(context, device, own), "the default cannot be replaced", CL_INVALID_OPERATION);
        return;
    }
    WRONG_HANDLES_FOR(RETURNS, clSetDefaultDeviceCommandQueue(X, device, own), "context", CL_INVALID_CONTEXT);
    RETURNS(clSetDefaultDeviceCommandQueue(other_context, device, own), "command_queue is of another context",
            CL_INVALID_COMMAND_QUEUE);
}

/* What the host enqueues, and waits for, is for queues of the host. */
static void commands(void)
{
    int value = 0;
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, 64, NULL);
    cl_event event;
    RETURNS(clFlush(own), "a queue on the device", CL_INVALID_COMMAND_QUEUE);
    RETURNS(clFinish(own), "a queue on the device", CL_INVALID_COMMAND_QUEUE);
    RETURNS(clEnqueueMarkerWithWaitList(own, 0, NULL, NULL), "a queue on the device", CL_INVALID_COMMAND_QUEUE);
    RETURNS(clEnqueueBarrierWithWaitList(own, 0, NULL, &event), "a queue on the device", CL_INVALID_COMMAND_QUEUE);
    RETURNS(clEnqueueReadBuffer(own, buffer, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL), "a queue on the device",
            CL_INVALID_COMMAND_QUEUE);
    RETURNS(clEnqueueWriteBuffer(own, buffer, CL_FALSE, 0, sizeof value, &value, 0, NULL, NULL), "a queue on the device",
            CL_INVALID_COMMAND_QUEUE);
    RETURNS(clEnqueueFillBuffer(own, buffer, &value, sizeof value, 0, 64, 0, NULL, NULL), "a queue on the device",
            CL_INVALID_COMMAND_QUEUE);
    RETURNS(clEnqueueMigrateMemObjects(own, 1, &buffer, 0, 0, NULL, NULL), "a queue on the device", CL_INVALID_COMMAND_QUEUE);
    CHECK(clReleaseMemObject(buffer));
}

static void arguments(void)
{
    cl_program program = build("__kernel void k(queue_t q, __global int *x, int n)\n"
                               "{ enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(n), ^{ x[0] += n; }); }\n",
                               "-cl-std=CL3.0 -cl-kernel-arg-info");
    cl_kernel kernel = kernel_of(program, "k");
    cl_mem buffer = buffer_of(CL_MEM_READ_WRITE, 64, NULL);
    int n = 1;
    size_t one = 1;
    set_arg(kernel, 1, sizeof buffer, &buffer);
    set_arg(kernel, 2, sizeof n, &n);
    RETURNS(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL), "the queue was not set",
            CL_INVALID_KERNEL_ARGS);
    WRONG_HANDLES_FOR(RETURNS, clSetKernelArg(kernel, 0, sizeof X, &X), "a queue", CL_INVALID_DEVICE_QUEUE);
    RETURNS(clSetKernelArg(kernel, 0, sizeof queue, &queue), "a queue is one on the host", CL_INVALID_DEVICE_QUEUE);
    RETURNS(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "a queue is a buffer", CL_INVALID_DEVICE_QUEUE);
    RETURNS(clSetKernelArg(kernel, 0, sizeof others_own, &others_own), "a queue is of another context",
            CL_INVALID_DEVICE_QUEUE);
    REMOTE RETURNS(clSetKernelArg(kernel, 0, sizeof queue, NULL), "a queue without a value", CL_INVALID_DEVICE_QUEUE,
                   CL_INVALID_ARG_VALUE);
    RETURNS(clSetKernelArg(kernel, 0, sizeof own - 1, &own), "a queue of another size", CL_INVALID_ARG_SIZE);
    RETURNS(clSetKernelArg(kernel, 1, sizeof own, &own), "a buffer is a queue", CL_INVALID_MEM_OBJECT);
    RETURNS(clSetKernelArg(kernel, 0, sizeof own, &own), "a queue", CL_SUCCESS);
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
}

int main(int argc, char **argv)
{
    open_all(argc, argv);
    cl_uint most = 0;
    clGetDeviceInfo(device, CL_DEVICE_MAX_ON_DEVICE_QUEUES, sizeof most, &most, NULL);
    if (most == 0) {
        skipped("clCreateCommandQueueWithProperties", "the device has no queues of its own");
        return close_all();
    }
    own = on_device(context);
    others_own = on_device(other_context);
    creation();
    objects();
    defaults();
    commands();
    arguments();
    CHECK(clReleaseCommandQueue(own));
    CHECK(clReleaseCommandQueue(others_own));
    return close_all();
}
