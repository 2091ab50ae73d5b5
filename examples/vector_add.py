"""Adds two vectors, sums them up, and sorts: a PyOpenCL script that knows nothing of Ropeway."""

import numpy as np
import pyopencl as cl
import pyopencl.array
import pyopencl.clrandom

device = cl.get_platforms()[0].get_devices()[0]
context = cl.Context([device])
queue = cl.CommandQueue(context)

# Vector addition by hand.
a = np.arange(1_000_000, dtype=np.float32)
b = 3 * a
flags = cl.mem_flags
a_device = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=a)
b_device = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=b)
sum_device = cl.Buffer(context, flags.WRITE_ONLY, a.nbytes)
program = cl.Program(
    context,
    """
    __kernel void add(__global const float *a, __global const float *b, __global float *sum) {
        size_t i = get_global_id(0);
        sum[i] = a[i] + b[i];
    }
    """,
).build()
program.add(queue, a.shape, None, a_device, b_device, sum_device)
result = np.empty_like(a)
cl.enqueue_copy(queue, result, sum_device)
assert (result == a + b).all()
print(f"{a.size} sums are right, the last is {result[-1]:.0f}")

# The same with PyOpenCL's arrays, and a reduction.
x = cl.array.to_device(queue, np.arange(100_000, dtype=np.int64))
y = x * x + 1
print(f"sum of squares: {int(cl.array.sum(y).get())}")

# A random generator on the device gives the same numbers wherever the device is.
generator = cl.clrandom.PhiloxGenerator(context, seed=2026)
numbers = generator.uniform(queue, 10_000, dtype=np.float32).get()
print(f"random numbers: mean {numbers.mean():.6f}, first {numbers[0]:.6f}")
