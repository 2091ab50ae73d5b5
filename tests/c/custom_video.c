/* Codecs as custom devices. A PACK is a file of chunks, each behind its length in four bytes.
 *
 * custom_video decode KERNEL PACK FORMAT OUT            decodes and drains; frames go to OUT
 * custom_video stream KERNEL FORMAT OUT                 the same of the server's stream, whose chunks and frames stay there until they are read
 * custom_video errors KERNEL PACK FRAME                 what is refused, in between chunks of a stream whose frames have FRAME bytes
 * custom_video large KERNEL PACK                        the status of each chunk
 * custom_video crowd KERNEL PACK N                      streams of N numbers side by side, and the first again once it has ended
 * custom_video encode KERNEL WIDTH HEIGHT FORMAT KBIT FRAMES OUT   encodes the frames of a file and drains; chunks go to OUT, a PACK
 * custom_video points PACK COLOURED ROOM OUT            decodes point clouds of at most ROOM points: positions, then colours
 * custom_video speed KERNEL PACK FORMAT FRAME ROUNDS    frames in a second, which stay at the device */
#include "common.h"

#include <CL/cl_ropeway_custom_devices.h>

static cl_device_id custom;
static cl_command_queue queue;
static cl_kernel kernel;
static cl_mem chunk_buffer, about_chunk, frame_buffer, about_frame;
static char heard[1024];
static int with_stream;

enum { ROOM = 4 << 20 };

static void CL_CALLBACK hear(const char *text, const void *bytes, size_t size, void *user)
{
    (void)bytes, (void)size, (void)user;
    snprintf(heard, sizeof heard, "%s", text);
}

/* The first custom device that has the kernel. */
static cl_device_id find(const char *name)
{
    cl_device_id devices[16];
    cl_uint count;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, 16, devices, &count));
    for (cl_uint i = 0; i < count; i++) {
        static char kernels[4096];
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_BUILT_IN_KERNELS, sizeof kernels, kernels, NULL));
        if (strstr(kernels, name) != NULL)
            return devices[i];
    }
    printf("no device has %s\n", name);
    exit(1);
}

static cl_kernel built_in(cl_device_id of, const char *name)
{
    cl_program program;
    cl_kernel made;
    MAKE(program, clCreateProgramWithBuiltInKernels(context, 1, &of, name, &status));
    MAKE(made, clCreateKernel(program, name, &status));
    CHECK(clReleaseProgram(program));
    return made;
}

/* A queue of the device that has the kernel, in a context with the stream's as well if there is one. */
static void open_kernel(const char *name)
{
    custom = find(name);
    cl_device_id both[] = {custom, with_stream ? find("ropeway.stream.next") : NULL};
    MAKE(context, clCreateContext(NULL, with_stream ? 2 : 1, both, hear, NULL, &status));
    MAKE(queue, clCreateCommandQueue(context, custom, 0, &status));
    kernel = built_in(custom, name);
}

static cl_mem buffer(size_t size)
{
    cl_mem made;
    MAKE(made, clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &status));
    return made;
}

static unsigned char *load(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL);
    REQUIRE(fseek(file, 0, SEEK_END) == 0);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size + 1);
    REQUIRE(bytes != NULL && fread(bytes, 1, *size, file) == *size);
    fclose(file);
    return bytes;
}

/* The next chunk of a pack, and where the one behind it begins. */
static const unsigned char *next_chunk(const unsigned char **at, const unsigned char *end, size_t *size)
{
    uint32_t length;
    if (*at == end)
        return NULL;
    memcpy(&length, *at, 4);
    const unsigned char *chunk = *at + 4;
    *size = length;
    *at = chunk + length;
    return chunk;
}

/* How the kernel's command ends. */
static cl_int end_of(void)
{
    size_t one = 1;
    cl_event event;
    cl_int end;
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, &event));
    clWaitForEvents(1, &event);
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof end, &end, NULL));
    CHECK(clReleaseEvent(event));
    return end;
}

static void set_stream(cl_uint stream, cl_uint format)
{
    CHECK(clSetKernelArg(kernel, 0, sizeof stream, &stream));
    CHECK(clSetKernelArg(kernel, 5, sizeof format, &format));
}

static void open_decoder(const char *name, cl_uint format, size_t frame)
{
    open_kernel(name);
    chunk_buffer = buffer(ROOM);
    about_chunk = buffer(sizeof(cl_chunk_ropeway));
    frame_buffer = buffer(frame);
    about_frame = buffer(sizeof(cl_frame_ropeway));
    cl_mem arguments[] = {chunk_buffer, about_chunk, frame_buffer, about_frame};
    for (cl_uint i = 0; i < 4; i++)
        CHECK(clSetKernelArg(kernel, i + 1, sizeof arguments[i], &arguments[i]));
    set_stream(7, format);
}

