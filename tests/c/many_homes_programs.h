/* Part of many_homes: what is known of programs that were made for several devices, in each of the ways to make them. */
static void programs(cl_program program)
{
    size_t sizes[MOST], kernels;
    cl_uint known;
    CHECK(clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof known, &known, NULL));
    CHECK(clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof kernels, &kernels, NULL));
    CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL));
    printf("program: for all devices %d, kernels %zu\n", known == count, kernels);
    unsigned char *binaries[MOST];
    for (cl_uint i = 0; i < count; i++) {
        cl_build_status built;
        cl_program_binary_type type;
        size_t group;
        cl_kernel kernel = kernel_of(program, "scale");
        CHECK(clGetProgramBuildInfo(program, devices[i], CL_PROGRAM_BUILD_STATUS, sizeof built, &built, NULL));
        CHECK(clGetProgramBuildInfo(program, devices[i], CL_PROGRAM_BINARY_TYPE, sizeof type, &type, NULL));
        CHECK(clGetKernelWorkGroupInfo(kernel, devices[i], CL_KERNEL_WORK_GROUP_SIZE, sizeof group, &group, NULL));
        printf("device %u: status %d, type %u, binary %d, groups %d\n", i, built, type, sizes[i] > 0, group > 0);
        binaries[i] = malloc(sizes[i]);
        CHECK(clReleaseKernel(kernel));
    }
    CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof *binaries * count, binaries, NULL));
    cl_int each[MOST];
    cl_program again;
    MAKE(again, clCreateProgramWithBinary(context, count, devices, sizes, (const unsigned char **)binaries, each, &status));
    CHECK(clBuildProgram(again, 0, NULL, NULL, NULL, NULL));
    for (cl_uint i = 0; i < count; i++) {
        cl_kernel kernel = kernel_of(again, "scale");
        int x[16], by = 3, plus = (int)i;
        for (int at = 0; at < 16; at++)
            x[at] = at;
        cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, x);
        set_arg(kernel, 0, sizeof buffer, &buffer);
        set_arg(kernel, 1, sizeof by, &by);
        set_arg(kernel, 2, sizeof plus, &plus);
        launch(queues[i], kernel, 16, 0, NULL, NULL);
        CHECK(clEnqueueReadBuffer(queues[i], buffer, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
        printf("of a binary on %u: %d, %d\n", i, each[i], x[15]);
        CHECK(clReleaseMemObject(buffer));
        CHECK(clReleaseKernel(kernel));
        free(binaries[i]);
    }
    CHECK(clReleaseProgram(again));
    /* What does not compile does not compile anywhere, and each device says why. */
    const char *wrong = "__kernel void broken(__global int *x) { x[0] = nonsense; }\n";
    MAKE(again, clCreateProgramWithSource(context, 1, &wrong, NULL, &status));
    printf("broken: %d\n", clBuildProgram(again, 0, NULL, NULL, NULL, NULL));
    for (cl_uint i = 0; i < count; i++) {
        cl_build_status built;
        static char log[65536];
        CHECK(clGetProgramBuildInfo(again, devices[i], CL_PROGRAM_BUILD_STATUS, sizeof built, &built, NULL));
        CHECK(clGetProgramBuildInfo(again, devices[i], CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
        printf("device %u: status %d, log %d\n", i, built, strstr(log, "nonsense") != NULL);
    }
    clCreateKernel(again, "broken", &status);
    printf("its kernel: %d\n", status);
    CHECK(clReleaseProgram(again));
    /* Built for one, then for the others, too. */
    MAKE(again, clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status));
    CHECK(clBuildProgram(again, 1, &devices[count - 1], "-DONE", NULL, NULL));
    cl_build_status first, last;
    CHECK(clGetProgramBuildInfo(again, devices[0], CL_PROGRAM_BUILD_STATUS, sizeof first, &first, NULL));
    CHECK(clGetProgramBuildInfo(again, devices[count - 1], CL_PROGRAM_BUILD_STATUS, sizeof last, &last, NULL));
    printf("for the last: first %d, last %d\n", first, last);
    CHECK(clBuildProgram(again, 1, &devices[0], NULL, NULL, NULL));
    CHECK(clGetProgramBuildInfo(again, devices[0], CL_PROGRAM_BUILD_STATUS, sizeof first, &first, NULL));
    CHECK(clGetProgramBuildInfo(again, devices[count - 1], CL_PROGRAM_BUILD_STATUS, sizeof last, &last, NULL));
    printf("for the first: first %d, last %d\n", first, last);
    CHECK(clReleaseProgram(again));
    /* Compiled and linked. */
    cl_program part, linked;
    const char *used = "int twice(int x) { return 2 * x; }\n";
    const char *uses = "int twice(int x);\n__kernel void both(__global int *x) { x[get_global_id(0)] = twice(x[get_global_id(0)]); }\n";
    MAKE(part, clCreateProgramWithSource(context, 1, &used, NULL, &status));
    MAKE(again, clCreateProgramWithSource(context, 1, &uses, NULL, &status));
    CHECK(clCompileProgram(part, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL));
    CHECK(clCompileProgram(again, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL));
    cl_program parts[] = {part, again};
    linked = clLinkProgram(context, 0, NULL, NULL, 2, parts, NULL, NULL, &status);
    if (status != CL_SUCCESS) {
        printf("linked: %d\n", status);
        for (cl_uint i = 0; i < count && linked != NULL; i++) {
            static char log[100000];
            CHECK(clGetProgramBuildInfo(linked, devices[i], CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
            printf("device %u: %s\n", i, log);
        }
        exit(1);
    }
    for (cl_uint i = 0; i < count; i++) {
        int x[4] = {1, 2, 3, 4};
        cl_kernel kernel = kernel_of(linked, "both");
        cl_mem buffer = buffer_of(CL_MEM_COPY_HOST_PTR, sizeof x, x);
        set_arg(kernel, 0, sizeof buffer, &buffer);
        launch(queues[i], kernel, 4, 0, NULL, NULL);
        CHECK(clEnqueueReadBuffer(queues[i], buffer, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL));
        printf("linked on %u: %d\n", i, x[3]);
        CHECK(clReleaseKernel(kernel));
        CHECK(clReleaseMemObject(buffer));
    }
    CHECK(clReleaseProgram(linked));
    CHECK(clReleaseProgram(part));
    CHECK(clReleaseProgram(again));
}
