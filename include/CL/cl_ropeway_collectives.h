/*
 * cl_ropeway_collectives: collective operations on buffers of a context's devices.
 * docs/extensions/cl_ropeway_collectives.md describes it.
 *
 * The functions of the extension are found by name, through clGetExtensionFunctionAddressForPlatform. With
 *
 *     #define CL_ROPEWAY_COLLECTIVES_ANYWHERE
 *
 * before this header, it also defines functions without ROPEWAY at the end of their names (clEnqueueBroadcastBuffer and so
 * on) that work on every platform: they call the extension's where the platform has it, and do the same with ordinary calls of
 * OpenCL 1.2 where it has not (cl_ropeway_collectives_anywhere.h).
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CL_ROPEWAY_COLLECTIVES_H_
#define CL_ROPEWAY_COLLECTIVES_H_

#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

#define cl_ropeway_collectives 1
#define CL_ROPEWAY_COLLECTIVES_EXTENSION_NAME "cl_ropeway_collectives"

typedef cl_uint cl_reduction_operator_ropeway;
typedef cl_uint cl_reduction_type_ropeway;
typedef cl_bitfield cl_reduction_flags_ropeway;
typedef cl_bitfield cl_scan_flags_ropeway;

/* cl_command_type */
#define CL_COMMAND_BROADCAST_BUFFER_ROPEWAY 0x52570301
#define CL_COMMAND_SCATTER_BUFFER_ROPEWAY 0x52570302
#define CL_COMMAND_GATHER_BUFFER_ROPEWAY 0x52570303
#define CL_COMMAND_ALL_GATHER_BUFFER_ROPEWAY 0x52570304
#define CL_COMMAND_ALL_TO_ALL_BUFFER_ROPEWAY 0x52570305
#define CL_COMMAND_REDUCE_BUFFER_ROPEWAY 0x52570306
#define CL_COMMAND_ALL_REDUCE_BUFFER_ROPEWAY 0x52570307
#define CL_COMMAND_REDUCE_SCATTER_BUFFER_ROPEWAY 0x52570308
#define CL_COMMAND_SCAN_BUFFER_ROPEWAY 0x52570309

/* cl_reduction_operator_ropeway */
#define CL_REDUCTION_SUM_ROPEWAY 0x52570311
#define CL_REDUCTION_PRODUCT_ROPEWAY 0x52570312
#define CL_REDUCTION_MIN_ROPEWAY 0x52570313
#define CL_REDUCTION_MAX_ROPEWAY 0x52570314
#define CL_REDUCTION_KERNEL_ROPEWAY 0x52570315

/* cl_reduction_type_ropeway */
#define CL_REDUCTION_CHAR_ROPEWAY 0x52570321
#define CL_REDUCTION_UCHAR_ROPEWAY 0x52570322
#define CL_REDUCTION_SHORT_ROPEWAY 0x52570323
#define CL_REDUCTION_USHORT_ROPEWAY 0x52570324
#define CL_REDUCTION_INT_ROPEWAY 0x52570325
#define CL_REDUCTION_UINT_ROPEWAY 0x52570326
#define CL_REDUCTION_LONG_ROPEWAY 0x52570327
#define CL_REDUCTION_ULONG_ROPEWAY 0x52570328
#define CL_REDUCTION_HALF_ROPEWAY 0x52570329
#define CL_REDUCTION_FLOAT_ROPEWAY 0x5257032A
#define CL_REDUCTION_DOUBLE_ROPEWAY 0x5257032B

/* cl_reduction_flags_ropeway */
#define CL_REDUCTION_ORDERED_ROPEWAY (1 << 0)

/* cl_scan_flags_ropeway */
#define CL_SCAN_EXCLUSIVE_ROPEWAY (1 << 0)

/* How elements are combined. */
typedef struct _cl_reduction_ropeway {
    cl_reduction_operator_ropeway reduction_operator;
    /* Of the elements; not looked at for CL_REDUCTION_KERNEL_ROPEWAY. */
    cl_reduction_type_ropeway reduction_type;
    /* For CL_REDUCTION_KERNEL_ROPEWAY: kernel(__global const T *left, __global const T *right, __global T *result, ...), one
       work-item for each element. */
    cl_kernel kernel;
    /* For CL_REDUCTION_KERNEL_ROPEWAY: bytes of T. */
    size_t element_size;
    cl_reduction_flags_ropeway flags;
} cl_reduction_ropeway;

