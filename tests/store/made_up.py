"""Small image files of every kind the store has to cope with, and their index."""

import os
import struct
import zlib

import cv2
import numpy as np

from yolofast.image_index import ImageIndex


def picture(width, height, seed=0):
    """Colours that change slowly, with some noise: every row, column and channel differs."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    slow = np.stack((x * 200 / width, y * 200 / height, (x + y) * 100 / (width + height)), axis=-1)
    return (slow + np.random.default_rng(seed).integers(0, 50, slow.shape)).astype(np.uint8)


def turned_jpeg(image, orientation):
    """JPEG bytes with an EXIF entry that says how the camera was held."""
    plain = cv2.imencode(".jpg", image)[1].tobytes()
    entry = b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    exif = b"Exif\0\0" + entry
    return plain[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + plain[2:]


def announcing_png(width, height):
    """A PNG whose header is valid and announces this size, with next to no pixels behind it."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def every_kind(folder):
    """Files of all kinds, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(folder / "landscape.jpg"), picture(100, 60))
    cv2.imwrite(str(folder / "portrait.png"), picture(60, 101, 1))
    cv2.imwrite(str(folder / "fitting.jpg"), picture(64, 48, 2))
    cv2.imwrite(str(folder / "tiny.bmp"), picture(3, 2, 3))
    cv2.imwrite(str(folder / "thin.png"), picture(300, 2, 4))
    cv2.imwrite(str(folder / "grey.png"), picture(90, 64, 5)[..., 0])
    cv2.imwrite(str(folder / "clear.png"), np.dstack((picture(50, 70, 6), np.full((70, 50), 90, np.uint8))))
    (folder / "turned.jpg").write_bytes(turned_jpeg(picture(80, 50, 7), 6))
    (folder / "turned_fitting.jpg").write_bytes(turned_jpeg(picture(64, 40, 8), 8))
    (folder / "upright.jpg").write_bytes(turned_jpeg(picture(64, 40, 9), 1))
    (folder / "ünï cödé.jpg").write_bytes(cv2.imencode(".jpg", picture(70, 70, 10))[1].tobytes())
    return sorted(folder.iterdir())


def some_pictures(folder, count, width=48, height=32):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        cv2.imwrite(str(folder / f"{number:03}.png"), picture(width, height, number))
    return sorted(folder.iterdir())


def index_of(files):
    """The index of images without boxes."""
    count = len(files)
    none = np.zeros(0, np.int64)
    return ImageIndex(
        names=("thing",),
        files=np.array([os.fsencode(file) for file in files]),
        sizes=np.array([cv2.imread(str(file)).shape[1::-1] for file in files], np.int64).reshape(-1, 2),
        starts=np.zeros(count + 1, np.int64),
        labels=none,
        boxes=np.zeros((0, 4), np.float32),
        points=np.zeros((0, 2), np.float32),
        point_starts=np.zeros(1, np.int64),
        crowd=np.zeros(0, np.bool_),
        image_ids=np.arange(count),
        category_ids=np.zeros(1, np.int64),
    )
