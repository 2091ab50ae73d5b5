"""Draws the Mandelbrot set on the first OpenCL device: mandelbrot.py PICTURE.png [WIDTH HEIGHT]"""

import sys

import numpy as np
import pyopencl as cl
from picture import png

SOURCE = """
__kernel void mandelbrot(__global uchar4 *pixels, int width, int height, int most) {
    int x = get_global_id(0), y = get_global_id(1);
    float scale = 2.6f / height;
    float re = (x - 0.68f * width) * scale, im = (y - 0.5f * height) * scale;
    float a = 0, b = 0;
    int n = 0;
    while (n < most && a * a + b * b < 16) {
        float t = a * a - b * b + re;
        b = 2 * a * b + im;
        a = t;
        n++;
    }
    float t = n == most ? 0 : (float)n / most;
    float u = 1 - t;
    pixels[y * width + x] = (uchar4)(9 * u * t * t * t * 255, 15 * u * u * t * t * 255, 8.5f * u * u * u * t * 255, 255);
}
"""


def main():
    path = sys.argv[1]
    width, height = (int(size) for size in sys.argv[2:4]) if len(sys.argv) > 3 else (960, 640)
    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    pixels = np.empty((height, width, 4), np.uint8)
    on_device = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, pixels.nbytes)
    program = cl.Program(context, SOURCE).build()
    program.mandelbrot(queue, (width, height), None, on_device, np.int32(width), np.int32(height), np.int32(250))
    cl.enqueue_copy(queue, pixels, on_device)
    with open(path, "wb") as file:
        file.write(png(pixels))
    print(f"{width}x{height} pixels on {device.name}")


main()
