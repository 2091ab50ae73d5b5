#!/usr/bin/env python3
"""Frames in a second of a server's decoder device, beside the ffmpeg program with the same decoder and the same number of threads.

    bench/decoder.py [--rounds 5] [--threads 1 2] [--frames 900] [--keep FOLDER]        after `make build`; ffmpeg and a C compiler are needed

The streams are 720p, made here. The whole stream lies at the device before its clock runs, frames are written as NV12 into buffers there, and
nothing comes to the client but each command's end. ffmpeg decodes the same file into nothing, and into NV12 that it throws away. Both are run
by turns; the medians are shown. Where FOLDER has the streams and the program that asks the device already, an ffmpeg that only decodes will do.
"""

import argparse
import os
import re
import statistics
import struct
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SIZE, FRAME = "1280x720", 1280 * 720 * 3 // 2
CODECS = {
    "h264": (["-c:v", "libx264", "-preset", "veryfast", "-x264-params", "aud=1", "-f", "h264"], "h264", "H.264"),
    "hevc": (["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "aud=1:repeat-headers=1:log-level=none", "-f", "hevc"], "hevc", "HEVC"),
    "av1": (["-c:v", "libsvtav1", "-preset", "12", "-f", "ivf"], "libdav1d", "AV1"),
}
FFMPEG = ["ffmpeg", "-y", "-nostdin", "-hide_banner"]


def chunks(codec, data):
    """The stream's access units or temporal units."""
    if codec == "av1":
        at = 32
        while at < len(data):
            (size,) = struct.unpack_from("<I", data, at)
            yield data[at + 12 : at + 12 + size]
            at += 12 + size
        return
    delimiter = (lambda byte: byte & 31 == 9) if codec == "h264" else (lambda byte: byte >> 1 & 63 == 35)
    starts = [found.start() for found in re.finditer(b"\0\0\1", data) if delimiter(data[found.start() + 3])]
    starts = [start - 1 if start and data[start - 1] == 0 else start for start in starts]
    for start, end in zip(starts, [*starts[1:], len(data)]):
        yield data[start:end]


def stream(folder, codec, frames):
    """A file for ffmpeg, and one of chunks behind their lengths for the device."""
    file, pack = folder / f"stream.{codec}", folder / f"pack.{codec}"
    if pack.exists():
        return file, pack
    source = ["-loglevel", "error", "-f", "lavfi", "-i", f"testsrc2=size={SIZE}:rate=30", "-frames:v", str(frames)]
    quiet = {**os.environ, "SVT_LOG": "-1"}
    subprocess.run([*FFMPEG, *source, "-pix_fmt", "yuv420p", "-g", "60", *CODECS[codec][0], file], check=True, env=quiet)
    cut = list(chunks(codec, file.read_bytes()))
    assert len(cut) == frames, f"{len(cut)} chunks of {frames} frames"
    pack.write_bytes(b"".join(struct.pack("=I", len(chunk)) + chunk for chunk in cut))
    return file, pack


def by_ffmpeg(file, codec, threads, frames, *output):
    command = [*FFMPEG, "-benchmark", "-threads", str(threads), "-c:v", CODECS[codec][1], "-i", file, "-vsync", "passthrough", *output]
    said = subprocess.run([*command, "-f", "null", "-"], check=True, capture_output=True, text=True).stderr
    return frames / float(re.search(r"rtime=([0-9.]+)s", said)[1])


def by_device(program, url, codec, pack):
    """The second of two rounds: the first one has to make the buffers' memory."""
    command = [OUT / "release/ropeway", "run", "--server", url, "--only", "--", program]
    command += ["speed", f"ropeway.decode.{codec}", pack, "0", str(FRAME), "2"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(said.splitlines()[-1].split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--frames", type=int, default=900)
    parser.add_argument("--keep", type=Path, help="a folder that has what is made here, or gets it")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ropeway-") as name:
        folder = Path(name)
        kept = (asked.keep or folder).resolve()
        program = kept / "custom_video"
        if not program.exists():
            include = ["-I", ROOT / "include", "-I", ROOT / "tests/c"]
            subprocess.run([os.environ.get("CC", "cc"), "-O2", *include, "-o", program, ROOT / "tests/c/custom_video.c", "-lOpenCL"], check=True)
        streams = {codec: stream(kept, codec, asked.frames) for codec in CODECS}
        print(f"frames/s at {SIZE}, medians of {asked.rounds} rounds\n")
        print("| codec | threads | ffmpeg into nothing | ffmpeg into NV12 | the device, into NV12 | of ffmpeg's, into nothing | into NV12 |")
        print("|---|---|---|---|---|---|---|")
        for threads in asked.threads:
            devices = folder / f"devices{threads}.toml"
            devices.write_text(f"[[decoder]]\nname = 'Decoder'\nthreads = {threads}\n")
            url = f"unix:{folder}/{threads}.sock"
            serve = [OUT / "release/ropeway", "serve", "--listen", url, "--no-sandbox=groups", "--custom", devices]
            with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
                try:
                    while "ready" not in (line := server.stdout.readline()):
                        assert line, "the server ends"
                    for codec, (file, pack) in streams.items():
                        nothing, nv12, device = [], [], []
                        for _ in range(asked.rounds):
                            nothing.append(by_ffmpeg(file, codec, threads, asked.frames))
                            device.append(by_device(program, url, codec, pack))
                            nv12.append(by_ffmpeg(file, codec, threads, asked.frames, "-pix_fmt", "nv12"))
                        a, b, c = map(statistics.median, (nothing, nv12, device))
                        print(f"| {CODECS[codec][2]} | {threads} | {a:.0f} | {b:.0f} | {c:.0f} | {c / a:.2f} | {c / b:.2f} |", flush=True)
                finally:
                    server.terminate()


if __name__ == "__main__":
    main()
