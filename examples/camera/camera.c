/* Two cameras, far from who wants to know what they see: each camera's server takes its frames from the stream, decodes them and finds what moves,
 * a third server merges what both have found, and the client, behind a slow link, reads 40 bytes for each frame.
 *
 *   camera's server   ropeway.stream.next -> ropeway.decode.h264 -> compare (motion.cl)
 *   third server      merge
 *
 * The servers' devices are all in one context. What one hands to the next goes from server to server. */
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#include "../measure.h"
#include <CL/cl_ext_ropeway.h>
#include <CL/cl_ropeway_custom_devices.h>
#include <getopt.h>

enum { CAMERAS = 2, ITEMS = 32, THRESHOLD = 10, BATCH_MOST = 64, CHUNK_MOST = 1 << 20 };

/* motion.cl, as text. */
__asm__(".pushsection .rodata\n"
        "motion_text: .incbin \"camera/motion.cl\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char motion_text[];

/* As in motion.cl. */
struct motion {
    cl_uint frame, cells;
    cl_ushort left, top, right, bottom;
};

struct merged {
    struct motion seen[CAMERAS];
    cl_uint both, reserved;
};

/* A frame that is under way at its camera's server. It has kernels of its own, whose arguments are set once: that saves sending them. */
struct slot {
    cl_kernel next, decode, compare;
    cl_mem rows;
    cl_event taken, decoded;
};

struct camera {
    char name[256];
    cl_device_id source, decoder, device;
    cl_command_queue source_queue, decoder_queue, queue;
    struct slot slots[2 * BATCH_MOST];
};

static struct {
    cl_uint width, height;
    int frames, warm, batch, is_quiet;
    const char *figures;
} options = {.width = 1280, .height = 720, .frames = 300, .batch = 1};

static struct camera cameras[CAMERAS];
static cl_device_id merger;
static cl_command_queue merger_queue;
static cl_kernel merges[2 * BATCH_MOST];
static cl_mem results[2];
static struct merged here[2][BATCH_MOST];
static cl_event reads[2];

/* ---- devices ---- */

static cl_server_ropeway server_of(cl_device_id device)
{
    cl_server_ropeway server;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_SERVER_ROPEWAY, sizeof server, &server, NULL));
    return server;
}

static int has_kernel(cl_device_id device, const char *kernel)
{
    char kernels[65536] = "";
    CHECK(clGetDeviceInfo(device, CL_DEVICE_BUILT_IN_KERNELS, sizeof kernels, kernels, NULL));
    return strstr(kernels, kernel) != NULL;
}

/* The first device of that server that is a custom device with this built-in kernel, or for NULL the first that is none. */
static cl_device_id device_at(cl_server_ropeway server, const char *kernel)
{
    for (cl_uint i = 0; i < device_count; i++) {
        cl_device_type type;
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_TYPE, sizeof type, &type, NULL));
        int is_custom = (type & CL_DEVICE_TYPE_CUSTOM) != 0;
        if (server_of(devices[i]) == server && is_custom == (kernel != NULL) && (kernel == NULL || has_kernel(devices[i], kernel)))
            return devices[i];
    }
    fprintf(stderr, "a server of a camera has no device %s%s\n", kernel == NULL ? "that compiles kernels" : "with the kernel ", kernel == NULL ? "" : kernel);
    exit(1);
}

