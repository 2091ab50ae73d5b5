/* Servers that come and go, as its standard input says: one command on each line, one line of answer or more. */
#include "common.h"
#include <CL/cl_ext_ropeway.h>
#include <pthread.h>

#define MOST 64

static clConnectServerROPEWAY_fn connect_server;
static clDisconnectServerROPEWAY_fn disconnect_server;
static clGetServersROPEWAY_fn get_servers;
static clGetServerInfoROPEWAY_fn get_server_info;
static clGetServerDevicesROPEWAY_fn get_server_devices;
static clSetServerCallbackROPEWAY_fn set_server_callback;
static clConnectServerWWU_fn connect_server_wwu;
static clDisconnectServerWWU_fn disconnect_server_wwu;
static clGetServerInfoWWU_fn get_server_info_wwu;

/* Servers in the order in which this program met them: their numbers. */
static cl_server_ropeway met[MOST];
static int met_count;

static int number_of(cl_server_ropeway server)
{
    for (int i = 0; i < met_count; i++)
        if (met[i] == server)
            return i;
    REQUIRE(met_count < MOST);
    met[met_count] = server;
    return met_count++;
}

static void *function(const char *name)
{
    void *found = clGetExtensionFunctionAddressForPlatform(platform, name);
    if (!found) {
        printf("no %s\n", name);
        exit(1);
    }
    return found;
}

static void print_server(cl_server_ropeway server)
{
    char address[256], host[256], release[64], again[256];
    cl_uint port, state;
    cl_ulong sent, received;
    cl_device_id devices[MOST];
    cl_platform_id platforms[MOST];
    size_t size, platforms_size;
    CHECK(get_server_info(server, CL_SERVER_ADDRESS_ROPEWAY, sizeof address, address, NULL));
    CHECK(get_server_info(server, CL_SERVER_HOST_NAME_ROPEWAY, sizeof host, host, NULL));
    CHECK(get_server_info(server, CL_SERVER_RELEASE_ROPEWAY, sizeof release, release, NULL));
    CHECK(get_server_info(server, CL_SERVER_PORT_ROPEWAY, sizeof port, &port, NULL));
    CHECK(get_server_info(server, CL_SERVER_STATE_ROPEWAY, sizeof state, &state, NULL));
    CHECK(get_server_info(server, CL_SERVER_BYTES_SENT_ROPEWAY, sizeof sent, &sent, NULL));
    CHECK(get_server_info(server, CL_SERVER_BYTES_RECEIVED_ROPEWAY, sizeof received, &received, NULL));
    CHECK(get_server_info(server, CL_SERVER_DEVICES_ROPEWAY, sizeof devices, devices, &size));
    CHECK(get_server_info(server, CL_SERVER_PLATFORMS_ROPEWAY, sizeof platforms, platforms, &platforms_size));
    REQUIRE(sent > 0 && received > 0 && host[0] && release[0]);
    REQUIRE(platforms_size == sizeof(cl_platform_id));

    /* dOpenCL's names for the same. */
    cl_bool available;
    CHECK(get_server_info_wwu(server, 0x0802, sizeof again, again, NULL));
    REQUIRE(strcmp(address, again) == 0);
    CHECK(get_server_info_wwu(server, 0x0808, sizeof available, &available, NULL));
    REQUIRE(available == (state == CL_SERVER_STATE_CONNECTED_ROPEWAY));

    /* Its devices say the same. */
    cl_uint count;
    CHECK(get_server_devices(server, CL_DEVICE_TYPE_ALL, 0, NULL, &count));
    REQUIRE(count == size / sizeof(cl_device_id) && count > 0);
    for (cl_uint i = 0; i < count; i++) {
        cl_server_ropeway of_device;
        cl_platform_id of_platform;
        cl_uint device_port;
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_SERVER_ADDRESS_ROPEWAY, sizeof again, again, NULL));
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_SERVER_PORT_ROPEWAY, sizeof device_port, &device_port, NULL));
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_SERVER_ROPEWAY, sizeof of_device, &of_device, NULL));
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_AVAILABLE, sizeof available, &available, NULL));
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_PLATFORM, sizeof of_platform, &of_platform, NULL));
        REQUIRE(strcmp(address, again) == 0 && port == device_port && of_device == server && of_platform == platforms[0]);
        REQUIRE(available == (state == CL_SERVER_STATE_CONNECTED_ROPEWAY));
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_SERVER_HOST_NAME_ROPEWAY, sizeof again, again, NULL));
        REQUIRE(strcmp(host, again) == 0);
        CHECK(clGetDeviceInfo(devices[i], 0x4504 /* CL_DEVICE_REMOTE_SERVER_PORT_POCL */, sizeof port, &port, NULL));
        REQUIRE(port == device_port);
        cl_ulong traffic[6], now_sent, now_received;
        CHECK(clGetDeviceInfo(devices[i], 0x4501 /* CL_DEVICE_REMOTE_TRAFFIC_STATS_POCL */, sizeof traffic, traffic, NULL));
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_SERVER_BYTES_SENT_ROPEWAY, sizeof sent, &now_sent, NULL));
        CHECK(clGetDeviceInfo(devices[i], CL_DEVICE_SERVER_BYTES_RECEIVED_ROPEWAY, sizeof received, &now_received, NULL));
        REQUIRE(sent <= traffic[5] && traffic[5] <= now_sent && received <= traffic[3] && traffic[3] <= now_received);
    }
    printf("server %d %s port %u state %u devices %u\n", number_of(server), address, port, state, count);
}

