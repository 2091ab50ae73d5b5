/* Command queues, markers, barriers (OpenCL 3.0 API, sections 5.1, 5.12 and 5.15). */
#include "errors.h"

static void creation(void)
{
    const cl_queue_properties unknown[] = {0x7fff, 1, 0};
    const cl_queue_properties bits[] = {CL_QUEUE_PROPERTIES, (cl_queue_properties)1 << 40, 0};
    const cl_queue_properties in_order_on_device[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_ON_DEVICE, 0};
    const cl_queue_properties default_on_host[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_ON_DEVICE_DEFAULT, 0};
    const cl_queue_properties size_on_host[] = {CL_QUEUE_SIZE, 4096, 0};
    const cl_queue_properties on_device[] = {
        CL_QUEUE_PROPERTIES, CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    WRONG_HANDLES_FOR(MAKES, clCreateCommandQueue(X, device, 0, &status), "context", CL_INVALID_CONTEXT);
    WRONG_HANDLES_FOR(MAKES, clCreateCommandQueue(context, X == device ? (void *)context : X, 0, &status), "device",
                      CL_INVALID_DEVICE);
    MAKES(clCreateCommandQueue(context, device, (cl_command_queue_properties)1 << 40, &status),
          "properties has unknown bits", CL_INVALID_VALUE);
    WRONG_HANDLES_FOR(MAKES, clCreateCommandQueueWithProperties(X, device, NULL, &status), "context",
                      CL_INVALID_CONTEXT);
    WRONG_HANDLES_FOR(MAKES,
                      clCreateCommandQueueWithProperties(context, X == device ? (void *)context : X, NULL, &status),
                      "device", CL_INVALID_DEVICE);
    MAKES(clCreateCommandQueueWithProperties(context, device, unknown, &status), "a property is unknown",
          CL_INVALID_VALUE);
    MAKES(clCreateCommandQueueWithProperties(context, device, bits, &status), "properties has unknown bits",
          CL_INVALID_VALUE);
    MAKES(clCreateCommandQueueWithProperties(context, device, in_order_on_device, &status),
          "a queue on the device that is in order", CL_INVALID_VALUE);
    MAKES(clCreateCommandQueueWithProperties(context, device, default_on_host, &status),
          "the default of queues on the device that is none", CL_INVALID_VALUE);
    MAKES(clCreateCommandQueueWithProperties(context, device, size_on_host, &status), "a size for a queue on the host",
          CL_INVALID_VALUE);
    /* The same under its older name. */
    cl_command_queue(CL_API_CALL * older)(cl_context, cl_device_id, const cl_queue_properties *, cl_int *) =
        clGetExtensionFunctionAddressForPlatform(platform, "clCreateCommandQueueWithPropertiesKHR");
    REMOTE
    {
        WRONG_HANDLES_FOR(MAKES, older(X, device, NULL, &status), "context", CL_INVALID_CONTEXT);
        MAKES(older(context, device, unknown, &status), "a property is unknown", CL_INVALID_VALUE);
    }
    cl_uint most = 0;
    clGetDeviceInfo(device, CL_DEVICE_MAX_ON_DEVICE_QUEUES, sizeof most, &most, NULL);
    if (most == 0)
        MAKES(clCreateCommandQueueWithProperties(context, device, on_device, &status),
              "a queue on a device that has none", CL_INVALID_QUEUE_PROPERTIES);
}

static void objects(void)
{
    cl_command_queue_properties old;
    WRONG_HANDLES_FOR(RETURNS, clRetainCommandQueue(X), "command_queue", CL_INVALID_COMMAND_QUEUE);
    WRONG_HANDLES_FOR(RETURNS, clReleaseCommandQueue(X), "command_queue", CL_INVALID_COMMAND_QUEUE);
    WRONG_HANDLES_FOR(RETURNS, clFlush(X), "command_queue", CL_INVALID_COMMAND_QUEUE);
    WRONG_HANDLES_FOR(RETURNS, clFinish(X), "command_queue", CL_INVALID_COMMAND_QUEUE);
    WRONG_HANDLES_FOR(RETURNS, clGetCommandQueueInfo(X, CL_QUEUE_CONTEXT, 0, NULL, NULL), "command_queue",
                      CL_INVALID_COMMAND_QUEUE);
    NO_INFO(clGetCommandQueueInfo, queue);
    INFO(clGetCommandQueueInfo, CL_QUEUE_CONTEXT, queue);
    INFO(clGetCommandQueueInfo, CL_QUEUE_DEVICE, queue);
    INFO(clGetCommandQueueInfo, CL_QUEUE_REFERENCE_COUNT, queue);
    INFO(clGetCommandQueueInfo, CL_QUEUE_PROPERTIES, queue);
    INFO(clGetCommandQueueInfo, CL_QUEUE_PROPERTIES_ARRAY, queue);
    INFO(clGetCommandQueueInfo, CL_QUEUE_DEVICE_DEFAULT, queue);
    RETURNS(clGetCommandQueueInfo(queue, CL_QUEUE_SIZE, sizeof(cl_uint), &(cl_uint){0}, NULL),
            "CL_QUEUE_SIZE of a queue on the host", CL_INVALID_COMMAND_QUEUE);
    RETURNS(clRetainCommandQueue(queue), "nothing", CL_SUCCESS);
    RETURNS(clReleaseCommandQueue(queue), "a reference more than the first", CL_SUCCESS);
    /* The function is that of OpenCL 1.0 devices. */
    RETURNS(clSetCommandQueueProperty(queue, CL_QUEUE_PROFILING_ENABLE, CL_TRUE, &old), "the device is not of OpenCL 1.0",
            CL_INVALID_OPERATION);
    WRONG_HANDLES_FOR(RETURNS, clSetCommandQueueProperty(X, CL_QUEUE_PROFILING_ENABLE, CL_TRUE, &old), "command_queue",
                      CL_INVALID_COMMAND_QUEUE);
}

static void default_queue(void)
{
    cl_uint most = 0;
    clGetDeviceInfo(device, CL_DEVICE_MAX_ON_DEVICE_QUEUES, sizeof most, &most, NULL);
    WRONG_HANDLES_FOR(RETURNS, clSetDefaultDeviceCommandQueue(X, device, queue), "context", CL_INVALID_CONTEXT);
    if (most == 0) {
        RETURNS(clSetDefaultDeviceCommandQueue(context, device, queue), "the device has no queues of its own",
                CL_INVALID_OPERATION);
        skipped("clSetDefaultDeviceCommandQueue", "the device has no queues of its own");
        return;
    }
    WRONG_HANDLES_FOR(RETURNS, clSetDefaultDeviceCommandQueue(context, X == device ? (void *)context : X, queue),
                      "device", CL_INVALID_DEVICE);
    WRONG_HANDLES_FOR(RETURNS, clSetDefaultDeviceCommandQueue(context, device, X), "command_queue",
                      CL_INVALID_COMMAND_QUEUE);
    RETURNS(clSetDefaultDeviceCommandQueue(context, device, queue), "command_queue is one on the host",
            CL_INVALID_COMMAND_QUEUE);
}

static void synchronisation(void)
{
    cl_event made;
    COMMAND(RETURNS, clEnqueueMarkerWithWaitList(Q, N, LIST, NULL));
    COMMAND(RETURNS, clEnqueueBarrierWithWaitList(Q, N, LIST, NULL));
    WRONG_HANDLES_FOR(RETURNS, clEnqueueMarker(X, &made), "command_queue", CL_INVALID_COMMAND_QUEUE);
    RETURNS(clEnqueueMarker(queue, NULL), "event is NULL", CL_INVALID_VALUE);
    WRONG_HANDLES_FOR(RETURNS, clEnqueueBarrier(X), "command_queue", CL_INVALID_COMMAND_QUEUE);
    RETURNS(clEnqueueBarrier(queue), "nothing", CL_SUCCESS);
    WRONG_HANDLES_FOR(RETURNS, clEnqueueWaitForEvents(X, 1, &complete_event), "command_queue", CL_INVALID_COMMAND_QUEUE);
    RETURNS(clEnqueueWaitForEvents(queue, 0, &complete_event), "num_events is 0", CL_INVALID_VALUE);
    RETURNS(clEnqueueWaitForEvents(queue, 1, NULL), "event_list is NULL", CL_INVALID_VALUE);
    RETURNS(clEnqueueWaitForEvents(queue, 1, &other_event), "an event is of another context", CL_INVALID_CONTEXT);
    WRONG_HANDLES_FOR(RETURNS, clEnqueueWaitForEvents(queue, 1, &(cl_event){X}), "an event", CL_INVALID_EVENT);
}

int main(int argc, char **argv)
{
    open_all(argc, argv);
    creation();
    objects();
    default_queue();
    synchronisation();
    return close_all();
}
