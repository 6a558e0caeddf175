"""Pascal VOC: an XML file for each image, `Annotations/1.xml` for `JPEGImages/1.jpg`, or side by side.

Splits are the lists in `ImageSets/Main`, else folders called train, val or test. VOC counts pixels from 1 and includes
the last one, so a box from 1 to 500 is the whole of 500 pixels. Many tools write the same file but count from 0: if any
box of the data set begins at 0 or between pixels, all are taken as they are.

Outlines are `<polygon>` (x1, y1, … or points `<pt>`); a turned `<robndbox>` becomes one of four corners.
"""

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from yolofast.dataset.data_yaml import is_image_name
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.labelled import (
    Labelled,
    LabelledImage,
    LabelledObject,
    PixelBox,
    box_around,
    box_of,
    whole_size,
)
from yolofast.dataset.formats.places import ImagePlaces, files_ending, root_of, split_of
from yolofast.dataset.formats.recognise import Evidence
from yolofast.dataset.yolo_labels import RowError, finite_number
from yolofast.errors import UserError
from yolofast.files.budget import opened_text
from yolofast.files.threads import in_threads
from yolofast.files.xml_file import XmlElement, read_xml

_MOST_BYTES = 2**26
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_MARKS = ("difficult", "truncated", "occluded")
_ROOT = re.compile(r"<annotation[\s/>]")
_LISTS = ("train", "val", "test")


def recognise(evidence: Evidence) -> str | None:
    files = evidence.ending(".xml")
    own = any(_ROOT.search(evidence.head(name)) for name in files[:5])
    return evidence.counted(files, "XML file") if own else None


def read(place: Path, images: ImagePlaces, found: Labelled) -> None:
    root = root_of(place)
    files = files_ending(place, ".xml")
    lists = _lists(files)
    looked: list[_File] = in_threads(_read_file, files)
    for file in looked:
        if file.refusal is not None:
            found.note_refusal(file.refusal, file.path)
        elif not file.is_voc:
            found.dropped["XML files that are not of VOC"] += 1
        else:
            _add(file, root, images, lists, found)
    _count_from_zero_or_one(found)


@dataclass
class _File:
    path: str
    is_voc: bool = False
    image: str = ""
    size: tuple[int, int] | None = None
    objects: tuple[LabelledObject, ...] = ()
    faults: tuple[tuple[RowError, int], ...] = ()
    refusal: UserError | None = None


def _read_file(path: str) -> _File:
    try:
        (root,) = read_xml(path, most_bytes=_MOST_BYTES)
    except UserError as error:
        return _File(path, refusal=error)
    if root.tag != "annotation":
        return _File(path)
    objects, faults = [], []
    for element in root.all("object"):
        try:
            objects.append(_object(element))
        except RowError as error:
            faults.append((error, element.line))
    return _File(path, True, root.text_of("filename"), _size(root), tuple(objects), tuple(faults))


def _size(root: XmlElement) -> tuple[int, int] | None:
    """None for 0×0, which some tools write."""
    return whole_size(root.text_of("size", "width"), root.text_of("size", "height"))


def _object(element: XmlElement) -> LabelledObject:
    name = element.text_of("name")
    if not name:
        raise RowError(FaultKind.UNKNOWN_CLASS, "the object has no name", "write <name>…</name>")
    marks = frozenset(mark for mark in _MARKS if element.text_of(mark) not in ("", "0"))
    outline = _outline(element)
    box = element.child("bndbox")
    if box is not None:
        corners = box_of((box.text_of(corner) for corner in _CORNERS), " ".join(_CORNERS))
    elif outline:
        corners = box_around(outline)
    else:
        raise RowError(FaultKind.BAD_ANNOTATION, f"{name} has no <bndbox>", "draw its box, or remove the object")
    return LabelledObject(name, corners, [outline] if outline else [], element.line, marks)


