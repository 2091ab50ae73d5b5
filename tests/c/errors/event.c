/* Events (OpenCL 3.0 API, sections 5.11 and 5.14). */
#include "errors.h"

static void CL_CALLBACK on_end(cl_event event, cl_int execution_status, void *data)
{
    (void)event, (void)execution_status, (void)data;
}

static void user_events(void)
{
    cl_event gate, marker;
    WRONG_HANDLES_FOR(MAKES, clCreateUserEvent(X, &status), "context", CL_INVALID_CONTEXT);
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clEnqueueMarkerWithWaitList(queue, 0, NULL, &marker));
    WRONG_HANDLES_FOR(RETURNS, clSetUserEventStatus(X, CL_COMPLETE), "event", CL_INVALID_EVENT);
    RETURNS(clSetUserEventStatus(marker, CL_COMPLETE), "event is no user event", CL_INVALID_EVENT);
    RETURNS(clSetUserEventStatus(gate, 1), "the status is positive", CL_INVALID_VALUE);
    RETURNS(clSetUserEventStatus(gate, CL_QUEUED), "the status is CL_QUEUED", CL_INVALID_VALUE);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    RETURNS(clSetUserEventStatus(gate, CL_COMPLETE), "the status was set before", CL_INVALID_OPERATION);
    RETURNS(clSetUserEventStatus(gate, -5), "the status was set before, to another", CL_INVALID_OPERATION);
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseEvent(marker));
}

static void waiting(void)
{
    RETURNS(clWaitForEvents(0, &complete_event), "num_events is 0", CL_INVALID_VALUE);
    RETURNS(clWaitForEvents(1, NULL), "event_list is NULL", CL_INVALID_VALUE);
    WRONG_HANDLES_FOR(RETURNS, clWaitForEvents(1, &(cl_event){X}), "the only event", CL_INVALID_EVENT);
    WRONG_HANDLES_FOR(RETURNS, clWaitForEvents(2, ((cl_event[]){complete_event, X})), "the second event",
                      CL_INVALID_EVENT);
    RETURNS(clWaitForEvents(2, ((cl_event[]){complete_event, other_event})), "the events are of different contexts",
            CL_INVALID_CONTEXT);
    RETURNS(clWaitForEvents(1, &failed_event), "an event has failed", CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    RETURNS(clWaitForEvents(2, ((cl_event[]){complete_event, failed_event})), "the second event has failed",
            CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    RETURNS(clWaitForEvents(2, ((cl_event[]){complete_event, complete_event})), "an event twice is allowed", CL_SUCCESS);
}

static void objects(void)
{
    WRONG_HANDLES_FOR(RETURNS, clRetainEvent(X), "event", CL_INVALID_EVENT);
    WRONG_HANDLES_FOR(RETURNS, clReleaseEvent(X), "event", CL_INVALID_EVENT);
    WRONG_HANDLES_FOR(RETURNS, clGetEventInfo(X, CL_EVENT_CONTEXT, 0, NULL, NULL), "event", CL_INVALID_EVENT);
    NO_INFO(clGetEventInfo, complete_event);
    INFO(clGetEventInfo, CL_EVENT_COMMAND_QUEUE, complete_event);
    INFO(clGetEventInfo, CL_EVENT_COMMAND_TYPE, complete_event);
    INFO(clGetEventInfo, CL_EVENT_CONTEXT, complete_event);
    INFO(clGetEventInfo, CL_EVENT_COMMAND_EXECUTION_STATUS, complete_event);
    INFO(clGetEventInfo, CL_EVENT_REFERENCE_COUNT, complete_event);
    WRONG_HANDLES_FOR(RETURNS, clSetEventCallback(X, CL_COMPLETE, on_end, NULL), "event", CL_INVALID_EVENT);
    RETURNS(clSetEventCallback(complete_event, CL_COMPLETE, NULL, NULL), "pfn_event_notify is NULL", CL_INVALID_VALUE);
    RETURNS(clSetEventCallback(complete_event, CL_QUEUED, on_end, NULL), "the status is CL_QUEUED", CL_INVALID_VALUE);
    RETURNS(clSetEventCallback(complete_event, 77, on_end, NULL), "the status is unknown", CL_INVALID_VALUE);
    RETURNS(clSetEventCallback(complete_event, -1, on_end, NULL), "the status is negative", CL_INVALID_VALUE);
}

static void profiling(void)
{
    cl_event plain, timed, never;
    cl_ulong time;
    cl_command_queue profiled = open_queue(CL_QUEUE_PROFILING_ENABLE);
    cl_event gate;
    CHECK(clEnqueueMarkerWithWaitList(queue, 0, NULL, &plain));
    CHECK(clEnqueueMarkerWithWaitList(profiled, 0, NULL, &timed));
    CHECK(clFinish(queue));
    CHECK(clFinish(profiled));
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clEnqueueMarkerWithWaitList(profiled, 1, &gate, &never));
    WRONG_HANDLES_FOR(RETURNS, clGetEventProfilingInfo(X, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL), "event",
                      CL_INVALID_EVENT);
    RETURNS(clGetEventProfilingInfo(complete_event, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL),
            "event is a user event", CL_PROFILING_INFO_NOT_AVAILABLE);
    RETURNS(clGetEventProfilingInfo(plain, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL),
            "the queue does not profile", CL_PROFILING_INFO_NOT_AVAILABLE);
    RETURNS(clGetEventProfilingInfo(never, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL),
            "the command has not ended", CL_PROFILING_INFO_NOT_AVAILABLE);
    NO_INFO(clGetEventProfilingInfo, timed);
    INFO(clGetEventProfilingInfo, CL_PROFILING_COMMAND_QUEUED, timed);
    INFO(clGetEventProfilingInfo, CL_PROFILING_COMMAND_SUBMIT, timed);
    INFO(clGetEventProfilingInfo, CL_PROFILING_COMMAND_START, timed);
    INFO(clGetEventProfilingInfo, CL_PROFILING_COMMAND_END, timed);
    INFO(clGetEventProfilingInfo, CL_PROFILING_COMMAND_COMPLETE, timed);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clFinish(profiled));
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseEvent(never));
    CHECK(clReleaseEvent(plain));
    CHECK(clReleaseEvent(timed));
    CHECK(clReleaseCommandQueue(profiled));
}

int main(int argc, char **argv)
{
    open_all(argc, argv);
    user_events();
    waiting();
    objects();
    profiling();
    return close_all();
}
