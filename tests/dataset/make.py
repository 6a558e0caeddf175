"""Small data sets made of real files."""

import json
import struct
import zlib

import cv2
import numpy as np


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def pixels(width=64, height=48, seed=0):
    """Smooth, so that it survives JPEG, and different for every seed."""
    small = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)


def encoded(suffix=".jpg", width=64, height=48, seed=0):
    return cv2.imencode(suffix, pixels(width, height, seed))[1].tobytes()


def image(path, width=64, height=48, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(path.suffix.lower(), width, height, seed))
    return path


def exif(orientation, order="<"):
    """A TIFF block of one entry: tag 0x112, a short, one value."""
    start = b"II*\0" if order == "<" else b"MM\0*"
    return start + struct.pack(order + "IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


def with_exif(jpeg, orientation, order="<"):
    content = b"Exif\0\0" + exif(orientation, order)
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(content) + 2) + content + jpeg[2:]


def png_chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_with_exif(png, orientation):
    return png[:33] + png_chunk(b"eXIf", exif(orientation)) + png[33:]  # 33: after the signature and the first chunk


def coco(path, images, annotations, categories):
    """`images`: {id: (file name, width, height)}; `annotations`: (image id, category id, bbox, more)."""
    entries = [{"id": i, "file_name": name, "width": w, "height": h} for i, (name, w, h) in images.items()]
    boxes = [
        {"id": n, "image_id": image, "category_id": category, "bbox": box, **more}
        for n, (image, category, box, more) in enumerate(annotations)
    ]
    names = [{"id": i, "name": name} for i, name in categories.items()]
    write(path, json.dumps({"images": entries, "annotations": boxes, "categories": names}))
    return path
