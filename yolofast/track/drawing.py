"""Tracks on pictures: boxes and trails in the colour of their identity, lines and zones with their counts."""

from collections import deque
from collections.abc import Sequence

import cv2
import numpy as np

from yolofast.evaluate.mosaic_picture import stable_colour
from yolofast.pixels import Image
from yolofast.track.counting import At, Counts, anchor_points
from yolofast.track.result_files import class_name
from yolofast.track.trackers.tracks import Floats, Tracks

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_WHITE, _BLACK, _YELLOW = (255, 255, 255), (0, 0, 0), (0, 220, 255)
_DASHES = 12
_MOST_LISTED, _MOST_HIGH = 8, 0.35
"""Lines of the panel, and the share of the image's height that they may take."""
_SMALLER, _SHADE = 0.85, 0.4
"""Its letters beside those of labels, and how bright the image stays behind it."""
_SLOWLY, _CLEARLY = 0.03, 0.5
"""The weight of a frame where the panel's place is chosen, and how much emptier another place has to be."""
_APART = 4
"""Pixels around text."""
Rectangle = tuple[int, int, int, int]


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
        self._trails: dict[int, deque[tuple[int, int] | None]] = {}
        """The last frames of each identity, None where it was not seen."""
        self._panel = _Panel()

    def draw(self, image: Image, tracks: Tracks, lost: Tracks, counts: Counts | None = None) -> Image:
        """A copy of the image with everything on it."""
        drawn = image.copy()
        width = self._line_width or round(0.001 * sum(drawn.shape[:2])) + 1
        self._remember(tracks, lost)
        shown = tracks.boxes if not self._show_lost else np.concatenate((tracks.boxes, lost.boxes))
        labels = [] if counts is None else self._draw_shapes(drawn, counts, width)
        taken = [label.place for label in labels]
        if counts is not None:  # below the boxes, so that it hides none of their labels
            self._panel.draw(drawn, self._lines(counts), shown, taken, width)
        for id in (*tracks.ids.tolist(), *(lost.ids.tolist() if self._show_lost else ())):
            points = [point for point in self._trails.get(id, ()) if point is not None]
            if len(points) > 1:
                cv2.polylines(drawn, [np.array(points, np.int32)], False, stable_colour(id), width, cv2.LINE_AA)
        for id, box, label in _rows(lost) if self._show_lost else ():
            if id > 0:
                _dashed(drawn, box, stable_colour(id), width)
                labels += _label(drawn, box, f"{id} {self._name(label)}?", stable_colour(id), width, taken)
        for id, box, label in _rows(tracks):
            corners = _corners(box)
            cv2.rectangle(drawn, corners[0], corners[1], stable_colour(id), width, cv2.LINE_AA)
            labels += _label(drawn, box, f"{id} {self._name(label)}".rstrip(), stable_colour(id), width, taken)
        for one in labels:
            one.draw(drawn)
        return drawn

    def _remember(self, tracks: Tracks, lost: Tracks) -> None:
        points = anchor_points(tracks.boxes, self._at)
        for id, (x, y) in zip(tracks.ids.tolist(), points.tolist(), strict=True):
            self._trails.setdefault(id, deque(maxlen=max(self._trail, 1))).append((round(x), round(y)))
        unseen = {*lost.ids.tolist()} - {*tracks.ids.tolist()}
        for id in self._trails.keys() - {*tracks.ids.tolist()}:
            if id in unseen:
                self._trails[id].append(None)
            else:
                del self._trails[id]

    def _draw_shapes(self, drawn: Image, counts: Counts, width: int) -> "list[_Text]":
        """Lines and zones; their labels are drawn later."""
        size, labels = (drawn.shape[1], drawn.shape[0]), []
        for shape in counts.shapes:
            corners = shape.in_pixels(size).round().astype(np.int32)
            cv2.polylines(drawn, [corners], not shape.is_line, _YELLOW, width, cv2.LINE_AA)
            if shape.is_line:
                crossings = counts.lines[shape.name]
                text = f"{shape.name}: {crossings.forwards.total()} forwards, {crossings.backwards.total()} back"
            else:
                visitors = counts.zones[shape.name]
                text = f"{shape.name}: {visitors.inside.total()} inside, {visitors.entered.total()} so far"
            labels.append(_Text(drawn, text, (int(corners[0][0]), int(corners[0][1])), _YELLOW, _BLACK, width))
        return labels

    def _lines(self, counts: Counts) -> list[str]:
        so_far = counts.identities().most_common(_MOST_LISTED)
        names = {label: f"{class_name(label, self._names)}: " if label >= 0 else "" for label, _ in so_far}
        return [f"{names[label]}{counts.now[label]} now, {count} so far" for label, count in so_far]

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


