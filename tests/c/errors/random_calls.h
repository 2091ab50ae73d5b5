/* One call of random.c. */

static void CL_CALLBACK native_kernel(void *arguments)
{
    (void)arguments;
}

static void commands(int call)
{
    const size_t at = number(), to = number(), size = number();
    const cl_bool wait = rarely(3);
    cl_mem memory_object = any(MEMORY), other = any(MEMORY);
    void *queue = first(QUEUE), *place;
    size_t row, slice, global[4] = {small(), small(), small(), 1}, local[4] = {small(), small(), small(), 1},
                       offset[4] = {rarely(6) ? SIZE_MAX : small(), small(), 0, 0};
    static struct {
        cl_mem memory;
        char rest[56];
    } arguments;
    const void *in_arguments = &arguments.memory;
    switch (dice(31)) {
    case 27:
        arguments.memory = memory_object;
        EVENT_OF(clEnqueueNativeKernel(queue, rarely(9) ? NULL : native_kernel, rarely(9) ? NULL : &arguments,
                                       rarely(9) ? 0 : sizeof arguments, dice(2), &memory_object, &in_arguments, count,
                                       waits, event));
        break;
    case 0: EVENT_OF(clEnqueueReadBuffer(queue, memory_object, wait, at, size, memory(), count, waits, event)); break;
    case 1: EVENT_OF(clEnqueueWriteBuffer(queue, memory_object, wait, at, size, memory(), count, waits, event)); break;
    case 2: EVENT_OF(clEnqueueCopyBuffer(queue, memory_object, other, at, to, size, count, waits, event)); break;
    case 3:
        EVENT_OF(clEnqueueFillBuffer(queue, memory_object, memory(), small(), at, size, count, waits, event));
        break;
    case 4:
        EVENT_OF(clEnqueueReadBufferRect(queue, memory_object, wait, three(), (const size_t[]){small(), 1, 0}, three(),
                                         small(), number(), small(), small(), host, count, waits, event));
        break;
    case 5:
        EVENT_OF(clEnqueueWriteBufferRect(queue, memory_object, wait, three(), (const size_t[]){small(), 1, 0}, three(),
                                          number(), small(), small(), small(), host, count, waits, event));
        break;
    case 6:
        EVENT_OF(clEnqueueCopyBufferRect(queue, memory_object, other, three(), three(), three(), number(), number(),
                                         small(), number(), count, waits, event));
        break;
    case 7:
        EVENT_OF((place = clEnqueueMapBuffer(queue, memory_object, wait, dice(9), at, size, count, waits, event, &status),
                  mapped[dice(4)] = place, status));
        break;
    case 8:
    case 9:
        EVENT_OF(clEnqueueUnmapMemObject(queue, memory_object, rarely(5) ? host : mapped[dice(4)], count, waits, event));
        break;
    case 10: EVENT_OF(clEnqueueReadImage(queue, memory_object, wait, three(), three(), small(), small(), host, count,
                                         waits, event)); break;
    case 11: EVENT_OF(clEnqueueWriteImage(queue, memory_object, wait, three(), three(), small(), small(), host, count,
                                          waits, event)); break;
    case 12: EVENT_OF(clEnqueueCopyImage(queue, memory_object, other, three(), three(), three(), count, waits,
                                         event)); break;
    case 13: EVENT_OF(clEnqueueCopyImageToBuffer(queue, memory_object, other, three(), three(), to, count, waits,
                                                 event)); break;
    case 14: EVENT_OF(clEnqueueCopyBufferToImage(queue, memory_object, other, at, three(), three(), count, waits,
                                                 event)); break;
    case 15: EVENT_OF(clEnqueueFillImage(queue, memory_object, memory(), three(), three(), count, waits, event)); break;
    case 16:
        EVENT_OF((place = clEnqueueMapImage(queue, memory_object, wait, dice(9), three(), three(), rarely(9) ? NULL : &row,
                                            rarely(9) ? NULL : &slice, count, waits, event, &status),
                  mapped[dice(4)] = place, status));
        break;
    case 17: EVENT_OF(clEnqueueMigrateMemObjects(queue, dice(3), &memory_object, bits(), count, waits, event)); break;
    case 18: EVENT_OF(clEnqueueMarkerWithWaitList(queue, count, waits, event)); break;
    case 19: EVENT_OF(clEnqueueBarrierWithWaitList(queue, count, waits, event)); break;
    case 20: EVENT_OF(clEnqueueMarker(queue, event)); break;
    case 21: EVENT_OF(clEnqueueWaitForEvents(queue, count, waits)); break;
    case 22: EVENT_OF(clEnqueueTask(queue, any(KERNEL), count, waits, event)); break;
    case 23: EVENT_OF(clEnqueueSVMMemcpy(queue, wait, memory(), memory(), size & 4095, count, waits, event)); break;
    case 24: EVENT_OF(clEnqueueSVMMemFill(queue, memory(), host, small(), size & 1023, count, waits, event)); break;
    case 25: EVENT_OF(clEnqueueSVMMap(queue, wait, dice(9), memory(), size, count, waits, event)); break;
    case 26: EVENT_OF(clEnqueueSVMUnmap(queue, memory(), count, waits, event)); break;
    default:
        EVENT_OF(clEnqueueNDRangeKernel(queue, any(KERNEL), dice(5), rarely(2) ? offset : NULL,
                                        rarely(20) ? NULL : global, rarely(2) ? local : NULL, count, waits, event));
    }
    (void)call;
}