def _outline(element: XmlElement) -> list[float]:
    if (turned := element.child("robndbox")) is not None:
        cx, cy, w, h, angle = (finite_number(turned.text_of(name)) for name in ("cx", "cy", "w", "h", "angle"))
        return turned_box(cx, cy, w, h, angle)
    polygon = element.child("polygon")
    if polygon is None:
        return []
    points = [finite_number(point.text_of(axis)) for point in polygon.all("pt") for axis in "xy"]
    if not points:
        texts = {one.tag: one.text for one in polygon.children}
        points = [finite_number(texts[name]) for name in _numbered(texts)]
    return points if len(points) >= 6 else []


def _numbered(texts: dict[str, str]) -> Iterator[str]:
    """x1, y1, x2, y2, … as long as there are both."""
    for number in count(1):
        if not (f"x{number}" in texts and f"y{number}" in texts):
            return
        yield from (f"x{number}", f"y{number}")


def turned_box(cx: float, cy: float, w: float, h: float, angle: float) -> list[float]:
    """The corners of a box turned around its middle, by radians clockwise."""
    cos, sin = math.cos(angle), math.sin(angle)
    corners = ((-w / 2, -h / 2), (w / 2, -h / 2), (w / 2, h / 2), (-w / 2, h / 2))
    return [value for x, y in corners for value in (cx + x * cos - y * sin, cy + x * sin + y * cos)]


def _add(file: _File, root: Path, images: ImagePlaces, lists: dict[str, dict[str, str]], found: Labelled) -> None:
    stem = os.path.splitext(os.path.basename(file.path))[0]
    # The name inside is often that of a file before it was renamed: the XML's own name comes first.
    image = images.of_stem(stem, file.path) or (images.find(file.image, file.path) if file.image else None)
    if image is None:
        found.note_missing(file.image or stem, file.path)
        return
    for error, line in file.faults:
        found.note_row(error, file.path, line, image)
    own = lists.get(os.path.dirname(os.path.dirname(file.path)))
    if own is not None and stem not in own:
        found.dropped["images in no list of ImageSets/Main"] += 1
        return
    split = split_of(image, root) if own is None else own[stem]
    found.images.append(LabelledImage(image, file.path, file.size, list(file.objects), split))


def _lists(files: list[str]) -> dict[str, dict[str, str]]:
    """By the folder that holds `Annotations` and `ImageSets`: the split of each name."""
    roots = dict.fromkeys(os.path.dirname(os.path.dirname(file)) for file in files)
    known = {root: _listed(Path(root, "ImageSets", "Main")) for root in roots}
    return {root: splits for root, splits in known.items() if splits}


def _listed(folder: Path) -> dict[str, str]:
    """Where there is no list of train, trainval is it, less those that another list has.

    A name may hold spaces, so a whole line is one. Its first word is one too, if no line is: of tools that write more
    behind it, as the lists of single classes do.
    """
    lines = {split: _lines(folder / f"{split}.txt") for split in _LISTS}
    if not lines["train"]:
        others = {*lines["val"], *lines["test"]}
        lines["train"] = [line for line in _lines(folder / "trainval.txt") if line not in others]
    names = {_stem(line): split for split, own in lines.items() for line in own}
    for split, own in lines.items():
        for line in own:
            names.setdefault(_stem(line.split()[0]), split)
    return names


def _lines(path: Path) -> list[str]:
    try:
        with opened_text(path, errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip()]


def _stem(name: str) -> str:
    """`a` of `a`, of `a.jpg` and of `JPEGImages/a.jpg`; `a.b` is a name without an ending."""
    base = os.path.basename(name.replace("\\", "/"))
    return os.path.splitext(base)[0] if is_image_name(base) else base


def _count_from_zero_or_one(found: Labelled) -> None:
    objects = [one for image in found.images for one in image.objects if not one.parts]
    if not objects:
        return
    if any(min(one.box[:2]) < 1 or any(value % 1 for value in one.box) for one in objects):
        found.remarks.append("boxes begin at 0 or between pixels: taken as they are, not counted from 1 as VOC does")
        return
    for one in objects:
        one.box = _from_one(one.box)


def _from_one(box: PixelBox) -> PixelBox:
    return box[0] - 1, box[1] - 1, box[2], box[3]
