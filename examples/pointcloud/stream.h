/* The client's own end of the stream: chunks from a file, over and over, or from a TCP port (HOST:PORT), until it ends. */
#ifndef STREAM_H
#define STREAM_H
#include "../common.h"
#include "draco.h"
#include <math.h>
#include <netdb.h>
#include <sys/socket.h>

struct stream {
    FILE *file;
    int is_file;
    uint8_t *chunk;
    float *points;
    size_t room, most;
};

static inline struct stream stream_at(const char *name, size_t most)
{
    struct stream stream = {.file = fopen(name, "rb"), .is_file = 1, .room = most * 16 + 4096, .most = most};
    char host[256];
    const char *colon = strrchr(name, ':');
    if (stream.file == NULL && colon != NULL && (size_t)(colon - name) < sizeof host) {
        struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM};
        snprintf(host, sizeof host, "%.*s", (int)(colon - name), name);
        int error = getaddrinfo(host, colon + 1, &hints, &found);
        int socket_of = error == 0 ? socket(found->ai_family, SOCK_STREAM, 0) : -1;
        if (socket_of >= 0 && connect(socket_of, found->ai_addr, found->ai_addrlen) == 0)
            stream.file = fdopen(socket_of, "rb");
        stream.is_file = 0;
    }
    if (stream.file == NULL) {
        perror(name);
        exit(1);
    }
    stream.chunk = malloc(stream.room);
    stream.points = malloc(most * 3 * sizeof(float));
    REQUIRE(stream.chunk != NULL && stream.points != NULL);
    return stream;
}

/* The next frame's positions, as the kernel `fix` makes them, and colours. Gives the number of points; 0 at the end. */
static inline size_t stream_next(struct stream *stream, int16_t *positions, uint8_t *colours)
{
    uint8_t head[4];
    size_t read = fread(head, 1, 4, stream->file);
    if (read == 0 && stream->is_file) {
        rewind(stream->file);
        read = fread(head, 1, 4, stream->file);
    }
    if (read == 0)
        return 0;
    size_t size = (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
    if (read != 4 || size > stream->room || fread(stream->chunk, 1, size, stream->file) != size) {
        fprintf(stderr, "the stream breaks off, or a frame has more than %zu points\n", stream->most);
        exit(1);
    }
    uint32_t number;
    if (size >= 8 && memcmp(stream->chunk, "PNTS", 4) == 0) {
        memcpy(&number, stream->chunk + 4, 4);
        if (number == 0 || number > stream->most || size != 8 + 10 * (size_t)number) {
            fprintf(stderr, "a frame is not of 1 to %zu points\n", stream->most);
            exit(1);
        }
        memcpy(positions, stream->chunk + 8, (size_t)number * 6);
        memcpy(colours, stream->chunk + 8 + (size_t)number * 6, (size_t)number * 4);
        return number;
    }
    size_t count = draco_unpack(stream->chunk, size, stream->points, colours, stream->most);
    if (count == 0) {
        fprintf(stderr, "a frame is no point cloud of 1 to %zu points with colours\n", stream->most);
        exit(1);
    }
    for (size_t i = 0; i < count * 3; i++) {
        float value = rintf(stream->points[i] * 8192.0f);
        positions[i] = (int16_t)(value < -32768 ? -32768 : value > 32767 ? 32767 : value);
    }
    return count;
}
#endif
