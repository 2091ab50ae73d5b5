/* Functions of a shared library that a server offers as built-in kernels (docs/edge.md). The operator declares them:
 *
 *     [[functions]]
 *     name = "Sorting"
 *     library = "/usr/local/lib/libsorting.so"
 *     [[functions.kernel]]
 *     name = "lab.sort_u32"
 *     symbol = "sort_u32"
 *     arguments = ["global uint *keys", "uint count"]
 */
#ifndef ROPEWAY_FUNCTIONS_H_
#define ROPEWAY_FUNCTIONS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One argument: `size` bytes at `at`. A buffer's bytes are the buffer's own, not to be read or written past `size`; a number's are a copy.
 * A buffer that is declared `const` is only read. */
typedef struct {
    void *at;
    size_t size;
} ropeway_argument;

/* Carries out one command: the global size of its launch in three dimensions, 1 where it has fewer, and the arguments in their declared
 * order and number. Returns 0, or an error: the command's event then ends with CL_FUNCTION_FAILED_ROPEWAY. It may be called by several threads at
 * once. It runs in the worker of one session, in its sandbox. */
typedef int ropeway_function(const size_t global_size[3], uint32_t count, const ropeway_argument *arguments);

#ifdef __cplusplus
}
#endif

#endif /* ROPEWAY_FUNCTIONS_H_ */
