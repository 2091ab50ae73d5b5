/* Part of collectives: what does not look at results alone, but at events, losses and what is moved. */
/* What was enqueued before is seen, what comes behind is not, and nothing runs before the events of the wait list are over. */
static void run_events(int failing)
{
    enum { COUNT = 1000 };
    static cl_int x[COUNT], y[COUNT];
    cl_mem sources[MOST_RANKS], targets[MOST_RANKS];
    cl_event gate, done, before = NULL;
    cl_int status_of_done, zero = 0;
    size_t offsets[MOST_RANKS] = {0};
    struct test test = {ALL_REDUCE, 4, 0, COUNT, 0, SEPARATE};
    MAKE(gate, clCreateUserEvent(context, &status));
    for (cl_uint rank = 0; rank < ranks; rank++) {
        sources[rank] = buffer_of(CL_MEM_READ_WRITE, sizeof x, NULL);
        targets[rank] = buffer_of(CL_MEM_READ_WRITE, sizeof x, NULL);
        for (int at = 0; at < COUNT; at++)
            x[at] = at + (cl_int)rank;
        CHECK(clEnqueueWriteBuffer(queues[rank], sources[rank], CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
    }
    CHECK(enqueue(&test, sources, offsets, targets, offsets, 1, &gate, &done));
    /* Behind it on an in-order queue; behind its event on others. */
    for (cl_uint rank = 0; rank < ranks; rank++) {
        CHECK(clEnqueueFillBuffer(queues[rank], sources[rank], &zero, sizeof zero, 0, sizeof x, 1, &done, NULL));
        CHECK(clFlush(queues[rank]));
    }
    leave_time();
    CHECK(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status_of_done, &status_of_done, NULL));
    REQUIRE(status_of_done > CL_COMPLETE);
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &done));
    for (cl_uint rank = 0; rank < ranks; rank++) {
        CHECK(clEnqueueReadBuffer(queues[rank], targets[rank], CL_TRUE, 0, sizeof y, y, 0, NULL, NULL));
        for (int at = 0; at < COUNT; at++)
            REQUIRE(y[at] == (cl_int)ranks * at + (cl_int)(ranks * (ranks - 1) / 2));
    }
    printf("waits for events\n");
    /* Many, one behind the other: each takes what the one before has left. */
    for (int turn = 0; turn < 20; turn++) {
        struct test next = {turn % 2 ? ALL_REDUCE : SCAN, 4, turn % 2 ? 3 : 0, COUNT, 0, SEPARATE};
        CHECK(enqueue(&next, turn % 2 ? sources : targets, offsets, turn % 2 ? targets : sources, offsets, before ? 1 : 0,
                      before ? &before : NULL, &done));
        if (before)
            CHECK(clReleaseEvent(before));
        before = done;
    }
    CHECK(clEnqueueReadBuffer(queues[ranks - 1], targets[ranks - 1], CL_TRUE, 0, sizeof y, y, 1, &before, NULL));
    printf("twenty in a row: %d %d\n", y[0], y[COUNT - 1]);
    if (!failing)
        return;
    MAKE(gate, clCreateUserEvent(context, &status));
    CHECK(enqueue(&test, sources, offsets, targets, offsets, 1, &gate, &done));
    CHECK(clSetUserEventStatus(gate, -5));
    REQUIRE(clWaitForEvents(1, &done) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    printf("fails with what it waits for\n");
}

/* Waits for an event, which must end with an error soon. */
static void end_badly(cl_event event)
{
    cl_int ended = CL_QUEUED;
    double begin = seconds();
    while (ended > CL_COMPLETE && seconds() - begin < 60) {
        CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof ended, &ended, NULL));
        usleep(1000);
    }
    REQUIRE(ended < 0);
    CHECK(clReleaseEvent(event));
}

