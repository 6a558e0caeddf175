"""Whether every pixel of an image can be decoded: slow, so only where it is asked for.

Libraries differ in what they make of a damaged file: some return None, some a picture that is grey from the damage on.
So the structure is checked too (`image_header`, and the checksums of PNG here). A JPEG with flipped bits inside its
compressed data still decodes to something, and is not found.
"""

import zlib

from yolofast.dataset.image_header import PNG_START, BadImageError, ImageHeader, decoded_size


def require_decodable(content: bytes, header: ImageHeader) -> None:
    """Raises BadImageError if the bytes of an image do not give the pixels its header promises."""
    if content.startswith(PNG_START):
        _check_png(content)
    width, height = decoded_size(content)
    if (width, height) != (header.width, header.height):
        raise BadImageError(f"decodes to {width}×{height} pixels, but its header says {header.width}×{header.height}")


def _check_png(content: bytes) -> None:
    """Each chunk is its length, its name, that many bytes, and the checksum of name and bytes."""
    place = len(PNG_START)
    while place < len(content):
        end = place + 8 + int.from_bytes(content[place : place + 4], "big")
        if zlib.crc32(content[place + 4 : end]) != int.from_bytes(content[end : end + 4], "big"):
            raise BadImageError("is a PNG whose content does not fit its checksum")
        if content[place + 4 : place + 8] == b"IEND":
            return
        place = end + 4