static void creations(int call)
{
    static const cl_image_format RGBA = {CL_RGBA, CL_UNSIGNED_INT8};
    const cl_image_format odd = {0x10B0 + dice(16), 0x10D0 + dice(18)};
    const cl_image_desc desc = {.image_type = 0x10F0 + dice(10), .image_width = small(), .image_height = small(),
                                .image_depth = rarely(2) ? small() : 0, .image_array_size = rarely(2) ? small() : 0,
                                .image_row_pitch = rarely(3) ? small() : 0, .image_slice_pitch = rarely(5) ? small() : 0,
                                .num_mip_levels = rarely(20), .buffer = rarely(3) ? any(MEMORY) : NULL};
    const cl_buffer_region region = {number() & ~(size_t)127, number()};
    const cl_queue_properties queue_list[] = {rarely(4) ? number() : CL_QUEUE_PROPERTIES,
                                              rarely(3) ? CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : bits(),
                                              rarely(3) ? CL_QUEUE_SIZE : 0, number(), 0};
    const cl_context_properties context_list[] = {rarely(4) ? (intptr_t)number() : CL_CONTEXT_PLATFORM,
                                                  (intptr_t)any(PLATFORM), 0};
    const cl_sampler_properties sampler_list[] = {0x1150 + dice(8), 0x1130 + dice(24), 0};
    cl_device_id some = any(DEVICE), divided[64];
    const cl_device_partition_property partition[] = {0x1086 + dice(3), (intptr_t)small(), (intptr_t)small(), 0, 0};
    const char *source = SOURCES[dice(3)];
    const unsigned char *binary = (const unsigned char *)host;
    size_t length = small();
    cl_program linked = any(PROGRAM);
    cl_uint number_made;
    switch (dice(24)) {
    case 0: NEW(CONTEXT, clCreateContext(rarely(3) ? context_list : NULL, dice(3) ? 1 : 0, &some, NULL, NULL, &status)); break;
    case 1: if (rarely(4)) NEW(CONTEXT, clCreateContextFromType(context_list, bits(), NULL, NULL, &status)); break;
    case 2: NEW(QUEUE, clCreateCommandQueue(first(CONTEXT), any(DEVICE), bits(), &status)); break;
    case 3: NEW(QUEUE, clCreateCommandQueueWithProperties(first(CONTEXT), any(DEVICE), queue_list, &status)); break;
    case 4:
    case 5:
        length = number();
        if (length > BUFFER && length < (size_t)1 << 60)
            length = BUFFER;
        NEW(MEMORY, clCreateBuffer(first(CONTEXT), bits(), length, rarely(2) ? host : NULL, &status));
        break;
    case 6:
    case 7: NEW(MEMORY, clCreateSubBuffer(first(MEMORY), bits(), rarely(9) ? 0 : CL_BUFFER_CREATE_TYPE_REGION,
                                          rarely(20) ? NULL : &region, &status)); break;
    case 8:
    case 9: NEW(MEMORY, clCreateImage(first(CONTEXT), bits(), rarely(3) ? &odd : &RGBA, rarely(20) ? NULL : &desc,
                                      rarely(2) ? host : NULL, &status)); break;
    case 10: NEW(MEMORY, clCreatePipe(first(CONTEXT), bits(), (cl_uint)small(), (cl_uint)small(), NULL, &status)); break;
    case 11: NEW(SAMPLER, clCreateSampler(first(CONTEXT), dice(3), 0x1130 + dice(5), 0x1140 + dice(3), &status)); break;
    case 12: NEW(SAMPLER, clCreateSamplerWithProperties(first(CONTEXT), rarely(4) ? NULL : sampler_list, &status)); break;
    case 13: NEW(PROGRAM, clCreateProgramWithSource(first(CONTEXT), dice(2), &source, NULL, &status)); break;
    case 14: if (rarely(4) && !sound) NEW(PROGRAM, clCreateProgramWithBinary(first(CONTEXT), dice(2), &some, &length, &binary, NULL,
                                                                  &status)); break;
    case 15: if (!sound) NEW(PROGRAM, clCreateProgramWithIL(first(CONTEXT), host, small(), &status)); break;
    case 16: NEW(PROGRAM, clCreateProgramWithBuiltInKernels(first(CONTEXT), dice(2), &some, "f;g", &status)); break;
    case 17: if (rarely(10)) NEW(PROGRAM, clLinkProgram(first(CONTEXT), 0, NULL, "", dice(2), &linked, NULL, NULL,
                                                       &status)); break;
    case 18:
    case 19: NEW(KERNEL, clCreateKernel(first(PROGRAM), rarely(3) ? "g" : "f", &status)); break;
    case 20: NEW(KERNEL, clCloneKernel(first(KERNEL), &status)); break;
    case 21: GET(clCreateSubDevices(first(DEVICE), rarely(9) ? NULL : partition, dice(64), divided, &number_made)); break;
    default: {
        /* Ended at once, in one way or the other: nothing may wait for it for ever. */
        status = CL_SUCCESS;
        cl_event event = clCreateUserEvent(first(CONTEXT), &status);
        TALLY(status);
        if (event)
            GET(clSetUserEventStatus(event, rarely(3) ? -7 : CL_COMPLETE));
        keep(EVENT, event);
    }
    }
    (void)call;
}

