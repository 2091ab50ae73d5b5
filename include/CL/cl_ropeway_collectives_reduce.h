/*
 * The part of cl_ropeway_collectives_anywhere.h that combines data; included by it.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

/* What was built for a context and a type. */
typedef struct clropeway_built_ {
    struct clropeway_built_ *next;
    cl_context context;
    cl_reduction_type_ropeway type;
    cl_program program;
} clropeway_built_;

static clropeway_built_ *clropeway_built_first_;

/* Gives back what was built in `context`. */
static inline void clReleaseCollectives(cl_context context)
{
    clropeway_built_ **link = &clropeway_built_first_;
    while (*link) {
        clropeway_built_ *built = *link;
        if (built->context != context) {
            link = &built->next;
            continue;
        }
        *link = built->next;
        clReleaseProgram(built->program);
        free(built);
    }
}

typedef struct clropeway_type_ {
    const char *name;
    /* That sums and products are made in: of signed integers OpenCL C does not say what becomes of what is too large. */
    const char *wide;
    size_t size;
} clropeway_type_;

static inline const clropeway_type_ *clropeway_type_of_(cl_reduction_type_ropeway type)
{
    static const clropeway_type_ types[] = {
        {"char", "uint", 1},   {"uchar", "uint", 1}, {"short", "uint", 2}, {"ushort", "uint", 2},
        {"int", "uint", 4},    {"uint", "uint", 4},  {"long", "ulong", 8}, {"ulong", "ulong", 8},
        {"half", "float", 2},  {"float", "float", 4}, {"double", "double", 8},
    };
    if (type < CL_REDUCTION_CHAR_ROPEWAY || type > CL_REDUCTION_DOUBLE_ROPEWAY)
        return NULL;
    return &types[type - CL_REDUCTION_CHAR_ROPEWAY];
}

static inline int clropeway_is_float_(cl_reduction_type_ropeway type)
{
    return type >= CL_REDUCTION_HALF_ROPEWAY;
}

