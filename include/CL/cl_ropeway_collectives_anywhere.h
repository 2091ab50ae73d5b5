/*
 * Collective operations on every platform: the extension cl_ropeway_collectives where the platform has it, ordinary calls of OpenCL 1.2
 * where it has not. Included by cl_ropeway_collectives.h, whose functions these have the arguments of.
 *
 * Beside clEnqueueBroadcastBuffer and so on there is clReleaseCollectives(context), which gives back what was built in a context
 * for ordinary calls, and so lets go of it; call it before the context is released for the last time. With
 *
 *     #define CL_ROPEWAY_COLLECTIVES_ORDINARY
 *
 * the extension is not used even where it is. Ordinary calls differ in this: a wrong argument may be noticed when part of the commands
 * are enqueued already; a kernel that combines has other values of its first three arguments afterwards; calls from several
 * threads at once are not allowed.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CL_ROPEWAY_COLLECTIVES_ANYWHERE_H_
#define CL_ROPEWAY_COLLECTIVES_ANYWHERE_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The extension's function of this name, if the platform of the first queue has the extension. */
static inline void *clropeway_find_(cl_uint num_ranks, const cl_command_queue *queues, const char *name)
{
#ifndef CL_ROPEWAY_COLLECTIVES_ORDINARY
    cl_device_id device;
    cl_platform_id platform;
    size_t size;
    if (num_ranks > 0 && queues && clGetCommandQueueInfo(queues[0], CL_QUEUE_DEVICE, sizeof device, &device, NULL) == CL_SUCCESS &&
        clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) == CL_SUCCESS &&
        clGetPlatformInfo(platform, CL_PLATFORM_EXTENSIONS, 0, NULL, &size) == CL_SUCCESS) {
        char *extensions = (char *)malloc(size);
        int has = extensions && clGetPlatformInfo(platform, CL_PLATFORM_EXTENSIONS, size, extensions, NULL) == CL_SUCCESS &&
                  strstr(extensions, CL_ROPEWAY_COLLECTIVES_EXTENSION_NAME) != NULL;
        free(extensions);
        return has ? clGetExtensionFunctionAddressForPlatform(platform, name) : NULL;
    }
#endif
    (void)num_ranks, (void)queues, (void)name;
    return NULL;
}

/* An operation while it is enqueued. Its commands come in rounds; each waits for all of the round before. */
typedef struct clropeway_run_ {
    cl_uint ranks;
    const cl_command_queue *queues;
    cl_context context;
    /* Events of the round before, then those of this one. */
    cl_event *events;
    cl_uint before, now, room;
    /* Scratch memory. */
    cl_mem *memory;
    cl_uint num_memory;
    cl_kernel kernel;
    size_t element;
    /* Whether the ranks are of several devices, and whether only one command at a time may run: implementations keep whole buffers
       equal, so what one device writes must not be used by another one at the same time, whichever bytes that is about. */
    int several, serial;
    cl_int status;
} clropeway_run_;

static inline const cl_event *clropeway_waits_(const clropeway_run_ *run)
{
    return run->before ? run->events : NULL;
}

/* Where the event of the next command goes. */
static inline cl_event *clropeway_event_(clropeway_run_ *run)
{
    if (run->before + run->now == run->room) {
        cl_uint room = 2 * run->room + 16;
        cl_event *events = (cl_event *)realloc(run->events, room * sizeof *events);
        if (!events) {
            run->status = CL_OUT_OF_HOST_MEMORY;
            return NULL;
        }
        run->events = events;
        run->room = room;
    }
    return &run->events[run->before + run->now];
}

/* Takes note of what came of a command. */
static inline void clropeway_done_(clropeway_run_ *run, cl_int status)
{
    if (status == CL_SUCCESS)
        run->now++;
    else
        run->status = status;
}

static inline void clropeway_next_(clropeway_run_ *run)
{
    if (run->now == 0)
        return;
    for (cl_uint i = 0; i < run->before; i++)
        clReleaseEvent(run->events[i]);
    memmove(run->events, run->events + run->before, run->now * sizeof *run->events);
    run->before = run->now;
    run->now = 0;
}

