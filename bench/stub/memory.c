/* Buffers and their parts. */
#include <sys/mman.h>
#include <unistd.h>
#include "stub.h"

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    /* A driver that keeps its caller waiting, for a buffer of a page. */
    const char *seconds = getenv("STUB_BUFFER_SECONDS");
    if (seconds != NULL && size == 4096)
        sleep((unsigned)atoi(seconds));
    cl_mem memory = stub_new(sizeof *memory);
    memory->context = context;
    memory->flags = flags != 0 ? flags : CL_MEM_READ_WRITE;
    memory->size = size;
    memory->host = flags & CL_MEM_USE_HOST_PTR ? host : NULL;
    if (memory->host != NULL) {
        memory->bytes = host;
        GIVE(memory, CL_SUCCESS);
    }
    /* Pages that nobody touches are never there. */
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) {
        free(memory);
        GIVE(NULL, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    }
    memory->bytes = bytes;
    memory->owned = 1;
    if (flags & CL_MEM_COPY_HOST_PTR)
        memcpy(bytes, host, size);
    GIVE(memory, CL_SUCCESS);
}

cl_int CL_API_CALL stub_retain_memory(cl_mem memory)
{
    __atomic_add_fetch(&memory->references, 1, __ATOMIC_RELAXED);
    return CL_SUCCESS;
}

cl_int CL_API_CALL stub_release_memory(cl_mem memory)
{
    if (stub_drop(&memory->references)) {
        /* The last one to ask is told first. */
        while (memory->endings != NULL) {
            struct ending *ending = memory->endings;
            memory->endings = ending->next;
            ending->told(memory, ending->data);
            free(ending);
        }
        if (memory->owned)
            munmap(memory->bytes, memory->size);
        if (memory->parent != NULL)
            stub_release_memory(memory->parent);
        free(memory);
    }
    return CL_SUCCESS;
}

static cl_mem CL_API_CALL create_part(cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type, const void *info, cl_int *error)
{
    const cl_buffer_region *region = info;
    if (type != CL_BUFFER_CREATE_TYPE_REGION || region->origin > parent->size || region->size > parent->size - region->origin)
        GIVE(NULL, CL_INVALID_VALUE);
    cl_mem memory = stub_new(sizeof *memory);
    stub_retain_memory(parent);
    memory->context = parent->context;
    memory->parent = parent;
    memory->flags = flags != 0 ? flags : parent->flags;
    memory->size = region->size;
    memory->offset = region->origin;
    memory->bytes = parent->bytes + region->origin;
    GIVE(memory, CL_SUCCESS);
}

static cl_int CL_API_CALL memory_info(cl_mem memory, cl_mem_info what, size_t room, void *value, size_t *size_ret)
{
    switch (what) {
    case CL_MEM_TYPE: VALUE(cl_mem_object_type, CL_MEM_OBJECT_BUFFER);
    case CL_MEM_FLAGS: VALUE(cl_mem_flags, memory->flags);
    case CL_MEM_SIZE: VALUE(size_t, memory->size);
    case CL_MEM_HOST_PTR: VALUE(void *, memory->host);
    case CL_MEM_MAP_COUNT: VALUE(cl_uint, 0);
    case CL_MEM_REFERENCE_COUNT: VALUE(cl_uint, (cl_uint)memory->references);
    case CL_MEM_CONTEXT: VALUE(cl_context, memory->context);
    case CL_MEM_ASSOCIATED_MEMOBJECT: VALUE(cl_mem, memory->parent);
    case CL_MEM_OFFSET: VALUE(size_t, memory->offset);
    default: return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL image_formats(cl_context context, cl_mem_flags flags, cl_mem_object_type type, cl_uint room,
                                        cl_image_format *formats, cl_uint *count)
{
    (void)context, (void)flags, (void)type, (void)room, (void)formats;
    if (count != NULL)
        *count = 0;
    return CL_SUCCESS;
}

static cl_mem CL_API_CALL no_image(cl_context context, cl_mem_flags flags, const cl_image_format *format, const cl_image_desc *is,
                                   void *host, cl_int *error)
{
    (void)context, (void)flags, (void)format, (void)is, (void)host;
    GIVE(NULL, CL_INVALID_OPERATION);
}

static cl_sampler CL_API_CALL no_sampler(cl_context context, cl_bool normal, cl_addressing_mode mode, cl_filter_mode filter, cl_int *error)
{
    (void)context, (void)normal, (void)mode, (void)filter;
    GIVE(NULL, CL_INVALID_OPERATION);
}

static cl_int CL_API_CALL on_destruction(cl_mem memory, void(CL_CALLBACK *told)(cl_mem, void *), void *data)
{
    struct ending *ending = malloc(sizeof *ending);
    if (ending == NULL)
        return CL_OUT_OF_HOST_MEMORY;
    *ending = (struct ending){.next = memory->endings, .told = told, .data = data};
    memory->endings = ending;
    return CL_SUCCESS;
}

void stub_memory(struct _cl_icd_dispatch *table)
{
    table->clSetMemObjectDestructorCallback = on_destruction;
    table->clCreateBuffer = create_buffer;
    table->clCreateSubBuffer = create_part;
    table->clRetainMemObject = stub_retain_memory;
    table->clReleaseMemObject = stub_release_memory;
    table->clGetMemObjectInfo = memory_info;
    table->clGetSupportedImageFormats = image_formats;
    table->clCreateImage = no_image;
    table->clCreateSampler = no_sampler;
}
