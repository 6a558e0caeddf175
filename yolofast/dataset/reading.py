"""A split as a reader found it, and how the columns of such a reading are filled.

Bad images stay in a reading, without boxes, so that it can be stored once and then refused or cleaned as asked.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from yolofast.dataset.faults import Fault, FaultKind
from yolofast.image_index import ImageIndex, Ints, starts_of

SMALLEST_BOX_PX = 2.0


@dataclass(frozen=True)
class Classes:
    """How the numbers in the labels become classes."""

    names: tuple[str, ...]
    category_ids: Ints
    """[nc]"""

    @property
    def nc(self) -> int:
        return len(self.names)


SINGLE_CLASS = Classes(("item",), np.zeros(1, np.int64))


@dataclass(frozen=True)
class Reading:
    index: ImageIndex
    faults: list[Fault]
    stamps: Ints
    """[N, 2] bytes and modification times of the images, taken before they were read."""
    key: str
    """Names the content of the labels it was read from."""


@dataclass
class ImageRows:
    """The boxes of one image, one list per property. With a fatal fault only the faults count."""

    where: str
    """The file they stand in."""
    image: str
    labels: list[int] = field(default_factory=list)
    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)
    polygons: list[list[float]] = field(default_factory=list)
    """x1, y1, x2, y2, … of each box; empty if it has none."""
    crowd: list[bool] = field(default_factory=list)
    places: list[tuple[int | None, str]] = field(default_factory=list)
    """Line and name of each box, for messages."""
    faults: list[Fault] = field(default_factory=list)

    def add(
        self,
        label: int,
        box: tuple[float, float, float, float],
        polygon: list[float],
        place: tuple[int | None, str],
        crowd: bool = False,
    ) -> None:
        self.labels.append(label)
        self.boxes.append(box)
        self.polygons.append(polygon)
        self.places.append(place)
        self.crowd.append(crowd)

    def note(self, kind: FaultKind, what: str, fix: str, *, line: int | None = None, fatal: bool = True) -> None:
        self.faults.append(
            Fault(kind=kind, where=self.where, line=line, what=what, fix=fix, fatal=fatal, image=self.image)
        )

    def usable(self) -> "ImageRows":
        """Itself, or no rows at all if one of them is broken: half of an image's boxes would teach the wrong thing."""
        return ImageRows(self.where, self.image) if any(fault.fatal for fault in self.faults) else self

    def note_tiny_boxes(self, size: Ints) -> None:
        """Boxes under two pixels of the image as stored: nothing can be learnt from them."""
        if not size.all():
            return
        for (_, _, w, h), (line, name) in zip(self.boxes, self.places, strict=True):
            width, height = w * int(size[0]), h * int(size[1])
            if min(width, height) < SMALLEST_BOX_PX:
                what = f"{name} is {width:.2g}×{height:.2g} pixels"
                self.note(FaultKind.TINY_BOX, what, "remove it, or draw it larger", line=line, fatal=False)


def build_index(
    rows: Sequence[ImageRows], sizes: Ints, classes: Classes, image_ids: Ints, annotations: Path | None = None
) -> ImageIndex:
    usable = [one.usable() for one in rows]
    polygons = [polygon for one in usable for polygon in one.polygons]
    points = [np.array(polygon, np.float32) for polygon in polygons if polygon]
    return ImageIndex(
        names=classes.names,
        files=np.array([os.fsencode(one.image) for one in rows], dtype=np.bytes_),
        sizes=sizes,
        starts=starts_of([len(one.labels) for one in usable]),
        labels=np.array([label for one in usable for label in one.labels], dtype=np.int64),
        boxes=np.array([box for one in usable for box in one.boxes], dtype=np.float32).reshape(-1, 4),
        points=np.concatenate([np.zeros(0, np.float32), *points]).reshape(-1, 2),
        point_starts=starts_of([len(polygon) // 2 for polygon in polygons]),
        crowd=np.array([crowd for one in usable for crowd in one.crowd], dtype=np.bool_),
        image_ids=image_ids,
        category_ids=classes.category_ids,
        annotations=annotations,
    )