class _Text:
    """On a ground of its own, as near to a corner as it can be without leaving the image."""

    def __init__(
        self,
        drawn: Image,
        text: str,
        corner: tuple[int, int],
        ground: tuple[int, int, int],
        ink: tuple[int, int, int],
        width: int,
    ) -> None:
        self._text, self._ground, self._ink = text, ground, ink
        self._font, self._stroke = _font(width)
        wide, high = _size(text, self._font, self._stroke)
        left, top = (
            max(min(at, whole - own), 0)
            for at, whole, own in zip(corner, drawn.shape[1::-1], (wide, high), strict=True)
        )
        self.place: Rectangle = left, top, left + wide, top + high

    def draw(self, drawn: Image) -> None:
        left, top, right, bottom = self.place
        cv2.rectangle(drawn, (left, top), (right, bottom), self._ground, cv2.FILLED)
        at = left, bottom - _APART + 1
        cv2.putText(drawn, self._text, at, _FONT, self._font, self._ink, self._stroke, cv2.LINE_AA)


def _font(width: int) -> tuple[float, int]:
    return 0.2 * width, max(width - 1, 1)


def _size(text: str, font: float, stroke: int) -> tuple[int, int]:
    wide, high = cv2.getTextSize(text, _FONT, font, stroke)[0]
    return wide, high + _APART


def _label(
    drawn: Image, box: Floats, text: str, colour: tuple[int, int, int], width: int, taken: Sequence[Rectangle]
) -> list[_Text]:
    """Above a box, or below the label of a line or zone that is there; none where the box is outside the image."""
    (left, top), (right, bottom) = _corners(box)
    if right < 0 or bottom < 0 or left >= drawn.shape[1] or top >= drawn.shape[0]:
        return []
    found = _Text(drawn, text, (left, top - _size(text, *_font(width))[1]), colour, _WHITE, width)
    for place in taken:
        if _meet(found.place, place):
            found = _Text(drawn, text, (left, place[3] + 1), colour, _WHITE, width)
    return [found]


def _meet(one: Rectangle, other: Rectangle) -> bool:
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


class _Panel:
    """How many of each class, at the border where the fewest boxes are; it stays there unless that changes for long."""

    def __init__(self) -> None:
        self._covered: Floats | None = None
        """Of each place, the share that boxes cover, on average over the last frames."""
        self._place = 0

    def draw(self, drawn: Image, lines: Sequence[str], boxes: Floats, taken: Sequence[Rectangle], width: int) -> None:
        font, stroke = _font(width)
        font *= _SMALLER
        high = max((_size(line, font, stroke)[1] for line in lines), default=1)
        lines = lines[: max(int(_MOST_HIGH * drawn.shape[0]) // high, 1)]
        if not lines:
            return
        wide = max(_size(line, font, stroke)[0] for line in lines) + _APART
        places = _places(drawn.shape[1::-1], (wide, high * len(lines) + _APART))
        left, top, right, bottom = places[self._choose(places, boxes, np.array(taken, np.float64))].astype(int).tolist()
        behind = drawn[top:bottom, left:right]
        behind[:] = (behind * _SHADE).astype(np.uint8)
        for number, line in enumerate(lines, 1):
            at = left + _APART // 2, top + number * high
            cv2.putText(drawn, line, at, _FONT, font, _WHITE, stroke, cv2.LINE_AA)

    def _choose(self, places: Floats, boxes: Floats, taken: Floats) -> int:
        now = _shares(places, boxes)
        before = now if self._covered is None else self._covered
        self._covered = (1 - _SLOWLY) * before + _SLOWLY * now
        hidden = _shares(places, taken)  # labels of lines and zones stay in sight
        best = int(np.lexsort((self._covered, hidden))[0])
        clearly = self._covered[best] < _CLEARLY * self._covered[self._place]
        if clearly or hidden[best] < hidden[self._place]:
            self._place = best
        return self._place


def _places(whole: Sequence[int], own: Sequence[int]) -> Floats:
    """Corners first, then the middles of the borders."""
    (x, middle_x), (y, middle_y) = (((0, max(w - o, 0)), max(w - o, 0) // 2) for w, o in zip(whole, own, strict=True))
    corners = [(x[0], y[0]), (x[1], y[0]), (x[0], y[1]), (x[1], y[1])]
    corners += [(x[0], middle_y), (x[1], middle_y), (middle_x, y[0]), (middle_x, y[1])]
    return np.array([(left, top, left + own[0], top + own[1]) for left, top in corners], np.float64)


def _shares(places: Floats, boxes: Floats) -> Floats:
    """[places] how much of each is covered; where two boxes overlap, both count."""
    if not len(boxes):
        return np.zeros(len(places))
    low = np.maximum(places[:, None, :2], boxes[None, :, :2])
    high = np.minimum(places[:, None, 2:], boxes[None, :, 2:])
    covered: Floats = np.maximum(high - low, 0).prod(2).sum(1) / (places[:, 2:] - places[:, :2]).prod(1)
    return covered
