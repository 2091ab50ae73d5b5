/* Buffers and what is asked of memory objects (OpenCL 3.0 API, sections 5.2.1 and 5.5). */
#include "errors.h"

static void CL_CALLBACK on_destruction(cl_mem gone, void *data)
{
    (void)gone, (void)data;
}

static const struct {
    const char *what;
    cl_mem_flags flags;
} BAD_FLAGS[] = {
    {"flags has unknown bits", (cl_mem_flags)1 << 40},
    {"CL_MEM_READ_ONLY and CL_MEM_WRITE_ONLY", CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY},
    {"CL_MEM_READ_WRITE and CL_MEM_READ_ONLY", CL_MEM_READ_WRITE | CL_MEM_READ_ONLY},
    {"CL_MEM_READ_WRITE and CL_MEM_WRITE_ONLY", CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY},
    {"CL_MEM_HOST_READ_ONLY and CL_MEM_HOST_WRITE_ONLY", CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY},
    {"CL_MEM_HOST_READ_ONLY and CL_MEM_HOST_NO_ACCESS", CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS},
    {"CL_MEM_HOST_WRITE_ONLY and CL_MEM_HOST_NO_ACCESS", CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS},
};
#define BAD_FLAGS_COUNT (sizeof BAD_FLAGS / sizeof *BAD_FLAGS)

static void creation(void)
{
    static char data[64];
    const cl_mem_properties unknown[] = {0x7fff, 1, 0}, none[] = {0};
    WRONG_HANDLES_FOR(MAKES, clCreateBuffer(X, 0, 64, NULL, &status), "context", CL_INVALID_CONTEXT);
    WRONG_HANDLES_FOR(MAKES, clCreateBufferWithProperties(X, none, 0, 64, NULL, &status), "context", CL_INVALID_CONTEXT);
    for (size_t i = 0; i < BAD_FLAGS_COUNT; i++) {
        MAKES(clCreateBuffer(context, BAD_FLAGS[i].flags, 64, NULL, &status), BAD_FLAGS[i].what, CL_INVALID_VALUE);
        MAKES(clCreateBufferWithProperties(context, NULL, BAD_FLAGS[i].flags, 64, NULL, &status), BAD_FLAGS[i].what,
              CL_INVALID_VALUE);
    }
    MAKES(clCreateBuffer(context, CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR, 64, data, &status),
          "CL_MEM_COPY_HOST_PTR and CL_MEM_USE_HOST_PTR", CL_INVALID_VALUE);
    MAKES(clCreateBuffer(context, CL_MEM_ALLOC_HOST_PTR | CL_MEM_USE_HOST_PTR, 64, data, &status),
          "CL_MEM_ALLOC_HOST_PTR and CL_MEM_USE_HOST_PTR", CL_INVALID_VALUE);
    MAKES(clCreateBuffer(context, 0, 0, NULL, &status), "size is 0", CL_INVALID_BUFFER_SIZE);
    MAKES(clCreateBuffer(context, 0, (size_t)1 << 60, NULL, &status), "size is beyond the device's most",
          CL_INVALID_BUFFER_SIZE);
    MAKES(clCreateBuffer(context, 0, SIZE_MAX, NULL, &status), "size is SIZE_MAX", CL_INVALID_BUFFER_SIZE);
    MAKES(clCreateBuffer(context, CL_MEM_USE_HOST_PTR, SIZE_MAX, data, &status), "size is SIZE_MAX, with a pointer",
          CL_INVALID_BUFFER_SIZE);
    MAKES(clCreateBuffer(context, 0, 64, data, &status), "host_ptr without its flags", CL_INVALID_HOST_PTR);
    MAKES(clCreateBuffer(context, CL_MEM_ALLOC_HOST_PTR, 64, data, &status),
          "host_ptr with CL_MEM_ALLOC_HOST_PTR alone", CL_INVALID_HOST_PTR);
    MAKES(clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, 64, NULL, &status), "CL_MEM_COPY_HOST_PTR without host_ptr",
          CL_INVALID_HOST_PTR);
    MAKES(clCreateBuffer(context, CL_MEM_USE_HOST_PTR, 64, NULL, &status), "CL_MEM_USE_HOST_PTR without host_ptr",
          CL_INVALID_HOST_PTR);
    MAKES(clCreateBufferWithProperties(context, unknown, 0, 64, NULL, &status), "a property is unknown",
          CL_INVALID_PROPERTY);
    MAKES(clCreateBufferWithProperties(context, none, 0, 0, NULL, &status), "size is 0", CL_INVALID_BUFFER_SIZE);
    MAKES(clCreateBufferWithProperties(context, none, CL_MEM_USE_HOST_PTR, 64, NULL, &status),
          "CL_MEM_USE_HOST_PTR without host_ptr", CL_INVALID_HOST_PTR);
}

