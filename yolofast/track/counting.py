"""What is counted while tracking: identities per class, crossings of lines, and who is or was in a zone.

What is remembered of an identity is forgotten once its tracker has given it up, so that streams may run for ever.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import cv2
import numpy as np

from yolofast.errors import UserError, shorten
from yolofast.track.trackers.tracks import Floats, Tracks

At = Literal["centre", "bottom"]
"""Which point of a box counts: its middle, or the middle of its lower edge, where a person stands."""
LINE_POINTS, ZONE_POINTS = 2, 3


@dataclass(frozen=True)
class Shape:
    """A line or a zone, in pixels, or in shares of the image where no coordinate is above 1."""

    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def is_line(self) -> bool:
        return len(self.points) == LINE_POINTS

    def in_pixels(self, size: tuple[int, int]) -> Floats:
        """`size` is width and height of the image, 0 where they are unknown."""
        points = np.array(self.points, np.float64)
        if (points > 1).any():
            return points
        if not all(size):
            what = f"{self.name} is given in shares of the image, whose size is unknown"
            raise UserError(what, fix="give pixels, or detections that know the size")
        return points * size


def parse_shape(text: str, number: int, *, line: bool) -> Shape:
    """`x1,y1,x2,y2` or, for a zone, at least three corners; `NAME=` may come before."""
    kind = "line" if line else "zone"
    name, equals, rest = text.rpartition("=")
    fix = f"write --{kind} x1,y1,x2,y2{'' if line else ',x3,y3'}, in pixels or shares, after NAME= if it has a name"
    try:
        values = [float(part) for part in rest.split(",")]
    except ValueError:
        values = []
    enough = len(values) == 2 * LINE_POINTS if line else len(values) >= 2 * ZONE_POINTS and len(values) % 2 == 0
    if not enough or not all(math.isfinite(value) for value in values):
        raise UserError(f"--{kind} is {shorten(text)}", fix=fix)
    points = tuple(zip(values[::2], values[1::2], strict=True))
    if line and points[0] == points[1]:
        raise UserError(f"--line is {shorten(text)}: it has no length", fix=fix)
    return Shape(name.strip() if equals else f"{kind} {number}", points)


@dataclass
class Crossings:
    """Of a line: forwards is from its left to its right, seen from its first point to its second."""

    forwards: Counter[int] = field(default_factory=Counter)
    """By class."""
    backwards: Counter[int] = field(default_factory=Counter)
    crossed: dict[int, set[bool]] = field(default_factory=dict)
    """Directions in which each identity has: an object that trembles on a line counts once each way."""


@dataclass
class Visitors:
    """Of a zone."""

    inside: Counter[int] = field(default_factory=Counter)
    """Now, by class."""
    entered: Counter[int] = field(default_factory=Counter)
    known: set[int] = field(default_factory=set)


class Counts:
    """Of one video."""

    def __init__(self, shapes: Sequence[Shape] = (), at: At = "centre") -> None:
        self.shapes, self._at = tuple(shapes), at
        self.lines = {shape.name: Crossings() for shape in shapes if shape.is_line}
        self.zones = {shape.name: Visitors() for shape in shapes if not shape.is_line}
        self._labels: dict[int, int] = {}
        self._gone: Counter[int] = Counter()
        self._points: dict[int, Floats] = {}
        self.now: Counter[int] = Counter()
        """In the newest frame, by class."""

    def add(self, tracks: Tracks, lost: Tracks, size: tuple[int, int]) -> None:
        ids, labels = tracks.ids.tolist(), tracks.labels.tolist()
        self.now = Counter(labels)
        self._labels |= dict(zip(ids, labels, strict=True))
        points = anchor_points(tracks.boxes, self._at)
        for shape in self.shapes:
            corners = shape.in_pixels(size)
            if shape.is_line:
                self._cross(self.lines[shape.name], corners, ids, labels, points)
            else:
                self._visit(self.zones[shape.name], corners, ids, labels, points)
        self._points |= dict(zip(ids, points, strict=True))
        self._forget({*ids, *lost.ids.tolist()})

    def identities(self) -> Counter[int]:
        """So far, by class; an identity counts for the class it had last."""
        return self._gone + Counter(self._labels.values())

    def _cross(self, found: Crossings, line: Floats, ids: list[int], labels: list[int], points: Floats) -> None:
        for id, label, point in zip(ids, labels, points, strict=True):
            before = self._points.get(id)
            if before is None or not _meet(before, point, line[0], line[1]):
                continue
            forwards = _side(line[0], line[1], point) > 0
            directions = found.crossed.setdefault(id, set())
            if forwards not in directions:
                directions.add(forwards)
                (found.forwards if forwards else found.backwards)[label] += 1

    def _visit(self, found: Visitors, zone: Floats, ids: list[int], labels: list[int], points: Floats) -> None:
        polygon = zone.astype(np.float32).reshape(-1, 1, 2)
        found.inside = Counter()
        for id, label, (x, y) in zip(ids, labels, points.tolist(), strict=True):
            if cv2.pointPolygonTest(polygon, (x, y), False) < 0:
                continue
            found.inside[label] += 1
            if id not in found.known:
                found.known.add(id)
                found.entered[label] += 1

    def _forget(self, alive: set[int]) -> None:
        for id in self._labels.keys() - alive:
            self._gone[self._labels.pop(id)] += 1
            self._points.pop(id, None)
            for crossings in self.lines.values():
                crossings.crossed.pop(id, None)
            for visitors in self.zones.values():
                visitors.known.discard(id)


def anchor_points(boxes: Floats, at: At) -> Floats:
    """[n, 2]"""
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    return np.stack((middle[:, 0], boxes[:, 3]), axis=1) if at == "bottom" else middle


def _side(start: Floats, end: Floats, point: Floats) -> float:
    """Above 0 on the right of the way from `start` to `end`: y points down in images."""
    along, to = end - start, point - start
    return float(along[0] * to[1] - along[1] * to[0])


def _meet(one: Floats, other: Floats, start: Floats, end: Floats) -> bool:
    """Whether the way from one point to another crosses the line; to come to lie on it is to stay on its left."""
    sides = _side(start, end, one) > 0, _side(start, end, other) > 0
    if sides[0] == sides[1]:
        return False
    return _side(one, other, start) * _side(one, other, end) <= 0