static void upload(const void *chunk, size_t size, cl_ulong number)
{
    cl_chunk_ropeway about = {size, number, 0, 0};
    REQUIRE(size <= ROOM);
    if (size > 0)
        CHECK(clEnqueueWriteBuffer(queue, chunk_buffer, CL_TRUE, 0, size, chunk, 0, NULL, NULL));
    CHECK(clEnqueueWriteBuffer(queue, about_chunk, CL_TRUE, 0, sizeof about, &about, 0, NULL, NULL));
}

static cl_frame_ropeway frame_record(void)
{
    cl_frame_ropeway about;
    CHECK(clEnqueueReadBuffer(queue, about_frame, CL_TRUE, 0, sizeof about, &about, 0, NULL, NULL));
    return about;
}

static void save(FILE *out, cl_mem from, size_t size)
{
    void *bytes = malloc(size + 1);
    REQUIRE(bytes != NULL);
    if (size > 0)
        CHECK(clEnqueueReadBuffer(queue, from, CL_TRUE, 0, size, bytes, 0, NULL, NULL));
    REQUIRE(fwrite(bytes, 1, size, out) == size);
    free(bytes);
}

static int decode(const char *pack, cl_uint format, const char *to)
{
    size_t size, length;
    const unsigned char *bytes = load(pack, &size), *at = bytes, *chunk;
    FILE *out = fopen(to, "wb");
    REQUIRE(out != NULL);
    cl_ulong number = 0, frames = 0;
    for (int more = 1; more; number++) {
        chunk = next_chunk(&at, bytes + size, &length);
        upload(chunk, chunk == NULL ? 0 : length, number);
        cl_int end = end_of();
        if (end != CL_COMPLETE && !(chunk == NULL && end == CL_STREAM_END_ROPEWAY))
            printf("chunk %d: %d\n", (int)number, end);
        cl_frame_ropeway about = frame_record();
        if (about.size > 0) {
            REQUIRE(about.sequence == frames && about.format == format);
            REQUIRE(about.row_pitch == about.width * (format == CL_FRAME_RGBA_ROPEWAY ? 4 : 1));
            save(out, frame_buffer, about.size);
            frames++;
        }
        REQUIRE(about.size == 0 || end == CL_COMPLETE);
        more = end != CL_STREAM_END_ROPEWAY;
    }
    REQUIRE(fclose(out) == 0);
    printf("%d frames\n", (int)frames);
    return 0;
}

/* The next chunk of the server's stream goes to the decoder without coming here. */
static int stream(cl_uint format, const char *to)
{
    cl_device_id source = find("ropeway.stream.next");
    cl_kernel next = built_in(source, "ropeway.stream.next");
    cl_command_queue source_queue;
    cl_chunk_ropeway end_of_stream = {0, 0, 0, 0};
    cl_uint chunks = 0, frames = 0;
    size_t one = 1;
    FILE *out = fopen(to, "wb");
    REQUIRE(out != NULL);
    MAKE(source_queue, clCreateCommandQueue(context, source, 0, &status));
    CHECK(clSetKernelArg(next, 0, sizeof chunk_buffer, &chunk_buffer));
    CHECK(clSetKernelArg(next, 1, sizeof about_chunk, &about_chunk));
    for (int is_open = 1;;) {
        if (is_open) {
            cl_event came;
            cl_int status_of;
            CHECK(clEnqueueNDRangeKernel(source_queue, next, 1, NULL, &one, NULL, 0, NULL, &came));
            clWaitForEvents(1, &came);
            CHECK(clGetEventInfo(came, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status_of, &status_of, NULL));
            CHECK(clReleaseEvent(came));
            REQUIRE(status_of == CL_COMPLETE || status_of == CL_STREAM_END_ROPEWAY);
            is_open = status_of == CL_COMPLETE;
            chunks += (cl_uint)is_open;
        }
        if (!is_open)
            CHECK(clEnqueueWriteBuffer(queue, about_chunk, CL_TRUE, 0, sizeof end_of_stream, &end_of_stream, 0, NULL, NULL));
        cl_int end = end_of();
        if (end == CL_STREAM_END_ROPEWAY)
            break;
        REQUIRE(end == CL_COMPLETE);
        cl_frame_ropeway about = frame_record();
        REQUIRE(about.size == 0 || (about.sequence == frames && about.format == format));
        save(out, frame_buffer, about.size);
        frames += about.size > 0;
    }
    REQUIRE(fclose(out) == 0);
    printf("%u chunks, %u frames\n", chunks, frames);
    return 0;
}

