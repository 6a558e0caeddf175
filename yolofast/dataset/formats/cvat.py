"""CVAT's own XML, "for images 1.1" and "for video 1.1".

Of images: boxes, outlines, ellipses and masks, of which the box stays; a turned box becomes an outline. Of videos:
tracks, whose frames are `frame_000000.png` and so on; where only key frames are written, the boxes between are
interpolated. A frame from which an object is gone has none. All frames of a video are one group.
"""

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

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
from yolofast.dataset.formats.places import ImagePlaces, files_ending, root_of, split_of, split_word
from yolofast.dataset.formats.recognise import Evidence
from yolofast.dataset.formats.voc import turned_box
from yolofast.dataset.yolo_labels import RowError, finite_number
from yolofast.errors import UserError, shorten
from yolofast.files.budget import Budget
from yolofast.files.xml_file import XmlElement, read_xml
from yolofast.words import counted

_CORNERS = ("xtl", "ytl", "xbr", "ybr")
_WITHOUT_AREA = ("polyline", "points", "tag", "cuboid", "skeleton", "attribute")
_ROOT = re.compile(r"<annotations[\s/>]")
_FRAME = re.compile(r"frame_\d{6}")
_MOST_BETWEEN = 100_000
"""Frames between two key frames."""
_BETWEEN_WITHOUT_IMAGES, _BETWEEN_PER_IMAGE = 100_000, 200
"""Boxes of a file that are interpolated: two key frames of a hundred bytes could ask for 100,000, again and again."""


def recognise(evidence: Evidence) -> str | None:
    files = [name for name in evidence.ending(".xml")[:5] if _ROOT.search(evidence.head(name))]
    return ", ".join(files[:3]) if files else None


def read(place: Path, images: ImagePlaces, found: Labelled) -> None:
    root = root_of(place)
    for path in files_ending(place, ".xml"):
        file = _File(path, root, images, found)
        try:
            for element in read_xml(path, records=("meta", "image", "track")):
                file.add(element)
        except UserError as error:
            found.note_refusal(error, path)
        file.add_empty_frames()
        found.images += file.frames.values()