/* The first two streams of different servers are the cameras; the first device of any further server merges, or else that of the first camera. */
static void find_devices(void)
{
    cl_uint natives = 0, customs = 0, found = 0;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST_DEVICES / 2, devices, &natives));
    REQUIRE(natives <= MOST_DEVICES / 2);
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, MOST_DEVICES / 2, devices + natives, &customs) != CL_SUCCESS) {
        fprintf(stderr, "the servers have no custom devices\n");
        exit(1);
    }
    REQUIRE(customs <= MOST_DEVICES / 2);
    device_count = natives + customs;
    for (cl_uint i = natives; i < device_count && found < CAMERAS; i++) {
        if (!has_kernel(devices[i], "ropeway.stream.next") || (found > 0 && server_of(devices[i]) == server_of(cameras[0].source)))
            continue;
        struct camera *camera = &cameras[found++];
        camera->source = devices[i];
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_NAME, sizeof camera->name, camera->name, NULL));
        camera->decoder = device_at(server_of(devices[i]), "ropeway.decode.h264");
        camera->device = device_at(server_of(devices[i]), NULL);
    }
    if (found < CAMERAS) {
        fprintf(stderr, "%u servers have a stream, and not %d\n", found, CAMERAS);
        exit(1);
    }
    merger = cameras[0].device;
    for (cl_uint i = 0; i < natives; i++)
        if (server_of(devices[i]) != server_of(cameras[0].source) && server_of(devices[i]) != server_of(cameras[1].source)) {
            merger = devices[i];
            break;
        }
}

/* Each device once, in one context. */
static void open_context(void)
{
    cl_device_id all[CAMERAS * 3 + 1];
    cl_uint count = 0;
    cl_int error;
    cl_device_id wanted[] = {cameras[0].source, cameras[0].decoder, cameras[0].device, cameras[1].source,
                             cameras[1].decoder, cameras[1].device, merger};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        cl_uint at = 0;
        while (at < count && all[at] != wanted[i])
            at++;
        all[at] = wanted[i];
        count += at == count;
    }
    context = clCreateContext(NULL, count, all, NULL, NULL, &error);
    CHECK(error);
}

static cl_command_queue queue_of(cl_device_id device)
{
    cl_int error;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
    CHECK(error);
    return queue;
}

static cl_program built_in(cl_device_id device, const char *name)
{
    cl_int error;
    cl_program program = clCreateProgramWithBuiltInKernels(context, 1, &device, name, &error);
    CHECK(error);
    return program;
}

static cl_program motion_program(void)
{
    cl_device_id compiling[CAMERAS + 1] = {cameras[0].device, cameras[1].device, merger};
    const char *text = motion_text;
    char definitions[256];
    cl_int error;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    CHECK(error);
    snprintf(definitions, sizeof definitions, "-DWIDTH=%u -DHEIGHT=%u -DITEMS=%d -DTHRESHOLD=%d", options.width, options.height, ITEMS, THRESHOLD);
    error = clBuildProgram(program, merger == cameras[0].device ? CAMERAS : CAMERAS + 1, compiling, definitions, NULL, NULL);
    if (error != CL_SUCCESS) {
        static char log[65536];
        clGetProgramBuildInfo(program, compiling[0], CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fprintf(stderr, "the kernels do not build (%d):\n%s\n", error, log);
        exit(1);
    }
    return program;
}

/* ---- buffers and kernels ---- */

static cl_mem empty(size_t size) { return buffer_of(CL_MEM_READ_WRITE, size, NULL); }

/* A kernel with these buffers as its arguments from `first` on. */
static cl_kernel kernel_with(cl_program program, const char *name, cl_uint first, cl_uint count, const cl_mem *buffers)
{
    cl_kernel kernel = kernel_of(program, name);
    for (cl_uint i = 0; i < count; i++)
        set_buffer(kernel, first + i, buffers[i]);
    return kernel;
}

static void open_camera(struct camera *camera, cl_program program)
{
    size_t pixels = (size_t)options.width * options.height;
    cl_program stream = built_in(camera->source, "ropeway.stream.next"), decoder = built_in(camera->decoder, "ropeway.decode.h264");
    cl_mem before = empty(pixels);
    camera->source_queue = queue_of(camera->source);
    camera->decoder_queue = queue_of(camera->decoder);
    camera->queue = queue_of(camera->device);
    for (int i = 0; i < options.batch * 2; i++) {
        struct slot *slot = &camera->slots[i];
        cl_mem chunk = empty(CHUNK_MOST), about_chunk = empty(sizeof(cl_chunk_ropeway));
        cl_mem frame = empty(pixels * 3 / 2), about_frame = empty(sizeof(cl_frame_ropeway));
        slot->rows = empty(sizeof(cl_uint) + options.height / 8 * 3 * sizeof(cl_ushort));
        slot->next = kernel_with(stream, "ropeway.stream.next", 0, 2, (cl_mem[]){chunk, about_chunk});
        slot->decode = kernel_with(decoder, "ropeway.decode.h264", 1, 4, (cl_mem[]){chunk, about_chunk, frame, about_frame});
        set_int(slot->decode, 0, 0);
        set_int(slot->decode, 5, CL_FRAME_NV12_ROPEWAY);
        slot->compare = kernel_with(program, "compare", 0, 4, (cl_mem[]){frame, about_frame, before, slot->rows});
    }
}

static void open_all(void)
{
    find_devices();
    open_context();
    cl_program program = motion_program();
    for (int i = 0; i < CAMERAS; i++)
        open_camera(&cameras[i], program);
    cl_uint none = 0;
    cl_mem both = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof none, &none);
    merger_queue = queue_of(merger);
    for (int which = 0; which < 2; which++) {
        results[which] = empty(sizeof(struct merged) * (size_t)options.batch);
        for (int i = which * options.batch; i < (which + 1) * options.batch; i++) {
            merges[i] = kernel_with(program, "merge", 0, 4, (cl_mem[]){cameras[0].slots[i].rows, cameras[1].slots[i].rows, both, results[which]});
            set_int(merges[i], 4, i % options.batch);
        }
    }
}

