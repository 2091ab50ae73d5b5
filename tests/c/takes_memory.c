/* Takes memory of its device, 16 MiB at a time, until it gets no more or has argv[1] times as much: says which. */
#include "common.h"

enum { PIECE = 16 << 20 };

int main(int argc, char **argv)
{
    const int most = argc > 1 ? atoi(argv[1]) : 1;
    open_device();
    cl_command_queue queue = open_queue(0);
    const cl_uchar pattern = 7;
    for (int i = 0; i < most; i++) {
        cl_int status;
        cl_mem piece = clCreateBuffer(context, CL_MEM_READ_WRITE, PIECE, NULL, &status);
        if (status == CL_SUCCESS)
            status = clEnqueueFillBuffer(queue, piece, &pattern, sizeof pattern, 0, PIECE, 0, NULL, NULL);
        if (status == CL_SUCCESS)
            status = clFinish(queue);
        if (status != CL_SUCCESS) {
            printf("stopped\n");
            return 0;
        }
    }
    printf("has all\n");
    return 0;
}
