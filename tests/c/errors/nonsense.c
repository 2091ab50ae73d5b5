/* Programs of binaries and of intermediate language that are nonsense: zeros, text and bytes at random, of the lengths that random.c has
 * too. A compiler may refuse them, take them, or crash. */
#include "errors.h"

enum { OF_EACH = 20 };

static int made, refused;

static void tally(cl_int code)
{
    /* The server has gone down with its compiler: that is said, and is no end of this program. */
    if (code == CL_DEVICE_NOT_AVAILABLE) {
        printf("the device is lost\nend\n");
        exit(0);
    }
    code == CL_SUCCESS ? made++ : refused++;
}

static void use(cl_program program)
{
    tally(status);
    if (!program)
        return;
    char names[4096];
    tally(clBuildProgram(program, 0, NULL, "", NULL, NULL));
    tally(clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof names, names, NULL));
    cl_kernel kernel = clCreateKernel(program, "f", &status);
    tally(status);
    if (kernel)
        clReleaseKernel(kernel);
    cl_program linked = clLinkProgram(context, 0, NULL, "", 1, &program, NULL, NULL, &status);
    tally(status);
    if (linked)
        clReleaseProgram(linked);
    tally(clCompileProgram(program, 0, NULL, "", 0, NULL, NULL, NULL, NULL));
    clReleaseProgram(program);
}

int main(void)
{
    static const size_t LENGTHS[] = {1, 2, 4, 8, 64};
    static unsigned char bytes[64 + 1];
    const unsigned char *binary = bytes;
    uint64_t state = 42;
    open_device();
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++)
        for (int round = 0; round < OF_EACH; round++) {
            for (size_t k = 0; k < LENGTHS[i]; k++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                bytes[k] = (unsigned char)(round == 0 ? 0 : round % 2 ? state >> 33 : ' ' + (state >> 33) % 95);
            }
            use(clCreateProgramWithBinary(context, 1, &device, &LENGTHS[i], &binary, NULL, &status));
            use(clCreateProgramWithIL(context, bytes, LENGTHS[i], &status));
        }
    fprintf(stderr, "%d succeeded, %d were refused\n", made, refused);
    printf("end\n");
    return 0;
}
