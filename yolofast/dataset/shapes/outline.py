"""The classes of the built-in data set as outlines: what a circle or an arrow is, before size, rotation and colour."""

import math

import cv2
import numpy as np
import numpy.typing as npt

_Line = list[tuple[float, float]]
Points = npt.NDArray[np.float64]
"""[k, 2] corners of one closed line, x and y."""
Mask = npt.NDArray[np.uint8]
"""[height, width] coverage of each pixel, 0 to FULL."""

FULL = 240
"""Coverage of a pixel wholly inside. A multiple of 16, so that a mean over 4 × 4 samples is exact."""
_SAMPLES = 4
_FRACTION_BITS = 4
_CORNERS_OF_A_CIRCLE = 64


def _arc(radius: float, start: float, stop: float, corners: int, centre_x: float = 0.0) -> _Line:
    """Points on a circle around (centre_x, 0), angles in turns."""
    angles = [2 * math.pi * (start + (stop - start) * i / corners) for i in range(corners)]
    return [(centre_x + radius * math.cos(a), radius * math.sin(a)) for a in angles]


def _circle(radius: float) -> _Line:
    return _arc(radius, 0, 1, _CORNERS_OF_A_CIRCLE)


def _star() -> _Line:
    tips, dents = _arc(1, 0, 1, 5), _arc(0.42, 0.1, 1.1, 5)
    return [corner for pair in zip(tips, dents, strict=True) for corner in pair]


def _crescent() -> _Line:
    """A disc without a second one of the same size, 0.6 to its right: they meet where x is 0.3."""
    meet = math.acos(0.3) / (2 * math.pi)
    outer = _arc(1, meet, 1 - meet, _CORNERS_OF_A_CIRCLE)
    inner = _arc(1, 0.5 + meet, 0.5 - meet, _CORNERS_OF_A_CIRCLE, centre_x=0.6)
    return outer + inner


_CROSS: _Line = [
    (1, 3), (1, 1), (3, 1), (3, -1), (1, -1), (1, -3), (-1, -3), (-1, -1), (-3, -1), (-3, 1), (-1, 1), (-1, 3),
]  # fmt: skip
_ARROW: _Line = [(-5, -1.5), (0.5, -1.5), (0.5, -4), (5, 0), (0.5, 4), (0.5, 1.5), (-5, 1.5)]

# A second line is a hole.
_OUTLINES: dict[str, list[_Line]] = {
    "circle": [_circle(1)],
    "square": [[(-1, -1), (1, -1), (1, 1), (-1, 1)]],
    "triangle": [_arc(1, 0, 1, 3)],
    "star": [_star()],
    "ring": [_circle(1), _circle(0.55)],
    "cross": [_CROSS],
    "crescent": [_crescent()],
    "arrow": [_ARROW],
}
NAMES = tuple(_OUTLINES)


def rasterise(label: int, longest_side: float, turn: float, stretch: float) -> Mask:
    """The shape stretched along its x axis, turned (in turns), and scaled until its longest side has that many pixels.

    Sums and products only, one at a time: a matrix product may round differently on another machine.
    """
    cos, sin = math.cos(2 * math.pi * turn), math.sin(2 * math.pi * turn)
    lines = [np.array(line) * (stretch, 1.0) for line in _OUTLINES[NAMES[label]]]
    lines = [np.stack((x * cos - y * sin, x * sin + y * cos), axis=1) for x, y in (line.T for line in lines)]
    low, high = lines[0].min(0), lines[0].max(0)
    scale = longest_side / (high - low).max()
    width, height = (int(side) for side in np.ceil((high - low) * scale))
    return _fill([(line - low) * scale for line in lines], width, height)


def _fill(lines: list[Points], width: int, height: int) -> Mask:
    """Antialiased by averaging a larger drawing. OpenCV fills half a pixel too far, which becomes an eighth."""
    large = np.zeros((height * _SAMPLES, width * _SAMPLES), np.uint8)
    # OpenCV counts from the centre of the first pixel, we from its corner: hence the half.
    fixed = [np.rint((line * _SAMPLES - 0.5) * 2**_FRACTION_BITS).astype(np.int32) for line in lines]
    cv2.fillPoly(large, fixed, FULL, shift=_FRACTION_BITS)
    return np.asarray(cv2.resize(large, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