class _File:
    def __init__(self, path: str, root: Path, images: ImagePlaces, found: Labelled) -> None:
        self._path, self._root, self._images, self._found = path, root, images, found
        self._size: tuple[int, int] | None = None
        self._task = path
        self.frames: dict[str, LabelledImage] = {}
        self._absent: set[int] = set()
        most = _BETWEEN_WITHOUT_IMAGES + _BETWEEN_PER_IMAGE * len(images)
        what = f"has tracks with more than {most:,} boxes between key frames, for {counted(len(images), 'image')}"
        refusal = UserError(what, where=path, fix="name the folder of all frames with --images DIR")
        self._budget = Budget(most, lambda: refusal)
        self._has_tracks = False

    def add(self, element: XmlElement) -> None:
        if element.tag == "meta":
            self._meta(element)
        elif element.tag == "image":
            self._image(element)
        elif element.tag == "track":
            self._track(element)
        elif element.tag != "annotations":
            self._found.dropped["XML files that are not of CVAT"] += 1

    def _meta(self, element: XmlElement) -> None:
        known = set(self._found.names)
        for outer in element.children:  # task, project or job
            labels = outer.child("labels")
            for label in labels.all("label") if labels is not None else ():
                if (name := label.text_of("name")) and name not in known:
                    known.add(name)
                    self._found.names.append(name)
            self._task = outer.text_of("name") or self._task
        size = element.child("task", "original_size") or element.child("original_size")
        if size is not None:
            self._size = whole_size(size.text_of("width"), size.text_of("height"))

    def _image(self, element: XmlElement) -> None:
        name = element.attributes.get("name", "")
        file = self._images.find(name, self._path) if name else None
        if file is None:
            self._found.note_missing(name, self._path, element.line)
            return
        stated = whole_size(element.attributes.get("width", ""), element.attributes.get("height", ""))
        split = split_word(element.attributes.get("subset", "")) or split_of(file, self._root)
        image = self.frames[file] = LabelledImage(file, self._path, stated, split=split)
        for shape in element.children:
            self._add_shape(shape, shape.attributes.get("label", ""), image)

    def _track(self, element: XmlElement) -> None:
        self._has_tracks = True
        label = element.attributes.get("label", "")
        before: XmlElement | None = None
        for shape in element.children:
            if before is not None:
                for between in self._between(before, shape):
                    self._add_to_frame(between, label)
            self._add_to_frame(shape, label)
            before = shape

    def _between(self, before: XmlElement, after: XmlElement) -> Iterator[XmlElement]:
        """Boxes of the frames that are left out between two: only key frames were written."""
        first, last = _frame(before), _frame(after)
        if first is None or last is None or before.tag != "box" or after.tag != "box" or last - first > _MOST_BETWEEN:
            return
        if last - first < 2 or before.attributes.get("outside") == "1":
            return
        try:
            start, end = (box_of((one.attributes.get(name, "") for name in _CORNERS), "") for one in (before, after))
        except RowError:
            return  # it has its own fault
        self._budget.spend(last - first)
        for frame in range(first + 1, last):
            share = (frame - first) / (last - first)
            corners = (a + (b - a) * share for a, b in zip(start, end, strict=True))
            values = {name: repr(value) for name, value in zip(_CORNERS, corners, strict=True)}
            yield XmlElement("box", {**before.attributes, **values, "frame": str(frame)}, before.line)
            self._found.changed["boxes interpolated between key frames"] += 1

    def _add_to_frame(self, shape: XmlElement, label: str) -> None:
        frame = _frame(shape)
        if frame is None or shape.attributes.get("outside") == "1":
            return
        name = f"frame_{frame:06}"
        file = self._images.of_stem(name, self._path)
        if file is None:
            if frame not in self._absent:
                self._absent.add(frame)
                self._found.note_missing(name, self._path, shape.line)
            return
        if file not in self.frames:
            self.frames[file] = self._frame(file)
        self._add_shape(shape, label, self.frames[file])

    def add_empty_frames(self) -> None:
        """All frames of a video were looked at, also those without an object."""
        if not self._has_tracks:
            return
        for file in self._images:
            stem = os.path.splitext(os.path.basename(file))[0]
            own = _FRAME.fullmatch(stem) and self._images.of_stem(stem, self._path) == file
            if own and file not in self.frames:
                self.frames[file] = self._frame(file)

    def _frame(self, file: str) -> LabelledImage:
        return LabelledImage(file, self._path, self._size, split=split_of(file, self._root), group=self._task)

    def _add_shape(self, shape: XmlElement, label: str, image: LabelledImage) -> None:
        if shape.tag in _WITHOUT_AREA:
            if shape.tag != "attribute":
                self._found.dropped[f"shapes of the kind {shape.tag}"] += 1
            return
        try:
            if not label:
                raise RowError(FaultKind.UNKNOWN_CLASS, f"the {shape.tag} has no label", "label it in CVAT")
            box, outline = _area(shape)
        except RowError as error:
            self._found.note_row(error, self._path, shape.line, image.file)
            return
        if shape.tag == "mask":
            self._found.changed["masks of which only the box stays"] += 1
        marks = frozenset({"occluded"} if shape.attributes.get("occluded") == "1" else ())
        image.objects.append(LabelledObject(label, box, [outline] if outline else [], shape.line, marks))


def _area(shape: XmlElement) -> tuple[PixelBox, list[float]]:
    values = shape.attributes

    def number(name: str) -> float:
        return finite_number(values.get(name, ""))

    if shape.tag == "box":
        box = box_of((values.get(name, "") for name in _CORNERS), " ".join(_CORNERS))
        if not (angle := finite_number(values.get("rotation", "0"))):
            return box, []
        left, top, right, bottom = box
        outline = turned_box((left + right) / 2, (top + bottom) / 2, right - left, bottom - top, math.radians(angle))
        return box_around(outline), outline
    if shape.tag == "polygon":
        pairs = [pair.split(",") for pair in values.get("points", "").split(";")]
        if len(pairs) < 3 or any(len(pair) != 2 for pair in pairs):
            what = f"the outline is {shorten(values.get('points', ''))}, not at least three points x,y;x,y;x,y"
            raise RowError(FaultKind.BAD_ANNOTATION, what, "draw it again")
        outline = [finite_number(value) for pair in pairs for value in pair]
        return box_around(outline), outline
    if shape.tag == "ellipse":
        cx, cy, rx, ry = map(number, ("cx", "cy", "rx", "ry"))
        return (cx - rx, cy - ry, cx + rx, cy + ry), []
    if shape.tag == "mask":
        left, top, width, height = map(number, ("left", "top", "width", "height"))
        return (left, top, left + width, top + height), []
    raise RowError(FaultKind.BAD_ANNOTATION, f"<{shape.tag}> is not known", "draw a box or a polygon")


def _frame(shape: XmlElement) -> int | None:
    text = shape.attributes.get("frame", "")
    return int(text) if text.isdecimal() and len(text) < 10 else None
