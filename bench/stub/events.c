/* Events, and queues: a thread each, which runs what is ready. With STUB_INLINE there are none: whoever enqueues a command
 * runs it, or who ends the last event that it waits for. */
#include "stub.h"

static int is_inline(void)
{
    static int known;
    if (known == 0)
        known = getenv("STUB_INLINE") != NULL ? 1 : -1;
    return known > 0;
}

static void run_runnable(cl_context context);

pthread_mutex_t stub_lock = PTHREAD_MUTEX_INITIALIZER;

/* An event has ended: who waits for it looks again. */
static void look_again(cl_context context)
{
    pthread_cond_broadcast(&context->changed);
    while (context->blocked != NULL) {
        cl_command_queue queue = context->blocked;
        context->blocked = queue->next_blocked;
        if (is_inline()) {
            queue->next_blocked = context->runnable;
            context->runnable = queue;
            continue;
        }
        queue->blocked = 0;
        pthread_cond_signal(&queue->wake);
    }
}

cl_event stub_event(cl_context context, cl_command_queue queue, cl_command_type type)
{
    cl_event event = stub_new(sizeof *event);
    event->context = context;
    event->queue = queue;
    event->type = type;
    event->status = type == CL_COMMAND_USER ? CL_SUBMITTED : CL_QUEUED;
    event->times[0] = event->times[1] = stub_now();
    return event;
}

static cl_int CL_API_CALL retain_event(cl_event event)
{
    __atomic_add_fetch(&event->references, 1, __ATOMIC_RELAXED);
    return CL_SUCCESS;
}

cl_int CL_API_CALL stub_release_event(cl_event event)
{
    if (stub_drop(&event->references))
        free(event);
    return CL_SUCCESS;
}

/* Changes a status and calls whoever wanted to know. */
void stub_set_status(cl_event event, cl_int status)
{
    struct callback *due = NULL;
    cl_context context = event->context;
    pthread_mutex_lock(&stub_lock);
    event->status = status;
    if (status == CL_RUNNING)
        event->times[2] = stub_now();
    if (status <= CL_COMPLETE)
        event->times[3] = stub_now();
    for (struct callback **at = &event->callbacks; *at != NULL;) {
        struct callback *callback = *at;
        if (callback->at < status) {
            at = &callback->next;
            continue;
        }
        *at = callback->next;
        callback->next = due;
        due = callback;
    }
    if (status <= CL_COMPLETE)
        look_again(context);
    pthread_mutex_unlock(&stub_lock);
    while (due != NULL) {
        struct callback *next = due->next;
        due->function(event, status < 0 ? status : due->at, due->data);
        free(due);
        due = next;
    }
    if (status <= CL_COMPLETE)
        run_runnable(context);
}