/* The second rank's server is lost before an operation begins, and then there are two. */
static void run_lost(void)
{
    enum { COUNT = 200000 };
    static cl_int numbers[COUNT];
    cl_mem sources[3], targets[3];
    size_t offsets[3] = {0};
    cl_event gate, small, large, done;
    struct test test = {ALL_REDUCE, 4, 0, COUNT, 0, SEPARATE}, little = {BROADCAST, 4, 0, 10, 1, SEPARATE};
    REQUIRE(ranks == 3 && devices == 3);
    for (cl_uint rank = 0; rank < ranks; rank++) {
        cl_int value = (cl_int)rank + 1;
        sources[rank] = buffer_of(CL_MEM_READ_WRITE, COUNT * 4, NULL);
        targets[rank] = buffer_of(CL_MEM_READ_WRITE, COUNT * 4, NULL);
        CHECK(clEnqueueFillBuffer(queues[rank], sources[rank], &value, 4, 0, COUNT * 4, 0, NULL, NULL));
        CHECK(clFinish(queues[rank]));
    }
    MAKE(gate, clCreateUserEvent(context, &status));
    /* Many, whose memory for what is under way later ones could be given. */
    for (int turn = 0; turn < 12; turn++) {
        CHECK(enqueue(&little, sources, offsets, targets, offsets, 1, &gate, NULL));
        CHECK(enqueue(&test, sources, offsets, targets, offsets, 1, &gate, NULL));
    }
    CHECK(enqueue(&little, sources, offsets, targets, offsets, 1, &gate, &small));
    CHECK(enqueue(&test, sources, offsets, targets, offsets, 1, &gate, &large));
    printf("ready\n");
    fflush(stdout);
    getchar();
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    end_badly(small);
    end_badly(large);
    printf("both have failed\n");
    clFinish(queues[0]);
    clFinish(queues[2]);
    REQUIRE(enqueue(&test, sources, offsets, targets, offsets, 0, NULL, NULL) == CL_DEVICE_NOT_AVAILABLE);
    /* The others go on. */
    ranks = 2, queues[1] = queues[2], sources[1] = sources[2];
    for (int rank = 0; rank < 2; rank++)
        targets[rank] = buffer_of(CL_MEM_READ_WRITE, COUNT * 4, NULL);
    CHECK(enqueue(&test, sources, offsets, targets, offsets, 0, NULL, &done));
    for (int rank = 0; rank < 2; rank++) {
        CHECK(clEnqueueReadBuffer(queues[rank], targets[rank], CL_TRUE, 0, sizeof numbers, numbers, 1, &done, NULL));
        REQUIRE(numbers[0] == 4 && numbers[COUNT - 1] == 4);
    }
    printf("the others go on\n");
}

/* Sums over all ranks, nothing of which the host sees but one number of the last. */
static void run_turns(int turns, size_t count)
{
    cl_mem sources[MOST_RANKS], targets[MOST_RANKS];
    size_t offsets[MOST_RANKS] = {0};
    struct test test = {ALL_REDUCE, 4, 0, count, 0, SEPARATE};
    cl_int last = 0;
    for (cl_uint rank = 0; rank < ranks; rank++) {
        cl_int value = (cl_int)rank + 1;
        sources[rank] = buffer_of(CL_MEM_READ_WRITE, count * 4, NULL);
        targets[rank] = buffer_of(CL_MEM_READ_WRITE, count * 4, NULL);
        CHECK(clEnqueueFillBuffer(queues[rank], sources[rank], &value, 4, 0, count * 4, 0, NULL, NULL));
    }
    double begin = seconds();
    for (int turn = 0; turn < turns; turn++) {
        CHECK(enqueue(&test, sources, offsets, targets, offsets, 0, NULL, NULL));
        for (cl_uint rank = 0; rank < ranks; rank++)
            CHECK(clFinish(queues[rank]));
    }
    fprintf(stderr, "%.3f ms a turn\n", (seconds() - begin) * 1e3 / turns);
    CHECK(clEnqueueReadBuffer(queues[ranks - 1], targets[ranks - 1], CL_TRUE, count * 4 - 4, 4, &last, 0, NULL, NULL));
    printf("the last number is %d\n", last);
}

/* Every operation on sums of `int`, once with little, which makes all that is made only once. */
static void run_each(size_t count, int measured)
{
    for (int turn = 0; turn < 2; turn++) {
        staged = turn && measured;
        for (enum operation operation = BROADCAST; operation <= SCAN_EXCLUSIVE; operation++)
            run((struct test){operation, 4, 0, turn ? count : 10, 1 % ranks, SEPARATE});
    }
    printf("each: %016llx\n", (unsigned long long)seen);
}
