"""Reconstructs a picture from simulated events of a positron scanner (list-mode OSEM) on all devices of a platform, in one context:
tomography.py PICTURE.png [SIZE [EVENTS [ITERATIONS [DEVICES]]]]

Each event is a line through the object. The events are split into subsets, and each subset over the devices. For every
subset, every device goes along its lines through the present picture and back; the first device adds up what they have found
and corrects the picture, which all of them then need. Sums are of whole numbers, so that their order does not matter.
"""

import sys
import time

import numpy as np
import pyopencl as cl
from picture import png

SUBSETS = 8
FIXED = 1 << 12

SOURCE = """
// Adds FIXED / (the picture along the event's line) to each place of that line; for a sensitivity just FIXED.
__kernel void project(__global const float4 *events, __global const float *picture, __global int *back, int size, int plain) {
    float4 line = events[get_global_id(0)];
    float2 from = line.xy, way = line.zw - line.xy;
    int steps = (int)(fast_length(way) * 1.5f) + 1;
    float sum = 0;
    for (int i = 0; i < steps; i++) {
        float2 at = from + way * ((i + 0.5f) / steps);
        int x = (int)floor(at.x), y = (int)floor(at.y);
        if (x >= 0 && y >= 0 && x < size && y < size) sum += picture[y * size + x];
    }
    int add = plain ? FIXED / 4 : sum > 1e-6f ? (int)(FIXED * fmin(steps / sum, 1000.0f) + 0.5f) : 0;
    for (int i = 0; i < steps; i++) {
        float2 at = from + way * ((i + 0.5f) / steps);
        int x = (int)floor(at.x), y = (int)floor(at.y);
        if (x >= 0 && y >= 0 && x < size && y < size) atomic_add(&back[y * size + x], add);
    }
}
__kernel void gather(__global int *total, __global const int *more) { total[get_global_id(0)] += more[get_global_id(0)]; }
__kernel void correct(__global float *picture, __global const int *total, __global const int *sensitivity) {
    int i = get_global_id(0);
    picture[i] *= sensitivity[i] > 0 ? (float)total[i] / sensitivity[i] : 0;
}
""".replace("FIXED", str(FIXED))


def phantom(size):
    """What is in the scanner: a body with organs of different activity."""
    y, x = np.mgrid[0:size, 0:size] / size - 0.5
    picture = np.zeros((size, size))
    for x0, y0, wide, high, turn, activity in [
        (0, 0, 0.36, 0.44, 0, 1.0),
        (0, 0, 0.32, 0.40, 0, -0.6),
        (-0.12, -0.05, 0.08, 0.17, 0.3, 1.0),
        (0.13, -0.04, 0.07, 0.15, -0.3, 0.8),
        (0.02, 0.22, 0.09, 0.07, 0, 1.6),
        (0.0, -0.27, 0.03, 0.03, 0, 2.4),
        (0.08, 0.05, 0.02, 0.02, 0, 3.0),
    ]:
        a = (x - x0) * np.cos(turn) + (y - y0) * np.sin(turn)
        b = (y - y0) * np.cos(turn) - (x - x0) * np.sin(turn)
        picture[(a / wide) ** 2 + (b / high) ** 2 < 1] += activity
    return picture


def lines(places, size, random):
    """For each place a line through it of any direction, from one side of the ring of detectors to the other."""
    angle = random.uniform(0, np.pi, len(places))
    way = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    middle = places - size / 2
    along = (middle * way).sum(axis=1)
    half = np.sqrt(np.maximum((0.72 * size) ** 2 - (middle**2).sum(axis=1) + along**2, 1))
    ends = [places - way * (along + half)[:, None], places - way * (along - half)[:, None]]
    return np.hstack(ends).astype(np.float32)


