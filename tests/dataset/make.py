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


def damaged_png(width=200, height=150):
    """Whole from the first to the last chunk, with one bit flipped among the pixels."""
    content = bytearray(encoded(".png", width, height))
    content[len(content) // 2] ^= 1
    return bytes(content)


def png_of_many_pixels(width=60_000, height=60_000):
    """A few bytes that promise gigabytes."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, content) for kind, content in chunks)


def webp_with_exif(webp, width, height, orientation, prefix=b""):
    """The extended form: flags and size first, then the image as it was, then EXIF."""
    block = prefix + exif(orientation)
    features = struct.pack("<I", 0x08) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    chunks = b"VP8X" + struct.pack("<I", 10) + features + webp[12:]
    chunks += b"EXIF" + struct.pack("<I", len(block)) + block + b"\0" * (len(block) % 2)
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks


def tiff(width, height, orientation, pixels, order="<"):
    """Grey and uncompressed; one strip behind one directory of shorts and longs."""
    short, long = 3, 4
    offset = 8 + 2 + 12 * 9 + 4
    tags = [(256, long, width), (257, long, height), (258, short, 8), (259, short, 1), (262, short, 1)]
    tags += [(273, long, offset), (274, short, orientation), (278, long, height), (279, long, len(pixels))]
    content = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(tags))
    for tag, kind, value in tags:
        content += struct.pack(order + ("HHIHxx" if kind == short else "HHII"), tag, kind, 1, value)
    return content + bytes(4) + pixels


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
