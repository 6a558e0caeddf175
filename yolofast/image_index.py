"""A split of a data set as flat arrays: its images, their boxes and polygons.

Everything is one array per property, addressed by starts, rather than objects per image: processes that fork share one
copy, because nothing in it is reference-counted, and a whole batch's boxes are gathered by indexing.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
_ROWS = ("files", "sizes", "labels", "boxes", "points", "crowd", "image_ids")
_STARTS = ("starts", "point_starts")
"""What joined parts need: arrays that are laid end to end, and those that are made anew."""


@dataclass(frozen=True, kw_only=True)
class ImageIndex:
    """N images with L boxes in all; boxes of image i are `starts[i] : starts[i + 1]`."""

    names: tuple[str, ...]
    """Class names; a label is a place among them."""
    files: npt.NDArray[np.bytes_]
    """[N] absolute paths, as the file system encodes them (`os.fsencode`)."""
    sizes: Ints
    """[N, 2] width and height in pixels as the image is shown, that is after its EXIF rotation."""
    starts: Ints
    """[N + 1]"""
    labels: Ints
    """[L]"""
    boxes: Floats
    """[L, 4] cx, cy, w, h as shares of the image's width and height."""
    points: Floats
    """[P, 2] corners of all polygons, as shares of the image's width and height."""
    point_starts: Ints
    """[L + 1] the polygon of box j is `points[point_starts[j] : point_starts[j + 1]]`; empty if it has none."""
    crowd: npt.NDArray[np.bool_]
    """[L] regions that stand for many objects: never trained on, ignored in COCO's evaluation."""
    image_ids: Ints
    """[N] what COCO results call the image."""
    category_ids: Ints
    """[nc] what COCO results call the class."""
    annotations: Path | None = None
    """The COCO file the split came from, or that belongs to it; None for labels in text files alone."""

    def __len__(self) -> int:
        return len(self.files)

    def path(self, image: int) -> Path:
        return Path(self.files[image].decode("utf-8", "surrogateescape"))

    def boxes_of(self, image: int) -> slice:
        return slice(int(self.starts[image]), int(self.starts[image + 1]))

    def image_of_box(self) -> Ints:
        """[L] the image each box is in."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def take(self, images: npt.ArrayLike) -> "ImageIndex":
        """The split made of these images only, in this order."""
        chosen = np.asarray(images, dtype=np.int64)
        boxes = expand(self.starts[chosen], self.starts[chosen + 1])
        points = expand(self.point_starts[boxes], self.point_starts[boxes + 1])
        return ImageIndex(
            names=self.names,
            files=self.files[chosen],
            sizes=self.sizes[chosen],
            starts=starts_of(np.diff(self.starts)[chosen]),
            labels=self.labels[boxes],
            boxes=self.boxes[boxes],
            points=self.points[points],
            point_starts=starts_of(np.diff(self.point_starts)[boxes]),
            crowd=self.crowd[boxes],
            image_ids=self.image_ids[chosen],
            category_ids=self.category_ids,
            annotations=self.annotations,
        )


def joined(parts: list[ImageIndex]) -> ImageIndex:
    """The images of all parts, one after the other. `parts` is emptied: of millions two copies are too many."""
    first = parts[0]
    columns = {name: [getattr(part, name) for part in parts] for name in _ROWS}
    counts = {name: [np.diff(getattr(part, name)).astype(np.int32) for part in parts] for name in _STARTS}
    names, category_ids, annotations = first.names, first.category_ids, first.annotations
    del first
    parts.clear()
    arrays = {name: np.concatenate(columns.pop(name)) for name in _ROWS}
    arrays |= {name: starts_of(np.concatenate(counts.pop(name))) for name in _STARTS}
    return ImageIndex(names=names, category_ids=category_ids, annotations=annotations, **arrays)


def starts_of(counts: npt.ArrayLike) -> Ints:
    """[n + 1] where runs of these lengths start when laid end to end, and where the last one ends."""
    lengths = np.asarray(counts)
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def expand(starts: Ints, stops: Ints) -> Ints:
    """All numbers of the ranges start … stop - 1, one range after the other."""
    counts = stops - starts
    shift = starts - starts_of(counts)[:-1]
    return np.arange(counts.sum(), dtype=np.int64) + np.repeat(shift, counts)


def fitted_size(sizes: Ints, width: int, height: int) -> Ints:
    """[N, 2] sizes scaled, up or down, so that they just fit into width × height; fractions are cut off, as published.

    For a square this is YOLOv7's "long side to the image size"; for other shapes YOLOX's "as large as fits".
    """
    ratio = np.minimum(width / sizes[:, 0], height / sizes[:, 1])[:, None]
    return np.maximum((sizes * ratio).astype(np.int64), 1)