def simulate(picture, count, random):
    """Events where the picture says, as often as it says."""
    size = len(picture)
    pixels = random.choice(size * size, count, p=(picture / picture.sum()).ravel())
    places = np.stack([pixels % size, pixels // size], axis=1) + random.uniform(0, 1, (count, 2))
    return lines(places, size, random)


class Scanner:
    """The devices with their parts of all events."""

    def __init__(self, size, events, most):
        devices = cl.get_platforms()[0].get_devices()
        devices = devices[:most] if most else devices
        self.context = cl.Context(devices)
        self.queues = [cl.CommandQueue(self.context, device) for device in devices]
        self.size = size
        self.program = cl.Program(self.context, SOURCE).build()
        self.kernels = [cl.Kernel(self.program, "project") for _ in devices]
        self.gather, self.correct = (cl.Kernel(self.program, name) for name in ["gather", "correct"])
        flags = cl.mem_flags
        self.parts = []  # for each subset, for each device
        for subset in np.array_split(events, SUBSETS):
            parts = np.array_split(subset, len(devices))
            self.parts.append([self.place(part) for part in parts])
        self.back = [cl.Buffer(self.context, flags.READ_WRITE, size * size * 4) for _ in devices]
        self.picture = cl.Buffer(
            self.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=np.ones(size * size, np.float32)
        )

    def place(self, events):
        """How many events there are, and a buffer with them."""
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        return len(events), cl.Buffer(self.context, flags, hostbuf=np.ascontiguousarray(events))

    def project(self, parts, ready, plain):
        """Goes along all lines on all devices; the first then has the sum, after the event that is given back."""
        pixels = self.size * self.size
        found = []
        for queue, kernel, back, (count, events) in zip(self.queues, self.kernels, self.back, parts):
            empty = cl.enqueue_fill_buffer(queue, back, np.int32(0), 0, pixels * 4, wait_for=ready)
            kernel.set_args(events, self.picture, back, np.int32(self.size), np.int32(plain))
            found.append(cl.enqueue_nd_range_kernel(queue, kernel, (count,), None, wait_for=[empty]))
            queue.flush()
        done = found[0]
        for back, event in zip(self.back[1:], found[1:]):
            done = self.gather(self.queues[0], (pixels,), None, self.back[0], back, wait_for=[done, event])
        return done

    def iterate(self, sensitivity, ready):
        """Every subset once."""
        for parts in self.parts:
            done = self.project(parts, ready, 0)
            self.correct.set_args(self.picture, self.back[0], sensitivity)
            ready = [
                cl.enqueue_nd_range_kernel(
                    self.queues[0], self.correct, (self.size * self.size,), None, wait_for=[done]
                )
            ]
            self.queues[0].flush()
        return ready

    def result(self):
        """The picture as it is now."""
        out = np.empty((self.size, self.size), np.float32)
        cl.enqueue_copy(self.queues[0], out, self.picture)
        return out


def panel(picture, most):
    """A picture in the colours of hot metal."""
    value = np.clip(picture / most, 0, 1)[..., None]
    rgb = np.clip(value * 3 - np.array([0, 1, 2]), 0, 1)
    return np.concatenate([rgb, np.ones_like(value)], axis=2)


def main():
    path = sys.argv[1]
    size, count, iterations, most = (list(map(int, sys.argv[2:])) + [0] * 4)[:4]
    size, count, iterations = size or 128, count or 400_000, iterations or 2
    random = np.random.default_rng(2026)
    truth = phantom(size)
    events = simulate(truth, count, random)
    # How often each place could be seen at all, from lines through everywhere.
    even = lines(random.uniform(0, size, (count, 2)), size, random)
    scanner = Scanner(size, events, most)
    parts = [scanner.place(part) for part in np.array_split(even, len(scanner.queues))]
    begin = time.monotonic()
    seen = scanner.project(parts, None, 1)
    sensitivity = cl.Buffer(scanner.context, cl.mem_flags.READ_WRITE, size * size * 4)
    ready = [cl.enqueue_copy(scanner.queues[0], sensitivity, scanner.back[0], wait_for=[seen])]
    steps = []
    for _ in range(iterations):
        ready = scanner.iterate(sensitivity, ready)
        steps.append(scanner.result())
    took = time.monotonic() - begin
    share = [step / step.sum() for step in [truth, steps[0], steps[-1]]]
    hottest = np.percentile(share[0], 99.8)
    pixels = np.hstack([panel(step, hottest) for step in share])
    pixels = np.repeat(np.repeat((pixels * 255).astype(np.uint8), 3, axis=0), 3, axis=1)
    with open(path, "wb") as file:
        file.write(png(pixels))
    likeness = [np.corrcoef(truth.ravel(), step.ravel())[0, 1] for step in steps]
    print(f"{count} events, {size}x{size} pixels, {SUBSETS} subsets, on {len(scanner.queues)} devices")
    print("likeness to the truth after each iteration: " + ", ".join(f"{value:.3f}" for value in likeness))
    print(f"{took:.2f} s", file=sys.stderr)
    if likeness[-1] < 0.7:
        sys.exit("that is not the picture")


main()
