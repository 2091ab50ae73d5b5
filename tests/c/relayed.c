/* What goes between devices whose servers do not reach each other.
 *
 * relayed large N SIZE    a buffer that the devices add to in turn, N times, and that the program never sees
 * relayed small N         the same, of 4 bytes; says the counts of both at its end
 * relayed many N          N buffers at once, of all sizes, from each device to the next
 * relayed held N          N moves that wait for what the program has not yet done, and one that does not
 * relayed image           an image that the devices turn around
 * relayed called          a callback that waits for a move
 * relayed silent          a move from the first device to the second, from the first line that it reads on, while the first falls silent
 * relayed lost SIZE       moves between all devices, from the first line that it reads on, while a device goes away
 *
 * Ends with the most memory that it has ever had, in kB. */
#include "residency.h"

static cl_uint total_of(cl_uint on, cl_mem x, cl_uint n)
{
    enum { LANES = 64 };
    cl_uint got[LANES], all = 0;
    cl_mem out = buffer_of(CL_MEM_WRITE_ONLY, sizeof got, NULL);
    set_arg(sum, 0, sizeof x, &x);
    set_arg(sum, 1, sizeof out, &out);
    set_arg(sum, 2, sizeof n, &n);
    launch(queues[on % count], sum, LANES, 0, NULL, NULL);
    read_back(on, out, got, sizeof got);
    CHECK(clReleaseMemObject(out));
    for (int i = 0; i < LANES; i++)
        all += got[i];
    return all;
}

/* The sum of what `put` with `a` writes to n numbers. */
static cl_uint put_total(cl_uint n, cl_uint a)
{
    cl_uint all = 0;
    for (cl_uint i = 0; i < n; i++)
        all += i * a + 1;
    return all;
}

static void in_turn(cl_uint n, size_t size)
{
    cl_uint items = (cl_uint)(size / 4);
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    cl_event last = run(0, put, x, 3, items, 0, NULL);
    for (cl_uint i = 1; i <= n; i++) {
        cl_event next = run(i, add, x, i, items, 1, &last);
        CHECK(clReleaseEvent(last));
        last = next;
    }
    CHECK(clWaitForEvents(1, &last));
    CHECK(clReleaseEvent(last));
    REQUIRE(total_of(n, x, items) == put_total(items, 3) + items * (n * (n + 1) / 2));
    CHECK(clReleaseMemObject(x));
    printf("what was added in turn is right\n");
}

static void many(cl_uint n)
{
    cl_mem *x = calloc(n, sizeof *x);
    for (cl_uint i = 0; i < n; i++) {
        cl_uint items = 1 + i * i * 1000 % 1500000;
        x[i] = buffer_of(CL_MEM_READ_WRITE, items * 4, NULL);
        cl_event made = run(i, put, x[i], i, items, 0, NULL), added = run(i + 1, add, x[i], 1, items, 1, &made);
        CHECK(clReleaseEvent(made));
        CHECK(clReleaseEvent(added));
    }
    for (cl_uint i = 0; i < n; i++) {
        cl_uint items = 1 + i * i * 1000 % 1500000;
        REQUIRE(total_of(i + 1, x[i], items) == put_total(items, i) + items);
        CHECK(clReleaseMemObject(x[i]));
    }
    free(x);
    printf("what moves at once is right\n");
}

/* On these, nothing waits for what comes before. */
static cl_command_queue free_ones[MOST];

static void open_free(void)
{
    for (cl_uint i = 0; i < count; i++)
        MAKE(free_ones[i], clCreateCommandQueue(context, devices[i], CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status));
}

static void close_free(void)
{
    for (cl_uint i = 0; i < count; i++)
        CHECK(clReleaseCommandQueue(free_ones[i]));
}