#define CL_ROPEWAY_RANKS_ cl_uint num_ranks, const cl_command_queue *command_queues
#define CL_ROPEWAY_SOURCE_ cl_mem src_buffer, size_t src_offset
#define CL_ROPEWAY_SOURCES_ const cl_mem *src_buffers, const size_t *src_offsets
#define CL_ROPEWAY_TARGET_ cl_mem dst_buffer, size_t dst_offset
#define CL_ROPEWAY_TARGETS_ const cl_mem *dst_buffers, const size_t *dst_offsets
#define CL_ROPEWAY_REDUCTION_ size_t count, const cl_reduction_ropeway *reduction
#define CL_ROPEWAY_EVENTS_ cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event

typedef cl_int(CL_API_CALL *clEnqueueBroadcastBufferROPEWAY_fn)(CL_ROPEWAY_RANKS_, cl_uint root, CL_ROPEWAY_SOURCE_,
                                                                CL_ROPEWAY_TARGETS_, size_t size, CL_ROPEWAY_EVENTS_);
typedef cl_int(CL_API_CALL *clEnqueueScatterBufferROPEWAY_fn)(CL_ROPEWAY_RANKS_, cl_uint root, CL_ROPEWAY_SOURCE_,
                                                              CL_ROPEWAY_TARGETS_, size_t size, CL_ROPEWAY_EVENTS_);
typedef cl_int(CL_API_CALL *clEnqueueGatherBufferROPEWAY_fn)(CL_ROPEWAY_RANKS_, cl_uint root, CL_ROPEWAY_SOURCES_,
                                                             CL_ROPEWAY_TARGET_, size_t size, CL_ROPEWAY_EVENTS_);
typedef cl_int(CL_API_CALL *clEnqueueAllGatherBufferROPEWAY_fn)(CL_ROPEWAY_RANKS_, CL_ROPEWAY_SOURCES_,
                                                                CL_ROPEWAY_TARGETS_, size_t size, CL_ROPEWAY_EVENTS_);
typedef cl_int(CL_API_CALL *clEnqueueAllToAllBufferROPEWAY_fn)(CL_ROPEWAY_RANKS_, CL_ROPEWAY_SOURCES_,
                                                               CL_ROPEWAY_TARGETS_, size_t size, CL_ROPEWAY_EVENTS_);
typedef cl_int(CL_API_CALL *clEnqueueReduceBufferROPEWAY_fn)(CL_ROPEWAY_RANKS_, cl_uint root, CL_ROPEWAY_SOURCES_,
                                                             CL_ROPEWAY_TARGET_, CL_ROPEWAY_REDUCTION_,
                                                             CL_ROPEWAY_EVENTS_);
typedef cl_int(CL_API_CALL *clEnqueueAllReduceBufferROPEWAY_fn)(CL_ROPEWAY_RANKS_, CL_ROPEWAY_SOURCES_,
                                                                CL_ROPEWAY_TARGETS_, CL_ROPEWAY_REDUCTION_,
                                                                CL_ROPEWAY_EVENTS_);
typedef cl_int(CL_API_CALL *clEnqueueReduceScatterBufferROPEWAY_fn)(CL_ROPEWAY_RANKS_, CL_ROPEWAY_SOURCES_,
                                                                    CL_ROPEWAY_TARGETS_, CL_ROPEWAY_REDUCTION_,
                                                                    CL_ROPEWAY_EVENTS_);
typedef cl_int(CL_API_CALL *clEnqueueScanBufferROPEWAY_fn)(CL_ROPEWAY_RANKS_, CL_ROPEWAY_SOURCES_, CL_ROPEWAY_TARGETS_,
                                                           CL_ROPEWAY_REDUCTION_, cl_scan_flags_ropeway flags,
                                                           CL_ROPEWAY_EVENTS_);

#ifdef __cplusplus
}
#endif

#ifdef CL_ROPEWAY_COLLECTIVES_ANYWHERE
#include "cl_ropeway_collectives_anywhere.h"
#endif

#endif