static cl_int CL_API_CALL set_callback(cl_event event, cl_int at, void(CL_CALLBACK *function)(cl_event, cl_int, void *), void *data)
{
    pthread_mutex_lock(&stub_lock);
    cl_int now = event->status;
    if (now > at) {
        struct callback *callback = calloc(1, sizeof *callback);
        *callback = (struct callback){event->callbacks, function, data, at};
        event->callbacks = callback;
    }
    pthread_mutex_unlock(&stub_lock);
    if (now <= at)
        function(event, now < 0 ? now : at, data);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL wait_for(cl_uint count, const cl_event *list)
{
    cl_int failed = CL_SUCCESS;
    pthread_mutex_lock(&stub_lock);
    for (cl_uint i = 0; i < count; i++) {
        list[i]->awaited = 1;
        while (list[i]->status > CL_COMPLETE)
            pthread_cond_wait(&list[i]->context->changed, &stub_lock);
        if (list[i]->status < 0)
            failed = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    }
    pthread_mutex_unlock(&stub_lock);
    return failed;
}

/* Notes that this thread has been told how the event has ended. Threads that ask at the same time are told each, but no thread
 * asks again. */
static void tell_once(cl_event event)
{
    static unsigned threads;
    static __thread unsigned this_thread;
    if (this_thread == 0)
        this_thread = ++threads;
    for (size_t i = 0; i < sizeof event->told / sizeof *event->told; i++) {
        if (event->told[i] == 0) {
            event->told[i] = this_thread;
            return;
        }
        if (event->told[i] == this_thread)
            break;
    }
    fprintf(stderr, "stub: asked again how a command has ended\n");
    abort();
}

/* What is said of it. */
static cl_int said(cl_event event)
{
    const char *lag = getenv("STUB_LAG");
    pthread_mutex_lock(&stub_lock);
    cl_int status = event->status;
    if (lag != NULL && status == CL_COMPLETE && !event->awaited && event->type != CL_COMMAND_USER &&
        stub_now() - event->times[3] < strtoull(lag, NULL, 10) * 1000)
        status = CL_SUBMITTED;
    if (status <= CL_COMPLETE && getenv("STUB_ONCE") != NULL)
        tell_once(event);
    pthread_mutex_unlock(&stub_lock);
    const char *running = getenv("STUB_RUNNING");
    if (running != NULL && status == CL_RUNNING) {
        while (strcmp(running, "asked") == 0)
            sleep(1);
        status = CL_SUBMITTED;
    }
    return status;
}

static cl_int CL_API_CALL event_info(cl_event event, cl_event_info what, size_t room, void *value, size_t *size_ret)
{
    switch (what) {
    case CL_EVENT_COMMAND_EXECUTION_STATUS: VALUE(cl_int, said(event));
    case CL_EVENT_COMMAND_QUEUE: VALUE(cl_command_queue, event->queue);
    case CL_EVENT_COMMAND_TYPE: VALUE(cl_command_type, event->type);
    case CL_EVENT_REFERENCE_COUNT: VALUE(cl_uint, (cl_uint)event->references);
    case CL_EVENT_CONTEXT: VALUE(cl_context, event->context);
    default: return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL profiling_info(cl_event event, cl_profiling_info what, size_t room, void *value, size_t *size_ret)
{
    if (what < CL_PROFILING_COMMAND_QUEUED || what > CL_PROFILING_COMMAND_END)
        return CL_INVALID_VALUE;
    if (event->type == CL_COMMAND_USER || event->status != CL_COMPLETE)
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    VALUE(cl_ulong, event->times[what - CL_PROFILING_COMMAND_QUEUED]);
}

static cl_event CL_API_CALL user_event(cl_context context, cl_int *error)
{
    GIVE(stub_event(context, NULL, CL_COMMAND_USER), CL_SUCCESS);
}

static cl_int CL_API_CALL set_user_event(cl_event event, cl_int status)
{
    if (event->status <= CL_COMPLETE)
        return CL_INVALID_OPERATION;
    stub_set_status(event, status);
    return CL_SUCCESS;
}

/* The first command that can run now: nothing that it waits for is left, and nothing before it, where that counts. */
static struct command *next_ready(cl_command_queue queue)
{
    struct command **at = &queue->first;
    for (; *at != NULL; at = &(*at)->next) {
        struct command *command = *at;
        int ready = at == &queue->first || !command->barrier;
        for (cl_uint i = 0; ready && i < command->waits; i++)
            ready = command->wait_for[i]->status <= CL_COMPLETE;
        if (ready) {
            *at = command->next;
            if (command->next == NULL)
                queue->last = at;
            return command;
        }
        if (command->barrier || !(queue->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
            return NULL;
    }
    return NULL;
}

static void move(const struct command *command)
{
    for (size_t z = 0; z < command->region[2]; z++)
        for (size_t y = 0; y < command->region[1]; y++) {
            char *to = command->to + z * command->to_pitch[1] + y * command->to_pitch[0];
            if (command->pattern > 0)
                for (size_t x = 0; x < command->region[0]; x += command->pattern)
                    memcpy(to + x, command->fill, command->pattern);
            else
                memmove(to, command->from + z * command->from_pitch[1] + y * command->from_pitch[0], command->region[0]);
        }
}

void stub_drop_command(struct command *command)
{
    for (cl_uint i = 0; i < command->waits; i++)
        stub_release_event(command->wait_for[i]);
    for (int i = 0; i < 2; i++)
        if (command->hold[i] != NULL)
            stub_release_memory(command->hold[i]);
    if (command->kernel != NULL) {
        for (cl_uint i = 0; i < command->kernel->is->args; i++) {
            cl_uint address = command->kernel->is->arg[i].address;
            int is_memory = address == CL_KERNEL_ARG_ADDRESS_GLOBAL || address == CL_KERNEL_ARG_ADDRESS_CONSTANT;
            if (is_memory && command->value[i].memory != NULL)
                stub_release_memory(command->value[i].memory);
        }
        stub_release_kernel(command->kernel);
    }
    stub_release_event(command->event);
    free(command->wait_for);
    free(command);
}

/* Runs a command that is ready. The lock is held, but not while the command runs. */
static void run_one(cl_command_queue queue, struct command *command)
{
    cl_int failed = CL_COMPLETE;
    for (cl_uint i = 0; i < command->waits; i++)
        if (command->wait_for[i]->status < 0)
            failed = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    queue->running++;
    pthread_mutex_unlock(&stub_lock);
    if (failed == CL_COMPLETE) {
        stub_set_status(command->event, CL_RUNNING);
        if (command->kernel != NULL)
            stub_run_kernel(command);
        else
            move(command);
    }
    stub_set_status(command->event, failed);
    stub_drop_command(command);
    pthread_mutex_lock(&stub_lock);
    queue->running--;
    /* Who finishes it; others wait for events. */
    if (queue->running == 0 && queue->first == NULL)
        pthread_cond_broadcast(&queue->context->changed);
}

/* Has somebody look again when an event ends. */
static void block(cl_command_queue queue)
{
    if (queue->first != NULL && !queue->blocked) {
        queue->blocked = 1;
        queue->next_blocked = queue->context->blocked;
        queue->context->blocked = queue;
    }
}

static void *run(void *data)
{
    cl_command_queue queue = data;
    pthread_mutex_lock(&stub_lock);
    while (!queue->ending || queue->first != NULL) {
        struct command *command = next_ready(queue);
        if (command != NULL) {
            run_one(queue, command);
        } else {
            block(queue);
            pthread_cond_wait(&queue->wake, &stub_lock);
        }
    }
    for (cl_command_queue *at = &queue->context->blocked; queue->blocked; at = &(*at)->next_blocked)
        if (*at == queue) {
            *at = queue->next_blocked;
            break;
        }
    pthread_mutex_unlock(&stub_lock);
    free(queue);
    return NULL;
}

/* Runs what is ready of a queue, unless somebody does: that one goes on until nothing is. The lock is held. */
static void run_all(cl_command_queue queue)
{
    struct command *command;
    if (queue->busy)
        return;
    queue->busy = 1;
    while ((command = next_ready(queue)) != NULL)
        run_one(queue, command);
    queue->busy = 0;
    block(queue);
    if (queue->ending && !queue->blocked)
        free(queue);
}

static void run_runnable(cl_context context)
{
    pthread_mutex_lock(&stub_lock);
    while (context->runnable != NULL) {
        cl_command_queue queue = context->runnable;
        context->runnable = queue->next_blocked;
        queue->blocked = 0;
        run_all(queue);
    }
    pthread_mutex_unlock(&stub_lock);
}

void stub_release_queue(cl_command_queue queue)
{
    pthread_mutex_lock(&stub_lock);
    queue->ending = 1;
    pthread_cond_signal(&queue->wake);
    if (!queue->started && !queue->busy && !queue->blocked)
        free(queue);
    pthread_mutex_unlock(&stub_lock);
}

/* How many threads wait for a queue, and the queue that is given to one of them. */
static int spare;
static cl_command_queue given;
static pthread_cond_t is_given = PTHREAD_COND_INITIALIZER;

static void *await_queue(void *data)
{
    (void)data;
    /* The C library makes a thread its memory when it first asks for some. */
    void *volatile first = malloc(1);
    free(first);
    pthread_mutex_lock(&stub_lock);
    while (given == NULL)
        pthread_cond_wait(&is_given, &stub_lock);
    cl_command_queue queue = given;
    given = NULL;
    pthread_mutex_unlock(&stub_lock);
    return run(queue);
}

static int start(void *(*work)(void *), void *data)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, work, data) == 0 && pthread_detach(thread) == 0;
}

void stub_prepare_thread(void)
{
    pthread_mutex_lock(&stub_lock);
    /* One for the transfers of a server that warms up, and one for its client's first queue: drivers have their threads before they
       have queues. */
    while (spare < 2 && !is_inline() && start(await_queue, NULL))
        spare++;
    pthread_mutex_unlock(&stub_lock);
}

void stub_queue_command(cl_command_queue queue, struct command *command)
{
    pthread_mutex_lock(&stub_lock);
    if (!queue->started && !is_inline()) {
        queue->started = 1;
        if (spare > 0 && given == NULL) {
            given = queue;
            spare--;
            pthread_cond_signal(&is_given);
        } else {
            queue->started = start(run, queue);
        }
    }
    *queue->last = command;
    queue->last = &command->next;
    if (is_inline())
        run_all(queue);
    else
        pthread_cond_signal(&queue->wake);
    pthread_mutex_unlock(&stub_lock);
}

void stub_finish(cl_command_queue queue)
{
    pthread_mutex_lock(&stub_lock);
    while (queue->first != NULL || queue->running > 0)
        pthread_cond_wait(&queue->context->changed, &stub_lock);
    pthread_mutex_unlock(&stub_lock);
}

void stub_events(struct _cl_icd_dispatch *table)
{
    table->clRetainEvent = retain_event;
    table->clReleaseEvent = stub_release_event;
    table->clSetEventCallback = set_callback;
    table->clWaitForEvents = wait_for;
    table->clGetEventInfo = event_info;
    table->clGetEventProfilingInfo = profiling_info;
    table->clCreateUserEvent = user_event;
    table->clSetUserEventStatus = set_user_event;
}