static inline void clropeway_begin_(clropeway_run_ *run, cl_uint ranks, const cl_command_queue *queues, size_t size,
                                    cl_uint num_waits, const cl_event *waits)
{
    memset(run, 0, sizeof *run);
    run->ranks = ranks;
    run->queues = queues;
    if (ranks == 0 || !queues || size == 0) {
        run->status = CL_INVALID_VALUE;
        return;
    }
    run->status = clGetCommandQueueInfo(queues[0], CL_QUEUE_CONTEXT, sizeof run->context, &run->context, NULL);
    run->memory = (cl_mem *)calloc(2 * (size_t)ranks, sizeof *run->memory);
    if (run->status == CL_SUCCESS && !run->memory)
        run->status = CL_OUT_OF_HOST_MEMORY;
    for (cl_uint rank = 0; rank < ranks && run->status == CL_SUCCESS; rank++) {
        cl_context context;
        cl_device_id first, device;
        cl_command_queue_properties properties;
        run->status = clGetCommandQueueInfo(queues[rank], CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
        if (run->status == CL_SUCCESS)
            run->status = clGetCommandQueueInfo(queues[0], CL_QUEUE_DEVICE, sizeof first, &first, NULL);
        if (run->status == CL_SUCCESS)
            run->status = clGetCommandQueueInfo(queues[rank], CL_QUEUE_DEVICE, sizeof device, &device, NULL);
        if (run->status == CL_SUCCESS && device != first)
            run->several = 1;
        if (run->status == CL_SUCCESS && context != run->context)
            run->status = CL_INVALID_CONTEXT;
        if (run->status == CL_SUCCESS)
            run->status = clGetCommandQueueInfo(queues[rank], CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
        if (run->status != CL_SUCCESS)
            return;
        /* Without events to wait for, commands of an out-of-order queue wait for nothing; a marker would. */
        if (num_waits == 0 && !waits && (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
            continue;
        cl_event *event = clropeway_event_(run);
        if (event)
            clropeway_done_(run, clEnqueueMarkerWithWaitList(queues[rank], num_waits, waits, event));
    }
    clropeway_next_(run);
}

/* The ranks wait for all that was enqueued, and so does the event. */
static inline cl_int clropeway_end_(clropeway_run_ *run, cl_event *event)
{
    clropeway_next_(run);
    for (cl_uint rank = 0; rank < run->ranks && run->status == CL_SUCCESS; rank++) {
        cl_event *marker = clropeway_event_(run);
        if (marker)
            clropeway_done_(run, clEnqueueMarkerWithWaitList(run->queues[rank], run->before, clropeway_waits_(run), marker));
    }
    clropeway_next_(run);
    if (run->status == CL_SUCCESS && event)
        run->status = clEnqueueMarkerWithWaitList(run->queues[0], run->before, clropeway_waits_(run), event);
    for (cl_uint rank = 0; rank < run->ranks && run->status == CL_SUCCESS; rank++)
        run->status = clFlush(run->queues[rank]);
    for (cl_uint i = 0; i < run->before + run->now; i++)
        clReleaseEvent(run->events[i]);
    for (cl_uint i = 0; i < run->num_memory; i++)
        clReleaseMemObject(run->memory[i]);
    free(run->events);
    free(run->memory);
    return run->status;
}

static inline size_t clropeway_offset_(const size_t *offsets, cl_uint rank)
{
    return offsets ? offsets[rank] : 0;
}

static inline void clropeway_copy_(clropeway_run_ *run, cl_uint rank, cl_mem from, size_t from_offset, cl_mem to, size_t to_offset,
                                   size_t size)
{
    if (run->status != CL_SUCCESS || (from == to && from_offset == to_offset))
        return;
    cl_event *event = clropeway_event_(run);
    if (event)
        clropeway_done_(run, clEnqueueCopyBuffer(run->queues[rank], from, to, from_offset, to_offset, size, run->before,
                                                 clropeway_waits_(run), event));
    if (run->serial)
        clropeway_next_(run);
}

/* The buffers of a memory object and all its sub-buffers are one. */
static inline cl_mem clropeway_whole_(cl_mem buffer)
{
    cl_mem parent = NULL;
    return buffer && clGetMemObjectInfo(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, &parent, NULL) == CL_SUCCESS && parent ? parent
                                                                                                                              : buffer;
}

/* Has commands run one at a time where a target is in the same buffer as another one or as a source. */
static inline void clropeway_targets_(clropeway_run_ *run, cl_uint num_sources, const cl_mem *sources, const cl_mem *targets)
{
    for (cl_uint rank = 0; run->status == CL_SUCCESS && run->several && targets && sources && rank < run->ranks; rank++) {
        for (cl_uint other = 0; other < rank; other++)
            run->serial |= clropeway_whole_(targets[rank]) == clropeway_whole_(targets[other]);
        for (cl_uint other = 0; other < num_sources; other++)
            run->serial |= clropeway_whole_(targets[rank]) == clropeway_whole_(sources[other]);
    }
}

/* What a list of ranks' buffers has to fulfil. */
static inline void clropeway_check_(clropeway_run_ *run, int valid)
{
    if (run->status == CL_SUCCESS && !valid)
        run->status = CL_INVALID_VALUE;
}

static inline cl_int clEnqueueBroadcastBuffer(CL_ROPEWAY_RANKS_, cl_uint root, CL_ROPEWAY_SOURCE_, CL_ROPEWAY_TARGETS_, size_t size,
                                              CL_ROPEWAY_EVENTS_)
{
    void *found = clropeway_find_(num_ranks, command_queues, "clEnqueueBroadcastBufferROPEWAY");
    if (found)
        return ((clEnqueueBroadcastBufferROPEWAY_fn)found)(num_ranks, command_queues, root, src_buffer, src_offset, dst_buffers,
                                                           dst_offsets, size, num_events_in_wait_list, event_wait_list, event);
    clropeway_run_ run;
    clropeway_begin_(&run, num_ranks, command_queues, size, num_events_in_wait_list, event_wait_list);
    clropeway_check_(&run, root < num_ranks && dst_buffers);
    clropeway_targets_(&run, 1, &src_buffer, dst_buffers);
    for (cl_uint rank = 0; rank < num_ranks && run.status == CL_SUCCESS; rank++)
        clropeway_copy_(&run, rank, src_buffer, src_offset, dst_buffers[rank], clropeway_offset_(dst_offsets, rank), size);
    return clropeway_end_(&run, event);
}

static inline cl_int clEnqueueScatterBuffer(CL_ROPEWAY_RANKS_, cl_uint root, CL_ROPEWAY_SOURCE_, CL_ROPEWAY_TARGETS_, size_t size,
                                            CL_ROPEWAY_EVENTS_)
{
    void *found = clropeway_find_(num_ranks, command_queues, "clEnqueueScatterBufferROPEWAY");
    if (found)
        return ((clEnqueueScatterBufferROPEWAY_fn)found)(num_ranks, command_queues, root, src_buffer, src_offset, dst_buffers,
                                                         dst_offsets, size, num_events_in_wait_list, event_wait_list, event);
    clropeway_run_ run;
    clropeway_begin_(&run, num_ranks, command_queues, size, num_events_in_wait_list, event_wait_list);
    clropeway_check_(&run, root < num_ranks && dst_buffers);
    clropeway_targets_(&run, 1, &src_buffer, dst_buffers);
    for (cl_uint rank = 0; rank < num_ranks && run.status == CL_SUCCESS; rank++)
        clropeway_copy_(&run, rank, src_buffer, src_offset + rank * size, dst_buffers[rank], clropeway_offset_(dst_offsets, rank), size);
    return clropeway_end_(&run, event);
}

static inline cl_int clEnqueueGatherBuffer(CL_ROPEWAY_RANKS_, cl_uint root, CL_ROPEWAY_SOURCES_, CL_ROPEWAY_TARGET_, size_t size,
                                           CL_ROPEWAY_EVENTS_)
{
    void *found = clropeway_find_(num_ranks, command_queues, "clEnqueueGatherBufferROPEWAY");
    if (found)
        return ((clEnqueueGatherBufferROPEWAY_fn)found)(num_ranks, command_queues, root, src_buffers, src_offsets, dst_buffer,
                                                        dst_offset, size, num_events_in_wait_list, event_wait_list, event);
    clropeway_run_ run;
    clropeway_begin_(&run, num_ranks, command_queues, size, num_events_in_wait_list, event_wait_list);
    clropeway_check_(&run, root < num_ranks && src_buffers);
    for (cl_uint rank = 0; rank < num_ranks && run.status == CL_SUCCESS; rank++)
        clropeway_copy_(&run, root, src_buffers[rank], clropeway_offset_(src_offsets, rank), dst_buffer, dst_offset + rank * size, size);
    return clropeway_end_(&run, event);
}

static inline cl_int clEnqueueAllGatherBuffer(CL_ROPEWAY_RANKS_, CL_ROPEWAY_SOURCES_, CL_ROPEWAY_TARGETS_, size_t size,
                                              CL_ROPEWAY_EVENTS_)
{
    void *found = clropeway_find_(num_ranks, command_queues, "clEnqueueAllGatherBufferROPEWAY");
    if (found)
        return ((clEnqueueAllGatherBufferROPEWAY_fn)found)(num_ranks, command_queues, src_buffers, src_offsets, dst_buffers, dst_offsets,
                                                           size, num_events_in_wait_list, event_wait_list, event);
    clropeway_run_ run;
    clropeway_begin_(&run, num_ranks, command_queues, size, num_events_in_wait_list, event_wait_list);
    clropeway_check_(&run, src_buffers && dst_buffers);
    clropeway_targets_(&run, num_ranks, src_buffers, dst_buffers);
    for (cl_uint rank = 0; rank < num_ranks && run.status == CL_SUCCESS; rank++)
        for (cl_uint from = 0; from < num_ranks; from++)
            clropeway_copy_(&run, rank, src_buffers[from], clropeway_offset_(src_offsets, from), dst_buffers[rank],
                            clropeway_offset_(dst_offsets, rank) + from * size, size);
    return clropeway_end_(&run, event);
}

static inline cl_int clEnqueueAllToAllBuffer(CL_ROPEWAY_RANKS_, CL_ROPEWAY_SOURCES_, CL_ROPEWAY_TARGETS_, size_t size,
                                             CL_ROPEWAY_EVENTS_)
{
    void *found = clropeway_find_(num_ranks, command_queues, "clEnqueueAllToAllBufferROPEWAY");
    if (found)
        return ((clEnqueueAllToAllBufferROPEWAY_fn)found)(num_ranks, command_queues, src_buffers, src_offsets, dst_buffers, dst_offsets,
                                                          size, num_events_in_wait_list, event_wait_list, event);
    clropeway_run_ run;
    clropeway_begin_(&run, num_ranks, command_queues, size, num_events_in_wait_list, event_wait_list);
    clropeway_check_(&run, src_buffers && dst_buffers);
    clropeway_targets_(&run, num_ranks, src_buffers, dst_buffers);
    for (cl_uint rank = 0; rank < num_ranks && run.status == CL_SUCCESS; rank++)
        for (cl_uint from = 0; from < num_ranks; from++)
            clropeway_copy_(&run, rank, src_buffers[from], clropeway_offset_(src_offsets, from) + rank * size, dst_buffers[rank],
                            clropeway_offset_(dst_offsets, rank) + from * size, size);
    return clropeway_end_(&run, event);
}

#include "cl_ropeway_collectives_reduce.h"

#ifdef __cplusplus
}
#endif
#endif
