/* cl_ropeway_custom_devices: built-in kernels of devices that are not processors (docs/extensions/cl_ropeway_custom_devices.md). */
#ifndef CL_ROPEWAY_CUSTOM_DEVICES_H_
#define CL_ROPEWAY_CUSTOM_DEVICES_H_

#include <CL/cl.h>

#define CL_ROPEWAY_CUSTOM_DEVICES_EXTENSION_NAME "cl_ropeway_custom_devices"

/* Execution status of commands that have not ended well */
#define CL_STREAM_END_ROPEWAY -52581
#define CL_STREAM_INVALID_ROPEWAY -52582
#define CL_STREAM_LOST_ROPEWAY -52583
#define CL_BUFFER_TOO_SMALL_ROPEWAY -52584
#define CL_FRAME_TOO_LARGE_ROPEWAY -52585
#define CL_LIBRARY_MISSING_ROPEWAY -52586
#define CL_FUNCTION_FAILED_ROPEWAY -52587
#define CL_COMMAND_CANCELLED_ROPEWAY -52588

/* What kernels say of what they have written. The first word is the content size in bytes, so that the same buffer can be given to
 * clSetContentSizeBufferPoCL. */

/* A chunk of a stream */
typedef struct {
    cl_ulong size;
    cl_ulong sequence; /* its number in the stream, from 0 */
    cl_ulong dropped;  /* chunks that were dropped so far */
    cl_ulong time;     /* when it arrived: nanoseconds since the stream began */
} cl_chunk_ropeway;

/* A frame of a video */
typedef struct {
    cl_ulong size;     /* 0: there is none yet, as the decoder needs further chunks */
    cl_ulong sequence; /* its number among the decoder's frames, from 0 */
    cl_uint width;     /* pixels */
    cl_uint height;
    cl_uint row_pitch; /* bytes from row to row */
    cl_uint format;
} cl_frame_ropeway;

#define CL_FRAME_NV12_ROPEWAY 0
#define CL_FRAME_RGBA_ROPEWAY 1

/* A point cloud */
typedef struct {
    cl_ulong size; /* bytes of positions, 12 for each point; or of colours, 4 for each */
    cl_ulong count;
} cl_points_ropeway;

#endif /* CL_ROPEWAY_CUSTOM_DEVICES_H_ */
