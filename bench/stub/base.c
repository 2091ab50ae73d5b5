/* What all objects begin with, and how a question is answered. */
#include "stub.h"

struct _cl_icd_dispatch stub_dispatch;
struct _cl_platform_id stub_platform = {&stub_dispatch, 1};
struct _cl_device_id stub_device = {&stub_dispatch, 1};

cl_int stub_answer(const void *from, size_t size, size_t room, void *value, size_t *size_ret)
{
    if (value != NULL && room < size)
        return CL_INVALID_VALUE;
    if (value != NULL)
        memcpy(value, from, size);
    if (size_ret != NULL)
        *size_ret = size;
    return CL_SUCCESS;
}