static void queries(int call)
{
    switch (dice(18)) {
    case 0: ASK(clGetPlatformInfo, first(PLATFORM)); break;
    case 1: ASK(clGetDeviceInfo, first(DEVICE)); break;
    case 2: ASK(clGetContextInfo, first(CONTEXT)); break;
    case 3: ASK(clGetCommandQueueInfo, first(QUEUE)); break;
    case 4: ASK(clGetMemObjectInfo, first(MEMORY)); break;
    case 5: ASK(clGetImageInfo, first(MEMORY)); break;
    case 6: ASK(clGetPipeInfo, first(MEMORY)); break;
    case 7: ASK(clGetSamplerInfo, first(SAMPLER)); break;
    case 8: ASK(clGetProgramInfo, first(PROGRAM)); break;
    case 9: ASK(clGetProgramBuildInfo, first(PROGRAM), any(DEVICE)); break;
    case 10: ASK(clGetKernelInfo, first(KERNEL)); break;
    case 11: ASK(clGetKernelArgInfo, first(KERNEL), dice(4)); break;
    case 12: ASK(clGetKernelWorkGroupInfo, first(KERNEL), any(DEVICE)); break;
    case 13: ASK(clGetEventInfo, first(EVENT)); break;
    case 14: ASK(clGetEventProfilingInfo, first(EVENT)); break;
    case 15: GET(clGetSupportedImageFormats(first(CONTEXT), bits(), 0x10F0 + dice(9), dice(9), (void *)room, NULL)); break;
    case 16: GET(clGetDeviceIDs(first(PLATFORM), bits(), dice(4), (void *)room, NULL)); break;
    default:
        GET(clGetKernelSubGroupInfo(first(KERNEL), any(DEVICE), 0x2033 + dice(5), small(), rarely(4) ? NULL : host, 64,
                                    room, NULL));
    }
}

