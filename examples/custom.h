/* What kernels of custom devices write (extension cl_ropeway_custom_devices): the first word is always how many bytes of the buffer beside it
 * count, as clSetContentSizeBufferPoCL wants it. */
#ifndef CUSTOM_H
#define CUSTOM_H
#include <CL/cl.h>

typedef struct {
    cl_ulong size, sequence, dropped, time;
} ropeway_chunk;

typedef struct {
    cl_ulong size, sequence;
    cl_uint width, height, row_pitch, format;
} ropeway_frame;

typedef struct {
    cl_ulong size, count;
} ropeway_points;

typedef cl_int(CL_API_CALL *set_content_size_fn)(cl_mem buffer, cl_mem content_size_buffer);
#endif
