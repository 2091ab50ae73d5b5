/* Programs and kernels. A source is searched for declarations of kernels; what stands in their bodies does not matter. */
#include <ctype.h>
#include "stub.h"

static cl_program CL_API_CALL from_source(cl_context context, cl_uint count, const char **texts, const size_t *sizes, cl_int *error)
{
    cl_program program = stub_new(sizeof *program);
    size_t have = 0;
    if (program == NULL)
        GIVE(NULL, CL_OUT_OF_HOST_MEMORY);
    program->context = context;
    for (cl_uint i = 0; i < count; i++) {
        size_t size = sizes != NULL && sizes[i] != 0 ? sizes[i] : strlen(texts[i]);
        program->source = realloc(program->source, have + size + 1);
        memcpy(program->source + have, texts[i], size);
        have += size;
        program->source[have] = 0;
    }
    GIVE(program, CL_SUCCESS);
}

/* A program's binary is its source. */
static cl_program CL_API_CALL from_binary(cl_context context, cl_uint count, const cl_device_id *list, const size_t *sizes,
                                          const unsigned char **binaries, cl_int *statuses, cl_int *error)
{
    (void)count, (void)list;
    if (statuses != NULL)
        statuses[0] = CL_SUCCESS;
    return from_source(context, 1, (const char **)binaries, sizes, error);
}

static cl_program CL_API_CALL no_built_in(cl_context context, cl_uint count, const cl_device_id *list, const char *names, cl_int *error)
{
    (void)context, (void)count, (void)list, (void)names;
    GIVE(NULL, CL_INVALID_VALUE);
}

static int word_at(const char *text, const char *word)
{
    size_t size = strlen(word);
    return strncmp(text, word, size) == 0 && !isalnum((unsigned char)text[size]) && text[size] != '_';
}