static void changes(int call)
{
    *(void **)room = rarely(2) ? any(MEMORY) : rarely(2) ? any(QUEUE) : any(SAMPLER);
    cl_event event = any(EVENT);
    cl_kernel some[8] = {NULL};
    cl_uint number_made = 0;
    switch (dice(25)) {
    case 24: GET(clSetDefaultDeviceCommandQueue(first(CONTEXT), any(DEVICE), any(QUEUE))); break;
    case 0: GET(clRetainContext(first(CONTEXT))); break;
    case 1: if (rarely(8)) GET(clReleaseContext(first(CONTEXT))); break;
    case 2: GET(clRetainCommandQueue(first(QUEUE))); break;
    case 3: if (rarely(4)) GET(clReleaseCommandQueue(first(QUEUE))); break;
    case 4: GET(clRetainMemObject(first(MEMORY))); break;
    case 5: GET(clReleaseMemObject(first(MEMORY))); break;
    case 6: GET(clReleaseSampler(first(SAMPLER))); break;
    case 7: GET(clReleaseProgram(first(PROGRAM))); break;
    case 8: GET(clReleaseKernel(first(KERNEL))); break;
    case 9: GET(clReleaseEvent(first(EVENT))); break;
    case 10: GET(clRetainEvent(first(EVENT))); break;
    case 11: GET(clFlush(first(QUEUE))); break;
    case 12: if (rarely(4)) GET(clFinish(first(QUEUE))); break;
    case 13: GET(clWaitForEvents(dice(2), &event)); break;
    case 14: GET(clSetUserEventStatus(first(EVENT), -(cl_int)dice(3))); break;
    case 15: GET(clSetEventCallback(first(EVENT), (cl_int)dice(5), rarely(9) ? NULL : (void *)heard, NULL)); break;
    case 16: GET(clSetMemObjectDestructorCallback(first(MEMORY), rarely(9) ? NULL : (void *)heard, NULL)); break;
    case 17: GET(clSetContextDestructorCallback(first(CONTEXT), rarely(9) ? NULL : (void *)heard, NULL)); break;
    case 18:
        if (rarely(4))
            GET(clBuildProgram(first(PROGRAM), dice(2), rarely(2) ? NULL : (cl_device_id[]){any(DEVICE)},
                               rarely(9) ? "-no-such-option" : "", NULL, NULL));
        break;
    case 19:
        if (rarely(8))
            GET(clCompileProgram(first(PROGRAM), 0, NULL, "", 0, NULL, NULL, NULL, NULL));
        break;
    case 20:
        GET(clCreateKernelsInProgram(first(PROGRAM), dice(9), some, &number_made));
        for (cl_uint i = 0; i < number_made && i < 8; i++)
            keep(KERNEL, some[i]);
        break;
    case 21: GET(clSetKernelArgSVMPointer(first(KERNEL), dice(4), memory())); break;
    default: {
        /* A value is read as far as the argument's own size says, whatever is said here. */
        const void *values[] = {room, host, NULL};
        GET(clSetKernelArg(first(KERNEL), rarely(20) ? UINT32_MAX : dice(4), rarely(3) ? number() & 0xffff : 8,
                           values[dice(3)]));
    }
    }
    (void)call;
}

static void random_call(int call)
{
    uint32_t what = dice(100);
    TRACE(what < 45 ? "command" : what < 60 ? "creation" : what < 75 ? "query" : "change");
    if (what < 45)
        commands(call);
    else if (what < 60)
        creations(call);
    else if (what < 75)
        queries(call);
    else
        changes(call);
}
