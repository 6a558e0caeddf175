"""Tracks on pictures: boxes and trails in the colour of their identity, lines and zones with their counts."""

from collections import deque
from collections.abc import Sequence

import cv2
import numpy as np

from yolofast.evaluate.mosaic_picture import stable_colour
from yolofast.pixels import Image
from yolofast.track.counting import At, Counts, anchor_points
from yolofast.track.trackers.tracks import Floats, Tracks

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_WHITE, _BLACK, _YELLOW = (255, 255, 255), (0, 0, 0), (0, 220, 255)
_DASHES = 12
_MOST_LISTED = 8


class TrackDrawing:
    """Of one video: it remembers where identities were."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        trail: int = 30,
        line_width: int | None = None,
        show_lost: bool = False,
        at: At = "centre",
    ) -> None:
        """`trail` is in frames."""
        self._names, self._trail, self._line_width = names, trail, line_width
        self._show_lost, self._at = show_lost, at
        self._trails: dict[int, deque[tuple[int, int]]] = {}

    def draw(self, image: Image, tracks: Tracks, lost: Tracks, counts: Counts | None = None) -> Image:
        """A copy of the image with everything on it."""
        drawn = image.copy()
        width = self._line_width or round(0.001 * sum(drawn.shape[:2])) + 1
        self._remember(tracks, lost)
        for id, points in self._trails.items():
            if len(points) > 1:
                cv2.polylines(drawn, [np.array(points, np.int32)], False, stable_colour(id), width, cv2.LINE_AA)
        if self._show_lost:
            for id, box, label in _rows(lost):
                if id > 0:
                    _dashed(drawn, box, stable_colour(id), width)
                    _label(drawn, box, f"{id} {self._name(label)}?", stable_colour(id), width)
        for id, box, label in _rows(tracks):
            corners = _corners(box)
            cv2.rectangle(drawn, corners[0], corners[1], stable_colour(id), width, cv2.LINE_AA)
            _label(drawn, box, f"{id} {self._name(label)}".rstrip(), stable_colour(id), width)
        if counts is not None:
            self._draw_counts(drawn, counts, width)
        return drawn

    def _remember(self, tracks: Tracks, lost: Tracks) -> None:
        points = anchor_points(tracks.boxes, self._at)
        for id, (x, y) in zip(tracks.ids.tolist(), points.tolist(), strict=True):
            self._trails.setdefault(id, deque(maxlen=max(self._trail, 1))).append((round(x), round(y)))
        alive = {*tracks.ids.tolist(), *lost.ids.tolist()}
        for id in self._trails.keys() - alive:
            del self._trails[id]

    def _draw_counts(self, drawn: Image, counts: Counts, width: int) -> None:
        size = drawn.shape[1], drawn.shape[0]
        for shape in counts.shapes:
            corners = shape.in_pixels(size).round().astype(np.int32)
            cv2.polylines(drawn, [corners], not shape.is_line, _YELLOW, width, cv2.LINE_AA)
            if shape.is_line:
                crossings = counts.lines[shape.name]
                text = f"{shape.name}: {crossings.forwards.total()} forwards, {crossings.backwards.total()} back"
            else:
                visitors = counts.zones[shape.name]
                text = f"{shape.name}: {visitors.inside.total()} inside, {visitors.entered.total()} so far"
            _text(drawn, text, (int(corners[0][0]), int(corners[0][1])), _YELLOW, _BLACK, width)
        so_far, line = counts.identities(), 0
        for label, count in so_far.most_common(_MOST_LISTED):
            line += _text(
                drawn, f"{self._name(label)} {counts.now[label]} now, {count} so far", (0, line), _BLACK, _WHITE, width
            )

    def _name(self, label: int) -> str:
        return self._names[label] if 0 <= label < len(self._names) else "" if not self._names else str(label)


def _rows(tracks: Tracks) -> list[tuple[int, Floats, int]]:
    return list(zip(tracks.ids.tolist(), tracks.boxes, tracks.labels.tolist(), strict=True))


def _corners(box: Floats) -> tuple[tuple[int, int], tuple[int, int]]:
    """Within what OpenCV can count."""
    left, top, right, bottom = (int(value) for value in box.round().clip(-30_000, 30_000))
    return (left, top), (right, bottom)


def _dashed(drawn: Image, box: Floats, colour: tuple[int, int, int], width: int) -> None:
    (left, top), (right, bottom) = _corners(box)
    corners = np.array([(left, top), (right, top), (right, bottom), (left, bottom)], np.float64)
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        ticks = np.linspace(start, end, _DASHES).round().astype(int).tolist()
        for one, other in zip(ticks[::2], ticks[1::2], strict=True):
            cv2.line(drawn, tuple(one), tuple(other), colour, width, cv2.LINE_AA)


def _label(drawn: Image, box: Floats, text: str, colour: tuple[int, int, int], width: int) -> None:
    (left, top), _ = _corners(box)
    height = cv2.getTextSize(text, _FONT, 0.2 * width, max(width - 1, 1))[0][1]
    _text(drawn, text, (left, max(top - height - 4, 0)), colour, _WHITE, width)


def _text(
    drawn: Image,
    text: str,
    corner: tuple[int, int],
    ground: tuple[int, int, int],
    ink: tuple[int, int, int],
    width: int,
) -> int:
    """Its upper left corner is there; returns its height."""
    font, stroke = 0.2 * width, max(width - 1, 1)
    (wide, high), _ = cv2.getTextSize(text, _FONT, font, stroke)
    left, top = corner
    cv2.rectangle(drawn, (left, top), (left + wide, top + high + 4), ground, cv2.FILLED)
    cv2.putText(drawn, text, (left, top + high + 1), _FONT, font, ink, stroke, cv2.LINE_AA)
    return high + 4