static size_t size_of_type(const char *type)
{
    static const struct { const char *name; size_t size; } sizes[] = {
        {"char", 1}, {"uchar", 1}, {"short", 2}, {"ushort", 2}, {"int", 4}, {"uint", 4}, {"float", 4},
        {"long", 8}, {"ulong", 8}, {"double", 8}, {"size_t", 8}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (strcmp(type, sizes[i].name) == 0)
            return sizes[i].size;
    return 16;
}

/* One parameter, such as "__global const float *a". */
static void parameter(struct argument *argument, const char *text, size_t size)
{
    char words[256];
    int pointer = 0;
    snprintf(words, sizeof words, "%.*s", (int)size, text);
    argument->address = CL_KERNEL_ARG_ADDRESS_PRIVATE;
    for (char *at = words; *at != 0; at++)
        if (*at == '*') {
            pointer = 1;
            *at = ' ';
        }
    char *rest = NULL, *word = strtok_r(words, " \t\n", &rest);
    for (; word != NULL; word = strtok_r(NULL, " \t\n", &rest)) {
        const char *bare = strncmp(word, "__", 2) == 0 ? word + 2 : word;
        if (strcmp(bare, "global") == 0)
            argument->address = CL_KERNEL_ARG_ADDRESS_GLOBAL;
        else if (strcmp(bare, "local") == 0)
            argument->address = CL_KERNEL_ARG_ADDRESS_LOCAL;
        else if (strcmp(bare, "constant") == 0)
            argument->address = CL_KERNEL_ARG_ADDRESS_CONSTANT;
        else if (strcmp(bare, "const") == 0)
            argument->is_const = pointer;
        else if (strcmp(bare, "restrict") == 0 || strcmp(bare, "volatile") == 0)
            continue;
        else if (argument->type[0] == 0)
            snprintf(argument->type, NAME, "%.*s", NAME - 2, word);
        else
            snprintf(argument->name, NAME, "%.*s", NAME - 1, word);
    }
    argument->size = size_of_type(argument->type);
    if (pointer)
        strcat(argument->type, "*");
}

static void find_kernels(cl_program program)
{
    program->count = 0;
    for (const char *at = program->source; *at != 0 && program->count < MOST_KERNELS; at++) {
        if (at != program->source && (isalnum((unsigned char)at[-1])))
            continue;
        if (!word_at(at, "kernel"))
            continue;
        const char *name = at + strlen("kernel");
        name += strspn(name, " \t\n");
        if (!word_at(name, "void"))
            continue;
        name += strlen("void");
        name += strspn(name, " \t\n");
        const char *open = strchr(name, '('), *close = open != NULL ? strchr(open, ')') : NULL;
        if (close == NULL)
            return;
        struct declaration *more = realloc(program->kernel, (program->count + 1) * sizeof *more);
        if (more == NULL)
            return;
        program->kernel = more;
        struct declaration *is = &more[program->count++];
        memset(is, 0, sizeof *is);
        size_t length = strcspn(name, " \t\n(");
        snprintf(is->name, NAME, "%.*s", (int)length, name);
        for (const char *from = open + 1; from < close && is->args < MOST_ARGS;) {
            size_t size = strcspn(from, ",)");
            int empty = 1;
            for (size_t i = 0; i < size; i++)
                empty &= isspace((unsigned char)from[i]) != 0;
            if (!empty && !(size >= 4 && word_at(from, "void")))
                parameter(&is->arg[is->args++], from, size);
            from += size + 1;
        }
    }
}

static cl_int CL_API_CALL build(cl_program program, cl_uint count, const cl_device_id *list, const char *options,
                                void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    (void)count, (void)list;
    /* A compiler that crashes. */
    if (options != NULL && strstr(options, "-stub-crash") != NULL)
        abort();
    if (!program->built)
        find_kernels(program);
    program->built = 1;
    if (notify != NULL)
        notify(program, data);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL retain_program(cl_program program)
{
    __atomic_add_fetch(&program->references, 1, __ATOMIC_RELAXED);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_program(cl_program program)
{
    if (stub_drop(&program->references)) {
        free(program->source);
        free(program->kernel);
        free(program);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL program_info(cl_program program, cl_program_info what, size_t room, void *value, size_t *size_ret)
{
    switch (what) {
    case CL_PROGRAM_REFERENCE_COUNT: VALUE(cl_uint, (cl_uint)program->references);
    case CL_PROGRAM_CONTEXT: VALUE(cl_context, program->context);
    case CL_PROGRAM_NUM_DEVICES: VALUE(cl_uint, 1);
    case CL_PROGRAM_DEVICES: VALUE(cl_device_id, &stub_device);
    case CL_PROGRAM_SOURCE: return TEXT(program->source);
    case CL_PROGRAM_BINARY_SIZES: VALUE(size_t, program->built ? strlen(program->source) : 0);
    case CL_PROGRAM_BINARIES:
        if (value != NULL && room >= sizeof(char *) && *(char **)value != NULL)
            memcpy(*(char **)value, program->source, strlen(program->source));
        if (size_ret != NULL)
            *size_ret = sizeof(char *);
        return CL_SUCCESS;
    case CL_PROGRAM_NUM_KERNELS: VALUE(size_t, program->count);
    case CL_PROGRAM_KERNEL_NAMES: {
        char names[MOST_KERNELS * (NAME + 1)] = "";
        for (cl_uint i = 0; i < program->count; i++) {
            strcat(names, i > 0 ? ";" : "");
            strcat(names, program->kernel[i].name);
        }
        return TEXT(names);
    }
    default: return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL build_info(cl_program program, cl_device_id device, cl_program_build_info what, size_t room, void *value,
                                     size_t *size_ret)
{
    (void)device;
    switch (what) {
    case CL_PROGRAM_BUILD_STATUS: VALUE(cl_build_status, program->built ? CL_BUILD_SUCCESS : CL_BUILD_NONE);
    case CL_PROGRAM_BUILD_OPTIONS: return TEXT("");
    case CL_PROGRAM_BUILD_LOG: return TEXT("");
    case CL_PROGRAM_BINARY_TYPE:
        VALUE(cl_program_binary_type, program->built ? CL_PROGRAM_BINARY_TYPE_EXECUTABLE : CL_PROGRAM_BINARY_TYPE_NONE);
    default: return CL_INVALID_VALUE;
    }
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *error)
{
    for (cl_uint i = 0; i < program->count; i++)
        if (strcmp(program->kernel[i].name, name) == 0) {
            cl_kernel kernel = stub_new(sizeof *kernel);
            retain_program(program);
            kernel->program = program;
            kernel->is = &program->kernel[i];
            GIVE(kernel, CL_SUCCESS);
        }
    GIVE(NULL, CL_INVALID_KERNEL_NAME);
}

static cl_int CL_API_CALL create_kernels(cl_program program, cl_uint room, cl_kernel *kernels, cl_uint *count)
{
    if (count != NULL)
        *count = program->count;
    for (cl_uint i = 0; kernels != NULL && i < program->count && i < room; i++)
        kernels[i] = create_kernel(program, program->kernel[i].name, NULL);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL retain_kernel(cl_kernel kernel)
{
    __atomic_add_fetch(&kernel->references, 1, __ATOMIC_RELAXED);
    return CL_SUCCESS;
}

cl_int CL_API_CALL stub_release_kernel(cl_kernel kernel)
{
    if (stub_drop(&kernel->references)) {
        release_program(kernel->program);
        free(kernel);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    if (index >= kernel->is->args)
        return CL_INVALID_ARG_INDEX;
    const struct argument *is = &kernel->is->arg[index];
    if (is->address == CL_KERNEL_ARG_ADDRESS_LOCAL)
        return value == NULL && size > 0 ? CL_SUCCESS : CL_INVALID_ARG_VALUE;
    if (size != (is->address == CL_KERNEL_ARG_ADDRESS_PRIVATE ? is->size : sizeof(cl_mem)))
        return CL_INVALID_ARG_SIZE;
    memset(&kernel->value[index], 0, sizeof kernel->value[index]);
    if (value != NULL)
        memcpy(&kernel->value[index], value, size);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL kernel_info(cl_kernel kernel, cl_kernel_info what, size_t room, void *value, size_t *size_ret)
{
    switch (what) {
    case CL_KERNEL_FUNCTION_NAME: return TEXT(kernel->is->name);
    case CL_KERNEL_NUM_ARGS: VALUE(cl_uint, kernel->is->args);
    case CL_KERNEL_REFERENCE_COUNT: VALUE(cl_uint, (cl_uint)kernel->references);
    case CL_KERNEL_CONTEXT: VALUE(cl_context, kernel->program->context);
    case CL_KERNEL_PROGRAM: VALUE(cl_program, kernel->program);
    case CL_KERNEL_ATTRIBUTES: return TEXT("");
    default: return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL argument_info(cl_kernel kernel, cl_uint index, cl_kernel_arg_info what, size_t room, void *value,
                                        size_t *size_ret)
{
    if (index >= kernel->is->args)
        return CL_INVALID_ARG_INDEX;
    const struct argument *is = &kernel->is->arg[index];
    switch (what) {
    case CL_KERNEL_ARG_ADDRESS_QUALIFIER: VALUE(cl_kernel_arg_address_qualifier, is->address);
    case CL_KERNEL_ARG_ACCESS_QUALIFIER: VALUE(cl_kernel_arg_access_qualifier, CL_KERNEL_ARG_ACCESS_NONE);
    case CL_KERNEL_ARG_TYPE_QUALIFIER: VALUE(cl_kernel_arg_type_qualifier, is->is_const ? CL_KERNEL_ARG_TYPE_CONST : CL_KERNEL_ARG_TYPE_NONE);
    case CL_KERNEL_ARG_TYPE_NAME: return TEXT(is->type);
    case CL_KERNEL_ARG_NAME: return TEXT(is->name);
    default: return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t room, void *value,
                                     size_t *size_ret)
{
    (void)kernel, (void)device;
    size_t none[3] = {0, 0, 0};
    switch (what) {
    case CL_KERNEL_WORK_GROUP_SIZE: VALUE(size_t, 1024);
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE: return stub_answer(none, sizeof none, room, value, size_ret);
    case CL_KERNEL_LOCAL_MEM_SIZE: VALUE(cl_ulong, 0);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE: VALUE(size_t, 1);
    case CL_KERNEL_PRIVATE_MEM_SIZE: VALUE(cl_ulong, 0);
    default: return CL_INVALID_VALUE;
    }
}

/* Programs are built in one step only. */
static cl_int CL_API_CALL no_compiler(cl_program program, cl_uint count, const cl_device_id *list, const char *options, cl_uint headers,
                                      const cl_program *contents, const char **names, void(CL_CALLBACK *notify)(cl_program, void *),
                                      void *data)
{
    (void)program, (void)count, (void)list, (void)options, (void)headers, (void)contents, (void)names, (void)notify, (void)data;
    return CL_COMPILER_NOT_AVAILABLE;
}

static cl_program CL_API_CALL no_linker(cl_context context, cl_uint count, const cl_device_id *list, const char *options, cl_uint inputs,
                                        const cl_program *programs, void(CL_CALLBACK *notify)(cl_program, void *), void *data,
                                        cl_int *error)
{
    (void)context, (void)count, (void)list, (void)options, (void)inputs, (void)programs, (void)notify, (void)data;
    GIVE(NULL, CL_LINKER_NOT_AVAILABLE);
}

void stub_programs(struct _cl_icd_dispatch *table)
{
    table->clCreateProgramWithSource = from_source;
    table->clCreateProgramWithBinary = from_binary;
    table->clCreateProgramWithBuiltInKernels = no_built_in;
    table->clBuildProgram = build;
    table->clCompileProgram = no_compiler;
    table->clLinkProgram = no_linker;
    table->clRetainProgram = retain_program;
    table->clReleaseProgram = release_program;
    table->clGetProgramInfo = program_info;
    table->clGetProgramBuildInfo = build_info;
    table->clCreateKernel = create_kernel;
    table->clCreateKernelsInProgram = create_kernels;
    table->clRetainKernel = retain_kernel;
    table->clReleaseKernel = stub_release_kernel;
    table->clSetKernelArg = set_argument;
    table->clGetKernelInfo = kernel_info;
    table->clGetKernelArgInfo = argument_info;
    table->clGetKernelWorkGroupInfo = group_info;
}
