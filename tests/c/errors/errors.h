/* Tables of calls that are wrong in one way each.
 *
 * A row is one call, what is wrong with it, and the code that the OpenCL 3.0 specification asks for; where several
 * conditions hold at once, or the specification leaves it open, all codes that it allows. What the program prints for it:
 *
 *     function | what is wrong | code that the specification asks for | code that came
 *
 * Run with "native" or "remote" and the number of rows to pass over, because an earlier run ended at the last of them.
 * An implementation may crash on what is no handle at all: such rows are for "remote" only. */
#ifndef ERRORS_H
#define ERRORS_H
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include "../common.h"
#include <CL/cl_ext.h>
#include <pthread.h>

/* Whether the rows run through Ropeway, which must withstand everything. */
static int remote;
static int rows_to_pass_over, rows_so_far;

static inline const char *name_of(cl_int code)
{
    static const struct {
        cl_int code;
        const char *name;
    } NAMES[] = {
#define NAME(code) {code, #code}
        NAME(CL_SUCCESS), NAME(CL_DEVICE_NOT_FOUND), NAME(CL_DEVICE_NOT_AVAILABLE), NAME(CL_COMPILER_NOT_AVAILABLE),
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE), NAME(CL_OUT_OF_RESOURCES), NAME(CL_OUT_OF_HOST_MEMORY),
        NAME(CL_PROFILING_INFO_NOT_AVAILABLE), NAME(CL_MEM_COPY_OVERLAP), NAME(CL_IMAGE_FORMAT_MISMATCH),
        NAME(CL_IMAGE_FORMAT_NOT_SUPPORTED), NAME(CL_BUILD_PROGRAM_FAILURE), NAME(CL_MAP_FAILURE),
        NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET), NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        NAME(CL_COMPILE_PROGRAM_FAILURE), NAME(CL_LINKER_NOT_AVAILABLE), NAME(CL_LINK_PROGRAM_FAILURE),
        NAME(CL_DEVICE_PARTITION_FAILED), NAME(CL_KERNEL_ARG_INFO_NOT_AVAILABLE), NAME(CL_INVALID_VALUE),
        NAME(CL_INVALID_DEVICE_TYPE), NAME(CL_INVALID_PLATFORM), NAME(CL_INVALID_DEVICE), NAME(CL_INVALID_CONTEXT),
        NAME(CL_INVALID_QUEUE_PROPERTIES), NAME(CL_INVALID_COMMAND_QUEUE), NAME(CL_INVALID_HOST_PTR),
        NAME(CL_INVALID_MEM_OBJECT), NAME(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR), NAME(CL_INVALID_IMAGE_SIZE),
        NAME(CL_INVALID_SAMPLER), NAME(CL_INVALID_BINARY), NAME(CL_INVALID_BUILD_OPTIONS), NAME(CL_INVALID_PROGRAM),
        NAME(CL_INVALID_PROGRAM_EXECUTABLE), NAME(CL_INVALID_KERNEL_NAME), NAME(CL_INVALID_KERNEL_DEFINITION),
        NAME(CL_INVALID_KERNEL), NAME(CL_INVALID_ARG_INDEX), NAME(CL_INVALID_ARG_VALUE), NAME(CL_INVALID_ARG_SIZE),
        NAME(CL_INVALID_KERNEL_ARGS), NAME(CL_INVALID_WORK_DIMENSION), NAME(CL_INVALID_WORK_GROUP_SIZE),
        NAME(CL_INVALID_WORK_ITEM_SIZE), NAME(CL_INVALID_GLOBAL_OFFSET), NAME(CL_INVALID_EVENT_WAIT_LIST),
        NAME(CL_INVALID_EVENT), NAME(CL_INVALID_OPERATION), NAME(CL_INVALID_GL_OBJECT), NAME(CL_INVALID_BUFFER_SIZE),
        NAME(CL_INVALID_MIP_LEVEL), NAME(CL_INVALID_GLOBAL_WORK_SIZE), NAME(CL_INVALID_PROPERTY),
        NAME(CL_INVALID_IMAGE_DESCRIPTOR), NAME(CL_INVALID_COMPILER_OPTIONS), NAME(CL_INVALID_LINKER_OPTIONS),
        NAME(CL_INVALID_DEVICE_PARTITION_COUNT), NAME(CL_INVALID_PIPE_SIZE), NAME(CL_INVALID_DEVICE_QUEUE),
        NAME(CL_INVALID_SPEC_ID), NAME(CL_MAX_SIZE_RESTRICTION_EXCEEDED),
#undef NAME
    };
    static char number[16];
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (NAMES[i].code == code)
            return NAMES[i].name;
    snprintf(number, sizeof number, "%d", code);
    return number;
}

/* Whether a row may be tried: an implementation that takes a region that leaves its object runs over memory. */
static inline int harmless(const char *what)
{
    return remote || !(strstr(what, "wrap") || strstr(what, "outside") || strstr(what, "deeper") ||
                       strstr(what, "SIZE_MAX"));
}

