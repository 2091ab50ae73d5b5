/* Several others take the same memory of one device at the same time: all other devices, and the host.
 *
 * one_source ROUNDS */
#include "residency.h"

enum { WORDS = 80 << 10, LANES = 64 };

/* The sum of what `put` with this number has left in so many words, from there on. */
static cl_uint sum_of(cl_uint a, cl_uint from, cl_uint words)
{
    cl_uint s = 0;
    for (cl_uint i = 0; i < words; i++)
        s += (from + i) * a + 1;
    return s;
}

/* What lanes of `sum` have made of a buffer. */
static cl_uint added(cl_uint on, cl_mem out)
{
    cl_uint lanes[LANES], s = 0;
    read_back(on, out, lanes, sizeof lanes);
    for (int i = 0; i < LANES; i++)
        s += lanes[i];
    return s;
}

static cl_event add_up(cl_uint on, cl_mem x, cl_mem out, cl_uint words, cl_event after)
{
    cl_event event;
    set_arg(sum, 0, sizeof x, &x);
    set_arg(sum, 1, sizeof out, &out);
    set_arg(sum, 2, sizeof words, &words);
    launch(queues[on], sum, LANES, 1, &after, &event);
    CHECK(clFlush(queues[on]));
    return event;
}

int main(int argc, char **argv)
{
    cl_uint rounds = argc > 1 ? (cl_uint)atoi(argv[1]) : 100;
    static cl_uint host[WORDS];
    cl_uint wrong = 0;
    open_all();
    REQUIRE(count >= 3);
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, sizeof host, NULL), half = part_of(x, sizeof host / 2, sizeof host / 2);
    cl_mem outs[MOST];
    for (cl_uint i = 0; i < count; i++)
        outs[i] = buffer_of(CL_MEM_READ_WRITE, LANES * sizeof(cl_uint), NULL);
    for (cl_uint round = 1; round <= rounds; round++) {
        cl_uint source = round % count;
        cl_event written = run(source, put, x, round, WORDS, 0, NULL), ends[MOST];
        CHECK(clFlush(queues[source]));
        for (cl_uint i = 1; i < count; i++) {
            cl_uint on = (source + i) % count, part = (round + i) % 2;
            ends[i] = add_up(on, part ? half : x, outs[on], part ? WORDS / 2 : WORDS, written);
        }
        CHECK(clEnqueueReadBuffer(queues[source], x, CL_FALSE, 0, sizeof host, host, 1, &written, &ends[0]));
        CHECK(clFlush(queues[source]));
        CHECK(clWaitForEvents(count, ends));
        for (cl_uint i = 0; i < WORDS; i++)
            wrong += host[i] != i * round + 1;
        for (cl_uint i = 1; i < count; i++) {
            cl_uint on = (source + i) % count, part = (round + i) % 2;
            wrong += added(on, outs[on]) != (part ? sum_of(round, WORDS / 2, WORDS / 2) : sum_of(round, 0, WORDS));
        }
        for (cl_uint i = 0; i < count; i++)
            clReleaseEvent(ends[i]);
        clReleaseEvent(written);
    }
    printf("%u devices, %u rounds, %u wrong\n", count, rounds, wrong);
    clReleaseMemObject(half);
    clReleaseMemObject(x);
    for (cl_uint i = 0; i < count; i++)
        clReleaseMemObject(outs[i]);
    close_all();
    return wrong != 0;
}