static void list(void)
{
    cl_server_ropeway servers[MOST];
    cl_uint count, devices, queried;
    CHECK(get_servers(platform, MOST, servers, &count));
    CHECK(get_servers(platform, 0, NULL, &queried));
    REQUIRE(count == queried);
    for (cl_uint i = 0; i < count; i++)
        print_server(servers[i]);
    cl_int found = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &devices);
    REQUIRE(found == (devices ? CL_SUCCESS : CL_DEVICE_NOT_FOUND));
    printf("%u servers %u devices\n", count, devices);
}

/* A kernel on each device of a server, in a context of its own. */
static cl_command_queue queue;
static cl_mem buffer;
static cl_kernel kernel;

static void open_on(cl_server_ropeway server)
{
    cl_uint count;
    CHECK(get_server_devices(server, CL_DEVICE_TYPE_ALL, 1, &device, &count));
    MAKE(context, clCreateContext(NULL, 1, &device, NULL, NULL, &status));
    queue = open_queue(0);
    buffer = buffer_of(CL_MEM_READ_WRITE, 4, NULL);
    cl_program program = build("kernel void k(global int *x) { *x = 42; }", "");
    kernel = kernel_of(program, "k");
    set_arg(kernel, 0, sizeof buffer, &buffer);
    CHECK(clReleaseProgram(program));
}

static void release(void)
{
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
}

static int run(void)
{
    int value = 0;
    size_t one = 1;
    cl_int enqueued = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
    cl_int read = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, &value, 0, NULL, NULL);
    return enqueued ? enqueued : read ? read : value;
}

/* What a write and a read of a MiB add to the counts of the server of `device`. */
static void traffic(void)
{
    enum { MIB = 1 << 20 };
    static char bytes[MIB];
    cl_ulong sent[3], received[3];
    cl_mem large = buffer_of(CL_MEM_READ_WRITE, MIB, NULL);
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            CHECK(clEnqueueWriteBuffer(queue, large, CL_TRUE, 0, MIB, bytes, 0, NULL, NULL));
        if (i == 2)
            CHECK(clEnqueueReadBuffer(queue, large, CL_TRUE, 0, MIB, bytes, 0, NULL, NULL));
        CHECK(clFinish(queue));
        CHECK(clGetDeviceInfo(device, CL_DEVICE_SERVER_BYTES_SENT_ROPEWAY, sizeof sent[i], &sent[i], NULL));
        CHECK(clGetDeviceInfo(device, CL_DEVICE_SERVER_BYTES_RECEIVED_ROPEWAY, sizeof received[i], &received[i], NULL));
    }
    CHECK(clReleaseMemObject(large));
    printf("traffic %u %u\n", (unsigned)((sent[1] - sent[0]) / MIB), (unsigned)((received[2] - received[1]) / MIB));
    REQUIRE(received[1] - received[0] < 4096 && sent[2] - sent[1] < 4096);
}

/* What the link to a server has carried so far. */
static void counts(cl_server_ropeway server)
{
    cl_ulong sent, received;
    CHECK(get_server_info(server, CL_SERVER_BYTES_SENT_ROPEWAY, sizeof sent, &sent, NULL));
    CHECK(get_server_info(server, CL_SERVER_BYTES_RECEIVED_ROPEWAY, sizeof received, &received, NULL));
    printf("sent %llu received %llu\n", (unsigned long long)sent, (unsigned long long)received);
}