static void held(cl_uint n)
{
    enum { ITEMS = 100000 };
    cl_event *gates = calloc(n, sizeof *gates), *ends = calloc(n, sizeof *ends);
    cl_mem *x = calloc(n, sizeof *x);
    open_free();
    size_t items = ITEMS;
    for (cl_uint i = 0; i < n; i++) {
        cl_event made;
        MAKE(gates[i], clCreateUserEvent(context, &status));
        x[i] = buffer_of(CL_MEM_READ_WRITE, items * 4, NULL);
        set_arg(put, 0, sizeof x[i], &x[i]);
        set_arg(put, 1, sizeof i, &i);
        launch(free_ones[i % count], put, items, 1, &gates[i], &made);
        set_arg(add, 0, sizeof x[i], &x[i]);
        set_arg(add, 1, sizeof i, &i);
        launch(free_ones[(i + 1) % count], add, items, 1, &made, &ends[i]);
        CHECK(clReleaseEvent(made));
    }
    in_turn(2 * count, 10000000);
    for (cl_uint i = 0; i < n; i++)
        REQUIRE(status_of(ends[i]) > CL_COMPLETE);
    /* From the last to the first; each third comes to nothing. */
    for (cl_uint i = n; i-- > 0;)
        CHECK(clSetUserEventStatus(gates[i], i % 3 == 2 ? -7 : CL_COMPLETE));
    for (cl_uint i = 0; i < n; i++) {
        cl_int waited = clWaitForEvents(1, &ends[i]);
        REQUIRE(waited == (i % 3 == 2 ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : CL_SUCCESS));
        if (i % 3 == 2)
            REQUIRE(status_of(ends[i]) < 0);
        else
            REQUIRE(total_of(i + 1, x[i], ITEMS) == put_total(ITEMS, i) + ITEMS * i);
        CHECK(clReleaseEvent(ends[i]));
        CHECK(clReleaseEvent(gates[i]));
        CHECK(clReleaseMemObject(x[i]));
    }
    close_free();
    free(gates);
    free(ends);
    free(x);
    printf("what was held up is right\n");
}

