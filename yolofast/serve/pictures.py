"""An upload as a picture: refused before memory is taken for what it announces."""

from yolofast.dataset.image_header import BadImageError, announced_size
from yolofast.errors import UserError
from yolofast.files.budget import DECODING
from yolofast.media.pictures import decode_picture
from yolofast.pixels import Image


class RefusedError(Exception):
    """What a client is told; `status` is HTTP's."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


def picture_of(content: bytes, most_pixels: int) -> Image:
    if not content:
        raise RefusedError(400, "the body is empty; send the bytes of an image")
    try:
        width, height = announced_size(content)
    except BadImageError as error:
        raise RefusedError(415, f"the body {error}; send JPEG, PNG, BMP or WebP") from None
    pixels = width * height
    if pixels > most_pixels:
        words = f"the image has {width}×{height} pixels, more than the {most_pixels:,} that are allowed"
        raise RefusedError(413, words)
    try:
        with DECODING.hold(pixels):
            picture = decode_picture(content, "the body")
    except UserError as error:
        raise RefusedError(415, f"the body {error.what}; send JPEG, PNG, BMP or WebP") from None
    found_height, found_width = picture.shape[:2]
    if {found_height, found_width} != {height, width}:
        raise RefusedError(415, f"the image says it has {width}×{height} pixels, and has {found_width}×{found_height}")
    return picture