/* A user event that holds up a command, and the end of its server. */
static void hold(cl_server_ropeway server)
{
    cl_event gate, held;
    open_on(server);
    MAKE(gate, clCreateUserEvent(context, &status));
    size_t one = 1;
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 1, &gate, &held));
    CHECK(clFlush(queue));
    CHECK(disconnect_server(server));
    cl_int state, waited = clWaitForEvents(1, &held);
    CHECK(clGetEventInfo(held, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    printf("held %d %d\n", waited, state < 0);
    CHECK(clReleaseEvent(held));
    CHECK(clReleaseEvent(gate));
    release();
}

/* One context of two servers' devices, of which the first is disconnected: the second one goes on with what it has. */
static void both(cl_server_ropeway first, cl_server_ropeway second)
{
    cl_device_id two[2];
    cl_command_queue queues[2];
    cl_uint count, value = 40;
    size_t one = 1;
    CHECK(get_server_devices(first, CL_DEVICE_TYPE_ALL, 1, &two[0], &count));
    CHECK(get_server_devices(second, CL_DEVICE_TYPE_ALL, 1, &two[1], &count));
    MAKE(context, clCreateContext(NULL, 2, two, NULL, NULL, &status));
    for (int i = 0; i < 2; i++)
        MAKE(queues[i], clCreateCommandQueue(context, two[i], 0, &status));
    const char *source = "kernel void add(global uint *x) { *x += 1; }";
    cl_program program;
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    CHECK(clBuildProgram(program, 2, two, "", NULL, NULL));
    kernel = kernel_of(program, "add");
    buffer = buffer_of(CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof value, &value);
    set_arg(kernel, 0, sizeof buffer, &buffer);
    for (int i = 0; i < 2; i++) {
        CHECK(clEnqueueNDRangeKernel(queues[i], kernel, 1, NULL, &one, NULL, 0, NULL, NULL));
        CHECK(clFinish(queues[i]));
    }
    CHECK(disconnect_server(first));
    cl_int gone = clEnqueueNDRangeKernel(queues[0], kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
    if (gone == CL_SUCCESS)
        gone = clFinish(queues[0]);
    CHECK(clEnqueueNDRangeKernel(queues[1], kernel, 1, NULL, &one, NULL, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queues[1], buffer, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL));
    printf("gone %d the other %u\n", gone, value);
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseMemObject(buffer));
    for (int i = 0; i < 2; i++)
        CHECK(clReleaseCommandQueue(queues[i]));
    CHECK(clReleaseContext(context));
}

static pthread_mutex_t news_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news_came = PTHREAD_COND_INITIALIZER;
static int news_count;
static struct {
    cl_server_ropeway server;
    cl_server_events_ropeway event;
    cl_ulong left;
} news[MOST];

static void CL_CALLBACK notify(cl_server_ropeway server, cl_server_events_ropeway event, void *user_data)
{
    REQUIRE(user_data == &news_count);
    /* Calls are allowed here. */
    char address[256];
    CHECK(get_server_info(server, CL_SERVER_ADDRESS_ROPEWAY, sizeof address, address, NULL));
    cl_ulong left;
    CHECK(get_server_info(server, CL_SERVER_TIME_LEFT_ROPEWAY, sizeof left, &left, NULL));
    pthread_mutex_lock(&news_lock);
    REQUIRE(news_count < MOST);
    news[news_count].server = server;
    news[news_count].left = left;
    news[news_count++].event = event;
    pthread_cond_signal(&news_came);
    pthread_mutex_unlock(&news_lock);
}

static void print_news(void)
{
    static int printed;
    pthread_mutex_lock(&news_lock);
    while (printed == news_count)
        pthread_cond_wait(&news_came, &news_lock);
    cl_server_ropeway server = news[printed].server;
    cl_ulong left = news[printed].left;
    cl_server_events_ropeway event = news[printed++].event;
    pthread_mutex_unlock(&news_lock);
    if (event == CL_SERVER_EVENT_NOTICE_ROPEWAY) {
        printf("notice %d %llu\n", number_of(server), (unsigned long long)left);
        return;
    }
    printf("%s %d\n", event == CL_SERVER_EVENT_LOST_ROPEWAY ? "lost" : event == CL_SERVER_EVENT_FOUND_ROPEWAY ? "found" : "?",
           number_of(server));
}

/* Wrong arguments. */
static void wrong(void)
{
    cl_server_ropeway server, *none = NULL;
    cl_uint count;
    cl_device_id one;
    char text[256];
    size_t size;
    int local;
#define GIVES(call, code)                                                                                              \
    do {                                                                                                               \
        cl_int got = (call);                                                                                           \
        if (got != (code))                                                                                             \
            printf("WRONG %s: %d\n", #call, got);                                                                      \
    } while (0)
#define CONNECT(platform, url) (REQUIRE_NULL(connect_server(platform, url, &status)), status)
#define REQUIRE_NULL(made) ((void)((made) ? (puts("WRONG: made"), 0) : 0))
    GIVES(CONNECT((cl_platform_id)&local, "tcp://127.0.0.1:1"), CL_INVALID_PLATFORM);
    GIVES(CONNECT(platform, NULL), CL_INVALID_VALUE);
    GIVES(CONNECT(platform, "http://x"), CL_INVALID_VALUE);
    GIVES(CONNECT(platform, "\xff"), CL_INVALID_VALUE);
    GIVES(CONNECT(platform, "tcp://127.0.0.1:1"), CL_SERVER_UNREACHABLE_ROPEWAY);
    GIVES(CONNECT(NULL, "unix:/nonexistent/socket"), CL_SERVER_UNREACHABLE_ROPEWAY);
    REQUIRE_NULL(connect_server(platform, "tcp://127.0.0.1:1", NULL));
    GIVES(disconnect_server(NULL), CL_INVALID_SERVER_ROPEWAY);
    GIVES(disconnect_server((cl_server_ropeway)platform), CL_INVALID_SERVER_ROPEWAY);
    GIVES(disconnect_server_wwu((cl_server_ropeway)&local), CL_INVALID_SERVER_ROPEWAY);
    GIVES(get_servers((cl_platform_id)&local, 1, &server, &count), CL_INVALID_PLATFORM);
    GIVES(get_servers(platform, 0, &server, &count), CL_INVALID_VALUE);
    GIVES(get_servers(platform, 0, none, NULL), CL_INVALID_VALUE);
    CHECK(get_servers(platform, 1, &server, &count));
    GIVES(get_server_info(NULL, CL_SERVER_PORT_ROPEWAY, sizeof count, &count, NULL), CL_INVALID_SERVER_ROPEWAY);
    GIVES(get_server_info(server, CL_SERVER_PORT_ROPEWAY, 1, &count, NULL), CL_INVALID_VALUE);
    GIVES(get_server_info(server, CL_SERVER_ADDRESS_ROPEWAY, 3, text, NULL), CL_INVALID_VALUE);
    GIVES(get_server_info(server, 7, sizeof text, text, &size), CL_INVALID_VALUE);
    GIVES(get_server_info_wwu(server, 0x0801, sizeof text, text, &size), CL_INVALID_VALUE);
    GIVES(get_server_devices(NULL, CL_DEVICE_TYPE_ALL, 1, &one, &count), CL_INVALID_SERVER_ROPEWAY);
    GIVES(get_server_devices(server, CL_DEVICE_TYPE_ALL, 0, &one, &count), CL_INVALID_VALUE);
    GIVES(get_server_devices(server, CL_DEVICE_TYPE_ALL, 0, NULL, NULL), CL_INVALID_VALUE);
    GIVES(get_server_devices(server, 0, 1, &one, &count), CL_INVALID_DEVICE_TYPE);
    GIVES(get_server_devices(server, CL_DEVICE_TYPE_CUSTOM, 1, &one, &count), CL_DEVICE_NOT_FOUND);
    GIVES(set_server_callback(platform, 8, notify, NULL), CL_INVALID_VALUE);
    GIVES(set_server_callback(platform, 0, notify, NULL), CL_INVALID_VALUE);
    GIVES(set_server_callback(platform, 1, NULL, NULL), CL_INVALID_VALUE);
    GIVES(set_server_callback(platform, 0, NULL, &local), CL_INVALID_VALUE);
    GIVES(set_server_callback((cl_platform_id)&local, 0, NULL, NULL), CL_INVALID_PLATFORM);
    puts("wrong arguments");
}

static void names(void)
{
    char text[4096];
    CHECK(clGetPlatformInfo(platform, CL_PLATFORM_EXTENSIONS, sizeof text, text, NULL));
    REQUIRE(strstr(text, CL_ROPEWAY_SERVERS_EXTENSION_NAME));
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS) {
        CHECK(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof text, text, NULL));
        REQUIRE(strstr(text, CL_ROPEWAY_SERVERS_EXTENSION_NAME));
    }
    connect_server = (clConnectServerROPEWAY_fn)function("clConnectServerROPEWAY");
    disconnect_server = (clDisconnectServerROPEWAY_fn)function("clDisconnectServerROPEWAY");
    get_servers = (clGetServersROPEWAY_fn)function("clGetServersROPEWAY");
    get_server_info = (clGetServerInfoROPEWAY_fn)function("clGetServerInfoROPEWAY");
    get_server_devices = (clGetServerDevicesROPEWAY_fn)function("clGetServerDevicesROPEWAY");
    set_server_callback = (clSetServerCallbackROPEWAY_fn)function("clSetServerCallbackROPEWAY");
    /* Without a platform the loader goes by the suffix. */
    REQUIRE(clGetExtensionFunctionAddress("clConnectServerROPEWAY") == (void *)connect_server);
    connect_server_wwu = (clConnectServerWWU_fn)function("clConnectServerWWU");
    disconnect_server_wwu = (clDisconnectServerWWU_fn)function("clDisconnectServerWWU");
    get_server_info_wwu = (clGetServerInfoWWU_fn)function("clGetServerInfoWWU");
}

