"""Every pixel of an image decoded, and its bytes hashed: the slow check, for `yolofast check`.

Libraries differ in what they make of a damaged file: some return None, some a picture that is grey from the damage on.
So the structure is checked here too (`image_header`, and the checksums of PNG). A JPEG with flipped bits inside its
compressed data still decodes to something, and is not found.
"""

import hashlib
import zlib
from dataclasses import dataclass

import cv2
import numpy as np

from yolofast.dataset.faults import Fault
from yolofast.dataset.image_facts import image_fault
from yolofast.dataset.image_header import BadImageError, ImageHeader, read_image_header

_PNG_START = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class CheckedImage:
    digest: bytes
    """Of the file's bytes; empty if they could not be read."""
    fault: Fault | None


def check_image(image: str) -> CheckedImage:
    content = b""
    try:
        with open(image, "rb") as file:
            content = file.read()
        header = read_image_header(image)
        if content.startswith(_PNG_START):
            _check_png(content)
        _decode(content, header)
    except (OSError, BadImageError) as error:
        return CheckedImage(_digest(content), image_fault(image, error))
    return CheckedImage(_digest(content), None)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest() if content else b""


def _check_png(content: bytes) -> None:
    """Each chunk is its length, its name, that many bytes, and the checksum of name and bytes."""
    place = len(_PNG_START)
    while place < len(content):
        end = place + 8 + int.from_bytes(content[place : place + 4], "big")
        if zlib.crc32(content[place + 4 : end]) != int.from_bytes(content[end : end + 4], "big"):
            raise BadImageError("is a PNG whose content does not fit its checksum")
        if content[place + 4 : place + 8] == b"IEND":
            return
        place = end + 4


def _decode(content: bytes, header: ImageHeader) -> None:
    try:
        pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error:  # such as more pixels than the library is willing to hold
        pixels = None
    if pixels is None:
        raise BadImageError("cannot be decoded")
    height, width = pixels.shape[:2]
    if (width, height) != (header.width, header.height):
        raise BadImageError(f"decodes to {width}×{height} pixels, but its header says {header.width}×{header.height}")