static void say(const char *what)
{
    heard[0] = 0;
    cl_int end = end_of();
    for (int i = 0; end < 0 && i < 5000 && heard[0] == 0; i++)
        usleep(1000);
    cl_frame_ropeway about = frame_record();
    printf("%s: %d, %d bytes, %u x %u: %s\n", what, end, (int)about.size, about.width, about.height, heard);
}

static int errors(const char *pack, size_t frame)
{
    static const unsigned char garbage[5000] = {0x12, 1, 2, 3, 0xff, 0xff};
    size_t size, length;
    const unsigned char *bytes = load(pack, &size), *at = bytes, *chunk;
    upload(garbage, sizeof garbage, 0);
    say("garbage");
    cl_chunk_ropeway claims[] = {{ROOM + 1, 0, 0, 0}, {1ull << 40, 0, 0, 0}};
    for (int i = 0; i < 2; i++) {
        CHECK(clEnqueueWriteBuffer(queue, about_chunk, CL_TRUE, 0, sizeof claims[i], &claims[i], 0, NULL, NULL));
        say("more bytes than there are");
    }
    set_stream(7, 2);
    say("another format");
    set_stream(7, CL_FRAME_NV12_ROPEWAY);
    /* A buffer that is too small by a byte, within a larger one that is looked at. */
    chunk = next_chunk(&at, bytes + size, &length);
    upload(chunk, length, 0);
    unsigned char canary[256], *pattern = malloc(frame + sizeof canary);
    REQUIRE(pattern != NULL);
    memset(pattern, 0xA5, frame + sizeof canary);
    cl_mem whole = buffer(frame + sizeof canary), part;
    CHECK(clEnqueueWriteBuffer(queue, whole, CL_TRUE, 0, frame + sizeof canary, pattern, 0, NULL, NULL));
    cl_buffer_region region = {0, frame - 1};
    MAKE(part, clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
    CHECK(clSetKernelArg(kernel, 3, sizeof part, &part));
    say("a byte too small");
    say("still too small");
    CHECK(clEnqueueReadBuffer(queue, whole, CL_TRUE, frame - 1, sizeof canary, canary, 0, NULL, NULL));
    for (size_t i = 0; i < sizeof canary; i++)
        REQUIRE(canary[i] == 0xA5);
    CHECK(clSetKernelArg(kernel, 3, sizeof frame_buffer, &frame_buffer));
    say("again with room");
    CHECK(clReleaseMemObject(part));
    CHECK(clReleaseMemObject(whole));
    cl_mem short_record = buffer(sizeof(cl_frame_ropeway) - 1);
    CHECK(clSetKernelArg(kernel, 4, sizeof short_record, &short_record));
    say("a record too small");
    CHECK(clSetKernelArg(kernel, 4, sizeof about_frame, &about_frame));
    cl_mem none = NULL;
    CHECK(clSetKernelArg(kernel, 3, sizeof none, &none));
    say("no buffer");
    CHECK(clSetKernelArg(kernel, 3, sizeof frame_buffer, &frame_buffer));
    chunk = next_chunk(&at, bytes + size, &length);
    upload(chunk, length, 1);
    say("and on it goes");
    return 0;
}

static int large(const char *pack)
{
    size_t size, length;
    const unsigned char *bytes = load(pack, &size), *at = bytes, *chunk;
    while ((chunk = next_chunk(&at, bytes + size, &length)) != NULL) {
        upload(chunk, length, 0);
        say("chunk");
    }
    return 0;
}

static int crowd(const char *pack, cl_uint streams)
{
    size_t size, length;
    const unsigned char *bytes = load(pack, &size), *at = bytes;
    const unsigned char *chunk = next_chunk(&at, bytes + size, &length);
    upload(chunk, length, 0);
    for (cl_uint i = 0; i <= streams; i++) {
        set_stream(i, CL_FRAME_NV12_ROPEWAY);
        cl_int end = end_of();
        if (end != CL_COMPLETE)
            printf("stream %u: %d\n", i, end);
    }
    /* The first one ends, so that there is room for one more. */
    upload(NULL, 0, 1);
    set_stream(0, CL_FRAME_NV12_ROPEWAY);
    cl_int end;
    while ((end = end_of()) == CL_COMPLETE)
        REQUIRE(frame_record().size > 0);
    REQUIRE(end == CL_STREAM_END_ROPEWAY);
    upload(chunk, length, 0);
    set_stream(streams, CL_FRAME_NV12_ROPEWAY);
    printf("after an end: %d\n", end_of());
    return 0;
}

static int encode(char **arguments)
{
    cl_uint width = (cl_uint)atoi(arguments[0]), height = (cl_uint)atoi(arguments[1]);
    cl_uint format = (cl_uint)atoi(arguments[2]), kbit = (cl_uint)atoi(arguments[3]), stream = 3;
    size_t size, frame = format == CL_FRAME_NV12_ROPEWAY ? width * height * 3 / 2 : width * height * 4;
    const unsigned char *bytes = load(arguments[4], &size);
    FILE *out = fopen(arguments[5], "wb");
    REQUIRE(out != NULL && size % frame == 0);
    cl_mem input = buffer(frame), small = buffer(10), output = buffer(ROOM), about_output = buffer(sizeof(cl_chunk_ropeway));
    CHECK(clSetKernelArg(kernel, 0, sizeof stream, &stream));
    CHECK(clSetKernelArg(kernel, 1, sizeof input, &input));
    CHECK(clSetKernelArg(kernel, 2, sizeof width, &width));
    CHECK(clSetKernelArg(kernel, 3, sizeof height, &height));
    CHECK(clSetKernelArg(kernel, 4, sizeof format, &format));
    CHECK(clSetKernelArg(kernel, 5, sizeof kbit, &kbit));
    CHECK(clSetKernelArg(kernel, 6, sizeof output, &output));
    CHECK(clSetKernelArg(kernel, 7, sizeof about_output, &about_output));
    cl_ulong chunks = 0, last = 0;
    for (size_t i = 0, more = 1; more; i++) {
        cl_chunk_ropeway about;
        if ((i + 1) * frame <= size) {
            CHECK(clEnqueueWriteBuffer(queue, input, CL_TRUE, 0, frame, bytes + i * frame, 0, NULL, NULL));
        } else {
            cl_uint none = 0;
            cl_mem no_frame = NULL;
            CHECK(clSetKernelArg(kernel, 1, sizeof no_frame, &no_frame));
            CHECK(clSetKernelArg(kernel, 2, sizeof none, &none));
            CHECK(clSetKernelArg(kernel, 3, sizeof none, &none));
        }
        /* The chunk stays for the next try. */
        if (i == 5) {
            CHECK(clSetKernelArg(kernel, 6, sizeof small, &small));
            cl_int tried = end_of();
            printf("too small: %d\n", tried);
            CHECK(clSetKernelArg(kernel, 6, sizeof output, &output));
            /* There was no chunk yet that could have been too large: the frame is encoded. */
            if (tried == CL_COMPLETE)
                continue;
        }
        cl_int end = end_of();
        if (end != CL_COMPLETE && end != CL_STREAM_END_ROPEWAY)
            printf("frame %d: %d\n", (int)i, end);
        CHECK(clEnqueueReadBuffer(queue, about_output, CL_TRUE, 0, sizeof about, &about, 0, NULL, NULL));
        if (about.size > 0) {
            uint32_t length = (uint32_t)about.size;
            REQUIRE(about.sequence == chunks && about.time >= last && about.dropped == 0);
            REQUIRE(fwrite(&length, 4, 1, out) == 1);
            save(out, output, length);
            chunks++, last = about.time;
        }
        REQUIRE((about.size == 0) == (end != CL_COMPLETE) || (i + 1) * frame <= size);
        more = end != CL_STREAM_END_ROPEWAY;
    }
    REQUIRE(fclose(out) == 0);
    printf("%d chunks\n", (int)chunks);
    return 0;
}

static int points(const char *pack, int coloured, size_t room, const char *to)
{
    size_t size, length;
    const unsigned char *bytes = load(pack, &size), *at = bytes, *chunk;
    FILE *out = fopen(to, "wb");
    REQUIRE(out != NULL);
    chunk_buffer = buffer(ROOM);
    about_chunk = buffer(sizeof(cl_chunk_ropeway));
    cl_mem positions = buffer(room * 12), colours = coloured ? buffer(room * 4) : NULL, about_points = buffer(sizeof(cl_points_ropeway));
    cl_mem about_colours = coloured ? buffer(sizeof(cl_points_ropeway)) : NULL;
    cl_mem arguments[] = {chunk_buffer, about_chunk, positions, colours, about_points, about_colours};
    for (cl_uint i = 0; i < 6; i++)
        CHECK(clSetKernelArg(kernel, i, sizeof arguments[i], &arguments[i]));
    while ((chunk = next_chunk(&at, bytes + size, &length)) != NULL) {
        cl_points_ropeway about;
        upload(chunk, length, 0);
        heard[0] = 0;
        cl_int end = end_of();
        for (int i = 0; end < 0 && i < 5000 && heard[0] == 0; i++)
            usleep(1000);
        CHECK(clEnqueueReadBuffer(queue, about_points, CL_TRUE, 0, sizeof about, &about, 0, NULL, NULL));
        REQUIRE(about.size == about.count * 12);
        if (coloured) {
            cl_points_ropeway of_colours;
            CHECK(clEnqueueReadBuffer(queue, about_colours, CL_TRUE, 0, sizeof of_colours, &of_colours, 0, NULL, NULL));
            REQUIRE(of_colours.size == about.count * 4 && of_colours.count == about.count);
        }
        printf("%d points: %d: %s\n", (int)about.count, end, heard);
        save(out, positions, about.size);
        if (coloured)
            save(out, colours, about.count * 4);
    }
    REQUIRE(fclose(out) == 0);
    return 0;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* The whole stream lies at the device before the clock runs. */
static int speed(const char *pack, size_t frame, int rounds)
{
    enum { MOST = 4096, RING = 8 };
    static cl_mem chunks[MOST], abouts[MOST];
    cl_mem frames[RING];
    size_t size, length, count = 0, one = 1;
    const unsigned char *bytes = load(pack, &size), *at = bytes, *chunk;
    for (; (chunk = next_chunk(&at, bytes + size, &length)) != NULL; count++) {
        REQUIRE(count < MOST);
        cl_chunk_ropeway about = {length, count, 0, 0};
        MAKE(chunks[count], clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, length, (void *)chunk, &status));
        MAKE(abouts[count], clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof about, &about, &status));
        CHECK(clEnqueueMigrateMemObjects(queue, 1, &chunks[count], 0, 0, NULL, NULL));
        CHECK(clEnqueueMigrateMemObjects(queue, 1, &abouts[count], 0, 0, NULL, NULL));
    }
    cl_chunk_ropeway end = {0, 0, 0, 0};
    cl_mem about_end;
    MAKE(about_end, clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof end, &end, &status));
    for (int i = 0; i < RING; i++)
        frames[i] = buffer(frame);
    for (int round = 0; round < rounds; round++) {
        cl_ulong given = 0;
        CHECK(clFinish(queue));
        double begin = now();
        for (size_t i = 0; i < count; i++) {
            CHECK(clSetKernelArg(kernel, 1, sizeof chunks[i], &chunks[i]));
            CHECK(clSetKernelArg(kernel, 2, sizeof abouts[i], &abouts[i]));
            CHECK(clSetKernelArg(kernel, 3, sizeof frames[i % RING], &frames[i % RING]));
            CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL));
        }
        CHECK(clSetKernelArg(kernel, 2, sizeof about_end, &about_end));
        cl_frame_ropeway about;
        while (end_of() == CL_COMPLETE) {
            about = frame_record();
            given = about.sequence + 1;
        }
        double seconds = now() - begin;
        REQUIRE(given == count * (cl_ulong)(round + 1) || given == 0); /* 0: nothing was held back */
        printf("%.1f frames/s\n", (double)count / seconds);
    }
    return 0;
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 3);
    const char *what = argv[1];
    if (strcmp(what, "points") == 0) {
        open_kernel("ropeway.decode.draco");
        return points(argv[2], atoi(argv[3]), (size_t)atoi(argv[4]), argv[5]);
    }
    if (strcmp(what, "encode") == 0) {
        open_kernel(argv[2]);
        return encode(argv + 3);
    }
    with_stream = strcmp(what, "stream") == 0;
    if (with_stream) {
        open_decoder(argv[2], (cl_uint)atoi(argv[3]), 8 << 20);
        return stream((cl_uint)atoi(argv[3]), argv[4]);
    }
    cl_uint format = strcmp(what, "decode") == 0 || strcmp(what, "speed") == 0 ? (cl_uint)atoi(argv[4]) : CL_FRAME_NV12_ROPEWAY;
    open_decoder(argv[2], format, 8 << 20);
    if (strcmp(what, "decode") == 0)
        return decode(argv[3], format, argv[5]);
    if (strcmp(what, "errors") == 0)
        return errors(argv[3], (size_t)atoi(argv[4]));
    if (strcmp(what, "large") == 0)
        return large(argv[3]);
    if (strcmp(what, "crowd") == 0)
        return crowd(argv[3], (cl_uint)atoi(argv[4]));
    REQUIRE(strcmp(what, "speed") == 0);
    return speed(argv[3], (size_t)atoi(argv[5]), atoi(argv[6]));
}