static void sub_buffers(void)
{
    static char data[64];
    cl_uint align = 0;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof align, &align, NULL));
    align /= 8;
    const size_t size = 4 * (size_t)align;
    cl_mem whole = buffer_of(0, size, NULL), write_only = buffer_of(CL_MEM_WRITE_ONLY, size, NULL),
           read_only = buffer_of(CL_MEM_READ_ONLY, size, NULL), hidden = buffer_of(CL_MEM_HOST_NO_ACCESS, size, NULL),
           host_writes = buffer_of(CL_MEM_HOST_WRITE_ONLY, size, NULL),
           host_reads = buffer_of(CL_MEM_HOST_READ_ONLY, size, NULL), part;
    const cl_buffer_region good = {align, align}, empty = {align, 0}, outside = {3 * align, 2 * align},
                           beyond = {5 * align, align}, wraps = {SIZE_MAX - align + 1, 2 * align},
                           odd = {1, 4};
    (void)data;
    MAKE(part, clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &good, &status));
#define SUB(parent, flags, region) clCreateSubBuffer(parent, flags, CL_BUFFER_CREATE_TYPE_REGION, region, &status)
    WRONG_HANDLES_FOR(MAKES, SUB(X, 0, &good), "buffer", CL_INVALID_MEM_OBJECT);
    MAKES(SUB(part, 0, &(cl_buffer_region){0} /* of it all */), "buffer is a sub-buffer", CL_INVALID_MEM_OBJECT);
    for (size_t i = 0; i < BAD_FLAGS_COUNT; i++)
        MAKES(SUB(whole, BAD_FLAGS[i].flags, &good), BAD_FLAGS[i].what, CL_INVALID_VALUE);
    MAKES(SUB(whole, CL_MEM_USE_HOST_PTR, &good), "CL_MEM_USE_HOST_PTR", CL_INVALID_VALUE);
    MAKES(SUB(whole, CL_MEM_ALLOC_HOST_PTR, &good), "CL_MEM_ALLOC_HOST_PTR", CL_INVALID_VALUE);
    MAKES(SUB(whole, CL_MEM_COPY_HOST_PTR, &good), "CL_MEM_COPY_HOST_PTR", CL_INVALID_VALUE);
    MAKES(SUB(write_only, CL_MEM_READ_WRITE, &good), "reads and writes what is written only", CL_INVALID_VALUE);
    MAKES(SUB(write_only, CL_MEM_READ_ONLY, &good), "reads what is written only", CL_INVALID_VALUE);
    MAKES(SUB(read_only, CL_MEM_READ_WRITE, &good), "reads and writes what is read only", CL_INVALID_VALUE);
    MAKES(SUB(read_only, CL_MEM_WRITE_ONLY, &good), "writes what is read only", CL_INVALID_VALUE);
    MAKES(SUB(host_writes, CL_MEM_HOST_READ_ONLY, &good), "the host reads what it writes only", CL_INVALID_VALUE);
    MAKES(SUB(host_reads, CL_MEM_HOST_WRITE_ONLY, &good), "the host writes what it reads only", CL_INVALID_VALUE);
    MAKES(SUB(hidden, CL_MEM_HOST_READ_ONLY, &good), "the host reads what is not for it", CL_INVALID_VALUE);
    MAKES(SUB(hidden, CL_MEM_HOST_WRITE_ONLY, &good), "the host writes what is not for it", CL_INVALID_VALUE);
    MAKES(clCreateSubBuffer(whole, 0, 0x7fff, &good, &status), "buffer_create_type is unknown", CL_INVALID_VALUE);
    MAKES(SUB(whole, 0, NULL), "buffer_create_info is NULL", CL_INVALID_VALUE);
    MAKES(SUB(whole, 0, &empty), "the region's size is 0", CL_INVALID_BUFFER_SIZE);
    MAKES(SUB(whole, 0, &outside), "the region ends outside", CL_INVALID_VALUE);
    MAKES(SUB(whole, 0, &beyond), "the region begins outside", CL_INVALID_VALUE);
    MAKES(SUB(whole, 0, &wraps), "origin and size wrap", CL_INVALID_VALUE);
    MAKES(SUB(whole, 0, &odd), "the origin is not aligned", CL_MISALIGNED_SUB_BUFFER_OFFSET);
