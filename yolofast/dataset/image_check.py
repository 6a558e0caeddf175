"""Every pixel of an image decoded, and its bytes hashed: the slow check, for `yolofast check`."""

import hashlib
from dataclasses import dataclass

from yolofast.dataset.faults import Fault
from yolofast.dataset.image_decode import require_decodable
from yolofast.dataset.image_facts import image_fault
from yolofast.dataset.image_header import BadImageError, read_image_header
from yolofast.dataset.regular_file import open_regular


@dataclass(frozen=True)
class CheckedImage:
    digest: bytes
    """Of the file's bytes; empty if they could not be read."""
    fault: Fault | None


def check_image(image: str) -> CheckedImage:
    content = b""
    try:
        with open_regular(image) as file:
            content = file.read()
        require_decodable(content, read_image_header(image))
    except (OSError, BadImageError) as error:
        return CheckedImage(_digest(content), image_fault(image, error))
    return CheckedImage(_digest(content), None)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest() if content else b""
