/* Commands that wait for an event of the application's own hold up nothing else, on whatever device: neither data on its way nor news of what has ended. */
#include "residency.h"
#include <time.h>

enum { N = 1000, BIG = 16 << 20 };

static cl_command_queue second[2];

static cl_mem numbers(size_t n)
{
    return buffer_of(CL_MEM_READ_WRITE, n * sizeof(cl_uint), NULL);
}

static cl_event enqueue(cl_command_queue queue, cl_kernel kernel, cl_mem x, cl_uint a, size_t items, const cl_event *after)
{
    cl_event event;
    set_arg(kernel, 0, sizeof x, &x);
    set_arg(kernel, 1, sizeof a, &a);
    launch(queue, kernel, items, after ? 1 : 0, after, &event);
    return event;
}

static cl_event sum_up(cl_command_queue queue, cl_mem x, cl_mem out, cl_event after)
{
    cl_uint n = N;
    set_arg(sum, 2, sizeof n, &n);
    cl_event event;
    set_arg(sum, 0, sizeof x, &x);
    set_arg(sum, 1, sizeof out, &out);
    launch(queue, sum, 1, 1, &after, &event);
    return event;
}

/* Its end must come within half a minute. */
static void ends(cl_event event)
{
    AWAIT(status_of(event) <= CL_COMPLETE);
    REQUIRE(status_of(event) == CL_COMPLETE);
}

static void flush_all(void)
{
    for (int i = 0; i < 2; i++) {
        CHECK(clFlush(queues[i]));
        CHECK(clFlush(second[i]));
    }
}

static void right(cl_mem out, cl_uint want)
{
    cl_uint have = 0;
    read_back(1, out, &have, sizeof have);
    REQUIRE(have == want);
}

/* What is made on the first device by and by is summed up on the second. */
static void arrivals(cl_event own)
{
    cl_mem late = numbers(N), soon = numbers(N), out[3] = {numbers(1), numbers(1), numbers(1)};
    cl_event made_late = enqueue(queues[0], put, late, 2, N, &own), made_soon = enqueue(second[0], put, soon, 3, N, NULL);
    cl_event first = sum_up(queues[1], late, out[0], made_late);
    sum_up(queues[1], soon, out[1], made_soon);
    cl_event other = sum_up(second[1], soon, out[2], made_soon);
    flush_all();
    ends(other);
    REQUIRE(status_of(first) > CL_COMPLETE);
    CHECK(clSetUserEventStatus(own, CL_COMPLETE));
    ends(first);
    right(out[0], N * (N - 1) / 2 * 2 + N);
    right(out[1], N * (N - 1) / 2 * 3 + N);
    right(out[2], N * (N - 1) / 2 * 3 + N);
    printf("what comes sooner is there sooner\n");
}

/* The second device is told of a queue's later command before it is told of the earlier one, with its data or without. */
static void ends_and_pushes(cl_event own, int with_data)
{
    cl_mem big = numbers(BIG), soon = numbers(N), late = numbers(N), out[2] = {numbers(1), numbers(1)};
    cl_mem here[2] = {numbers(N), numbers(N)};
    for (int i = 0; i < 2; i++)
        enqueue(queues[1], put, here[i], 5 + i, N, NULL);
    CHECK(clFinish(queues[1]));
    enqueue(queues[0], put, big, 1, BIG, NULL);
    cl_event made_soon = enqueue(queues[0], put, soon, 5, N, NULL), made_late = enqueue(queues[0], put, late, 6, N, &own);
    cl_event then_late = sum_up(queues[1], with_data ? late : here[1], out[1], made_late);
    cl_event then_soon = sum_up(second[1], with_data ? soon : here[0], out[0], made_soon);
    flush_all();
    ends(then_soon);
    REQUIRE(status_of(then_late) > CL_COMPLETE);
    CHECK(clSetUserEventStatus(own, CL_COMPLETE));
    ends(then_late);
    right(out[0], N * (N - 1) / 2 * 5 + N);
    right(out[1], N * (N - 1) / 2 * 6 + N);
    CHECK(clReleaseMemObject(big));
    printf("what ends sooner is known sooner, %s data\n", with_data ? "with" : "without");
}

int main(void)
{
    open_all();
    REQUIRE(count >= 2);
    for (int i = 0; i < 2; i++)
        MAKE(second[i], clCreateCommandQueue(context, devices[i], 0, &status));
    for (int i = 0; i < 6; i++) {
        cl_event own;
        MAKE(own, clCreateUserEvent(context, &status));
        if (i % 3 == 0)
            arrivals(own);
        else
            ends_and_pushes(own, i % 3 == 1);
    }
    printf("right\n");
    return 0;
}
