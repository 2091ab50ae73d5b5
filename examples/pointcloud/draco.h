/* Google's Draco, as C functions. */
#ifndef DRACO_H
#define DRACO_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Compresses points (x y z) and their colours (RGB), positions to so many bits. Gives the number of bytes, or 0 where they do not fit. */
size_t draco_pack(const float *points, const uint8_t *colours, size_t count, int bits, void *to, size_t room);

/* The opposite, with colours as RGBA. Gives the number of points, or 0 where it is no point cloud or has more than `most`. */
size_t draco_unpack(const void *from, size_t size, float *points, uint8_t *colours, size_t most);

#ifdef __cplusplus
}
#endif
#endif
