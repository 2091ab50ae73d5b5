/* Contexts (OpenCL 3.0 API, section 4.4). */
#include "errors.h"

static void CL_CALLBACK on_error(const char *text, const void *more, size_t size, void *data)
{
    (void)text, (void)more, (void)size, (void)data;
}

static void CL_CALLBACK on_destruction(cl_context gone, void *data)
{
    (void)gone, (void)data;
}

static void creation(void)
{
    const cl_context_properties unknown[] = {0x7fff, 1, 0};
    const cl_context_properties twice[] = {CL_CONTEXT_PLATFORM, (intptr_t)platform, CL_CONTEXT_PLATFORM,
                                           (intptr_t)platform, 0};
    const cl_context_properties bad_sync[] = {CL_CONTEXT_INTEROP_USER_SYNC, 7, 0};
    cl_device_id with_null[] = {device, NULL};
    MAKES(clCreateContext(NULL, 0, &device, NULL, NULL, &status), "num_devices is 0", CL_INVALID_VALUE);
    MAKES(clCreateContext(NULL, 1, NULL, NULL, NULL, &status), "devices is NULL", CL_INVALID_VALUE);
    MAKES(clCreateContext(unknown, 1, &device, NULL, NULL, &status), "a property is unknown", CL_INVALID_PROPERTY);
    MAKES(clCreateContext(twice, 1, &device, NULL, NULL, &status), "a property is there twice", CL_INVALID_PROPERTY);
    MAKES(clCreateContext(bad_sync, 1, &device, NULL, NULL, &status), "a property's value is not valid",
          CL_INVALID_PROPERTY);
    MAKES(clCreateContext(NULL, 1, &device, NULL, &status, &status), "user_data without pfn_notify", CL_INVALID_VALUE);
    MAKES(clCreateContext(NULL, 2, with_null, NULL, NULL, &status), "a device is NULL", CL_INVALID_DEVICE);
    WRONG_HANDLES_FOR(MAKES, clCreateContext(NULL, 1, &(cl_device_id){X == device ? (void *)context : X}, NULL, NULL,
                                             &status), "the device", CL_INVALID_DEVICE);
    WRONG_HANDLES_FOR(
        MAKES,
        clCreateContext((cl_context_properties[]){CL_CONTEXT_PLATFORM, (intptr_t)X, 0}, 1, &device, NULL, NULL, &status),
        "the platform", CL_INVALID_PLATFORM);
    MAKES(clCreateContextFromType(unknown, CL_DEVICE_TYPE_ALL, NULL, NULL, &status), "a property is unknown",
          CL_INVALID_PROPERTY, CL_INVALID_PLATFORM);
    MAKES(clCreateContextFromType(twice, CL_DEVICE_TYPE_ALL, NULL, NULL, &status), "a property is there twice",
          CL_INVALID_PROPERTY);
    const cl_context_properties of_platform[] = {CL_CONTEXT_PLATFORM, (intptr_t)platform, 0};
    MAKES(clCreateContextFromType(of_platform, CL_DEVICE_TYPE_ACCELERATOR, NULL, NULL, &status), "no device of the type",
          CL_DEVICE_NOT_FOUND);
    MAKES(clCreateContextFromType(of_platform, 0, NULL, NULL, &status), "device_type is 0", CL_INVALID_DEVICE_TYPE);
    MAKES(clCreateContextFromType(of_platform, (cl_device_type)1 << 40, NULL, NULL, &status),
          "device_type has unknown bits", CL_INVALID_DEVICE_TYPE);
    MAKES(clCreateContextFromType(of_platform, CL_DEVICE_TYPE_ALL, NULL, &status, &status),
          "user_data without pfn_notify", CL_INVALID_VALUE);
}

static void others(void)
{
    WRONG_HANDLES_FOR(RETURNS, clRetainContext(X), "context", CL_INVALID_CONTEXT);
    WRONG_HANDLES_FOR(RETURNS, clReleaseContext(X), "context", CL_INVALID_CONTEXT);
    WRONG_HANDLES_FOR(RETURNS, clGetContextInfo(X, CL_CONTEXT_DEVICES, 0, NULL, NULL), "context", CL_INVALID_CONTEXT);
    WRONG_HANDLES_FOR(RETURNS, clSetContextDestructorCallback(X, on_destruction, NULL), "context", CL_INVALID_CONTEXT);
    RETURNS(clSetContextDestructorCallback(context, NULL, NULL), "pfn_notify is NULL", CL_INVALID_VALUE);
    NO_INFO(clGetContextInfo, context);
    INFO(clGetContextInfo, CL_CONTEXT_REFERENCE_COUNT, context);
    INFO(clGetContextInfo, CL_CONTEXT_NUM_DEVICES, context);
    INFO(clGetContextInfo, CL_CONTEXT_DEVICES, context);
    INFO(clGetContextInfo, CL_CONTEXT_PROPERTIES, context);
    cl_context heard;
    MAKE(heard, clCreateContext(NULL, 1, &device, on_error, NULL, &status));
    RETURNS(clRetainContext(heard), "nothing", CL_SUCCESS);
    RETURNS(clReleaseContext(heard), "a reference more than the first", CL_SUCCESS);
    RETURNS(clSetContextDestructorCallback(heard, on_destruction, NULL), "nothing", CL_SUCCESS);
    CHECK(clReleaseContext(heard));
}

int main(int argc, char **argv)
{
    open_all(argc, argv);
    creation();
    others();
    return close_all();
}