/* ---- frames ---- */

static void launch(cl_command_queue queue, cl_kernel kernel, size_t items, size_t local, cl_uint waits, const cl_event *list, cl_event *event)
{
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, local == 0 ? NULL : &local, waits, list, event));
}

/* A camera's next frame; gives the event that its motion is known. */
static cl_event begin_camera(const struct camera *camera, struct slot *slot)
{
    cl_event known;
    launch(camera->source_queue, slot->next, 1, 0, 0, NULL, &slot->taken);
    launch(camera->decoder_queue, slot->decode, 1, 0, 1, &slot->taken, &slot->decoded);
    launch(camera->queue, slot->compare, options.height / 8 * ITEMS, ITEMS, 1, &slot->decoded, &known);
    return known;
}

/* Begins a batch of frames, and one read of what is found in them. */
static void begin_batch(int which)
{
    for (int i = which * options.batch; i < (which + 1) * options.batch; i++) {
        cl_event known[CAMERAS];
        for (int j = 0; j < CAMERAS; j++)
            known[j] = begin_camera(&cameras[j], &cameras[j].slots[i]);
        launch(merger_queue, merges[i], 1, 0, CAMERAS, known, NULL);
        for (int j = 0; j < CAMERAS; j++)
            CHECK(clReleaseEvent(known[j]));
    }
    CHECK(clEnqueueReadBuffer(merger_queue, results[which], CL_FALSE, 0, sizeof(struct merged) * (size_t)options.batch, here[which], 0, NULL,
                              &reads[which]));
    for (int i = 0; i < CAMERAS; i++) {
        CHECK(clFlush(cameras[i].source_queue));
        CHECK(clFlush(cameras[i].decoder_queue));
        CHECK(clFlush(cameras[i].queue));
    }
    CHECK(clFlush(merger_queue));
}

static cl_int status_of(cl_event event)
{
    cl_int status;
    CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
    return status;
}

/* Says which command of a batch has failed first, and ends the program. */
static void say_failed(int which, int first)
{
    for (int i = 0; i < options.batch; i++)
        for (int j = 0; j < CAMERAS; j++) {
            const struct slot *slot = &cameras[j].slots[which * options.batch + i];
            cl_int taken = status_of(slot->taken), decoded = status_of(slot->decoded);
            if (taken == CL_STREAM_END_ROPEWAY) {
                fprintf(stderr, "the stream '%s' has ended after %d frames\n", cameras[j].name, first + i);
                exit(3);
            }
            if (taken < 0 || decoded < 0) {
                fprintf(stderr, "frame %d of '%s': ropeway.stream.next ended with %d, ropeway.decode.h264 with %d\n", first + i, cameras[j].name, taken,
                        decoded);
                exit(1);
            }
        }
    fprintf(stderr, "the frames from %d on have failed\n", first);
    exit(1);
}

