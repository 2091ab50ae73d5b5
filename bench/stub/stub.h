/* An OpenCL implementation with one device that does nothing but take its time: what a benchmark needs where the machine's own
 * processors must not decide.
 *
 * Buffers are real: what is written can be read, copied, mapped. Kernels are known by name (kernels.c); all others do
 * nothing. The environment says how fast the device is: STUB_GFLOPS holds kernels with a known amount of work to a rate
 * without using a processor meanwhile; STUB_LAG, for how many microseconds an event that nobody waits for by name is still said to be
 * submitted when it is complete; STUB_MOVES, if it is there, has each mapping be memory of its own; STUB_LIES, if it is
 * there, has the first mapping to be read be at an address where nothing is; STUB_RUNNING: commands that run are said to be
 * submitted ("submitted"), or whoever asks for their status never hears it ("asked"); STUB_ONCE, if it is there, ends the
 * process of which a thread asks for the status of a command again after that thread has heard of its end. Images, samplers
 * and pipes there are none. */
#ifndef STUB_H
#define STUB_H
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What the loader wants at the beginning of every object. */
extern struct _cl_icd_dispatch stub_dispatch;
#define OBJECT                                                                                                         \
    struct _cl_icd_dispatch *dispatch;                                                                                 \
    int references

struct _cl_platform_id { OBJECT; };
struct _cl_device_id { OBJECT; };
struct _cl_context {
    OBJECT;
    pthread_cond_t changed; /* an event has ended, or a queue */
    /* The queues that have commands, none of which was ready when somebody looked; those to look at again. */
    cl_command_queue blocked, runnable;
};

extern struct _cl_platform_id stub_platform;
extern struct _cl_device_id stub_device;

struct _cl_mem {
    OBJECT;
    cl_context context;
    cl_mem parent;
    cl_mem_flags flags;
    size_t size, offset;
    void *host;
    char *bytes;
    int owned;
    struct mapping *mappings; /* where these are memory of their own */
    struct ending *endings;
};

/* Somebody who is told when a memory object has gone. */
struct ending {
    struct ending *next;
    void(CL_CALLBACK *told)(cl_mem, void *);
    void *data;
};

struct mapping {
    struct mapping *next;
    char *at, *of;
    size_t size;
    cl_map_flags flags;
};

enum { NAME = 64, MOST_ARGS = 16, MOST_KERNELS = 32 };

struct argument {
    char type[NAME], name[NAME];
    cl_uint address;
    int is_const; /* what it points to */
    size_t size; /* of one that is no memory */
};

struct declaration {
    char name[NAME];
    cl_uint args;
    struct argument arg[MOST_ARGS];
};

struct _cl_program {
    OBJECT;
    cl_context context;
    char *source;
    int built;
    cl_uint count;
    struct declaration *kernel;
};

union value {
    cl_mem memory;
    unsigned char bytes[128];
    cl_int number;
};

struct _cl_kernel {
    OBJECT;
    cl_program program;
    const struct declaration *is;
    union value value[MOST_ARGS];
};

struct callback {
    struct callback *next;
    void(CL_CALLBACK *function)(cl_event, cl_int, void *);
    void *data;
    cl_int at;
};

struct _cl_event {
    OBJECT;
    cl_context context;
    cl_command_queue queue;
    cl_command_type type;
    cl_int status;
    cl_ulong times[4]; /* queued, submitted, started, ended */
    int awaited; /* by somebody who has named it */
    unsigned told[16]; /* the threads that were told how it has ended; 0 where there are no more */
    struct callback *callbacks;
};

/* A command: moves rows of bytes, fills, computes, or nothing of these. */
struct command {
    struct command *next;
    cl_event event;
    cl_uint waits;
    cl_event *wait_for;
    int barrier;
    char *to;
    const char *from;
    size_t region[3], to_pitch[2], from_pitch[2];
    size_t pattern;
    unsigned char fill[128];
    cl_mem hold[2];
    cl_kernel kernel;
    union value value[MOST_ARGS];
    size_t global[3];
};

struct _cl_command_queue {
    OBJECT;
    cl_context context;
    cl_command_queue_properties properties;
    struct command *first, **last;
    int running, ending, started;
    pthread_cond_t wake; /* what its thread waits for */
    int blocked; /* whether it is among its context's blocked or runnable ones */
    cl_command_queue next_blocked;
    int busy; /* without threads: whether somebody runs its commands */
};

/* One lock for all that changes: there is little of it. */
extern pthread_mutex_t stub_lock;

/* Has a thread ready for the next queue: a driver has its own before the first command comes. */
void stub_prepare_thread(void);

cl_int stub_answer(const void *from, size_t size, size_t room, void *value, size_t *size_ret);
#define TEXT(text) stub_answer((text), strlen(text) + 1, room, value, size_ret)
#define VALUE(type, ...)                                                                                               \
    do {                                                                                                               \
        type answer_value = __VA_ARGS__;                                                                               \
        return stub_answer(&answer_value, sizeof answer_value, room, value, size_ret);                                 \
    } while (0)

static inline void *stub_new(size_t size)
{
    void *made = calloc(1, size);
    if (made != NULL) {
        *(struct _cl_icd_dispatch **)made = &stub_dispatch;
        ((cl_context)made)->references = 1;
    }
    return made;
}

/* Whether this was the last reference. */
static inline int stub_drop(int *references)
{
    return __atomic_sub_fetch(references, 1, __ATOMIC_ACQ_REL) == 0;
}

#define GIVE(object, code)                                                                                             \
    do {                                                                                                               \
        if (error != NULL)                                                                                             \
            *error = (code);                                                                                           \
        return (object);                                                                                               \
    } while (0)

static inline cl_ulong stub_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (cl_ulong)now.tv_sec * 1000000000u + (cl_ulong)now.tv_nsec;
}

/* In their files. */
void stub_objects(struct _cl_icd_dispatch *table);
void stub_memory(struct _cl_icd_dispatch *table);
void stub_programs(struct _cl_icd_dispatch *table);
void stub_commands(struct _cl_icd_dispatch *table);
void stub_events(struct _cl_icd_dispatch *table);
void stub_run_kernel(struct command *command);
void stub_set_status(cl_event event, cl_int status);
cl_event stub_event(cl_context context, cl_command_queue queue, cl_command_type type);
cl_int CL_API_CALL stub_release_event(cl_event event);
cl_int CL_API_CALL stub_retain_memory(cl_mem memory);
cl_int CL_API_CALL stub_release_memory(cl_mem memory);
cl_int CL_API_CALL stub_release_kernel(cl_kernel kernel);
void stub_queue_command(cl_command_queue queue, struct command *command);
void stub_drop_command(struct command *command);
void stub_release_queue(cl_command_queue queue);
void stub_finish(cl_command_queue queue);
#endif
