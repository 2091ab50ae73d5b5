/* A buffer whose making takes the driver as many seconds as argv[1] says: nobody takes the server for lost in the meantime. */
#include "common.h"

#include <time.h>

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 0;
    open_device();
    cl_command_queue queue = open_queue(0);
    time_t begin = time(NULL);
    cl_int error, seven = 7;
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &error);
    CHECK(error);
    CHECK(clEnqueueFillBuffer(queue, buffer, &seven, sizeof seven, 0, 4096, 0, NULL, NULL));
    CHECK(clFinish(queue));
    REQUIRE(time(NULL) - begin >= seconds - 1);
    CHECK(clReleaseMemObject(buffer));
    printf("still there\n");
    return 0;
}