/* The program for a type, built when it is first asked for. */
static inline cl_program clropeway_build_(clropeway_run_ *run, cl_reduction_type_ropeway type)
{
    static const char *const source =
        "#if defined(cl_khr_fp64) && __OPENCL_C_VERSION__ < 120\n"
        "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
        "#endif\n"
        "#ifdef HALF\n"
        "#define EACH(value) float a = vload_half(i, left), b = vload_half(i, right); vstore_half_rte(value, i, out);\n"
        "#define NARROW(value) (value)\n"
        "#else\n"
        "#define EACH(value) T a = left[i], b = right[i]; out[i] = value;\n"
        "#define NARROW(value) ((T)(value))\n"
        "#endif\n"
        "#define KERNEL(name, value) \\\n"
        "__kernel void name(__global const T *left, __global const T *right, __global T *out, ulong count) \\\n"
        "{ size_t i = get_global_id(0); if (i < count) { EACH(value) } }\n"
        "#if !defined(DOUBLE) || defined(cl_khr_fp64) || defined(__opencl_c_fp64)\n"
        "KERNEL(sum, NARROW((W)a + (W)b))\n"
        "KERNEL(product, NARROW((W)a * (W)b))\n"
        "KERNEL(least, LEAST(a, b))\n"
        "KERNEL(most, MOST(a, b))\n"
        "#endif\n";
    const clropeway_type_ *is = clropeway_type_of_(type);
    clropeway_built_ *built = clropeway_built_first_;
    char options[160];
    while (built && (built->context != run->context || built->type != type))
        built = built->next;
    if (built)
        return built->program;
    built = (clropeway_built_ *)calloc(1, sizeof *built);
    if (!built) {
        run->status = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    const char *f = clropeway_is_float_(type) ? "f" : "";
    const char *also = type == CL_REDUCTION_HALF_ROPEWAY ? "-DHALF" : type == CL_REDUCTION_DOUBLE_ROPEWAY ? "-DDOUBLE" : "";
    snprintf(options, sizeof options, "-DT=%s -DW=%s -DLEAST=%smin -DMOST=%smax %s", is->name, is->wide, f, f, also);
    built->context = run->context;
    built->type = type;
    built->program = clCreateProgramWithSource(run->context, 1, (const char **)&source, NULL, &run->status);
    if (run->status == CL_SUCCESS)
        run->status = clBuildProgram(built->program, 0, NULL, options, NULL, NULL);
    if (run->status != CL_SUCCESS) {
        if (built->program)
            clReleaseProgram(built->program);
        free(built);
        return NULL;
    }
    built->next = clropeway_built_first_;
    clropeway_built_first_ = built;
    return built->program;
}

/* Sees to the kernel that combines; gives its element's size, or 0. */
static inline size_t clropeway_operator_(clropeway_run_ *run, const cl_reduction_ropeway *reduction)
{
    static const char *const names[] = {"sum", "product", "least", "most"};
    if (run->status != CL_SUCCESS)
        return 0;
    if (reduction->reduction_operator == CL_REDUCTION_KERNEL_ROPEWAY) {
        run->kernel = reduction->kernel;
        run->status = clRetainKernel(run->kernel);
        return run->element = reduction->element_size;
    }
    for (cl_uint rank = 0; rank < run->ranks && reduction->reduction_type == CL_REDUCTION_DOUBLE_ROPEWAY; rank++) {
        cl_device_id device;
        cl_device_fp_config config = 0;
        clGetCommandQueueInfo(run->queues[rank], CL_QUEUE_DEVICE, sizeof device, &device, NULL);
        clGetDeviceInfo(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof config, &config, NULL);
        if (config == 0)
            run->status = CL_INVALID_OPERATION;
    }
    cl_program program = run->status == CL_SUCCESS ? clropeway_build_(run, reduction->reduction_type) : NULL;
    if (program)
        run->kernel = clCreateKernel(program, names[reduction->reduction_operator - CL_REDUCTION_SUM_ROPEWAY], &run->status);
    return run->element = clropeway_type_of_(reduction->reduction_type)->size;
}

/* Bytes of an element; 0 for what is no valid reduction. */
static inline size_t clropeway_element_(const cl_reduction_ropeway *reduction)
{
    if (!reduction || (reduction->flags & ~(cl_reduction_flags_ropeway)CL_REDUCTION_ORDERED_ROPEWAY))
        return 0;
    if (reduction->reduction_operator == CL_REDUCTION_KERNEL_ROPEWAY)
        return reduction->element_size;
    if (reduction->reduction_operator < CL_REDUCTION_SUM_ROPEWAY || reduction->reduction_operator > CL_REDUCTION_MAX_ROPEWAY)
        return 0;
    return clropeway_type_of_(reduction->reduction_type) ? clropeway_type_of_(reduction->reduction_type)->size : 0;
}

static inline void clropeway_combine_(clropeway_run_ *run, const cl_reduction_ropeway *reduction, cl_uint rank, cl_mem left,
                                      cl_mem right, cl_mem out, size_t size)
{
    cl_ulong count = size / run->element;
    size_t local = 64, global = (size_t)count, group;
    int own = reduction->reduction_operator == CL_REDUCTION_KERNEL_ROPEWAY;
    cl_device_id device;
    if (run->status == CL_SUCCESS)
        run->status = clSetKernelArg(run->kernel, 0, sizeof left, &left);
    if (run->status == CL_SUCCESS)
        run->status = clSetKernelArg(run->kernel, 1, sizeof right, &right);
    if (run->status == CL_SUCCESS)
        run->status = clSetKernelArg(run->kernel, 2, sizeof out, &out);
    if (run->status == CL_SUCCESS && !own)
        run->status = clSetKernelArg(run->kernel, 3, sizeof count, &count);
    if (run->status == CL_SUCCESS)
        run->status = clGetCommandQueueInfo(run->queues[rank], CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (run->status == CL_SUCCESS)
        run->status = clGetKernelWorkGroupInfo(run->kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof group, &group, NULL);
    if (run->status != CL_SUCCESS)
        return;
    while (local > group && local > 1)
        local /= 2;
    if (!own)
        global = (global + local - 1) / local * local;
    cl_event *event = clropeway_event_(run);
    if (event)
        clropeway_done_(run, clEnqueueNDRangeKernel(run->queues[rank], run->kernel, 1, NULL, &global, own ? NULL : &local, run->before,
                                                    clropeway_waits_(run), event));
}

/* Begins an operation that combines: each rank then has two pieces of scratch memory, the first with what it gives. A scan without the ranks'
   own begins with what the rank before gives. */
static inline void clropeway_begin_reduction_(clropeway_run_ *run, CL_ROPEWAY_RANKS_, CL_ROPEWAY_SOURCES_, size_t size,
                                              const cl_reduction_ropeway *reduction, cl_uint shift, cl_uint num_waits,
                                              const cl_event *waits)
{
    clropeway_begin_(run, num_ranks, command_queues, size, num_waits, waits);
    clropeway_check_(run, src_buffers && reduction);
    clropeway_operator_(run, reduction);
    for (cl_uint i = 0; i < 2 * num_ranks && run->status == CL_SUCCESS; i++) {
        run->memory[i] = clCreateBuffer(run->context, CL_MEM_READ_WRITE, size, NULL, &run->status);
        if (run->status == CL_SUCCESS)
            run->num_memory++;
    }
    for (cl_uint rank = shift; rank < num_ranks && run->status == CL_SUCCESS; rank++)
        clropeway_copy_(run, rank, src_buffers[rank - shift], clropeway_offset_(src_offsets, rank - shift), run->memory[2 * rank], 0, size);
    clropeway_next_(run);
}

static inline cl_int clropeway_end_reduction_(clropeway_run_ *run, cl_event *event)
{
    if (run->kernel)
        clReleaseKernel(run->kernel);
    return clropeway_end_(run, event);
}

/* What all give comes, combined, to the first piece of scratch memory of rank 0. */
static inline void clropeway_tree_(clropeway_run_ *run, const cl_reduction_ropeway *reduction, size_t size)
{
    for (cl_uint bit = 1; bit < run->ranks && run->status == CL_SUCCESS; bit *= 2) {
        for (cl_uint rank = 0; rank + bit < run->ranks; rank += 2 * bit)
            clropeway_copy_(run, rank, run->memory[2 * (rank + bit)], 0, run->memory[2 * rank + 1], 0, size);
        clropeway_next_(run);
        for (cl_uint rank = 0; rank + bit < run->ranks; rank += 2 * bit)
            clropeway_combine_(run, reduction, rank, run->memory[2 * rank], run->memory[2 * rank + 1], run->memory[2 * rank], size);
        clropeway_next_(run);
    }
}

static inline cl_int clEnqueueReduceBuffer(CL_ROPEWAY_RANKS_, cl_uint root, CL_ROPEWAY_SOURCES_, CL_ROPEWAY_TARGET_,
                                           CL_ROPEWAY_REDUCTION_, CL_ROPEWAY_EVENTS_)
{
    void *found = clropeway_find_(num_ranks, command_queues, "clEnqueueReduceBufferROPEWAY");
    if (found)
        return ((clEnqueueReduceBufferROPEWAY_fn)found)(num_ranks, command_queues, root, src_buffers, src_offsets, dst_buffer, dst_offset,
                                                        count, reduction, num_events_in_wait_list, event_wait_list, event);
    clropeway_run_ run;
    size_t size = root < num_ranks ? count * clropeway_element_(reduction) : 0;
    clropeway_begin_reduction_(&run, num_ranks, command_queues, src_buffers, src_offsets, size, reduction, 0, num_events_in_wait_list,
                               event_wait_list);
    clropeway_tree_(&run, reduction, size);
    if (run.status == CL_SUCCESS)
        clropeway_copy_(&run, root, run.memory[0], 0, dst_buffer, dst_offset, size);
    return clropeway_end_reduction_(&run, event);
}

static inline cl_int clEnqueueAllReduceBuffer(CL_ROPEWAY_RANKS_, CL_ROPEWAY_SOURCES_, CL_ROPEWAY_TARGETS_, CL_ROPEWAY_REDUCTION_,
                                              CL_ROPEWAY_EVENTS_)
{
    void *found = clropeway_find_(num_ranks, command_queues, "clEnqueueAllReduceBufferROPEWAY");
    if (found)
        return ((clEnqueueAllReduceBufferROPEWAY_fn)found)(num_ranks, command_queues, src_buffers, src_offsets, dst_buffers, dst_offsets,
                                                           count, reduction, num_events_in_wait_list, event_wait_list, event);
    clropeway_run_ run;
    size_t size = dst_buffers ? count * clropeway_element_(reduction) : 0;
    clropeway_begin_reduction_(&run, num_ranks, command_queues, src_buffers, src_offsets, size, reduction, 0, num_events_in_wait_list,
                               event_wait_list);
    clropeway_targets_(&run, num_ranks, src_buffers, dst_buffers);
    clropeway_tree_(&run, reduction, size);
    for (cl_uint rank = 0; rank < num_ranks && run.status == CL_SUCCESS; rank++)
        clropeway_copy_(&run, rank, run.memory[0], 0, dst_buffers[rank], clropeway_offset_(dst_offsets, rank), size);
    return clropeway_end_reduction_(&run, event);
}

static inline cl_int clEnqueueReduceScatterBuffer(CL_ROPEWAY_RANKS_, CL_ROPEWAY_SOURCES_, CL_ROPEWAY_TARGETS_, CL_ROPEWAY_REDUCTION_,
                                                  CL_ROPEWAY_EVENTS_)
{
    void *found = clropeway_find_(num_ranks, command_queues, "clEnqueueReduceScatterBufferROPEWAY");
    if (found)
        return ((clEnqueueReduceScatterBufferROPEWAY_fn)found)(num_ranks, command_queues, src_buffers, src_offsets, dst_buffers,
                                                               dst_offsets, count, reduction, num_events_in_wait_list, event_wait_list,
                                                               event);
    clropeway_run_ run;
    size_t size = dst_buffers ? count * clropeway_element_(reduction) : 0;
    clropeway_begin_reduction_(&run, num_ranks, command_queues, src_buffers, src_offsets, size * num_ranks, reduction, 0,
                               num_events_in_wait_list, event_wait_list);
    clropeway_targets_(&run, num_ranks, src_buffers, dst_buffers);
    clropeway_tree_(&run, reduction, size * num_ranks);
    for (cl_uint rank = 0; rank < num_ranks && run.status == CL_SUCCESS; rank++)
        clropeway_copy_(&run, rank, run.memory[0], rank * size, dst_buffers[rank], clropeway_offset_(dst_offsets, rank), size);
    return clropeway_end_reduction_(&run, event);
}

/* The value that changes nothing when it is combined, in the bytes of `value`. */
static inline void clropeway_identity_(const cl_reduction_ropeway *reduction, cl_ulong *value)
{
    cl_reduction_type_ropeway type = reduction->reduction_type;
    cl_ulong sign = (cl_ulong)1 << (8 * clropeway_type_of_(type)->size - 1);
    cl_ulong one = 1, most = ~(cl_ulong)0, least = 0;
    if (clropeway_is_float_(type)) {
        one = type == CL_REDUCTION_HALF_ROPEWAY ? 0x3c00 : type == CL_REDUCTION_FLOAT_ROPEWAY ? 0x3f800000 : (cl_ulong)0x3ff << 52;
        most = type == CL_REDUCTION_HALF_ROPEWAY ? 0x7c00 : type == CL_REDUCTION_FLOAT_ROPEWAY ? 0x7f800000 : (cl_ulong)0x7ff << 52;
        least = most | sign;
    } else if ((type - CL_REDUCTION_CHAR_ROPEWAY) % 2 == 0) {
        most = sign - 1;
        least = sign;
    }
    *value = reduction->reduction_operator == CL_REDUCTION_SUM_ROPEWAY       ? 0
             : reduction->reduction_operator == CL_REDUCTION_PRODUCT_ROPEWAY ? one
             : reduction->reduction_operator == CL_REDUCTION_MIN_ROPEWAY     ? most
                                                                             : least;
}

static inline cl_int clEnqueueScanBuffer(CL_ROPEWAY_RANKS_, CL_ROPEWAY_SOURCES_, CL_ROPEWAY_TARGETS_, CL_ROPEWAY_REDUCTION_,
                                         cl_scan_flags_ropeway flags, CL_ROPEWAY_EVENTS_)
{
    void *found = clropeway_find_(num_ranks, command_queues, "clEnqueueScanBufferROPEWAY");
    if (found)
        return ((clEnqueueScanBufferROPEWAY_fn)found)(num_ranks, command_queues, src_buffers, src_offsets, dst_buffers, dst_offsets, count,
                                                      reduction, flags, num_events_in_wait_list, event_wait_list, event);
    clropeway_run_ run;
    cl_uint shift = flags == CL_SCAN_EXCLUSIVE_ROPEWAY;
    size_t size = dst_buffers && flags <= CL_SCAN_EXCLUSIVE_ROPEWAY ? count * clropeway_element_(reduction) : 0;
    clropeway_begin_reduction_(&run, num_ranks, command_queues, src_buffers, src_offsets, size, reduction, shift,
                               num_events_in_wait_list, event_wait_list);
    clropeway_targets_(&run, num_ranks, src_buffers, dst_buffers);
    for (cl_uint by = 1; by < num_ranks && run.status == CL_SUCCESS; by *= 2) {
        for (cl_uint rank = shift + by; rank < num_ranks; rank++)
            clropeway_copy_(&run, rank, run.memory[2 * (rank - by)], 0, run.memory[2 * rank + 1], 0, size);
        clropeway_next_(&run);
        for (cl_uint rank = shift + by; rank < num_ranks; rank++)
            clropeway_combine_(&run, reduction, rank, run.memory[2 * rank + 1], run.memory[2 * rank], run.memory[2 * rank], size);
        clropeway_next_(&run);
    }
    for (cl_uint rank = shift; rank < num_ranks && run.status == CL_SUCCESS; rank++)
        clropeway_copy_(&run, rank, run.memory[2 * rank], 0, dst_buffers[rank], clropeway_offset_(dst_offsets, rank), size);
    if (run.status == CL_SUCCESS && shift && reduction->reduction_operator != CL_REDUCTION_KERNEL_ROPEWAY) {
        cl_ulong value;
        cl_event *event_of_fill = clropeway_event_(&run);
        clropeway_identity_(reduction, &value);
        if (event_of_fill)
            clropeway_done_(&run, clEnqueueFillBuffer(run.queues[0], dst_buffers[0], &value, run.element,
                                                      clropeway_offset_(dst_offsets, 0), size, run.before, clropeway_waits_(&run),
                                                      event_of_fill));
    }
    return clropeway_end_reduction_(&run, event);
}
