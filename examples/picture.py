"""Writes pictures as PNG files."""

import struct
import zlib

import numpy as np


def png(pixels):
    """The bytes of a PNG file with these RGBA pixels."""
    height, width, _ = pixels.shape

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = np.hstack([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * 4)])
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + chunk(b"IEND", b"")
    )