static void say_frame(const struct merged *merged, int number)
{
    printf("frame %d:", number);
    for (int i = 0; i < CAMERAS; i++) {
        const struct motion *seen = &merged->seen[i];
        printf(" %u", seen->cells);
        if (seen->cells > 0)
            printf(" (%d,%d-%d,%d)", seen->left * 8, seen->top * 8, seen->right * 8, seen->bottom * 8);
    }
    printf("%s\n", merged->both > 0 ? " both" : "");
    fflush(stdout);
}

static void finish_batch(int which, int first)
{
    if (clWaitForEvents(1, &reads[which]) != CL_SUCCESS || status_of(reads[which]) != CL_COMPLETE)
        say_failed(which, first);
    for (int i = 0; i < options.batch; i++) {
        for (int j = 0; j < CAMERAS; j++) {
            CHECK(clReleaseEvent(cameras[j].slots[which * options.batch + i].taken));
            CHECK(clReleaseEvent(cameras[j].slots[which * options.batch + i].decoded));
        }
        if (!options.is_quiet)
            say_frame(&here[which][i], first + i);
    }
    CHECK(clReleaseEvent(reads[which]));
}

static void usage(const char *name)
{
    fprintf(stderr,
            "usage: %s [options]\n"
            "  --size WIDTHxHEIGHT     of the cameras' frames, multiples of 8 [1280x720]\n"
            "  --frames N, --warm N    so many frames [300], and so many before them that are not counted [0]\n"
            "  --batch N               frames whose commands are sent together, and that are read together [1]\n"
            "  --figures FILE.json     what a frame costs\n"
            "  --quiet                 no line for each frame\n",
            name);
    exit(2);
}

static void read_options(int argc, char **argv)
{
    enum { SIZE = 1, FRAMES, WARM, BATCH, FIGURES, QUIET };
    static const struct option known[] = {{"size", 1, NULL, SIZE}, {"frames", 1, NULL, FRAMES}, {"warm", 1, NULL, WARM}, {"batch", 1, NULL, BATCH},
                                          {"figures", 1, NULL, FIGURES}, {"quiet", 0, NULL, QUIET}, {NULL, 0, NULL, 0}};
    for (int which; (which = getopt_long(argc, argv, "", known, NULL)) != -1;)
        switch (which) {
        case SIZE:
            if (sscanf(optarg, "%ux%u", &options.width, &options.height) != 2)
                usage(argv[0]);
            break;
        case FRAMES: options.frames = atoi(optarg); break;
        case WARM: options.warm = atoi(optarg); break;
        case BATCH: options.batch = atoi(optarg); break;
        case FIGURES: options.figures = optarg; break;
        case QUIET: options.is_quiet = 1; break;
        default: usage(argv[0]);
        }
    int has_size = options.width >= 8 && options.height >= 8 && options.width % 8 == 0 && options.height % 8 == 0;
    int fits = options.width <= 8192 && options.height <= 8192 && options.batch >= 1 && options.batch <= BATCH_MOST;
    if (optind != argc || !has_size || !fits || options.frames < 1 || options.warm < 0 || options.frames % options.batch != 0 ||
        options.warm % options.batch != 0)
        usage(argv[0]);
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    open_all();
    int all = (options.warm + options.frames) / options.batch, begun = 0;
    double latency = 0, begins[2];
    struct cost since = cost_now();
    for (int ended = 0; ended < all; ended++) {
        for (; begun < all && begun < ended + 2; begun++) {
            begins[begun % 2] = seconds();
            begin_batch(begun % 2);
        }
        finish_batch(ended % 2, ended * options.batch);
        if ((ended + 1) * options.batch > options.warm)
            latency += (seconds() - begins[ended % 2]) * options.batch;
        if ((ended + 1) * options.batch == options.warm)
            since = cost_now();
    }
    cost_said("camera", since, options.frames, latency / options.frames, options.figures);
    return 0;
}
