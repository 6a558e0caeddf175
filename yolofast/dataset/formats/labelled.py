"""Labelled images, as every reader of a foreign form gives them: boxes and outlines in pixels, classes by name.

Readers collect what is wrong as faults, with file and line, and count what they leave out on purpose.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.yolo_labels import RowError, finite_number
from yolofast.errors import UserError, shorten
from yolofast.files.budget import is_whole_text

PixelBox = tuple[float, float, float, float]
"""Left, top, right, bottom."""
SHARES = (1, 1)
"""As the stated size of an image: boxes are shares of its width and height."""
MARKS = ("difficult", "truncated", "occluded", "crowd", "depiction")
"""What annotators say of an object beside its class; crowd: many objects in one box."""
NO_MARKS: frozenset[str] = frozenset()


@dataclass(slots=True)
class LabelledObject:
    name: str
    box: PixelBox
    parts: list[list[float]] = field(default_factory=list)
    """x1, y1, x2, y2, … of each piece of its outline; empty if only the box is known."""
    line: int | None = None
    marks: frozenset[str] = NO_MARKS
    mask: dict[str, Any] | None = None
    """COCO's run lengths, which only COCO can hold."""
    area: float | None = None
    """Pixels of its mask, where the source says so."""
    id: str = ""
    """What messages call it where there are no lines."""

    def describe(self) -> str:
        return f"{self.name} {self.id}".strip()


@dataclass(slots=True)
class LabelledImage:
    file: str
    """Absolute path of the image, whether it is there or not."""
    where: str
    """The file with its labels."""
    stated: tuple[int, int] | None = None
    """Width and height that boxes refer to, if the labels say so; else those of the image."""
    objects: list[LabelledObject] = field(default_factory=list)
    split: str = ""
    """Empty: the source has none."""
    group: str = ""
    """A video, or whatever else must not be in two splits; empty: the image stands for itself."""
    size: tuple[int, int] = (0, 0)
    """As the image is shown; known once it has been looked at."""
    called: str = ""
    """The path it goes by; that of the file unless that was only made to be read."""

    def __post_init__(self) -> None:
        self.called = self.called or self.file


@dataclass
class Labelled:
    """A data set as it was read."""

    images: list[LabelledImage] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Classes in the order that the source states; others follow by name."""
    faults: list[Fault] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    """How many boxes or images were left out on purpose, by reason."""
    changed: Counter[str] = field(default_factory=Counter)
    """How many are not as they were, by what was done."""
    remarks: list[str] = field(default_factory=list)
    coco_ids: dict[str, int] = field(default_factory=dict)
    """What results call the classes, where the source says so."""

    def note(
        self, kind: FaultKind, where: str | Path, what: str, fix: str, *,
        line: int | None = None, image: str | None = None, fatal: bool = True,
    ) -> None:  # fmt: skip
        fault = Fault(kind=kind, where=str(where), line=line, what=what, fix=fix, image=image, fatal=fatal)
        self.faults.append(fault)

    def note_row(self, error: RowError, where: str | Path, line: int | None, image: str | None) -> None:
        self.note(error.kind, where, error.what, error.fix, line=line, image=image)

    def note_refusal(self, error: UserError, where: str | Path) -> None:
        """A file that cannot be read at all."""
        fix = error.fix or "export it again"
        self.note(FaultKind.UNREADABLE_LABEL, error.where or where, error.what, fix, line=error.line)

    def note_missing(self, name: str, where: str | Path, line: int | None = None) -> None:
        """An image that is labelled but not there."""
        fix = "add the image, name the folder of the images with --images DIR, or --skip-bad"
        self.note(FaultKind.MISSING_IMAGE, where, f"there is no image {shorten(name)} near it", fix, line=line)

    def classes(self) -> list[str]:
        used = {one.name for image in self.images for one in image.objects}
        names = list(dict.fromkeys([*self.names, *sorted(used)]))
        for name in names:
            if not is_whole_text(name):
                raise UserError(f"the class name {shorten(name)} is not text", fix="correct it where it is written")
        return names


def whole_size(width: str, height: str) -> tuple[int, int] | None:
    """None for anything else than whole numbers that images have."""
    sides = [int(side) if side.isdecimal() and len(side) < 7 else 0 for side in (width, height)]
    return (sides[0], sides[1]) if all(sides) else None


def box_of(values: Iterable[str], names: str) -> PixelBox:
    """Left, top, right, bottom out of four texts; `names` says what they are, for the message."""
    left, top, right, bottom = (finite_number(text) for text in values)
    if right < left or bottom < top:
        what = f"the box ends before it begins: {names} are {left:g}, {top:g}, {right:g}, {bottom:g}"
        raise RowError(FaultKind.BAD_BOX, what, "exchange or correct its corners, or remove it")
    return left, top, right, bottom


def box_around(points: list[float]) -> PixelBox:
    return min(points[0::2]), min(points[1::2]), max(points[0::2]), max(points[1::2])
