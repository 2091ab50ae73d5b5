"""OpenCV's transparent API: each step on the OpenCL device, its result as a checksum."""

import hashlib

import cv2
import numpy


def show(name, result):
    values = numpy.ascontiguousarray(result.get() if isinstance(result, cv2.UMat) else result)
    print(name, values.shape, values.dtype, hashlib.sha256(values.tobytes()).hexdigest()[:16])
    return result


cv2.ocl.setUseOpenCL(True)
device = cv2.ocl.Device.getDefault()
print("OpenCL", cv2.ocl.useOpenCL(), "device", device.name(), "images", device.imageSupport())

random = numpy.random.default_rng(7)
picture = cv2.UMat(random.integers(0, 256, (240, 320, 3), dtype=numpy.uint8))
left = cv2.UMat(random.random((96, 64), dtype=numpy.float32))
right = cv2.UMat(random.random((64, 80), dtype=numpy.float32))

show("resize", cv2.resize(picture, (200, 130), interpolation=cv2.INTER_LINEAR))
show("blur", cv2.GaussianBlur(picture, (7, 7), 1.5))
grey = show("grey", cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY))
show("threshold", cv2.threshold(grey, 120, 255, cv2.THRESH_BINARY)[1])
# Not Canny: the edges that its kernels follow depend on which work-group is first, natively as well.
show("edges", cv2.Laplacian(grey, cv2.CV_16S, ksize=3))
show("dilate", cv2.dilate(grey, None))
show("warp", cv2.warpAffine(picture, numpy.float32([[0.9, 0.1, 3], [-0.1, 0.9, 5]]), (320, 240)))
# A part of a matrix is transferred row by row, with a pitch.
part = cv2.UMat(grey, [10, 100], [20, 200])
show("part", part)
show("sum of part", cv2.add(part, part))
show("histogram", cv2.calcHist([grey], [0], None, [256], [0, 256]))
show("product", cv2.gemm(left, right, 1.0, None, 0.0))
show("transform", cv2.dft(left, flags=cv2.DFT_COMPLEX_OUTPUT))