static void image(void)
{
    enum { WIDTH = 1003, HEIGHT = 1701, TURNS = 5 };
    static unsigned char from[WIDTH * HEIGHT * 4], to[WIDTH * HEIGHT * 4];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)((i * 7 + i / 1000) % 230);
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc like = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = WIDTH, .image_height = HEIGHT};
    cl_mem images[2];
    for (int i = 0; i < 2; i++)
        MAKE(images[i], clCreateImage(context, CL_MEM_READ_WRITE, &format, &like, NULL, &status));
    size_t origin[3] = {0}, region[3] = {WIDTH, HEIGHT, 1};
    CHECK(clEnqueueWriteImage(queues[0], images[0], CL_TRUE, origin, region, 0, 0, from, 0, NULL, NULL));
    cl_event last = NULL;
    for (cl_uint i = 0; i < TURNS; i++) {
        cl_event next;
        set_arg(turn, 0, sizeof(cl_mem), &images[i % 2]);
        set_arg(turn, 1, sizeof(cl_mem), &images[(i + 1) % 2]);
        CHECK(clEnqueueNDRangeKernel(queues[(i + 1) % count], turn, 2, NULL, region, NULL, last ? 1 : 0, last ? &last : NULL, &next));
        if (last)
            CHECK(clReleaseEvent(last));
        last = next;
    }
    CHECK(clEnqueueReadImage(queues[(TURNS + 1) % count], images[TURNS % 2], CL_TRUE, origin, region, 0, 0, to, 1, &last, NULL));
    CHECK(clReleaseEvent(last));
    for (size_t i = 0; i < sizeof to; i += 4) {
        unsigned char p[4];
        memcpy(p, from + i, 4);
        for (int turns = 0; turns < TURNS; turns++) {
            unsigned char q[4] = {p[1] + 1, p[2] + 2, p[3] + 3, p[0] + 4};
            memcpy(p, q, 4);
        }
        REQUIRE(memcmp(p, to + i, 4) == 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK(clReleaseMemObject(images[i]));
    printf("the image is right\n");
}

static cl_mem called_for;
static int called_with;

static void CL_CALLBACK wait_for_move(cl_event event, cl_int now, void *place)
{
    (void)event;
    cl_uint x = 0;
    cl_int read = clEnqueueReadBuffer(queues[1 % count], called_for, CL_TRUE, 0, sizeof x, &x, 0, NULL, NULL);
    __atomic_store_n((int *)place, now == CL_COMPLETE && read == CL_SUCCESS ? (int)x : -1, __ATOMIC_SEQ_CST);
}

static void called(void)
{
    called_for = buffer_of(CL_MEM_READ_WRITE, 4, NULL);
    cl_event made = run(0, put, called_for, 1, 1, 0, NULL);
    CHECK(clSetEventCallback(made, CL_COMPLETE, wait_for_move, &called_with));
    CHECK(clFlush(queues[0]));
    AWAIT(__atomic_load_n(&called_with, __ATOMIC_SEQ_CST) != 0);
    REQUIRE(called_with == 1);
    CHECK(clReleaseEvent(made));
    CHECK(clReleaseMemObject(called_for));
    printf("what a callback waits for comes\n");
}

static void lost(size_t size)
{
    cl_uint items = (cl_uint)(size / 4);
    cl_mem x[MOST][MOST];
    cl_event ends[MOST][MOST];
    for (cl_uint from = 0; from < count; from++)
        for (cl_uint to = 0; to < count; to++) {
            x[from][to] = buffer_of(CL_MEM_READ_WRITE, size, NULL);
            CHECK(clReleaseEvent(run(from, put, x[from][to], from, items, 0, NULL)));
        }
    finish_all();
    open_free();
    printf("ready\n");
    fflush(stdout);
    getchar();
    for (cl_uint from = 0; from < count; from++)
        for (cl_uint to = 0; to < count; to++) {
            set_arg(add, 0, sizeof(cl_mem), &x[from][to]);
            set_arg(add, 1, sizeof to, &to);
            launch(free_ones[to], add, items, 0, NULL, &ends[from][to]);
            CHECK(clFlush(free_ones[to]));
        }
    printf("under way\n");
    fflush(stdout);
    for (cl_uint from = 0; from < count; from++)
        for (cl_uint to = 0; to < count; to++) {
            cl_int waited = clWaitForEvents(1, &ends[from][to]), ended = status_of(ends[from][to]);
            printf("%u to %u: %d\n", from, to, waited == CL_SUCCESS && ended == CL_COMPLETE ? 1 : ended < 0 ? 0 : 2);
            if (waited == CL_SUCCESS && from != 0 && to != 0)
                REQUIRE(total_of(to, x[from][to], items) == put_total(items, from) + items * to);
            CHECK(clReleaseEvent(ends[from][to]));
            CHECK(clReleaseMemObject(x[from][to]));
        }
    /* Among those that are left all goes on. */
    cl_mem y = buffer_of(CL_MEM_READ_WRITE, size, NULL);
    cl_event one = run(1, put, y, 5, items, 0, NULL), two = run(2, add, y, 1, items, 1, &one);
    REQUIRE(total_of(1, y, items) == put_total(items, 5) + items);
    CHECK(clReleaseEvent(one));
    CHECK(clReleaseEvent(two));
    CHECK(clReleaseMemObject(y));
    close_free();
}

static void silent(void)
{
    cl_mem x = buffer_of(CL_MEM_READ_WRITE, 4000, NULL), y = buffer_of(CL_MEM_READ_WRITE, 4000, NULL);
    cl_event gate, end;
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(clReleaseEvent(run(0, put, y, 1, 1000, 0, NULL)));
    CHECK(clReleaseEvent(run(1, add, y, 1, 1000, 0, NULL)));
    finish_all();
    printf("ready\n");
    fflush(stdout);
    getchar();
    CHECK(clReleaseEvent(run(0, put, x, 1, 1000, 1, &gate)));
    end = run(1, add, x, 1, 1000, 0, NULL);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    cl_int waited = clWaitForEvents(1, &end);
    printf("waited: %d, ended: %d\n", waited, status_of(end) < 0);
    CHECK(clReleaseEvent(gate));
    CHECK(clReleaseEvent(end));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseMemObject(y));
}

static void say_memory(void)
{
    char line[200];
    FILE *file = fopen("/proc/self/status", "r");
    REQUIRE(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            printf("memory: %lu kB\n", strtoul(line + 6, NULL, 10));
    fclose(file);
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    const char *what = argv[1];
    size_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0, second = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    open_all();
    REQUIRE(count > 1);
    if (strcmp(what, "large") == 0) {
        in_turn((cl_uint)first, second);
    } else if (strcmp(what, "small") == 0) {
        in_turn((cl_uint)first, 4);
    } else if (strcmp(what, "many") == 0) {
        many((cl_uint)first);
    } else if (strcmp(what, "held") == 0) {
        held((cl_uint)first);
    } else if (strcmp(what, "image") == 0) {
        image();
    } else if (strcmp(what, "called") == 0) {
        called();
    } else if (strcmp(what, "silent") == 0) {
        silent();
    } else {
        REQUIRE(strcmp(what, "lost") == 0);
        lost(first);
    }
    close_all();
    say_memory();
    return 0;
}