#undef SUB
    cl_mem all[] = {part, whole, write_only, read_only, hidden, host_writes, host_reads};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(clReleaseMemObject(all[i]));
}

static void objects(void)
{
    cl_mem buffer = buffer_of(0, 64, NULL);
    WRONG_HANDLES_FOR(RETURNS, clRetainMemObject(X), "memobj", CL_INVALID_MEM_OBJECT);
    WRONG_HANDLES_FOR(RETURNS, clReleaseMemObject(X), "memobj", CL_INVALID_MEM_OBJECT);
    WRONG_HANDLES_FOR(RETURNS, clGetMemObjectInfo(X, CL_MEM_TYPE, 0, NULL, NULL), "memobj", CL_INVALID_MEM_OBJECT);
    WRONG_HANDLES_FOR(RETURNS, clSetMemObjectDestructorCallback(X, on_destruction, NULL), "memobj",
                      CL_INVALID_MEM_OBJECT);
    RETURNS(clSetMemObjectDestructorCallback(buffer, NULL, NULL), "pfn_notify is NULL", CL_INVALID_VALUE);
    RETURNS(clRetainMemObject(buffer), "nothing", CL_SUCCESS);
    RETURNS(clReleaseMemObject(buffer), "a reference more than the first", CL_SUCCESS);
    NO_INFO(clGetMemObjectInfo, buffer);
    INFO(clGetMemObjectInfo, CL_MEM_TYPE, buffer);
    INFO(clGetMemObjectInfo, CL_MEM_FLAGS, buffer);
    INFO(clGetMemObjectInfo, CL_MEM_SIZE, buffer);
    INFO(clGetMemObjectInfo, CL_MEM_HOST_PTR, buffer);
    INFO(clGetMemObjectInfo, CL_MEM_MAP_COUNT, buffer);
    INFO(clGetMemObjectInfo, CL_MEM_REFERENCE_COUNT, buffer);
    INFO(clGetMemObjectInfo, CL_MEM_CONTEXT, buffer);
    INFO(clGetMemObjectInfo, CL_MEM_ASSOCIATED_MEMOBJECT, buffer);
    INFO(clGetMemObjectInfo, CL_MEM_OFFSET, buffer);
    INFO(clGetMemObjectInfo, CL_MEM_USES_SVM_POINTER, buffer);
    INFO(clGetMemObjectInfo, CL_MEM_PROPERTIES, buffer);
    CHECK(clReleaseMemObject(buffer));
    REMOTE
    {
        RETURNS(clReleaseMemObject(buffer), "memobj was released as often as it can be", CL_INVALID_MEM_OBJECT);
        RETURNS(clRetainMemObject(buffer), "memobj was a buffer", CL_INVALID_MEM_OBJECT);
        RETURNS(clGetMemObjectInfo(buffer, CL_MEM_TYPE, 0, NULL, NULL), "memobj was a buffer", CL_INVALID_MEM_OBJECT);
    }
}

int main(int argc, char **argv)
{
    open_all(argc, argv);
    creation();
    objects();
    sub_buffers();
    return close_all();
}