/* Prints all of a row but what came; false if it is to be passed over, or could do harm. */
static inline int begins(const char *call, const char *condition, const cl_int *codes, size_t count)
{
    if (!harmless(condition) || rows_so_far++ < rows_to_pass_over)
        return 0;
    printf("%.*s | %s | ", (int)strcspn(call, "("), call, condition);
    for (size_t i = 0; i < count; i++)
        printf("%s%s", i ? " " : "", name_of(codes[i]));
    printf(" | ");
    fflush(stdout);
    return 1;
}

static inline void ends(cl_int code, const void *made)
{
    printf("%s%s\n", name_of(code), code != CL_SUCCESS && made ? " and an object" : "");
}

#define BEGINS(call, condition, ...)                                                                                   \
    begins(#call, condition, (const cl_int[]){__VA_ARGS__}, sizeof((const cl_int[]){__VA_ARGS__}) / sizeof(cl_int))

/* A row: a call that returns its status. */
#define RETURNS(call, condition, ...)                                                                                  \
    do {                                                                                                               \
        if (BEGINS(call, condition, __VA_ARGS__))                                                                      \
            ends((call), NULL);                                                                                        \
    } while (0)

/* A row: a call that makes an object (with `&status` as its last argument), which it must not. */
#define MAKES(call, condition, ...)                                                                                    \
    do {                                                                                                               \
        if (BEGINS(call, condition, __VA_ARGS__)) {                                                                    \
            status = 1;                                                                                                \
            const void *made_ = (const void *)(call);                                                                  \
            ends(status, made_);                                                                                       \
        }                                                                                                              \
    } while (0)

/* Before rows that may crash an implementation that follows what it is given. */
#define REMOTE if (remote)

/* Says why rows are left out. */
static inline void skipped(const char *what, const char *why)
{
    printf("skipped | %s | %s\n", what, why);
}

/* What is wrong about a handle. */
enum { NO_HANDLE, NOTHING_BEHIND, RELEASED, OTHER_KIND, WRONG_HANDLES };
static const char *const WRONG_HANDLE[] = {"is NULL", "is no handle", "was released", "is a handle of another kind"};

/* Looks like an object to a loader, which calls what the first word points to. */
static void *nothing_behind[64];
static cl_context released_context, other_context;
static cl_command_queue queue, other_queue;
static cl_event complete_event, other_event, failed_event;

static inline void *wrong_handle(int how)
{
    switch (how) {
    case NOTHING_BEHIND: return nothing_behind;
    case RELEASED: return released_context;
    case OTHER_KIND: return device;
    default: return NULL;
    }
}

/* Rows for an argument that is a handle: `call` has X in its place. `kind` is RETURNS or MAKES. */
#define WRONG_HANDLES_FOR(kind, call, argument, code)                                                                  \
    do {                                                                                                               \
        for (int how_ = 0; how_ < (remote ? WRONG_HANDLES : 1); how_++) {                                              \
            void *X = wrong_handle(how_);                                                                              \
            char condition_[128];                                                                                      \
            snprintf(condition_, sizeof condition_, "%s %s", argument, WRONG_HANDLE[how_]);                            \
            kind(call, condition_, code);                                                                              \
        }                                                                                                              \
    } while (0)

/* Rows for the queue and the wait list of a command: `call` has Q, N and LIST for them. */
#define COMMAND(kind, call)                                                                                            \
    do {                                                                                                               \
        cl_uint N = 0;                                                                                                 \
        const cl_event *LIST = NULL;                                                                                   \
        cl_command_queue Q = NULL;                                                                                     \
        for (int how_ = 0; how_ < (remote ? WRONG_HANDLES : 1); how_++) {                                              \
            char condition_[128];                                                                                      \
            snprintf(condition_, sizeof condition_, "command_queue %s", WRONG_HANDLE[how_]);                           \
            Q = wrong_handle(how_);                                                                                    \
            kind(call, condition_, CL_INVALID_COMMAND_QUEUE);                                                          \
        }                                                                                                              \
        Q = queue;                                                                                                     \
        WAIT_LISTS(kind, call);                                                                                        \
    } while (0)

/* The wait list alone: `call` has N and LIST, which are there. */
#define WAIT_LISTS(kind, call)                                                                                         \
    do {                                                                                                               \
        N = 1, LIST = NULL;                                                                                            \
        kind(call, "event_wait_list is NULL, num_events is not 0", CL_INVALID_EVENT_WAIT_LIST);                        \
        N = 0, LIST = &complete_event;                                                                                 \
        kind(call, "num_events is 0, event_wait_list is not NULL", CL_INVALID_EVENT_WAIT_LIST);                        \
        N = 2, LIST = (cl_event[]){complete_event, NULL};                                                              \
        kind(call, "an event in the list is NULL", CL_INVALID_EVENT_WAIT_LIST);                                        \
        N = 2, LIST = (cl_event[]){complete_event, other_event};                                                       \
        kind(call, "an event in the list is of another context", CL_INVALID_CONTEXT);                                  \
        REMOTE for (int how2_ = NOTHING_BEHIND; how2_ < WRONG_HANDLES; how2_++)                                        \
        {                                                                                                              \
            char condition2_[128];                                                                                     \
            snprintf(condition2_, sizeof condition2_, "an event in the list %s", WRONG_HANDLE[how2_]);                 \
            N = 2, LIST = (cl_event[]){complete_event, wrong_handle(how2_)};                                           \
            kind(call, condition2_, CL_INVALID_EVENT_WAIT_LIST);                                                       \
        }                                                                                                              \
        N = 0, LIST = NULL;                                                                                            \
    } while (0)

static inline void *fail_later(void *event)
{
    /* The other thread is to be inside its wait, which nothing tells; before it, the wait gives the same. */
    usleep(20000);
    clSetUserEventStatus(event, -1);
    return NULL;
}

/* A row for a blocking command: `call` waits for LIST, N events, which fail meanwhile, and gives its event to MADE. */
#define FAILED_EVENT(kind, call, ...)                                                                                  \
    do {                                                                                                               \
        cl_event gate_, made_by_it_ = NULL;                                                                            \
        pthread_t later_;                                                                                              \
        MAKE(gate_, clCreateUserEvent(context, &status));                                                              \
        pthread_create(&later_, NULL, fail_later, gate_);                                                              \
        const cl_uint N = 1;                                                                                           \
        const cl_event *LIST = &gate_;                                                                                 \
        cl_event *MADE = &made_by_it_;                                                                                 \
        (void)N, (void)LIST, (void)MADE;                                                                               \
        kind(call, "an event fails", CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, ##__VA_ARGS__);                     \
        pthread_join(later_, NULL);                                                                                    \
        if (made_by_it_)                                                                                               \
            clWaitForEvents(1, &made_by_it_), clReleaseEvent(made_by_it_);                                             \
        CHECK(clReleaseEvent(gate_));                                                                                  \
    } while (0)

/* Rows for one query: it can be asked, and not into too little room. The objects come last. */
#define INFO(function, name, ...)                                                                                      \
    do {                                                                                                               \
        size_t size_ = 0;                                                                                              \
        static char room_[65536];                                                                                      \
        RETURNS(function(__VA_ARGS__, name, 0, NULL, &size_), #name ", the size alone", CL_SUCCESS);                   \
        if (rows_so_far <= rows_to_pass_over)                                                                          \
            function(__VA_ARGS__, name, 0, NULL, &size_);                                                              \
        if (size_ > 0 && size_ <= sizeof room_)                                                                        \
            RETURNS(function(__VA_ARGS__, name, size_ - 1, room_, NULL), #name ", param_value_size too small",         \
                    CL_INVALID_VALUE);                                                                                 \
    } while (0)

/* Rows for a query of something that there is not. */
#define NO_INFO(function, ...)                                                                                         \
    RETURNS(function(__VA_ARGS__, 0x7fff, 0, NULL, &(size_t){0}), "param_name unknown", CL_INVALID_VALUE)

static inline int device_has(cl_device_info what)
{
    cl_bool has = CL_FALSE;
    return clGetDeviceInfo(device, what, sizeof has, &has, NULL) == CL_SUCCESS && has;
}

/* Opens the device, and a second context that shares nothing with the first. */
static inline void open_all(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    remote = argc < 2 || strcmp(argv[1], "native") != 0;
    rows_to_pass_over = argc > 2 ? atoi(argv[2]) : 0;
    open_device();
    char name[256] = "";
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
    printf("platform | %s\n", name);
    nothing_behind[0] = *(void **)context;
    queue = open_queue(0);
    MAKE(other_context, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
    MAKE(other_queue, clCreateCommandQueue(other_context, device, 0, &status));
    MAKE(complete_event, clCreateUserEvent(context, &status));
    MAKE(other_event, clCreateUserEvent(other_context, &status));
    MAKE(failed_event, clCreateUserEvent(context, &status));
    CHECK(clSetUserEventStatus(complete_event, CL_COMPLETE));
    CHECK(clSetUserEventStatus(other_event, CL_COMPLETE));
    CHECK(clSetUserEventStatus(failed_event, -1));
    MAKE(released_context, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
    CHECK(clReleaseContext(released_context));
}

static inline int close_all(void)
{
    /* A command that hangs, or an object that was harmed, shows here. */
    CHECK(clFinish(queue));
    CHECK(clFinish(other_queue));
    CHECK(clReleaseEvent(complete_event));
    CHECK(clReleaseEvent(other_event));
    CHECK(clReleaseEvent(failed_event));
    CHECK(clReleaseCommandQueue(other_queue));
    CHECK(clReleaseContext(other_context));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    printf("end\n");
    return 0;
}
#endif
