"""One image file -> pixels fitted to the training size, as every kind of store and the reader without a store see them.

Files are read whole and decoded from memory. So any path works, and a shortened JPEG, which some decoders fill up with
grey, is recognised.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError
from yolofast.files.budget import DECODING, read_bounded
from yolofast.image_bytes import TooCostlyError, decode_image
from yolofast.image_index import fitted_size
from yolofast.pixels import Image

_JPEG_START, _JPEG_SCAN, _JPEG_END = b"\xff\xd8\xff", b"\xff\xda", b"\xff\xd9"


@dataclass(frozen=True)
class Fit:
    """The size images are fitted to, and how they are resized."""

    width: int
    height: int
    augmented: bool
    """Training resizes linearly; without augmentation images that shrink are averaged over areas, as published."""

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise UserError(f"images cannot be fitted to {self.width}×{self.height} pixels", fix="give sizes above 0")

    @property
    def interpolation(self) -> str:
        return "linear" if self.augmented else "area"

    def sizes(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """[N, 2] widths and heights after the fit."""
        return fitted_size(sizes, self.width, self.height)

    def resized(self, image: Image) -> Image:
        """The image fitted; itself if it already has the size."""
        height, width = image.shape[:2]
        if (width == self.width and height <= self.height) or (height == self.height and width <= self.width):
            return image
        target = self.sizes(np.array([[width, height]]))[0]
        shrinks = min(self.width / width, self.height / height) < 1
        interpolation = cv2.INTER_AREA if shrinks and not self.augmented else cv2.INTER_LINEAR
        return _bytes_of(cv2.resize(image, (int(target[0]), int(target[1])), interpolation=interpolation))


def read_fitted(file: Path, size: npt.NDArray[np.int64], fit: Fit) -> Image:
    """The pixels of `file`, which the data set knows to be `size` (width, height), fitted."""
    with _decoding(size):
        return fit.resized(decoded(read_bytes(file), file, size))


def read_as_jpeg(file: Path, size: npt.NDArray[np.int64], fit: Fit, quality: int = 95) -> bytes:
    """The fitted image as JPEG: the file's own bytes if they already show it, else encoded anew."""
    with _decoding(size):
        content = read_bytes(file)
        image = decoded(content, file, size)
        fitted = fit.resized(image)
        if fitted is image and content.startswith(_JPEG_START) and not _is_turned(content, image):
            return content
        del image
    return cv2.imencode(".jpg", fitted, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()


def _decoding(size: npt.NDArray[np.int64]) -> AbstractContextManager[None]:
    """Packing decodes by several threads: while one has a huge image, the others wait."""
    return DECODING.hold(int(size[0]) * int(size[1]))


def read_bytes(file: Path) -> bytes:
    try:
        return read_bounded(file)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=file, fix="restore or remove the file") from None


def decoded(content: bytes, file: Path, size: npt.NDArray[np.int64]) -> Image:
    """The image as `cv2.imread` shows it: three channels, turned as its EXIF entry says."""
    try:
        image = decode_image(content)
    except TooCostlyError as error:
        raise UserError(str(error), where=file, fix="save it anew, make it smaller, or remove it") from None
    except (cv2.error, MemoryError):  # raised for what a header announces, before any pixel is looked at
        what = f"cannot be decoded: {size[0]}×{size[1]} pixels may be too many for OpenCV or for the free memory"
        raise UserError(what, where=file, fix="make the image smaller, or remove it") from None
    if image is None or is_cut_off(content):
        what = "is empty" if not content else "is damaged or cut off, or not an image"
        raise UserError(what, where=file, fix="restore or remove the file")
    height, width = image.shape[:2]
    if (width, height) != (int(size[0]), int(size[1])):
        what = f"is {width}×{height} pixels, but was {size[0]}×{size[1]} when the data set was read"
        raise UserError(what, where=file, fix="the file has changed meanwhile; start again")
    return image


def decoded_jpeg(content: npt.NDArray[np.uint8]) -> Image | None:
    """A stored JPEG's pixels; None if it is damaged."""
    try:
        image = cv2.imdecode(content, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error:  # a damaged header may announce more pixels than OpenCV takes
        return None
    return None if image is None else _bytes_of(image)


def is_cut_off(content: bytes) -> bool:
    """Whether a JPEG's last scan never ends; junk behind the end is common and harmless.

    OpenCV 5 refuses such files by itself; earlier versions show the missing part in grey.
    """
    return content.startswith(_JPEG_START) and content.find(_JPEG_END, content.rfind(_JPEG_SCAN)) < 0


def _is_turned(content: bytes, image: Image) -> bool:
    """Whether a JPEG's EXIF entry turns it, according to the decoder itself rather than to a second EXIF reader."""
    if b"Exif" not in content:
        return False
    flat = decoded_jpeg(np.frombuffer(content, np.uint8))
    return flat is None or not np.array_equal(flat, image)


def _bytes_of(image: npt.NDArray[np.generic]) -> Image:
    return np.ascontiguousarray(image, dtype=np.uint8)