int main(void)
{
    char line[1024], word[32], rest[512];
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    names();
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        rest[0] = 0;
        if (sscanf(line, "%31s %511s", word, rest) < 1)
            continue;
        if (strcmp(word, "connect") == 0 || strcmp(word, "connect-wwu") == 0) {
            cl_server_ropeway server = word[7] ? connect_server_wwu(rest, &status) : connect_server(platform, rest, &status);
            if (server)
                printf("connected %d\n", number_of(server));
            else
                printf("not connected %d\n", status);
        } else if (strcmp(word, "disconnect") == 0) {
            printf("disconnected %d\n", disconnect_server(met[atoi(rest)]));
        } else if (strcmp(word, "disconnect-wwu") == 0) {
            printf("disconnected %d\n", disconnect_server_wwu(met[atoi(rest)]));
        } else if (strcmp(word, "list") == 0) {
            list();
        } else if (strcmp(word, "show") == 0) {
            print_server(met[atoi(rest)]);
        } else if (strcmp(word, "open") == 0) {
            open_on(met[atoi(rest)]);
            puts("open");
        } else if (strcmp(word, "run") == 0) {
            printf("run %d\n", run());
        } else if (strcmp(word, "release") == 0) {
            release();
            puts("released");
        } else if (strcmp(word, "hold") == 0) {
            hold(met[atoi(rest)]);
        } else if (strcmp(word, "traffic") == 0) {
            traffic();
        } else if (strcmp(word, "counts") == 0) {
            counts(met[atoi(rest)]);
        } else if (strcmp(word, "both") == 0) {
            both(met[rest[0] - '0'], met[rest[1] - '0']);
        } else if (strcmp(word, "watch") == 0) {
            CHECK(set_server_callback(platform, CL_SERVER_EVENT_LOST_ROPEWAY | CL_SERVER_EVENT_FOUND_ROPEWAY, notify,
                                      &news_count));
            puts("watching");
        } else if (strcmp(word, "heed") == 0) {
            CHECK(set_server_callback(platform, CL_SERVER_EVENT_LOST_ROPEWAY | CL_SERVER_EVENT_NOTICE_ROPEWAY, notify,
                                      &news_count));
            puts("heeding");
        } else if (strcmp(word, "left") == 0) {
            cl_ulong left;
            CHECK(get_server_info(met[atoi(rest)], CL_SERVER_TIME_LEFT_ROPEWAY, sizeof left, &left, NULL));
            if (left == CL_ULONG_MAX)
                puts("left ever");
            else
                printf("left %llu\n", (unsigned long long)left);
        } else if (strcmp(word, "unwatch") == 0) {
            CHECK(set_server_callback(platform, 0, NULL, NULL));
            puts("not watching");
        } else if (strcmp(word, "news") == 0) {
            print_news();
        } else if (strcmp(word, "wrong") == 0) {
            wrong();
        } else {
            printf("WRONG command %s\n", word);
        }
    }
    return 0;
}
