"""Pictures and videos to track in, made on the spot."""

import struct

import cv2
import numpy as np

from tests.detect.seeing import picture

_PARENTS = {b"moov", b"trak", b"mdia", b"minf", b"stbl"}


def still_images(folder, count=6, seed=3, numbers=None):
    """One picture again and again, so that a network sees the same things in every frame."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers or range(1, count + 1):
        cv2.imwrite(str(folder / f"{number:06d}.png"), picture(seed))
    return folder


def panned(count, step, height=240, width=320, seed=0):
    """Views of a large scenery through a camera that turns by `step` pixels a frame."""
    scenery = np.random.default_rng(seed).integers(0, 255, (height // 4, (width + count * step) // 4 + 1, 3), np.uint8)
    scenery = cv2.resize(scenery, None, fx=4, fy=4, interpolation=cv2.INTER_CUBIC)
    return [np.ascontiguousarray(scenery[:height, place * step : place * step + width]) for place in range(count)]


def retime(path, deltas):
    """Gives the frames of an MP4 these durations, in units of its time scale: a video of uneven rate."""
    content = path.read_bytes()
    table = struct.pack(">II", 0, len(deltas)) + b"".join(struct.pack(">II", 1, delta) for delta in deltas)
    path.write_bytes(_replaced(content, table))
    return path


def _replaced(content, table):
    made, place = b"", 0
    while place < len(content):
        size, kind = struct.unpack(">I4s", content[place : place + 8])
        assert size >= 8, "a box of 64 bits"
        body = content[place + 8 : place + size]
        if kind in _PARENTS:
            body = _replaced(body, table)
        elif kind == b"stts":
            body = table
        elif kind == b"edts":  # it would cut the video to its old length
            kind = b"free"
        made += struct.pack(">I4s", 8 + len(body), kind) + body
        place += size
    return made
