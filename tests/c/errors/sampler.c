/* Samplers and pipes (OpenCL 3.0 API, sections 5.4 and 5.7). */
#include "errors.h"

static void samplers(void)
{
    cl_sampler sampler;
    const cl_sampler_properties unknown[] = {0x7fff, 1, 0},
                                twice[] = {CL_SAMPLER_FILTER_MODE, CL_FILTER_LINEAR, CL_SAMPLER_FILTER_MODE,
                                           CL_FILTER_NEAREST, 0},
                                bad_filter[] = {CL_SAMPLER_FILTER_MODE, 0x7fff, 0},
                                bad_mode[] = {CL_SAMPLER_ADDRESSING_MODE, 0x7fff, 0};
#define SAMPLER(context, normalised, mode, filter) clCreateSampler(context, normalised, mode, filter, &status)
    WRONG_HANDLES_FOR(MAKES, SAMPLER(X, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST), "context", CL_INVALID_CONTEXT);
    MAKES(SAMPLER(context, CL_FALSE, 0x7fff, CL_FILTER_NEAREST), "addressing_mode is unknown", CL_INVALID_VALUE);
    MAKES(SAMPLER(context, CL_FALSE, CL_ADDRESS_CLAMP, 0x7fff), "filter_mode is unknown", CL_INVALID_VALUE);
    MAKES(SAMPLER(context, 7, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST), "normalized_coords is neither true nor false",
          CL_INVALID_VALUE);
#undef SAMPLER
    WRONG_HANDLES_FOR(MAKES, clCreateSamplerWithProperties(X, NULL, &status), "context", CL_INVALID_CONTEXT);
    MAKES(clCreateSamplerWithProperties(context, unknown, &status), "a property is unknown", CL_INVALID_VALUE);
    MAKES(clCreateSamplerWithProperties(context, twice, &status), "a property is there twice", CL_INVALID_VALUE);
    MAKES(clCreateSamplerWithProperties(context, bad_filter, &status), "the filter mode is unknown", CL_INVALID_VALUE);
    MAKES(clCreateSamplerWithProperties(context, bad_mode, &status), "the addressing mode is unknown",
          CL_INVALID_VALUE);
    MAKE(sampler, clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &status));
    WRONG_HANDLES_FOR(RETURNS, clRetainSampler(X), "sampler", CL_INVALID_SAMPLER);
    WRONG_HANDLES_FOR(RETURNS, clReleaseSampler(X), "sampler", CL_INVALID_SAMPLER);
    WRONG_HANDLES_FOR(RETURNS, clGetSamplerInfo(X, CL_SAMPLER_CONTEXT, 0, NULL, NULL), "sampler", CL_INVALID_SAMPLER);
    RETURNS(clRetainSampler(sampler), "nothing", CL_SUCCESS);
    RETURNS(clReleaseSampler(sampler), "a reference more than the first", CL_SUCCESS);
    NO_INFO(clGetSamplerInfo, sampler);
    INFO(clGetSamplerInfo, CL_SAMPLER_REFERENCE_COUNT, sampler);
    INFO(clGetSamplerInfo, CL_SAMPLER_CONTEXT, sampler);
    INFO(clGetSamplerInfo, CL_SAMPLER_NORMALIZED_COORDS, sampler);
    INFO(clGetSamplerInfo, CL_SAMPLER_ADDRESSING_MODE, sampler);
    INFO(clGetSamplerInfo, CL_SAMPLER_FILTER_MODE, sampler);
    INFO(clGetSamplerInfo, CL_SAMPLER_PROPERTIES, sampler);
    CHECK(clReleaseSampler(sampler));
}

static void pipes(void)
{
    cl_uint most = 0;
    cl_mem buffer = buffer_of(0, 64, NULL), pipe;
    const cl_pipe_properties some[] = {1, 1, 0};
    clGetDeviceInfo(device, CL_DEVICE_PIPE_MAX_PACKET_SIZE, sizeof most, &most, NULL);
    WRONG_HANDLES_FOR(MAKES, clCreatePipe(X, 0, 4, 16, NULL, &status), "context", CL_INVALID_CONTEXT);
    WRONG_HANDLES_FOR(RETURNS, clGetPipeInfo(X, CL_PIPE_PACKET_SIZE, 0, NULL, NULL), "pipe", CL_INVALID_MEM_OBJECT);
    REMOTE RETURNS(clGetPipeInfo(buffer, CL_PIPE_PACKET_SIZE, 0, NULL, NULL), "pipe is a buffer",
                   CL_INVALID_MEM_OBJECT);
    CHECK(clReleaseMemObject(buffer));
    if (!device_has(CL_DEVICE_PIPE_SUPPORT)) {
        REMOTE MAKES(clCreatePipe(context, 0, 4, 16, NULL, &status), "no device has pipes", CL_INVALID_OPERATION);
        skipped("clCreatePipe", "the device has no pipes");
        return;
    }
    MAKES(clCreatePipe(context, CL_MEM_READ_ONLY, 4, 16, NULL, &status), "flags has others than a pipe's",
          CL_INVALID_VALUE);
    MAKES(clCreatePipe(context, 0, 4, 16, some, &status), "properties is not NULL", CL_INVALID_VALUE);
    MAKES(clCreatePipe(context, 0, 0, 16, NULL, &status), "pipe_packet_size is 0", CL_INVALID_PIPE_SIZE);
    MAKES(clCreatePipe(context, 0, 4, 0, NULL, &status), "pipe_max_packets is 0", CL_INVALID_PIPE_SIZE);
    if (most != UINT32_MAX)
        MAKES(clCreatePipe(context, 0, most + 1, 16, NULL, &status), "pipe_packet_size is beyond the device's most",
              CL_INVALID_PIPE_SIZE);
    MAKE(pipe, clCreatePipe(context, 0, 4, 16, NULL, &status));
    NO_INFO(clGetPipeInfo, pipe);
    INFO(clGetPipeInfo, CL_PIPE_PACKET_SIZE, pipe);
    INFO(clGetPipeInfo, CL_PIPE_MAX_PACKETS, pipe);
    INFO(clGetPipeInfo, CL_PIPE_PROPERTIES, pipe);
    CHECK(clReleaseMemObject(pipe));
}

int main(int argc, char **argv)
{
    open_all(argc, argv);
    if (device_has(CL_DEVICE_IMAGE_SUPPORT))
        samplers();
    else
        skipped("clCreateSampler and all that follows", "the device has no images");
    pipes();
    return close_all();
}
